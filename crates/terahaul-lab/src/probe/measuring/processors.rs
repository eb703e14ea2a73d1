//! How busy this machine's processors are.

use std::fs;

use crate::probe::samples::Processors;

/// What they have done so far; `None` where the kernel does not say.
pub(super) fn now() -> Option<Processors> {
    read(&fs::read_to_string("/proc/stat").ok()?)
}

/// The first line of proc(5)'s `stat`: user, nice, system, idle, iowait, irq, softirq, steal. Time that a hypervisor
/// took away was no more to be had than time that was used.
fn read(stat: &str) -> Option<Processors> {
    let ticks = stat.lines().next()?.strip_prefix("cpu ")?.split_whitespace().take(8);
    let ticks: Vec<u64> = ticks.map(str::parse).collect::<Result<_, _>>().ok()?;
    let idle = ticks.get(3)? + ticks.get(4)?;
    Some(Processors { busy: ticks.iter().sum::<u64>() - idle, idle })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_for_a_disk_is_idle_and_stolen_time_is_not() {
        let ticks = read("cpu  110 5 110 1040 20 0 5 10 7 7\ncpu0 1 2 3\n");
        assert_eq!(ticks, Some(Processors { busy: 240, idle: 1060 }));
        assert_eq!(read("intr 1"), None);
        assert!(now().is_some());
    }
}
