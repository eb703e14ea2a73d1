//! When to compress, and how hard: when, and only while, it makes the whole faster.
//!
//! A hill climber over measured throughput of content, like [`ChannelCount`](crate::ChannelCount). Where a line is *full*
//! (what was written before is still waiting to go out when the next piece is there) the processors have time to spare, and
//! a step up the ladder of levels is tried. It is kept if content then moves faster: a full line may also mean a receiver
//! that cannot keep up, and to compress for that one would cost and gain nothing. A try is judged once its rate is steady:
//! until then what moves is what buffers on the way still hold of the step before, or take of the new one.
//!
//! | state | after a window | next |
//! |---|---|---|
//! | steady at raw | so slow a line that compressing costs next to nothing (seen before the window ends) | steady at the first level |
//! | steady | the line was full in two windows and carried the same in both, the processors promise to keep up, no hold | trying the next step |
//! | steady above the first level | the line waited | steady, one step lower |
//! | steady above raw | the line waited, or was full at far less than it has carried; no hold | checking raw |
//! | trying, checking | nothing could be compressed, or the rate is not steady yet | as it is |
//! | trying from raw | content moved faster by [`GAIN`] | steady here |
//! | trying from a level | the line carried as much as before, and was full | steady here |
//! | trying | otherwise, or much slower than before (seen before the window ends) | steady where it was, and hold |
//! | checking | raw is as fast | steady at raw, and hold |
//! | checking | it is not | steady where it was, and hold |
//!
//! Each hold is twice as long as the one before, until a step helps.

mod sampling;
#[cfg(test)]
mod simulation;

pub use sampling::Sampling;

use std::time::{Duration, Instant};

/// Levels of Zstandard, each about a tenth smaller than the one before, and what they cost beside the first.
const LADDER: [(i32, f64); 4] = [(1, 1.0), (3, 1.3), (5, 3.5), (9, 8.0)];
/// How much faster content must move for compression to be kept.
const GAIN: f64 = 1.05;
/// How much faster than content moves now the processors must be able to compress for that to be tried at all: they have more
/// to do, and a try that fails costs time.
const HEADROOM: f64 = 1.3;
/// How much of the line's rate may be missing after a step that was to make bytes fewer, not the line slower.
const SLACK: f64 = 0.97;
/// Below this part of the rate before it, a try is ended before its window is.
const HARM: f64 = 0.8;
/// Below this part of what the line has carried, something else may be what is full.
const SUSPECT: f64 = 0.6;
/// What the line has carried counts for this much less after each window.
const FORGET: f64 = 0.95;
/// Part of one core's time that may be spent without asking first whether it helps.
const CHEAP: f64 = 0.25;
/// What a byte costs until that was measured, in seconds of one core: a processor some years old.
const COST: f64 = 3e-9;
/// Samples that say what compressing costs. The quickest counts: in any one of them the thread may have waited for a processor.
const SAMPLES: u32 = 8;
/// Windows to hold after a step that did not help; twice as many after each that follows, up to the longest.
const PATIENCE: u32 = 8;
const LONGEST_HOLD: u32 = 256;

/// What the user wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compress {
    /// When it makes the whole faster.
    #[default]
    Auto,
    /// Never.
    No,
    /// Always, at this level of Zstandard, 1 to 19.
    Level(i32),
}

/// How a piece of a block is to travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// As it is.
    Raw,
    /// Compressed, if a sample says that it can be.
    Zstd {
        /// Zstandard's level.
        level: i32,
    },
}

/// What became of a piece.
#[derive(Clone, Copy, Debug)]
pub struct PieceSent {
    /// Bytes of content.
    pub content: u64,
    /// Bytes that were written in their place.
    pub wire: u64,
    /// Time that sampling and compressing took.
    pub effort: Duration,
    /// Whether the line was full when the piece was there to be sent.
    pub line_full: bool,
}

/// The law, one for all channels of a transfer. [`Compression::decide`] before each piece, and
/// [`Compression::handle_piece`] after it.
#[derive(Clone, Debug)]
pub struct Compression {
    fixed: Option<i32>,
    cores: f64,
    /// 0 is raw, n the ladder's n-th level.
    step: usize,
    state: State,
    /// Windows to wait before the next try, and how many after the next that fails.
    hold: u32,
    patience: u32,
    window: Window,
    /// Most bytes a second that the line has carried while it was full.
    line: f64,
    /// What it carried in the window before, if it was full.
    carried: Option<f64>,
    /// Seconds of one core for a byte of content at the ladder's first level.
    cost: Option<f64>,
    samples: u32,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Steady,
    Trying { from: usize, base: Rates, settling: Settling },
    Checking { from: usize, packed: Rates, settling: Settling },
}

