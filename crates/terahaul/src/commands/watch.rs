//! Waiting for a transfer while showing how far it is.

use std::time::{Duration, Instant};

use terahaul_core::{ByteCount, Speedometer};
use terahaul_net::client::{PathProgress, Progress};

use crate::exit::Failure;
use crate::interrupt::Interrupt;
use crate::output::{Event, Output, PathView, ProgressView, long};

/// How a wait ended.
pub enum Waited<T> {
    /// The work is done, or failed.
    Ended(Result<T, Failure>),
    /// The user wants to stop.
    Interrupted,
}

/// Waits for `work`, showing `progress` (and whether it is still counting) now and then. As long as there is none, the terminal is left
/// to others.
pub async fn watch<T>(
    output: &Output,
    interrupt: &Interrupt,
    mut progress: impl FnMut() -> Option<(Progress, bool)>,
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
                let (now, counting) = match progress() {
                    Some(progress) => progress,
                    None if output.is_json() => (Progress::default(), true),
                    None => continue,
                };
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

/// How much was moved in how long, and how fast.
pub fn pace(moved: ByteCount, time: Duration) -> String {
    let rate = ByteCount((moved.0 as f64 / time.as_secs_f64().max(0.001)) as u64);
    format!("{moved} moved in {}, {rate}/s", long(time))
}

/// The speed of the whole, and that of each path.
#[derive(Default)]
struct Speeds {
    all: Speedometer,
    done: Durable,
    paths: Vec<Speedometer>,
}

impl Speeds {
    fn handle(&mut self, now: Instant, progress: &Progress) {
        self.all.handle_total(now, progress.sent);
        self.done.handle(now, progress);
        self.paths.resize_with(progress.paths.len(), Speedometer::default);
        for (speed, path) in self.paths.iter_mut().zip(&progress.paths) {
            speed.handle_total(now, path.bytes);
        }
    }
}

/// How fast bytes become durable. That happens block by block, which takes minutes each where several channels share a slow line.
struct Durable {
    /// What is to become durable, as far as it is known.
    whole: (ByteCount, u64),
    speed: Speedometer,
}

impl Default for Durable {
    fn default() -> Self {
        Self { whole: Default::default(), speed: Speedometer::over(Duration::from_secs(60)) }
    }
}

impl Durable {
    fn handle(&mut self, now: Instant, progress: &Progress) {
        let whole = (progress.total, progress.entries);
        if self.whole != whole {
            // While a manifest is read, what an earlier run has kept is added up, at no speed that anything is moved with.
            *self = Self { whole, ..Self::default() };
        }
        self.speed.handle_total(now, progress.done);
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
    let sent = bytes_per_second(&speeds.all);
    ProgressView {
        total_bytes: progress.total.0,
        done_bytes: progress.done.0,
        moved_bytes: progress.sent.0,
        entries: progress.entries,
        channels: if progress.connected { progress.channels } else { 0 },
        transport: progress.way.by.as_str(),
        transport_why: progress.way.why,
        transport_usual: progress.way.is_usual(),
        paths: progress.paths.iter().zip(&speeds.paths).map(path).collect(),
        connected: progress.connected,
        counting,
        bytes_per_second: sent,
        // What is on its way counts in the one, what is copied from old files or compressed on the way in the other: neither is too much.
        left_per_second: sent.max(bytes_per_second(&speeds.done.speed)),
    }
}

/// The error of a transfer that the user stopped.
pub fn interrupted(progress: &Progress) -> Failure {
    Failure::new(
        crate::exit::Exit::Interrupted,
        format!(
            "interrupted; at least {} of {} are kept; run the same command again to resume",
            progress.done, progress.total
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: u64 = 4 << 20;

    /// What is shown at the end of a run of so many seconds, of which `progress` says how far it is in each.
    fn shown(seconds: u64, progress: impl Fn(u64) -> Progress) -> ProgressView {
        let (begin, mut speeds) = (Instant::now(), Speeds::default());
        for tick in 0..=seconds * 5 {
            speeds.handle(begin + Duration::from_millis(tick * 200), &progress(tick / 5));
        }
        view(&progress(seconds), false, &speeds)
    }

    #[test]
    fn the_time_left_is_known_on_slow_lines_too() {
        let whole = ByteCount(100 * BLOCK);
        let second = BLOCK / 40;
        for at in 30..120 {
            let view = shown(at, |at| Progress {
                total: whole,
                done: ByteCount(at * second / BLOCK * BLOCK),
                sent: ByteCount(at * second),
                ..Progress::default()
            });
            let expected = second * 9 / 10..second * 2;
            assert!(expected.contains(&view.left_per_second), "{at}: {}", view.left_per_second);
        }
    }

    #[test]
    fn what_need_not_travel_shortens_the_time_left() {
        let copied = |at| Progress { done: ByteCount(at * 1_000_000), ..Progress::default() };
        let compressed = |at| Progress { sent: ByteCount(at * 250_000), ..copied(at) };
        for view in [shown(90, copied), shown(90, compressed)] {
            assert!((980_000..1_020_000).contains(&view.left_per_second), "{}", view.left_per_second);
        }
    }

    #[test]
    fn what_was_moved_is_said_with_its_time_and_average_speed() {
        let said = |moved, millis| pace(ByteCount(moved), Duration::from_millis(millis));
        assert_eq!(said(3_000_000_000, 125_000), "3.0 GB moved in 2 min 5 s, 24.0 MB/s");
        assert_eq!(said(0, 0), "0 B moved in 0.0 s, 0 B/s");
    }

    #[test]
    fn what_an_earlier_run_has_kept_is_no_speed() {
        let kept = ByteCount(1 << 40);
        let view = shown(20, |at| match at {
            0..3 => Progress { total: kept, ..Progress::default() },
            at => Progress { total: kept, entries: at.min(5), done: kept, ..Progress::default() },
        });
        assert_eq!(view.left_per_second, 0);
    }
}
