//! Blocks on their way out: which bytes to send next, and which again.
//!
//! | a byte of a block is | until | then |
//! |---|---|---|
//! | fresh | `next` hands it out | under way |
//! | under way | `handle_arrived` | arrived |
//! | under way | `handle_lost` | waiting, ahead of fresh bytes |
//! | waiting | `next` hands it out | under way |
//! | any | `handle_done` for its block | forgotten |

use std::collections::VecDeque;
use std::ops::Range;

use terahaul_core::BlockNumber;
use terahaul_wire::packet::{DataHeader, MAX_CARGO, PartOf, VALUE_LEN, part_header_len};

use crate::Ranges;
use crate::content::content_in;
use crate::ranges::MOST_RUNS;

/// Part of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) serial: u32,
    pub(crate) offset: u32,
    pub(crate) len: u32,
}

impl Segment {
    fn range(self) -> Range<u64> {
        u64::from(self.offset)..u64::from(self.offset) + u64::from(self.len)
    }

    fn of(serial: u32, range: Range<u64>, most: u32) -> Self {
        let len = (range.end - range.start).min(u64::from(most)) as u32;
        Self { serial, offset: range.start as u32, len }
    }
}

#[derive(Debug)]
struct Block {
    number: BlockNumber,
    cargo: Vec<u8>,
    /// Bytes from here on are fresh.
    next: u32,
    arrived: Ranges,
    /// It has had its repair.
    repaired: bool,
}

impl Block {
    /// What fits of it into a packet with so much room for that and its header.
    fn most_in(&self, room: u32) -> u32 {
        room - part_header_len(self.cargo.len() as u32) as u32
    }
}

/// A block of which some bytes were not reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unreported {
    pub(crate) serial: u32,
    pub(crate) total: u32,
    pub(crate) bytes: u32,
}

/// The blocks under way, by serial. Their bytes stay here until the receiver has the whole block.
#[derive(Debug, Default)]
pub(crate) struct Outgoing {
    /// The serial of `blocks[0]`.
    first: u32,
    blocks: VecDeque<Option<Block>>,
    /// The block whose bytes are next.
    cursor: u32,
    again: VecDeque<Segment>,
    /// Bytes of all in `again`.
    again_bytes: u64,
    fresh: u64,
    /// Bytes of content that `next` has handed out for the first time.
    content: u64,
}

impl Outgoing {
    /// Adds a block: its content, and its value behind that. `None` gives it back: it is empty, or longer than a block.
    pub(crate) fn push(&mut self, number: BlockNumber, cargo: Vec<u8>) -> Result<u32, Vec<u8>> {
        if cargo.len() <= VALUE_LEN as usize || cargo.len() > MAX_CARGO as usize {
            return Err(cargo);
        }
        self.fresh += cargo.len() as u64;
        self.blocks.push_back(Some(Block {
            number,
            cargo,
            next: 0,
            arrived: Ranges::default(),
            repaired: false,
        }));
        Ok(self.next_serial() - 1)
    }

    /// The serial of the next block to be added.
    pub(crate) fn next_serial(&self) -> u32 {
        self.first + self.blocks.len() as u32
    }

    /// Blocks held, those that have arrived behind others that have not included.
    pub(crate) fn held(&self) -> usize {
        self.blocks.iter().flatten().count()
    }

    /// Bytes that were never sent.
    pub(crate) fn fresh(&self) -> u64 {
        self.fresh
    }

    /// Bytes of blocks' content that have gone out, each counted once.
    pub(crate) fn content(&self) -> u64 {
        self.content
    }

    /// Bytes that were never sent, and those to be sent again.
    pub(crate) fn waiting(&self) -> u64 {
        self.fresh + self.again_bytes
    }

    /// Segments that wait to be sent again, each copy counted.
    pub(crate) fn to_send_again(&self) -> usize {
        self.again.len()
    }

    /// Whether nothing waits to be sent.
    pub(crate) fn is_drained(&self) -> bool {
        self.fresh == 0 && self.again.is_empty()
    }

    fn block(&self, serial: u32) -> Option<&Block> {
        self.blocks.get(serial.checked_sub(self.first)? as usize)?.as_ref()
    }

    fn block_mut(&mut self, serial: u32) -> Option<&mut Block> {
        self.blocks.get_mut(serial.checked_sub(self.first)? as usize)?.as_mut()
    }

    /// The first part of `segment` that is not known to have arrived, as far as it fits into a packet with so much room.
    pub(crate) fn missing_in(&self, segment: Segment, room: u32) -> Option<Segment> {
        let gap = self.first_missing(segment)?;
        Some(Segment::of(segment.serial, gap, self.block(segment.serial)?.most_in(room)))
    }

