//! What a sender does while it waits for the receiver: hashes large files, of which the receiver may have an older version.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::Ordering;

use terahaul_core::{BLOCK_SIZE, Entry, EntryKind};
use terahaul_tree::LargeFile;

use super::Offer;

/// Files kept for that. More than can be hashed while anybody waits.
const MOST: usize = 1024;

/// Those of the walk's large files that were changed last.
#[derive(Default)]
pub(super) struct Latest(BinaryHeap<Reverse<LargeFile>>);

impl Latest {
    pub(super) fn add(&mut self, entries: &[Entry]) {
        let large = entries.iter().filter_map(|entry| match entry.kind {
            EntryKind::File { size } if size.0 > BLOCK_SIZE => {
                Some(LargeFile { mtime: entry.mtime, path: entry.path.clone(), size: size.0 })
            }
            _ => None,
        });
        for file in large {
            self.0.push(Reverse(file));
            if self.0.len() > MOST {
                self.0.pop();
            }
        }
    }

    /// The last one changed first.
    fn into_files(self) -> Vec<LargeFile> {
        self.0.into_sorted_vec().into_iter().map(|Reverse(file)| file).collect()
    }
}

impl Offer {
    /// Walks to the end, as [`Self::walk_ahead`], and hashes what large files hold for as long as nobody has more urgent business:
    /// until [`Self::handle_session`].
    pub(crate) fn walk_and_hash_ahead(&self) {
        let mut latest = Latest::default();
        self.walk_looking(|entries| latest.add(entries));
        if self.is_waiting() {
            // What is waited for goes first, at the far side too.
            step_back();
            self.source.hash_ahead(&latest.into_files(), &|| self.is_waiting());
        }
    }

    /// A session has begun.
    pub(crate) fn handle_session(&self) {
        self.in_session.store(true, Ordering::Relaxed);
    }

    fn is_waiting(&self) -> bool {
        !self.is_stopped() && !self.in_session.load(Ordering::Relaxed)
    }
}

/// Lets other threads go before this one, and those that it will start.
pub(crate) fn step_back() {
    const BEHIND: i32 = 5;
    let is_before = || rustix::process::getpriority_process(None).is_ok_and(|now| now < BEHIND);
    // Linux has a priority for each thread, others for the process.
    if cfg!(target_os = "linux") && is_before() {
        // It goes on as it was.
        let _ = rustix::process::setpriority_process(None, BEHIND);
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use terahaul_core::delta::chunk_len;
    use terahaul_core::{BlockNumber, ByteCount, EntryPath, Layout, Mtime};
    use terahaul_store::BlockSource;

    use super::*;
    use crate::rules::{Compare, Kept, Selection};

    fn entry(size: u64, seconds: i64) -> Entry {
        let path = EntryPath::new(format!("{size} at {seconds}").into_bytes()).unwrap();
        let kind = EntryKind::File { size: ByteCount(size) };
        Entry { path, kind, mtime: Mtime { seconds, nanos: 0 }, mode: 0o644, extra: None }
    }

    #[test]
    fn of_many_large_files_those_changed_last_are_kept_and_come_first() {
        let mut latest = Latest::default();
        let most = MOST as i64;
        latest.add(&(0..2 * most).map(|at| entry(BLOCK_SIZE + 1, at * 7 % (2 * most))).collect::<Vec<_>>());
        latest.add(&[entry(BLOCK_SIZE, 3 * most)]);
        let times: Vec<i64> = latest.into_files().iter().map(|file| file.mtime.seconds).collect();
        assert_eq!(times, (most..2 * most).rev().collect::<Vec<_>>());
    }

    #[test]
    fn who_steps_back_is_not_brought_forward() {
        use rustix::process::{getpriority_process, setpriority_process};

        let stepping = || {
            setpriority_process(None, 15).unwrap();
            step_back();
            getpriority_process(None).unwrap()
        };
        if cfg!(target_os = "linux") {
            // Each thread has its own.
            assert_eq!(std::thread::spawn(stepping).join().unwrap(), 15);
        }
    }

    #[test]
    fn once_a_session_has_begun_nobody_hashes_ahead() {
        let size = 2 * BLOCK_SIZE;
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, vec![7; size as usize]).unwrap();
        let mut layout = Layout::new();
        layout.append(Some(ByteCount(size))).unwrap();
        let (shape, group) = (layout.shape(BlockNumber(0)).unwrap(), chunk_len(size).unwrap());
        let is_hashed = |begun: bool| {
            let offer = Offer::open(&[&file], &Selection::default(), Kept::default(), Compare::default());
            let offer = offer.unwrap();
            if begun {
                offer.handle_session();
            }
            offer.walk_and_hash_ahead();
            offer.source().known_groups(&shape, group).is_some()
        };
        // What was changed a moment ago is left alone.
        let deadline = Instant::now() + Duration::from_secs(60);
        while !is_hashed(false) {
            assert!(Instant::now() < deadline, "it is not hashed");
        }
        assert!(!is_hashed(true));
    }
}
