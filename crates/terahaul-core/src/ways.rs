//! Which way blocks go: TCP, UDP, or for a moment both.
//!
//! A session starts on TCP at once. Where UDP may pay ([`Transport::wants_udp`]) it asks for that beside it. Two ways that
//! fill one line cost each other more than they carry together (docs/results), so they are beside each other only to be compared:
//!
//! | phase | event | next |
//! |---|---|---|
//! | waiting (TCP) | datagrams of the other end come | UDP: TCP's channels are cut, or with little left end after the blocks that they have |
//! | UDP, once as much has come as tells | UDP carries several times what TCP's last blocks do | UDP: they are cut, and go over UDP |
//! | UDP, once as much has come as tells | TCP's last blocks are several times what UDP carries | TCP |
//! | UDP | [`CHECK`] has passed, or [`judging::JUDGE`] where it carries less than [`SLOW`]; then three times that, and so on | both |
//! | UDP | nothing came over it for [`QUIET`] | both |
//! | both, once as much has come as tells | TCP carries clearly more | TCP |
//! | both, once as much has come as tells | else | UDP: TCP's channels are cut |
//! | both | nothing comes over UDP, [`judging::ALONE_FOR`] after TCP has begun to carry, or to be open while UDP has what is left | TCP |
//! | waiting, UDP, both | the UDP channels ended | TCP |
//! | waiting | nothing came over UDP for [`ALONE_SILENT`]: the other end has given it up | TCP |
//! | TCP, with much left | [`AGAIN`] has passed, or [`AFTER_MORE`] where TCP carried more; then three times that, and so on, up to [`RARELY`] | trying: UDP is offered again |
//! | trying (TCP) | datagrams of the other end come | both |
//! | trying | the UDP channels ended, or nothing came over them for [`TRY`] | TCP |
//!
//! What makes datagrams vanish may pass, and a line that TCP fills may begin to lose packets, while a transfer takes days. A server that takes no
//! offer while a session runs leaves it at TCP.
//!
//! While neither carries anything (a link is down), nothing is judged and nothing given up. In the background nothing is compared:
//! TCP yields to nobody.

mod judging;
#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use judging::{JUDGE, Mark, QUIET, Quiet};

use crate::{BLOCK_SIZE, Carrier, Priority, Rate, Transport};

/// What carries blocks now, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// What they travel by.
    pub by: Carrier,
    /// In a few words.
    pub why: &'static str,
}

impl Way {
    /// Why UDP is not tried where it would carry no more.
    pub const SHORT_PATH: &str = "the path is short";
    /// Why something is as it is that the user has fixed.
    pub const ASKED_FOR: &str = "asked for";
    const FIRST: &str = "every transfer begins with it";

    /// Whether anybody would expect it.
    pub fn is_usual(&self) -> bool {
        self.by == Carrier::Tcp && [Self::FIRST, Self::SHORT_PATH, Self::ASKED_FOR].contains(&self.why)
    }
}

impl Default for Way {
    fn default() -> Self {
        Self { by: Carrier::Tcp, why: Self::FIRST }
    }
}

/// Why a session that is to have no way but UDP cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoUdp {
    /// It never got through.
    #[error("no datagram came back in fifteen seconds: a firewall drops them")]
    Unheard,
    /// It gets through no more.
    #[error("nothing came over it for three minutes")]
    Silent,
}

/// How long the other end's datagrams are waited for where there is no other way.
const PATIENCE: Duration = Duration::from_secs(15);
/// Who looks so much later than it would have was stopped meanwhile, by a terminal or with the whole machine.
pub const STOPPED: Duration = Duration::from_secs(2);
/// How long UDP may be silent where there is no other way: longer than a link is down that comes back by itself. A server keeps channels for as
/// long over which nothing has come yet.
pub const ALONE_SILENT: Duration = Duration::from_secs(180);
/// How long TCP's channels fill their sockets once they have begun to carry: that is not what the line takes.
const FILL: Duration = Duration::from_secs(1);
/// How long TCP's channels may take to begin.
const OPENING: Duration = Duration::from_secs(5);
/// How long UDP goes alone before it is compared for the first time: somebody on the way may slow datagrams down.
const CHECK: Duration = Duration::from_secs(10);
/// How long after UDP was given up it is offered again for the first time.
const AGAIN: Duration = Duration::from_secs(15);
/// The same after TCP carried more: while they are compared both carry less.
const AFTER_MORE: Duration = Duration::from_secs(150);
/// The longest time between two offers.
const RARELY: Duration = Duration::from_secs(3600);
/// How long UDP has to carry until it is offered again as soon as the first time.
const LASTING: Duration = Duration::from_secs(300);
/// How long an offer may take until something comes over UDP.
const TRY: Duration = Duration::from_secs(10);
/// So many times the other ends it at once.
const FAR_MORE: f64 = 4.0;
/// So many times UDP is more, also where the one takes the other's share.
const MORE: f64 = 1.5;
/// With less left than TCP's channels have of it, cutting them costs more than it spares.
const LITTLE: u64 = 16 * BLOCK_SIZE;
/// Bytes a second below which TCP's had nothing to send, and is not preferred for it.
const IDLE: f64 = 1e5;
/// Bytes a second below which UDP is compared sooner for the first time: somebody may slow it down to that, and where it is the line
/// that does, being compared costs little.
const SLOW: f64 = 2.5e6;
/// Bytes a second below which it was pings alone. A policer that passes this little is no line that this is made for.
const NOTHING: f64 = 2e3;
const NOTHING_COMES: &str = "nothing comes over UDP any more";

