//! Whole transfers from folder to folder, without a network.

mod ahead;
mod closing;
mod copying;
mod crashes;
mod emptied;
mod failing;
mod mounts;
mod names;
mod publishing;
mod receiving;
mod round_trip;
mod rules;
mod sending;
mod sharing;
mod surveying;
mod sweeping;
mod verifying;
mod walking;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::IoSlice;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use terahaul_core::{
    BlockHasher, BlockNumber, BlockProof, BlockShape, Entry, EntryIndex, EntryKind, EntryPath, Hash, Layout,
    Mtime, TransferId,
};
use terahaul_store::{BlockSink, BlockSource, EntryFailure, Ledger, SinkError};

use crate::{Filter, Journal, Overwrite, Reading, Roots, Skipped, TreeSink, TreeSource, walk, walk_reading};

/// A sender that has walked its folders.
struct Sender {
    source: TreeSource,
    layout: Layout,
    skipped: Vec<Skipped>,
}

impl Sender {
    fn of(path: impl AsRef<Path>) -> Self {
        Self::with(&[path], &Filter::default(), 2)
    }

    fn with<P: AsRef<Path>>(paths: &[P], filter: &Filter, helpers: usize) -> Self {
        Self::reading(paths, filter, Reading::default(), helpers)
    }

    fn reading<P: AsRef<Path>>(paths: &[P], filter: &Filter, reading: Reading, helpers: usize) -> Self {
        let roots = Arc::new(Roots::open_filtered(paths, filter).unwrap());
        let mut sender =
            Self { source: TreeSource::new(Arc::clone(&roots)), layout: Layout::new(), skipped: Vec::new() };
        let all = walk_reading(&roots, filter, reading, helpers, |batch| {
            sender.source.append(&batch.found).unwrap();
            for entry in &batch.found {
                sender.layout.append(entry.file_size()).unwrap();
            }
            sender.skipped.extend(batch.skipped);
            ControlFlow::Continue(())
        });
        assert!(all);
        sender.layout.seal();
        sender
    }

    fn entries(&self) -> Vec<Entry> {
        (0..self.source.entry_count()).map(|at| self.source.entry(EntryIndex(at as u32)).unwrap()).collect()
    }

    fn paths(&self) -> Vec<String> {
        self.entries().iter().map(|entry| entry.path.to_string()).collect()
    }

    fn find(&self, path: &str) -> EntryIndex {
        self.source.find(&EntryPath::new(path.as_bytes()).unwrap()).unwrap()
    }

    fn shapes(&self) -> Vec<BlockShape> {
        (0..self.layout.block_count() as u32)
            .map(|block| self.layout.shape(BlockNumber(block)).unwrap())
            .collect()
    }

    /// The block's bytes, checked to be as many as they should be.
    fn read(&self, shape: &BlockShape, buffer: usize) -> (Vec<u8>, Vec<EntryFailure>) {
        let mut bytes = Vec::new();
        let failures = self
            .source
            .read_block(shape, &mut vec![0xEE; buffer], &mut |piece| {
                bytes.extend_from_slice(piece);
                assert!(
                    piece.len() == buffer || bytes.len() == shape.len as usize,
                    "only the last piece is short"
                );
                Ok(())
            })
            .unwrap();
        assert_eq!(bytes.len(), shape.len as usize);
        (bytes, failures)
    }

    /// All entries that fail while everything is read.
    fn failures(&self) -> Vec<EntryFailure> {
        self.shapes().iter().flat_map(|shape| self.read(shape, 1 << 16).1).collect()
    }
}

fn transfer() -> TransferId {
    TransferId([5; 16])
}

fn staging(dir: &Path) -> PathBuf {
    dir.join(format!(".terahaul-{}", transfer()))
}

/// A receiver with the sender's manifest.
fn receiver(dir: &Path, entries: &[Entry]) -> (TreeSink, Journal) {
    let (sink, journal) = TreeSink::open(dir, transfer(), Hash([1; 32])).unwrap();
    for entry in entries {
        sink.append(entry).unwrap();
    }
    (sink, journal)
}