    /// The next bytes to send, in a packet with so much room for them and their header: lost ones before fresh ones.
    pub(crate) fn next(&mut self, room: u32) -> Option<Segment> {
        self.next_again(room).or_else(|| self.next_fresh(room))
    }

    fn next_again(&mut self, room: u32) -> Option<Segment> {
        while let Some(lost) = self.again.pop_front() {
            self.again_bytes -= u64::from(lost.len);
            let Some(segment) = self.missing_in(lost, room) else { continue };
            let sent = segment.offset + segment.len;
            let rest = lost.offset + lost.len - sent;
            if rest > 0 {
                self.again_bytes += u64::from(rest);
                self.again.push_front(Segment { offset: sent, len: rest, ..lost });
            }
            return Some(segment);
        }
        None
    }

    fn next_fresh(&mut self, room: u32) -> Option<Segment> {
        while self.cursor < self.next_serial() {
            let serial = self.cursor;
            if let Some(block) = self.block_mut(serial)
                && (block.next as usize) < block.cargo.len()
            {
                let range = u64::from(block.next)..block.cargo.len() as u64;
                let segment = Segment::of(serial, range, block.most_in(room));
                let content = content_in(segment.range(), block.cargo.len());
                block.next += segment.len;
                self.fresh -= u64::from(segment.len);
                self.content += content.end - content.start;
                return Some(segment);
            }
            self.cursor += 1;
        }
        None
    }

    /// The first part of `segment` that is not known to have arrived.
    pub(crate) fn first_missing(&self, segment: Segment) -> Option<Range<u64>> {
        self.block(segment.serial)?.arrived.missing_in(segment.range()).next()
    }

    /// What a packet with this segment says, and carries.
    pub(crate) fn data(&self, segment: Segment) -> Option<(DataHeader, &[u8])> {
        let block = self.block(segment.serial)?;
        let range = segment.offset as usize..(segment.offset + segment.len) as usize;
        let of = PartOf { serial: segment.serial, block: block.number, total: block.cargo.len() as u32 };
        Some((DataHeader { of, offset: segment.offset }, block.cargo.get(range)?))
    }

    /// A block, its value behind it.
    pub(crate) fn cargo(&self, serial: u32) -> Option<(BlockNumber, &[u8])> {
        self.block(serial).map(|block| (block.number, block.cargo.as_slice()))
    }

