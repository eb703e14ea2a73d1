//! What two ends agree on over the control channel before the first datagram.

use std::net::SocketAddr;
use std::time::{Duration, Instant, SystemTime};

use terahaul_core::{ALONE_SILENT, Priority, Rate};
use terahaul_udp::PathIndex;
use terahaul_udp::rate::{Background, Eagerness, Fixed, Model, RateLaw};
use terahaul_wire::packet::{ChannelNumber, ConnectionId, MAX_UDP_CHANNELS};
use terahaul_wire::{UdpAnswer, UdpOffer};

use super::keys::{Direction, Keys, Secret};
use super::port::Place;

/// An agreement, as one end sees it.
#[derive(Clone)]
pub struct Terms {
    secret: Secret,
    /// Where this end's clock begins.
    pub(super) since: Instant,
    is_client: bool,
    pub(super) here: ConnectionId,
    pub(super) there: ConnectionId,
    channels: u8,
    /// Network paths that the channels are dealt to, in turn: one at least, and no more than channels.
    pub(super) paths: usize,
    pub(super) round_trip: Duration,
    pub(super) max_rate: Option<Rate>,
    priority: Priority,
    /// There is no other way for blocks.
    pub(super) is_alone: bool,
    /// The other end, or its host with any port where only that is known.
    pub(super) remote: SocketAddr,
}

/// Most channels that a server agrees to.
const MOST_CHANNELS: u8 = 16;
const SHORTEST: Duration = Duration::from_micros(50);
const LONGEST: Duration = Duration::from_secs(3);

/// Eight random bytes.
pub(crate) fn connection_id() -> Option<ConnectionId> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).ok().map(|()| ConnectionId(bytes))
}

/// What a client wishes for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wish {
    pub channels: u32,
    /// Network paths that the channels are dealt to.
    pub paths: u32,
    /// What one of them took to connect.
    pub round_trip: Duration,
    /// The limit for all paths together.
    pub max_rate: Option<Rate>,
    /// There is no other way for blocks.
    pub alone: bool,
    /// It sends before it has the answer.
    pub early: bool,
}

/// What a client offers. `None` where no random numbers are to be had.
pub(crate) fn offer(wish: &Wish) -> Option<UdpOffer> {
    let Wish { channels, paths, round_trip, max_rate, alone, early } = *wish;
    let server = if early { Some(connection_id()?.0) } else { None };
    Some(UdpOffer {
        connection: connection_id()?.0,
        channels: channels.clamp(1, MOST_CHANNELS.into()) as u8,
        round_trip: round_trip.as_micros().try_into().unwrap_or(u32::MAX),
        max_rate: max_rate.map(Rate::bytes_per_second),
        alone,
        paths: (paths > 1).then_some(paths.min(MOST_CHANNELS.into()) as u8),
        server,
    })
}

/// The same once more, while its session runs.
pub(crate) fn offer_again(before: &UdpOffer) -> Option<UdpOffer> {
    Some(UdpOffer { connection: connection_id()?.0, server: None, ..before.clone() })
}

/// The answer that a client takes for granted if it sends before it has it.
pub(crate) fn expected(offer: &UdpOffer) -> Option<UdpAnswer> {
    offer.server.map(|connection| UdpAnswer { connection, channels: offer.channels })
}

/// How many paths, of so many channels.
fn paths(offer: &UdpOffer, channels: u8) -> usize {
    offer.paths.unwrap_or(1).clamp(1, channels.max(1)).into()
}

/// What each path has of the limit, which is for all of them together.
fn each_rate(offer: &UdpOffer, paths: usize) -> Option<Rate> {
    offer.max_rate.and_then(|all| Rate::per_second((all / paths as u64).max(1)))
}

