//! The sending end of a session.
//!
//! | timer | set when | when it fires |
//! |---|---|---|
//! | [`Wake::Pacing`] | there is something to send, be it padding ahead of the first block, and the window has room | a burst goes out |
//! | [`Wake::Probe`] | packets are under way and nothing was reported for a while | a ping with old bytes; each time after twice the time, up to a second |
//! | [`Wake::Challenge`] | the other end's address is new | a challenge |
//! | [`Wake::Silent`] | a channel is silent | a ping on it |
//! | [`Wake::KeepAlive`] | nothing is under way | a ping, the first at once unless a block can go: the other end may be waited for, a credit may have been lost, or a NAT forget us |

mod challenge;
mod channel;
mod cohorts;
mod endgame;
mod feedback;
mod flight;
#[cfg(test)]
mod hostile;
mod opening;
mod outgoing;
mod paths;
mod repairs;
mod route;
mod transmit;

pub use challenge::ChallengeKey;
pub use channel::ChannelState;

use std::collections::VecDeque;
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use terahaul_core::{BlockNumber, Rate};
use terahaul_wire::packet::{ChannelNumber, ConnectionId, MAX_CARGO};

use crate::numbered::Numbered;
use crate::rate::RateLaw;
use crate::{PathIndex, Time, Wake};
use channel::Channel;
use endgame::Endgame;
use flight::Sent;
use outgoing::{Outgoing, Segment};
use route::{MOST_UNDER_WAY, Route};

/// One channel, as the handshake agreed on it.
#[derive(Clone, Copy, Debug)]
pub struct ChannelConfig {
    /// Where the other end is; `None` until it speaks.
    pub remote: Option<SocketAddr>,
    /// Which of the session's paths it takes.
    pub path: PathIndex,
}

/// One path, as far as it is known beforehand.
#[derive(Clone, Copy, Debug)]
pub struct PathConfig {
    /// The largest datagram that this end's interface carries, without IP's and UDP's headers.
    pub max_datagram: u32,
}

/// How a sending end is set up.
#[derive(Clone, Debug)]
pub struct SenderConfig {
    /// What the receiver calls the session.
    pub connection: ConnectionId,
    /// The channels, by number.
    pub channels: Vec<ChannelConfig>,
    /// The paths, in their order.
    pub paths: Vec<PathConfig>,
    /// The round trip that another connection has seen, over whichever path.
    pub round_trip: Duration,
    /// Blocks in memory.
    pub max_blocks: usize,
    /// The user's limit, for each path.
    pub max_rate: Option<Rate>,
    /// What new addresses are asked, and which packet numbers are left out, is made from this.
    pub challenges: ChallengeKey,
}

/// What the sending end has to say.
#[derive(Debug, PartialEq, Eq)]
pub enum SenderEvent {
    /// The receiver has this block whole (received, not durable); its buffer is free.
    Delivered(BlockNumber, Vec<u8>),
    /// The receiver does not take this block now; its buffer is free.
    Declined(BlockNumber, Vec<u8>),
    /// A channel's state changed.
    Channel(ChannelNumber, ChannelState),
    /// The path carries datagrams of another size from now on.
    Mtu(PathIndex, u32),
}

/// How a path does, for progress and logs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PathStatus {
    /// The law, and what it is doing.
    pub law: &'static str,
    /// In a word.
    pub phase: &'static str,
    /// Bytes a second it sends.
    pub rate: f64,
    /// Bytes a second that the line carries, once bursts have shown it.
    pub capacity: Option<f64>,
    /// The round trip.
    pub round_trip: Duration,
    /// How long packets wait on the way out.
    pub waiting: Duration,
    /// Bytes under way.
    pub under_way: u64,
    /// The size of full datagrams.
    pub datagram: u32,
    /// Bytes sent in all, everything counted.
    pub sent: u64,
    /// Bytes that arrived of those.
    pub arrived: u64,
}

impl fmt::Display for PathStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { law, phase, rate, capacity, round_trip, waiting, under_way, datagram, sent, arrived } =
            self;
        let megabytes = |rate: f64| rate / 1e6;
        write!(f, "{law}, {phase}: {:.1} MB/s", megabytes(*rate))?;
        match capacity {
            Some(capacity) => write!(f, " of {:.1}", megabytes(*capacity))?,
            None => write!(f, " of a line not measured yet")?,
        }
        write!(
            f,
            ", {round_trip:.1?} there and back, {waiting:.1?} of it waiting, {under_way} bytes under way in datagrams of \
             {datagram}, {sent} sent, {arrived} arrived"
        )
    }
}

