//! The sending end, driven: blocks are claimed, read and hashed by a thread that waits until the session wants the next.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use terahaul_core::{BlockNumber, ChannelId};
use terahaul_store::BlockSource;
use terahaul_udp::{
    ChallengeKey, ChannelConfig, Datagram, Opened, PathConfig, Seal, Sender, SenderConfig, SenderEvent,
    SessionError, Time, Transmit,
};

use super::content::{Counter, OnContent};
use super::exchange::{End, Exchange};
use super::socket::{Socket, largest_datagram};
use super::terms::Terms;
use crate::channel::{Loaded, Loader, Next, NotLoaded, Outbound, SharedCompression};

/// The pure sender, and what it gave back.
pub(super) struct Outflow {
    sender: Sender,
    spare: Vec<Vec<u8>>,
    declined: Vec<BlockNumber>,
    /// What the receiver copies of each block under way.
    copies: BTreeMap<BlockNumber, u64>,
    copied: u64,
    counter: Counter,
    /// When the log is told next how the paths do.
    tell_at: Time,
}

/// How often the log is told how the paths do.
const TELL_EVERY: Duration = Duration::from_secs(1);

impl Outflow {
    /// One line a path, for `TERAHAUL_LOG=terahaul_net=debug`.
    fn tell(&mut self, now: Time) {
        if now < self.tell_at {
            return;
        }
        self.tell_at = now + TELL_EVERY;
        for (number, path) in self.sender.status().enumerate() {
            tracing::debug!("UDP path {number}: {path}");
        }
    }

    /// Bytes in datagrams that arrived, for each path.
    pub fn path_bytes(&self) -> Vec<u64> {
        self.sender.status().map(|path| path.arrived).collect()
    }

    /// Bytes of content that went out.
    pub fn content_sent(&self) -> u64 {
        self.sender.content_sent()
    }

    /// Bytes that the other end copied of blocks which it has said to have.
    pub fn copied(&self) -> u64 {
        self.copied
    }
}

impl End for Outflow {
    /// Pings are answered within a second. Where TCP gets through meanwhile, the client ends UDP sooner.
    const PATIENCE: Duration = Duration::from_secs(10);

    fn handle_packet(
        &mut self,
        now: Time,
        datagram: &Datagram,
        packet: &Opened<'_>,
    ) -> Result<bool, SessionError> {
        self.tell(now);
        self.sender.handle_packet(now, datagram, packet)
    }

    fn handle_timeout(&mut self, now: Time) {
        self.sender.handle_timeout(now);
    }

    fn poll_transmit(&mut self, now: Time, keys: &mut dyn Seal, buffer: &mut [u8]) -> Option<Transmit> {
        self.sender.poll_transmit(now, keys, buffer)
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.sender.poll_timeout().map(|(at, _)| at)
    }

    fn waits(&self) -> bool {
        !self.sender.is_idle()
    }

