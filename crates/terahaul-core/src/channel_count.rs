//! How many data channels to keep open: add while it helps, drop what does not.
//!
//! A hill climber over measured throughput. One connection on a clean local path is already limited by the
//! processors; on a long or lossy path each connection's window is the limit and more of them add up. What a long path
//! needs is known before the first byte, and each step of a climb would cost many of its round trips: it starts higher.
//!
//! | state | each interval | next |
//! |---|---|---|
//! | measuring at N | record the rate | try N + step; where the user's limit leaves no room for a gain, hold |
//! | trying N + step | rate rose by more than [`GAIN`] | keep it, try again |
//! | trying N + step | it did not | go back to N, hold |
//! | holding | [`HOLD`] intervals pass, or the rate falls by a third | measuring |
//! | trying N + step | the channels were gone for a while (`restart`, in any state) | back to N, measuring |

use std::time::{Duration, Instant};

use crate::Rate;

/// How much faster more channels must be to be kept.
const GAIN: f64 = 1.08;
/// Intervals to hold before trying again.
const HOLD: u32 = 20;

/// Bytes a second that each channel a long path begins with is to have of the user's limit. Each has a block under way, of which nothing is kept until it
/// is whole.
const SHARE: u64 = 1_000_000;
/// Bytes that a measurement takes at least, where the user's limit is low: they go in pieces of 256 KiB.
const ENOUGH: u64 = 8 << 18;

/// Chooses the number of data channels. `handle_bytes` as blocks are acknowledged or sent; `poll_target` often.
#[derive(Clone, Debug)]
pub struct ChannelCount {
    target: u32,
    max: u32,
    fixed: bool,
    long: bool,
    /// More than this goes over all of them together.
    most: Option<Rate>,
    /// Some of what they have done in this interval was copied, which the limit is not of.
    copies: bool,
    /// How long each measurement lasts at least, however short the path.
    least: Duration,
    interval: Duration,
    interval_start: Option<Instant>,
    bytes: u64,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Measuring,
    Trying { base: u32, base_rate: f64 },
    Holding { left: u32, rate: f64 },
}

impl ChannelCount {
    /// Channels opened at the start.
    pub const START: u32 = 2;
    /// The same on a path whose round trip is [`ChannelCount::LONG`] or more: a system's default buffers hold some
    /// 4 MB, a third of what 1 Gbit/s over 100 ms has under way, and each connection begins slowly.
    pub const START_LONG: u32 = 8;
    /// Where a round trip takes [`ChannelCount::VERY_LONG`] or more, as many as there may be: what each second of
    /// climbing would cost is more than what the last ones cost when they are not needed.
    pub const VERY_LONG: Duration = Duration::from_millis(50);
    /// Round trips from here on are long.
    pub const LONG: Duration = Duration::from_millis(10);
    /// Most channels that adapting opens.
    pub const MAX: u32 = 16;
    /// How long each measurement lasts at least.
    pub const INTERVAL: Duration = Duration::from_millis(500);
    /// How many round trips it lasts at least: a new connection's first say nothing about it.
    const ROUND_TRIPS: u32 = 10;

    /// Adapts between 1 and [`ChannelCount::MAX`].
    pub fn adaptive() -> Self {
        Self {
            target: Self::START,
            max: Self::MAX,
            fixed: false,
            long: false,
            most: None,
            copies: false,
            least: Self::INTERVAL,
            interval: Self::INTERVAL,
            interval_start: None,
            bytes: 0,
            state: State::Measuring,
        }
    }

    /// Always `count` channels: the user said so.
    pub fn fixed(count: u32) -> Self {
        Self { target: count, max: count, fixed: true, ..Self::adaptive() }
    }

    /// The same where the user has a limit, which more channels do not exceed.
    pub fn limited_to(self, most: Option<Rate>) -> Self {
        let enough = most.map(|most| Duration::from_secs_f64(ENOUGH as f64 / most.bytes_per_second() as f64));
        let least = Self::INTERVAL.max(enough.unwrap_or_default());
        Self { most, least, interval: least, ..self }
    }

    /// The other end allows no more than this.
    pub fn limit(&mut self, max: u32) {
        self.max = self.max.min(max.max(1));
        self.target = self.target.min(self.max);
    }

    /// How long the path's round trip is, as soon as that is known.
    pub fn handle_round_trip(&mut self, round_trip: Duration) {
        self.interval = self.least.max(round_trip * Self::ROUND_TRIPS);
        self.long = round_trip >= Self::LONG;
        if !self.fixed && self.long && self.state == State::Measuring {
            let start = if round_trip >= Self::VERY_LONG { Self::MAX } else { Self::START_LONG };
            let worth =
                self.most.map_or(start, |most| (most.bytes_per_second() / SHARE).min(start.into()) as u32);
            self.target = self.target.max(worth).min(self.max);
        }
    }

