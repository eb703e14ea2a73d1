//! The sending end, driven: blocks are claimed, read and hashed by a thread that waits until the session wants the next.

use std::net::SocketAddr;
use std::sync::Arc;

use terahaul_core::{BlockHasher, BlockNumber, BlockProof, ChannelId};
use terahaul_store::BlockSource;
use terahaul_udp::{ChannelConfig, Opened, Sender, SenderConfig, SenderEvent, SessionError, Time, Transmit};
use terahaul_wire::packet::{ChannelNumber, VALUE_LEN};

use super::exchange::{End, Exchange};
use super::socket::{Socket, largest_datagram};
use super::terms::Terms;
use crate::channel::{Next, Outbound};

/// Blocks in memory: what 10 Gbit/s have under way in 100 ms.
const MOST_BLOCKS: usize = 32;
/// Bytes read and hashed at a time: they stay in the second-level cache.
const PIECE: usize = 256 << 10;

/// The pure sender, and what it gave back.
pub(super) struct Outflow {
    sender: Sender,
    spare: Vec<Vec<u8>>,
    declined: Vec<BlockNumber>,
    delivered: u64,
}

impl Outflow {
    /// Bytes of blocks that the other end has said to have.
    pub fn delivered(&self) -> u64 {
        self.delivered
    }
}

impl End for Outflow {
    fn handle_packet(
        &mut self,
        now: Time,
        channel: ChannelNumber,
        from: SocketAddr,
        _: bool,
        packet: &Opened<'_>,
    ) -> Result<(), SessionError> {
        self.sender.handle_packet(now, channel, from, packet)
    }

    fn handle_timeout(&mut self, now: Time) {
        self.sender.handle_timeout(now);
    }

    fn poll_transmit(&mut self, now: Time, buffer: &mut [u8]) -> Option<Transmit> {
        self.sender.poll_transmit(now, buffer)
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.sender.poll_timeout().map(|(at, _)| at)
    }

    fn waits(&self) -> bool {
        !self.sender.is_idle()
    }

    fn carry_on(&mut self) -> bool {
        while let Some(event) = self.sender.poll_event() {
            match event {
                SenderEvent::Delivered(_, buffer) => {
                    self.delivered += buffer.len() as u64;
                    self.spare.push(buffer);
                }
                SenderEvent::Declined(block, buffer) => {
                    self.declined.push(block);
                    self.spare.push(buffer);
                }
                SenderEvent::Channel(channel, state) => {
                    tracing::debug!("UDP channel {} is {state:?}", channel.0);
                }
                SenderEvent::Mtu(_, mtu) => tracing::debug!("datagrams of {mtu} bytes"),
            }
        }
        !self.declined.is_empty() || self.sender.wants_block()
    }
}

/// A sending end over `sockets`.
pub(super) fn exchange(terms: &Terms, sockets: Vec<Arc<Socket>>) -> Exchange<Outflow> {
    let config = SenderConfig {
        connection: terms.there,
        channels: sockets.iter().map(|_| ChannelConfig { remote: terms.listens_at(), path: 0 }).collect(),
        round_trip: terms.round_trip,
        max_datagram: largest_datagram(terms.remote),
        max_blocks: MOST_BLOCKS,
        max_rate: terms.max_rate,
    };
    let start = |now| Outflow {
        sender: Sender::new(now, config, vec![terms.law()]),
        spare: Vec::new(),
        declined: Vec::new(),
        delivered: 0,
    };
    Exchange::new(start, terms, sockets)
}

/// Reads blocks for `exchange` until it ends or the queue closes.
pub(super) fn read_blocks(
    exchange: &Exchange<Outflow>,
    outbound: &Outbound,
    source: &dyn BlockSource,
    channel: ChannelId,
    handed: &(dyn Fn(u64) + Sync),
) {
    if exchange.wait_until_heard().is_none() {
        return;
    }
    while let Some(mut state) = exchange.wait_for(|end| !end.declined.is_empty() || end.sender.wants_block())
    {
        for block in std::mem::take(&mut state.end.declined) {
            if !outbound.handle_refused(block) {
                let why = format!("the other end refused block {block} too often");
                drop(state);
                return exchange.end(Some(why));
            }
        }
        let mut cargo = state.end.spare.pop().unwrap_or_default();
        drop(state);
        let next = match outbound.poll_next(channel) {
            Some(next) => next,
            None => {
                exchange.lock().end.sender.handle_last();
                exchange.wake();
                outbound.next(channel)
            }
        };
        let Next::Block(shape) = next else { return exchange.end(None) };
        let known = source.known_value(shape.number);
        let mut hasher = known.is_none().then(|| BlockHasher::new(&shape));
        let len = shape.len as usize;
        cargo.resize(len + VALUE_LEN as usize, 0);
        let failures = read(source, &shape, &mut cargo[..len], &mut hasher);
        let proof = hasher.map(BlockHasher::finish);
        let value = proof.as_ref().map(BlockProof::value).or(known).unwrap_or_default();
        cargo[len..].copy_from_slice(&value.0);
        handed(len as u64);
        outbound.handle_bytes(len as u64);
        outbound.handle_sent(&shape, proof, failures);
        if exchange.lock().end.sender.handle_block(shape.number, cargo).is_err() {
            return exchange.end(Some(format!("block {} is no block", shape.number)));
        }
        exchange.wake();
    }
}

/// Reads a block whole.
fn read(
    source: &dyn BlockSource,
    shape: &terahaul_core::BlockShape,
    content: &mut [u8],
    hasher: &mut Option<BlockHasher>,
) -> Vec<terahaul_store::EntryFailure> {
    let mut buffer = vec![0; PIECE];
    let mut at = 0;
    let read = source.read_block(shape, &mut buffer, &mut |piece| {
        if let Some(hasher) = hasher {
            hasher.update(piece);
        }
        if let Some(place) = content.get_mut(at..at + piece.len()) {
            place.copy_from_slice(piece);
        }
        at += piece.len();
        Ok(())
    });
    // The only errors are those of what takes the pieces, which has none.
    read.unwrap_or_default()
}
