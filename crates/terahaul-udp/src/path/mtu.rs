//! The largest datagram that the path carries whole: datagram packetization layer path MTU discovery (RFC 8899).
//!
//! Probes are padded packets of their own. No message of a router is believed, and none is needed.
//!
//! | state | event | next |
//! |---|---|---|
//! | searching | `poll_probe` | a probe of the candidate is out |
//! | searching | the probe arrives | its size is used; searching with the next candidate, or complete |
//! | searching | the probe is lost | the same again; the third time, nothing of that size passes: the next candidate, or complete |
//! | complete | [`MtuSearch::RAISE`] passes | searching, up to the limit again |
//! | any | packets up to the base arrive, larger ones do not | the base is used; searching between it and what was used |
//! | any | `handle_new_path` | the base is used; searching |
//!
//! The first candidate is the limit: mostly the whole path is as wide as its first hop. After that the search halves.

use std::time::Duration;

use crate::Time;

/// Whether there is something to probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MtuState {
    /// A candidate is being probed.
    Searching,
    /// Nothing larger passes, as of late.
    Complete,
}

/// One path's search. Sizes are of datagrams, without IP's and UDP's headers.
#[derive(Clone, Debug)]
pub struct MtuSearch {
    limit: u32,
    /// What is used.
    current: u32,
    /// Nothing from here on passes.
    too_large: u32,
    probe: Option<u32>,
    tries: u32,
    search_again: Option<Time>,
    /// Since a packet larger than the base arrived: such packets lost, and smaller ones that arrived.
    large_lost: u32,
    small_arrived: u32,
}

impl MtuSearch {
    /// What every path is believed to carry: QUIC's choice (RFC 9000, section 14).
    pub const BASE: u32 = 1_200;
    /// How long before what was found is questioned.
    pub const RAISE: Duration = Duration::from_secs(600);
    const TRIES: u32 = 3;
    /// A difference that is not worth another probe.
    const CLOSE: u32 = 16;

    /// `limit` is what this end's own interface carries.
    pub fn new(limit: u32) -> Self {
        let limit = (limit & !1).max(Self::BASE);
        Self {
            limit,
            current: Self::BASE,
            too_large: limit + 1,
            probe: None,
            tries: 0,
            search_again: None,
            large_lost: 0,
            small_arrived: 0,
        }
    }

    /// The size to use, an even one: a repair code works on pairs of bytes.
    pub fn current(&self) -> u32 {
        self.current
    }

    /// Where the search stands.
    pub fn state(&self) -> MtuState {
        if self.search_again.is_some() { MtuState::Complete } else { MtuState::Searching }
    }

    /// The size of a probe to send now. There is one at a time.
    pub fn poll_probe(&mut self, now: Time) -> Option<u32> {
        if self.search_again.is_some_and(|at| now >= at) {
            self.search_again = None;
            self.too_large = self.limit + 1;
            self.tries = 0;
        }
        if self.probe.is_some() || self.search_again.is_some() {
            return None;
        }
        let Some(candidate) = self.candidate() else {
            self.search_again = Some(now + Self::RAISE);
            return None;
        };
        self.probe = Some(candidate);
        self.probe
    }

    fn candidate(&self) -> Option<u32> {
        if self.too_large <= self.current + Self::CLOSE && self.too_large <= self.limit {
            return None;
        }
        match self.too_large {
            untried if untried > self.limit => (self.current < self.limit).then_some(self.limit),
            too_large => Some((self.current + (too_large - self.current) / 2) & !1),
        }
    }

    /// A probe of this size arrived. One that was given up says nothing of the one that is out.
    pub fn handle_probe_arrived(&mut self, size: u32) {
        if self.probe.take_if(|probe| *probe == size).is_some() {
            self.current = self.current.max(size);
            self.tries = 0;
            self.handle_arrived(size);
        }
    }

    /// A probe of this size was lost.
    pub fn handle_probe_lost(&mut self, size: u32) {
        if self.probe.take_if(|probe| *probe == size).is_some() {
            self.tries += 1;
            if self.tries >= Self::TRIES {
                self.too_large = self.too_large.min(size);
                self.tries = 0;
            }
        }
    }

    /// A packet of this size arrived.
    pub fn handle_arrived(&mut self, len: u32) {
        if len > Self::BASE {
            (self.large_lost, self.small_arrived) = (0, 0);
        } else if self.large_lost > 0 {
            self.small_arrived += 1;
        }
    }