    /// How many channels are worth connecting before the other end has agreed to a session: on a long path all that
    /// will be wanted, on a short one none.
    pub fn ahead(&self) -> u32 {
        if self.long { self.target } else { 0 }
    }

    /// The channels that there were have gone: the time until others are there says nothing about how many are worth having.
    pub fn restart(&mut self) {
        (self.interval_start, self.bytes) = (None, 0);
        if let State::Trying { base, .. } = self.state {
            self.target = base;
            self.state = State::Measuring;
        }
    }

    /// This many bytes have gone out on the data channels.
    pub fn handle_bytes(&mut self, bytes: u64) {
        self.bytes += bytes;
    }

    /// Some of these bytes were copied at the other end instead.
    pub fn handle_copies(&mut self) {
        self.copies = true;
    }

    /// How many channels there should be now.
    pub fn poll_target(&mut self, now: Instant) -> u32 {
        if self.fixed {
            return self.target;
        }
        let start = *self.interval_start.get_or_insert(now);
        let elapsed = now.saturating_duration_since(start);
        if elapsed >= self.interval {
            let rate = self.bytes as f64 / elapsed.as_secs_f64();
            self.interval_start = Some(now);
            self.bytes = 0;
            self.handle_rate(rate);
            self.copies = false;
        }
        self.target
    }

    fn handle_rate(&mut self, rate: f64) {
        self.state = match self.state {
            State::Measuring => self.try_more(rate),
            State::Trying { base_rate, .. } if rate > base_rate * GAIN => self.try_more(rate),
            State::Trying { base, base_rate } => {
                self.target = base;
                State::Holding { left: HOLD, rate: base_rate.max(rate) }
            }
            State::Holding { left, rate: held } if left == 0 || rate < held * 0.66 => State::Measuring,
            State::Holding { left, rate: held } => State::Holding { left: left - 1, rate: held },
        };
    }

