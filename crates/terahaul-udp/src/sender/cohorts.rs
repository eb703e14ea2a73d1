//! Which packets were sent in which round trip, and what became of them.
//!
//! A loss is noticed a round trip after it happened, or much later when nothing was sent behind it. A law that judges
//! what a change of its rate did needs to know of the packets that were sent under it, and of no others.

use std::collections::VecDeque;

use crate::rate::Cohort;

/// The rounds of which packets are under way.
#[derive(Debug, Default)]
pub(crate) struct Cohorts {
    /// With the bytes of each that are under way.
    open: VecDeque<(Cohort, u64)>,
}

impl Cohorts {
    /// A packet is sent in `round`, which never goes back.
    pub(crate) fn handle_sent(&mut self, round: u64, len: u64) {
        match self.open.back_mut() {
            Some((last, under_way)) if last.round == round => *under_way += len,
            _ => self.open.push_back((Cohort { round, ..Cohort::default() }, len)),
        }
    }

    fn settle(&mut self, round: u64, len: u64) -> Option<&mut Cohort> {
        let first = self.open.front()?.0.round;
        // Nearly every round has packets, so that its place is where one would look first.
        let guess = round.checked_sub(first)? as usize;
        let at = match self.open.get(guess) {
            Some((cohort, _)) if cohort.round == round => guess,
            _ => self.open.iter().position(|(cohort, _)| cohort.round == round)?,
        };
        let (cohort, under_way) = self.open.get_mut(at)?;
        *under_way = under_way.saturating_sub(len);
        Some(cohort)
    }

    /// It arrived.
    pub(crate) fn handle_arrived(&mut self, round: u64, len: u64) {
        if let Some(cohort) = self.settle(round, len) {
            cohort.arrived += len;
        }
    }

    /// It was lost; `counts` if that says something of the path.
    pub(crate) fn handle_lost(&mut self, round: u64, len: u64, counts: bool) {
        if let Some(cohort) = self.settle(round, len)
            && counts
        {
            cohort.lost += len;
        }
    }

    /// The next round before `round` of which nothing is under way any more.
    pub(crate) fn poll_settled(&mut self, round: u64) -> Option<Cohort> {
        let (cohort, under_way) = self.open.front()?;
        if cohort.round >= round || *under_way > 0 {
            return None;
        }
        self.open.pop_front().map(|(cohort, _)| cohort)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_is_told_once_all_its_packets_are_settled_and_in_order() {
        let mut cohorts = Cohorts::default();
        for round in [3, 3, 4, 6] {
            cohorts.handle_sent(round, 100);
        }
        cohorts.handle_arrived(4, 100);
        cohorts.handle_arrived(3, 100);
        assert_eq!(cohorts.poll_settled(6), None, "one of round 3 is under way");
        cohorts.handle_lost(3, 100, true);
        assert_eq!(cohorts.poll_settled(3), None);
        assert_eq!(cohorts.poll_settled(6), Some(Cohort { round: 3, arrived: 100, lost: 100 }));
        assert_eq!(cohorts.poll_settled(6), Some(Cohort { round: 4, arrived: 100, lost: 0 }));
        cohorts.handle_lost(6, 100, false);
        assert_eq!(cohorts.poll_settled(6), None, "more may be sent in it");
        assert_eq!(cohorts.poll_settled(7), Some(Cohort { round: 6, arrived: 0, lost: 0 }));
    }
}
