//! Keeping the right number of data channels open.

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::CertificateError;
use terahaul_core::{
    Act, Backoff, ChannelCount, ChannelId, Compress, NoUdp, Priority, Rate, Transport, Way, Ways,
};
use terahaul_store::{remedy_of_too_many_files, said_of_no_thread};
use tokio::sync::mpsc::UnboundedSender;

use super::ahead::Ahead;
use super::connect::Client;
use super::error::ClientError;
use crate::channel::connect_data;
use crate::local::Reach;
use crate::session::{NotAdopted, Session};
use crate::tls::HandshakeError;
use crate::udp;
use terahaul_wire::{Opened, UdpAnswer, UdpOffer, WireError};

/// Channels that fail in a row, where no other is open, before the session is started over.
const MOST_FAILURES: u32 = 8;
/// The same where the last failed for what this machine has not. Where none has ever carried anything, a session that is started over has
/// no more of it.
const MOST_FAILURES_HERE: u32 = 4;
/// UDP channels unless the user says how many. More carry no more over any line, but while one thread sends, another takes in what comes.
const UDP_CHANNELS: u32 = 2;

/// What the user fixed about a transfer; by default everything adapts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Number of data channels; adapts when `None`.
    pub channels: Option<u32>,
    /// Most bytes a second, over all channels.
    pub limit: Option<Rate>,
    /// Whether blocks are compressed on their way.
    pub compress: Compress,
    /// Whether of a changed file only what changed is sent, where the other end can do that.
    pub delta: bool,
    /// Which way blocks go.
    pub transport: Transport,
    /// How the path is shared with others.
    pub priority: Priority,
}

/// A channel that could not be opened.
#[derive(Debug)]
pub(crate) struct OpenFailed {
    pub channel: ChannelId,
    pub why: Unopened,
}

/// Why it could not be.
#[derive(Debug)]
pub(crate) enum Unopened {
    /// The other end, or what lies in between.
    There(String),
    /// The other end's certificate was refused.
    Certificate(CertificateError),
    /// This machine has no thread or no socket for it. Ends with what is to be done about that.
    Here(String),
}

/// What to do about the number of channels.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Open(ChannelId),
    Close(ChannelId),
}

/// Opens and closes data channels of one transfer, over all its sessions.
pub(crate) struct Channels {
    law: ChannelCount,
    next: u32,
    /// Channels that are opening, open (`true`), or asked to close.
    live: BTreeMap<ChannelId, Life>,
    backoff: Backoff,
    not_before: Option<Instant>,
    counted: u64,
    copied: u64,
    options: Options,
    /// How many there are over UDP unless the user says.
    udp: u32,
    /// Something has arrived for good, in any session.
    has_carried: bool,
    /// Datagrams of the other end came, in any session.
    has_heard_udp: bool,
    /// No TCP channel is opened, and those that there are end after their blocks.
    cut: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    Wanted,
    Closing,
}

impl Channels {
    /// Of a transfer from this machine.
    pub fn new(options: Options) -> Self {
        // `options` count channels of the way that is used.
        let tcp = if options.transport == Transport::Udp { Some(0) } else { options.channels };
        let law = tcp.map_or_else(ChannelCount::adaptive, ChannelCount::fixed).limited_to(options.limit);
        Self {
            law,
            next: 0,
            live: BTreeMap::new(),
            backoff: Backoff::default(),
            not_before: None,
            counted: 0,
            copied: 0,
            options,
            udp: UDP_CHANNELS,
            has_carried: false,
            has_heard_udp: false,
            cut: false,
        }
    }

    /// Of a transfer to this machine, which may have better things to do with its processors than to take in datagrams on both.
    pub fn receiving(options: Options) -> Self {
        Self { udp: UDP_CHANNELS.min(udp::intakes() as u32), ..Self::new(options) }
    }