    /// The blocks that have had no repair.
    pub(crate) fn unrepaired(&self) -> impl Iterator<Item = Unreported> + '_ {
        let blocks = self.blocks.iter().zip(self.first..);
        blocks.filter_map(|(block, serial)| {
            let block = block.as_ref().filter(|block| !block.repaired)?;
            let total = block.cargo.len() as u32;
            Some(Unreported { serial, total, bytes: total - block.arrived.covered() as u32 })
        })
    }

    /// A block has a repair: there is no second.
    pub(crate) fn handle_repaired(&mut self, serial: u32) {
        if let Some(block) = self.block_mut(serial) {
            block.repaired = true;
        }
    }

    /// The receiver has these bytes.
    pub(crate) fn handle_arrived(&mut self, segment: Segment) {
        if let Some(block) = self.block_mut(segment.serial)
            && block.arrived.len() < MOST_RUNS
        {
            // Gaps behind the block's end are the other end's word.
            let Range { start, end } = segment.range();
            block.arrived.insert(start..end.min(block.cargo.len() as u64));
        }
    }

    /// These bytes were lost: they go out again.
    pub(crate) fn handle_lost(&mut self, segment: Segment) {
        if self.first_missing(segment).is_some() {
            self.again_bytes += u64::from(segment.len);
            self.again.push_back(segment);
        }
    }

    /// The receiver has the whole block, or does not want it.
    pub(crate) fn handle_done(&mut self, serial: u32) -> Option<(BlockNumber, Vec<u8>)> {
        let block = self.blocks.get_mut(serial.checked_sub(self.first)? as usize)?.take()?;
        self.fresh -= block.cargo.len() as u64 - u64::from(block.next);
        while let Some(None) = self.blocks.front() {
            self.blocks.pop_front();
            self.first += 1;
        }
        Some((block.number, block.cargo))
    }

    /// The serials of blocks that are held, in `range`.
    pub(crate) fn held_in(&self, range: Range<u32>) -> Vec<u32> {
        (range.start.max(self.first)..range.end.min(self.next_serial()))
            .filter(|serial| self.block(*serial).is_some())
            .collect()
    }

    /// The numbers of all blocks held: what goes back to the queue when the session ends.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = BlockNumber> + '_ {
        self.blocks.iter().flatten().map(|block| block.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LEN: usize = 5_000;
    const HEADER: u32 = part_header_len(LEN as u32) as u32;

    fn outgoing(blocks: u32) -> Outgoing {
        let mut outgoing = Outgoing::default();
        for number in 0..blocks {
            assert_eq!(outgoing.push(BlockNumber(number), vec![number as u8; LEN]), Ok(number));
        }
        outgoing
    }

    proptest! {
        /// Segments of any length, any of them lost any number of times: every byte arrives, and only what was lost goes
        /// out again.
        #[test]
        fn every_byte_is_sent_until_it_arrives(
            steps in proptest::collection::vec((1u32..1_500, 0u32..10), 1..2_000),
        ) {
            let mut outgoing = outgoing(4);
            let mut arrived = vec![Ranges::default(); 4];
            let mut sent = 0;
            let mut lost = 0;
            let always = std::iter::repeat((1_400, 9));
            for (most, fate) in steps.into_iter().chain(always) {
                let Some(segment) = outgoing.next(most + HEADER) else { break };
                prop_assert!(segment.len > 0 && segment.len <= most);
                let (header, bytes) = outgoing.data(segment).unwrap();
                prop_assert_eq!((header.of.block.0, header.of.total as usize), (segment.serial, LEN));
                prop_assert_eq!(bytes.len(), segment.len as usize);
                sent += u64::from(segment.len);
                if fate == 0 {
                    lost += u64::from(segment.len);
                    outgoing.handle_lost(segment);
                    continue;
                }
                outgoing.handle_arrived(segment);
                let whole = &mut arrived[segment.serial as usize];
                prop_assert_eq!(whole.insert(segment.range()), u64::from(segment.len));
                if whole.covered() == LEN as u64 {
                    let done = outgoing.handle_done(segment.serial);
                    prop_assert_eq!(done, Some((BlockNumber(segment.serial), vec![segment.serial as u8; LEN])));
                }
            }
            prop_assert_eq!(sent, 4 * LEN as u64 + lost);
            prop_assert_eq!(outgoing.content(), 4 * (LEN as u64 - u64::from(VALUE_LEN)));
            prop_assert_eq!((outgoing.waiting(), outgoing.is_drained()), (0, true));
            prop_assert_eq!((outgoing.held(), outgoing.fresh(), outgoing.next_serial()), (0, 0, 4));
        }
    }

    #[test]
    fn what_arrived_meanwhile_is_not_sent_again() {
        let mut outgoing = outgoing(1);
        let segment = outgoing.next(1_000 + HEADER).unwrap();
        outgoing.handle_lost(segment);
        outgoing.handle_arrived(Segment { offset: 200, len: 300, ..segment });
        let again = |outgoing: &mut Outgoing| outgoing.next(1_000 + HEADER).map(|s| (s.offset, s.len));
        assert_eq!(outgoing.waiting(), LEN as u64);
        assert_eq!(again(&mut outgoing), Some((0, 200)));
        assert_eq!(outgoing.waiting(), LEN as u64 - 200);
        assert_eq!(again(&mut outgoing), Some((500, 500)));
        assert_eq!(again(&mut outgoing), Some((1_000, 1_000)));
    }

    #[test]
    fn a_block_that_is_done_is_neither_sent_nor_resent() {
        let mut outgoing = outgoing(2);
        let segment = outgoing.next(1_000 + HEADER).unwrap();
        outgoing.handle_lost(segment);
        assert!(outgoing.handle_done(0).is_some());
        assert!(outgoing.handle_done(0).is_none());
        outgoing.handle_lost(segment);
        assert_eq!(outgoing.next(1_000 + HEADER).map(|s| s.serial), Some(1));
        assert_eq!(outgoing.fresh(), LEN as u64 - 1_000);
    }

    #[test]
    fn no_more_of_a_block_has_arrived_than_it_has_whatever_the_other_end_says() {
        let mut outgoing = outgoing(1);
        outgoing.handle_arrived(Segment { serial: 0, offset: 0, len: 2_000_000 });
        let unreported: Vec<_> = outgoing.unrepaired().map(|block| block.bytes).collect();
        assert_eq!(unreported, [0]);
    }

    #[test]
    fn a_block_without_content_or_beyond_its_length_is_given_back() {
        let mut outgoing = Outgoing::default();
        assert!(outgoing.push(BlockNumber(0), vec![0; VALUE_LEN as usize]).is_err());
        assert!(outgoing.push(BlockNumber(0), vec![0; MAX_CARGO as usize + 1]).is_err());
        assert!(outgoing.push(BlockNumber(0), vec![0; MAX_CARGO as usize]).is_ok());
    }
}
