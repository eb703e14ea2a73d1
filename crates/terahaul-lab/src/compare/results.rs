//! What was measured, as `results.json` keeps it.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::CompareError;
use super::statistics::Summary;
use crate::machine::Machine;
use crate::path::{PathCounters, PathSpec};
use crate::peer::{End, may_compress};
use crate::work::{Direction, Kind};

/// The version of the format. Another one is not read.
const FORMAT: u32 = 1;

/// Everything that one comparison measured, with what is needed to understand and repeat it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Results {
    /// The version of this format.
    pub format: u32,
    /// When it began, UTC, in ISO 8601.
    pub began: String,
    /// The command line.
    pub command: String,
    /// On what.
    pub machine: Machine,
    /// Measured runs of each peer, besides the warm-up.
    pub runs_each: u32,
    /// When a transfer was cut short, in seconds.
    pub limit_seconds: f64,
    /// Where the files were, and on what kind of file system.
    pub scratch: String,
    /// Whether the memory that large works take was touched before their runs.
    #[serde(default)]
    pub memory_warmed: bool,
    /// The paths.
    pub paths: Vec<PathRecord>,
    /// The works.
    pub works: Vec<WorkRecord>,
    /// The peers in the order in which they were asked for.
    pub peers: Vec<PeerRecord>,
    /// Every run, warm-ups included, in the order in which they ran.
    pub runs: Vec<Run>,
    /// Whether it came to its end; what was written before this was recorded is taken to have.
    #[serde(default = "finished")]
    pub finished: bool,
}

fn finished() -> bool {
    true
}

/// A path.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PathRecord {
    /// Its name.
    pub name: String,
    /// What it is like.
    pub spec: PathSpec,
    /// TCP's congestion control at both ends; empty until it has run.
    pub congestion_control: String,
}

/// A work.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WorkRecord {
    /// As it was asked for.
    pub name: String,
    /// What kind it is.
    pub kind: Kind,
    /// Bytes of all files; 0 until they were made.
    pub bytes: u64,
    /// Files.
    pub files: u64,
    /// Symbolic links.
    pub links: u64,
}

/// A peer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PeerRecord {
    /// Its name.
    pub name: String,
    /// What it is.
    pub about: String,
    /// What its programs say of their versions.
    pub versions: Vec<String>,
    /// Why it is not on this machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_here: Option<String>,
}

/// What was compared with what: all runs of a cell are of one kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Cell {
    /// The work's name.
    pub work: String,
    /// Which way.
    pub direction: Direction,
    /// The path's name.
    pub path: String,
    /// The peer's name.
    pub peer: String,
}

/// One run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Run {
    /// Of what.
    #[serde(flatten)]
    pub cell: Cell,
    /// 0 is the warm-up.
    pub round: u32,
    /// How it ended.
    pub outcome: Outcome,
    /// How long it took, start to end, all phases together.
    pub seconds: f64,
    /// Its phases.
    pub phases: Vec<PhaseRecord>,
    /// Processor seconds.
    pub cost: Cost,
    /// What the path did; its samples are in [`Self::delivered`].
    pub counters: PathCounters,
    /// Bytes that the path delivered in the direction of the work, in each tenth of a second.
    pub delivered: Vec<u64>,
    /// Symbolic links that arrived as such.
    pub links_kept: u64,
    /// The share of the processor time that this machine wanted meanwhile and its host gave to others.
    #[serde(default)]
    pub stolen: f64,
}

/// One phase of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PhaseRecord {
    /// What it did.
    pub name: String,
    /// At which end.
    pub end: End,
    /// The command line.
    pub command: String,
    /// How long it took.
    pub seconds: f64,
}

/// Processor seconds, those of the kernel for these processes included. What the emulator uses is not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// At the near end.
    pub near: f64,
    /// At the far end.
    pub far: f64,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "is", content = "why")]
pub enum Outcome {
    /// Everything arrived, byte for byte.
    Arrived,
    /// It was cut short at the limit. Its rate is what the path delivered until then, headers included.
    Cut,
    /// What arrived differs from what was sent.
    Differs(String),
    /// A command failed.
    Failed(String),
    /// The protocol, or its client, cannot do it.
    Cannot,
}

