//! Measures a [`Plan`]: works, paths and directions one after the other, peers in alternation.

use std::fs;
use std::path::Path as FsPath;
use std::sync::atomic::AtomicBool;
use std::time::{SystemTime, UNIX_EPOCH};

use super::attempt::{Attempt, Started};
use super::results::{Cell, Outcome, PathRecord, PeerRecord, Results, Run, WorkRecord};
use super::run::heed;
use super::{CompareError, NamedPath, Plan, Scratch, order};
use crate::WarmMemory;
use crate::machine::{Machine, utc};
use crate::path::Path;
use crate::peer::{self, Availability, Peer, Rig};
use crate::work::{Inputs, WorkSpec};

/// The file system that is memory, as the kernel names it.
const MEMORY: &str = "tmpfs";

/// Works of fewer bytes get no warm memory: theirs costs milliseconds.
const WORTH_WARMING: u64 = 64 << 20;
/// Beside the files: what programs at both ends take, and take anew in each run.
const OF_PROGRAMS: u64 = 2 << 30;

/// What a comparison tells while it goes on.
#[derive(Debug)]
pub enum News<'a> {
    /// A peer is not on this machine.
    NotHere {
        /// Its name.
        peer: &'a str,
        /// Why, and what to install.
        why: &'a str,
    },
    /// The files of a work are being made.
    Making {
        /// The work.
        work: &'a str,
    },
    /// A path has started; peers' servers start.
    Path {
        /// Its name.
        name: &'a str,
    },
    /// A run begins.
    Begins {
        /// Of what.
        cell: &'a Cell,
        /// 0 is the warm-up.
        round: u32,
        /// How many runs there were before it.
        done: u64,
        /// How many there will be at most.
        total: u64,
    },
    /// A run has ended.
    Ended {
        /// What came of it.
        run: &'a Run,
        /// Bytes of the work.
        bytes: u64,
    },
}

/// Measures `plan`, and writes `results.json` into `out` after every run; those of an earlier comparison stay until the first. When `stop` becomes true, it ends within
/// moments and leaves nothing behind but what was measured.
pub fn compare(
    plan: &Plan,
    out: &FsPath,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(News<'_>),
) -> Result<Results, CompareError> {
    let peers = chosen(plan)?;
    let results = empty(plan, &peers);
    let records = peers.iter().zip(&results.peers);
    let here: Vec<&dyn Peer> =
        records.filter(|(_, record)| record.not_here.is_none()).map(|(peer, _)| peer.as_ref()).collect();
    let absent = || results.peers.iter().filter_map(|record| Some((&record.name, record.not_here.as_ref()?)));
    if here.is_empty() && !peers.is_empty() {
        let why: Vec<String> = absent().map(|(peer, why)| format!("{peer}: {why}")).collect();
        return Err(CompareError::NobodyHere(why.join("; ")));
    }
    fs::create_dir_all(out).map_err(CompareError::file("created", out))?;
    // Better known now than after the first run, and without touching what an earlier comparison has left there.
    tempfile::tempfile_in(out).map_err(CompareError::file("written", out))?;
    absent().for_each(|(peer, why)| tell(News::NotHere { peer, why }));
    let scratch = Scratch::make(&plan.scratch)?;
    let total = plan.runs_of(here.len());
    let mut measuring = Measuring { plan, out, stop, scratch: &scratch, results, done: 0, total };
    for (at, spec) in plan.works.iter().enumerate() {
        measuring.work(at, spec, &here, tell)?;
    }
    measuring.results.finished = true;
    measuring.results.write(out)?;
    Ok(measuring.results)
}

fn chosen(plan: &Plan) -> Result<Vec<Box<dyn Peer>>, CompareError> {
    let mut all: Vec<Option<Box<dyn Peer>>> = peer::all(&plan.terahaul).into_iter().map(Some).collect();
    let take = |name: &String| {
        let wanted = all.iter_mut().find(|peer| peer.as_ref().is_some_and(|peer| peer.name() == name));
        wanted.and_then(Option::take).ok_or_else(|| CompareError::UnknownPeer(name.clone()))
    };
    plan.peers.iter().map(take).collect()
}

fn empty(plan: &Plan, peers: &[Box<dyn Peer>]) -> Results {
    let path = |path: &NamedPath| PathRecord {
        name: path.name.clone(),
        spec: path.spec.clone(),
        congestion_control: String::new(),
    };
    let work = |work: &WorkSpec| WorkRecord {
        name: work.to_string(),
        kind: work.kind(),
        bytes: 0,
        files: 0,
        links: 0,
    };
    let record = |peer: &dyn Peer| PeerRecord {
        name: peer.name().to_owned(),
        about: peer.about().to_owned(),
        versions: peer.needs().iter().filter_map(peer::Tool::version_text).collect(),
        not_here: match peer::availability(peer) {
            Availability::Here => None,
            Availability::NotHere(why) => Some(why),
        },
    };
    let file_system = file_system(&plan.scratch);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    Results {
        format: Results::FORMAT,
        began: utc(now),
        command: plan.command.clone(),
        machine: Machine { program: hash_of(&plan.terahaul), ..Machine::here() },
        runs_each: plan.runs,
        limit_seconds: plan.limit.as_secs_f64(),
        scratch: format!(
            "{} ({})",
            plan.scratch.display(),
            if file_system == MEMORY { "tmpfs, in memory" } else { &file_system }
        ),
        memory_warmed: false,
        paths: plan.paths.iter().map(path).collect(),
        works: plan.works.iter().map(work).collect(),
        peers: peers.iter().map(|peer| record(peer.as_ref())).collect(),
        runs: Vec::new(),
        finished: false,
    }
}

/// The program's BLAKE3 hash, where it can be read.
fn hash_of(program: &FsPath) -> Option<String> {
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(fs::File::open(program).ok()?).ok()?;
    Some(hasher.finalize().to_string())
}

/// The kind of the file system that holds `folder`: it matters whether that is memory.
fn file_system(folder: &FsPath) -> String {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let resolved = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    let kinds = mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ').skip(1);
        let (place, kind) = (fields.next()?, fields.next()?);
        resolved.starts_with(place).then_some((place.len(), kind))
    });
    kinds.max().map_or("unknown", |(_, kind)| kind).to_owned()
}