    /// Does with a session's channels what the law of the ways wants, and returns what that was. TCP's that end because of it have
    /// not failed.
    pub fn poll_ways(
        &mut self,
        now: Instant,
        ways: &mut Ways,
        session: &Session,
        host: &str,
    ) -> Result<Option<Act>, ClientError> {
        let gone = |gone: NoUdp| ClientError::NoUdp { host: host.to_owned(), detail: gone.to_string() };
        let seen = session.seen();
        self.has_heard_udp |= seen.udp.is_some_and(|udp| udp.silent.is_some());
        let Some(act) = ways.poll_act(now, seen).map_err(gone)? else { return Ok(None) };
        let was_cut = std::mem::replace(&mut self.cut, matches!(act, Act::CutTcp | Act::RestTcp));
        if was_cut && !self.cut {
            self.law.restart();
        }
        match act {
            Act::CutTcp => session.cut_tcp(),
            Act::EndUdp => session.end_udp(),
            Act::RestTcp | Act::ResumeTcp | Act::OfferUdp => {}
        }
        Ok(Some(act))
    }

    /// A session's UDP channels ended. An error where there is no other way in it: another is opened then.
    pub fn handle_udp_ended(&self, problem: Option<String>, host: &str) -> Result<(), ClientError> {
        let detail = problem.unwrap_or_else(|| "the UDP channels were closed".to_owned());
        tracing::debug!("UDP ended: {detail}");
        match self.options.transport {
            Transport::Udp => Err(ClientError::Unreachable { host: host.to_owned(), detail }),
            Transport::Tcp | Transport::Auto | Transport::Both => Ok(()),
        }
    }

    /// What to offer the other end over UDP, on a path of this length, or on several. `early`: datagrams go before the answer
    /// has come, where the path is so long that it pays to measure it meanwhile.
    pub fn udp_offer(&self, round_trip: Duration, reach: &Reach, early: bool) -> Option<UdpOffer> {
        let Options { transport, priority, channels, limit, .. } = self.options;
        let wanted = transport.wants_udp(round_trip, priority) && channels != Some(0);
        let alone = transport == Transport::Udp;
        // What the user counts are TCP's channels, unless there are none.
        let paths = reach.from.len().max(1) as u32;
        let channels = channels.filter(|_| alone).unwrap_or(self.udp).max(paths);
        let early = early && round_trip >= ChannelCount::LONG;
        let wish = udp::Wish { channels, paths, round_trip, max_rate: limit, alone, early };
        wanted.then(|| udp::offer(&wish)).flatten()
    }

    /// Starts the UDP channels of a session that is being opened, as what was offered lets expect them. Those of which it
    /// turns out otherwise are replaced when the session starts.
    pub fn start_ahead(
        &self,
        offered: Option<&(udp::Secret, UdpOffer)>,
        session: &Arc<Session>,
        reach: &Reach,
    ) {
        let expected = offered.and_then(|(secret, offer)| {
            let answer = udp::expected(offer)?;
            udp::Terms::of_client(secret.clone(), offer, &answer, reach.there, self.options.priority)
        });
        if let Some(terms) = expected
            && let Err(error) = session.adopt_udp(terms, udp::Line::Own(reach.clone()))
        {
            tracing::debug!("UDP does not start ahead of the answer: {error}");
        }
    }

    /// A session that was just opened starts without channels but those over UDP that both ends `agreed` on. Returns its
    /// law of the ways.
    pub fn start_session(
        &mut self,
        opened: &Opened,
        agreed: Option<(udp::Secret, UdpOffer)>,
        session: &Arc<Session>,
        reach: &Reach,
        host: &str,
    ) -> Result<Ways, ClientError> {
        self.live.clear();
        self.backoff.handle_success();
        self.counted = 0;
        self.not_before = None;
        self.cut = false;
        self.law.restart();
        self.limit(opened.max_channels);
        let ways = self.start_ways(agreed, opened.udp.as_ref(), session, reach, host)?;
        let ways = if self.has_heard_udp { ways.after_udp() } else { ways };
        Ok(ways.limited_to(self.options.limit))
    }

