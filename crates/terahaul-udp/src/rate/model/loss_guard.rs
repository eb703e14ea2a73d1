//! Tells a loss that slowing down would cure from one that it would not.
//!
//! A radio link loses what it loses at any rate. A policer, or a queue too short to show in delays, loses what exceeds
//! its rate. So where loss is more than usual and nothing waits, the window is reduced by that much, for as long as it takes
//! to see what that does:
//!
//! | state | an epoch ends with | next |
//! |---|---|---|
//! | open | no more loss than usual | open; what is usual follows downwards |
//! | open | more than usual, nothing waits, and the window has grown much meanwhile | held, to see how much is lost at this one |
//! | open | more than usual, and nothing waits | trial, at a window smaller by the excess |
//! | trial | less loss, as a limit would have it | held: loss depends on the rate. The window stays below a ceiling for a while, longer each time until more than the limit has arrived |
//! | trial | as much loss as before | open at the old window: that much is usual now |
//! | open | far more than usual, and packets wait | open, at what arrives |
//! | open | much loss has been usual for [`DOUBT_EVERY`], or very much for [`DOUBT_HEAVY_ROUNDS`] | trial |
//! | held | more than usual again | trial, from there |
//! | held | its time passes | open, growing slowly |
//! | trial | silence; others are insisted against; a meeting | open: what arrives from then on says nothing of the trial |

use std::time::Duration;

use super::super::Cohort;
use crate::Time;

/// What an epoch has to hold to mean something.
const PACKETS: f64 = 400.0;
/// So many round trips are enough, if they hold [`FEW_PACKETS`].
const ROUNDS: u32 = 8;
const FEW_PACKETS: f64 = 30.0;
/// An epoch whose window has become so many times as large says too little of it for a trial.
const GROWN: f64 = 1.25;
/// Less is not worth a reaction.
const EXCESS: f64 = 0.02;
/// So much more than usual is lost where a queue overflows of which only the top shows: whoever began when it was full takes
/// the rest for the path's length, and is not told by delays to slow down.
const OVERFLOW: f64 = 0.1;
/// So much loss at the start may be of the path; but others may be starting too.
pub(super) const HEAVY: f64 = 0.2;
const DOUBT_EVERY: Duration = Duration::from_secs(10);
/// Where more than [`HEAVY`] is, as soon as so many round trips have passed: of two that met on a near path, one of them flooded the line for ten
/// thousand round trips, and the other had a hundredth of it (simulated). A trial takes some ten round trips.
const DOUBT_HEAVY_ROUNDS: u32 = 200;
/// How long the first limit is held: so many round trips, within these bounds. A second was half of a gigabyte's time on loopback.
const FIRST_HOLD_ROUNDS: u32 = 50;
const SHORTEST_FIRST_HOLD: Duration = Duration::from_millis(20);
const LONGEST_FIRST_HOLD: Duration = Duration::from_secs(1);
const LONGEST_HOLD: Duration = Duration::from_secs(10);
/// How much larger the window becomes in an epoch near a limit that was seen.
const GROWTH: f64 = 3.0;

#[derive(Clone, Copy, Debug)]
struct Trial {
    /// The window before it.
    window: f64,
    /// Below this share of loss, it was the rate that caused it.
    verdict: f64,
}

/// What became of some hundred packets, or of eight round trips'.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    share: f64,
    /// Packets.
    lost: f64,
    settled: f64,
    /// The smallest window of it, and of those at which its packets were sent.
    least: f64,
}

/// What the law is at.
#[derive(Clone, Copy, Debug)]
pub(super) struct Now {
    pub(super) window: f64,
    pub(super) datagram: f64,
    /// The round that is being sent.
    pub(super) round: u64,
    /// Packets wait: a queue that is full would show.
    pub(super) queue_shows: bool,
}

/// The guard.
#[derive(Clone, Debug)]
pub(super) struct LossGuard {
    /// The share that is lost whatever the rate.
    usual: f64,
    arrived: f64,
    lost: f64,
    rounds: u32,
    /// The smallest window of the epoch, and of those at which its packets were sent.
    least: f64,
    /// Those at the ends of the last round trips: what is heard of was sent at the first.
    windows: [f64; 2],
    trial: Option<Trial>,
    ceiling: Option<(f64, Time)>,
    /// The last ceiling, after its time.
    limit: Option<f64>,
    /// Packets sent before this round were sent at another window.
    blind_until: u64,
    hold: Duration,
    first_hold: Duration,
    /// How long it takes at most until an epoch says what becomes of a window.
    seeing: Duration,
    /// When what is taken for usual is put to the test.
    doubt_at: Time,
    /// For how long so much loss as only a flood causes passes for usual.
    heavy_for: Duration,
}

