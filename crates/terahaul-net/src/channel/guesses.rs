//! What a receiver has guessed of one entry's blocks, and what became of it. Pure.
//!
//! | a block is | on | it becomes |
//! |---|---|---|
//! | unguessed | its guess | guessed: it may be claimed |
//! | guessed | its end is as guessed | sent, and doubtful ones before it are certain |
//! | guessed | its end is not | doubtful: it waits. What follows may have moved, and then sums find more of it |
//! | doubtful | one behind it that is right | certain: it was edited where it is |
//! | certain | read again | sent: what is not as guessed goes as it is |
//! | any | many doubtful ones, or an end of all guesses with some of them left | unguessed: sums are asked for |
//! | unguessed, while there are sums | it was found at another place | unguessed: guesses from there are asked for |
//!
//! What was asked for is [`Advice`]; guesses from before it are void.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use terahaul_core::{BLOCK_SIZE, BlockNumber, Hash};
use terahaul_wire::{Advice, GUESS_LEN, Guessed, MAX_ADVICE, WireError};

/// So many doubtful blocks show that guessing is wrong from there on; fewer while nothing was right at all.
const MOST_DOUBTFUL: usize = 4;
const MOST_DOUBTFUL_AT_FIRST: usize = 2;
/// Pieces of advice on one entry before the last.
const MOST_ADVICE: u32 = MAX_ADVICE - 1;
const SHORTEST_GROUP: u32 = 4096;

/// What is in a block's place at the receiver.
#[derive(Debug)]
pub(super) struct Guess {
    /// Where in the old file its first byte is.
    pub from: u64,
    /// Bytes of a group.
    pub group: u32,
    /// The first bytes of the groups' values, end to end.
    pub values: Vec<u8>,
    /// Whatever of it is wrong was edited where it is.
    pub certain: bool,
}

impl Guess {
    /// How many groups are guessed, from the block's first on.
    pub(super) fn len(&self) -> usize {
        self.values.len() / GUESS_LEN
    }

    /// Whether the group of this number is one of this value.
    pub(super) fn is(&self, group: usize, value: &Hash) -> bool {
        let (values, _) = self.values.as_chunks::<GUESS_LEN>();
        values.get(group).is_some_and(|guessed| value.0.starts_with(guessed))
    }
}

/// A block of the entry, as whoever waits for it knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Waiting {
    pub block: BlockNumber,
    /// Where in the file it ends.
    pub end: u64,
}

/// What follows from how a guess was judged.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Judgement {
    /// These may be claimed again.
    pub free: Vec<BlockNumber>,
    /// These wait for sums.
    pub park: Vec<Waiting>,
    /// The receiver is to be told this.
    pub advice: Option<Advice>,
    /// No more guesses come, and all were judged.
    pub settled: bool,
}

/// One entry's.
#[derive(Debug, Default)]
pub(super) struct Guesses {
    entry: u32,
    advised: u32,
    /// By the blocks' numbers in the file.
    open: BTreeMap<u32, Arc<Guess>>,
    sent: BTreeSet<u32>,
    doubtful: BTreeMap<u32, (Waiting, Arc<Guess>)>,
    agreed: bool,
    ended: bool,
    /// Sums are asked for.
    summing: bool,
}

impl Guesses {
    pub(super) fn of(entry: u32) -> Self {
        Self { entry, ..Self::default() }
    }

    /// The receiver has guessed a block, or says that it guesses no more. `true` for a guess that counts.
    pub(super) fn handle_guessed(&mut self, guessed: Guessed) -> Result<bool, WireError> {
        let Guessed { heard, block, from, group, values, .. } = guessed;
        if heard > self.advised {
            return Err(WireError::violation("it heard advice that nobody gave"));
        }
        if heard < self.advised || self.summing {
            return Ok(false);
        }
        if values.is_empty() {
            self.ended = true;
            return Ok(false);
        }
        let sound = group.is_power_of_two() && (SHORTEST_GROUP..=BLOCK_SIZE as u32).contains(&group);
        let most = (BLOCK_SIZE as usize).div_ceil(group.max(1) as usize) * GUESS_LEN;
        if !sound || values.len() > most {
            return Err(WireError::violation("it guesses what is no block"));
        }
        if self.sent.contains(&block) || self.doubtful.contains_key(&block) {
            return Ok(false);
        }
        self.open.insert(block, Arc::new(Guess { from, group, values, certain: false }));
        Ok(true)
    }

    /// What the block is guessed to be.
    pub(super) fn find(&self, block: u32) -> Option<&Arc<Guess>> {
        self.open.get(&block)
    }

    /// How many are kept.
    pub(super) fn kept(&self) -> usize {
        self.open.len() + self.doubtful.len()
    }

    /// Blocks that wait for others to be judged.
    pub(super) fn into_doubtful(self) -> impl Iterator<Item = BlockNumber> {
        self.doubtful.into_values().map(|(waiting, _)| waiting.block)
    }

