//! The server's side of a session's UDP data channels: those that the client asked for when it opened, and those that it asks for later.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use terahaul_core::Priority;
use terahaul_wire::packet::ConnectionId;
use terahaul_wire::{Message, UdpAnswer, UdpOffer};

use super::{SessionError, off_runtime};
use crate::session::Session;
use crate::udp;

/// What a session's UDP channels are made of, and the first ones.
pub(super) struct UdpSide {
    means: Option<Means>,
    first: Option<Ground>,
}

/// Without all of it there are none.
struct Means {
    secret: udp::Secret,
    port: Arc<udp::Port>,
    peer: IpAddr,
    priority: Priority,
}

/// What was agreed on, with a name at the port.
struct Ground {
    terms: udp::Terms,
    answer: UdpAnswer,
    place: udp::Place,
}

impl UdpSide {
    /// Of a session with `peer`, which may have made an offer. From now on what it sends ahead of the answer is kept.
    pub fn new(
        (secret, port): (Option<udp::Secret>, Option<Arc<udp::Port>>),
        peer: IpAddr,
        priority: Priority,
        offer: Option<UdpOffer>,
    ) -> Self {
        let means = secret.zip(port).map(|(secret, port)| Means { secret, port, peer, priority });
        let first = means.as_ref().zip(offer).and_then(|(means, offer)| means.ground(&offer));
        Self { means, first }
    }

    /// Starts the first channels, and says what the client is answered.
    pub fn start(&mut self, session: &Arc<Session>) -> Option<UdpAnswer> {
        self.first.take().and_then(|ground| ground.start(session))
    }

    /// Starts channels in place of those that the session may have, and returns the answer to the client. There is one set of them at a
    /// time, however often a client asks.
    pub async fn answer(&self, offer: UdpOffer, session: &Arc<Session>) -> Result<Message, SessionError> {
        self.start_again(offer, session).await.map(Message::AnswerUdp)
    }

    async fn start_again(
        &self,
        offer: UdpOffer,
        session: &Arc<Session>,
    ) -> Result<Option<UdpAnswer>, SessionError> {
        let Some(means) = &self.means else { return Ok(None) };
        let before = Arc::clone(session);
        if !off_runtime(move || before.end_udp_and_wait()).await? {
            return Ok(None);
        }
        // Under names that were used before, packets would be sealed with the same keys and numbers again.
        let offer = UdpOffer { server: None, ..offer };
        Ok(means.ground(&offer).and_then(|ground| ground.start(session)))
    }
}

impl Means {
    fn ground(&self, offer: &UdpOffer) -> Option<Ground> {
        let place = self.port.reserve(offer.server.map(ConnectionId))?;
        let peer = SocketAddr::new(self.peer, udp::ANY_PORT);
        let (terms, answer) = udp::Terms::of_server(self.secret.clone(), offer, peer, self.priority, &place);
        Some(Ground { terms, answer, place })
    }
}

impl Ground {
    fn start(self, session: &Arc<Session>) -> Option<UdpAnswer> {
        let Self { terms, answer, place } = self;
        match session.adopt_udp(terms, udp::Line::Port(Arc::new(place))) {
            Ok(()) => Some(answer),
            Err(error) => {
                tracing::warn!("UDP data channels cannot be opened: {error}");
                None
            }
        }
    }
}
