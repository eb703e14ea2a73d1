//! Memory for a run's copy that has been touched before the clock starts.
//!
//! A page of a virtual machine is backed by its host when it is first touched, and a host that takes free memory back lets
//! that happen again after every removed file. Where this was measured a gigabyte of such pages cost the writer 1.4 to 2.2 s
//! of processor time, and 0.17 s once they were there: more than most peers' own work, and more for whoever ran after a
//! pause. So the lab holds as much memory as the copy will take, and hands it over at the rate at which the run takes it.

use std::fs::{self, File};
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rustix::fs::MemfdFlags;

/// Stays free whatever is held: what runs besides must not go short.
const SPARE: u64 = 3 << 29;
/// How often a run's appetite is looked at. At 4 GB/s it has taken 40 MB since.
const LOOK: Duration = Duration::from_millis(10);
/// Written at a time.
const STEP: usize = 1 << 20;

/// Held memory, and how much of it.
#[derive(Debug)]
pub(super) struct Reserve {
    file: File,
    held: u64,
}

impl Reserve {
    /// Holds `wanted` bytes, or as many as can be spared. `None` where the system has no such memory or will not tell how
    /// much is free: runs go on without.
    pub(super) fn hold(wanted: u64, stop: &AtomicBool) -> Option<Self> {
        let size = held_at_most(wanted, free()?);
        let file = rustix::fs::memfd_create("terahaul-lab-reserve", MemfdFlags::CLOEXEC).ok()?;
        let mut reserve = Self { file: file.into(), held: 0 };
        // Another value than zero: pages of zeros may be one page.
        let bytes = vec![1; STEP];
        while reserve.held < size && !stop.load(Ordering::Relaxed) {
            reserve.file.write_all(&bytes).ok()?;
            reserve.held += STEP as u64;
        }
        Some(reserve)
    }

    /// Runs `run`, and meanwhile gives back what the system takes.
    pub(super) fn during<T>(mut self, run: impl FnOnce() -> T) -> T {
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            let giver = scope.spawn(|| {
                let Some(at_first) = free() else { return };
                while self.held > 0 && !over.load(Ordering::Relaxed) {
                    thread::park_timeout(LOOK);
                    let Some(now) = free() else { return };
                    let due = due(at_first, now, self.held);
                    if due > 0 && self.file.set_len(self.held - due).is_err() {
                        return;
                    }
                    self.held -= due;
                }
            });
            let done = run();
            over.store(true, Ordering::Relaxed);
            giver.thread().unpark();
            done
        })
    }
}

fn held_at_most(wanted: u64, free: u64) -> u64 {
    wanted.min(free.saturating_sub(SPARE))
}

/// How much to give back where `at_first` bytes were free when the run began, `now` are, and `held` are held: as much as
/// was taken, so that what is free stays as it was.
fn due(at_first: u64, now: u64, held: u64) -> u64 {
    at_first.saturating_sub(now).min(held)
}

/// Bytes that nothing uses, not even as a cache.
fn free() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemFree:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1 << 20;

    #[test]
    fn what_a_run_takes_is_given_back_and_no_more_than_is_held() {
        assert_eq!(due(1000, 900, 500), 100);
        assert_eq!(due(1000, 200, 500), 500);
        // The run, or another program, has ended something.
        assert_eq!(due(1000, 1200, 500), 0);
    }

    #[test]
    fn some_memory_stays_free() {
        assert_eq!(held_at_most(4 * MB, SPARE + 64 * MB), 4 * MB);
        assert_eq!(held_at_most(4000 * MB, SPARE + 64 * MB), 64 * MB);
        assert_eq!(held_at_most(4000 * MB, SPARE / 2), 0);
    }

    #[test]
    fn it_holds_what_it_says_and_a_stop_ends_that() {
        let reserve = Reserve::hold(8 * MB, &AtomicBool::new(false)).unwrap();
        assert_eq!(reserve.file.metadata().unwrap().len(), reserve.held);
        assert!(reserve.held <= 8 * MB);
        assert_eq!(reserve.during(|| 7), 7);
        assert_eq!(Reserve::hold(8 * MB, &AtomicBool::new(true)).unwrap().held, 0);
    }
}