    /// Whether guesses were asked for in the place of sums: blocks are not to be copied by what sums there are, while the receiver
    /// does the same.
    pub(super) fn are_awaited(&self) -> bool {
        self.advised > 0 && !self.summing
    }

    /// Whether the block was sent in this session: it waits for nothing.
    pub(super) fn was_sent(&self, block: u32) -> bool {
        self.sent.contains(&block)
    }

    /// A block was read and sent, or is at the receiver for good; `agreed` if it was as guessed at its end.
    pub(super) fn handle_sent(&mut self, block: u32, agreed: bool) -> Judgement {
        self.open.remove(&block);
        self.doubtful.remove(&block);
        self.sent.insert(block);
        let mut judgement = Judgement::default();
        if agreed {
            self.agreed = true;
            judgement.free = self.release(block);
        }
        self.conclude(judgement)
    }

    /// A block was read, and its end is not as guessed.
    pub(super) fn handle_doubt(&mut self, block: u32, waiting: Waiting) -> Judgement {
        // A guess from before the last advice: the block waits for what was asked for then.
        let Some(guess) = self.open.remove(&block) else {
            return Judgement { park: vec![waiting], ..Judgement::default() };
        };
        self.doubtful.insert(block, (waiting, guess));
        let most = if self.agreed { MOST_DOUBTFUL } else { MOST_DOUBTFUL_AT_FIRST };
        let mut judgement = Judgement::default();
        if self.doubtful.len() >= most {
            self.ask_for_sums(&mut judgement);
        }
        self.conclude(judgement)
    }

    /// There will be no guess that was not heard of yet.
    pub(super) fn handle_end(&mut self) -> Judgement {
        self.conclude(Judgement::default())
    }

    /// While sums come: the file's `block` was found to begin at `from` of the old one. Asks for guesses from there, unless they were
    /// asked for already.
    pub(super) fn handle_found(&mut self, block: u32, from: u64) -> Option<Advice> {
        if !self.summing || self.advised >= MOST_ADVICE {
            return None;
        }
        (self.summing, self.agreed, self.ended) = (false, false, false);
        self.advised += 1;
        Some(Advice { entry: self.entry, block, from: Some(from) })
    }

    fn ask_for_sums(&mut self, judgement: &mut Judgement) {
        let first = self.doubtful.keys().next().copied().unwrap_or(0);
        self.open.clear();
        self.summing = true;
        self.advised += 1;
        let doubtful = std::mem::take(&mut self.doubtful);
        judgement.park.extend(doubtful.into_values().map(|(waiting, _)| waiting));
        judgement.advice = Some(Advice { entry: self.entry, block: first, from: None });
    }

    fn conclude(&mut self, mut judgement: Judgement) -> Judgement {
        if self.ended && self.open.is_empty() && !self.summing {
            if self.doubtful.is_empty() {
                judgement.settled = true;
            } else if self.advised < MOST_ADVICE {
                self.ask_for_sums(&mut judgement);
            } else {
                judgement.free.extend(self.release(u32::MAX));
            }
        }
        judgement
    }

