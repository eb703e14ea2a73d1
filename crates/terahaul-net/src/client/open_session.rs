//! A session that is open: what a client does with one whether it sends or receives.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use terahaul_core::{Act, BlockNumber, Carrier, ChannelId, Way, Ways};
use terahaul_wire::{Message, Opened, UdpAnswer, UdpOffer, WireError};
use tokio::sync::mpsc::{self, UnboundedReceiver};
use tokio::task::JoinHandle;

use super::channels::{Channels, OpenFailed, Opener, Step};
use super::connect::{Client, Connection, Reader};
use super::error::ClientError;
use super::paths::Paths;
use super::second_opinion::until_lost;
use super::send::Progress;
use crate::control::{ControlError, write_loop};
use crate::echo::{Echo, Read};
use crate::session::{OwnSession, SessionEvent, close_and_wait};
use crate::udp::{Secret, UDP, offer_again};

/// Messages that wait to be written before whoever has more waits.
const QUEUED: usize = 64;

/// How a transfer is connected, over all its sessions, for whoever shows that.
#[derive(Default)]
pub(crate) struct Line {
    connected: AtomicBool,
    channels: AtomicUsize,
    way: Mutex<Way>,
    paths: Paths,
}

impl Line {
    /// A session is open, or none is.
    pub fn connect(&self, connected: bool) {
        self.connected.store(connected, Ordering::Relaxed);
        if connected {
            // Those of the session before have ended.
            self.channels.store(0, Ordering::Relaxed);
        }
    }

    /// What is known here of how far a transfer is.
    pub fn progress(&self) -> Progress {
        let (paths, over_udp) = self.paths.progress();
        Progress {
            connected: self.connected.load(Ordering::Relaxed),
            channels: self.channels.load(Ordering::Relaxed),
            way: *self.way.lock().unwrap_or_else(PoisonError::into_inner),
            paths,
            over_udp,
            ..Progress::default()
        }
    }
}

/// A session without channels, or with those that measure the path while the answer is awaited; and what it has to say.
pub(crate) type Prepared = (OwnSession, UnboundedReceiver<SessionEvent>);

/// A session's control channel and its data channels.
pub(crate) struct OpenSession {
    /// Where what is said waits to be written.
    pub messages: mpsc::Sender<Message>,
    /// What of it the other end has read.
    pub echo: Echo,
    writing: JoinHandle<Result<(), ControlError>>,
    /// What becomes of its channels.
    pub events: ChannelEvents,
    data: OwnSession,
    opener: Opener,
    ways: Ways,
    /// What was offered over UDP when it was opened, where the other end takes another offer.
    later: Option<(Secret, UdpOffer)>,
    /// Whether the other end takes blocks and hears which channels are lost: until then it keeps what had begun to arrive on one from others.
    hears_lost: bool,
    /// That other offer, until it is answered.
    offered: Option<UdpOffer>,
}

/// What becomes of a session's channels, and of those that are being opened.
pub(crate) struct ChannelEvents {
    session: UnboundedReceiver<SessionEvent>,
    failed_opens: UnboundedReceiver<OpenFailed>,
    /// Ends when the control channel is lost without its saying so. It goes on only where the control channel is read as well: what lies
    /// there unread while somebody is busy is no silence. Nobody locks it: that makes of a future, which threads cannot share, one that a
    /// session which they share may have.
    lost: Mutex<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

/// One of these.
pub(crate) enum ChannelEvent {
    Session(SessionEvent),
    NotOpened(OpenFailed),
    Astray,
}

/// What the channels ask of whoever drives the transfer.
pub(crate) enum Asked {
    /// A channel is lost, and the other end is to hear it.
    Lost(ChannelId),
    /// A block that came is not kept.
    Refused(BlockNumber, WireError),
    /// The session cannot go on.
    Broken(WireError),
}

impl ChannelEvents {
    /// The next. Nothing is lost where this is not waited for to the end.
    pub async fn next(&mut self) -> ChannelEvent {
        let lost = self.lost.get_mut().unwrap_or_else(PoisonError::into_inner);
        tokio::select! {
            Some(event) = self.session.recv() => ChannelEvent::Session(event),
            Some(failed) = self.failed_opens.recv() => ChannelEvent::NotOpened(failed),
            () = lost => ChannelEvent::Astray,
        }
    }
}

impl OpenSession {
    /// Begins with what was agreed on: channels over UDP, and none over TCP yet.
    pub fn begin(
        client: &Client,
        channels: &mut Channels,
        connection: Connection,
        opened: &Opened,
        (data, session): Prepared,
    ) -> Result<(Self, Reader), ClientError> {
        let Connection {
            reader, writer, local, reach, ahead, takes_zstd, udp, later_udp, hears_lost, ..
        } = connection;
        let later = udp.clone().filter(|_| later_udp && opened.udp.is_some());
        let mut ways = channels.start_session(opened, udp, &data, &reach, &client.host())?;
        if later.is_some() {
            ways = ways.offering_again();
        }
        data.begin(takes_zstd);
        let (messages, outgoing) = mpsc::channel(QUEUED);
        let (failed, failed_opens) = mpsc::unbounded_channel();
        let opener = Opener { reach, secret: opened.secret, session: Arc::clone(&data), ahead, failed };
        let idle_pings = Arc::default();
        let echo = Echo::new(Arc::clone(&idle_pings));
        let writing = tokio::spawn(write_loop(writer, outgoing, idle_pings));
        let (heard, opinion) = (reader.heard(), client.clone());
        let lost = async move { until_lost(local, heard, || opinion.answers()).await };
        let events = ChannelEvents { session, failed_opens, lost: Mutex::new(Box::pin(lost)) };
        let hears_lost = hears_lost && !data.receives();
        let open =
            Self { messages, echo, writing, events, data, opener, ways, later, hears_lost, offered: None };
        Ok((open, reader))
    }

