//! Blocks on their way in: put together from packets in any order, each handed up once, whole.
//!
//! | a block is | on | it becomes |
//! |---|---|---|
//! | unknown | its first packet, taken ([`Verdict::Take`]) | arriving: it has a buffer |
//! | unknown | its first packet, not taken | declined: its packets are dropped from now on |
//! | arriving | its last missing byte, or as many shards of its repair as it lacks | handed up: the caller has the buffer, and restores what it lacks |
//! | handed up | `handle_taken` brings the buffer back | forgotten; another block may be begun |

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Range;

use terahaul_core::BlockNumber;
use terahaul_wire::packet::{BlockGaps, DataHeader, PartOf, RepairHeader, VALUE_LEN};

use crate::content::content_in;
use crate::ranges::MOST_RUNS;
use crate::repair::Shards;
use crate::{Ranges, SessionError};

/// What to do with a block whose first packet has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Put it together.
    Take,
    /// Tell the sender to keep it: it is not wanted, or not now.
    Decline,
}

/// A whole block, or one of which enough has come to restore the rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArrivedBlock {
    /// Which block of the transfer.
    pub number: BlockNumber,
    /// Its content and, behind that, its value as the sender computed it; as far as they have come until [`Self::parts`] was called.
    pub cargo: Vec<u8>,
    /// What stands for that which has not come.
    repairs: Option<Shards>,
}

impl ArrivedBlock {
    /// The block's bytes, and its value as the sender computed it. What of them is lost is restored first, which takes milliseconds:
    /// nothing for a thread that receives.
    pub fn parts(&mut self) -> (&[u8], &[u8]) {
        if let Some(repairs) = self.repairs.take() {
            repairs.restore(&mut self.cargo);
        }
        self.cargo.split_at(self.cargo.len() - VALUE_LEN as usize)
    }
}

#[derive(Debug)]
struct Arriving {
    of: PartOf,
    cargo: Vec<u8>,
    have: Ranges,
    repairs: Option<Shards>,
}

impl Arriving {
    fn lacks(&self) -> u64 {
        self.cargo.len() as u64 - self.have.covered()
    }

    /// How many bytes of content in `range` have not come.
    fn lacks_of_content(&self, range: Range<u64>) -> u64 {
        let missing = self.have.missing_in(content_in(range, self.cargo.len()));
        missing.map(|part| part.end - part.start).sum()
    }

    /// Whether every byte is there, or can be restored.
    fn is_whole(&self) -> bool {
        self.lacks() == 0 || self.repairs.as_ref().is_some_and(Shards::suffice)
    }
}

/// All blocks on their way in. Memory is bounded by `most` buffers, those that were handed up included, and half as much again for repairs.
#[derive(Debug)]
pub(crate) struct Assembly {
    most: u32,
    arriving: BTreeMap<u32, Arriving>,
    /// Serials that are done: handed up or declined.
    done: Ranges,
    declined: Ranges,
    /// Blocks that were handed up and came back, or were declined.
    released: u32,
    /// Parts of blocks that came and were lacking, and shards.
    gained: u64,
    /// Bytes of content of all blocks that came or can be restored, each counted once.
    content: u64,
    spare: Vec<Vec<u8>>,
}

impl Assembly {
    pub(crate) fn new(most: u32) -> Self {
        Self {
            most: most.max(1),
            arriving: BTreeMap::new(),
            done: Ranges::default(),
            declined: Ranges::default(),
            released: 0,
            gained: 0,
            content: 0,
            spare: Vec::new(),
        }
    }

    /// Blocks with a serial below this may be begun.
    pub(crate) fn credit(&self) -> u32 {
        self.released.saturating_add(self.most)
    }

    /// All serials below this are done.
    pub(crate) fn floor(&self) -> u32 {
        self.done.iter().next().filter(|run| run.start == 0).map_or(0, |run| run.end as u32)
    }

    /// The runs of done serials above the floor, at most `limit`.
    pub(crate) fn done_above_floor(&self, limit: usize) -> Vec<Range<u32>> {
        let floor = u64::from(self.floor());
        self.done.iter().filter(|run| run.end > floor).take(limit).map(narrow).collect()
    }