    fn start_ways(
        &self,
        agreed: Option<(udp::Secret, UdpOffer)>,
        answer: Option<&UdpAnswer>,
        session: &Arc<Session>,
        reach: &Reach,
        host: &str,
    ) -> Result<Ways, ClientError> {
        let Options { transport, priority, .. } = self.options;
        let now = Instant::now();
        let tcp_only = |why| Ok(Ways::without_udp(transport, why, now));
        let Some((secret, offer)) = agreed else {
            return tcp_only(if transport == Transport::Auto { Way::SHORT_PATH } else { Way::ASKED_FOR });
        };
        let refused = |error, why| match transport {
            Transport::Udp => Err(error),
            _ => tcp_only(why),
        };
        let Some(answer) = answer else {
            session.end_udp();
            return refused(ClientError::WithoutUdp { host: host.to_owned() }, "the other end has no UDP");
        };
        if offer.server == Some(answer.connection) {
            if udp::expected(&offer).as_ref() == Some(answer) && session.has_udp() {
                return Ok(Ways::new(transport, priority, now));
            }
            // Others under the same names would seal with the same keys, and packet numbers come again.
            session.end_udp();
            let detail = "the UDP channels ended before the session was open".to_owned();
            let error = ClientError::Unreachable { host: host.to_owned(), detail };
            return refused(error, "UDP ended before the session was open");
        }
        match self.start_udp((secret, &offer), answer, session, reach)? {
            Ok(()) => Ok(Ways::new(transport, priority, now)),
            // Others may give back what it lacked, and it had that before.
            Err(error) if transport == Transport::Udp && self.has_carried => {
                Err(ClientError::Lacking(ClientError::UdpHere(error).to_string()))
            }
            Err(error) => refused(ClientError::UdpHere(error), "UDP failed here"),
        }
    }

    /// Starts the UDP channels that were offered, and answered so. The inner error is this system's.
    pub fn start_udp(
        &self,
        (secret, offer): (udp::Secret, &UdpOffer),
        answer: &UdpAnswer,
        session: &Arc<Session>,
        reach: &Reach,
    ) -> Result<io::Result<()>, ClientError> {
        let terms = udp::Terms::of_client(secret, offer, answer, reach.there, self.options.priority)
            .ok_or_else(|| WireError::violation("it answered more UDP channels than were offered"));
        Ok(session.adopt_udp(terms.map_err(ClientError::Violation)?, udp::Line::Own(reach.clone())))
    }

    /// The other end takes no more than `max`.
    fn limit(&mut self, max: u32) {
        self.law.limit(max);
    }

    /// How long it took the control channel to be connected.
    pub fn handle_round_trip(&mut self, round_trip: Duration) {
        self.law.handle_round_trip(round_trip);
    }

    /// How many to connect before the session is open.
    pub fn ahead(&self) -> u32 {
        self.law.ahead()
    }

    /// Bytes over the session's channels so far, and those that were copied instead in the whole transfer.
    pub fn handle_total_bytes(&mut self, total: u64, copied: u64) {
        if std::mem::replace(&mut self.copied, copied) != copied {
            self.law.handle_copies();
        }
        self.law.handle_bytes(total.saturating_sub(self.counted));
        self.counted = total;
    }

    /// A channel of a session ended, in order where there is no `problem`; `open` are left. An error where too many failed in a
    /// row and none is left: a path may take no more than some.
    pub fn handle_channel_ended(
        &mut self,
        now: Instant,
        channel: ChannelId,
        problem: Option<String>,
        open: usize,
        host: &str,
    ) -> Result<(), ClientError> {
        if let Some(problem) = &problem {
            tracing::debug!("data channel {} ended: {problem}", channel.0);
        }
        self.handle_ended(now, channel, problem.is_some());
        self.check(problem.unwrap_or_default(), open, host)
    }

