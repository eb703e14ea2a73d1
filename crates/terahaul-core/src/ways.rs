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

#[cfg(test)]
mod tests {
    use super::*;

    // Where a session begins is all that is asked of the clock.
    #[allow(clippy::disallowed_methods)]
    fn now() -> Instant {
        Instant::now()
    }

    const MB: u64 = 1_000_000;

    /// A path on which TCP carries `tcp` and UDP `udp` bytes a second when alone, half of it together; UDP from second `heard` on.
    #[derive(Clone, Copy)]
    struct Path {
        tcp: u64,
        udp: u64,
        heard: u64,
        /// From when until when datagrams are lost, and from when until when everything is.
        filtered: [(u64, u64); 2],
        /// The server takes offers while the session runs.
        takes_offers: bool,
        dark: (u64, u64),
        priority: Priority,
        left: u64,
        /// Tenths of a second that TCP's channels take to open again, and the bytes that their sockets take at once.
        opens: u64,
        sockets: u64,
    }

    const NEVER: (u64, u64) = (u64::MAX / 10, u64::MAX / 10);

    const OPEN: Path = Path {
        tcp: MB,
        udp: MB,
        heard: 1,
        filtered: [NEVER; 2],
        takes_offers: false,
        dark: NEVER,
        priority: Priority::Fair,
        left: 0,
        opens: 0,
        sockets: 0,
    };

    /// Runs 40 seconds, as [`long_session`].
    fn session(path: Path) -> (Vec<Act>, Carrier) {
        long_session(path, 40)
    }

    /// Runs so many seconds, TCP's last blocks taking one of them, and returns what was done and what the way is at the end.
    fn long_session(path: Path, seconds: u64) -> (Vec<Act>, Carrier) {
        let (acts, by) = timed_session(path, seconds);
        (acts.into_iter().map(|(_, act)| act).collect(), by)
    }

    /// The same, with the tenth of a second at which each thing was done.
    fn timed_session(path: Path, seconds: u64) -> (Vec<(u64, Act)>, Carrier) {
        let began = now();
        let mut ways = Ways::new(Transport::Auto, path.priority, began);
        if path.takes_offers {
            ways = ways.offering_again();
        }
        let (mut acts, mut tcp, mut udp, mut silent, mut has_udp) = (Vec::new(), 0, 0, None, true);
        let (mut tcp_from, mut tcp_until, mut opened, mut is_open) = (0, u64::MAX, 0, false);
        for tick in 1..seconds * 10 {
            let within = |(from, until): (u64, u64)| (from * 10..until * 10).contains(&tick);
            tcp += if tick == tcp_from { path.sockets } else { 0 };
            tcp +=
                if (tcp_from..tcp_until).contains(&tick) && !within(path.dark) { path.tcp / 10 } else { 0 };
            let may_be_open = (tcp_from..tcp_until).contains(&tick);
            opened += u64::from(may_be_open && !is_open && !within(path.dark));
            is_open = may_be_open && (is_open || !within(path.dark));
            if tick >= path.heard * 10 {
                let lost = within(path.dark) || path.filtered.into_iter().any(within);
                udp += if lost { 0 } else { path.udp / 10 };
                silent = match silent {
                    Some(silent) if lost => Some(silent + Duration::from_millis(100)),
                    None if lost => None,
                    _ => Some(Duration::ZERO),
                };
            }
            let heard = has_udp.then_some(SeenUdp { bytes: udp, silent });
            let seen = Seen { tcp, opened, udp: heard, left: path.left, copied: 0 };
            let act = ways.poll_act(began + Duration::from_millis(100 * tick), seen).unwrap();
            match act {
                Some(Act::CutTcp) => tcp_until = tick,
                Some(Act::RestTcp) => tcp_until = tick + 10,
                Some(Act::ResumeTcp) => (tcp_from, tcp_until) = (tick + 1 + path.opens, u64::MAX),
                Some(Act::EndUdp) => {
                    (tcp_from, tcp_until) = (tcp_from.min(tick), u64::MAX);
                    has_udp = false;
                }
                Some(Act::OfferUdp) => (has_udp, silent) = (true, None),
                None => {}
            }
            acts.extend(act.map(|act| (tick, act)));
        }
        (acts, ways.way().by)
    }

