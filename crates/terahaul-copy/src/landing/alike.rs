//! What of a sender's entries is here already, before they are declared.

use terahaul_core::{ByteCount, Entry, EntryKind, EntryPath, Mtime};
use terahaul_tree::{Alike, Fingerprinter, FolderPrints, TableFull};

use super::Landing;

impl Landing {
    /// Whether anything of the sources can be here, and a sender may ask what.
    pub(crate) fn may_have_some(&self) -> bool {
        // Of two names that are one here the second is refused for the first one's sake, which has to be declared for that.
        let folds_names = self.staged.as_ref().is_some_and(|(sink, _)| sink.folds_names());
        self.rules.tell_alike()
            && !folds_names
            && !self.filter.has_list()
            && self.base.rename.is_none()
            // What a pattern stands for is not known here.
            && (!self.asked.patterns.is_empty()
                || self.survey.has_any(self.asked.names.iter().map(|name| name.0.as_slice())))
    }

    /// Whether a sender may ask about this folder: what was not asked for is none of its business.
    pub(crate) fn may_tell(&self, folder: &FolderPrints) -> bool {
        self.is_asked(top_of(folder))
    }

    /// Of each entry of these folders, a folder's own before those in it, whether it is here as the sender has it, and so needs
    /// nothing. Blocks.
    pub(crate) fn alike(
        &self,
        maker: &Fingerprinter,
        folders: &[FolderPrints],
    ) -> Result<Vec<bool>, TableFull> {
        // What is removed is what the sender has not.
        let named = self.rules.delete.is_some();
        let looked = self.survey.alike(maker, folders, &self.filter, named);
        let mut alike = Vec::new();
        let mut state = self.state();
        for (folder, Alike { own, found, paths }) in folders.iter().zip(looked) {
            let unchanged = found.iter().filter(|same| **same).count() as u64;
            state.landed.unchanged += unchanged;
            if unchanged > 0 {
                state.tops_alike.insert(top_of(folder).to_vec());
            }
            let own_path = (own && named).then(|| (folder.path.to_vec(), EntryKind::Directory));
            let file = EntryKind::File { size: ByteCount(0) };
            let paths = paths.into_iter().map(|path| (path, file.clone()));
            for (path, kind) in own_path.into_iter().chain(paths) {
                let Ok(path) = EntryPath::new(path) else { continue };
                if let Some(alike) = &mut state.alike {
                    alike.push(&Entry { path, kind, mtime: Mtime::default(), mode: 0, extra: None })?;
                }
            }
            alike.extend(folder.own.map(|_| own));
            alike.extend(found);
        }
        Ok(alike)
    }
}

/// The name of a folder's source.
fn top_of(folder: &FolderPrints) -> &[u8] {
    folder.path.split(|&byte| byte == b'/').next().unwrap_or_default()
}