    /// The latest runs of declined serials, at most `limit`.
    pub(crate) fn declined(&self, limit: usize) -> Vec<Range<u32>> {
        let skip = self.declined.len().saturating_sub(limit);
        self.declined.iter().skip(skip).map(narrow).collect()
    }

    /// How often something came that was not there.
    pub(crate) fn gained(&self) -> u64 {
        self.gained
    }

    /// Bytes of content that have come, and those that repairs stand for.
    pub(crate) fn content(&self) -> u64 {
        self.content
    }

    /// Blocks that are arriving.
    pub(crate) fn len(&self) -> usize {
        self.arriving.len()
    }

    /// Bytes of memory, but for those of blocks that were handed up.
    #[cfg(test)]
    pub(crate) fn remembered(&self) -> usize {
        let repairs = |arriving: &Arriving| arriving.repairs.as_ref().map_or(0, Shards::remembered);
        let arriving = self.arriving.values().map(|arriving| arriving.cargo.capacity() + repairs(arriving));
        arriving.chain(self.spare.iter().map(Vec::capacity)).sum()
    }

    /// What is missing of the oldest blocks that are arriving.
    pub(crate) fn gaps(&self, blocks: usize, gaps: usize) -> Vec<BlockGaps> {
        let missing = |arriving: &Arriving| {
            arriving
                .have
                .missing_in(0..arriving.cargo.len() as u64)
                .take(gaps)
                .map(|gap| narrow(&gap))
                .collect()
        };
        self.arriving
            .iter()
            .take(blocks)
            .map(|(serial, arriving)| BlockGaps { serial: *serial, missing: missing(arriving) })
            .collect()
    }

    /// Part of a block came. Returns the block if it is whole now.
    pub(crate) fn handle_data(
        &mut self,
        header: &DataHeader,
        bytes: &[u8],
        admit: &mut dyn FnMut(BlockNumber, u32) -> Verdict,
    ) -> Result<Option<ArrivedBlock>, SessionError> {
        let Some(arriving) = self.arriving(&header.of, admit)? else { return Ok(None) };
        let start = header.offset as usize;
        let place = arriving.cargo.get_mut(start..start + bytes.len());
        place.ok_or(SessionError::Contradiction(header.of.block))?.copy_from_slice(bytes);
        let range = start as u64..(start + bytes.len()) as u64;
        if let Some(repairs) = &mut arriving.repairs {
            arriving.have.missing_in(range.clone()).for_each(|part| repairs.handle_part(part));
        }
        let content = arriving.lacks_of_content(range.clone());
        let gained = arriving.have.insert(range) > 0;
        if arriving.have.len() > MOST_RUNS {
            return Err(SessionError::Contradiction(header.of.block));
        }
        let is_whole = arriving.is_whole();
        self.gained += u64::from(gained);
        self.content += content;
        Ok(if is_whole { self.hand_up(header.of.serial) } else { None })
    }

    /// A shard of a block's repair came. Returns the block if it is whole now.
    pub(crate) fn handle_repair(
        &mut self,
        header: &RepairHeader,
        shard: &[u8],
        admit: &mut dyn FnMut(BlockNumber, u32) -> Verdict,
    ) -> Result<Option<ArrivedBlock>, SessionError> {
        let Some(arriving) = self.arriving(&header.of, admit)? else { return Ok(None) };
        let (total, have) = (arriving.cargo.len(), &arriving.have);
        let made = || Shards::new(shard.len(), header.count, total, have);
        let repairs = arriving.repairs.get_or_insert_with(made);
        if !repairs.handle_shard(header.index, header.count, shard) {
            return Err(SessionError::Contradiction(header.of.block));
        }
        let is_whole = arriving.is_whole();
        self.gained += 1;
        Ok(if is_whole { self.hand_up(header.of.serial) } else { None })
    }

