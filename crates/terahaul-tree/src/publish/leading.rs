//! Folders that lead to what was chosen and were not chosen themselves: where they are new they get what others get.

use crate::TreeSink;
use crate::table::{FolderId, RowKind};

impl TreeSink {
    /// Wants the folders that have something wanted in them and are new in the receiving folder: not there, or placed there by an interrupted
    /// publishing.
    pub(super) fn want_what_leads(&self) {
        let manifest = self.manifest();
        let table = &manifest.table;
        let folders = (1..table.folder_count()).map(|folder| FolderId(folder as u32));
        let leading = folders.filter(|&folder| manifest.has_wanted(folder)).filter_map(|folder| {
            let (parent, name) = table.folder(folder);
            let entry = table.find_in(parent, name)?;
            let is_folder = table.row(entry)?.kind == RowKind::Directory;
            let mark = &manifest.marks[entry.0 as usize];
            (is_folder && mark.unwanted && !mark.lost).then(|| (entry, table.folder_path(folder)))
        });
        let leading: Vec<_> = leading.collect();
        drop(manifest);
        for (entry, path) in leading {
            if self.ready.contains(entry) || self.status_there(&path).is_none() {
                self.manifest_mut().mark_leading(entry);
            }
        }
    }
}
