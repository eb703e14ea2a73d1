//! Measures a [`Plan`]: works, paths and directions one after the other, peers in alternation.

use std::fs;
use std::path::Path as FsPath;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::results::{Cell, Cost, Outcome, PathRecord, PeerRecord, PhaseRecord, Results, Run, WorkRecord};
use super::run::{self, Ended};
use super::{CompareError, NamedPath, Plan, Scratch, order};
use crate::machine::{Machine, utc};
use crate::path::{Path, PathCounters};
use crate::peer::{
    self, Availability, Cargo, End, Peer, PeerError, Phase, Rig, Session, SmallFiles, keeps_to_itself,
    processor_seconds_of_children, quoted,
};
use crate::work::{Content, Direction, Inputs, Kind, WorkSpec};
use crate::{ProcessorTime, WarmMemory};

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

/// A peer whose server runs, or why it does not.
type Started = Result<Box<dyn Session>, PeerError>;

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
        self.heed_stop()?;
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
            self.heed_stop()?;
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
                let one = One { measuring: self, path: &path, rig: &rig, inputs, cell, round: step.round };
                let run = one.run(&sessions[step.peer])?;
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

    fn heed_stop(&self) -> Result<(), CompareError> {
        if self.stop.load(Ordering::Relaxed) { Err(CompareError::Interrupted) } else { Ok(()) }
    }
}

/// One run.
struct One<'a> {
    measuring: &'a Measuring<'a>,
    path: &'a Path,
    rig: &'a Rig<'a>,
    inputs: &'a Inputs,
    cell: Cell,
    round: u32,
}

/// What is run, in order.
struct Script {
    /// Measured, before the peer prepares.
    before: Vec<Phase>,
    /// What the peer prepares for and moves.
    cargo: Cargo,
    /// Measured, after the peer's own.
    after: Vec<Phase>,
    /// What has to be there afterwards.
    expected: Expected,
}

enum Expected {
    /// The work's content.
    Content,
    /// The packed file that was made meanwhile.
    Packed,
    /// What each phase proved.
    Proven,
}

