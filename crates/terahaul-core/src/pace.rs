//! `--limit`: a token bucket shared by all channels.

use std::time::{Duration, Instant};

use crate::Rate;

/// Says how long to wait before the next bytes, so that the long-run rate holds. Bursts of a tenth of a second pass.
#[derive(Clone, Debug)]
pub struct Pace {
    rate: Rate,
    /// When the bytes granted so far will have been paid for.
    paid_until: Option<Instant>,
}

impl Pace {
    const BURST: Duration = Duration::from_millis(100);

    /// Holds to `rate`.
    pub fn new(rate: Rate) -> Self {
        Self { rate, paid_until: None }
    }

    /// Grants `bytes`; the caller waits for the returned time before it sends them.
    pub fn handle_send(&mut self, now: Instant, bytes: u64) -> Duration {
        let earliest = now.checked_sub(Self::BURST).unwrap_or(now);
        let from = self.paid_until.unwrap_or(now).max(earliest);
        let until = from + self.rate.time_for(bytes);
        self.paid_until = Some(until);
        from.saturating_duration_since(now)
    }

    /// `bytes` that were granted will not be sent: what their turn was worth is others'.
    pub fn handle_unsent(&mut self, bytes: u64) {
        self.paid_until = self.paid_until.and_then(|until| until.checked_sub(self.rate.time_for(bytes)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_long_run_rate_holds_whatever_the_piece_size() {
        #[allow(clippy::disallowed_methods)]
        let t0 = Instant::now();
        for piece in [1_000u64, 16_384, 1 << 20] {
            let mut pace = Pace::new(Rate::per_second(1_000_000).unwrap());
            let mut now = t0;
            let mut sent = 0;
            while sent < 10_000_000 {
                now += pace.handle_send(now, piece);
                sent += piece;
            }
            let rate = sent as f64 / (now - t0).as_secs_f64().max(0.001);
            assert!((900_000.0..1_150_000.0).contains(&rate), "{piece}: {rate}");
        }
    }

    #[test]
    fn what_was_granted_to_those_that_end_before_their_turn_holds_up_nobody() {
        #[allow(clippy::disallowed_methods)]
        let now = Instant::now();
        let piece = 1 << 18;
        let mut pace = Pace::new(Rate::per_second(piece).unwrap());
        let waits: Vec<_> = (0..16).map(|_| pace.handle_send(now, piece).as_secs()).collect();
        assert_eq!(waits, (0..16).collect::<Vec<_>>());
        (1..16).for_each(|_| pace.handle_unsent(piece));
        assert_eq!(pace.handle_send(now, piece), Duration::from_secs(1), "behind the one that was sent");
        let later = now + Duration::from_secs(60);
        pace.handle_send(later, piece);
        pace.handle_unsent(piece);
        pace.handle_send(later, piece);
        assert!(
            pace.handle_send(later, piece) >= Duration::from_millis(900),
            "no more than its burst is saved up"
        );
    }
}
