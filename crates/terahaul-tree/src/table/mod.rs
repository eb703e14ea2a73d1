//! A manifest in little memory: names in one arena, folders and entries as rows of fixed length.
//!
//! A million entries take about 80 MB where a list of [`Entry`] takes three times that, and any entry can be
//! rebuilt. Sender and receiver both keep one.

mod extras;
mod index;

use std::collections::BTreeSet;
use std::sync::Arc;

use terahaul_core::{
    ByteCount, Changed, Entry, EntryIndex, EntryKind, EntryPath, Extra, Mtime, Owner, Xattr,
};

use extras::Extras;
use index::{Index, KeyHash, KeyHasher};

/// A folder's row. Folders have rows whether or not the manifest lists them as entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FolderId(pub(crate) u32);

impl FolderId {
    /// The transfer's root.
    pub(crate) const TOP: Self = Self(0);
}

/// The table is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the transfer's names take more than 4 GiB: split it into several")]
pub struct TableFull;

/// Where a name lies in the arena.
#[derive(Clone, Copy, Debug)]
struct Text {
    start: u32,
    len: u32,
}

#[derive(Clone, Copy, Debug)]
struct Folder {
    parent: FolderId,
    name: Text,
}

/// 32 bytes an entry; a link's target follows its name in the arena.
#[derive(Clone, Copy, Debug)]
struct Row {
    folder: FolderId,
    name: u32,
    /// A file's size, a link's target length.
    len: u64,
    seconds: i64,
    nanos: u32,
    mode: u16,
    name_len: u8,
    kind: RowKind,
}

/// An entry's kind without its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowKind {
    File,
    Directory,
    Symlink,
}

/// What the hot paths need of an entry, without allocating.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EntryRef<'a> {
    pub(crate) folder: FolderId,
    pub(crate) name: &'a [u8],
    pub(crate) kind: RowKind,
    /// A file's size; 0 for others.
    pub(crate) size: u64,
    pub(crate) mtime: Mtime,
    pub(crate) mode: u32,
    /// A link's text; empty for others.
    pub(crate) target: &'a [u8],
}

/// A path in the table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spot {
    /// What it lies in.
    pub(crate) folder: FolderId,
    hash: KeyHash,
    /// The last entry that has it.
    pub(crate) earlier: Option<EntryIndex>,
    /// The folder that has it, if any entry lies in it.
    pub(crate) below: Option<FolderId>,
}

/// Entries by index, and indices by path.
pub struct EntryTable {
    arena: Vec<u8>,
    folders: Vec<Folder>,
    rows: Vec<Row>,
    extras: Extras,
    folder_index: Index,
    row_index: Index,
    hasher: KeyHasher,
    /// The folder of the entry added last: the next one is most often in it too.
    last: (Vec<u8>, Option<FolderId>),
}

impl Default for EntryTable {
    fn default() -> Self {
        let top = Folder { parent: FolderId::TOP, name: Text { start: 0, len: 0 } };
        Self {
            arena: Vec::new(),
            folders: vec![top],
            rows: Vec::new(),
            extras: Extras::default(),
            folder_index: Index::default(),
            row_index: Index::default(),
            hasher: KeyHasher::default(),
            last: (Vec::new(), None),
        }
    }
}

impl EntryTable {
    /// An empty table.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds `entry` and gives it the next index. Several entries may have one path: those before the last have failed.
    ///
    /// Where it says that it is another name of an entry that is not here, it is kept as if it had not said so.
    pub fn push(&mut self, entry: &Entry) -> Result<EntryIndex, TableFull> {
        let spot = self.spot(&entry.path)?;
        self.push_at(spot, entry)
    }

    /// What is known by this path. The folders above it are known from now on.
    pub(crate) fn spot(&mut self, path: &EntryPath) -> Result<Spot, TableFull> {
        let (folder, name) = path.split();
        let folder = self.folder_for(folder.unwrap_or_default())?;
        let hash = self.hash(folder, name);
        let earlier = self.find_row(hash, folder, name);
        Ok(Spot { folder, hash, earlier, below: self.find_below(hash, folder, name) })
    }

