//! The ready paths: `terahaul lab path list`.

use std::time::Duration;

use terahaul_core::Rate;

use super::spec::{LossSpec, PathSpec, QueueSpec};

/// A path with a name.
#[derive(Clone, Debug, serde::Serialize)]
pub struct ReadyPath {
    /// What it is called on the command line.
    pub name: &'static str,
    /// What it stands for.
    pub what: &'static str,
    /// What it is like.
    pub spec: PathSpec,
}

/// All of them, in the order of the table.
pub fn ready() -> Vec<ReadyPath> {
    let lossy = |loss| PathSpec { loss, ..path(1_000, 100_000) };
    let burst = LossSpec::GilbertElliott { enter: 0.0002, leave: 0.05, loss: 0.5 };
    vec![
        ReadyPath {
            name: "lan",
            what: "two servers on one 10 Gbit/s switch with jumbo frames",
            spec: PathSpec { mtu: 9000, queue: QueueSpec::Bytes(2_000_000), ..path(10_000, 300) },
        },
        ReadyPath {
            name: "cesnet-wan",
            what: "the wide-area path of CESNET's study of protocols",
            spec: path(8_150, 3_400),
        },
        ReadyPath {
            name: "filesender-100ms",
            what: "FileSender's terabyte challenge: across a continent and back",
            spec: path(1_000, 100_000),
        },
        ReadyPath {
            name: "transatlantic",
            what: "a research network between continents, almost clean",
            spec: PathSpec { loss: LossSpec::Uniform(0.0001), ..path(1_000, 80_000) },
        },
        ReadyPath {
            name: "lossy",
            what: "a long path that loses one packet in a hundred",
            spec: lossy(LossSpec::Uniform(0.01)),
        },
        ReadyPath {
            name: "very-lossy",
            what: "a long path that loses one packet in twenty",
            spec: lossy(LossSpec::Uniform(0.05)),
        },
        ReadyPath {
            name: "policed",
            what: "a provider that drops what exceeds the contract, and lets nothing wait",
            spec: PathSpec { queue: QueueSpec::None, ..path(500, 40_000) },
        },
        ReadyPath {
            name: "bloated",
            what: "a router that lets four seconds of packets wait",
            spec: PathSpec { queue: QueueSpec::Time(Duration::from_secs(4)), ..path(100, 30_000) },
        },
        ReadyPath {
            name: "satellite",
            what: "a geostationary satellite",
            spec: PathSpec { loss: LossSpec::Uniform(0.005), ..path(50, 600_000) },
        },
        ReadyPath {
            name: "asymmetric",
            what: "a fast way out and a thin one back, as a line to a home seen from the other end",
            spec: PathSpec { return_rate: Some(mbit(10)), ..path(1_000, 50_000) },
        },
        ReadyPath {
            name: "bursty",
            what: "losses that come together: ten among twenty packets, 0.2 % in all (Gilbert-Elliott)",
            spec: lossy(burst),
        },
    ]
}

/// Their names.
pub fn names() -> Vec<&'static str> {
    ready().iter().map(|path| path.name).collect()
}

/// The ready path of that name.
pub fn find(name: &str) -> Option<PathSpec> {
    ready().into_iter().find(|path| path.name == name).map(|path| path.spec)
}

fn path(mbits: u64, rtt_micros: u64) -> PathSpec {
    PathSpec::clean(mbit(mbits), Duration::from_micros(rtt_micros))
}

fn mbit(mbits: u64) -> Rate {
    Rate::per_second(mbits * 125_000).expect("the table has no rate of zero")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_ready_path_can_be_emulated_and_has_a_name_of_its_own() {
        let mut names: Vec<_> = ready().iter().map(|path| path.name).collect();
        assert_eq!(names.len(), 11);
        for path in ready() {
            assert_eq!(path.spec.check(), Ok(()), "{}", path.name);
            assert_eq!(find(path.name), Some(path.spec));
        }
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), 11);
    }
}
