//! Memory for a run's copy that has been touched before the clock starts.
//!
//! A page of a virtual machine is backed by its host when it is first touched, and a host that takes free memory back lets
//! that happen again after every removed file. Where this was measured a gigabyte of such pages cost the writer 1.4 to 2.2 s
//! of processor time, and 0.17 s once they were there: more than most peers' own work, and more for whoever ran after a
//! pause. So the lab holds as much memory as the copy will take, and hands it over at the rate at which the run takes it.
//!
//! Handing over happens while the clock runs, beside peers of which some use every processor. Two gigabytes in small pages
//! took 0.31 s of processor time to give back, in huge ones 0.007 s. And it has to be there before it is taken: given back only
//! as it was taken, two writers of 2 GB took 1.6 to 1.9 s of processor time, most of it for pages from elsewhere, and 0.8 s with
//! [`AHEAD`].

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use memmap2::{Advice, MmapMut};

/// Stays free whatever is held: what runs besides must not go short.
const SPARE: u64 = 3 << 29;
/// How often a run's appetite is looked at. At 4 GB/s it has taken 40 MB since.
const LOOK: Duration = Duration::from_millis(10);
/// Given back beyond what the run has taken.
const AHEAD: u64 = 512 << 20;
/// Held and given back at a time: several huge pages.
const PIECE: u64 = 16 << 20;
/// No page is smaller than this.
const SMALL_PAGE: usize = 4096;

/// Held memory.
#[derive(Debug)]
pub(super) struct Reserve {
    pieces: Vec<MmapMut>,
}

impl Reserve {
    /// Holds `wanted` bytes, or as many as can be spared. `None` where the system has no such memory or will not tell how
    /// much is free: runs go on without.
    pub(super) fn hold(wanted: u64, stop: &AtomicBool) -> Option<Self> {
        let pieces = held_at_most(wanted + AHEAD, free()?) / PIECE;
        let mut reserve = Self { pieces: Vec::new() };
        while (reserve.pieces.len() as u64) < pieces && !stop.load(Ordering::Relaxed) {
            reserve.pieces.push(touched_piece().ok()?);
        }
        Some(reserve)
    }

    fn held(&self) -> u64 {
        self.pieces.len() as u64 * PIECE
    }

    /// Runs `run`, and meanwhile gives back what the system takes.
    pub(super) fn during<T>(mut self, run: impl FnOnce() -> T) -> T {
        let Some(at_first) = free() else { return run() };
        self.give_back(at_first);
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            let giver = scope.spawn(|| {
                while !self.pieces.is_empty() && !over.load(Ordering::Relaxed) {
                    thread::park_timeout(LOOK);
                    self.give_back(at_first);
                }
            });
            let done = run();
            over.store(true, Ordering::Relaxed);
            giver.thread().unpark();
            done
        })
    }

    /// Where `at_first` bytes were free when the run began.
    fn give_back(&mut self, at_first: u64) {
        // A system that tells no more how much is free is not helped any more.
        let due = free().map_or(0, |now| due(at_first, now, self.held()));
        self.pieces.truncate(self.pieces.len() - due.div_ceil(PIECE) as usize);
    }
}

fn touched_piece() -> std::io::Result<MmapMut> {
    let mut piece = MmapMut::map_anon(PIECE as usize)?;
    // A kernel without huge pages gives small ones.
    let _ = piece.advise(Advice::HugePage);
    piece.iter_mut().step_by(SMALL_PAGE).for_each(|byte| *byte = 1);
    Ok(piece)
}

fn held_at_most(wanted: u64, free: u64) -> u64 {
    wanted.min(free.saturating_sub(SPARE))
}

/// How much to give back where `at_first` bytes were free when the run began, `now` are, and `held` are held: as much as
/// was taken and [`AHEAD`], so that so much more stays free than was.
fn due(at_first: u64, now: u64, held: u64) -> u64 {
    (at_first + AHEAD).saturating_sub(now).min(held)
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
    fn what_a_run_takes_is_given_back_ahead_of_it_and_no_more_than_is_held() {
        assert_eq!(due(1000, 1000, 9 * AHEAD), AHEAD);
        assert_eq!(due(1000, 900 + AHEAD, 9 * AHEAD), 100);
        assert_eq!(due(1000, 200, 500), 500);
        // The run, or another program, has ended something.
        assert_eq!(due(1000, 1200 + AHEAD, 500), 0);
    }

    #[test]
    fn some_memory_stays_free() {
        assert_eq!(held_at_most(4 * MB, SPARE + 64 * MB), 4 * MB);
        assert_eq!(held_at_most(4000 * MB, SPARE + 64 * MB), 64 * MB);
        assert_eq!(held_at_most(4000 * MB, SPARE / 2), 0);
    }

    #[test]
    fn it_holds_what_it_says_and_a_stop_ends_that() {
        let wanted = 2 * PIECE + MB;
        let reserve = Reserve::hold(wanted, &AtomicBool::new(false)).unwrap();
        assert!(reserve.held() <= 2 * PIECE + AHEAD);
        assert!(reserve.pieces.iter().all(|piece| piece.iter().step_by(SMALL_PAGE).all(|byte| *byte == 1)));
        assert_eq!(reserve.during(|| 7), 7);
        assert_eq!(Reserve::hold(wanted, &AtomicBool::new(true)).unwrap().held(), 0);
    }
}
