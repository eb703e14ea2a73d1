//! Whether the other end has read what was said: it answers pings in the order of what it reads, once it has done what was said before.
//!
//! An answer does not say to which ping. Others are sent while nothing is said ([`write_loop`](crate::control::write_loop)), and of those
//! that went before a session some may never be answered.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts pings and their answers on one control channel.
#[derive(Debug, Default)]
pub(crate) struct Echo {
    /// Pings that were sent because nothing was said.
    idle: Arc<AtomicU64>,
    /// Those that were said here, and answers to any.
    said: u64,
    heard: u64,
    /// So many of those that were said are unanswered, at the least: an answer may be to any.
    sure: u64,
}

/// What was said before some pings is read once so many answers were heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Read(u64);

impl Echo {
    /// On a channel whose writer counts in `idle`.
    pub(crate) fn new(idle: Arc<AtomicU64>) -> Self {
        Self { idle, ..Self::default() }
    }

    /// How many pings are to be said now, behind what is to be read, and what tells that it is.
    pub(crate) fn ask(&mut self) -> (u64, Read) {
        // Answers that may be to others, of which one may just be on its way to the writer; and one that is to these.
        let unanswered = (self.idle.load(Ordering::Relaxed) + self.said).saturating_sub(self.heard);
        let answers = unanswered + 2;
        // Those that were said are answered in any case.
        let pings = answers - self.sure;
        self.said += pings;
        self.sure += pings;
        (pings, Read(self.heard + answers))
    }

    /// An answer.
    pub(crate) fn handle_pong(&mut self) {
        self.heard += 1;
        self.sure = self.sure.saturating_sub(1);
    }

    /// Whether what was said before those pings is read.
    pub(crate) fn is(&self, Read(answers): Read) -> bool {
        self.heard >= answers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All pings are answered in order, but for `lost` of those before. Nothing is taken for read before the answer to the first ping behind
    /// it, and all is once all are answered.
    fn check(echo: &mut Echo, unanswered: u64, lost: u64) {
        let (pings, read) = echo.ask();
        for _ in 0..unanswered - lost {
            assert!(!echo.is(read), "an answer to a ping of before");
            echo.handle_pong();
        }
        assert!(!echo.is(read), "answers to pings of before");
        (0..pings).for_each(|_| echo.handle_pong());
        assert!(echo.is(read), "{echo:?}");
    }

    #[test]
    fn answers_to_pings_of_before_count_for_nothing() {
        let idle = Arc::new(AtomicU64::new(0));
        let mut echo = Echo::new(Arc::clone(&idle));
        check(&mut echo, 0, 0);
        for lost in [0, 3] {
            idle.fetch_add(3, Ordering::Relaxed);
            check(&mut echo, 3, lost);
            check(&mut echo, 0, 0);
        }
    }

    #[test]
    fn a_ping_that_was_sent_in_the_same_moment_is_no_answer() {
        let idle = Arc::new(AtomicU64::new(0));
        let mut echo = Echo::new(Arc::clone(&idle));
        let (pings, read) = echo.ask();
        idle.fetch_add(1, Ordering::Relaxed);
        echo.handle_pong();
        assert!(!echo.is(read));
        (0..pings).for_each(|_| echo.handle_pong());
        assert!(echo.is(read));
    }

    #[test]
    fn who_asks_again_and_again_says_few_pings_and_hears_each_in_its_turn() {
        let mut echo = Echo::new(Arc::new(AtomicU64::new(100)));
        (0..100).for_each(|_| echo.handle_pong());
        let asked: Vec<_> = (0..100).map(|_| echo.ask()).collect();
        assert!(asked.iter().all(|(pings, _)| *pings == 2));
        for (at, (pings, read)) in asked.iter().enumerate() {
            let later = asked.get(at + 1);
            (0..*pings).for_each(|_| echo.handle_pong());
            assert!(echo.is(*read) && later.is_none_or(|(_, read)| !echo.is(*read)), "{at}");
        }
    }
}