    /// As [`push`](Self::push), at the spot of the entry's path: with a million entries each look-up is felt.
    pub(crate) fn push_at(&mut self, spot: Spot, entry: &Entry) -> Result<EntryIndex, TableFull> {
        let Spot { folder, hash, earlier, .. } = spot;
        let index = u32::try_from(self.rows.len()).map_err(|_| TableFull)?;
        if let Some(extra) = &entry.extra {
            let same_as = extra.same_as.as_ref().and_then(|path| self.find(path));
            self.extras.push(EntryIndex(index), extra, same_as)?;
        }
        let name = entry.path.split().1;
        let start = self.store(name)?.start;
        let (kind, len) = match &entry.kind {
            EntryKind::File { size } => (RowKind::File, size.0),
            EntryKind::Directory => (RowKind::Directory, 0),
            EntryKind::Symlink { target } => (RowKind::Symlink, u64::from(self.store(target)?.len)),
        };
        self.rows.push(Row {
            folder,
            name: start,
            len,
            seconds: entry.mtime.seconds,
            nanos: entry.mtime.nanos,
            mode: entry.mode as u16,
            name_len: name.len() as u8,
            kind,
        });
        match earlier {
            Some(EntryIndex(earlier)) => self.row_index.replace(hash, earlier, index),
            None => self.row_index.insert(hash, index),
        }
        Ok(EntryIndex(index))
    }

    /// With the entries of another table behind its own.
    pub fn followed_by(mut self, other: &Self) -> Result<Self, TableFull> {
        for entry in (0..other.len() as u32).filter_map(|index| other.entry(EntryIndex(index))) {
            self.push(&entry)?;
        }
        Ok(self)
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Rebuilds an entry.
    pub fn entry(&self, index: EntryIndex) -> Option<Entry> {
        let row = self.row(index)?;
        let kind = match row.kind {
            RowKind::File => EntryKind::File { size: ByteCount(row.size) },
            RowKind::Directory => EntryKind::Directory,
            RowKind::Symlink => EntryKind::Symlink { target: row.target.into() },
        };
        let extra = Extra {
            owner: self.extras.owner(index).cloned(),
            same_as: self.extras.same_as(index).and_then(|other| self.path(other)),
            xattrs: self.extras.xattrs(index).to_vec(),
            content: self.extras.content(index),
            changed: self.extras.changed(index),
        };
        let extra = extra.into_option();
        Some(Entry { path: self.path(index)?, kind, mtime: row.mtime, mode: row.mode, extra })
    }

    /// Whose the entry is, if it says so.
    pub fn owner(&self, index: EntryIndex) -> Option<&Arc<Owner>> {
        self.extras.owner(index)
    }

    /// The earlier entry that this one is another name of.
    pub fn same_as(&self, index: EntryIndex) -> Option<EntryIndex> {
        self.extras.same_as(index)
    }

    /// From this entry on, those that are other names of earlier ones, each behind the first.
    pub(crate) fn other_names(&self, from: EntryIndex) -> impl Iterator<Item = (EntryIndex, EntryIndex)> {
        self.extras.other_names(from)
    }

    /// Which state of its sender's file the entry is, where that is known.
    pub fn changed(&self, index: EntryIndex) -> Option<Changed> {
        self.extras.changed(index)
    }

    /// The entry's extended attributes, sorted by name.
    pub fn xattrs(&self, index: EntryIndex) -> &[Xattr] {
        self.extras.xattrs(index)
    }

    /// An entry's path.
    pub fn path(&self, index: EntryIndex) -> Option<EntryPath> {
        let row = self.row(index)?;
        let mut path = self.folder_path(row.folder);
        if !path.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(row.name);
        EntryPath::new(path).ok()
    }

    /// The names at the top under which there is a file or a link.
    pub(crate) fn tops_with_leaves(&self) -> BTreeSet<Vec<u8>> {
        // Folders come behind those that they are in.
        let mut tops = vec![FolderId::TOP; self.folders.len()];
        for at in 1..self.folders.len() {
            let parent = self.folders[at].parent;
            tops[at] = if parent == FolderId::TOP { FolderId(at as u32) } else { tops[parent.0 as usize] };
        }
        let leaves = self.rows.iter().filter(|row| row.kind != RowKind::Directory);
        let (at_top, below): (Vec<&Row>, Vec<&Row>) = leaves.partition(|row| row.folder == FolderId::TOP);
        let below: BTreeSet<_> = below.into_iter().map(|row| tops[row.folder.0 as usize].0).collect();
        let below = below.into_iter().map(|top| self.folder(FolderId(top)).1.to_vec());
        at_top.into_iter().map(|row| row.name_in(&self.arena).to_vec()).chain(below).collect()
    }

    /// The last entry with this path.
    pub fn find(&self, path: &EntryPath) -> Option<EntryIndex> {
        let (folder, name) = path.split();
        self.find_in(self.find_folder(folder.unwrap_or_default())?, name)
    }

    pub(crate) fn row(&self, index: EntryIndex) -> Option<EntryRef<'_>> {
        let row = self.rows.get(index.0 as usize)?;
        let after_name = row.name as usize + usize::from(row.name_len);
        let target_len = if row.kind == RowKind::Symlink { row.len as usize } else { 0 };
        Some(EntryRef {
            folder: row.folder,
            name: row.name_in(&self.arena),
            kind: row.kind,
            size: if row.kind == RowKind::File { row.len } else { 0 },
            mtime: Mtime { seconds: row.seconds, nanos: row.nanos },
            mode: u32::from(row.mode),
            target: &self.arena[after_name..after_name + target_len],
        })
    }