/// What is seen of a session's channels.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    /// Bytes that went over TCP, and were copied instead.
    pub tcp: u64,
    /// TCP channels that the other end has answered so far.
    pub opened: u64,
    /// The same of UDP; `None` without it.
    pub udp: Option<SeenUdp>,
    /// Bytes that are known to be still to come.
    pub left: u64,
    /// Bytes among those that went that were copied instead, which no limit is of.
    pub copied: u64,
}

/// What is seen of UDP channels.
#[derive(Clone, Copy, Debug, Default)]
pub struct SeenUdp {
    /// Bytes that arrived.
    pub bytes: u64,
    /// How long nothing of the other end came although something should have; `None` if nothing ever did.
    pub silent: Option<Duration>,
}

/// What to do about the channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Opens no more TCP channels, and ends those that there are after their blocks.
    RestTcp,
    /// Cuts TCP's channels and opens no more.
    CutTcp,
    /// Ends the UDP channels, and opens TCP's again.
    EndUdp,
    /// Opens TCP's channels again.
    ResumeTcp,
    /// Offers UDP once more, while TCP carries.
    OfferUdp,
}

/// The law, for one session.
#[derive(Debug)]
pub struct Ways {
    transport: Transport,
    priority: Priority,
    /// More than this goes over neither.
    limit: Option<Rate>,
    /// Datagrams came in an earlier session of the transfer.
    had_udp: bool,
    /// Or went on, after it was stopped.
    began: Instant,
    looked: Instant,
    phase: Phase,
    way: Way,
    /// How long UDP goes alone the next time.
    check: Duration,
    /// How often UDP was offered again; `None` where nobody would take the offer.
    offers: Option<u32>,
    /// From when on UDP has carried, alone or while it was compared.
    carries_since: Option<Instant>,
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    Waiting,
    Both {
        mark: Mark,
        /// Until when TCP's sockets are filled; nothing is compared before.
        fills_until: Option<Instant>,
        /// Nothing comes over UDP just now.
        quiet: Option<Quiet>,
    },
    Udp {
        mark: Mark,
        /// TCP's last blocks may still be on their way.
        resting: bool,
    },
    /// TCP carries, until UDP is offered again.
    Tcp {
        again: Option<Instant>,
    },
    /// UDP was offered again.
    Trying {
        since: Instant,
    },
}

impl Ways {
    /// The session begins now, with UDP channels that may get through.
    pub fn new(transport: Transport, priority: Priority, now: Instant) -> Self {
        let way = match transport {
            Transport::Tcp => Way::default(),
            Transport::Udp => Way { by: Carrier::Udp, why: Way::ASKED_FOR },
            Transport::Auto | Transport::Both => {
                Way { by: Carrier::Tcp, why: "no datagram has come back yet" }
            }
        };
        let phase = Phase::Waiting;
        let (check, offers, carries_since) = (CHECK, None, None);
        let (limit, had_udp) = (None, false);
        Self {
            transport,
            priority,
            limit,
            had_udp,
            began: now,
            looked: now,
            phase,
            way,
            check,
            offers,
            carries_since,
        }
    }

    /// The same, with another end that takes an offer while the session runs.
    pub fn offering_again(self) -> Self {
        Self { offers: Some(0), ..self }
    }

    /// The same where datagrams came in an earlier session of the transfer: that none come now is no firewall's doing.
    pub fn after_udp(self) -> Self {
        Self { had_udp: true, ..self }
    }

