//! What of a sender's entries is here already, before they are declared.

use terahaul_tree::{Alike, Fingerprinter, FolderPrints};

use super::Landing;

impl Landing {
    /// Whether anything of the sources can be here, and a sender may ask what.
    pub(crate) fn may_have_some(&self) -> bool {
        self.rules.tell_alike()
            && !self.filter.has_list()
            && self.base.rename.is_none()
            // What a pattern stands for is not known here.
            && (!self.asked.patterns.is_empty()
                || self.survey.has_any(self.asked.names.iter().map(|name| name.0.as_slice())))
    }

    /// Of each entry of these folders, a folder's own before those in it, whether it is here as the sender has it, and so needs
    /// nothing. What was not asked for counts as different. Blocks.
    pub(crate) fn alike(&self, maker: &Fingerprinter, folders: &[FolderPrints]) -> Vec<bool> {
        let looked = self.survey.alike(maker, folders, &self.filter);
        let mut alike = Vec::new();
        let mut unchanged = 0;
        for (folder, Alike { own, found }) in folders.iter().zip(looked) {
            let first = folder.path.split(|&byte| byte == b'/').next().unwrap_or_default();
            let is_asked = self.is_asked(first);
            alike.extend(folder.own.map(|_| own && is_asked));
            unchanged += found.iter().filter(|same| **same && is_asked).count() as u64;
            alike.extend(found.into_iter().map(|same| same && is_asked));
        }
        self.state().landed.unchanged += unchanged;
        alike
    }
}