    #[test]
    fn blocks_go_over_udp_where_that_gets_through_unless_tcp_carries_more() {
        use Act::{CutTcp, EndUdp, RestTcp, ResumeTcp};
        let checked = vec![RestTcp, ResumeTcp, CutTcp];
        assert_eq!(session(OPEN), (checked, Carrier::Udp), "as fast as TCP: compared once");
        let far_more = vec![RestTcp, CutTcp, ResumeTcp, CutTcp];
        assert_eq!(
            session(Path { udp: 100 * MB, ..OPEN }),
            (far_more, Carrier::Udp),
            "TCP's last blocks go over UDP"
        );
        assert_eq!(session(Path { tcp: 2 * MB, ..OPEN }), (vec![RestTcp, ResumeTcp, EndUdp], Carrier::Tcp));
        assert_eq!(session(Path { tcp: 100 * MB, ..OPEN }), (vec![RestTcp, EndUdp], Carrier::Tcp), "at once");
        assert_eq!(session(Path { heard: 99, ..OPEN }), (vec![], Carrier::Tcp), "filtered from the start");
        let much = Path { left: 1000 * MB, ..OPEN };
        assert_eq!(
            session(much),
            (vec![CutTcp, ResumeTcp, CutTcp], Carrier::Udp),
            "they do not fill the line together"
        );
    }

    #[test]
    fn udp_that_is_slowed_down_to_a_trickle_is_left_and_an_idle_session_compares_nothing() {
        use Act::{CutTcp, EndUdp, ResumeTcp};
        let slowed = Path { tcp: 10 * MB, udp: 50_000, left: 1000 * MB, ..OPEN };
        let (acts, by) = timed_session(slowed, 40);
        let [(_, CutTcp), (_, ResumeTcp), (ended, EndUdp)] = acts[..] else { panic!("{acts:?}") };
        assert!(ended <= 90 && by == Carrier::Tcp, "{acts:?}");
        let idle = Path { tcp: 0, udp: 0, left: 1000 * MB, ..OPEN };
        assert_eq!(long_session(idle, 3600), (vec![CutTcp], Carrier::Udp));
    }

    #[test]
    fn udp_that_carries_what_the_user_lets_it_is_compared_with_nothing() {
        let began = now();
        let limit = Rate::per_second(MB);
        let acts = |udp_rate: u64| {
            let mut ways = Ways::new(Transport::Auto, Priority::Fair, began).limited_to(limit);
            let acts = (1..600).filter_map(|tick| {
                let udp = SeenUdp { bytes: tick * udp_rate / 10, silent: Some(Duration::ZERO) };
                let seen = Seen { udp: Some(udp), left: 1000 * MB, ..Seen::default() };
                ways.poll_act(began + Duration::from_millis(100 * tick), seen).unwrap()
            });
            acts.collect::<Vec<_>>()
        };
        assert_eq!(acts(MB), [Act::CutTcp]);
        assert!(acts(MB / 3).contains(&Act::ResumeTcp), "something else slows it down");
    }

    #[test]
    fn what_is_only_in_tcps_sockets_does_not_win_on_a_slow_line() {
        for (opens, kilobytes) in [(0, 600), (20, 600), (20, 100), (20, 1250)] {
            let bytes = kilobytes * 1_000;
            let slow = Path { tcp: bytes, udp: bytes, opens, sockets: 4 * MB, ..OPEN };
            let (acts, by) = long_session(slow, 200);
            assert!(!acts.contains(&Act::EndUdp), "{kilobytes} kB/s, opened after {opens}: {acts:?}");
            assert!(acts.contains(&Act::CutTcp) && by != Carrier::Tcp, "{acts:?}");
        }
    }

    #[test]
    fn tcp_carries_within_a_second_where_udp_is_filtered_half_way_and_udp_ends_for_good() {
        let filtered = Path { tcp: 10 * MB, udp: 10 * MB, filtered: [(7, 999), NEVER], left: MB, ..OPEN };
        // UDP may have claimed all that is left: then TCP has nothing to carry until UDP has ended.
        for tcp in [10 * MB, 0] {
            let (acts, by) = timed_session(Path { tcp, ..filtered }, 40);
            let [.., (resumed, Act::ResumeTcp), (ended, Act::EndUdp)] = acts[..] else { panic!("{acts:?}") };
            assert!(resumed <= 82 && ended <= 100 && by == Carrier::Tcp, "{acts:?}");
        }
    }

    fn tries(acts: &[Act]) -> usize {
        acts.iter().filter(|act| **act == Act::OfferUdp).count()
    }

    #[test]
    fn udp_that_was_filtered_for_a_while_carries_again() {
        use Act::{CutTcp, EndUdp, OfferUdp, ResumeTcp};
        // However long ago they were compared.
        for again in [700, 900] {
            let filtered = [(7, 36), (again, again + 20)];
            let path = Path { filtered, left: 1000 * MB, takes_offers: true, ..OPEN };
            let (acts, by) = long_session(path, 100);
            let expected = [CutTcp, ResumeTcp, EndUdp, OfferUdp, EndUdp, OfferUdp, CutTcp];
            assert_eq!((&acts[..], by), (&expected[..], Carrier::Udp));
            let (acts, by) = long_session(path, again + 45);
            assert_eq!(
                (tries(&acts), by),
                (3, Carrier::Udp),
                "once it has lasted, as soon as the first time: {acts:?}"
            );
        }
    }