/// The sending end of a session.
#[derive(Debug)]
pub struct Sender {
    connection: ConnectionId,
    channels: Numbered<ChannelNumber, Channel>,
    routes: Numbered<PathIndex, Route>,
    /// The paths, the quickest first.
    by_speed: Vec<PathIndex>,
    outgoing: Outgoing,
    credit: u32,
    max_blocks: usize,
    endgame: Endgame,
    last: bool,
    last_report: Option<u32>,
    events: VecDeque<SenderEvent>,
    lost_bytes: u64,
    /// Kept so that losing packets allocates nothing.
    lost_now: Vec<Sent>,
    /// Frames before a packet's data; kept so that sending allocates nothing.
    frames: Vec<u8>,
    idle_ping_at: Time,
    idle_pings: u32,
}

/// Fresh bytes that should wait in memory: what goes out while the next block is read.
const FRESH: u64 = 2 * MAX_CARGO as u64;
/// Segments that wait to be sent again, from which on what is lost is not copied. The end is not near then; and each copy that is lost would
/// come back as several for a receiver that tells of the newest packets alone.
const MOST_COPIED: usize = 4096;
/// How long an answer to what went out on a silent channel is waited for. While a path is dark there would be more and more to remember; that
/// it is back shows by what was sent later.
const UNANSWERED: Duration = Duration::from_secs(60);
/// How long after an idle session's first ping the second follows, and then, until one is answered, after twice the time. Those that are
/// answered do not become rarer: a receiver that has another way takes a second without news for trouble, and cannot know whether there was
/// anything to send.
const IDLE_PINGS_APART: Duration = Duration::from_millis(500);

impl Sender {
    /// Ready for the first block. `laws` are those of the paths, in their order.
    pub fn new(now: Time, config: SenderConfig, laws: Vec<Box<dyn RateLaw>>) -> Self {
        let max_rate = config.max_rate.map_or(f64::INFINITY, |rate| rate.bytes_per_second() as f64);
        let most_under_way = MOST_UNDER_WAY / config.paths.len().max(1) as u64;
        let route = |(path, law): (&PathConfig, _)| {
            Route::new(now, law, config.round_trip, path.max_datagram, max_rate, most_under_way)
        };
        let routes: Numbered<PathIndex, Route> = config.paths.iter().zip(laws).map(route).collect();
        let channels = config.channels.iter().filter(|channel| routes.get(channel.path).is_some());
        Self {
            connection: config.connection,
            channels: channels
                .zip(0..)
                .map(|(channel, number)| {
                    let key = config.challenges.clone();
                    Channel::new(ChannelNumber(number), channel.path, channel.remote, key)
                })
                .collect(),
            by_speed: routes.numbers().collect(),
            routes,
            outgoing: Outgoing::default(),
            // One block may be begun before the receiver has said how many: it has room for one at least.
            credit: 1,
            max_blocks: config.max_blocks.max(1),
            endgame: Endgame::default(),
            last: false,
            last_report: None,
            events: VecDeque::new(),
            lost_bytes: 0,
            lost_now: Vec::new(),
            frames: Vec::new(),
            // Blocks may be held back until the other end was heard, which answers and does not begin.
            idle_ping_at: now,
            idle_pings: 0,
        }
    }

    /// Whether the next block should be claimed, read and handed in.
    pub fn wants_block(&self) -> bool {
        self.outgoing.fresh() < FRESH
            && self.outgoing.held() < self.max_blocks
            && self.outgoing.next_serial() < self.credit
    }

    /// The next block: its content, and its value behind that. Gives it back when it is empty or too long.
    pub fn handle_block(&mut self, number: BlockNumber, cargo: Vec<u8>) -> Result<(), Vec<u8>> {
        self.last = false;
        self.outgoing.push(number, cargo).map(|_| ())
    }

    /// No block follows for now: what is under way should arrive as soon as it can.
    pub fn handle_last(&mut self) {
        self.last = true;
    }

    /// Whether every block that was handed in has arrived or was declined.
    pub fn is_idle(&self) -> bool {
        self.outgoing.held() == 0
    }

