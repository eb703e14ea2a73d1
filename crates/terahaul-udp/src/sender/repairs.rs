//! Repairs of the last blocks: what is lost of their packets need not be sent again.
//!
//! | a block's repair is | on | it becomes |
//! |---|---|---|
//! | not made | the last byte was sent, and some of this block's were not reported ([`Repairs::begin`]) | due |
//! | due | its turn comes, the latest block first | being sent |
//! | being sent | its last shard, or the block has arrived | sent: there is no second |
//!
//! How many shards is what the path's loss will probably take of the packets that are not reported, and a good deal more: a shard too many
//! costs the line a packet when it is idle, one too few a round trip.

use terahaul_wire::packet::{RepairHeader, most_repairs, part_header_len};

use super::outgoing::{Outgoing, Unreported};
use crate::repair;

/// Below this nothing is lost, as far as anybody can tell.
const LEAST_LOSS: f64 = 1e-5;

/// How many shards repair what is lost of so many packets.
fn shards_for(packets: f64, loss: f64) -> u16 {
    if loss < LEAST_LOSS || packets == 0.0 {
        return 0;
    }
    let expected = packets * loss;
    // Where losses come one by one six deviations are certainty; in bursts they are some.
    (expected + 6.0 * expected.sqrt() + 6.0).ceil() as u16
}

#[derive(Debug)]
struct Ready {
    /// Of the next shard to send.
    header: RepairHeader,
    shards: Vec<u8>,
    len: usize,
}

impl Ready {
    fn fits(&self, room: usize) -> bool {
        part_header_len(self.header.total) + self.len <= room
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
    pub(crate) fn begin(&mut self, outgoing: &mut Outgoing, loss: f64, room: usize) {
        self.room = room;
        for block in outgoing.begin_repairs() {
            let packets = f64::from(block.bytes) / room as f64;
            let count = shards_for(packets, loss);
            if count > 0 {
                self.due.push((block, count));
            }
        }
    }

    /// More is to be sent before.
    pub(crate) fn end(&mut self) {
        *self = Self::default();
    }

    /// Makes sure that there is a shard to send in a packet with so much room, if there can be one.
    pub(crate) fn prepare(&mut self, outgoing: &Outgoing, room: usize) -> bool {
        loop {
            if let Some(ready) = &self.ready
                && outgoing.cargo(ready.header.serial).is_some()
            {
                return ready.fits(room);
            }
            self.ready = None;
            let Some((block, count)) = self.due.pop() else { return false };
            let Some((number, cargo)) = outgoing.cargo(block.serial) else { continue };
            let len = self.room - part_header_len(block.total);
            let count = count.min(most_repairs(block.total, len));
            let Some(shards) = repair::encode(cargo, len, count) else { continue };
            let header =
                RepairHeader { serial: block.serial, block: number, total: block.total, index: 0, count };
            self.ready = Some(Ready { header, shards, len });
        }
    }

    /// Whether any may be left to send in a packet with so much room.
    pub(crate) fn has_more(&self, room: usize) -> bool {
        self.ready.as_ref().map_or(!self.due.is_empty(), |ready| ready.fits(room))
    }

    /// The shard to send next, after [`Self::prepare`].
    pub(crate) fn shard(&self) -> Option<(RepairHeader, &[u8])> {
        let Ready { header, shards, len } = self.ready.as_ref()?;
        let start = usize::from(header.index) * len;
        Some((*header, shards.get(start..start + len)?))
    }

    /// It was sent.
    pub(crate) fn handle_sent(&mut self) {
        if let Some(ready) = &mut self.ready {
            ready.header.index += 1;
        }
        self.ready.take_if(|ready| ready.header.index == ready.header.count);
    }
}