struct Measuring<'a> {
    plan: &'a Plan,
    out: &'a FsPath,
    stop: &'a AtomicBool,
    scratch: &'a Scratch,
    results: Results,
    done: u64,
    total: u64,
}

impl Measuring<'_> {
    fn work(
        &mut self,
        at: usize,
        spec: &WorkSpec,
        peers: &[&dyn Peer],
        tell: &mut dyn FnMut(News<'_>),
    ) -> Result<(), CompareError> {
        tell(News::Making { work: &spec.to_string() });
        let made = Inputs::make(spec, &self.scratch.data(), self.stop);
        // Who stops it is told so, and not which file was not made any more.
        heed(self.stop)?;
        let inputs = made?;
        let record = &mut self.results.works[at];
        (record.bytes, record.files) = (inputs.bytes(), inputs.files());
        record.links = inputs.content.links.len() as u64;
        let warm = self.warm_memory(&inputs);
        self.results.memory_warmed |= warm.is_some();
        for path in 0..self.plan.paths.len() {
            self.path(path, &inputs, peers, tell)?;
        }
        Ok(())
    }

    fn path(
        &mut self,
        at: usize,
        inputs: &Inputs,
        peers: &[&dyn Peer],
        tell: &mut dyn FnMut(News<'_>),
    ) -> Result<(), CompareError> {
        let named = &self.plan.paths[at];
        tell(News::Path { name: &named.name });
        let path = Path::start(&named.spec)?;
        // What is asked for may be set for the path's routes alone.
        let ask = || fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control").unwrap_or_default();
        let usual = || path.near().enter(ask).unwrap_or_default().trim().to_owned();
        self.results.paths[at].congestion_control = named.spec.cc.clone().unwrap_or_else(usual);
        let (data, settings) = (self.scratch.data(), self.scratch.settings());
        let rig =
            Rig { near: path.near(), far: path.far(), data: &data, settings: &settings, stop: self.stop };
        let mut sessions: Vec<Started> = Vec::new();
        for peer in peers {
            heed(self.stop)?;
            sessions.push(peer.start(&rig));
        }
        let ways = self.plan.directions.iter().filter(|way| inputs.spec.directions().contains(way));
        for direction in ways {
            // A peer that cannot do the work, or took longer than the limit, is not asked again.
            let mut given_up = vec![false; peers.len()];
            for step in order(peers.len(), self.plan.runs) {
                self.done += 1;
                if given_up[step.peer] {
                    continue;
                }
                let cell = Cell {
                    work: inputs.spec.to_string(),
                    direction: *direction,
                    path: named.name.clone(),
                    peer: peers[step.peer].name().to_owned(),
                };
                tell(News::Begins { cell: &cell, round: step.round, done: self.done - 1, total: self.total });
                let (plan, scratch, path, rig, round) = (self.plan, self.scratch, &path, &rig, step.round);
                let attempt = Attempt { plan, scratch, path, rig, inputs, cell, round };
                let run = attempt.run(&sessions[step.peer])?;
                given_up[step.peer] = match run.outcome {
                    Outcome::Cannot | Outcome::Cut => true,
                    Outcome::Failed(_) => sessions[step.peer].is_err(),
                    _ => false,
                };
                self.results.runs.push(run);
                self.results.write(self.out)?;
                if let Some(run) = self.results.runs.last() {
                    tell(News::Ended { run, bytes: inputs.bytes() });
                }
            }
        }
        // Servers first: they would complain of a network that is gone.
        drop(sessions);
        path.stop();
        Ok(())
    }

    /// For what the runs of a work take, where their files are in memory.
    fn warm_memory(&self, inputs: &Inputs) -> Option<WarmMemory> {
        // A file takes whole pages. Some works have an older copy, and a depot one of its own.
        let copies = 2 * (inputs.bytes() + inputs.files() * 4096);
        let worth_it = file_system(&self.plan.scratch) == MEMORY && inputs.bytes() >= WORTH_WARMING;
        worth_it.then(|| WarmMemory::prepare(copies + OF_PROGRAMS, self.stop)).flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::work::Direction;
    use std::time::Duration;

    /// They were replaced by empty ones before it was known whether anything can be measured.
    #[test]
    fn a_comparison_that_cannot_begin_leaves_earlier_results_as_they_are() {
        let out = tempfile::tempdir().unwrap();
        let kept = out.path().join("results.json");
        fs::write(&kept, "hours of them").unwrap();
        let plan = Plan {
            paths: vec!["filesender-100ms".parse().unwrap()],
            works: vec!["file:1MB".parse().unwrap()],
            directions: vec![Direction::Put],
            peers: vec!["terahaul".into()],
            runs: 1,
            limit: Duration::from_secs(1),
            scratch: out.path().join("missing"),
            terahaul: std::env::current_exe().unwrap(),
            command: String::new(),
        };
        let ended = compare(&plan, out.path(), &AtomicBool::new(false), &mut |_| {});
        assert!(matches!(ended, Err(CompareError::File { .. })), "{:?}", ended.err());
        assert_eq!(fs::read_to_string(kept).unwrap(), "hours of them");
        assert_eq!(fs::read_dir(out.path()).unwrap().count(), 1);
    }
}