    /// Doubtful blocks before this one are certain.
    fn release(&mut self, before: u32) -> Vec<BlockNumber> {
        let rest = self.doubtful.split_off(&before);
        let certain = std::mem::replace(&mut self.doubtful, rest);
        let free = |(block, (waiting, guess)): (u32, (Waiting, Arc<Guess>))| {
            let Guess { from, group, ref values, .. } = *guess;
            self.open.insert(block, Arc::new(Guess { from, group, values: values.clone(), certain: true }));
            waiting.block
        };
        certain.into_iter().map(free).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guessed(block: u32, heard: u32) -> Guessed {
        Guessed {
            entry: 7,
            heard,
            block,
            from: u64::from(block) * BLOCK_SIZE,
            group: 1 << 20,
            values: vec![1; 4 * GUESS_LEN],
        }
    }

    fn waiting(block: u32) -> Waiting {
        Waiting { block: BlockNumber(100 + block), end: u64::from(block + 1) * BLOCK_SIZE }
    }

    fn guesses(blocks: u32) -> Guesses {
        let mut guesses = Guesses::of(7);
        for block in 0..blocks {
            assert_eq!(guesses.handle_guessed(guessed(block, 0)), Ok(true));
        }
        guesses
    }

    fn end(guesses: &mut Guesses, heard: u32) -> Judgement {
        let end = Guessed { entry: 7, heard, ..Guessed::default() };
        assert_eq!(guesses.handle_guessed(end), Ok(false));
        guesses.handle_end()
    }

    #[test]
    fn a_file_that_was_edited_settles_once_every_guess_is_judged() {
        let mut guesses = guesses(3);
        let second = Arc::clone(guesses.find(1).unwrap());
        assert!(second.is(3, &Hash([1; 32])) && !second.is(4, &Hash([1; 32])) && second.len() == 4);
        assert_eq!(guesses.handle_sent(0, true), Judgement::default());
        assert_eq!(guesses.handle_doubt(1, waiting(1)), Judgement::default());
        assert!(guesses.find(1).is_none());
        assert_eq!(end(&mut guesses, 0), Judgement::default());
        let last = guesses.handle_sent(2, true);
        assert_eq!((last.free, last.settled), (vec![BlockNumber(101)], false));
        assert!(guesses.find(1).unwrap().certain && !second.certain);
        assert!(guesses.handle_sent(1, false).settled);
        assert!(guesses.was_sent(0) && guesses.find(0).is_none());
        assert_eq!(guesses.handle_guessed(guessed(0, 0)), Ok(false), "it was sent");
    }

    #[test]
    fn a_block_that_is_doubtful_is_not_guessed_again() {
        let mut guesses = guesses(2);
        guesses.handle_doubt(0, waiting(0));
        assert_eq!(guesses.handle_guessed(guessed(0, 0)), Ok(false));
        assert!(guesses.find(0).is_none());
        end(&mut guesses, 0);
        let last = guesses.handle_sent(1, true);
        assert_eq!((last.free, last.settled), (vec![BlockNumber(100)], false));
        assert!(guesses.handle_sent(0, true).settled);
    }

    #[test]
    fn what_is_doubtful_to_the_end_waits_for_sums() {
        let mut guesses = guesses(3);
        guesses.handle_sent(0, true);
        guesses.handle_sent(1, true);
        end(&mut guesses, 0);
        let last = guesses.handle_doubt(2, waiting(2));
        assert_eq!(last.advice, Some(Advice { entry: 7, block: 2, from: None }));
        assert_eq!((last.park, last.settled), (vec![waiting(2)], false));
    }

    #[test]
    fn a_file_that_moved_asks_for_sums_and_then_for_guesses_from_elsewhere() {
        let mut guesses = guesses(4);
        assert_eq!(guesses.handle_found(1, 0), None, "nobody has asked for sums");
        assert_eq!(guesses.handle_doubt(1, waiting(1)), Judgement::default());
        let asked = guesses.handle_doubt(0, waiting(0));
        assert_eq!(asked.advice, Some(Advice { entry: 7, block: 0, from: None }));
        assert!(!guesses.are_awaited());
        assert_eq!(asked.park, [waiting(0), waiting(1)]);
        assert_eq!(guesses.handle_guessed(guessed(4, 0)), Ok(false), "from before the advice");
        assert_eq!(guesses.handle_doubt(2, waiting(2)).park, [waiting(2)], "it was being read");
        assert!(guesses.handle_guessed(guessed(4, 2)).is_err());
        let from = guesses.handle_found(3, 99).unwrap();
        assert_eq!(from, Advice { entry: 7, block: 3, from: Some(99) });
        assert_eq!(guesses.handle_found(4, 99), None, "once is enough");
        assert!(guesses.are_awaited());
        assert_eq!(guesses.handle_guessed(guessed(3, 2)), Ok(true));
        assert_eq!(end(&mut guesses, 2), Judgement::default());
        assert!(guesses.handle_sent(3, true).settled);
    }

    #[test]
    fn guesses_of_which_none_was_right_end_with_sums() {
        let mut guesses = guesses(1);
        assert_eq!(end(&mut guesses, 0), Judgement::default());
        let asked = guesses.handle_doubt(0, waiting(0));
        assert!(asked.advice.is_some_and(|advice| advice.from.is_none()) && !asked.settled);
        assert!(end(&mut self::guesses(0), 0).settled, "none was made");
    }

    #[test]
    fn advice_comes_to_an_end_whatever_a_file_is_like() {
        let mut guesses = Guesses::of(7);
        let mut given = 0;
        loop {
            for block in 0..2 {
                guesses.handle_guessed(guessed(block, given)).unwrap();
            }
            let asked = (0..2).filter_map(|block| guesses.handle_doubt(block, waiting(block)).advice).count();
            given += asked as u32;
            let Some(_) = guesses.handle_found(0, 5) else { break };
            given += 1;
        }
        assert!(given <= MOST_ADVICE + 1, "{given}");
        // At the end of their tether guesses that are wrong are overwritten.
        let mut last = self::guesses(1);
        last.advised = MOST_ADVICE;
        last.ended = true;
        assert_eq!(last.handle_doubt(0, waiting(0)).free, [BlockNumber(100)]);
        assert!(last.handle_sent(0, false).settled);
    }

    #[test]
    fn a_receiver_that_guesses_what_is_no_block_is_refused() {
        for bad in [
            Guessed { group: 3000, ..guessed(0, 0) },
            Guessed { group: 1024, ..guessed(0, 0) },
            Guessed { group: 8 << 20, ..guessed(0, 0) },
            Guessed { values: vec![0; 5 * GUESS_LEN], ..guessed(0, 0) },
        ] {
            assert!(Guesses::of(7).handle_guessed(bad).is_err());
        }
    }
}