/// Whether a new step's rate is its own yet.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Settling {
    windows: u32,
    content: f64,
}

/// What a window measured, in bytes a second.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Rates {
    content: f64,
    wire: f64,
    /// Share of the pieces that found the line full.
    full: f64,
    /// Whether what could be compressed was more than a trifle.
    packed: bool,
}

impl Rates {
    /// The line is what limits: the processors had time to spare.
    fn is_full(&self) -> bool {
        self.full >= 0.5
    }

    /// They have time for more.
    fn is_ample(&self) -> bool {
        self.full >= 0.9
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Window {
    start: Option<Instant>,
    content: u64,
    wire: u64,
    pieces: u32,
    full: u32,
    packed: u64,
}

impl Compression {
    /// How long a window lasts at least.
    pub const WINDOW: Duration = Duration::from_millis(200);
    /// How long a line is watched before it is known to be slow.
    const GLANCE: Duration = Duration::from_millis(20);
    /// Pieces that a window has at least.
    const PIECES: u32 = 6;

    /// Compresses when that helps. `cores` is how many threads can compress at once.
    pub fn auto(cores: usize) -> Self {
        Self {
            fixed: None,
            cores: cores.max(1) as f64,
            step: 0,
            state: State::Steady,
            hold: 0,
            patience: PATIENCE,
            window: Window::default(),
            line: 0.0,
            carried: None,
            cost: None,
            samples: 0,
        }
    }

    /// Always compresses, at this level.
    pub fn always(level: i32) -> Self {
        Self { fixed: Some(level), ..Self::auto(1) }
    }

    /// How the next piece is to travel.
    pub fn decide(&self) -> Packing {
        let level = self.fixed.or_else(|| self.step.checked_sub(1).map(|at| LADDER[at].0));
        level.map_or(Packing::Raw, |level| Packing::Zstd { level })
    }

    /// Whether a sample should be compressed although the piece goes as it is: what that costs is not known well yet.
    pub fn wants_sample(&self) -> bool {
        self.fixed.is_none() && self.samples < SAMPLES
    }

    /// It took this long to compress a sample of so many bytes.
    pub fn handle_sample(&mut self, bytes: u64, effort: Duration) {
        let cost = effort.as_secs_f64() / bytes.max(1) as f64;
        self.cost = Some(self.cost.map_or(cost, |least| least.min(cost)));
        self.samples += 1;
    }

    /// A piece was written.
    pub fn handle_piece(&mut self, now: Instant, piece: PieceSent) {
        if self.fixed.is_some() {
            return;
        }
        if self.step == 1 && piece.wire < piece.content {
            self.learn(&piece);
        }
        let window = &mut self.window;
        // What goes into empty buffers says nothing about the line.
        if piece.line_full && window.full == 0 {
            *window = Window::default();
        }
        let start = *window.start.get_or_insert(now);
        window.content += piece.content;
        window.wire += piece.wire;
        window.pieces += 1;
        window.full += u32::from(piece.line_full);
        window.packed += if piece.wire < piece.content { piece.content } else { 0 };
        let elapsed = now.saturating_duration_since(start);
        if elapsed >= Self::GLANCE && window.pieces > 1 && self.is_cheap(elapsed) {
            self.step = 1;
            self.window = Window::default();
        } else if let Some(step) = self.harmed(elapsed) {
            self.step = step;
            self.window = Window::default();
            self.give_up();
        } else if elapsed >= Self::WINDOW && self.window.pieces >= Self::PIECES {
            let rates = self.window.rates(elapsed);
            self.window = Window::default();
            self.handle_window(rates);
        }
    }

    /// Whether the line is full and slow enough to compress at once.
    fn is_cheap(&self, elapsed: Duration) -> bool {
        let rates = self.window.rates(elapsed);
        self.step == 0
            && self.state == State::Steady
            && self.hold == 0
            && rates.is_full()
            && rates.content * self.cost.unwrap_or(COST) < CHEAP
    }

    /// The step to go back to when what is being tried makes things so much worse that this shows early. Raw bytes that
    /// are checked behind a backlog of compressed ones have to wait for that, and are given the time.
    fn harmed(&self, elapsed: Duration) -> Option<usize> {
        let (from, before, pieces) = match self.state {
            State::Trying { from, base, .. } => (from, base, Self::PIECES * 2),
            State::Checking { from, packed, .. } if !packed.is_full() => (from, packed, 3),
            _ => return None,
        };
        let seen = elapsed >= Self::GLANCE * 2 && self.window.pieces >= pieces;
        (seen && self.window.rates(elapsed).content < before.content * HARM).then_some(from)
    }

    /// Weighs a few dozen pieces: a megabyte more or less decides nothing, a change of content soon shows.
    fn learn(&mut self, piece: &PieceSent) {
        const WEIGHT: f64 = 1.0 / 16.0;
        let cost = piece.effort.as_secs_f64() / piece.content as f64;
        self.cost = Some(self.cost.map_or(cost, |old| old + (cost - old) * WEIGHT));
    }

    fn handle_window(&mut self, rates: Rates) {
        if rates.is_full() {
            self.line = rates.wire.max(self.line * FORGET);
        }
        let before = std::mem::replace(&mut self.carried, rates.is_full().then_some(rates.wire));
        let held = self.hold > 0;
        self.hold = self.hold.saturating_sub(1);
        if self.is_settling(rates) {
            return;
        }
        self.state = match self.state {
            State::Trying { from, base, .. } => {
                let helped = match from {
                    0 => rates.content >= base.content * GAIN,
                    _ => rates.is_full() && rates.wire >= base.wire * SLACK,
                };
                if helped {
                    self.patience = PATIENCE;
                    self.hold = PATIENCE / 2;
                } else {
                    self.step = from;
                    self.give_up();
                }
                State::Steady
            }
            State::Checking { from, packed, .. } => {
                if packed.content * SLACK > rates.content {
                    self.step = from;
                    self.line = packed.wire;
                }
                self.give_up();
                State::Steady
            }
            State::Steady if held => State::Steady,
            State::Steady if self.step > 1 && !rates.is_full() => {
                self.step -= 1;
                State::Steady
            }
            State::Steady
                if self.step > 0
                    && (!rates.is_full() || rates.wire < self.line * SUSPECT)
                    && rates.packed =>
            {
                let from = std::mem::take(&mut self.step);
                State::Checking { from, packed: rates, settling: Settling::default() }
            }
            // A receiver that has only begun is no line: what comes after would look like a gain.
            State::Steady
                if rates.is_full()
                    && before.is_some_and(|before| are_alike(before, rates.wire))
                    && self.may_climb(rates) =>
            {
                self.step += 1;
                State::Trying { from: self.step - 1, base: rates, settling: Settling::default() }
            }
            State::Steady => State::Steady,
        };
    }

    /// Whether a new step's rate says nothing yet.
    fn is_settling(&mut self, rates: Rates) -> bool {
        match &mut self.state {
            State::Steady => false,
            State::Trying { .. } if !rates.packed => true,
            State::Trying { settling, .. } | State::Checking { settling, .. } => !settling.is_settled(rates),
        }
    }

    fn give_up(&mut self) {
        self.state = State::Steady;
        self.hold = self.patience;
        self.patience = (self.patience * 2).min(LONGEST_HOLD);
    }

    fn may_climb(&self, rates: Rates) -> bool {
        // Behind a backlog of compressed bytes raw ones look slow, and any step would look like a gain.
        if rates.wire < self.line * SUSPECT {
            return false;
        }
        match self.step {
            0 => self.promises(rates),
            step => step < LADDER.len() && rates.packed && rates.is_ample() && self.promises(rates),
        }
    }

    /// Whether the processors could compress at the next step fast enough for a try to be worth its price. How much smaller bytes became
    /// before says nothing of those that come now: holds bound what it costs to find that out.
    fn promises(&self, rates: Rates) -> bool {
        let processors = self.cores / (self.cost.unwrap_or(COST) * LADDER[self.step].1);
        let enough = if self.step == 0 { HEADROOM } else { GAIN };
        processors >= rates.content * enough
    }
}

impl Settling {
    /// Another window: `true` when it moved about as much as the one before and buffers are full again, or when so many
    /// windows have passed.
    fn is_settled(&mut self, rates: Rates) -> bool {
        const ENOUGH: u32 = 8;
        let before = std::mem::replace(&mut self.content, rates.content);
        let alike = are_alike(before, rates.content);
        self.windows += 1;
        self.windows >= ENOUGH || (self.windows > 2 && alike && rates.is_full())
    }
}

/// Whether a rate is steady that was `before` and is `now`.
fn are_alike(before: f64, now: f64) -> bool {
    (now - before).abs() <= before * 0.1
}

impl Window {
    fn rates(&self, elapsed: Duration) -> Rates {
        let seconds = elapsed.as_secs_f64();
        Rates {
            content: self.content as f64 / seconds,
            wire: self.wire as f64 / seconds,
            full: f64::from(self.full) / f64::from(self.pieces.max(1)),
            packed: self.packed * 10 >= self.content,
        }
    }
}
