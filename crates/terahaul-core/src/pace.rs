//! `--limit`: a token bucket shared by all channels, which take turns at it.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::Rate;

/// Says whose turn it is to send, so that the long-run rate holds. Bursts of a tenth of a second pass.
///
/// Nothing is counted before its turn: channels that end while they wait leave no gap, and those behind them come earlier.
#[derive(Clone, Debug)]
pub struct Pace {
    rate: Rate,
    /// When the bytes sent so far will have been paid for.
    paid_until: Option<Instant>,
    /// Who waits, and for how many bytes, in order.
    waiting: VecDeque<(Turn, u64)>,
    turns: u64,
}

/// A place in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn(u64);

impl Pace {
    const BURST: Duration = Duration::from_millis(100);
    /// Whoever has its turn may be about to take it.
    const SOON: Duration = Duration::from_millis(1);

    /// Holds to `rate`.
    pub fn new(rate: Rate) -> Self {
        Self { rate, paid_until: None, waiting: VecDeque::new(), turns: 0 }
    }

    /// Takes a place for `bytes` behind those that wait: [poll](Self::poll_turn) it.
    pub fn handle_wish(&mut self, bytes: u64) -> Turn {
        let turn = Turn(self.turns);
        self.turns += 1;
        self.waiting.push_back((turn, bytes));
        turn
    }

    /// `None`: its bytes may go now, and are counted. Otherwise how long until that may be so, when it is asked again; sooner where
    /// somebody [leaves](Self::handle_left).
    pub fn poll_turn(&mut self, now: Instant, turn: Turn) -> Option<Duration> {
        let at = self.waiting.iter().position(|(other, _)| *other == turn)?;
        let before = self.waiting.iter().take(at).map(|(_, bytes)| self.rate.time_for(*bytes));
        let wait = (self.from(now) + before.sum()).saturating_duration_since(now);
        if at > 0 {
            return Some(wait.max(Self::SOON));
        }
        if !wait.is_zero() {
            return Some(wait);
        }
        self.handle_moved(now, turn);
        None
    }

    /// Its bytes will not be sent.
    pub fn handle_left(&mut self, turn: Turn) {
        self.waiting.retain(|(other, _)| *other != turn);
    }

    /// Its bytes have moved, though nobody waits for its turn any more.
    pub fn handle_moved(&mut self, now: Instant, turn: Turn) {
        let Some(at) = self.waiting.iter().position(|(other, _)| *other == turn) else { return };
        if let Some((_, bytes)) = self.waiting.remove(at) {
            self.paid_until = Some(self.from(now) + self.rate.time_for(bytes));
        }
    }

    /// So many bytes were counted and never went.
    pub fn handle_returned(&mut self, bytes: u64) {
        let earlier = |until: Instant| until.checked_sub(self.rate.time_for(bytes));
        self.paid_until = self.paid_until.and_then(earlier);
    }

    /// When the next bytes may go.
    fn from(&self, now: Instant) -> Instant {
        let earliest = now.checked_sub(Self::BURST).unwrap_or(now);
        self.paid_until.unwrap_or(now).max(earliest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Instant {
        #[allow(clippy::disallowed_methods)]
        Instant::now()
    }

    #[test]
    fn the_long_run_rate_holds_whatever_the_piece_size() {
        let t0 = now();
        for piece in [1_000u64, 16_384, 1 << 20] {
            let mut pace = Pace::new(Rate::per_second(1_000_000).unwrap());
            let mut now = t0;
            let mut sent = 0;
            while sent < 10_000_000 {
                let turn = pace.handle_wish(piece);
                while let Some(wait) = pace.poll_turn(now, turn) {
                    now += wait;
                }
                sent += piece;
            }
            let rate = sent as f64 / (now - t0).as_secs_f64().max(0.001);
            assert!((900_000.0..1_150_000.0).contains(&rate), "{piece}: {rate}");
        }
    }

    #[test]
    fn those_that_end_before_their_turn_hold_up_nobody_and_let_nobody_hurry() {
        let now = now();
        let piece = 1 << 18;
        let mut pace = Pace::new(Rate::per_second(piece).unwrap());
        let turns: Vec<_> = (0..16).map(|_| pace.handle_wish(piece)).collect();
        assert_eq!(pace.poll_turn(now, turns[0]), None);
        let waits =
            |pace: &mut Pace, now| turns.iter().map(|turn| pace.poll_turn(now, *turn)).collect::<Vec<_>>();
        let seconds = |count| Some(Duration::from_secs(count));
        assert_eq!(waits(&mut pace, now)[1..], (1..16).map(seconds).collect::<Vec<_>>());
        for ended in &turns[1..8] {
            pace.handle_left(*ended);
        }
        assert_eq!(waits(&mut pace, now)[8..], (1..9).map(seconds).collect::<Vec<_>>());
        let later = now + Duration::from_secs(1);
        assert_eq!(pace.poll_turn(later, turns[8]), None);
        assert_eq!(pace.poll_turn(later, turns[9]), seconds(1), "one after the other");
        pace.handle_moved(later, turns[10]);
        assert_eq!(pace.poll_turn(later, turns[9]), seconds(2), "what has come counts");
    }

    /// What took over from UDP waited for a block of four megabytes of which nothing had left.
    #[test]
    fn what_was_counted_and_did_not_go_holds_up_nobody() {
        let now = now();
        let piece = 1 << 18;
        let mut pace = Pace::new(Rate::per_second(piece).unwrap());
        let turns = [(); 2].map(|()| pace.handle_wish(16 * piece));
        assert_eq!(pace.poll_turn(now, turns[0]), None);
        assert_eq!(pace.poll_turn(now, turns[1]), Some(Duration::from_secs(16)));
        pace.handle_returned(15 * piece);
        assert_eq!(pace.poll_turn(now, turns[1]), Some(Duration::from_secs(1)));
    }

    #[test]
    fn no_more_than_a_burst_is_saved_up() {
        let later = now() + Duration::from_secs(60);
        let piece = 1 << 18;
        let mut pace = Pace::new(Rate::per_second(piece).unwrap());
        let turns = [now(), later, later].map(|now| {
            let turn = pace.handle_wish(piece);
            pace.poll_turn(now, turn)
        });
        assert_eq!(turns, [None, None, Some(Duration::from_secs(1) - Pace::BURST)]);
    }
}
