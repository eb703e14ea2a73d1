//! A session's UDP channels, from the start of their threads to the end of the last.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, Scope};
use std::time::Duration;

use terahaul_store::Inbound;
use terahaul_wire::packet::ChannelNumber;

use super::content::OnContent;
use super::exchange::{End, Exchange};
use super::pool::Share;
use super::port::Place;
use super::receiving::{self, Arrivals, Inflow, Told, WRITERS, write_blocks};
use super::sending::{self, Cargoes, Outflow, read_blocks};
use super::socket::Socket;
use super::terms::Terms;
use crate::local::Reach;

/// Where datagrams go in and out.
#[derive(Clone)]
pub(crate) enum Line {
    /// A client's own sockets, one a channel.
    Own(Reach),
    /// At the server's port.
    Port(Arc<Place>),
}

impl Line {
    /// What a session over it may have in memory of blocks.
    fn share(&self) -> Share {
        match self {
            Self::Own(_) => Share::whole(),
            Self::Port(place) => place.share(),
        }
    }
}

/// An exchange with its sockets.
struct Carried<E> {
    exchange: Arc<Exchange<E>>,
    sockets: Vec<Arc<Socket>>,
    line: Line,
    terms: Terms,
    /// Held while there are blocks in memory.
    _share: Share,
}

/// UDP channels that send or receive.
pub(crate) struct Running(Kind);

enum Kind {
    Sending(Carried<Outflow>),
    Receiving { carried: Carried<Inflow>, arrivals: Arrivals, copied: AtomicU64 },
}

impl Running {
    /// To send. `on_content` hears what goes out.
    pub fn sending(terms: Terms, line: Line, on_content: OnContent) -> io::Result<Self> {
        let sockets = sockets(&terms, &line)?;
        let (is_own, share) = (matches!(line, Line::Own(_)), line.share());
        let exchange = sending::exchange(&terms, sockets.clone(), is_own, share.blocks(), on_content)?;
        Ok(Self(Kind::Sending(Carried { exchange: Arc::new(exchange), sockets, line, terms, _share: share })))
    }

    /// To receive into `inbound`. `on_content` hears what comes.
    pub fn receiving(
        terms: Terms,
        line: Line,
        inbound: Arc<Inbound>,
        on_content: OnContent,
    ) -> io::Result<Self> {
        let sockets = sockets(&terms, &line)?;
        let share = line.share();
        let (exchange, arrivals) =
            receiving::exchange(&terms, sockets.clone(), inbound, share.blocks(), on_content);
        let carried = Carried { exchange: Arc::new(exchange), sockets, line, terms, _share: share };
        Ok(Self(Kind::Receiving { carried, arrivals, copied: AtomicU64::new(0) }))
    }

    /// Sends blocks until their queue closes, or the session fails: then the reason is returned.
    pub fn send(&self, cargoes: &Cargoes<'_>) -> Option<String> {
        let Kind::Sending(carried) = &self.0 else { return None };
        let exchange = &*carried.exchange;
        carried.run(
            |scope| {
                let read = || unless_it_fails(exchange, || read_blocks(exchange, cargoes));
                named("udp-blocks").spawn_scoped(scope, read).map(drop)
            },
            cargoes.ended,
        )
    }

    /// Receives blocks into `inbound` until it is ended, or the session fails.
    pub fn receive(&self, inbound: &Inbound, told: &Told<'_>) -> Option<String> {
        let Kind::Receiving { carried, arrivals, copied: all_copied } = &self.0 else { return None };
        let done = |came, copied| {
            all_copied.fetch_add(copied, Ordering::Relaxed);
            (told.done)(came, copied);
        };
        let told = Told { done: &done, ..*told };
        let exchange = &*carried.exchange;
        let write = || unless_it_fails(exchange, || write_blocks(exchange, arrivals, inbound, &told));
        carried.run(
            |scope| {
                for _ in 0..WRITERS {
                    named("udp-writer").spawn_scoped(scope, write)?;
                }
                Ok(())
            },
            || {},
        )
    }

