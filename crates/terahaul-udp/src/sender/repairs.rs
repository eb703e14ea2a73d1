//! Repairs of the last blocks: what is lost of their packets need not be sent again.
//!
//! | a block's repair is | on | it becomes |
//! |---|---|---|
//! | not made | the last byte was sent, and some of this block's were not reported ([`Repairs::begin`]) | due |
//! | due | more is to be sent before | not made |
//! | due | its turn comes, the latest block first | being sent |
//! | being sent | its last shard, or the block has arrived | sent: there is no second |
//!
//! How many shards is what the path's loss will probably take of the packets that are not reported, and a good deal more: a shard too many
//! costs the line a packet when it is idle, one too few a round trip. A block of a few packets has no more shards than go in as many again.

use terahaul_wire::packet::{PartOf, RepairHeader, most_repairs, part_header_len};

use super::outgoing::{Outgoing, Unreported};
use crate::repair;

/// Below this nothing is lost, as far as anybody can tell.
const LEAST_LOSS: f64 = 1e-5;

/// How many shards repair what is lost of so many packets.
fn shards_for(packets: f64, loss: f64) -> u16 {
    if loss < LEAST_LOSS {
        return 0;
    }
    let expected = packets * loss;
    // Where losses come one by one six deviations are certainty; in bursts they are some.
    (expected + 6.0 * expected.sqrt() + 6.0).min(packets).ceil() as u16
}

#[derive(Debug)]
struct Ready {
    /// Of the next shard to send.
    header: RepairHeader,
    shards: Vec<u8>,
    len: usize,
}

impl Ready {
    /// `None` where the block has arrived.
    fn make(outgoing: &mut Outgoing, block: Unreported, count: u16, room: usize) -> Option<Self> {
        let len = room - part_header_len(block.total);
        let count = count.min(most_repairs(block.total, len));
        let (number, cargo) = outgoing.cargo(block.serial)?;
        let shards = repair::encode(cargo, len, count)?;
        outgoing.handle_repaired(block.serial);
        let of = PartOf { serial: block.serial, block: number, total: block.total };
        Some(Self { header: RepairHeader { of, index: 0, count }, shards, len })
    }

    fn is_sent(&self) -> bool {
        self.header.index == self.header.count
    }

    fn fits(&self, room: usize) -> bool {
        part_header_len(self.header.of.total) + self.len <= room
    }
}

/// What is still to be sent of them.
#[derive(Debug, Default)]
pub(crate) struct Repairs {
    /// The latest block last.
    due: Vec<(Unreported, u16)>,
    ready: Option<Ready>,
    /// Bytes of a packet for a shard and its header.
    room: usize,
}

impl Repairs {
    /// The last byte was sent, over a path that loses this share of packets with so many bytes for a part of a block and its header.
    pub(crate) fn begin(&mut self, outgoing: &Outgoing, loss: f64, room: usize) {
        self.room = room;
        let counted = |block: Unreported| (block, shards_for(f64::from(block.bytes) / room as f64, loss));
        self.due = outgoing.unrepaired().map(counted).filter(|(_, count)| *count > 0).collect();
    }

    /// More is to be sent before.
    pub(crate) fn end(&mut self) {
        *self = Self::default();
    }

    /// The next shard, for a packet with so much room.
    pub(crate) fn next(&mut self, outgoing: &mut Outgoing, room: usize) -> Option<(RepairHeader, &[u8])> {
        let arrived = |ready: &Ready| outgoing.cargo(ready.header.of.serial).is_none();
        if self.ready.as_ref().is_none_or(|ready| ready.is_sent() || arrived(ready)) {
            self.ready = None;
            while self.ready.is_none() {
                let (block, count) = self.due.pop()?;
                self.ready = Ready::make(outgoing, block, count, self.room);
            }
        }
        let ready = self.ready.as_mut().filter(|ready| ready.fits(room))?;
        let (header, start) = (ready.header, usize::from(ready.header.index) * ready.len);
        ready.header.index += 1;
        Some((header, ready.shards.get(start..start + ready.len)?))
    }