/// What the measured runs of a cell say together.
#[derive(Clone, Debug, PartialEq)]
pub struct CellSummary {
    /// Of what.
    pub cell: Cell,
    /// Seconds of the runs in which everything arrived.
    pub seconds: Option<Summary>,
    /// Bytes of the work a second, of the same runs.
    pub rates: Option<Summary>,
    /// Bytes a second on the wire of those that were cut.
    pub cut_rate: Option<Summary>,
    /// How many were cut.
    pub cut: usize,
    /// Processor seconds, near and far, of the runs in which everything arrived: what was ended takes what it had cost along.
    pub cost: Option<(f64, f64)>,
    /// Median seconds of each phase, where there are several.
    pub phases: Vec<(String, f64)>,
    /// Packets lost by the path in both directions, of those sent, on average of the runs that count: lost, queue, sent.
    pub packets: (u64, u64, u64),
    /// Packets that the lab itself lost.
    pub missed: u64,
    /// What went wrong, one sentence for each run that did.
    pub failures: Vec<String>,
    /// Whether it was not tried because the protocol cannot.
    pub cannot: bool,
    /// Links that were kept in the last run.
    pub links_kept: u64,
    /// The median share of processor time that the machine's host gave to others.
    pub stolen: f64,
}

impl Results {
    /// The version that is written.
    pub const FORMAT: u32 = FORMAT;

    /// Reads `results.json` of a folder.
    pub fn read(folder: &Path) -> Result<Self, CompareError> {
        let path = folder.join("results.json");
        let text = fs::read(&path).map_err(CompareError::file("read", &path))?;
        let unreadable = |detail: String| CompareError::Unreadable { path: path.clone(), detail };
        let results: Self = serde_json::from_slice(&text).map_err(|error| unreadable(error.to_string()))?;
        if results.format != FORMAT {
            return Err(unreadable(format!("its format is {}", results.format)));
        }
        Ok(results)
    }

    /// Writes `results.json` into a folder, such that a crash leaves either the old or the new one.
    pub fn write(&self, folder: &Path) -> Result<(), CompareError> {
        let path = folder.join("results.json");
        let partial = folder.join(".results.json.partial");
        let text =
            serde_json::to_vec(self).map_err(|error| CompareError::file("written", &path)(error.into()))?;
        let save = || -> std::io::Result<()> {
            let mut file = fs::File::create(&partial)?;
            file.write_all(&text)?;
            file.sync_all()?;
            fs::rename(&partial, &path)
        };
        save().map_err(CompareError::file("written", &path))
    }

    /// The runs that count for `cell`: all but the warm-up, unless that was the only one because it was cut.
    pub fn counted(&self, cell: &Cell) -> Vec<&Run> {
        let all: Vec<&Run> = self.runs.iter().filter(|run| run.cell == *cell).collect();
        let measured: Vec<&Run> = all.iter().copied().filter(|run| run.round > 0).collect();
        if measured.is_empty() {
            let only =
                |run: &&Run| matches!(run.outcome, Outcome::Cut | Outcome::Cannot | Outcome::Failed(_));
            return all.into_iter().filter(only).collect();
        }
        measured
    }

    /// A work by its name.
    pub fn work(&self, name: &str) -> Option<&WorkRecord> {
        self.works.iter().find(|work| work.name == name)
    }