impl LossGuard {
    /// Of a path of about this length.
    pub(super) fn new(round_trip: Duration) -> Self {
        let hold = (round_trip * FIRST_HOLD_ROUNDS).clamp(SHORTEST_FIRST_HOLD, LONGEST_FIRST_HOLD);
        Self {
            usual: 0.0,
            arrived: 0.0,
            lost: 0.0,
            rounds: 0,
            least: f64::INFINITY,
            windows: [f64::INFINITY; 2],
            trial: None,
            ceiling: None,
            limit: None,
            blind_until: 0,
            hold,
            first_hold: hold,
            seeing: round_trip * (ROUNDS + 2),
            doubt_at: Time::ZERO,
            heavy_for: (round_trip * DOUBT_HEAVY_ROUNDS).min(DOUBT_EVERY),
        }
    }

    /// The share that is lost whatever the rate, as far as is known.
    pub(super) fn usual(&self) -> f64 {
        self.usual
    }

    /// What was lost while the rate was below what the path carries, as far as one transfer can know. Where that is
    /// [`HEAVY`], it has to show again.
    pub(super) fn learn(&mut self, share: f64) {
        self.usual = if share > HEAVY { 0.0 } else { share };
    }

    /// The law leaves its window for reasons of its own: what it tried comes to nothing, and neither is what was before it to come back.
    pub(super) fn interrupt(&mut self) {
        (self.arrived, self.lost, self.rounds, self.least) = (0.0, 0.0, 0, f64::INFINITY);
        self.trial = None;
    }

    /// What the window must not pass: during a trial what it is, else the limit that loss has shown.
    pub(super) fn ceiling(&self) -> Option<f64> {
        if self.trial.is_some() { Some(0.0) } else { self.ceiling.map(|(window, _)| window) }
    }

    /// What was sent before this round says nothing.
    pub(super) fn look_from(&mut self, round: u64) {
        self.blind_until = round;
    }

    /// Whether loss depends on the rate, as far as was seen, or that is being found out.
    pub(super) fn is_limited(&self) -> bool {
        self.trial.is_some() || self.ceiling.is_some() || self.limit.is_some()
    }

    /// Startup has shown a limit; what was sent up to `round` says no more.
    pub(super) fn hold_at(&mut self, now: Time, window: f64, round: u64) {
        self.ceiling = Some((window, now + self.hold));
        self.limit = Some(window);
        self.blind_until = round + 1;
    }

    /// By how much the window may grow in a round trip: where loss has shown a limit, a line that carries more than that shows by what arrives, and
    /// not by what bursts of packets say of it.
    pub(super) fn most_growth(&self, window: f64, datagram: f64) -> f64 {
        let round_trips = (PACKETS * datagram / window).clamp(1.0, ROUNDS.into());
        self.limit.map_or(f64::INFINITY, |_| GROWTH.ln() / round_trips * window)
    }

    /// Whether the window may grow fast: not near where loss has shown a limit before.
    pub(super) fn may_boost(&self, window: f64) -> bool {
        self.ceiling().is_none() && self.limit.is_none_or(|limit| window < 0.7 * limit)
    }

    /// Takes in what became of a round's packets; `round` is the one under way. Returns the window to use from now on
    /// where it is another.
    pub(super) fn handle_cohort(&mut self, now: Time, cohort: &Cohort, state: &Now) -> Option<f64> {
        if self.ceiling.is_some_and(|(_, until)| now >= until) && self.trial.is_none() {
            self.ceiling = None;
        }
        let [sent_at, last] = self.windows;
        self.windows = [last, state.window];
        if cohort.round < self.blind_until {
            return None;
        }
        self.arrived += cohort.arrived as f64 / state.datagram;
        self.lost += cohort.lost as f64 / state.datagram;
        self.rounds += 1;
        let settled = self.arrived + self.lost;
        self.least = self.least.min(sent_at).min(state.window);
        if settled < FEW_PACKETS || (settled < PACKETS && self.rounds < ROUNDS) {
            return None;
        }
        let (share, lost) = (self.lost / settled, self.lost);
        let least = self.least;
        (self.arrived, self.lost, self.rounds, self.least) = (0.0, 0.0, 0, f64::INFINITY);
        match self.trial.take() {
            Some(trial) => self.judge(now, trial, share, state.window),
            None => self.look(now, Epoch { share, lost, settled, least }, state),
        }
    }

