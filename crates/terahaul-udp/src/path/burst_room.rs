//! How long a burst may be for the queue before the narrowest line to have room for it.
//!
//! Lines are measured by bursts ([`super::Capacity`]), and a queue that is shorter than those drops a part of each of them: of a queue of five
//! packets and bursts of twenty-four, four fifths of all that is sent. A queue drops the end of a burst. What is lost for other reasons is
//! anywhere in it.
//!
//! | of the last [`BURSTS`] bursts of which something arrived | a burst has at most |
//! |---|---|
//! | [`MANY`] lost their end and nothing else, or [`TWO`] did and those ends were [`LONG_END`] packets | what the queue took of the one of them of which it took least |
//! | [`GROWING`] in a row, of any length, did not lose their end | a packet more |
//! | anything else | as much as before |
//!
//! A burst that measures the line is long, and on a slow line its packets wait for each other: that is no queue that anybody keeps.

use std::collections::VecDeque;

use crate::Time;

const BURSTS: usize = 8;
const MANY: usize = 5;
const TWO: usize = 2;
const LONG_END: u64 = 8;
const GROWING: u32 = 64;

/// One path's estimate.
#[derive(Clone, Debug, Default)]
pub struct BurstRoom {
    /// The bursts that are under way, oldest first.
    open: VecDeque<Burst>,
    /// What became of those before.
    recent: VecDeque<Seen>,
    most: Option<u64>,
    /// Bursts since then that did not lose their end.
    whole: u32,
}

#[derive(Clone, Copy, Debug)]
struct Burst {
    at: Time,
    /// Where the first of its packets ends in all that is sent on the path.
    leader: u64,
    /// The line was not known then.
    measures: bool,
    under_way: u64,
    arrived: u64,
    lost: u64,
    /// Its packets end at these places of all that is sent on the path.
    last_arrived: u64,
    first_lost: u64,
}

/// Packets of a burst that arrived, and those at its end that did not, if all others did.
#[derive(Clone, Copy, Debug)]
struct Seen {
    arrived: u64,
    end_lost: u64,
}

impl BurstRoom {
    /// A packet goes out that ends at this place of all that is sent on the path; those that do so at the same moment are a burst, which
    /// `measures` where the line is not known.
    pub fn handle_sent(&mut self, at: Time, path_bytes: u64, measures: bool) {
        match self.open.back_mut() {
            Some(last) if last.at == at => last.under_way += 1,
            _ => self.open.push_back(Burst {
                at,
                leader: path_bytes,
                measures,
                under_way: 1,
                arrived: 0,
                lost: 0,
                last_arrived: 0,
                first_lost: u64::MAX,
            }),
        }
    }

    /// One that was sent at `at` arrived; it ends at this place of all that is sent on the path.
    pub fn handle_arrived(&mut self, at: Time, path_bytes: u64) {
        self.settle(at, |burst| {
            burst.arrived += 1;
            burst.last_arrived = burst.last_arrived.max(path_bytes);
        });
    }

    /// It was lost.
    pub fn handle_lost(&mut self, at: Time, path_bytes: u64) {
        self.settle(at, |burst| {
            burst.lost += 1;
            burst.first_lost = burst.first_lost.min(path_bytes);
        });
    }

    /// It was lost for reasons that say nothing of the path.
    pub fn handle_excused(&mut self, at: Time) {
        self.settle(at, |_| ());
    }

    fn settle(&mut self, at: Time, became: impl FnOnce(&mut Burst)) {
        let Some(burst) = self.open.binary_search_by_key(&at, |burst| burst.at).ok() else { return };
        let burst = &mut self.open[burst];
        burst.under_way = burst.under_way.saturating_sub(1);
        became(burst);
        // To the last one more may belong.
        while self.open.len() > 1
            && let Some(burst) = self.open.pop_front_if(|burst| burst.under_way == 0)
        {
            self.handle_settled(&burst);
        }
    }

    fn handle_settled(&mut self, burst: &Burst) {
        if burst.arrived == 0 {
            return;
        }
        let end_lost = if burst.first_lost > burst.last_arrived { burst.lost } else { 0 };
        self.whole = if end_lost > 0 { 0 } else { self.whole + 1 };
        if burst.arrived + burst.lost > 1 {
            if self.recent.len() == BURSTS {
                self.recent.pop_front();
            }
            self.recent.push_back(Seen { arrived: burst.arrived, end_lost });
        }
        let cut = self.recent.iter().filter(|seen| seen.end_lost > 0);
        let (ends, lost) = cut.clone().fold((0, 0), |(ends, lost), seen| (ends + 1, lost + seen.end_lost));
        if ends >= MANY || (ends >= TWO && lost >= LONG_END) {
            self.most = cut.map(|seen| seen.arrived).min();
            self.recent.clear();
            self.whole = 0;
        } else if self.whole >= GROWING {
            self.most = self.most.map(|most| most + 1);
            self.whole = 0;
        }
    }

