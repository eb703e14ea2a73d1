//! One direction of a path: a line with a queue before it, or a policer; loss, delay, jitter and the rest behind it.

use super::chance::Chance;

/// Nanoseconds of simulated time.
pub type Nanos = u64;
pub const SECOND: Nanos = 1_000_000_000;
pub const MILLI: Nanos = 1_000_000;
/// IPv4 and UDP.
pub const HEADERS: u64 = 28;

/// What a line is like. May be changed while it runs.
#[derive(Clone, Debug)]
pub struct LineSpec {
    /// Bytes a second, IP headers counted.
    pub rate: f64,
    /// Bytes that may wait; for a policer, what its bucket holds.
    pub queue: f64,
    pub policed: bool,
    pub delay: Nanos,
    pub jitter: Nanos,
    pub loss: Loss,
    /// Share of packets held back, and for how long.
    pub reorder: (f64, Nanos),
    pub duplicate: f64,
    /// Largest IP packet.
    pub mtu: u64,
    /// Nothing passes.
    pub down: bool,
    pub ecn: Ecn,
    /// Packets leave together, at multiples of this, as a radio link's do; at once where it is zero.
    pub slot: Nanos,
}

/// What a line makes of packets that may be marked (ECN).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Ecn {
    /// Nothing.
    Ignores,
    /// Marks those that find more bytes than this waiting.
    MarksAbove(f64),
    /// Marks this share of them, whatever waits.
    Marks(f64),
    /// Marks all packets, also those that may not be.
    MarksAll,
    /// Lets none of them pass.
    Drops,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Loss {
    None,
    Uniform(f64),
    /// Gilbert and Elliott: enter, leave, loss in the bad state.
    Burst(f64, f64, f64),
}

impl Loss {
    pub fn mean(self) -> f64 {
        match self {
            Self::None => 0.0,
            Self::Uniform(share) => share,
            Self::Burst(enter, leave, loss) => loss * enter / (enter + leave),
        }
    }
}

/// What became of the packets.
#[derive(Clone, Debug, Default)]
pub struct LineCounters {
    pub sent: u64,
    pub lost: u64,
    pub dropped: u64,
    /// Those that might have been marked, and those that were.
    pub markable: u64,
    pub marked: u64,
    /// The longest time that a packet waited.
    pub wait_peak: Nanos,
    wait_sum: u128,
    waited: u64,
}

impl LineCounters {
    pub fn wait_mean(&self) -> Nanos {
        (self.wait_sum / u128::from(self.waited.max(1))) as Nanos
    }
}

#[derive(Clone, Debug)]
pub struct Line {
    pub spec: LineSpec,
    pub counters: LineCounters,
    chance: Chance,
    bad: bool,
    free_at: f64,
    last_due: Nanos,
}

/// When a packet comes out, once or twice, and whether it was marked.
pub type Passed = (Nanos, Option<Nanos>, bool);

impl Line {
    pub fn new(spec: LineSpec, seed: u64, stream: u64) -> Self {
        let chance = Chance::new(seed, stream);
        Self { spec, counters: LineCounters::default(), chance, bad: false, free_at: 0.0, last_due: 0 }
    }

    /// A datagram of `len` bytes comes, which may be marked if `ecn`.
    pub fn pass(&mut self, now: Nanos, len: usize, ecn: bool) -> Option<Passed> {
        let bytes = len as u64 + HEADERS;
        self.counters.sent += 1;
        self.counters.markable += u64::from(ecn);
        if bytes > self.spec.mtu || self.spec.down || (ecn && self.spec.ecn == Ecn::Drops) {
            return None;
        }
        let start = self.free_at.max(now as f64);
        let on_line = bytes as f64 / self.spec.rate * 1e9;
        let behind = (start + on_line - now as f64) / 1e9 * self.spec.rate;
        if behind > self.spec.queue {
            self.counters.dropped += 1;
            return None;
        }
        let marked = match self.spec.ecn {
            Ecn::MarksAbove(above) => ecn && behind > above,
            Ecn::Marks(share) => ecn && self.chance.happens(share),
            Ecn::MarksAll => true,
            Ecn::Ignores | Ecn::Drops => false,
        };
        self.counters.marked += u64::from(marked);
        let wait = (start - now as f64) as Nanos;
        self.counters.wait_peak = self.counters.wait_peak.max(wait);
        self.counters.wait_sum += u128::from(wait);
        self.counters.waited += 1;
        self.free_at = start + on_line;
        let leaves = if self.spec.policed { now } else { self.free_at as Nanos };
        let leaves = if self.spec.slot > 0 { leaves.next_multiple_of(self.spec.slot) } else { leaves };
        if self.is_lost() {
            self.counters.lost += 1;
            return None;
        }
        let jitter = (self.spec.jitter as f64 * self.chance.share()) as Nanos;
        let mut due = (leaves + self.spec.delay + jitter).max(self.last_due);
        if self.chance.happens(self.spec.reorder.0) {
            due += self.spec.reorder.1;
        } else {
            self.last_due = due;
        }
        let again = self.chance.happens(self.spec.duplicate).then_some(due + MILLI);
        Some((due, again, marked))
    }

    fn is_lost(&mut self) -> bool {
        match self.spec.loss {
            Loss::None => false,
            Loss::Uniform(share) => self.chance.happens(share),
            Loss::Burst(enter, leave, loss) => {
                self.bad = if self.bad { !self.chance.happens(leave) } else { self.chance.happens(enter) };
                self.bad && self.chance.happens(loss)
            }
        }
    }
}
