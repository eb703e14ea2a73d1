//! What is measured, and in which order.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use super::CompareError;
use crate::path::{self, PathSpec, SpecError};
use crate::work::{Direction, WorkSpec};

/// What is measured.
#[derive(Clone, Debug)]
pub struct Plan {
    /// On which paths.
    pub paths: Vec<NamedPath>,
    /// With which work.
    pub works: Vec<WorkSpec>,
    /// Which ways.
    pub directions: Vec<Direction>,
    /// The peers' names; ratios are to the first.
    pub peers: Vec<String>,
    /// How often, besides one warm-up each.
    pub runs: u32,
    /// When a transfer is cut short.
    pub limit: Duration,
    /// Where files are made and received; memory unless told otherwise.
    pub scratch: PathBuf,
    /// The program to measure as Terahaul.
    pub terahaul: PathBuf,
    /// The command line that asked for it, for the report.
    pub command: String,
}

impl Plan {
    /// How many runs there will be at most, with all peers here and none given up.
    pub fn most_runs(&self) -> u64 {
        self.runs_of(self.peers.len())
    }

    /// The same for so many peers.
    pub(super) fn runs_of(&self, peers: usize) -> u64 {
        let ways =
            |work: &WorkSpec| self.directions.iter().filter(|way| work.directions().contains(way)).count();
        let cells = self.works.iter().map(ways).sum::<usize>() * self.paths.len() * peers;
        cells as u64 * u64::from(self.runs + 1)
    }
}

/// A path with the name that reports give it.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedPath {
    /// As it was asked for.
    pub name: String,
    /// What it is like.
    pub spec: PathSpec,
}

impl NamedPath {
    /// The same with another congestion control, which becomes part of the name.
    pub fn with_congestion_control(&self, name: &str) -> Self {
        let spec = PathSpec { cc: Some(name.to_owned()), ..self.spec.clone() };
        Self { name: format!("{}, {name}", self.name), spec }
    }
}

impl FromStr for NamedPath {
    type Err = CompareError;

    /// A ready path's name, and after it what is to be different: `filesender-100ms+loss=1%+rtt=50ms`.
    fn from_str(text: &str) -> Result<Self, CompareError> {
        let mut parts = text.split('+');
        let name = parts.next().unwrap_or_default();
        let mut spec = path::ready::find(name).ok_or_else(|| CompareError::UnknownPath(text.to_owned()))?;
        let bad = |source: SpecError| CompareError::Path { text: text.to_owned(), source };
        for part in parts {
            let unknown = || CompareError::UnknownPath(text.to_owned());
            let (key, value) = part.split_once('=').ok_or_else(unknown)?;
            match key {
                "rate" => spec.rate = value.parse().map_err(|_| unknown())?,
                "return-rate" => spec.return_rate = Some(value.parse().map_err(|_| unknown())?),
                "rtt" => spec.rtt = path::read_duration(value).map_err(bad)?,
                "jitter" => spec.jitter = path::read_duration(value).map_err(bad)?,
                "loss" => spec.loss = value.parse().map_err(bad)?,
                "queue" => spec.queue = value.parse().map_err(bad)?,
                "reorder" => spec.reorder = value.parse().map_err(bad)?,
                "mtu" => spec.mtu = value.parse().map_err(|_| unknown())?,
                "paths" => spec.paths = value.parse().map_err(|_| unknown())?,
                "seed" => spec.seed = value.parse().map_err(|_| unknown())?,
                _ => return Err(unknown()),
            }
        }
        spec.check().map_err(bad)?;
        Ok(Self { name: text.to_owned(), spec })
    }
}

/// One run of one peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// 0 is the warm-up.
    pub round: u32,
    /// Which peer.
    pub peer: usize,
}

/// The order of runs: in alternation, so that what else the machine does falls on all alike. Each round begins with
/// another peer, and every other one goes backwards, so that none always follows the same one.
pub fn order(peers: usize, runs: u32) -> impl Iterator<Item = Step> {
    (0..=runs).flat_map(move |round| {
        (0..peers).map(move |turn| {
            let further = if round % 2 == 0 { turn } else { peers - turn };
            Step { round, peer: (round as usize + further) % peers }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_peer_runs_once_a_round_and_rounds_begin_with_another() {
        let steps: Vec<Step> = order(3, 2).collect();
        assert_eq!(steps.len(), 9);
        for round in 0..=2 {
            let mut peers: Vec<usize> =
                steps.iter().filter(|step| step.round == round).map(|step| step.peer).collect();
            assert_eq!(peers[0], round as usize);
            peers.sort_unstable();
            assert_eq!(peers, [0, 1, 2]);
        }
        assert_eq!(order(0, 5).count(), 0);
    }

    #[test]
    fn no_peer_always_follows_the_same_one() {
        let peers: Vec<usize> = order(3, 3).map(|step| step.peer).collect();
        assert_eq!(peers.chunks(3).collect::<Vec<_>>(), [[0, 1, 2], [1, 0, 2], [2, 0, 1], [0, 2, 1]]);
    }

    #[test]
    fn a_ready_path_can_be_changed_by_its_name() {
        let path: NamedPath = "filesender-100ms+loss=1%+rtt=50ms".parse().unwrap();
        assert_eq!(path.spec.rtt, Duration::from_millis(50));
        assert!((path.spec.loss.mean() - 0.01).abs() < 1e-12);
        assert_eq!(path.with_congestion_control("bbr").name, "filesender-100ms+loss=1%+rtt=50ms, bbr");
        for text in ["nowhere", "lan+loss", "lan+colour=red", "lan+loss=much", "lan+mtu=1"] {
            assert!(text.parse::<NamedPath>().is_err(), "{text}");
        }
    }
}