    /// The block, begun if this is its first packet; `None` if it is done.
    fn arriving(
        &mut self,
        of: &PartOf,
        admit: &mut dyn FnMut(BlockNumber, u32) -> Verdict,
    ) -> Result<Option<&mut Arriving>, SessionError> {
        let PartOf { serial, block, total } = *of;
        let credit = self.credit();
        let vacant = match self.arriving.entry(serial) {
            Entry::Occupied(known) if known.get().of != *of => {
                return Err(SessionError::Contradiction(block));
            }
            Entry::Occupied(known) => return Ok(Some(known.into_mut())),
            Entry::Vacant(vacant) => vacant,
        };
        if self.done.contains(serial.into()) {
            return Ok(None);
        }
        if serial >= credit {
            return Err(SessionError::Credit);
        }
        if admit(block, total - VALUE_LEN) == Verdict::Decline {
            let one = u64::from(serial)..u64::from(serial) + 1;
            self.done.insert(one.clone());
            self.declined.insert(one);
            self.declined.keep_highest(terahaul_wire::packet::MAX_BLOCK_RUNS);
            self.released += 1;
            return Ok(None);
        }
        let mut cargo = self.spare.pop().unwrap_or_default();
        match cargo.capacity() < total as usize {
            // Which the system fills with zeros only where it is touched.
            true => cargo = vec![0; total as usize],
            false => cargo.resize(total as usize, 0),
        }
        Ok(Some(vacant.insert(Arriving { of: *of, cargo, have: Ranges::default(), repairs: None })))
    }

    /// The block of this serial, which is whole.
    fn hand_up(&mut self, serial: u32) -> Option<ArrivedBlock> {
        self.done.insert(u64::from(serial)..u64::from(serial) + 1);
        let whole = self.arriving.remove(&serial)?;
        self.content += whole.lacks_of_content(0..u64::MAX);
        let repairs = if whole.lacks() > 0 { whole.repairs } else { None };
        Some(ArrivedBlock { number: whole.of.block, cargo: whole.cargo, repairs })
    }

    /// A block that was handed up is out of the way; its buffer serves another.
    pub(crate) fn handle_taken(&mut self, buffer: Vec<u8>) {
        self.released = self.released.saturating_add(1);
        if self.spare.len() < self.most as usize {
            self.spare.push(buffer);
        }
    }
}