    /// Whether any may be left to send in a packet with so much room.
    pub(crate) fn has_more(&self, room: usize) -> bool {
        let ready = self.ready.as_ref().filter(|ready| !ready.is_sent());
        ready.map_or(!self.due.is_empty(), |ready| ready.fits(room))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use terahaul_core::BlockNumber;
    use terahaul_wire::packet::MAX_CARGO;

    const ROOM: usize = 1_440;

    /// Blocks of so many bytes of which all was sent and nothing was reported.
    fn sent(totals: &[u32]) -> Outgoing {
        let mut outgoing = Outgoing::default();
        for (number, total) in (0..).zip(totals) {
            outgoing.push(BlockNumber(number), vec![7; *total as usize]).unwrap();
        }
        while outgoing.next(ROOM as u32).is_some() {}
        outgoing
    }

    /// The serial, the index and the length of each shard until there is none.
    fn all(repairs: &mut Repairs, outgoing: &mut Outgoing) -> Vec<(u32, u16, usize)> {
        let mut all = Vec::new();
        while repairs.has_more(ROOM) {
            all.extend(
                repairs
                    .next(outgoing, ROOM)
                    .map(|(header, shard)| (header.of.serial, header.index, shard.len())),
            );
        }
        all
    }

    #[test]
    fn the_latest_block_is_repaired_first_and_each_once() {
        let mut outgoing = sent(&[MAX_CARGO, 200_000]);
        let mut repairs = Repairs::default();
        repairs.begin(&outgoing, 0.01, ROOM);
        let shards = all(&mut repairs, &mut outgoing);
        let first = shards.iter().take_while(|(serial, ..)| *serial == 1).count();
        assert_eq!(shards[..first].last(), Some(&(1, first as u16 - 1, ROOM - 16)));
        assert_eq!(shards.last(), Some(&(0, (shards.len() - first) as u16 - 1, ROOM - 12)));
        assert!((40..100).contains(&(shards.len() - first)), "{} for 29 of 2,937 lost", shards.len() - first);
        repairs.begin(&outgoing, 0.01, ROOM);
        assert_eq!(all(&mut repairs, &mut outgoing), []);
    }

    #[test]
    fn what_more_was_to_be_sent_before_is_repaired_at_the_real_end() {
        let mut outgoing = sent(&[100_000]);
        let mut repairs = Repairs::default();
        repairs.begin(&outgoing, 0.01, ROOM);
        repairs.end();
        assert!(!repairs.has_more(ROOM));
        repairs.begin(&outgoing, 0.01, ROOM);
        assert!(!all(&mut repairs, &mut outgoing).is_empty());
    }

    #[test]
    fn small_blocks_are_doubled_at_most_and_those_that_have_arrived_forgotten() {
        let mut outgoing = sent(&[100, 3_000, 100_000]);
        let mut repairs = Repairs::default();
        repairs.begin(&outgoing, 0.01, ROOM);
        outgoing.handle_done(2);
        let shards = all(&mut repairs, &mut outgoing);
        let of = |block: u32| shards.iter().filter(|(serial, ..)| *serial == block).count();
        assert_eq!([of(0), of(1), of(2)], [1, 3, 0]);
    }

    #[test]
    fn nothing_is_repaired_where_nothing_is_lost_or_nothing_fits() {
        let mut outgoing = sent(&[100_000]);
        let mut repairs = Repairs::default();
        repairs.begin(&outgoing, 0.0, ROOM);
        assert!(!repairs.has_more(ROOM));
        repairs.begin(&outgoing, 0.01, ROOM);
        assert!(repairs.next(&mut outgoing, ROOM - 2).is_none());
        assert!(!repairs.has_more(ROOM - 2), "nobody is to come again for it");
    }
}