    /// The same of one that could not be opened, or where that is because of the certificate.
    pub fn handle_open_failed(
        &mut self,
        now: Instant,
        failed: OpenFailed,
        open: usize,
        host: &str,
    ) -> Result<(), ClientError> {
        let OpenFailed { channel, why } = failed;
        self.handle_ended(now, channel, true);
        match why {
            Unopened::Certificate(why) => Err(ClientError::from_certificate(host.to_owned(), &why)),
            Unopened::There(detail) => {
                tracing::debug!("a data channel could not be opened: {detail}");
                self.check(detail, open, host)
            }
            Unopened::Here(detail) => {
                tracing::debug!("a data channel could not be opened: {detail}");
                let message = || format!("no data channel can be opened: {detail}");
                match open == 0 && self.backoff.failures() >= MOST_FAILURES_HERE {
                    true if self.has_carried => Err(ClientError::Lacking(message())),
                    true => Err(ClientError::Local(message())),
                    false => Ok(()),
                }
            }
        }
    }

    fn check(&self, detail: String, open: usize, host: &str) -> Result<(), ClientError> {
        if open == 0 && self.backoff.failures() >= MOST_FAILURES {
            return Err(ClientError::Unreachable { host: host.to_owned(), detail });
        }
        Ok(())
    }

    fn handle_ended(&mut self, now: Instant, channel: ChannelId, failed: bool) {
        self.live.remove(&channel);
        if failed && !self.cut {
            // Half the spread is enough here: channels fail together, and are opened one after the other.
            self.not_before = Some(now + self.backoff.handle_failure(0.5));
        } else {
            self.backoff.handle_success();
        }
    }

    /// A channel works.
    pub fn handle_progress(&mut self) {
        self.has_carried = true;
        self.backoff.handle_success();
    }

    /// The next thing to do now, if any.
    pub fn poll_step(&mut self, now: Instant) -> Option<Step> {
        if self.cut {
            let (id, life) = self.live.iter_mut().find(|(_, life)| **life == Life::Wanted)?;
            *life = Life::Closing;
            return Some(Step::Close(*id));
        }
        let target = self.law.poll_target(now) as usize;
        let wanted = self.live.values().filter(|life| **life == Life::Wanted).count();
        if wanted < target && self.not_before.is_none_or(|at| now >= at) {
            let id = ChannelId(self.next);
            self.next += 1;
            self.live.insert(id, Life::Wanted);
            return Some(Step::Open(id));
        }
        if wanted > target {
            let (id, life) = self.live.iter_mut().rev().find(|(_, life)| **life == Life::Wanted)?;
            *life = Life::Closing;
            return Some(Step::Close(*id));
        }
        None
    }
}

/// What a session's data channels are opened with.
pub(crate) struct Opener {
    pub reach: Reach,
    pub secret: [u8; 32],
    pub session: Arc<Session>,
    pub ahead: Ahead,
    pub failed: UnboundedSender<OpenFailed>,
}

impl Opener {
    /// What went over each of the paths of UDP in this session.
    pub fn paths(&self) -> impl Iterator<Item = (Option<IpAddr>, u64)> {
        let named = self.reach.from.iter().copied().map(Some);
        let unnamed = self.reach.from.is_empty().then_some(None);
        named.chain(unnamed).zip(self.session.udp_path_bytes())
    }

    /// Opens a data channel on a thread of its own and gives it to the session.
    pub fn open(&mut self, client: &Client, channel: ChannelId) {
        let (config, name) = (Arc::clone(&client.tls.data), client.endpoint.server_name());
        let (address, local) = (self.reach.there, self.reach.local(channel.0 as usize));
        let (secret, session) = (self.secret, Arc::clone(&self.session));
        let (ahead, failed) = (self.ahead.take(), self.failed.clone());
        let open = move || {
            let connected = match ahead.map(|ahead| ahead.join()) {
                Some(Ok(Ok(unbound))) => Ok(unbound),
                // What failed ahead of time is worth one more attempt: the depot may have been busy.
                _ => name
                    .map_err(|error| Unopened::There(error.to_string()))
                    .and_then(|name| connect_data(address, local, name, config).map_err(Unopened::from)),
            };
            let result = connected
                .and_then(|unbound| unbound.bind(secret, channel.0).map_err(Unopened::from))
                .and_then(|data| session.adopt(channel, data, ()).map_err(Unopened::from));
            if let Err(why) = result {
                // The session may be over; then nobody asks.
                let _ = failed.send(OpenFailed { channel, why });
            }
        };
        if let Err(error) = std::thread::Builder::new().name("open-channel".into()).spawn(open) {
            let why = Unopened::Here(said_of_no_thread(&error));
            let _ = self.failed.send(OpenFailed { channel, why });
        }
    }
}