/// Writes a block in calls and slices of uneven lengths.
fn write_block(sink: &TreeSink, shape: &BlockShape, bytes: &[u8]) -> Result<BlockProof, SinkError> {
    let mut hasher = BlockHasher::new(shape);
    let mut writer = sink.begin(shape)?;
    let mut rest = bytes;
    let mut step = 1;
    while !rest.is_empty() {
        let (now, later) = rest.split_at(rest.len().min(step));
        rest = later;
        hasher.update(now);
        let slices: Vec<IoSlice<'_>> = now.chunks(1 + step / 3).map(IoSlice::new).collect();
        writer.write(&slices)?;
        step = (step * 5 + 3) % 70_000;
    }
    writer.finish()?;
    Ok(hasher.finish())
}

/// Sends the blocks that are not here yet, in this order, and records each.
fn deliver(sender: &Sender, sink: &TreeSink, journal: &Journal, order: &[usize]) {
    let shapes = sender.shapes();
    let earlier = journal.blocks();
    let known: Vec<_> = shapes.iter().filter(|shape| earlier.contains(shape.number)).cloned().collect();
    let mut here = sink.restore(journal, &known).unwrap();
    for &at in order {
        let shape = &shapes[at % shapes.len()];
        if here.contains(shape.number) {
            continue;
        }
        let (bytes, failures) = sender.read(shape, 4096);
        let proof = write_block(sink, shape, &bytes).unwrap();
        failures.iter().for_each(|failure| sink.fail(failure.entry));
        sink.sync().unwrap();
        journal.record(&[(shape.number, proof)]).unwrap();
        here.insert(shape.number);
    }
}

fn in_order(sender: &Sender) -> Vec<usize> {
    (0..sender.shapes().len()).collect()
}

/// The whole way: walk, read, write, publish.
fn transfer_all(from: &Path, to: &Path) {
    let sender = Sender::of(from);
    let (sink, journal) = receiver(to, &sender.entries());
    deliver(&sender, &sink, &journal, &in_order(&sender));
    sink.publish(Overwrite::Refuse).unwrap();
}

/// What a user sees of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    mode: u32,
    mtime: (i64, i64),
    content: Content,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Content {
    File(Vec<u8>),
    Folder,
    Link(Vec<u8>),
    Other,
}

/// Everything below `dir`, except staging folders.
fn snapshot(dir: &Path) -> BTreeMap<Vec<u8>, Seen> {
    let mut seen = BTreeMap::new();
    let mut folders = vec![dir.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for found in std::fs::read_dir(&folder).unwrap() {
            let found = found.unwrap();
            if found.file_name().as_bytes().starts_with(b".terahaul-") {
                continue;
            }
            let meta = found.path().symlink_metadata().unwrap();
            let content = if meta.is_dir() {
                folders.push(found.path());
                Content::Folder
            } else if meta.is_symlink() {
                Content::Link(std::fs::read_link(found.path()).unwrap().into_os_string().as_bytes().to_vec())
            } else if meta.is_file() {
                Content::File(std::fs::read(found.path()).unwrap())
            } else {
                Content::Other
            };
            let path = found.path().strip_prefix(dir).unwrap().as_os_str().as_bytes().to_vec();
            let mtime = (meta.mtime(), meta.mtime_nsec());
            seen.insert(path, Seen { mode: meta.mode() & 0o7777, mtime, content });
        }
    }
    seen
}

fn bytes_path(dir: &Path, name: &[u8]) -> PathBuf {
    dir.join(OsStr::from_bytes(name))
}

fn file_entry(path: &[u8], size: u64) -> Entry {
    Entry {
        path: EntryPath::new(path).unwrap(),
        kind: EntryKind::File { size: terahaul_core::ByteCount(size) },
        mtime: Mtime { seconds: 1_600_000_000, nanos: 7 },
        mode: 0o644,
        extra: None,
    }
}

/// Gives a path a modification time that no clock gives it by chance.
fn date(path: &Path, seconds: i64) {
    let times = crate::sink::times(Mtime { seconds, nanos: 123_456_789 });
    rustix::fs::utimensat(rustix::fs::CWD, path, &times, rustix::fs::AtFlags::SYMLINK_NOFOLLOW).unwrap();
}

/// Makes files with this content, and folders for names that end in `/`.
fn plant(dir: &Path, files: &[(&str, &[u8])]) {
    for (path, content) in files {
        let path = dir.join(path);
        if path.as_os_str().as_bytes().ends_with(b"/") {
            std::fs::create_dir_all(path).unwrap();
        } else {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }
    }
}
