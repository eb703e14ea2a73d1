//! Transfers that never end, beside others and alone, and when to look at what they get.

use crate::sim::*;

/// One of them.
pub struct Situation {
    pub title: String,
    /// From where to where shares are of.
    pub from: Nanos,
    pub until: Nanos,
    world: Box<dyn Fn(u64) -> World>,
}

impl Situation {
    fn new(title: String, from: u64, seconds: u64, world: impl Fn(u64) -> World + 'static) -> Self {
        let from = from * SECOND;
        Self { title, from, until: from + seconds * SECOND, world: Box::new(world) }
    }

    /// The network before anything has begun.
    pub fn world(&self, seed: u64) -> World {
        (self.world)(seed)
    }
}

const FAIR: (&str, Law) = ("fair", laws::model);
const BACKGROUND: (&str, Law) = ("background", laws::background);
const CUBIC: (&str, Law) = ("cubic", laws::cubic);

/// All of them.
pub fn situations() -> Vec<Situation> {
    [
        beside_others(),
        begun_together(),
        of_one_kind(),
        nearby(),
        unsteady(),
        becoming_slower(),
        becoming_longer(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// One of ours and one other, at other moments for each seed.
fn beside_others() -> Vec<Situation> {
    let others: [(&str, scenes::Other); 3] =
        [("cubic", TcpFlow::cubic), ("cubic in a buffer", TcpFlow::cubic_in_a_buffer), ("bbr", TcpFlow::bbr)];
    let mut all = Vec::new();
    for (law_name, law) in [FAIR, BACKGROUND] {
        for (name, other) in others {
            for ours_first in [true, false] {
                let title = format!("{law_name}, {name} {}", if ours_first { "later" } else { "first" });
                all.push(Situation::new(title, 5, 20, move |seed| {
                    let later = 3 * SECOND + scenes::starts(1, seed)[0];
                    let (ours, theirs) = if ours_first { (0, later) } else { (later, 0) };
                    scenes::beside(law, ours, other(theirs))
                }));
            }
        }
    }
    all
}

fn begun_together() -> Vec<Situation> {
    let mut all = Vec::new();
    for (mbits, rtt_ms) in [(1_000.0, 20), (400.0, 20), (100.0, 20), (400.0, 60), (100.0, 60), (100.0, 150)] {
        for closer in [10, 50, 1_000] {
            let title = format!("8 of ours, {mbits} Mbit/s, {rtt_ms} ms, {} ms apart", 500.0 / closer as f64);
            all.push(Situation::new(title, 10, 20, move |seed| {
                let path = PathSpec::clean(mbits, rtt_ms * MILLI);
                scenes::eight_together(path, seed, closer)
            }));
        }
    }
    all
}

fn of_one_kind() -> Vec<Situation> {
    let some = |(count, rtt_ms)| {
        Situation::new(format!("{count} of ours, {rtt_ms} ms"), 10, 20, move |seed| {
            scenes::ours(PathSpec::clean(400.0, rtt_ms * MILLI), seed, scenes::starts(count, seed))
        })
    };
    [(2, 20), (4, 20), (8, 20), (2, 100), (4, 100), (8, 100), (2, 600), (8, 600)].map(some).into()
}

fn nearby() -> Vec<Situation> {
    let mut all = Vec::new();
    for (name, path) in [("lan", paths::lan(9_000)), ("4 ms", PathSpec::clean(1_000.0, 4 * MILLI))] {
        for (count, from) in [(2, 2), (4, 2), (8, 2), (16, 12)] {
            let path = path.clone();
            let title = format!("{count} of ours nearby, {name}");
            all.push(Situation::new(title, from, 3, move |seed| scenes::nearby(path.clone(), count, seed)));
        }
    }
    all
}

/// Lines that hold packets back for reasons of their own.
fn unsteady() -> Vec<Situation> {
    let mut all = Vec::new();
    for rtt_ms in [20, 40, 100] {
        for mbits in [20.0, 100.0, 500.0] {
            for (jitter, slot) in [(0, 0), (0, 2), (0, 5), (0, 10), (2, 0), (5, 0), (10, 0)] {
                let path = scenes::unsteady(mbits, rtt_ms, jitter * 1_000, slot * 1_000);
                for (law_name, law) in [FAIR, BACKGROUND, CUBIC] {
                    let path = path.clone();
                    let title = format!(
                        "unsteady, {mbits} Mbit/s, {rtt_ms} ms, jitter {jitter} ms, slots {slot} ms, {law_name}"
                    );
                    all.push(Situation::new(title, 5, 30, move |seed| {
                        scenes::alone(law, path.clone(), seed)
                    }));
                }
            }
        }
    }
    all
}

fn becoming_slower() -> Vec<Situation> {
    const RATES: [(f64, f64); 8] = [
        (100.0, 50.0),
        (100.0, 30.0),
        (100.0, 20.0),
        (100.0, 10.0),
        (500.0, 100.0),
        (1_000.0, 300.0),
        (1_000.0, 100.0),
        (50.0, 5.0),
    ];
    let mut all = Vec::new();
    for (from, to) in RATES {
        for rtt_ms in [10, 30, 100] {
            for queue_ms in [50.0, 200.0, 1_000.0] {
                let title = format!("slower, {from} to {to} Mbit/s, {rtt_ms} ms, queue {queue_ms} ms");
                all.push(Situation::new(title, 11, 30, move |_| {
                    let path = PathSpec::clean(from, rtt_ms * MILLI);
                    scenes::becoming(laws::model, path, to, queue_ms)
                }));
            }
        }
    }
    all
}

/// Another route, without another address.
fn becoming_longer() -> Vec<Situation> {
    let mut all = Vec::new();
    for rtt_ms in [20, 100] {
        for (out_ms, back_ms) in [(0, 10), (0, 40), (0, 100), (10, 0), (40, 0), (100, 0), (5, 5), (50, 50)] {
            let title = format!("longer, {rtt_ms} ms, {out_ms} ms more out, {back_ms} ms more back");
            all.push(Situation::new(title, 13, 17, move |seed| {
                scenes::lengthening(
                    laws::model,
                    PathSpec::clean(100.0, rtt_ms * MILLI),
                    out_ms,
                    back_ms,
                    seed,
                )
            }));
        }
    }
    all
}