impl From<HandshakeError> for Unopened {
    fn from(error: HandshakeError) -> Self {
        match error {
            HandshakeError::Tls(rustls::Error::InvalidCertificate(why)) => Self::Certificate(why),
            HandshakeError::NoSocket(error) => Self::Here(said_here(&error)),
            error => Self::There(error.to_string()),
        }
    }
}

impl From<NotAdopted> for Unopened {
    fn from(error: NotAdopted) -> Self {
        match error {
            NotAdopted::Refused(error) => Self::There(error.message),
            NotAdopted::Here(error) => Self::Here(said_here(&error)),
        }
    }
}

fn said_here(error: &io::Error) -> String {
    match remedy_of_too_many_files(error) {
        Some(remedy) => format!("{error}: {remedy}"),
        None => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use terahaul_core::BlockShape;
    use terahaul_store::{BlockSource, EntryFailure};
    use tokio::sync::mpsc;

    use super::*;
    use crate::channel::{Outbound, Placement};
    use crate::client::ErrorKind;
    use crate::session::{OwnSession, Role, SessionEvent};

    fn steps(channels: &mut Channels, now: Instant) -> Vec<Step> {
        std::iter::from_fn(|| channels.poll_step(now)).collect()
    }

    #[test]
    fn a_lost_channel_is_replaced_after_a_pause_under_a_new_number() {
        let now = Instant::now();
        let mut channels = Channels::new(Options { channels: Some(2), ..Options::default() });
        assert_eq!(steps(&mut channels, now), [Step::Open(ChannelId(0)), Step::Open(ChannelId(1))]);
        channels.handle_ended(now, ChannelId(0), true);
        assert_eq!(steps(&mut channels, now), []);
        let later = now + Duration::from_secs(1);
        assert_eq!(steps(&mut channels, later), [Step::Open(ChannelId(2))]);
        channels.handle_ended(later, ChannelId(2), false);
        assert_eq!(steps(&mut channels, later), [Step::Open(ChannelId(3))], "closed in order: at once");
    }

    /// The other end was called unreachable, and was asked again and again.
    #[test]
    fn a_machine_without_threads_or_sockets_does_not_call_the_other_end_unreachable() {
        let now = Instant::now();
        let no_socket = || HandshakeError::NoSocket(rustix::io::Errno::MFILE.into()).into();
        let no_thread = || NotAdopted::Here(io::Error::other(said_of_no_thread(&"EAGAIN"))).into();
        for (why, remedy) in [(&no_socket as &dyn Fn() -> Unopened, "ulimit -n"), (&no_thread, "ulimit -u")] {
            let fail = |channels: &mut Channels, open| {
                let failed = OpenFailed { channel: ChannelId(0), why: why() };
                channels.handle_open_failed(now, failed, open, "host")
            };
            let mut channels = Channels::new(Options::default());
            assert!((0..20).all(|_| fail(&mut channels, 1).is_ok()), "one is open, and goes on");
            let error = fail(&mut channels, 0).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Local);
            assert!(!error.is_passing() && error.to_string().contains(remedy), "{error}");
            let mut channels = Channels::new(Options::default());
            assert!(fail(&mut channels, 0).is_ok(), "others may end, and leave theirs");
        }
    }

    /// A source that nobody reads.
    struct Unread;

    impl BlockSource for Unread {
        fn read_block(
            &self,
            _: &BlockShape,
            _: &mut [u8],
            _: &mut dyn FnMut(&mut [u8]) -> io::Result<()>,
        ) -> io::Result<Vec<EntryFailure>> {
            Err(io::ErrorKind::Unsupported.into())
        }
    }

    /// A session whose UDP channels started ahead of this answer, and ended before it if `fails`. Returns whether it starts, and has
    /// some then, and how many it has told the end of.
    fn started(
        transport: Transport,
        fails: bool,
        answer: impl FnOnce(UdpAnswer) -> Option<UdpAnswer>,
    ) -> (Option<bool>, usize) {
        let reach = Reach { there: ([127, 0, 0, 1], 9).into(), from: Vec::new() };
        let channels = Channels::new(Options { transport, ..Options::default() });
        let (events, mut told) = mpsc::unbounded_channel();
        let role = Role::Send {
            outbound: Arc::new(Outbound::placing(Placement::Declared, mpsc::unbounded_channel().0)),
            source: Arc::new(Unread),
            pace: None,
            compression: None,
            priority: Priority::Fair,
        };
        let session = OwnSession::new(role, events);
        let offer = channels.udp_offer(Duration::from_millis(100), &reach, true).unwrap();
        let opened = Opened { udp: answer(udp::expected(&offer).unwrap()), ..Opened::default() };
        let offered = (udp::Secret::of_bytes([1; 32]), offer);
        channels.start_ahead(Some(&offered), &session, &reach);
        assert!(session.has_udp(), "it starts ahead");
        if fails {
            session.end_udp();
        }
        let mut channels = channels;
        let started = channels.start_session(&opened, Some(offered), &session, &reach, "host");
        session.begin(false);
        let has_udp = started.ok().map(|_| session.has_udp());
        drop(session);
        // Every thread has ended once nobody is left who could tell something.
        let mut ended = 0;
        while let Some(event) = told.blocking_recv() {
            ended += usize::from(matches!(event, SessionEvent::UdpEnded(_)));
        }
        (has_udp, ended)
    }

    #[test]
    fn channels_that_start_ahead_of_the_answer_are_what_it_says() {
        for transport in [Transport::Udp, Transport::Auto] {
            assert_eq!(started(transport, false, Some), (Some(true), 1), "as expected");
            let another = |expected| Some(UdpAnswer { connection: [9; 8], ..expected });
            let replaced = started(transport, false, another);
            assert_eq!(replaced, (Some(true), 1), "only the last ones tell of their end");
        }
        assert_eq!(started(Transport::Auto, false, |_| None), (Some(false), 1), "the other end has no UDP");
    }

    /// Keys are of the names: other channels under the same ones would use numbers again.
    #[test]
    fn channels_that_ended_ahead_of_the_answer_have_no_successors_of_their_name() {
        let fewer = |expected| Some(UdpAnswer { channels: 0, ..expected });
        for (fails, answer) in [(true, Some as fn(UdpAnswer) -> Option<UdpAnswer>), (false, fewer)] {
            assert_eq!(started(Transport::Auto, fails, answer), (Some(false), 1));
            assert_eq!(started(Transport::Udp, fails, answer), (None, 1), "it connects again");
        }
    }

    #[test]
    fn datagrams_go_ahead_on_long_paths_only() {
        let reach = Reach { there: ([127, 0, 0, 1], 9).into(), from: Vec::new() };
        let channels = Channels::new(Options { transport: Transport::Udp, ..Options::default() });
        let name = |millis, early| {
            channels.udp_offer(Duration::from_millis(millis), &reach, early).and_then(|offer| offer.server)
        };
        assert!(name(100, true).is_some());
        assert_eq!((name(1, true), name(100, false)), (None, None));
    }

    #[test]
    fn when_the_limit_falls_the_newest_channels_close() {
        let now = Instant::now();
        let mut channels = Channels::new(Options { channels: Some(3), ..Options::default() });
        steps(&mut channels, now);
        channels.limit(1);
        assert_eq!(steps(&mut channels, now), [Step::Close(ChannelId(2)), Step::Close(ChannelId(1))]);
    }
}
