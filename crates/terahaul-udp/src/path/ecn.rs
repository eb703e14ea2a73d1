//! Whether routers may mark packets on this path (ECN, RFC 3168), and whether their marks are believed (after RFC 9000, section 13.4.2).
//!
//! A packet that may be marked is *markable* here, ECT(0) on the wire; one that a router has marked, because its queue was long, is
//! *marked*, CE. Some paths drop what is markable, and some mark whatever comes. So nothing is markable before the path was heard without
//! it; then a few packets are, to test it.
//!
//! | state | what is seen | next |
//! |---|---|---|
//! | untested | a packet that was sent on this path arrives | testing |
//! | testing | all of the test's packets are lost | testing, with others; the third time, off |
//! | testing | those that arrive are known, half of them are marked, and nothing waits | off |
//! | testing | those that arrive are known | capable |
//! | capable | [`Ecn::TEST`] are lost, and none that was sent later has arrived | testing |
//! | capable | of the rounds in which nothing waits, [`Ecn::DOUBTS`] in a row have marks | off |
//! | testing, capable | more packets were marked than were markable | off |
//! | any | packets go another way | untested |
//!
//! Packets are markable while the path is capable, and for a test: [`Ecn::TEST`] of them, and the rest of their burst. Those that follow
//! until the test is over are not, and show whether it is only markable ones that are lost: a path that is down loses both.
//!
//! A mark is told to the law only while the path is capable, and where packets wait or did a round ago: what waits on the way to a
//! mark that is true is seen. Where marks come although nothing waits, they are not believed later, when something does: a router that
//! marks for less than one of this end's bursts, as some do within a data centre, is not told from one that does so for no reason, and
//! what waits is all that the law goes by.
//!
//! That a path carries packets and takes off that they are markable is not seen, as reports count the marks alone. It gives no marks, as
//! one whose routers have none to give, and no law takes anything from there being none: what waits and what is lost tell of both.

use std::time::Duration;

use crate::Time;

/// One path's.
#[derive(Clone, Debug, Default)]
pub struct Ecn {
    state: State,
    /// Packets so far that were markable, and that were marked.
    markable: u64,
    marked: u64,
    /// What was sent before this was sent before the test, or went another way.
    since: Time,
    /// Tests in a row of which nothing arrived.
    failures: u32,
    round: Round,
    /// Packets waited in the round before.
    waited: bool,
}

#[derive(Clone, Copy, Debug, Default)]
enum State {
    #[default]
    Untested,
    Testing(Test),
    Capable(Trust),
    Off,
}

/// Markable packets of the test.
#[derive(Clone, Copy, Debug, Default)]
struct Test {
    sent: u32,
    arrived: u32,
    lost: u32,
    marked: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Trust {
    /// When the newest markable packet that arrived had been sent.
    newest: Time,
    /// Markable packets that were sent after it and lost.
    lost: u32,
    /// How many of the last rounds in which nothing waited had marks, one after the other.
    doubts: u32,
}

/// The round trip under way.
#[derive(Clone, Copy, Debug, Default)]
struct Round {
    number: u64,
    /// Packets waited.
    waits: bool,
    /// A markable packet arrived.
    heard: bool,
    marked: bool,
}

impl Ecn {
    /// Packets of a test at least.
    pub const TEST: u32 = 10;
    /// Rounds in a row with marks that nothing explains. Others' bursts may be gone before they show.
    pub const DOUBTS: u32 = 8;
    /// From so many on no mark is believed, until a round in which nothing waits has none.
    const FEW_DOUBTS: u32 = 2;
    /// Tests in a row of which nothing arrives. The path may be down during one.
    const TRIES: u32 = 3;
    /// Waiting for less than this, on near paths and on far ones, is nothing: as much comes of the ends and their clocks.
    const LEAST: Duration = Duration::from_micros(50);
    const MOST: Duration = Duration::from_millis(1);

    /// Whether the next burst is to be markable.
    pub fn is_markable(&self) -> bool {
        match &self.state {
            State::Testing(test) => test.sent < Self::TEST,
            State::Capable(_) => true,
            State::Untested | State::Off => false,
        }
    }

    /// Whether a test is under way of which nothing has arrived: that its packets are lost says nothing of congestion.
    pub fn is_unheard(&self) -> bool {
        matches!(&self.state, State::Testing(test) if test.arrived == 0)
    }

    /// A markable packet goes out.
    pub fn handle_sent(&mut self) {
        self.markable += 1;
        if let State::Testing(test) = &mut self.state {
            test.sent += 1;
        }
    }

    /// A markable packet arrived that was sent then.
    pub fn handle_arrived(&mut self, sent: Time) {
        if sent < self.since {
            return;
        }
        self.round.heard = true;
        match &mut self.state {
            State::Testing(test) => test.arrived += 1,
            State::Capable(trust) if sent > trust.newest => (trust.newest, trust.lost) = (sent, 0),
            _ => {}
        }
    }

    /// A markable packet was lost that was sent then.
    pub fn handle_lost(&mut self, sent: Time) {
        match &mut self.state {
            State::Testing(test) if sent >= self.since => test.lost += 1,
            State::Capable(trust) if sent > trust.newest => trust.lost += 1,
            _ => {}
        }
    }