    fn look(&mut self, now: Time, epoch: Epoch, state: &Now) -> Option<f64> {
        let Epoch { share, lost, settled, least } = epoch;
        let excess = share - self.usual;
        // Losses come in bursts: ten times the variation of independent ones.
        let chance = 3.0 * (10.0 * (self.usual * (1.0 - self.usual)).max(0.0001) / settled).sqrt();
        let doubted = self.usual > EXCESS && now >= self.doubt_at;
        if excess > OVERFLOW.max(chance) && state.queue_shows {
            // What is under way says nothing of the smaller window.
            self.blind_until = state.round + 1;
            return Some(state.window * (1.0 - share) / (1.0 - self.usual));
        }
        if (excess <= EXCESS.max(chance) || lost < 10.0 || state.queue_shows) && !doubted {
            self.usual = (self.usual + (share - self.usual) * 0.2).min(self.usual.max(share.min(0.001)));
            // More than that arrives as well.
            if self.limit.is_some_and(|limit| least > 1.5 * limit) {
                (self.limit, self.hold) = (None, (self.hold / 4).max(self.first_hold));
            }
            return None;
        }
        if state.window > GROWN * least {
            // How much is lost at this window is not known yet, and the verdict would be too hard.
            self.ceiling = Some((state.window, now + self.hold.max(self.seeing)));
            self.blind_until = state.round + 1;
            return None;
        }
        self.doubt_at = now + DOUBT_EVERY;
        // To what arrives now. If the rest was lost to the rate, as little as usual will be lost then; if not, as much
        // as now.
        let smaller = ((1.0 - share) / (1.0 - self.usual).max(0.1) * 0.98).clamp(0.2, 0.9);
        let arrives = 1.0 - share;
        let cured = (arrives / smaller).min(1.0);
        let verdict = 1.0 - (arrives * cured).sqrt();
        self.trial = Some(Trial { window: state.window, verdict });
        self.blind_until = state.round + 1;
        // From the window at which that was lost. From a larger one a policer would go on dropping: an eighth passed for usual for half of a
        // file, as a twelfth was lost before it of packets that were sent at a window a fifteenth smaller.
        Some(least * smaller)
    }

    fn judge(&mut self, now: Time, trial: Trial, share: f64, window: f64) -> Option<f64> {
        if share <= trial.verdict {
            self.ceiling = Some((window, now + self.hold));
            self.limit = Some(window);
            self.hold = (self.hold * 2).min(LONGEST_HOLD);
            return None;
        }
        self.usual = share;
        if share > HEAVY {
            self.doubt_at = now + self.heavy_for;
        }
        (self.ceiling, self.limit) = (None, None);
        Some(trial.window)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATAGRAM: f64 = 1_200.0;

    /// What became of a window's packets of which `lost` were lost.
    fn cohort(round: u64, sent: f64, lost: f64) -> Cohort {
        Cohort { round, arrived: (sent - lost) as u64, lost: lost as u64 }
    }

    /// A twelfth was lost of a window that was larger by a fifteenth when that was heard of, and an eighth after the trial: it passed for usual.
    #[test]
    fn a_policer_that_is_met_while_the_window_grows_is_no_radio_link() {
        let round_trip = Duration::from_millis(40);
        let carried = 2_100.0 * DATAGRAM;
        for growth in [1.01, 1.03, 1.06, 1.1] {
            let mut guard = LossGuard::new(round_trip);
            let mut window = 0.9 * carried;
            // What is heard of was sent at the window of two round trips ago.
            let mut sent = [window; 2];
            let mut lost_before = false;
            for round in 0..100 {
                let mut lost = (sent[0] - carried).max(0.0);
                if !std::mem::replace(&mut lost_before, lost > 0.0) {
                    // It has let nothing through for a while, and gives that as well.
                    lost /= 2.0;
                }
                let now = Time::ZERO + round_trip * round;
                let state =
                    Now { window, datagram: DATAGRAM, round: u64::from(round) + 1, queue_shows: false };
                let reduced = guard.handle_cohort(now, &cohort(round.into(), sent[0], lost), &state);
                window = reduced.unwrap_or_else(|| guard.ceiling().map_or(window * growth, |_| window));
                sent = [sent[1], window];
                assert!(guard.usual() < 0.04, "{} in round {round}, growing by {growth}", guard.usual());
            }
            assert!(guard.is_limited());
        }
    }
}