impl One<'_> {
    fn run(&self, started: &Started) -> Result<Run, CompareError> {
        self.measuring.heed_stop()?;
        let mut run = Run {
            cell: self.cell.clone(),
            round: self.round,
            outcome: Outcome::Cannot,
            seconds: 0.0,
            phases: Vec::new(),
            cost: Cost::default(),
            counters: PathCounters::default(),
            delivered: Vec::new(),
            links_kept: 0,
            stolen: 0.0,
        };
        let session = match started {
            Ok(session) => session.as_ref(),
            Err(error) => {
                run.outcome = Outcome::Failed(error.to_string());
                return Ok(run);
            }
        };
        match self.measure(session, &mut run) {
            Ok(outcome) => run.outcome = outcome,
            Err(Trouble::Peer(error)) => {
                self.measuring.heed_stop()?;
                run.outcome = Outcome::Failed(error.to_string());
            }
            Err(Trouble::Lab(error)) => return Err(error),
        }
        self.measuring.scratch.empty_target()?;
        // What could not be cleared because the user wants to stop spoils nothing.
        if let Err(error) = session.clear(self.rig)
            && run.outcome == Outcome::Arrived
            && self.measuring.heed_stop().is_ok()
        {
            run.outcome = Outcome::Failed(error.to_string());
        }
        Ok(run)
    }

    fn measure(&self, session: &dyn Session, run: &mut Run) -> Result<Outcome, Trouble> {
        let script = self.script(session);
        self.measuring.scratch.empty_target()?;
        let asked = self.own_phases(session, &script)?;
        if asked.is_none() {
            return Ok(Outcome::Cannot);
        }
        self.lay_out_older()?;
        session.clear(self.rig)?;
        self.measuring.scratch.settle()?;

        let mut deadline = Instant::now() + self.measuring.plan.limit;
        let costs = || (processor_seconds_of_children(), session.processor_seconds());
        let (mut cost, mut moved_for) = (Cost::default(), Duration::ZERO);
        let mut outcome = self.phases(&script.before, run, deadline)?;
        if outcome.is_none() {
            let prepares = Instant::now();
            session.prepare(self.rig, &script.cargo)?;
            // Asked again: what is prepared may be part of the command line.
            let own = self.own_phases(session, &script)?.unwrap_or_default();
            // What is not measured is not limited either.
            deadline += prepares.elapsed();
            let (near, far) = costs();
            let began = ProcessorTime::now();
            self.path.restart_counters();
            let moves = Instant::now();
            outcome = self.phases(&own, run, deadline)?;
            moved_for = moves.elapsed();
            run.stolen = ProcessorTime::now().stolen_since(began);
            run.counters = self.path.counters();
            let (near_now, far_now) = costs();
            cost = Cost { near: near_now - near, far: (far_now - far).max(0.0) };
        }
        if outcome.is_none() {
            outcome = self.phases(&script.after, run, deadline)?;
        }
        run.cost = cost;
        let link = match self.cell.direction {
            Direction::Put => &mut run.counters.near_to_far,
            Direction::Get => &mut run.counters.far_to_near,
        };
        run.delivered = link.take_samples(moved_for);
        run.counters.near_to_far.samples.clear();
        run.counters.far_to_near.samples.clear();
        run.seconds = run.phases.iter().map(|phase| phase.seconds).sum();
        if let Some(outcome) = outcome {
            return Ok(outcome);
        }
        if !session.moves_files() {
            return Ok(Outcome::Arrived);
        }
        self.compare_content(session, &script, run)
    }

    fn compare_content(
        &self,
        session: &dyn Session,
        script: &Script,
        run: &mut Run,
    ) -> Result<Outcome, Trouble> {
        let expected = match script.expected {
            Expected::Proven => return Ok(Outcome::Arrived),
            Expected::Content => self.inputs.content.clone(),
            Expected::Packed => {
                let folder = script.cargo.source.parent().unwrap_or(&script.cargo.source);
                Content::of(folder, self.measuring.stop)?
            }
        };
        let arrived = match session.arrived(self.rig, &script.cargo)? {
            Some(arrived) => arrived,
            None => Content::of(&self.measuring.scratch.target(), self.measuring.stop)?,
        };
        run.links_kept = expected.links_kept(&arrived) as u64;
        Ok(match expected.compare(&arrived) {
            None => Outcome::Arrived,
            Some(difference) => Outcome::Differs(difference.to_string()),
        })
    }

    /// The peer's own phases, or `None` where it cannot.
    fn own_phases(&self, session: &dyn Session, script: &Script) -> Result<Option<Vec<Phase>>, Trouble> {
        if self.inputs.spec.kind() != Kind::Meta {
            let mut cargo = script.cargo.clone();
            if let Expected::Packed | Expected::Content = script.expected
                && let Ok(status) = fs::metadata(&cargo.source)
                && status.is_file()
            {
                // A packed tree is larger than its files.
                cargo.bytes = status.len();
            }
            return Ok(session.transfer(&cargo)?);
        }
        let names = self.inputs.content.files.keys().filter_map(|path| path.file_name());
        let names = names.map(|name| name.to_string_lossy().into_owned()).collect();
        let work =
            SmallFiles { source: self.inputs.source.clone(), target: self.measuring.scratch.target(), names };
        Ok(session.small_files(&work)?)
    }

    fn script(&self, session: &dyn Session) -> Script {
        let target = self.measuring.scratch.target();
        let is_tree = !self.inputs.spec.kind().is_one_file();
        let whole = Cargo {
            direction: self.cell.direction,
            source: self.inputs.source.clone(),
            target: target.clone(),
            is_tree,
            bytes: self.inputs.bytes(),
        };
        let (before, after) = (Vec::new(), Vec::new());
        match self.inputs.spec.kind() {
            Kind::Meta => Script { before, cargo: whole, after, expected: Expected::Proven },
            Kind::Tar => {
                let unpacks = session.moves_files() && !keeps_to_itself(&self.cell.peer, self.cell.direction);
                self.packed(whole, unpacks)
            }
            _ => Script { before, cargo: whole, after, expected: Expected::Content },
        }
    }

    /// Packed at the one end, moved as one file, unpacked at the other.
    fn packed(&self, whole: Cargo, unpacks: bool) -> Script {
        let (here, there) = match self.cell.direction {
            Direction::Put => (End::Near, End::Far),
            Direction::Get => (End::Far, End::Near),
        };
        let folder = self.measuring.scratch.data().join("packed");
        let packed = folder.join("tree.tar");
        let above = whole.source.parent().unwrap_or(&whole.source);
        let pack = format!(
            "mkdir -p {} && tar cf {} -C {} {}",
            quoted(&folder),
            quoted(&packed),
            quoted(above),
            quoted(self.inputs.name())
        );
        let arrived = quoted(whole.target.join("tree.tar"));
        let unpack = format!("tar xf {arrived} -C {} && rm {arrived}", quoted(&whole.target));
        let phase = |name, end, command| Phase { end, ..Phase::near(command).named(name) };
        let (after, expected) = if unpacks {
            (vec![phase("unpack", there, unpack)], Expected::Content)
        } else {
            (Vec::new(), Expected::Packed)
        };
        let cargo = Cargo { source: packed, is_tree: false, ..whole };
        Script { before: vec![phase("pack", here, pack)], cargo, after, expected }
    }

    /// Runs phases one after the other; `Some` where one did not end well.
    fn phases(&self, phases: &[Phase], run: &mut Run, deadline: Instant) -> Result<Option<Outcome>, Trouble> {
        let log = self.rig.settings.join("run.log");
        for phase in phases {
            let namespace = match phase.end {
                End::Near => self.rig.near,
                End::Far => self.rig.far,
            };
            let began = Instant::now();
            let ended = run::run(phase, namespace, &log, deadline, self.measuring.stop)?;
            let (took, outcome) = match ended {
                Ended::Well(took) => (took, None),
                Ended::Badly(took, said) => (took, Some(Outcome::Failed(said))),
                Ended::Cut => (began.elapsed(), Some(Outcome::Cut)),
            };
            run.phases.push(self.record(phase, took));
            if outcome.is_some() {
                return Ok(outcome);
            }
            if let Some(files) = phase.leaves {
                let target = self.measuring.scratch.target();
                let there = fs::read_dir(&target).map_err(CompareError::file("listed", &target))?.count();
                if there != files {
                    let what = format!("after '{}' {there} files were there instead of {files}", phase.name);
                    return Ok(Some(Outcome::Differs(what)));
                }
            }
        }
        Ok(None)
    }

    /// With the command line as somebody else could type it: this run's own folder is nobody else's.
    fn record(&self, phase: &Phase, took: Duration) -> PhaseRecord {
        let terahaul = quoted(&self.measuring.plan.terahaul);
        let scratch = self.measuring.scratch.root().display().to_string();
        let command = phase.command.replace(&terahaul, "terahaul").replace(&scratch, "SCRATCH");
        PhaseRecord { name: phase.name.to_owned(), end: phase.end, command, seconds: took.as_secs_f64() }
    }

    /// The other end of an update has the older tree.
    fn lay_out_older(&self) -> Result<(), Trouble> {
        let Some(older) = &self.inputs.older else { return Ok(()) };
        let copy = format!("cp -a {} {}/", quoted(older), quoted(self.measuring.scratch.target()));
        self.rig.run("lab", End::Near, &copy, &[])?;
        Ok(())
    }
}

/// Whose fault it is that a run did not come to its end.
enum Trouble {
    /// The peer's: the run failed, and the comparison goes on.
    Peer(PeerError),
    /// The lab's: the comparison ends.
    Lab(CompareError),
}

impl From<PeerError> for Trouble {
    fn from(error: PeerError) -> Self {
        Self::Peer(error)
    }
}

impl From<CompareError> for Trouble {
    fn from(error: CompareError) -> Self {
        Self::Lab(error)
    }
}

impl From<crate::work::WorkError> for Trouble {
    fn from(error: crate::work::WorkError) -> Self {
        Self::Peer(error.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