    /// What `cell`'s runs say together, or `None` if there are none. Of a warm-up alone it is nothing.
    pub fn summary(&self, cell: &Cell) -> Option<CellSummary> {
        self.runs.iter().find(|run| run.cell == *cell)?;
        let runs = self.counted(cell);
        let last = runs.last();
        let those = |outcome| runs.iter().copied().filter(|run| run.outcome == outcome).collect::<Vec<_>>();
        let (arrived, cut) = (those(Outcome::Arrived), those(Outcome::Cut));
        let failures = runs.iter().filter_map(|run| match &run.outcome {
            Outcome::Differs(what) => Some(format!("what arrived differs: {what}")),
            Outcome::Failed(what) => Some(what.clone()),
            _ => None,
        });
        let rate = |run: &&Run| run.delivered.iter().sum::<u64>() as f64 / run.seconds.max(1e-9);
        let timed: Vec<f64> = arrived.iter().map(|run| run.seconds).collect();
        let bytes = self.work(&cell.work).map_or(0.0, |work| work.bytes as f64);
        let rates: Vec<f64> = timed.iter().map(|seconds| bytes / seconds.max(1e-9)).collect();
        let good: Vec<&Run> = arrived.iter().chain(&cut).copied().collect();
        let median = |runs: &[&Run], value: fn(&Run) -> f64| {
            Summary::of(&runs.iter().map(|run| value(run)).collect::<Vec<_>>()).map(|summary| summary.median)
        };
        let links = |run: &Run| [run.counters.near_to_far.clone(), run.counters.far_to_near.clone()];
        let add = |what: fn(&crate::path::LinkCounters) -> u64| {
            good.iter().flat_map(|run| links(run)).map(|link| what(&link)).sum::<u64>()
        };
        let mean = |all: u64| (all as f64 / good.len().max(1) as f64).round() as u64;
        let mut phases: BTreeMap<usize, (String, Vec<f64>)> = BTreeMap::new();
        for run in arrived.iter().filter(|run| run.phases.len() > 1) {
            for (at, phase) in run.phases.iter().enumerate() {
                phases.entry(at).or_insert_with(|| (phase.name.clone(), Vec::new())).1.push(phase.seconds);
            }
        }
        Some(CellSummary {
            cell: cell.clone(),
            seconds: Summary::of(&timed),
            rates: Summary::of(&rates),
            cut_rate: Summary::of(&cut.iter().map(rate).collect::<Vec<_>>()),
            cut: cut.len(),
            cost: median(&arrived, |run| run.cost.near).zip(median(&arrived, |run| run.cost.far)),
            phases: phases
                .into_values()
                .filter_map(|(name, seconds)| Summary::of(&seconds).map(|summary| (name, summary.median)))
                .collect(),
            packets: (
                mean(add(|link| link.lost)),
                mean(add(|link| link.queue_dropped)),
                mean(add(|link| link.sent)),
            ),
            missed: add(|link| link.missed),
            failures: failures.collect(),
            cannot: last.is_some_and(|run| run.outcome == Outcome::Cannot),
            links_kept: arrived.last().map_or(0, |run| run.links_kept),
            stolen: median(&good, |run| run.stolen).unwrap_or_default(),
        })
    }

    /// Works and directions that have runs, in the order in which they were asked for.
    pub fn sections(&self) -> Vec<(&WorkRecord, Direction)> {
        let directions = [Direction::Put, Direction::Get];
        let all = self.works.iter().flat_map(|work| directions.map(|direction| (work, direction)));
        all.filter(|(work, direction)| {
            self.runs.iter().any(|run| run.cell.work == work.name && run.cell.direction == *direction)
        })
        .collect()
    }

    /// The summaries of one work, direction and path, in the order of the peers.
    pub fn row(&self, work: &str, direction: Direction, path: &str) -> Vec<CellSummary> {
        let cell = |peer: &PeerRecord| Cell {
            work: work.to_owned(),
            direction,
            path: path.to_owned(),
            peer: peer.name.clone(),
        };
        self.peers.iter().filter_map(|peer| self.summary(&cell(peer))).collect()
    }
}

impl CellSummary {
    /// Seconds for `work`: measured, or, where the run was cut, what its rate lets expect, if it is the rate of the work's bytes.
    pub fn expected_seconds(&self, work: &WorkRecord) -> Option<f64> {
        let measured = self.seconds.as_ref().map(|seconds| seconds.median);
        measured.or_else(|| {
            let is_whole = match work.kind {
                Kind::File | Kind::Batch | Kind::Small => true,
                Kind::Tree => !may_compress(&self.cell.peer),
                Kind::Tar | Kind::Update | Kind::Again | Kind::Edited | Kind::Inserted | Kind::Meta => false,
            };
            let rate = self.cut_rate.as_ref().filter(|rate| is_whole && rate.median > 0.0)?;
            Some(work.bytes as f64 / rate.median)
        })
    }
}