    /// A packet of this size was lost. `true`: the path carries no large packets any more, and the base is used again.
    pub fn handle_lost(&mut self, len: u32) -> bool {
        // What is larger than what is used was sent before that was learnt.
        self.large_lost += u32::from(len > Self::BASE && len <= self.current);
        let black_hole = self.large_lost >= 6 && self.small_arrived >= 2;
        if black_hole {
            self.too_large = self.current;
            self.current = Self::BASE;
            self.search_again = None;
            self.probe = None;
            (self.tries, self.large_lost, self.small_arrived) = (0, 0, 0);
        }
        black_hole
    }

    /// Packets go another way from now on.
    pub fn handle_new_path(&mut self) {
        *self = Self::new(self.limit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Probes until the search is complete; returns the probes sent.
    fn search(mtu: &mut MtuSearch, passes: u32, mut lossy: impl Iterator<Item = bool>) -> u32 {
        let mut probes = 0;
        while let Some(size) = mtu.poll_probe(Time::ZERO) {
            probes += 1;
            assert_eq!(mtu.poll_probe(Time::ZERO), None, "one at a time");
            if size <= passes && !lossy.next().unwrap() {
                mtu.handle_probe_arrived(size)
            } else {
                mtu.handle_probe_lost(size)
            }
        }
        assert_eq!(mtu.state(), MtuState::Complete);
        probes
    }

    proptest! {
        #[test]
        fn what_passes_is_found_and_never_exceeded(limit in 1_200u32..9_000, passes in 1_200u32..9_000, seed: u64) {
            let mut mtu = MtuSearch::new(limit);
            // One loss in ten, and never three in a row.
            let lossy = (0u64..).map(|n| n % 3 == 0 && (seed.rotate_left(n as u32) % 3 == 0));
            let probes = search(&mut mtu, passes, lossy);
            let best = limit.min(passes);
            prop_assert!(mtu.current() <= best);
            prop_assert!(mtu.current() + MtuSearch::CLOSE >= best, "{} of {}", mtu.current(), best);
            prop_assert!(probes <= 60, "{} probes", probes);
        }
    }

    #[test]
    fn a_path_as_wide_as_its_first_hop_takes_one_probe() {
        let mut mtu = MtuSearch::new(1_472);
        assert_eq!(search(&mut mtu, 1_472, std::iter::repeat(false)), 1);
        assert_eq!(mtu.current(), 1_472);
    }

    #[test]
    fn a_path_that_becomes_narrower_is_noticed_and_searched() {
        let mut mtu = MtuSearch::new(1_472);
        search(&mut mtu, 1_472, std::iter::repeat(false));
        let black_hole = (0..10).any(|_| {
            mtu.handle_arrived(1_200);
            mtu.handle_lost(1_472)
        });
        assert!(black_hole);
        assert_eq!((mtu.current(), mtu.state()), (MtuSearch::BASE, MtuState::Searching));
        for _ in 0..20 {
            mtu.handle_arrived(1_200);
            assert!(!mtu.handle_lost(1_472), "the rest of what was under way");
        }
        search(&mut mtu, 1_372, std::iter::repeat(false));
        assert!((1_356..=1_372).contains(&mtu.current()), "{}", mtu.current());
    }

    #[test]
    fn a_probe_that_comes_late_says_nothing_of_the_next() {
        let mut mtu = MtuSearch::new(8_972);
        for _ in 0..MtuSearch::TRIES {
            assert_eq!(mtu.poll_probe(Time::ZERO), Some(8_972));
            mtu.handle_probe_lost(8_972);
        }
        let smaller = mtu.poll_probe(Time::ZERO).unwrap();
        mtu.handle_probe_arrived(8_972);
        assert_eq!(mtu.current(), MtuSearch::BASE);
        mtu.handle_probe_arrived(smaller);
        assert_eq!(mtu.current(), smaller);
    }

    #[test]
    fn loss_alone_is_no_black_hole() {
        let mut mtu = MtuSearch::new(1_472);
        search(&mut mtu, 1_472, std::iter::repeat(false));
        for _ in 0..100 {
            assert!((0..20).all(|_| !mtu.handle_lost(1_472)), "a blackout loses small packets too");
            mtu.handle_arrived(1_472);
            mtu.handle_arrived(100);
        }
        assert_eq!(mtu.current(), 1_472);
    }

    #[test]
    fn a_path_that_becomes_wider_is_noticed_in_time() {
        let mut mtu = MtuSearch::new(8_972);
        search(&mut mtu, 1_472, std::iter::repeat(false));
        let later = Time::ZERO + MtuSearch::RAISE;
        assert_eq!(mtu.poll_probe(later), Some(8_972));
        mtu.handle_probe_arrived(8_972);
        assert_eq!(mtu.current(), 8_972);
    }
}