    /// Bytes of content that went out so far, where it sends.
    pub fn content_sent(&self) -> u64 {
        match &self.0 {
            Kind::Sending(carried) => carried.exchange.lock().end.content_sent(),
            Kind::Receiving { .. } => 0,
        }
    }

    /// Whether it has ended, or was told to.
    pub fn has_ended(&self) -> bool {
        match &self.0 {
            Kind::Sending(carried) => carried.exchange.has_ended(),
            Kind::Receiving { carried, .. } => carried.exchange.has_ended(),
        }
    }

    /// Ends it, in order.
    pub fn end(&self) {
        match &self.0 {
            Kind::Sending(carried) => carried.exchange.end(None),
            Kind::Receiving { carried, .. } => carried.exchange.end(None),
        }
    }

    /// Bytes that arrived over it so far, and what was copied for whole blocks. Those that are not whole yet count: on a slow line a
    /// block takes seconds.
    pub fn bytes(&self) -> u64 {
        let copied = match &self.0 {
            Kind::Sending(carried) => carried.exchange.lock().end.copied(),
            Kind::Receiving { copied, .. } => copied.load(Ordering::Relaxed),
        };
        self.path_bytes().iter().sum::<u64>() + copied
    }

    /// Bytes in datagrams that arrived so far, for each path.
    pub fn path_bytes(&self) -> Vec<u64> {
        match &self.0 {
            Kind::Sending(carried) => carried.exchange.lock().end.path_bytes(),
            Kind::Receiving { carried, .. } => carried.exchange.lock().end.path_bytes(&carried.terms),
        }
    }

    /// How long nothing of the other end came although something should have; `None` if nothing ever did.
    pub fn silence(&self) -> Option<Duration> {
        match &self.0 {
            Kind::Sending(carried) => carried.exchange.silence(),
            Kind::Receiving { carried, .. } => carried.exchange.silence(),
        }
    }
}

impl<E: End + 'static> Carried<E> {
    /// Runs the pump on this thread, intakes and `work` on others, until the exchange ends and all of them with it;
    /// `ended` is to wake those that wait for something else.
    fn run<'a>(
        &'a self,
        work: impl for<'s> FnOnce(&'s Scope<'s, 'a>) -> io::Result<()>,
        ended: impl FnOnce(),
    ) -> Option<String> {
        if let Line::Port(place) = &self.line {
            place.take(&self.exchange);
        }
        thread::scope(|scope| {
            let started = self.start_intakes(scope).and_then(|()| work(scope));
            match started {
                Ok(()) => unless_it_fails(&self.exchange, || self.exchange.run_pump()),
                Err(error) => self.exchange.end(Some(format!("no thread for UDP can be started: {error}"))),
            }
            ended();
        });
        self.exchange.reason()
    }

    fn start_intakes<'s>(&'s self, scope: &'s Scope<'s, '_>) -> io::Result<()> {
        if let Line::Own(_) = self.line {
            for socket in &self.sockets {
                let exchange = &self.exchange;
                let take_in = move || unless_it_fails(exchange, || exchange.run_intake(socket));
                named("udp-intake").spawn_scoped(scope, take_in)?;
            }
        }
        Ok(())
    }
}

/// Ends `exchange` where `work` panics: whoever waits for its blocks would do so for ever.
fn unless_it_fails<E: End>(exchange: &Exchange<E>, work: impl FnOnce()) {
    if catch_unwind(AssertUnwindSafe(work)).is_err() {
        exchange.end(Some("its thread has failed".to_owned()));
    }
}

fn sockets(terms: &Terms, line: &Line) -> io::Result<Vec<Arc<Socket>>> {
    let socket = |channel: ChannelNumber| match line {
        Line::Own(reach) => Socket::towards(terms.remote, reach.local(channel.0.into())).map(Arc::new),
        Line::Port(place) => Ok(place.socket(channel)),
    };
    terms.channels().map(socket).collect()
}

fn named(name: &str) -> thread::Builder {
    thread::Builder::new().name(name.into())
}