    /// Whether a packet that is under way may have waited for others of its own burst, for nobody knows how long.
    pub fn is_behind_its_own(&self, at: Time, path_bytes: u64) -> bool {
        let found = self.open.binary_search_by_key(&at, |burst| burst.at).ok();
        found.is_some_and(|found| self.open[found].measures && path_bytes > self.open[found].leader)
    }

    /// Packets in a burst at most, where the queue has shown that it takes no more.
    pub fn most(&self) -> Option<u64> {
        self.most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends a burst of so many packets, of which those arrive of which `arrives` says so.
    fn burst(room: &mut BurstRoom, number: u64, packets: u64, arrives: impl Fn(u64) -> bool) {
        let at = Time::from_nanos(number * 1_000_000);
        (0..packets).for_each(|packet| room.handle_sent(at, number * 1_000 + packet, false));
        for packet in 0..packets {
            let place = number * 1_000 + packet;
            if arrives(packet) { room.handle_arrived(at, place) } else { room.handle_lost(at, place) }
        }
    }

    /// What is said after bursts of which the queue takes so many packets.
    fn after(room: &mut BurstRoom, from: u64, bursts: u64, takes: u64) -> Option<u64> {
        for number in from..from + bursts {
            let packets = room.most().unwrap_or(24);
            burst(room, number, packets, |packet| packet < takes);
        }
        room.most()
    }

    #[test]
    fn bursts_are_as_long_as_a_short_queue_takes_and_longer_once_it_takes_more() {
        let mut room = BurstRoom::default();
        assert_eq!(after(&mut room, 0, 3, 5), Some(5));
        assert_eq!(after(&mut room, 3, 20, 5), Some(5));
        assert_eq!(after(&mut room, 23, 20, 3), Some(3));
        assert_eq!(after(&mut room, 43, 3 * 64, 30), Some(6));
    }

    #[test]
    fn a_queue_that_is_a_little_too_short_shows_as_well() {
        let mut room = BurstRoom::default();
        (0..6).for_each(|number| burst(&mut room, number, 6, |packet| packet < 5));
        assert_eq!(room.most(), Some(5));
    }

    #[test]
    fn what_is_lost_anywhere_in_a_burst_and_a_burst_that_is_lost_whole_say_nothing() {
        let mut room = BurstRoom::default();
        let mut chance = 1u64;
        for number in 0..2_000 {
            let mut lots = Vec::new();
            for _ in 0..6 {
                chance =
                    chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                lots.push(chance >> 33 & 0xff);
            }
            burst(&mut room, number, 6, |packet| lots[packet as usize] >= 13 && number % 9 > 0);
        }
        assert_eq!(room.most(), None);
    }

    #[test]
    fn what_is_under_way_and_what_is_excused_says_nothing() {
        let mut room = BurstRoom::default();
        for number in 0..20 {
            let at = Time::from_nanos(number);
            (0..24).for_each(|packet| room.handle_sent(at, packet, false));
            room.handle_arrived(at, 0);
            (1..24).for_each(|_| room.handle_excused(at));
        }
        assert_eq!((room.most(), room.open.len()), (None, 1));
        let at = Time::from_nanos(100);
        (0..24).for_each(|packet| room.handle_sent(at, packet, false));
        assert_eq!(room.open.len(), 2, "more may belong to the last");
    }

    #[test]
    fn a_packet_is_behind_its_own_where_its_burst_measures_and_another_leads_that() {
        let mut room = BurstRoom::default();
        let (measuring, usual) = (Time::from_nanos(1), Time::from_nanos(2));
        (0..3).for_each(|packet| room.handle_sent(measuring, packet, true));
        (3..6).for_each(|packet| room.handle_sent(usual, packet, false));
        let behind = [(measuring, 0), (measuring, 1), (measuring, 2), (usual, 3), (usual, 4)];
        let behind = behind.map(|(at, place)| room.is_behind_its_own(at, place));
        assert_eq!(behind, [false, true, true, false, false]);
    }
}
