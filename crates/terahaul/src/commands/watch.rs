//! Waiting for a transfer while showing how far it is.

use std::time::{Duration, Instant};

use terahaul_core::Speedometer;
use terahaul_net::client::{PathProgress, Progress};

use crate::exit::Failure;
use crate::interrupt::Interrupt;
use crate::output::{Event, Output, PathView, ProgressView};

/// How a wait ended.
pub enum Waited<T> {
    /// The work is done, or failed.
    Ended(Result<T, Failure>),
    /// The user wants to stop.
    Interrupted,
}

/// Waits for `work`, showing `progress` (and whether it is still counting) now and then.
pub async fn watch<T>(
    output: &Output,
    interrupt: &Interrupt,
    mut progress: impl FnMut() -> (Progress, bool),
    work: impl Future<Output = Result<T, Failure>>,
) -> Waited<T> {
    let period = if output.is_json() { Duration::from_secs(1) } else { Duration::from_millis(200) };
    let mut tick = tokio::time::interval(period);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut speed = Speeds::default();
    tokio::pin!(work);
    let waited = loop {
        tokio::select! {
            // A result that is ready counts, even if the user asks to stop at the same moment.
            biased;
            ended = &mut work => break Waited::Ended(ended),
            () = interrupt.wait() => break Waited::Interrupted,
            _ = tick.tick(), if output.shows_progress() => {
                let (now, counting) = progress();
                speed.handle(Instant::now(), &now);
                output.emit(&Event::Progress(view(&now, counting, &speed)));
            }
        }
    };
    output.clear_progress();
    waited
}

/// What each path has carried, for a command's result.
pub fn paths_of(paths: &[PathProgress]) -> Vec<serde_json::Value> {
    let path = |path: &PathProgress| serde_json::json!({ "local": path.local, "bytes": path.bytes });
    paths.iter().map(path).collect()
}

/// The speed of the whole, and that of each path.
#[derive(Default)]
struct Speeds {
    all: Speedometer,
    /// Of what becomes durable, which says how long the rest takes: not all of it has to come over the channels.
    done: Speedometer,
    paths: Vec<Speedometer>,
}

impl Speeds {
    fn handle(&mut self, now: Instant, progress: &Progress) {
        self.all.handle_total(now, progress.sent);
        self.done.handle_total(now, progress.done);
        self.paths.resize_with(progress.paths.len(), Speedometer::default);
        for (speed, path) in self.paths.iter_mut().zip(&progress.paths) {
            speed.handle_total(now, path.bytes);
        }
    }
}

fn bytes_per_second(speed: &Speedometer) -> u64 {
    speed.rate().map_or(0, terahaul_core::Rate::bytes_per_second)
}

fn view(progress: &Progress, counting: bool, speeds: &Speeds) -> ProgressView {
    let path = |(path, speed): (&PathProgress, &Speedometer)| PathView {
        local: path.local,
        bytes: path.bytes.0,
        bytes_per_second: bytes_per_second(speed),
    };
    ProgressView {
        total_bytes: progress.total.0,
        done_bytes: progress.done.0,
        moved_bytes: progress.sent.0,
        entries: progress.entries,
        channels: progress.channels,
        transport: progress.way.by,
        transport_why: progress.way.why,
        paths: progress.paths.iter().zip(&speeds.paths).map(path).collect(),
        connected: progress.connected,
        counting,
        bytes_per_second: bytes_per_second(&speeds.all),
        done_per_second: bytes_per_second(&speeds.done),
    }
}

/// The error of a transfer that the user stopped.
pub fn interrupted(progress: &Progress) -> Failure {
    Failure::new(
        crate::exit::Exit::Interrupted,
        format!(
            "interrupted; {} of {} are kept; run the same command again to resume",
            progress.done, progress.total
        ),
    )
}
