//! Blocks that were refused or not even sent, and go again once the other end has read what in them has failed.
//!
//! | state | on | then |
//! |---|---|---|
//! | nothing is asked | a block is added | it is asked for: asked |
//! | asked | a block is added | it waits for the next time |
//! | asked | the answer | the blocks go; the others are asked for, if there are any |

use std::collections::BTreeMap;

use terahaul_core::{BlockNumber, EntryIndex};
use terahaul_wire::{ErrorCode, WireError};

use crate::echo::{Echo, Read};

/// At most one item a block, with the entries that had failed by then, and of what was said of it no words: they are the other end's.
#[derive(Debug, Default)]
pub(crate) struct Unread {
    asked: Option<(Read, Blocks)>,
    next: Blocks,
}

type Blocks = BTreeMap<BlockNumber, Waiting>;

#[derive(Debug)]
struct Waiting {
    /// What in the block had failed by then.
    failed: Vec<EntryIndex>,
    /// Why it was refused, and whether that may pass. `None` of one of which nothing was sent.
    refusal: Option<(ErrorCode, bool)>,
}

impl Unread {
    /// This block was refused, or was not sent, and that these entries in it have failed is said.
    pub(crate) fn add(&mut self, block: BlockNumber, failed: Vec<EntryIndex>, refusal: Option<&WireError>) {
        let refusal = refusal.map(|error| (error.code, error.retry));
        self.next.insert(block, Waiting { failed, refusal });
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.asked.is_none() && self.next.is_empty()
    }

    /// How many pings are to be said now.
    pub(crate) fn poll_ask(&mut self, echo: &mut Echo) -> u64 {
        if self.asked.is_some() || self.next.is_empty() {
            return 0;
        }
        let (pings, read) = echo.ask();
        self.asked = Some((read, std::mem::take(&mut self.next)));
        pings
    }

    /// A ping was answered. Returns the blocks of which that is read: with the entries that had failed, and why it was refused, if it was.
    pub(crate) fn handle_pong(
        &mut self,
        echo: &Echo,
    ) -> impl Iterator<Item = (BlockNumber, Vec<EntryIndex>, Option<WireError>)> + use<> {
        let blocks = self.asked.take_if(|(read, _)| echo.is(*read)).map(|(_, blocks)| blocks);
        blocks.into_iter().flatten().map(|(block, Waiting { failed, refusal })| {
            let message = || "a block is refused again and again".into();
            (block, failed, refusal.map(|(code, retry)| WireError { code, retry, message: message() }))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error() -> WireError {
        WireError::passing(ErrorCode::Conflict, "x".repeat(1 << 20))
    }

    /// What goes with each of so many answers.
    fn answered(unread: &mut Unread, echo: &mut Echo, answers: u64) -> Vec<u32> {
        let mut gone = Vec::new();
        for _ in 0..answers {
            echo.handle_pong();
            gone.extend(unread.handle_pong(echo).map(|(block, ..)| block.0));
        }
        gone
    }

    #[test]
    fn what_is_refused_while_it_is_asked_waits_for_the_next_answer() {
        let (mut unread, mut echo) = (Unread::default(), Echo::default());
        unread.add(BlockNumber(1), Vec::new(), Some(&error()));
        let first = unread.poll_ask(&mut echo);
        unread.add(BlockNumber(2), Vec::new(), Some(&error()));
        assert_eq!((first, unread.poll_ask(&mut echo)), (2, 0));
        assert_eq!(answered(&mut unread, &mut echo, first), [1]);
        let second = unread.poll_ask(&mut echo);
        assert_eq!(answered(&mut unread, &mut echo, second), [2]);
        assert!(unread.is_empty());
    }

    /// It said as many pings as before, and all of them again, and held what it was sent for each.
    #[test]
    fn who_refuses_without_end_and_answers_nothing_gets_few_pings_and_little_is_kept() {
        let (mut unread, mut echo) = (Unread::default(), Echo::default());
        let mut pings = 0;
        for time in 0..1_000 {
            unread.add(BlockNumber(time % 7), Vec::new(), Some(&error()));
            pings += unread.poll_ask(&mut echo);
        }
        assert_eq!((pings, unread.next.len()), (2, 7));
    }
}