    /// Blocks that have not arrived: what goes back to the queue when the session ends.
    pub fn unfinished(&self) -> impl Iterator<Item = BlockNumber> + '_ {
        self.outgoing.numbers()
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Time) {
        for path in self.routes.numbers() {
            if self.routes[path].probe_at().is_some_and(|at| now >= at) {
                self.routes[path].handle_silence(now);
                self.ask_on_others(path);
            }
        }
        self.detect_dark(now);
    }

    /// These bytes were lost.
    fn send_again(&mut self, path: PathIndex, segment: Segment) {
        let copied = self.last && self.outgoing.fresh() == 0 && self.outgoing.to_send_again() < MOST_COPIED;
        let copies = if copied { self.routes[path].copies() } else { 1 };
        (0..copies).for_each(|_| self.outgoing.handle_lost(segment));
    }

    /// When to call [`Self::handle_timeout`] and [`Self::poll_transmit`] if nothing comes before, and why.
    pub fn poll_timeout(&self) -> Option<(Time, Wake)> {
        let mut first: Option<(Time, Wake)> = None;
        let mut set =
            |at: Time, wake: Wake| first = Some(first.map_or((at, wake), |first| first.min((at, wake))));
        for (path, route) in self.routes.enumerate() {
            let probes = route.probe_at().into_iter().chain(self.dark_at(path));
            probes.for_each(|at| set(at, Wake::Probe));
            let works = route.probes > 0 || self.has_work_for(path) || self.opens(path);
            if works && self.can_send(path) {
                route.send_at().into_iter().for_each(|(at, wake)| set(at, wake));
            }
        }
        for channel in self.channels.iter() {
            channel.challenge_at().into_iter().for_each(|at| set(at, Wake::Challenge));
            if channel.state == ChannelState::Silent {
                set(channel.ping_at, Wake::Silent);
            }
        }
        if self.pings() {
            set(self.idle_ping_at, Wake::KeepAlive);
        }
        first
    }

    /// What happened.
    pub fn poll_event(&mut self) -> Option<SenderEvent> {
        self.events.pop_front()
    }

    /// How the paths do.
    pub fn status(&self) -> impl Iterator<Item = PathStatus> + '_ {
        self.routes.enumerate().map(|(path, route)| PathStatus {
            law: route.law.name(),
            phase: route.law.phase(),
            rate: route.rate(),
            capacity: route.capacity.rate(),
            round_trip: route.round_trip.smoothed(),
            waiting: self
                .channels
                .iter()
                .filter(|channel| channel.path == path && channel.state == ChannelState::Alive)
                .map(|channel| channel.waiting.latest())
                .min()
                .unwrap_or_default(),
            under_way: route.under_way,
            datagram: route.mtu.current(),
            sent: route.bytes_sent,
            arrived: self
                .channels
                .iter()
                .filter(|channel| channel.path == path)
                .map(|channel| channel.bytes_arrived)
                .sum(),
        })
    }

    /// Bytes of blocks' content that went out so far. What goes out again counts once, and a block that is handed in again as another.
    pub fn content_sent(&self) -> u64 {
        self.outgoing.content()
    }

    /// Bytes that were lost and sent again so far.
    pub fn lost_bytes(&self) -> u64 {
        self.lost_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Transmit;
    use crate::rate::Fixed;
    use crate::seal::tests::Clear;

    /// The first datagrams of a session that has no block yet over a path of this length, and why they went out.
    fn first(round_trip: Duration) -> (Wake, Transmit) {
        let config = SenderConfig {
            connection: ConnectionId([0; 8]),
            channels: vec![ChannelConfig { remote: "192.0.2.1:1".parse().ok(), path: PathIndex(0) }],
            paths: vec![PathConfig { max_datagram: 1472 }],
            round_trip,
            max_blocks: 1,
            max_rate: None,
            challenges: ChallengeKey([7; 32]),
        };
        let mut sender = Sender::new(Time::ZERO, config, vec![Box::new(Fixed::new(1e6, round_trip))]);
        let (at, why) = sender.poll_timeout().unwrap();
        assert_eq!(at, Time::ZERO);
        (why, sender.poll_transmit(Time::ZERO, &mut Clear(1), &mut [0; 65_000]).unwrap())
    }

    #[test]
    fn a_session_without_blocks_is_heard_of_at_once() {
        let (why, ping) = first(Duration::from_millis(1));
        assert_eq!((why, ping.len), (Wake::KeepAlive, ping.segment));
        let (why, burst) = first(Duration::from_millis(100));
        assert_eq!((why, burst.len), (Wake::Pacing, 24 * burst.segment), "a long path is measured meanwhile");
    }
}