impl Terms {
    /// The server's, with what it answers.
    pub(crate) fn of_server(
        secret: Secret,
        offer: &UdpOffer,
        peer: SocketAddr,
        priority: Priority,
        place: &Place,
    ) -> (Self, UdpAnswer) {
        let here = place.name();
        let channels = offer.channels.clamp(1, MOST_CHANNELS.min(MAX_UDP_CHANNELS as u8));
        let terms = Self {
            secret,
            since: place.since(),
            is_client: false,
            here,
            there: ConnectionId(offer.connection),
            channels,
            paths: paths(offer, channels),
            round_trip: Duration::from_micros(offer.round_trip.into()).clamp(SHORTEST, LONGEST),
            max_rate: each_rate(offer, paths(offer, channels)),
            priority,
            is_alone: offer.alone,
            remote: peer,
        };
        (terms, UdpAnswer { connection: here.0, channels })
    }

    /// The client's, once the server has answered. `None` if that is no answer to the offer.
    pub(crate) fn of_client(
        secret: Secret,
        offer: &UdpOffer,
        answer: &UdpAnswer,
        server: SocketAddr,
        priority: Priority,
    ) -> Option<Self> {
        ((1..=offer.channels).contains(&answer.channels)).then(|| Self {
            secret,
            since: Instant::now(),
            is_client: true,
            here: ConnectionId(offer.connection),
            there: ConnectionId(answer.connection),
            channels: answer.channels,
            paths: paths(offer, answer.channels),
            round_trip: Duration::from_micros(offer.round_trip.into()).clamp(SHORTEST, LONGEST),
            max_rate: each_rate(offer, paths(offer, answer.channels)),
            priority,
            is_alone: offer.alone,
            remote: server,
        })
    }

    /// The channels that were agreed on.
    pub(super) fn channels(&self) -> impl Iterator<Item = ChannelNumber> + use<> {
        (0..self.channels).map(ChannelNumber)
    }

    /// Which path a channel takes.
    pub(super) fn path_of(&self, channel: ChannelNumber) -> PathIndex {
        PathIndex(usize::from(channel.0) % self.paths)
    }

    /// How long the other end may be silent; `usual` where TCP can take over. A client that has no other way looks to that itself.
    pub(super) fn patience(&self, usual: Duration) -> Option<Duration> {
        match (self.is_alone, self.is_client) {
            (false, _) => Some(usual),
            (true, false) => Some(usual.max(ALONE_SILENT)),
            (true, true) => None,
        }
    }

    /// How long a server keeps channels over which nothing has come yet: they hold a share of the memory for blocks. A client tries as long
    /// as its session lasts.
    pub(super) fn patience_unheard(&self) -> Option<Duration> {
        (!self.is_client).then_some(ALONE_SILENT)
    }

    fn keys(&self, from_client: bool) -> Keys {
        let direction = if from_client { Direction::FromClient } else { Direction::FromServer };
        let ids = if self.is_client { [self.here, self.there] } else { [self.there, self.here] };
        Keys::new(&self.secret, direction, ids, self.channels.into())
    }

    /// For what this end sends.
    pub(super) fn sealing(&self) -> Keys {
        self.keys(self.is_client)
    }

    /// For what this end receives.
    pub(super) fn opening(&self) -> Keys {
        self.keys(!self.is_client)
    }

    /// Where the other end is known to listen: a client may move, a server does not.
    pub(super) fn listens_at(&self) -> Option<SocketAddr> {
        self.is_client.then_some(self.remote)
    }

    fn model(&self, eagerness: Eagerness) -> Model {
        // A clock that shows a time before 1970 is nobody else's.
        let today = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Model::new(eagerness, self.round_trip).at(today.saturating_sub(self.since.elapsed()))
    }

    /// How fast this end sends.
    pub(super) fn law(&self) -> Box<dyn RateLaw> {
        match (self.priority, self.max_rate) {
            (Priority::Fair, _) => Box::new(self.model(Eagerness::Fair)),
            (Priority::Background, _) => Box::new(Background::new(self.round_trip)),
            (Priority::Full, None) => Box::new(self.model(Eagerness::Full)),
            (Priority::Full, Some(each)) => {
                Box::new(Fixed::new(each.bytes_per_second() as f64, self.round_trip))
            }
        }
    }
}
