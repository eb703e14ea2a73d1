//! What the measuring machine is.

use std::collections::BTreeMap;
use std::fs;

use serde::{Deserialize, Serialize};
use terahaul_core::Date;

use crate::namespace::in_a_user_namespace;

/// The kernel's bounds for the buffers of sockets, below `/proc/sys/net`. On a long path it is they that decide what one
/// TCP connection carries.
const BUFFERS: [&str; 6] = [
    "ipv4/tcp_rmem",
    "ipv4/tcp_wmem",
    "core/rmem_default",
    "core/rmem_max",
    "core/wmem_default",
    "core/wmem_max",
];

/// The machine, as reports describe it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// The processor's name.
    pub processor: String,
    /// How many of them the system has.
    pub cores: usize,
    /// Bytes of memory.
    pub memory: u64,
    /// The kernel's name and release.
    pub kernel: String,
    /// The distribution.
    pub system: String,
    /// The congestion control that TCP uses unless told otherwise.
    pub congestion_control: String,
    /// Those that can be asked for.
    pub congestion_controls: String,
    /// The kernel's bounds for the buffers of sockets, by name.
    #[serde(default)]
    pub buffers: BTreeMap<String, String>,
    /// Whether the lab ran as root of a user namespace and not as the system's.
    #[serde(default)]
    pub in_a_user_namespace: bool,
    /// This program's version.
    pub terahaul: String,
    /// The BLAKE3 hash of the program that was measured: many builds have one version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
}

impl Machine {
    /// This machine.
    pub fn here() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default().trim().to_owned();
        let names = rustix::system::uname();
        let kernel = [names.sysname(), names.release(), names.machine()]
            .map(|text| text.to_string_lossy().into_owned());
        Self {
            processor: value(&read("/proc/cpuinfo"), "model name", ':').unwrap_or_else(|| kernel[2].clone()),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory: memory(&read("/proc/meminfo")),
            kernel: kernel.join(" "),
            system: value(&read("/etc/os-release"), "PRETTY_NAME", '=')
                .unwrap_or_default()
                .trim_matches('"')
                .to_owned(),
            congestion_control: read("/proc/sys/net/ipv4/tcp_congestion_control"),
            congestion_controls: read("/proc/sys/net/ipv4/tcp_available_congestion_control"),
            buffers: BUFFERS
                .map(|name| (name.rsplit('/').next().unwrap_or(name), read(&format!("/proc/sys/net/{name}"))))
                .into_iter()
                .filter(|(_, value)| !value.is_empty())
                .map(|(name, value)| (name.to_owned(), value.replace('\t', " ")))
                .collect(),
            in_a_user_namespace: in_a_user_namespace(),
            terahaul: env!("CARGO_PKG_VERSION").to_owned(),
            program: None,
        }
    }
}

fn value(text: &str, name: &str, separator: char) -> Option<String> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(separator)?.1.trim().to_owned())
}

fn memory(text: &str) -> u64 {
    let kib = value(text, "MemTotal", ':').and_then(|text| text.split(' ').next()?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

/// A moment as `2026-11-21T20:15:00Z`, from seconds since 1970.
pub fn utc(seconds: u64) -> String {
    let (date, time) = (Date::of_unix(seconds.cast_signed()), seconds % 86_400);
    format!("{date}T{:02}:{:02}:{:02}Z", time / 3600, time / 60 % 60, time % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_written_as_iso_8601() {
        assert_eq!(utc(0), "1970-01-01T00:00:00Z");
        assert_eq!(utc(1_795_291_200 + 3_661), "2026-11-21T21:01:01Z");
    }

    #[test]
    fn this_machine_has_a_kernel_and_memory() {
        let here = Machine::here();
        assert!(here.kernel.starts_with("Linux") && here.memory > 0 && here.cores > 0, "{here:?}");
        assert_eq!(here.buffers["tcp_wmem"].split(' ').count(), 3, "{here:?}");
    }
}