    /// A report tells of packets that arrived, the newest of which was sent at `newest`, and of so many more that are marked. The queue
    /// keeps packets waiting for `waiting`, on a path of this length. Returns how many marks are believed.
    pub fn handle_report(
        &mut self,
        now: Time,
        newest: Time,
        round: u64,
        marked: u64,
        waiting: Duration,
        round_trip: Duration,
    ) -> u64 {
        if round > self.round.number {
            self.end_round(round);
        }
        self.round.waits |= waiting > (round_trip / 64).clamp(Self::LEAST, Self::MOST);
        self.round.marked |= marked > 0;
        self.marked = self.marked.saturating_add(marked);
        match self.state {
            // Those that are too many may be another way's.
            State::Untested => self.marked = self.marked.min(self.markable),
            _ if self.marked > self.markable => self.state = State::Off,
            _ => {}
        }
        let waits = self.round.waits || self.waited;
        match &mut self.state {
            State::Untested if newest >= self.since => self.test(now),
            State::Testing(test) => {
                test.marked = test.marked.saturating_add(marked);
                let test = *test;
                if test.sent >= Self::TEST && test.arrived + test.lost >= test.sent {
                    self.end_test(now, test, waits);
                }
            }
            State::Capable(trust) if trust.lost >= Self::TEST => self.test(now),
            State::Capable(trust) if trust.doubts >= Self::DOUBTS => self.state = State::Off,
            State::Capable(trust) if waits && trust.doubts < Self::FEW_DOUBTS => return marked,
            State::Untested | State::Capable(_) | State::Off => {}
        }
        0
    }

    fn end_round(&mut self, next: u64) {
        let Round { waits, heard, marked, .. } = self.round;
        if let State::Capable(trust) = &mut self.state
            && heard
            && !waits
            && !self.waited
        {
            trust.doubts = if marked { trust.doubts + 1 } else { 0 };
        }
        self.waited = waits;
        self.round = Round { number: next, ..Round::default() };
    }

    fn test(&mut self, now: Time) {
        self.since = now;
        self.state = State::Testing(Test::default());
    }

    fn end_test(&mut self, now: Time, test: Test, waits: bool) {
        if test.arrived == 0 {
            self.failures += 1;
            match self.failures < Self::TRIES {
                true => self.test(now),
                false => self.state = State::Off,
            }
            return;
        }
        self.failures = 0;
        let is_marked = test.marked >= u64::from(test.arrived.div_ceil(2));
        self.state = match is_marked && !waits {
            true => State::Off,
            false => State::Capable(Trust { newest: now, ..Trust::default() }),
        };
    }

