//! `laws grid`: one transfer alone on lines of all kinds. A law that is made better for one of them should be worse for none.

use crate::arguments::Arguments;
use crate::sim::line::Loss;
use crate::sim::*;
use crate::{median_and_least, median_and_most};

/// Megabits a second.
const RATES: [f64; 7] = [0.064, 0.256, 1.0, 4.0, 10.0, 100.0, 1_000.0];
const ROUND_TRIPS_MS: [u64; 4] = [1, 20, 200, 2_000];
/// In packets of 1,500 bytes.
const SHORT_QUEUES: [u64; 3] = [3, 5, 10];
/// In what the line carries in a round trip.
const QUEUES: [f64; 3] = [0.25, 1.0, 2.0];
/// What a policer's bucket holds, in packets of 1,500 bytes: less than a burst that measures a line, and more.
const BUCKETS: [f64; 2] = [10.0, 64.0];
const LOSSES: [f64; 3] = [0.0, 0.01, 0.05];
const PACKET: f64 = 1_500.0;
/// How many times as long as it should take is waited.
const PATIENCE: f64 = 30.0;

/// A line, and what goes over it.
pub struct Cell {
    pub title: String,
    path: PathSpec,
    bytes: u64,
}

/// All of them.
pub fn cells() -> Vec<Cell> {
    let mut all = Vec::new();
    for mbits in RATES {
        for rtt_ms in ROUND_TRIPS_MS {
            for (queue, packets) in queues(mbits, rtt_ms) {
                for loss in LOSSES {
                    let title =
                        format!("{mbits} Mbit/s, {rtt_ms} ms, queue {queue}, loss {} %", loss * 100.0);
                    all.push(Cell::new(title, mbits, rtt_ms * MILLI, packets, loss));
                }
            }
            for packets in BUCKETS {
                let title = format!("{mbits} Mbit/s, {rtt_ms} ms, policer, bucket {packets} packets");
                let mut cell = Cell::new(title, mbits, rtt_ms * MILLI, packets, 0.0);
                cell.path.out.policed = true;
                all.push(cell);
            }
        }
    }
    all
}

/// With their names. What a round trip carries may be less than a short queue holds.
fn queues(mbits: f64, rtt_ms: u64) -> Vec<(String, f64)> {
    let round_trip = mbits * 125.0 * rtt_ms as f64 / PACKET;
    let short = SHORT_QUEUES.into_iter().map(|packets| (format!("{packets} packets"), packets as f64));
    let long = QUEUES.into_iter().map(|part| (format!("{part} of the path"), part * round_trip));
    let longest_short = SHORT_QUEUES.into_iter().max().unwrap_or(0) as f64;
    short.chain(long.filter(|(_, packets)| *packets > longest_short)).collect()
}

impl Cell {
    fn new(title: String, mbits: f64, rtt: Nanos, queue: f64, loss: f64) -> Self {
        let mut path = PathSpec::clean(mbits, rtt);
        path.out.queue = queue * PACKET;
        if loss > 0.0 {
            (path.out.loss, path.back.loss) = (Loss::Uniform(loss), Loss::Uniform(loss));
        }
        // Ten seconds where that is not too much to simulate; round trips enough to be more than a start.
        let seconds = 10f64.min(50e6 / path.out.rate).max(5.0 * rtt as f64 / 1e9);
        let bytes = (path.out.rate * seconds) as u64;
        Self { title, path, bytes }
    }

    fn round_trip(&self) -> f64 {
        (self.path.out.delay + self.path.back.delay) as f64 / 1e9
    }

    /// The first block goes a round trip after the start, and the last is known to have arrived one after that.
    fn least_seconds(&self) -> f64 {
        self.bytes as f64 / self.path.payload_rate() + 2.0 * self.round_trip()
    }

    /// The network before the transfer begins.
    pub fn world(&self, law: Law, seed: u64) -> World {
        let mut world = World::new(self.path.clone(), seed);
        let usual = world.spec(self.bytes, law);
        // Enough for two round trips.
        let under_way = (2.0 * self.path.out.rate * self.round_trip() / f64::from(4 << 20)) as u32;
        let spec = TransferSpec { max_blocks: usual.max_blocks.max(under_way), ..usual };
        world.add(spec);
        world
    }

    /// Which part of the time it took would have been enough, or at least none of the line is known to be used; how much of it was sent
    /// again; and how much the queue dropped.
    fn carry(&self, law: Law, seed: u64) -> (f64, f64, f64) {
        let mut world = self.world(law, seed);
        let most = (self.least_seconds() * PATIENCE * 1e9) as Nanos;
        world.run(most, |world| world.transfers.iter().all(|transfer| transfer.finished_at.is_some()));
        let transfer = &world.transfers[0];
        let share = transfer.finished_at.map_or(0.0, |at| self.least_seconds() * 1e9 / at as f64);
        let counters = &world.out.counters;
        (share, transfer.overhead(), counters.dropped as f64 / counters.sent.max(1) as f64)
    }
}

pub fn print(arguments: &Arguments) -> Result<(), String> {
    let seeds = arguments.number("seeds", 2)?;
    println!(
        "| line | of the least time: median | worst | sent again: median | most | dropped by the queue: most |"
    );
    println!("|---|---|---|---|---|---|");
    for cell in cells().iter().filter(|cell| cell.title.contains(arguments.of())) {
        println!("{}", row(cell, seeds));
    }
    Ok(())
}

fn row(cell: &Cell, seeds: u64) -> String {
    let runs: Vec<_> = (1..=seeds).map(|seed| cell.carry(laws::model, seed)).collect();
    let (share, worst) = median_and_least(runs.iter().map(|(share, ..)| *share).collect());
    let (again, most_again) = median_and_most(runs.iter().map(|(_, again, _)| *again).collect());
    let (_, dropped) = median_and_most(runs.iter().map(|(.., dropped)| *dropped).collect());
    format!("| {} | {share:.3} | {worst:.3} | {again:.3} | {most_again:.3} | {dropped:.3} |", cell.title)
}