    /// The last entry called `name` in `folder`.
    pub(crate) fn find_in(&self, folder: FolderId, name: &[u8]) -> Option<EntryIndex> {
        self.find_row(self.hash(folder, name), folder, name)
    }

    fn find_row(&self, hash: KeyHash, folder: FolderId, name: &[u8]) -> Option<EntryIndex> {
        let same = |other: u32| {
            let row = self.rows[other as usize];
            row.folder == folder && row.name_in(&self.arena) == name
        };
        self.row_index.find(hash, same).map(EntryIndex)
    }

    pub(crate) fn folder_count(&self) -> usize {
        self.folders.len()
    }

    /// A folder's parent and name.
    pub(crate) fn folder(&self, folder: FolderId) -> (FolderId, &[u8]) {
        let row = self.folders[folder.0 as usize];
        (row.parent, self.text(row.name))
    }

    /// The folder's path; empty at the top.
    pub(crate) fn folder_path(&self, folder: FolderId) -> Vec<u8> {
        let mut names = Vec::new();
        let mut at = folder;
        while at != FolderId::TOP {
            let (parent, name) = self.folder(at);
            names.push(name);
            at = parent;
        }
        names.reverse();
        names.join(&b'/')
    }

    /// The folder called `name` in `parent`, if any entry lies in it.
    pub(crate) fn find_child(&self, parent: FolderId, name: &[u8]) -> Option<FolderId> {
        self.find_below(self.hash(parent, name), parent, name)
    }

    fn find_below(&self, hash: KeyHash, parent: FolderId, name: &[u8]) -> Option<FolderId> {
        let same = |other: u32| {
            let folder = self.folders[other as usize];
            folder.parent == parent && self.text(folder.name) == name
        };
        self.folder_index.find(hash, same).map(FolderId)
    }

    pub(crate) fn find_folder(&self, path: &[u8]) -> Option<FolderId> {
        if path.is_empty() {
            return Some(FolderId::TOP);
        }
        path.split(|&b| b == b'/').try_fold(FolderId::TOP, |at, name| self.find_child(at, name))
    }

    fn folder_for(&mut self, path: &[u8]) -> Result<FolderId, TableFull> {
        if path.is_empty() {
            return Ok(FolderId::TOP);
        }
        if let (last, Some(folder)) = &self.last
            && last == path
        {
            return Ok(*folder);
        }
        let mut at = FolderId::TOP;
        for name in path.split(|&b| b == b'/') {
            at = match self.find_child(at, name) {
                Some(known) => known,
                None => self.add_folder(at, name)?,
            };
        }
        self.last.0.clear();
        self.last.0.extend_from_slice(path);
        self.last.1 = Some(at);
        Ok(at)
    }

    fn add_folder(&mut self, parent: FolderId, name: &[u8]) -> Result<FolderId, TableFull> {
        let index = u32::try_from(self.folders.len()).map_err(|_| TableFull)?;
        let hash = self.hash(parent, name);
        let name = self.store(name)?;
        self.folders.push(Folder { parent, name });
        self.folder_index.insert(hash, index);
        Ok(FolderId(index))
    }

    fn hash(&self, folder: FolderId, name: &[u8]) -> KeyHash {
        self.hasher.hash(&(folder, name))
    }

    fn text(&self, text: Text) -> &[u8] {
        &self.arena[text.start as usize..(text.start + text.len) as usize]
    }