    fn carry_on(&mut self) -> bool {
        self.counter.handle_total(self.sender.content_sent());
        while let Some(event) = self.sender.poll_event() {
            match event {
                SenderEvent::Delivered(block, buffer) => {
                    self.copied += self.copies.remove(&block).unwrap_or(0);
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

/// A sending end over `sockets`, with so many blocks in memory; `prompt` where the sockets are its own. `on_content` hears what goes out.
pub(super) fn exchange(
    terms: &Terms,
    sockets: Vec<Arc<Socket>>,
    prompt: bool,
    blocks: u32,
    on_content: OnContent,
) -> io::Result<Exchange<Outflow>> {
    super::repairing::prepare(terms.round_trip);
    // Of its own: the session's secret is the receiver's, too.
    let mut challenges = ChallengeKey([0; 32]);
    let random = getrandom::fill(&mut challenges.0);
    random.map_err(|_| io::Error::other("the system gives no random numbers"))?;
    let config = SenderConfig {
        connection: terms.there,
        channels: terms
            .channels()
            .map(|channel| ChannelConfig { remote: terms.listens_at(), path: terms.path_of(channel) })
            .collect(),
        round_trip: terms.round_trip,
        // The first channels are on a path each.
        paths: sockets[..terms.paths]
            .iter()
            .map(|socket| PathConfig { max_datagram: largest_datagram(terms.remote, socket.local()) })
            .collect(),
        max_blocks: blocks as usize,
        max_rate: terms.max_rate,
        challenges,
    };
    let start = |now| Outflow {
        sender: Sender::new(now, config, (0..terms.paths).map(|_| terms.law()).collect()),
        spare: Vec::new(),
        declined: Vec::new(),
        copies: BTreeMap::new(),
        copied: 0,
        counter: Counter::new(on_content),
        tell_at: now,
    };
    Ok(Exchange::new(start, terms, sockets, prompt))
}

/// What a sending end sends from.
pub(crate) struct Cargoes<'a> {
    pub outbound: &'a Outbound,
    pub source: &'a dyn BlockSource,
    /// As what blocks are claimed.
    pub channel: ChannelId,
    /// Waits until the session is open, and says when to compress; `None` if it does not come to that.
    pub begin: &'a (dyn Fn() -> Option<SharedCompression> + Sync),
    /// The channels have ended: who reads may be waiting for a block.
    pub ended: &'a (dyn Fn() + Sync),
    /// Bytes of content that go out next, and those that the receiver copies; waits where a limit asks for it.
    pub handed: &'a (dyn Fn(u64, u64) + Sync),
}

/// Reads blocks for `exchange` until it ends or the queue closes.
pub(super) fn read_blocks(exchange: &Exchange<Outflow>, cargoes: &Cargoes<'_>) {
    let Cargoes { outbound, source, channel, begin, handed, .. } = *cargoes;
    let Some(compression) = begin() else { return exchange.end(None) };
    if exchange.wait_until_heard().is_none() {
        return;
    }
    let mut loader = Loader::new(&compression);
    loop {
        let line_full = !exchange.lock().end.sender.wants_block();
        let ready = |end: &mut Outflow| !end.declined.is_empty() || end.sender.wants_block();
        let Some(mut state) = exchange.wait_for(ready) else { return };
        let declined = std::mem::take(&mut state.end.declined);
        let mut cargo = state.end.spare.pop().unwrap_or_default();
        // The queue is never asked while this is locked: who waits there looks here.
        drop(state);
        for block in declined {
            if !outbound.handle_refused(block) {
                return exchange.end(Some(format!("the other end refused block {block} too often")));
            }
        }
        let next = outbound.poll_next(channel).or_else(|| {
            exchange.lock().end.sender.handle_last();
            exchange.wake();
            // A block that is declined by now is claimed, and nobody else would ever send it.
            outbound.next_unless(channel, &|| !exchange.lock().end.declined.is_empty())
        });
        let shape = match next {
            Some(Next::Block(shape)) => shape,
            Some(Next::Close) => return exchange.end(None),
            None => {
                exchange.lock().end.spare.push(cargo);
                continue;
            }
        };
        let Loaded { sent, copied } = match loader.load(outbound, source, &shape, line_full, &mut cargo) {
            Ok(loaded) => loaded,
            // The caller hands the block back.
            Err(NotLoaded::Source(error)) => return exchange.end(Some(error.to_string())),
            Err(waits) => {
                if let NotLoaded::Early(wanting) = waits {
                    outbound.defer(channel, &shape, wanting);
                }
                exchange.lock().end.spare.push(cargo);
                continue;
            }
        };
        handed(sent, copied);
        let mut state = exchange.lock();
        state.handle_work(exchange.now());
        state.end.copies.insert(shape.number, copied);
        if state.end.sender.handle_block(shape.number, cargo).is_err() {
            drop(state);
            return exchange.end(Some(format!("block {} is no block", shape.number)));
        }
        drop(state);
        exchange.wake();
    }
}