fn narrow(run: &Range<u64>) -> Range<u32> {
    run.start as u32..run.end as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(serial: u32) -> PartOf {
        PartOf { serial, block: BlockNumber(serial + 100), total: 1_000 + VALUE_LEN }
    }

    fn header(serial: u32, offset: u32) -> DataHeader {
        DataHeader { of: of(serial), offset }
    }

    fn take(_: BlockNumber, len: u32) -> Verdict {
        assert_eq!(len, 1_000);
        Verdict::Take
    }

    proptest! {
        #[test]
        fn a_block_is_handed_up_once_whatever_order_its_parts_come_in(
            parts in Just((0..258u32).map(|part| part * 4).collect::<Vec<_>>()).prop_shuffle(),
            again in proptest::collection::vec(any::<prop::sample::Index>(), 0..50),
        ) {
            let mut assembly = Assembly::new(1);
            let content: Vec<u8> = (0..1_032u32).map(|at| (at % 251) as u8).collect();
            let mut handed_up = Vec::new();
            let repeats: Vec<u32> = again.iter().map(|at| parts[at.index(parts.len())]).collect();
            for offset in parts.iter().chain(&repeats) {
                let bytes = &content[*offset as usize..(*offset as usize + 4)];
                handed_up.extend(assembly.handle_data(&header(0, *offset), bytes, &mut take).unwrap());
            }
            prop_assert_eq!(handed_up.len(), 1);
            prop_assert_eq!(handed_up[0].number, BlockNumber(100));
            prop_assert_eq!(handed_up[0].parts(), content.split_at(1_000));
            prop_assert_eq!((assembly.floor(), assembly.credit(), assembly.content()), (1, 1, 1_000));
        }
    }

    #[test]
    fn no_more_blocks_are_begun_than_there_are_buffers() {
        let mut assembly = Assembly::new(2);
        assert!(assembly.handle_data(&header(0, 0), &[0; 4], &mut take).is_ok());
        assert!(assembly.handle_data(&header(1, 0), &[0; 4], &mut take).is_ok());
        assert_eq!(assembly.handle_data(&header(2, 0), &[0; 4], &mut take), Err(SessionError::Credit));
        let whole = assembly.handle_data(&header(1, 0), &[7; 1_032], &mut take).unwrap().unwrap();
        assert_eq!(assembly.credit(), 2, "until the buffer comes back");
        assert_eq!((assembly.floor(), assembly.done_above_floor(9)), (0, vec![1..2]));
        assembly.handle_taken(whole.cargo);
        assert_eq!(assembly.credit(), 3);
        assert!(assembly.handle_data(&header(2, 0), &[0; 4], &mut take).is_ok());
        let gaps = assembly.gaps(9, 9);
        assert_eq!(gaps[0], BlockGaps { serial: 0, missing: vec![4..1_032] });
        assert_eq!(gaps.len(), 2);
    }

    #[test]
    fn a_declined_block_takes_no_buffer_and_is_done() {
        let mut assembly = Assembly::new(1);
        let mut decline = |_, _| Verdict::Decline;
        assert_eq!(assembly.handle_data(&header(0, 0), &[0; 4], &mut decline), Ok(None));
        assert_eq!(assembly.handle_data(&header(0, 4), &[0; 4], &mut take), Ok(None));
        assert_eq!((assembly.floor(), assembly.credit(), assembly.len()), (1, 2, 0));
        assert_eq!(assembly.declined(9), [0..1]);
    }

    #[test]
    fn a_block_in_crumbs_takes_no_memory_without_bound() {
        let mut assembly = Assembly::new(1);
        let total = 4 * MOST_RUNS as u32;
        let mut take = |_, _| Verdict::Take;
        let mut crumb = |at: u32| {
            let header = DataHeader { of: PartOf { total, ..of(0) }, offset: 2 * at };
            assembly.handle_data(&header, &[0], &mut take).map(|whole| assert_eq!(whole, None))
        };
        assert!((0..MOST_RUNS as u32).all(|at| crumb(at).is_ok()));
        assert_eq!(crumb(MOST_RUNS as u32), Err(SessionError::Contradiction(BlockNumber(100))));
    }

    fn repair(index: u16, count: u16) -> RepairHeader {
        RepairHeader { of: of(0), index, count }
    }

    #[test]
    fn a_block_is_whole_as_soon_as_repairs_make_up_for_what_it_lacks() {
        let content: Vec<u8> = (0..1_032u32).map(|at| (at % 251) as u8).collect();
        let shards = crate::repair::encode(&content, 512, 2).unwrap();
        let mut assembly = Assembly::new(1);
        let mut shard = |index: u16| {
            let at = usize::from(index) * 512;
            assembly.handle_repair(&repair(index, 2), &shards[at..at + 512], &mut take).unwrap()
        };
        assert_eq!(
            [shard(1), shard(1), shard(0)],
            [None, None, None],
            "three are needed, and one came twice"
        );
        let mut whole =
            assembly.handle_data(&header(0, 512), &content[512..1_024], &mut take).unwrap().unwrap();
        assert_ne!(whole.cargo, content, "who receives has no time for it");
        assert_eq!(whole.parts(), content.split_at(1_000));
        assert_eq!(assembly.handle_repair(&repair(0, 2), &shards[..512], &mut take), Ok(None), "it is done");
    }

    #[test]
    fn repairs_that_contradict_each_other_are_the_senders_fault() {
        let mut assembly = Assembly::new(1);
        assembly.handle_repair(&repair(0, 2), &[0; 512], &mut take).unwrap();
        let contradiction = Err(SessionError::Contradiction(BlockNumber(100)));
        assert_eq!(assembly.handle_repair(&repair(0, 3), &[0; 512], &mut take), contradiction);
        assert_eq!(assembly.handle_repair(&repair(1, 2), &[0; 514], &mut take), contradiction);
    }

    #[test]
    fn packets_that_contradict_each_other_are_the_senders_fault() {
        let mut assembly = Assembly::new(1);
        assembly.handle_data(&header(0, 0), &[0; 4], &mut take).unwrap();
        let other = DataHeader { of: PartOf { block: BlockNumber(7), ..of(0) }, offset: 8 };
        assert_eq!(
            assembly.handle_data(&other, &[0; 4], &mut take),
            Err(SessionError::Contradiction(BlockNumber(7)))
        );
    }
}
