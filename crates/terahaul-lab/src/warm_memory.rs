//! Free memory that a virtual machine keeps.
//!
//! A page of a virtual machine is backed by its host when it is first touched, and a host that takes free memory back (free
//! page reporting) lets that happen again after every removed file and every program that ended. Where this was measured a
//! gigabyte of such pages cost whoever touched them 1.2 to 4 s of processor time, and 0.4 to 0.5 s once they were there:
//! more than most peers' own work, and more for whoever ran after a pause.
//!
//! Hosts are told of free memory in large blocks only: Linux reports 2 MiB and more. So the lab touches as much memory as
//! its runs will take, and gives back all but a page in each mebibyte. What is free then is in smaller blocks, is not
//! reported, and is what the kernel hands out first. Nothing happens while a clock runs, and nobody has to know beforehand
//! how much a run takes, or when.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};

use memmap2::{Advice, MmapMut};

/// Stays untouched: what runs besides must not go short meanwhile.
const SPARE: u64 = 3 << 29;
/// No page is smaller than this.
const PAGE: usize = 4096;
/// A page in each of these stays: two in a block that would be reported, as the kernel hands out pages in their order, but
/// not strictly.
const STRETCH: usize = 1 << 20;

/// Memory that is free, and stays backed by the host until this is dropped.
#[derive(Debug)]
pub struct WarmMemory {
    /// One page in each stretch.
    kept: MmapMut,
}

impl WarmMemory {
    /// Touches `wanted` bytes, or as many as can be spared, and gives them back. `None` where the machine is not virtual,
    /// the system has no such memory or will not tell how much is free, or `stop` became true: runs go on without.
    pub fn prepare(wanted: u64, stop: &AtomicBool) -> Option<Self> {
        if !is_virtual(&fs::read_to_string("/proc/cpuinfo").ok()?) {
            return None;
        }
        let free = free(&fs::read_to_string("/proc/meminfo").ok()?)?;
        Self::touch(usize::try_from(at_most(wanted, free)).ok()?, stop)
    }

    fn touch(bytes: usize, stop: &AtomicBool) -> Option<Self> {
        let stretches = bytes / STRETCH;
        if stretches == 0 {
            return None;
        }
        let mut kept = small_pages(stretches * PAGE)?;
        let mut given_back = small_pages(stretches * (STRETCH - PAGE))?;
        // In turns: what is touched one after the other mostly is side by side in the machine's memory.
        for (keep, rest) in kept.chunks_mut(PAGE).zip(given_back.chunks_mut(STRETCH - PAGE)) {
            if stop.load(Ordering::Relaxed) {
                return None;
            }
            keep[0] = 1;
            rest.iter_mut().step_by(PAGE).for_each(|byte| *byte = 1);
        }
        Some(Self { kept })
    }

    /// Of how many bytes it is one page in each mebibyte.
    pub fn bytes(&self) -> u64 {
        (self.kept.len() / PAGE * STRETCH) as u64
    }
}

fn small_pages(bytes: usize) -> Option<MmapMut> {
    let pages = MmapMut::map_anon(bytes).ok()?;
    // A kernel without huge pages does not know the advice.
    let _ = pages.advise(Advice::NoHugePage);
    Some(pages)
}

fn at_most(wanted: u64, free: u64) -> u64 {
    wanted.min(free.saturating_sub(SPARE))
}

/// Whether `cpuinfo` says that a hypervisor is below.
fn is_virtual(cpuinfo: &str) -> bool {
    let flags = cpuinfo.lines().find_map(|line| line.strip_prefix("flags"));
    flags.is_some_and(|flags| flags.split_ascii_whitespace().any(|flag| flag == "hypervisor"))
}

/// Bytes that nothing uses, not even as a cache.
fn free(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemFree:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1 << 20;

    #[test]
    fn some_memory_is_left_to_others() {
        assert_eq!(at_most(4 * MB, SPARE + 64 * MB), 4 * MB);
        assert_eq!(at_most(4000 * MB, SPARE + 64 * MB), 64 * MB);
        assert_eq!(at_most(4000 * MB, SPARE / 2), 0);
    }

    #[test]
    fn a_page_in_each_mebibyte_is_kept_and_a_stop_ends_that() {
        let warm = WarmMemory::touch(5 * STRETCH + PAGE, &AtomicBool::new(false)).unwrap();
        assert_eq!(warm.bytes(), 5 * MB);
        assert!(warm.kept.chunks(PAGE).all(|page| page[0] == 1));
        assert!(WarmMemory::touch(5 * STRETCH, &AtomicBool::new(true)).is_none());
        assert!(WarmMemory::touch(STRETCH - 1, &AtomicBool::new(false)).is_none());
    }

    #[test]
    fn what_the_kernel_says_is_understood() {
        assert!(is_virtual("processor\t: 0\nflags\t\t: fpu hypervisor lahf_lm\n"));
        assert!(!is_virtual("processor\t: 0\nflags\t\t: fpu lahf_lm\nbugs\t\t: hypervisor\n"));
        assert_eq!(free("MemTotal:  9 kB\nMemFree:          5 kB\n"), Some(5 * 1024));
        assert_eq!(free("MemTotal:  9 kB\n"), None);
    }
}