    /// Tells the other end. Waits while what was said before is not written.
    pub async fn say(&self, message: Message) -> Result<(), ClientError> {
        self.messages.send(message).await.map_err(|_| ClientError::Control(ControlError::Closed))
    }

    /// Asks whether the other end has read, and done, all that was said so far: `echo` tells.
    pub async fn ask_if_read(&mut self) -> Result<Read, ClientError> {
        let (pings, read) = self.echo.ask();
        for _ in 0..pings {
            self.say(Message::Ping).await?;
        }
        Ok(read)
    }

    /// Bytes over its data channels so far.
    pub fn bytes(&self) -> u64 {
        self.data.bytes()
    }

    /// Counts what became of a channel. What is not about their number is returned.
    pub fn handle_event(
        &self,
        client: &Client,
        channels: &mut Channels,
        event: ChannelEvent,
    ) -> Result<Option<Asked>, ClientError> {
        let (now, open, host) = (Instant::now(), self.data.channels(), client.host());
        match event {
            ChannelEvent::Astray => return Err(ControlError::Astray.into()),
            ChannelEvent::NotOpened(failed) => channels.handle_open_failed(now, failed, open, &host)?,
            ChannelEvent::Session(SessionEvent::ChannelEnded(channel, problem)) => {
                let is_lost = problem.is_some() && self.hears_lost;
                channels.handle_channel_ended(now, channel, problem, open, &host)?;
                return Ok(is_lost.then_some(Asked::Lost(channel)));
            }
            ChannelEvent::Session(SessionEvent::UdpEnded(problem)) => {
                channels.handle_udp_ended(problem, &host)?;
            }
            ChannelEvent::Session(SessionEvent::Refused(block, error)) => {
                return Ok(Some(Asked::Refused(block, error)));
            }
            ChannelEvent::Session(SessionEvent::Broken(error)) => return Ok(Some(Asked::Broken(error))),
        }
        Ok(None)
    }

    /// Does what the law of the ways wants now.
    pub async fn follow_ways(
        &mut self,
        client: &Client,
        channels: &mut Channels,
        line: &Line,
    ) -> Result<(), ClientError> {
        match self.poll_ways(client, channels, line)? {
            // The other end takes its blocks back.
            Some(Act::EndUdp) if self.data.receives() => self.say(Message::CloseChannel(UDP.0)).await,
            Some(Act::OfferUdp) => self.offer_udp().await,
            _ => Ok(()),
        }
    }

    async fn offer_udp(&mut self) -> Result<(), ClientError> {
        // Who is slow to answer has an offer already.
        let first = self.later.as_ref().filter(|_| self.offered.is_none());
        let Some(offer) = first.and_then(|(_, offer)| offer_again(offer)) else { return Ok(()) };
        self.offered = Some(offer.clone());
        self.say(Message::OfferUdp(offer)).await
    }

    /// The other end has answered that offer.
    pub fn handle_udp_answer(
        &mut self,
        channels: &Channels,
        answer: Option<UdpAnswer>,
    ) -> Result<(), ClientError> {
        let Some(((secret, _), offer)) = self.later.as_ref().zip(self.offered.take()) else {
            let what = "it answered an offer of UDP that was not made";
            return Err(ClientError::Violation(WireError::violation(what)));
        };
        match answer.filter(|_| self.ways.awaits_udp()) {
            None => tracing::debug!("UDP was offered again, and does not begin"),
            Some(answer) => {
                let (secret, reach) = (secret.clone(), &self.opener.reach);
                if let Err(error) = channels.start_udp((secret, &offer), &answer, &self.data, reach)? {
                    tracing::debug!("UDP does not begin again: {error}");
                }
            }
        }
        Ok(())
    }

    fn poll_ways(
        &mut self,
        client: &Client,
        channels: &mut Channels,
        line: &Line,
    ) -> Result<Option<Act>, ClientError> {
        let act = channels.poll_ways(Instant::now(), &mut self.ways, &self.data, &client.host())?;
        let mut way = self.ways.way();
        if self.data.is_stubborn() && way.by == Carrier::Tcp {
            way.why = "in the background, but this system has no TCP that yields";
        }
        *line.way.lock().unwrap_or_else(PoisonError::into_inner) = way;
        line.paths.update(self.opener.paths());
        line.channels.store(self.data.channels(), Ordering::Relaxed);
        channels.handle_total_bytes(self.data.carried_by_tcp(), self.data.copied());
        Ok(act)
    }

    /// Opens the TCP channels that are wanted, and returns one that is to end, if any: call it until there is none. The sender ends it.
    pub fn poll_close(&mut self, client: &Client, channels: &mut Channels) -> Option<ChannelId> {
        loop {
            match channels.poll_step(Instant::now())? {
                Step::Open(channel) => self.opener.open(client, channel),
                Step::Close(channel) => return Some(channel),
            }
        }
    }

    /// Closes its data channels and waits until they have given back their blocks. What they have carried is counted first: it goes with
    /// them.
    pub async fn close_channels(&mut self, line: &Line) {
        line.paths.update(self.opener.paths());
        close_and_wait(&self.data, &mut self.events.session).await;
    }

    /// Leaves it. What was said last is written first where it ended well.
    pub async fn end(self, line: &Line, well: bool) {
        let Self { messages, writing, data, opener, .. } = self;
        line.paths.end_session(opener.paths());
        drop((messages, opener, data));
        if well {
            // How the connection closes after that is no matter.
            let _ = writing.await;
        } else {
            writing.abort();
        }
    }
}