    /// The same where the user has a limit.
    pub fn limited_to(self, limit: Option<Rate>) -> Self {
        Self { limit, ..self }
    }

    /// The session begins now, without UDP channels.
    pub fn without_udp(transport: Transport, why: &'static str, now: Instant) -> Self {
        let mut ways = Self::new(transport, Priority::Fair, now);
        ways.go(Phase::Tcp { again: None }, Carrier::Tcp, why);
        ways
    }

    /// What is in use, and why.
    pub fn way(&self) -> Way {
        self.way
    }

    /// Whether UDP was offered again and is still waited for.
    pub fn awaits_udp(&self) -> bool {
        matches!(self.phase, Phase::Trying { .. })
    }

    /// Whether there is no other way than UDP in this session.
    fn needs_udp(&self) -> bool {
        self.transport == Transport::Udp
    }

    fn go(&mut self, phase: Phase, by: Carrier, why: &'static str) {
        self.phase = phase;
        self.way = Way { by, why };
    }

    fn go_udp(&mut self, mark: Mark, act: Act) -> Act {
        let why = match self.priority {
            Priority::Background => "it yields to others",
            Priority::Fair | Priority::Full => "it keeps long paths full",
        };
        self.carries_since.get_or_insert(mark.since);
        self.go(Phase::Udp { mark, resting: act == Act::RestTcp }, Carrier::Udp, why);
        act
    }

    fn go_both(&mut self, mark: Mark) {
        let fills_until = Some(mark.since + FILL);
        self.go(Phase::Both { mark, fills_until, quiet: None }, Carrier::Both, "they are being compared");
    }

    fn end_udp(&mut self, now: Instant, first: Duration, why: &'static str) -> Act {
        self.go_tcp(now, first, why);
        Act::EndUdp
    }

    /// TCP carries alone. UDP is offered again after `first`, where it was not before, or has [lasted](LASTING) since.
    fn go_tcp(&mut self, now: Instant, first: Duration, why: &'static str) {
        if self.carries_since.take().is_some_and(|since| now >= since + LASTING) {
            self.offers = self.offers.map(|_| 0);
        }
        let wait = |offers: u32| first.saturating_mul(3_u32.saturating_pow(offers)).min(RARELY);
        self.go(Phase::Tcp { again: self.offers.map(|offers| now + wait(offers)) }, Carrier::Tcp, why);
    }

    /// Looks at what the channels did. An error where there is no other way.
    pub fn poll_act(&mut self, now: Instant, seen: Seen) -> Result<Option<Act>, NoUdp> {
        let unseen = now.saturating_duration_since(std::mem::replace(&mut self.looked, now));
        if unseen > STOPPED {
            self.began = now;
        }
        let Some(SeenUdp { bytes: udp, silent }) = seen.udp else {
            return Ok(self.handle_without_udp(now, seen.left));
        };
        if self.needs_udp() {
            return match silent {
                None if self.had_udp && now >= self.began + ALONE_SILENT => Err(NoUdp::Silent),
                None if !self.had_udp && now >= self.began + PATIENCE => Err(NoUdp::Unheard),
                Some(silent) if silent >= ALONE_SILENT => Err(NoUdp::Silent),
                _ => Ok(None),
            };
        }
        let Some(silent) = silent else { return Ok(self.handle_unheard(now)) };
        let here = Mark { since: now, tcp: seen.tcp, udp, copied: seen.copied };
        Ok(match self.phase {
            // They are ending.
            Phase::Tcp { .. } => None,
            Phase::Trying { .. } if self.priority == Priority::Background => {
                Some(self.go_udp(here, Act::CutTcp))
            }
            Phase::Trying { .. } => {
                self.go_both(here);
                None
            }
            Phase::Waiting if seen.left > LITTLE => Some(self.go_udp(here, Act::CutTcp)),
            Phase::Waiting => Some(self.go_udp(here, Act::RestTcp)),
            Phase::Udp { .. } if silent > QUIET => {
                let quiet = Some(Quiet::since(seen.opened));
                let phase = Phase::Both { mark: here, fills_until: None, quiet };
                self.go(phase, Carrier::Both, "nothing comes over UDP just now");
                Some(Act::ResumeTcp)
            }
            Phase::Udp { mark, resting } => self.handle_udp_alone(now, here, mark, resting),
            Phase::Both { mark, quiet, .. } if silent > QUIET => {
                // Nothing is compared until UDP is back: whichever comes back first would win.
                let carried = quiet.is_some() && seen.tcp > mark.tcp;
                let mut quiet = quiet.unwrap_or_else(|| Quiet::since(seen.opened));
                // With nothing left nobody waits, and the other end's pings are rare.
                let blocked = quiet.handle_tcp(now, carried, seen.opened, seen.left > 0);
                self.phase = Phase::Both { mark: here, fills_until: None, quiet: Some(quiet) };
                blocked.then(|| self.end_udp(now, AGAIN, NOTHING_COMES))
            }
            Phase::Both { .. } if self.priority == Priority::Background => {
                Some(self.go_udp(here, Act::CutTcp))
            }
            Phase::Both { quiet: Some(_), .. } => {
                self.go_both(here);
                None
            }
            Phase::Both { mark, fills_until: Some(until), .. } => {
                let opens = seen.tcp == mark.tcp && now < mark.since + OPENING;
                let (mark, fills_until) = if opens {
                    (mark, Some(now + FILL))
                } else if now < until {
                    (mark, Some(until))
                } else {
                    (here, None)
                };
                self.phase = Phase::Both { mark, fills_until, quiet: None };
                None
            }
            Phase::Both { mark, .. } if mark.tells(now, seen.tcp, udp) => {
                let (over_tcp, over_udp) = mark.rates(now, seen.tcp, udp);
                Some(match over_tcp > IDLE && over_tcp > MORE * over_udp {
                    true => self.end_udp(now, AFTER_MORE, "it carries more than UDP here"),
                    false => self.go_udp(here, Act::CutTcp),
                })
            }
            Phase::Both { .. } => None,
        })
    }