    fn try_more(&mut self, rate: f64) -> State {
        let most = self.most.filter(|_| !self.copies);
        let is_all = most.is_some_and(|most| rate * GAIN >= most.bytes_per_second() as f64);
        if self.target >= self.max || rate <= 0.0 || is_all {
            return State::Holding { left: HOLD, rate };
        }
        let base = self.target;
        self.target = (base + base.max(2)).min(self.max);
        State::Trying { base, base_rate: rate }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Drives the law over a path whose rate is a function of the number of channels.
    fn settle(path: impl Fn(u32) -> f64, intervals: u32) -> u32 {
        #[allow(clippy::disallowed_methods)]
        let mut now = Instant::now();
        let mut law = ChannelCount::adaptive();
        let mut target = law.poll_target(now);
        let mut seen = Vec::new();
        for _ in 0..intervals {
            law.handle_bytes((path(target) * ChannelCount::INTERVAL.as_secs_f64()) as u64);
            now += ChannelCount::INTERVAL;
            target = law.poll_target(now);
            seen.push(target);
        }
        seen.sort_unstable();
        seen[seen.len() / 2]
    }

    #[test]
    fn a_path_limited_by_each_connection_gets_many() {
        assert_eq!(settle(|n| f64::from(n) * 10e6, 40), 16);
    }

    #[test]
    fn a_path_limited_by_the_processors_keeps_two() {
        assert_eq!(settle(|_| 1e9, 40), 2);
    }

    /// A piece a second, now and then two: what half a second sees of that is chance.
    #[test]
    fn a_low_limit_keeps_two_on_a_short_path_and_on_a_long_one() {
        const PIECE: u64 = 256 << 10;
        #[allow(clippy::disallowed_methods)]
        let began = Instant::now();
        for round_trip in [Duration::from_millis(1), Duration::from_millis(100)] {
            let rate = 200_000;
            let mut law = ChannelCount::adaptive().limited_to(Rate::per_second(rate));
            law.handle_round_trip(round_trip);
            let mut left = 0;
            for tick in 1..6000 {
                left += rate / 10;
                if left >= PIECE {
                    left -= PIECE;
                    law.handle_bytes(PIECE);
                }
                let target = law.poll_target(began + Duration::from_millis(100 * tick));
                assert_eq!(target, ChannelCount::START, "after {tick} tenths of a second");
            }
        }
    }

    #[test]
    fn below_a_limit_that_one_connection_does_not_reach_there_are_as_many_as_it_takes() {
        let mut law = ChannelCount::adaptive().limited_to(Rate::per_second(8_000_000));
        #[allow(clippy::disallowed_methods)]
        let mut now = Instant::now();
        for _ in 0..40 {
            let target = law.poll_target(now);
            law.handle_bytes(u64::from(target).min(8) * 500_000);
            now += ChannelCount::INTERVAL;
        }
        assert!((8..=16).contains(&law.poll_target(now)), "{}", law.poll_target(now));
    }

    /// Nine tenths of a large file are the old one's.
    #[test]
    fn what_is_copied_does_not_count_as_what_the_limit_is_of() {
        let mut law = ChannelCount::adaptive().limited_to(Rate::per_second(2_500_000));
        #[allow(clippy::disallowed_methods)]
        let mut now = Instant::now();
        let mut run = |copies: bool, seconds: u64| {
            for _ in 0..seconds {
                let target = law.poll_target(now);
                law.handle_bytes(u64::from(target) * 2_500_000);
                if copies {
                    law.handle_copies();
                }
                now += Duration::from_secs(1);
            }
            law.poll_target(now)
        };
        assert_eq!(run(true, 40), ChannelCount::MAX);
        // What comes behind it is all sent.
        law = ChannelCount::adaptive().limited_to(Rate::per_second(2_500_000));
        law.handle_copies();
        let mut run = |seconds: u64| {
            for _ in 0..seconds {
                law.poll_target(now);
                law.handle_bytes(2_500_000);
                now += Duration::from_secs(1);
            }
            law.poll_target(now)
        };
        assert_eq!(run(200), ChannelCount::START);
    }

    #[test]
    fn a_path_that_fills_with_eight_stays_near_eight() {
        let settled = settle(|n| f64::from(n).min(8.0) * 10e6, 60);
        assert!((7..=12).contains(&settled), "{settled}");
    }

    #[test]
    fn a_long_path_starts_with_more_and_is_measured_over_more_than_its_round_trips() {
        #[allow(clippy::disallowed_methods)]
        let now = Instant::now();
        let mut law = ChannelCount::adaptive();
        law.handle_round_trip(Duration::from_millis(100));
        assert_eq!((law.poll_target(now), law.ahead()), (16, 16));
        let mut law = ChannelCount::adaptive();
        law.handle_round_trip(Duration::from_millis(40));
        assert_eq!((law.poll_target(now), law.ahead()), (8, 8));
        law.handle_bytes(1 << 20);
        assert_eq!(law.poll_target(now + Duration::from_millis(499)), 8, "not yet measured");
        assert_eq!(law.poll_target(now + Duration::from_millis(500)), 16);
        let mut near = ChannelCount::adaptive();
        near.handle_round_trip(Duration::from_micros(300));
        assert_eq!((near.poll_target(now), near.ahead()), (2, 0));
        let mut fixed = ChannelCount::fixed(1);
        fixed.handle_round_trip(Duration::from_millis(100));
        assert_eq!(fixed.poll_target(now), 1);
    }

    #[test]
    fn channels_that_were_gone_for_a_while_are_not_taken_for_slow_ones() {
        #[allow(clippy::disallowed_methods)]
        let mut now = Instant::now();
        let mut law = ChannelCount::adaptive();
        law.handle_round_trip(ChannelCount::LONG);
        assert_eq!(law.poll_target(now), 8);
        law.handle_bytes(30_000_000);
        now += Duration::from_millis(300);
        assert_eq!(law.poll_target(now), 8);
        now += Duration::from_secs(10);
        law.restart();
        let targets = [0, 1, 2].map(|_| {
            let target = law.poll_target(now);
            law.handle_bytes(50_000_000);
            now += ChannelCount::INTERVAL;
            target
        });
        assert_eq!(targets, [8, 16, 8], "as fast with 8 as with 16");
    }

    #[test]
    fn channels_that_go_while_more_are_tried_have_shown_nothing() {
        #[allow(clippy::disallowed_methods)]
        let mut now = Instant::now();
        let mut law = ChannelCount::adaptive();
        law.poll_target(now);
        law.handle_bytes(50_000_000);
        now += ChannelCount::INTERVAL;
        assert_eq!(law.poll_target(now), 4);
        law.restart();
        assert_eq!(law.poll_target(now), 2);
    }

    #[test]
    fn a_fixed_count_is_kept() {
        #[allow(clippy::disallowed_methods)]
        let now = Instant::now();
        let mut law = ChannelCount::fixed(5);
        law.handle_bytes(1 << 30);
        assert_eq!(law.poll_target(now + Duration::from_secs(9)), 5);
        law.limit(3);
        assert_eq!(law.poll_target(now), 3);
    }
}
