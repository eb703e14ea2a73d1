//! Folders on the way down to where a walk is.

use terahaul_core::Entry;

/// Folders that are declared only if something in them is, outermost first.
#[derive(Default)]
pub struct FoldersAbove(Vec<Entry>);

impl FoldersAbove {
    /// The walk enters this folder.
    pub fn enter(&mut self, folder: Entry) {
        self.drop_strangers(folder.path.as_bytes());
        self.0.push(folder);
    }

    /// Something at `path` is declared: the folders that have to be declared before it, each once.
    pub fn declare(&mut self, path: &[u8]) -> impl Iterator<Item = Entry> + '_ {
        self.drop_strangers(path);
        self.0.drain(..)
    }

    /// Those that the walk has left had nothing in them.
    fn drop_strangers(&mut self, path: &[u8]) {
        let above = |entry: &Entry| {
            path.strip_prefix(entry.path.as_bytes()).is_some_and(|rest| rest.first() == Some(&b'/'))
        };
        self.0.retain(above);
    }
}