    fn store(&mut self, bytes: &[u8]) -> Result<Text, TableFull> {
        let start = u32::try_from(self.arena.len()).map_err(|_| TableFull)?;
        let len = u32::try_from(bytes.len()).map_err(|_| TableFull)?;
        start.checked_add(len).ok_or(TableFull)?;
        self.arena.extend_from_slice(bytes);
        Ok(Text { start, len })
    }
}

impl Row {
    fn name_in(self, arena: &[u8]) -> &[u8] {
        &arena[self.name as usize..self.name as usize + usize::from(self.name_len)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn entry() -> impl Strategy<Value = Entry> {
        let name = prop_oneof![
            "[a-c]{1,2}".prop_map(String::into_bytes),
            proptest::collection::vec(1u8..=255, 1..40).prop_map(|mut bytes| {
                bytes.iter_mut().filter(|b| matches!(**b, b'/' | b'.')).for_each(|b| *b = b'_');
                bytes
            }),
            Just(vec![b'n'; 255]),
        ];
        let path = proptest::collection::vec(name, 1..6)
            .prop_map(|names| EntryPath::new(names.join(&b'/')).unwrap());
        let kind = prop_oneof![
            any::<u64>().prop_map(|size| EntryKind::File { size: ByteCount(size) }),
            Just(EntryKind::Directory),
            proptest::collection::vec(any::<u8>(), 0..50)
                .prop_map(|target| EntryKind::Symlink { target: target.into() }),
        ];
        let owner = (0u32..4).prop_map(|user| {
            Arc::new(Owner { user, group: 1, user_name: Some((*b"ada").into()), group_name: None })
        });
        let value = proptest::collection::vec(any::<u8>(), 0..9);
        let changed = proptest::option::of(any::<i64>().prop_map(|seconds| {
            let at = Mtime { seconds, nanos: 1 };
            Changed { at, file: Some((1, 2)) }
        }));
        let extra = (proptest::option::of(owner), proptest::option::of(value), changed);
        let extra = extra.prop_map(|(owner, value, changed)| {
            let xattr = |value: Vec<u8>| Xattr { name: (*b"user.a").into(), value: value.into() };
            Extra { owner, xattrs: value.map(xattr).into_iter().collect(), changed, ..Extra::default() }
                .into_option()
        });
        (path, kind, any::<i64>(), 0u32..1_000_000_000, 0u32..0o10000, extra).prop_map(
            |(path, kind, seconds, nanos, mode, extra)| Entry {
                path,
                kind,
                mtime: Mtime { seconds, nanos },
                mode,
                extra,
            },
        )
    }

    proptest! {
        #[test]
        fn every_entry_is_rebuilt_and_found(entries in proptest::collection::vec(entry(), 0..60)) {
            let mut table = EntryTable::new();
            let mut last = BTreeMap::new();
            for (at, entry) in entries.iter().enumerate() {
                let index = table.push(entry).unwrap();
                prop_assert_eq!(index, EntryIndex(at as u32));
                last.insert(entry.path.clone(), index);
            }
            for (at, entry) in entries.iter().enumerate() {
                let rebuilt = table.entry(EntryIndex(at as u32));
                prop_assert_eq!(rebuilt.as_ref(), Some(entry));
            }
            for (path, index) in last {
                prop_assert_eq!(table.find(&path), Some(index));
            }
            prop_assert_eq!(table.find(&EntryPath::new(&b"zz/none"[..]).unwrap()), None);
        }
    }

    #[test]
    fn another_name_is_found_again_by_its_index() {
        let named = |name: &str, same_as: Option<&str>| {
            let path = |name: &str| EntryPath::new(name.as_bytes()).unwrap();
            let extra = Extra { same_as: same_as.map(path), ..Extra::default() }.into_option();
            let kind = EntryKind::File { size: ByteCount(0) };
            Entry { path: path(name), kind, mtime: Mtime::default(), mode: 0o644, extra }
        };
        let mut table = EntryTable::new();
        let entries =
            [named("a/x", None), named("y", None), named("b/z", Some("y")), named("c", Some("none"))];
        entries.iter().for_each(|entry| {
            table.push(entry).unwrap();
        });
        assert_eq!(table.same_as(EntryIndex(2)), Some(EntryIndex(1)));
        assert_eq!(table.entry(EntryIndex(2)).as_ref(), Some(&entries[2]));
        assert_eq!(table.same_as(EntryIndex(3)), None);
    }

    #[test]
    fn a_row_stays_small() {
        assert_eq!(size_of::<Row>(), 32);
    }
}
