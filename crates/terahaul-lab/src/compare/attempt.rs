//! One run of one peer: what it needs is laid out, its phases are run and timed, and what has arrived is compared with what was sent.

use std::fs;
use std::time::{Duration, Instant};

use super::results::{Cell, Cost, Outcome, PhaseRecord, Run};
use super::run::{self, Ended, heed};
use super::{CompareError, Plan, Scratch};
use crate::ProcessorTime;
use crate::path::{Path, PathCounters};
use crate::peer::{
    Cargo, End, PeerError, Phase, Rig, Session, SmallFiles, keeps_to_itself, processor_seconds_of_children,
    quoted,
};
use crate::work::{Content, Direction, Inputs, Kind};

/// A peer whose server runs, or why it does not.
pub(super) type Started = Result<Box<dyn Session>, PeerError>;

/// One run: what is needed for it.
pub(super) struct Attempt<'a> {
    pub(super) plan: &'a Plan,
    pub(super) scratch: &'a Scratch,
    pub(super) path: &'a Path,
    pub(super) rig: &'a Rig<'a>,
    pub(super) inputs: &'a Inputs,
    pub(super) cell: Cell,
    pub(super) round: u32,
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

impl Attempt<'_> {
    /// What came of it, whoever's fault that was; an error is the lab's alone.
    pub(super) fn run(&self, started: &Started) -> Result<Run, CompareError> {
        heed(self.rig.stop)?;
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
                heed(self.rig.stop)?;
                run.outcome = Outcome::Failed(error.to_string());
            }
            Err(Trouble::Lab(error)) => return Err(error),
        }
        self.scratch.empty_target()?;
        // What could not be cleared because the user wants to stop spoils nothing.
        if let Err(error) = session.clear(self.rig)
            && run.outcome == Outcome::Arrived
            && heed(self.rig.stop).is_ok()
        {
            run.outcome = Outcome::Failed(error.to_string());
        }
        Ok(run)
    }

    fn measure(&self, session: &dyn Session, run: &mut Run) -> Result<Outcome, Trouble> {
        let script = self.script(session);
        self.scratch.empty_target()?;
        let asked = self.own_phases(session, &script)?;
        if asked.is_none() {
            return Ok(Outcome::Cannot);
        }
        self.lay_out_older()?;
        session.clear(self.rig)?;
        self.scratch.settle()?;

        let mut deadline = Instant::now() + self.plan.limit;
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
                Content::of(folder, self.rig.stop)?
            }
        };
        let arrived = match session.arrived(self.rig, &script.cargo)? {
            Some(arrived) => arrived,
            None => Content::of(&self.scratch.target(), self.rig.stop)?,
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
        let work = SmallFiles { source: self.inputs.source.clone(), target: self.scratch.target(), names };
        Ok(session.small_files(&work)?)
    }

    fn script(&self, session: &dyn Session) -> Script {
        let target = self.scratch.target();
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
        let folder = self.scratch.data().join("packed");
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
            let ended = run::run(phase, namespace, &log, deadline, self.rig.stop)?;
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
                let target = self.scratch.target();
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
        let terahaul = quoted(&self.plan.terahaul);
        let scratch = self.scratch.root().display().to_string();
        let command = phase.command.replace(&terahaul, "terahaul").replace(&scratch, "SCRATCH");
        PhaseRecord { name: phase.name.to_owned(), end: phase.end, command, seconds: took.as_secs_f64() }
    }

    /// The other end of an update has the older tree.
    fn lay_out_older(&self) -> Result<(), Trouble> {
        let Some(older) = &self.inputs.older else { return Ok(()) };
        let copy = format!("cp -a {} {}/", quoted(older), quoted(self.scratch.target()));
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
