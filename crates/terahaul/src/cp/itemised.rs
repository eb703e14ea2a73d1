//! A change as rsync's `--itemize-changes` writes it: eleven letters and the path.

use terahaul_copy::Item;
use terahaul_core::EntryKind;
use terahaul_tree::decision::{Changes, Differs};

/// What the letters depend on besides the change.
#[derive(Clone, Copy, Debug, Default)]
pub struct Copying {
    /// To another host; otherwise it is received here.
    pub sent: bool,
    /// Files' contents decide (`--checksum`).
    pub compares: bool,
}

/// Eleven letters.
pub fn flags(item: &Item<'_>, copying: Copying) -> String {
    match item {
        Item::Removed { .. } => "*deleting  ".into(),
        Item::Destination { written, changes } => {
            letters(&EntryKind::Directory, false, *written, *changes, copying)
        }
        Item::Entry { entry, written, changes } => {
            let is_name = entry.extra.as_ref().is_some_and(|extra| extra.same_as.is_some());
            letters(&entry.kind, is_name, *written, *changes, copying)
        }
    }
}

/// `is_name`: it is another name of a file.
fn letters(kind: &EntryKind, is_name: bool, written: bool, changes: Changes, copying: Copying) -> String {
    let (kind, is_file) = match kind {
        EntryKind::File { .. } => ('f', true),
        EntryKind::Directory => ('d', false),
        EntryKind::Symlink { .. } => ('L', false),
    };
    let update = match (written, is_file) {
        (false, _) => '.',
        (true, true) if is_name => 'h',
        (true, true) if copying.sent => '<',
        (true, true) => '>',
        (true, false) => 'c',
    };
    if changes.new || changes.kind {
        return format!("{update}{kind}+++++++++");
    }
    let Changes { content, size, time, mode, other: Differs { user, group, acl, xattrs }, .. } = changes;
    // A link's text is always known, and of a file whether its content differs only where that decides.
    let known = content && (!is_file || copying.compares);
    let letters = [(known, 'c'), (size, 's'), (time, 't'), (mode, 'p'), (user, 'o'), (group, 'g')];
    let last = [(false, 'u'), (acl, 'a'), (xattrs, 'x')];
    let letters = letters.iter().chain(&last).map(|(set, letter)| if *set { *letter } else { '.' });
    [update, kind].into_iter().chain(letters).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use terahaul_core::{ByteCount, Entry, EntryPath, Mtime};

    fn line(kind: EntryKind, written: bool, changes: Changes) -> String {
        compared(kind, written, changes, false)
    }

    fn compared(kind: EntryKind, written: bool, changes: Changes, compares: bool) -> String {
        let path = EntryPath::new(&b"x"[..]).unwrap();
        let entry = Entry { path, kind, mtime: Mtime::default(), mode: 0o644, extra: None };
        flags(&Item::Entry { entry: &entry, written, changes }, Copying { sent: false, compares })
    }

    #[test]
    fn changes_are_written_as_rsync_writes_them() {
        let file = || EntryKind::File { size: ByteCount(1) };
        let none = Changes::default();
        assert_eq!(line(file(), true, Changes { new: true, ..none }), ">f+++++++++");
        assert_eq!(line(EntryKind::Directory, true, Changes { new: true, ..none }), "cd+++++++++");
        let grown = Changes { content: true, size: true, time: true, ..none };
        assert_eq!(line(file(), true, grown), ">f.st......");
        assert_eq!(compared(file(), true, grown, true), ">fcst......");
        let content = Changes { content: true, ..none };
        assert_eq!(line(file(), true, content), ">f.........");
        assert_eq!(compared(file(), true, content, true), ">fc........");
        assert_eq!(line(file(), false, Changes { mode: true, ..none }), ".f...p.....");
        assert_eq!(line(EntryKind::Directory, false, Changes { time: true, ..none }), ".d..t......");
        let link = EntryKind::Symlink { target: (*b"y").into() };
        assert_eq!(line(link, true, Changes { content: true, time: true, ..none }), "cLc.t......");
        assert_eq!(flags(&Item::Removed { path: b"x", folder: false }, Copying::default()).len(), 11);
    }
}
