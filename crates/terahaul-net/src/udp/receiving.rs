//! The receiving end, driven: whole blocks go to threads that hash and write them, so that none of them holds up what comes.

use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use terahaul_core::{BlockNumber, BlockRefusal, Hash};
use terahaul_store::{BasisError, Inbound, InboundError};
use terahaul_udp::{
    ArrivedBlock, Datagram, Opened, Receiver, ReceiverConfig, ReceiverEvent, Seal, SessionError, Time,
    Transmit, Verdict,
};
use terahaul_wire::WireError;

use super::content::{Counter, OnContent};
use super::exchange::{End, Exchange};
use super::socket::Socket;
use super::terms::Terms;
use crate::channel::{ELSEWHERE, OnRefused, ReceiveError, Unpacker, inbound_wire_error, unload};

/// Threads that hash and write.
pub(super) const WRITERS: usize = 2;

/// The pure receiver, and where whole blocks go.
pub(super) struct Inflow {
    receiver: Receiver,
    inbound: Arc<Inbound>,
    arrived: Sender<ArrivedBlock>,
    counter: Counter,
}

impl Inflow {
    /// Bytes in datagrams that arrived, for each path.
    pub fn path_bytes(&self, terms: &Terms) -> Vec<u64> {
        let mut paths = vec![0; terms.paths];
        for (channel, bytes) in terms.channels().zip(self.receiver.channel_bytes()) {
            paths[terms.path_of(channel).0] += bytes;
        }
        paths
    }
}

impl End for Inflow {
    /// A sender that has nothing to send pings every sixteen seconds at least; one that has ended its channels says nothing more, and
    /// what is kept for it would be kept for nothing.
    const PATIENCE: Duration = Duration::from_secs(120);

    fn handle_packet(
        &mut self,
        _: Time,
        datagram: &Datagram,
        packet: &Opened<'_>,
    ) -> Result<bool, SessionError> {
        let inbound = &self.inbound;
        let mut admit = |block, len| admit(inbound, block, len);
        self.receiver.handle_packet(datagram, packet, &mut admit)
    }

    fn handle_timeout(&mut self, _: Time) {}

    fn poll_transmit(&mut self, now: Time, keys: &mut dyn Seal, buffer: &mut [u8]) -> Option<Transmit> {
        self.receiver.poll_transmit(now, keys, buffer)
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.receiver.poll_timeout().map(|(at, _)| at)
    }

    /// Where it was heard once, a sender that has nothing to send says so by pings.
    fn waits(&self) -> bool {
        true
    }

    fn carry_on(&mut self) -> bool {
        self.counter.handle_total(self.receiver.content_arrived());
        while let Some(ReceiverEvent::Arrived(block)) = self.receiver.poll_event() {
            // Writers that are gone have ended the exchange.
            let _ = self.arrived.send(block);
        }
        false
    }
}

/// Whether a block is wanted is asked when it is whole. A buffer is for one that the manifest has, and no longer than it: pieces are
/// fewer bytes than the block.
fn admit(inbound: &Inbound, block: BlockNumber, len: u32) -> Verdict {
    let shape = inbound.with(|receiver| receiver.layout().shape(block));
    if shape.is_some_and(|shape| len <= shape.len) { Verdict::Take } else { Verdict::Decline }
}

/// Whole blocks, for whichever writer is free.
pub(super) type Arrivals = Mutex<mpsc::Receiver<ArrivedBlock>>;

/// A receiving end over `sockets`, with so many blocks in memory, those that are being written included. `on_content` hears what
/// comes.
pub(super) fn exchange(
    terms: &Terms,
    sockets: Vec<Arc<Socket>>,
    inbound: Arc<Inbound>,
    blocks: u32,
    on_content: OnContent,
) -> (Exchange<Inflow>, Arrivals) {
    super::repairing::prepare(terms.round_trip);
    let config = ReceiverConfig {
        connection: terms.there,
        channels: sockets.iter().map(|_| terms.listens_at()).collect(),
        max_blocks: blocks,
    };
    let (arrived, arrivals) = mpsc::channel();
    let start = |now| Inflow {
        receiver: Receiver::new(now, config),
        inbound,
        arrived,
        counter: Counter::new(on_content),
    };
    // A report is one small packet: nobody waits for that.
    (Exchange::new(start, terms, sockets, true), Mutex::new(arrivals))
}

/// What a receiving end tells its session.
pub(crate) struct Told<'a> {
    /// A block was not kept.
    pub refused: OnRefused<'a>,
    /// A block of so many bytes is done, of which that many were copied besides; waits where a limit asks for it.
    pub done: &'a (dyn Fn(u64, u64) + Sync),
    /// The session cannot go on.
    pub broken: &'a (dyn Fn(WireError) + Sync),
}

/// Restores, hashes and writes blocks until the exchange ends, and what has arrived by then.
pub(super) fn write_blocks(
    exchange: &Exchange<Inflow>,
    arrivals: &Arrivals,
    inbound: &Inbound,
    told: &Told<'_>,
) {
    let mut unpacker = Unpacker::default();
    while let Some(mut block) = exchange.next_of(arrivals) {
        let copied = match write(inbound, &mut block, &mut unpacker) {
            Ok(copied) => copied,
            Err(ReceiveError::Inbound(
                error @ (InboundError::Refused(BlockRefusal::Busy(_))
                | InboundError::Mismatch { .. }
                | InboundError::Basis(BasisError::Lost(_))
                | InboundError::Conflict(_)),
            )) => {
                (told.refused)(block.number, inbound_wire_error(&error));
                0
            }
            Err(error) => {
                if let Some(error) = error.wire_error() {
                    (told.broken)(error);
                }
                return exchange.end(Some(error.to_string()));
            }
        };
        (told.done)(block.parts().0.len() as u64, copied);
        let mut state = exchange.lock();
        // Behind the lock: for the receiver time never goes back.
        state.end.receiver.handle_taken(exchange.now(), block.cargo);
        drop(state);
        exchange.wake();
    }
}

/// Takes in a block, and says how many of its bytes were copied.
fn write(inbound: &Inbound, block: &mut ArrivedBlock, unpacker: &mut Unpacker) -> Result<u64, ReceiveError> {
    let number = block.number;
    let (cargo, value) = block.parts();
    // A block that is not declared is refused, whatever its length.
    let len = inbound.with(|receiver| receiver.layout().len_of(number)).unwrap_or_default();
    let mut arrival = inbound.begin_within(ELSEWHERE, number, u64::from(len))?;
    let copied = unload(unpacker, cargo, &mut arrival)?;
    arrival.finish(value.try_into().ok().map(Hash))?;
    Ok(copied)
}

#[cfg(test)]
mod tests {
    use terahaul_core::{BLOCK_SIZE, ByteCount};
    use terahaul_store::{MemoryLedger, Nowhere};

    use super::*;

    #[test]
    fn only_a_block_of_the_manifest_gets_a_buffer_and_none_that_is_longer() {
        let mut receiver = terahaul_core::Receiver::default();
        receiver.append(Some(ByteCount(BLOCK_SIZE + 10))).unwrap();
        let inbound = Inbound::start(receiver, Arc::new(Nowhere), Arc::new(MemoryLedger::default())).unwrap();
        let verdict = |block, len| admit(&inbound, BlockNumber(block), len);
        assert_eq!([verdict(0, BLOCK_SIZE as u32), verdict(1, 10), verdict(1, 3)], [Verdict::Take; 3]);
        assert_eq!([verdict(1, 11), verdict(2, 1), verdict(u32::MAX, 1)], [Verdict::Decline; 3]);
    }
}
