//! What is in large files, hashed before anybody asks.
//!
//! Until the other end is there a sender has little to do, and then it is asked, group by group, whether a file is as an older one is.
//! What was hashed by then is not read for that. Nothing is lost if nobody asks, and nothing shows: access times stay as they were, and
//! what is not on a disk is left alone, because reading it may fetch a tape.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::{Mode, OFlags, Stat};
use terahaul_core::delta::group_len;
use terahaul_core::{BLOCK_SIZE, BlockHasher, EntryPath, Hash, Mtime};
use terahaul_store::PIECE;

use super::{TreeSource, compare};
use crate::beneath::{Purpose, open_folder, read_flags, split};
use crate::listing::{is_settled, is_unchanged, size_of_file};
use crate::positional::read_up_to;

/// Values kept, of 32 bytes each: of some 17 GB of large files, fewer of smaller ones.
const MOST_VALUES: usize = 1 << 19;
/// Threads that hash, at most.
const MOST_THREADS: usize = 8;

/// A file of more than a block, as the walk has found it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LargeFile {
    /// When it was changed. It comes first in the order: what was changed last is the likeliest to be another at the other end.
    pub mtime: Mtime,
    /// Where it is in the transfer.
    pub path: EntryPath,
    /// Its length in bytes.
    pub size: u64,
}

/// What was hashed so far. Shared by threads.
#[derive(Default)]
pub(super) struct Ahead(Mutex<State>);

#[derive(Default)]
struct State {
    files: HashMap<EntryPath, Known>,
    /// Values of all of them.
    values: usize,
}

/// What is known of one file.
struct Known {
    /// What the system said of it before it was read.
    stat: Stat,
    /// Bytes of a group.
    group: u32,
    /// The values of its blocks' groups, by where in the file the block begins.
    blocks: HashMap<u64, Arc<[Hash]>>,
}

impl Ahead {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The values of the groups of `group` bytes of the block that begins at `offset`, if this is the file that was hashed, and nobody
    /// has changed it.
    pub(super) fn find(&self, path: &EntryPath, stat: &Stat, offset: u64, group: u32) -> Option<Arc<[Hash]>> {
        let state = self.state();
        let known = state.files.get(path)?;
        let same = known.group == group && is_unchanged(&known.stat, stat);
        known.blocks.get(&offset).filter(|_| same).cloned()
    }

    /// Nothing was hashed.
    pub(super) fn is_empty(&self) -> bool {
        self.state().files.is_empty()
    }

    /// `false` when that was enough.
    fn add(&self, &Opened { file, stat, group, .. }: &Opened<'_>, offset: u64, values: Vec<Hash>) -> bool {
        let mut state = self.state();
        state.values += values.len();
        let anew = || Known { stat, group, blocks: HashMap::new() };
        state.files.entry(file.path.clone()).or_insert_with(anew).blocks.insert(offset, values.into());
        state.values < MOST_VALUES
    }
}

/// One file whose blocks are handed out to threads.
struct Opened<'a> {
    file: &'a LargeFile,
    content: OwnedFd,
    stat: Stat,
    group: u32,
}

/// Which block is hashed next.
struct Next<'a> {
    files: std::slice::Iter<'a, LargeFile>,
    opened: Option<(Arc<Opened<'a>>, u64)>,
}

impl TreeSource {
    /// Hashes these files one after the other, by several threads, while `go_on` says so. They need not be in the manifest yet.
    /// What cannot be read, or has changed, is left out: whoever sends it meets that again.
    pub fn hash_ahead(&self, files: &[LargeFile], go_on: &(dyn Fn() -> bool + Sync)) {
        let next = Mutex::new(Next { files: files.iter(), opened: None });
        let hash = || self.hash_some(&next, go_on);
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(MOST_THREADS);
        std::thread::scope(|scope| {
            for _ in 1..threads {
                // With fewer of them where the system gives no more.
                let _ = std::thread::Builder::new().name("ahead".into()).spawn_scoped(scope, hash);
            }
            hash();
        });
    }

    fn hash_some(&self, next: &Mutex<Next<'_>>, go_on: &dyn Fn() -> bool) {
        let mut buffer = vec![0; PIECE];
        while go_on() {
            let claimed = next.lock().unwrap_or_else(PoisonError::into_inner).claim(self);
            let Some((opened, offset)) = claimed else { return };
            let Some(values) = opened.hash(offset, &mut buffer, go_on) else { continue };
            if !self.ahead.add(&opened, offset, values) {
                return;
            }
        }
    }

    fn open_ahead<'a>(&self, file: &'a LargeFile) -> Option<Opened<'a>> {
        let group = group_len(file.size)?;
        let path = file.path.as_bytes();
        let (folder, name) = split(path);
        let folder = open_folder(self.roots.base_of(path)?, folder, Purpose::Pass).ok()?;
        let content = rustix::fs::openat(&folder, name, flags(), Mode::empty()).ok()?;
        let stat = rustix::fs::fstat(&content).ok()?;
        let fits = compare(&stat, file.size, file.mtime).is_ok() && is_here(&stat) && is_settled(&stat);
        fits.then_some(Opened { file, content, stat, group })
    }
}

/// Without a trace. Of files of others, that is refused.
fn flags() -> OFlags {
    #[cfg(target_os = "linux")]
    return read_flags() | OFlags::NOATIME;
    #[cfg(not(target_os = "linux"))]
    read_flags()
}

/// Whether most of a file is on its disk: of one that was moved to a tape there is little or nothing.
fn is_here(stat: &Stat) -> bool {
    /// Bytes that `st_blocks` counts in, whatever the file system's own blocks are.
    const UNIT: u64 = 512;
    (stat.st_blocks as u64).saturating_mul(UNIT) >= size_of_file(stat) / 2
}

impl<'a> Next<'a> {
    fn claim(&mut self, source: &TreeSource) -> Option<(Arc<Opened<'a>>, u64)> {
        loop {
            if let Some((opened, at)) = &mut self.opened
                && *at < opened.file.size
            {
                let offset = std::mem::replace(at, *at + BLOCK_SIZE);
                return Some((Arc::clone(opened), offset));
            }
            let file = self.files.next()?;
            self.opened = source.open_ahead(file).map(|opened| (Arc::new(opened), 0));
        }
    }
}

impl Opened<'_> {
    /// The values of the block that begins at `offset`; `None` if that is not to go on. Whether they are of one moment is seen when they
    /// are [asked for](Ahead::find).
    fn hash(&self, offset: u64, buffer: &mut [u8], go_on: &dyn Fn() -> bool) -> Option<Vec<Hash>> {
        let mut hasher = BlockHasher::in_groups_at(offset, self.group)?;
        if !is_unchanged(&self.stat, &rustix::fs::fstat(&self.content).ok()?) {
            return None;
        }
        let (mut at, end) = (offset, self.file.size.min(offset + BLOCK_SIZE));
        while at < end {
            let some = buffer.len().min((end - at) as usize);
            if !go_on() || read_up_to(&self.content, &mut buffer[..some], at).ok()? < some {
                return None;
            }
            hasher.update(&buffer[..some]);
            at += some as u64;
        }
        Some(hasher.finish_groups())
    }
}