    /// Packets go another way from now on.
    pub fn handle_new_path(&mut self, now: Time) {
        let Self { markable, marked, round, .. } = *self;
        let round = Round { number: round.number, ..Round::default() };
        *self = Self { markable, marked, since: now, round, ..Self::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUND_TRIP: Duration = Duration::from_millis(40);
    const QUEUE: Duration = Duration::from_millis(5);

    /// A path in whose rounds 20 packets are sent.
    #[derive(Default)]
    struct Path {
        ecn: Ecn,
        now: Time,
        round: u64,
    }

    /// What it makes of packets.
    struct Does {
        /// Of markable ones.
        drops: bool,
        /// How many it marks.
        marks: u64,
        waiting: Duration,
    }

    const NOTHING: Does = Does { drops: false, marks: 0, waiting: Duration::ZERO };
    const DROPS: Does = Does { drops: true, ..NOTHING };

    impl Path {
        /// How many marks of a round's 20 packets are believed, and whether those were markable.
        fn round(&mut self, does: &Does) -> (u64, bool) {
            let markable = self.ecn.is_markable();
            let sent = self.now;
            (0..20).filter(|_| markable).for_each(|_| self.ecn.handle_sent());
            self.now = self.now + ROUND_TRIP;
            self.round += 1;
            for _ in (0..20).filter(|_| markable) {
                match does.drops {
                    true => self.ecn.handle_lost(sent),
                    false => self.ecn.handle_arrived(sent),
                }
            }
            let marked = if markable && !does.drops { does.marks } else { 0 };
            (self.ecn.handle_report(self.now, sent, self.round, marked, does.waiting, ROUND_TRIP), markable)
        }

        /// Which of so many rounds were markable.
        fn rounds(&mut self, count: usize, does: &Does) -> Vec<bool> {
            (0..count).map(|_| self.round(does).1).collect()
        }

        fn capable() -> Self {
            let mut path = Self::default();
            assert_eq!(path.rounds(3, &NOTHING), [false, true, true], "it is heard, and tested");
            path
        }
    }

    #[test]
    fn a_path_that_carries_the_test_is_capable_and_its_marks_are_believed() {
        let mut path = Path::capable();
        let honest = Does { marks: 7, waiting: QUEUE, ..NOTHING };
        assert!((0..100).all(|_| path.round(&honest) == (7, true)));
    }

    #[test]
    fn a_path_that_drops_what_is_markable_gets_three_tests_of_it() {
        assert_eq!(Path::default().rounds(6, &DROPS), [false, true, true, true, false, false]);
    }

    #[test]
    fn a_path_that_comes_to_drop_what_is_markable_does_too() {
        let mut path = Path::capable();
        assert_eq!(path.rounds(6, &DROPS), [true, true, true, true, false, false]);
        let mut restored = Path::capable();
        restored.rounds(2, &DROPS);
        assert!(restored.rounds(9, &NOTHING).into_iter().all(|markable| markable), "it was down");
    }

    #[test]
    fn while_a_test_has_no_answer_nothing_is_markable() {
        let mut ecn = Ecn::default();
        ecn.handle_report(Time::ZERO, Time::ZERO, 1, 0, Duration::ZERO, ROUND_TRIP);
        for _ in 0..Ecn::TEST {
            assert!(ecn.is_markable());
            ecn.handle_sent();
        }
        assert!(!ecn.is_markable() && ecn.is_unheard());
        ecn.handle_arrived(Time::ZERO);
        ecn.handle_report(Time::ZERO, Time::ZERO, 2, 0, Duration::ZERO, ROUND_TRIP);
        assert!(!ecn.is_markable() && !ecn.is_unheard(), "of the others nothing is known");
    }

    #[test]
    fn a_test_that_is_marked_is_believed_where_packets_wait_and_only_there() {
        for (marks, waiting, capable) in [
            (20, Duration::ZERO, false),
            (10, Duration::ZERO, false),
            (9, Duration::ZERO, true),
            (20, QUEUE, true),
        ] {
            let mut path = Path::default();
            let markable = path.rounds(3, &Does { marks, waiting, ..NOTHING });
            assert_eq!(markable, [false, true, capable], "{marks} marks, {waiting:?}");
        }
    }

    #[test]
    fn marks_that_no_queue_explains_are_not_believed_and_after_eight_rounds_there_are_none() {
        let mut path = Path::capable();
        let marks = Does { marks: 2, ..NOTHING };
        let waits = Does { waiting: QUEUE, ..marks };
        // What the second of them has shown is known when it is over.
        assert_eq!([path.round(&marks), path.round(&marks), path.round(&waits)], [(0, true); 3]);
        // That one and the next are no reason for doubt, and none against it.
        assert_eq!(path.rounds(7, &marks), [true; 7]);
        assert_eq!(path.rounds(2, &marks), [true, false]);
        let mut restored = Path::capable();
        restored.rounds(7, &marks);
        let restored = [&NOTHING, &waits, &waits].map(|does| restored.round(does).0);
        assert_eq!(restored, [0, 2, 2], "a round without marks is reason enough");
    }

    #[test]
    fn a_mark_now_and_then_is_no_reason_for_doubt() {
        let mut path = Path::capable();
        let marks = Does { marks: 1, ..NOTHING };
        assert!((0..100).all(|_| path.rounds(7, &marks)[6] && path.round(&NOTHING).1));
    }

    #[test]
    fn a_path_that_marks_what_is_not_markable_is_not_believed() {
        let mut ecn = Ecn::default();
        ecn.handle_report(Time::ZERO, Time::ZERO, 1, 1, QUEUE, ROUND_TRIP);
        ecn.handle_report(Time::ZERO, Time::ZERO, 2, u64::MAX, QUEUE, ROUND_TRIP);
        assert!(!ecn.is_markable());
        let mut path = Path::capable();
        assert_eq!(path.round(&Does { marks: 1_000, waiting: QUEUE, ..NOTHING }), (0, true));
        assert!(!path.ecn.is_markable());
    }

    #[test]
    fn another_way_is_tested_anew() {
        let mut path = Path::default();
        path.rounds(9, &DROPS);
        path.ecn.handle_new_path(path.now);
        assert_eq!(path.rounds(4, &NOTHING), [false, true, true, true]);
    }

    #[test]
    fn marks_of_another_way_are_not_held_against_the_next() {
        for marked in [20, 1_000] {
            let mut path = Path::capable();
            let left = path.now;
            (0..20).for_each(|_| path.ecn.handle_sent());
            path.now = path.now + ROUND_TRIP;
            path.ecn.handle_new_path(path.now);
            // What is under way still comes, marked or not, and says nothing of the next one.
            for marked in [marked - 1, 1] {
                path.ecn.handle_arrived(left);
                path.ecn.handle_report(path.now, left, path.round, marked, Duration::ZERO, ROUND_TRIP);
                assert!(!path.ecn.is_markable(), "{marked} marks");
            }
            assert_eq!(path.rounds(4, &NOTHING), [false, true, true, true], "{marked} marks");
        }
        let mut path = Path::default();
        path.round(&NOTHING);
        path.round(&Does { marks: 1_000, ..NOTHING });
        assert_eq!(path.rounds(2, &NOTHING), [false, false], "it is off");
        path.ecn.handle_new_path(path.now);
        assert_eq!(path.rounds(4, &NOTHING), [false, true, true, true]);
    }
}