    fn handle_udp_alone(&mut self, now: Instant, here: Mark, mark: Mark, resting: bool) -> Option<Act> {
        if resting && mark.tells(now, here.tcp, here.udp) {
            self.phase = Phase::Udp { mark, resting: false };
            let (over_tcp, over_udp) = mark.rates(now, here.tcp, here.udp);
            if over_tcp > IDLE && over_tcp > FAR_MORE * over_udp && self.priority != Priority::Background {
                return Some(self.end_udp(now, AFTER_MORE, "it carries far more than UDP here"));
            }
            return (over_udp > FAR_MORE * over_tcp).then_some(Act::CutTcp);
        }
        let (over_tcp, over_udp) = mark.rates(now, here.tcp, here.udp);
        let check = if self.check == CHECK && over_udp < SLOW { JUDGE } else { self.check };
        if self.priority != Priority::Background && now >= mark.since + check {
            let most = self.limit.filter(|_| here.copied == mark.copied);
            let most = most.map(|most| most.bytes_per_second() as f64);
            if over_tcp + over_udp < NOTHING || most.is_some_and(|most| MORE * over_udp >= most) {
                // There was nothing to send, and that is no answer; or TCP cannot carry so much more.
                self.phase = Phase::Udp { mark: here, resting };
                return None;
            }
            self.check *= 3;
            self.go_both(here);
            return Some(Act::ResumeTcp);
        }
        None
    }

    /// Nothing has come over the UDP channels that there are.
    fn handle_unheard(&mut self, now: Instant) -> Option<Act> {
        let until = match self.phase {
            Phase::Waiting => self.began + ALONE_SILENT,
            Phase::Trying { since } => since + TRY,
            Phase::Both { .. } | Phase::Udp { .. } | Phase::Tcp { .. } => return None,
        };
        (self.offers.is_some() && now >= until).then(|| self.end_udp(now, AGAIN, self.way.why))
    }

    fn handle_without_udp(&mut self, now: Instant, left: u64) -> Option<Act> {
        match self.phase {
            _ if self.needs_udp() => None,
            Phase::Tcp { again: Some(at) } if now >= at && left > LITTLE => {
                self.offers = self.offers.map(|offers| offers + 1);
                self.phase = Phase::Trying { since: now };
                Some(Act::OfferUdp)
            }
            Phase::Tcp { .. } => None,
            // The answer is on its way.
            Phase::Trying { since } if now < since + TRY => None,
            Phase::Trying { .. } => {
                self.go_tcp(now, AGAIN, self.way.why);
                None
            }
            Phase::Waiting | Phase::Both { .. } | Phase::Udp { .. } => {
                let was_alone = matches!(self.phase, Phase::Udp { .. });
                self.go_tcp(now, AGAIN, NOTHING_COMES);
                was_alone.then_some(Act::ResumeTcp)
            }
        }
    }
}