    #[test]
    fn udp_is_not_offered_again_to_who_takes_no_offer_or_for_little() {
        let path = Path { filtered: [(7, 36), NEVER], left: 1000 * MB, takes_offers: true, ..OPEN };
        for path in [Path { takes_offers: false, ..path }, Path { left: 0, ..path }] {
            let (acts, by) = long_session(path, 600);
            assert_eq!((tries(&acts), by), (0, Carrier::Tcp));
        }
    }

    #[test]
    fn udp_that_is_never_heard_is_offered_rarely() {
        let deaf = Path { heard: 1 << 40, left: 1000 * MB, takes_offers: true, ..OPEN };
        let (acts, by) = long_session(deaf, 24 * 3600);
        assert_eq!((by, acts[..2].to_vec()), (Carrier::Tcp, vec![Act::EndUdp, Act::OfferUdp]));
        assert!((24..32).contains(&tries(&acts)), "{} times a day", tries(&acts));
    }

    #[test]
    fn what_tcp_carries_more_than_is_compared_again_and_costs_little() {
        let slower = Path { tcp: 4 * MB, left: 1000 * MB, takes_offers: true, ..OPEN };
        let (acts, by) = long_session(slower, 3600);
        assert_eq!(by, Carrier::Tcp);
        assert!((2..4).contains(&tries(&acts)), "{acts:?}");
    }

    #[test]
    fn a_dark_path_costs_no_way_that_was_there() {
        let dark = Path { dark: (5, 10), ..OPEN };
        let (acts, by) = session(dark);
        assert_eq!(acts[..3], [Act::RestTcp, Act::ResumeTcp, Act::CutTcp]);
        assert!(!acts.contains(&Act::EndUdp) && by != Carrier::Tcp);
    }

    /// All that is declared has arrived, and the walk goes on: the other end looks for a path that was dark less and less often.
    #[test]
    fn a_udp_that_has_nothing_to_carry_may_come_back_later_than_tcp() {
        let idle = Path { tcp: 0, udp: 50_000, dark: (5, 13), filtered: [(13, 20), NEVER], ..OPEN };
        let (acts, by) = session(idle);
        assert!(!acts.contains(&Act::EndUdp) && by != Carrier::Tcp, "{acts:?} {by:?}");
    }

    #[test]
    fn in_the_background_udp_takes_over_as_soon_as_it_is_heard() {
        let background = Path { tcp: 100 * MB, priority: Priority::Background, ..OPEN };
        assert_eq!(session(background), (vec![Act::RestTcp], Carrier::Udp));
        assert_eq!(session(Path { heard: 99, ..background }), (vec![], Carrier::Tcp));
    }

    #[test]
    fn who_asks_for_udp_and_has_none_is_told() {
        let began = now();
        let mut ways = Ways::new(Transport::Udp, Priority::Fair, began);
        let seen = Seen { udp: Some(SeenUdp::default()), ..Seen::default() };
        let mut poll = |second| ways.poll_act(began + Duration::from_secs(second), seen);
        assert!((0..15).all(|second| poll(second).is_ok()));
        assert_eq!(poll(16), Err(NoUdp::Unheard));
    }

    /// A link that went down again within a round trip of coming back ended the transfer, for a firewall that was not there.
    #[test]
    fn who_has_had_udp_before_waits_for_a_link_that_is_down() {
        let began = now();
        let mut ways = Ways::new(Transport::Udp, Priority::Fair, began).after_udp();
        let seen = Seen { udp: Some(SeenUdp::default()), ..Seen::default() };
        let mut poll = |second| ways.poll_act(began + Duration::from_secs(second), seen);
        assert!((0..180).all(|second| poll(second).is_ok()));
        assert_eq!(poll(181), Err(NoUdp::Silent));
    }

    #[test]
    fn who_was_stopped_before_anything_came_waits_for_as_long_after_that() {
        let began = now();
        let mut ways = Ways::new(Transport::Udp, Priority::Fair, began);
        let seen = Seen { udp: Some(SeenUdp::default()), ..Seen::default() };
        let mut poll = |second| ways.poll_act(began + Duration::from_secs(second), seen);
        assert!((0..15).chain(1000..1015).all(|second| poll(second).is_ok()));
        assert_eq!(poll(1015), Err(NoUdp::Unheard));
    }
}
