//! Processor time that a virtual machine wanted and did not get.
//!
//! A host that is shared gives its processors to others meanwhile. What runs then takes longer, emulated paths deliver
//! late, and nothing inside the machine shows it but this count of the kernel's (`steal` in proc(5)).

use std::fs;

/// Processor time until now, of all processors together, in the kernel's ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessorTime {
    worked: u64,
    stolen: u64,
}

impl ProcessorTime {
    /// Since this machine started. Zero where the system does not count it.
    pub fn now() -> Self {
        fs::read_to_string("/proc/stat").ok().as_deref().and_then(Self::of).unwrap_or_default()
    }

    /// The share of the time wanted since `earlier` that others got: 0 to 1.
    pub fn stolen_since(self, earlier: Self) -> f64 {
        let (worked, stolen) =
            (self.worked.saturating_sub(earlier.worked), self.stolen.saturating_sub(earlier.stolen));
        if stolen == 0 { 0.0 } else { stolen as f64 / (worked + stolen) as f64 }
    }

    /// From the line of all processors: user, nice, system, idle, iowait, irq, softirq, steal.
    fn of(stat: &str) -> Option<Self> {
        let fields = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
        let ticks: Vec<u64> = fields.split_ascii_whitespace().map_while(|field| field.parse().ok()).collect();
        let [user, nice, system, _idle, _iowait, irq, softirq, stolen, ..] = ticks[..] else { return None };
        Some(Self { worked: user + nice + system + irq + softirq, stolen })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_is_of_what_was_wanted() {
        let before = ProcessorTime::of("cpu  10 0 5 900 7 0 1 4 0 0\ncpu0 1 2 3 4 5 6 7 8\n").unwrap();
        assert_eq!(before, ProcessorTime { worked: 16, stolen: 4 });
        let after = ProcessorTime::of("cpu  50 2 30 990 7 1 3 34 0 0\n").unwrap();
        assert!((after.stolen_since(before) - 0.3).abs() < 1e-9);
        assert_eq!(before.stolen_since(after), 0.0);
    }

    #[test]
    fn a_kernel_that_does_not_count_it_is_no_error() {
        assert_eq!(ProcessorTime::of("cpu  10 0 5 900\n"), None);
        assert_eq!(ProcessorTime::of("intr 5\n"), None);
    }
}
