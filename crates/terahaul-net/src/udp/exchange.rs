//! One end of a session with what drives it: a lock, a clock, sockets and keys.
//!
//! | thread | does | holds the lock while |
//! |---|---|---|
//! | pump, one an end | keeps time; drives the end | it drives, as below |
//! | intake, one a socket | receives, opens where it lies, hands to the end; drives it where what came is answered at once | the end takes in packets that are open already |
//! | work (`sending`, `receiving`) | reads and hashes, or hashes and writes blocks | a block changes hands |
//!
//! To drive is to send what the end wants sent, the lock held while it seals a burst into the buffer. One thread at a time
//! does, so that packets leave in their order; whoever comes meanwhile leaves it to that thread, which looks again before it stops.
//! That a report goes out from the thread that took in what it tells of, and the next burst from the one that took in the report, saves
//! waking another each time: on a path of less than a millisecond that takes as long as the path.
//!
//! No thread and no task is spent on a packet, and memory is asked for once for all that the system hands over together.

use std::net::IpAddr;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::{Duration, Instant};

use quinn_udp::{EcnCodepoint, RecvMeta};
use terahaul_core::STOPPED;
use terahaul_udp::{Datagram, Gate, Opened, Seal, SessionError, Time, Transmit};
use terahaul_wire::packet::PacketHeader;

use super::keys::Keys;
use super::socket::{Batch, Socket};
use super::terms::Terms;

/// A pure end of a session, sending or receiving.
pub(super) trait End: Send {
    /// How long the other end may be silent where TCP can take over: a link may be down for some time.
    const PATIENCE: Duration;
    /// An opened packet came. `true` if it shows that the path carries both ways: whoever sends is told that something has arrived, and
    /// whoever receives does not get the same again. Many a filter lets pass what goes one way.
    fn handle_packet(
        &mut self,
        now: Time,
        datagram: &Datagram,
        packet: &Opened<'_>,
    ) -> Result<bool, SessionError>;
    /// Time has passed.
    fn handle_timeout(&mut self, now: Time);
    /// What to send next, sealed.
    fn poll_transmit(&mut self, now: Time, keys: &mut dyn Seal, buffer: &mut [u8]) -> Option<Transmit>;
    /// When to come again.
    fn poll_timeout(&self) -> Option<Time>;
    /// Whether it counts on hearing from the other end.
    fn waits(&self) -> bool;
    /// Carries what happened on. `true` if work waits for that.
    fn carry_on(&mut self) -> bool;
}

/// The end, and whether it goes on.
pub(super) struct State<E> {
    pub end: E,
    /// `Some` once it has ended, with the reason where it did not end in order.
    pub ended: Option<Option<String>>,
    /// Nothing of it is wanted any more, whatever ended it.
    called_off: bool,
    /// When the pump comes again.
    pump_at: Time,
    /// When the pump looks again at the latest, whether the end has a timer then or not.
    look_at: Time,
    /// Before this, silence says nothing of the other end: this one was stopped.
    judge_from: Time,
    /// From when on it has counted on hearing something, if it does: before, there was nothing to say.
    waits_since: Time,
    /// A thread drives the end.
    driven: bool,
}

impl<E: End> State<E> {
    /// What [`Exchange::silence`] says, of an end that was last `heard` then. The time that this one was stopped is not counted, whoever
    /// looks first after that.
    fn silence(&self, now: Time, heard: Time) -> Option<Duration> {
        let counts = self.end.waits() && !self.is_overdue(now);
        let silent = || now.since(heard.max(self.judge_from).max(self.waits_since));
        (heard > Time::ZERO).then(|| if counts { silent() } else { Duration::ZERO })
    }

    /// The end is given something to do.
    pub fn handle_work(&mut self, now: Time) {
        if !self.end.waits() {
            self.waits_since = now;
        }
    }

    /// Whether the pump looks so late that it must have been stopped.
    fn is_overdue(&self, now: Time) -> bool {
        now.since(self.look_at) > STOPPED
    }
}

struct Entrance {
    gate: Gate,
    keys: Keys,
    /// Which of this machine's addresses the other end sends to.
    local: Option<IpAddr>,
}

/// What a burst is sealed with and written into.
struct Outlet {
    keys: Keys,
    buffer: Vec<u8>,
}

/// One end, driven.
pub(super) struct Exchange<E> {
    state: Mutex<State<E>>,
    pump: Condvar,
    work: Condvar,
    began: Instant,
    /// When it began to run, which a server's disk may hold up.
    runs_since: AtomicU64,
    entrances: Vec<Mutex<Entrance>>,
    sockets: Vec<Arc<Socket>>,
    /// Of whichever thread drives.
    outlet: Mutex<Outlet>,
    /// Intakes drive, too.
    prompt: bool,
    /// When the other end was last heard, and what it said [shows](End::handle_packet) that the path carries both ways; zero is never.
    heard: AtomicU64,
    /// How long it may be silent.
    patience: Option<Duration>,
    /// The same from the beginning on, until it is heard for the first time.
    patience_unheard: Option<Duration>,
    /// There is no other way.
    is_alone: bool,
}

/// How much is sent in one call: what fits into one UDP datagram before it is cut.
const BURST: usize = 65_000;
/// How often an intake looks whether it is still wanted.
const LOOK: Duration = Duration::from_millis(100);
/// The pump looks at least as often.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);
/// How long who was [stopped](STOPPED) takes in what has come to its sockets meanwhile, or is answered, before it judges.
const CATCH_UP: Duration = Duration::from_secs(1);
/// How late, in nanoseconds, the system may end the pump's sleeps to save wake-ups.
const TIMER_SLACK: NonZeroU64 = NonZeroU64::new(1_000).unwrap();

impl<E: End> Exchange<E> {
    /// Over `sockets`, one a channel. `prompt`: what comes is answered by the thread that took it in, which must not have others to
    /// wait for it then.
    pub fn new(end: impl FnOnce(Time) -> E, terms: &Terms, sockets: Vec<Arc<Socket>>, prompt: bool) -> Self {
        let entrance = |channel| {
            let gate = Gate::new(terms.here, channel);
            Mutex::new(Entrance { gate, keys: terms.opening(), local: None })
        };
        Self {
            state: Mutex::new(State {
                end: end(Time::ZERO),
                ended: None,
                called_off: false,
                pump_at: Time::ZERO,
                look_at: Time::ZERO,
                judge_from: Time::ZERO,
                waits_since: Time::ZERO,
                driven: false,
            }),
            pump: Condvar::new(),
            work: Condvar::new(),
            began: terms.since,
            runs_since: AtomicU64::new(0),
            entrances: terms.channels().map(entrance).collect(),
            sockets,
            outlet: Mutex::new(Outlet { keys: terms.sealing(), buffer: vec![0; BURST] }),
            prompt,
            heard: AtomicU64::new(0),
            patience: terms.patience(E::PATIENCE),
            patience_unheard: terms.patience_unheard(),
            is_alone: terms.is_alone,
        }
    }

    pub fn now(&self) -> Time {
        Time::from_nanos(self.began.elapsed().as_nanos() as u64)
    }

    pub fn lock(&self) -> MutexGuard<'_, State<E>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something was done to the end: the pump looks at it.
    pub fn wake(&self) {
        self.pump.notify_one();
    }

    /// Waits until `ready`; `None` once the exchange has ended.
    pub fn wait_for(&self, ready: impl Fn(&mut E) -> bool) -> Option<MutexGuard<'_, State<E>>> {
        let mut state = self.lock();
        loop {
            if state.ended.is_some() {
                return None;
            }
            if ready(&mut state.end) {
                return Some(state);
            }
            state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Where there is another way, a block is risked only once the other end was heard. `None` once the exchange has ended.
    pub fn wait_until_heard(&self) -> Option<()> {
        match self.is_alone {
            false => self.wait_for(|_| self.has_heard()).map(drop),
            true => Some(()),
        }
    }

    /// Whether too long nothing came of what had to, since `waits_since` or the beginning.
    fn is_lost(&self, waits_since: Time, now: Time) -> bool {
        let (since, patience) = match self.has_heard() {
            true => (self.heard().max(waits_since), self.patience),
            false => (Time::from_nanos(self.runs_since.load(Ordering::Relaxed)), self.patience_unheard),
        };
        patience.is_some_and(|patience| now.since(since) > patience)
    }

    /// Whether it has a reason to look whether it [is lost](Self::is_lost).
    fn may_be_lost(&self, end: &E) -> bool {
        end.waits() || !self.has_heard()
    }

    /// The pump looks: where the other end is lost, it ends.
    fn judge(&self, state: &mut State<E>, now: Time) {
        if state.is_overdue(now) {
            state.judge_from = now + CATCH_UP;
        }
        if now >= state.judge_from && self.may_be_lost(&state.end) && self.is_lost(state.waits_since, now) {
            state.ended.get_or_insert(Some("nothing comes over UDP any more".to_owned()));
            self.work.notify_all();
        }
    }

    /// Ends it, without a reason in order. The first one counts.
    pub fn end(&self, why: Option<String>) {
        let mut state = self.lock();
        state.called_off |= why.is_none();
        state.ended.get_or_insert(why);
        drop(state);
        self.pump.notify_all();
        self.work.notify_all();
    }

    pub fn has_ended(&self) -> bool {
        self.lock().ended.is_some()
    }

    /// The next of what has arrived, waited for until the exchange ends. What is there when it ends by itself is still taken: the other end
    /// was told that it is here.
    pub fn next_of<T>(&self, arrivals: &Mutex<mpsc::Receiver<T>>) -> Option<T> {
        loop {
            let (ended, called_off) = {
                let state = self.lock();
                (state.ended.is_some(), state.called_off)
            };
            if called_off {
                return None;
            }
            let wait = if ended { Duration::ZERO } else { LOOK };
            match arrivals.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(wait) {
                Ok(next) => return Some(next),
                Err(mpsc::RecvTimeoutError::Timeout) if !ended => {}
                Err(_) => return None,
            }
        }
    }

    /// Whether the path has carried both ways.
    pub fn has_heard(&self) -> bool {
        self.heard.load(Ordering::Relaxed) > 0
    }

    /// How long nothing of the other end came although this end counts on it; `None` if nothing ever did.
    pub fn silence(&self) -> Option<Duration> {
        self.lock().silence(self.now(), self.heard())
    }

    fn heard(&self) -> Time {
        Time::from_nanos(self.heard.load(Ordering::Relaxed))
    }

    /// Why it ended.
    pub fn reason(&self) -> Option<String> {
        self.lock().ended.clone().flatten()
    }

    /// Sends, and keeps time, until the exchange ends.
    pub fn run_pump(&self) {
        // Sleeps otherwise end as much as 50 microseconds late, which is a whole burst at 10 Gbit/s.
        let _ = rustix::thread::set_current_timer_slack(Some(TIMER_SLACK));
        let mut state = self.lock();
        state.look_at = self.now();
        self.runs_since.store(state.look_at.nanos(), Ordering::Relaxed);
        loop {
            self.judge(&mut state, self.now());
            state = self.drive(state);
            if state.ended.is_some() {
                return;
            }
            // Whoever drives wakes the pump when it stops.
            let at = if state.driven { Time::NEVER } else { state.end.poll_timeout().unwrap_or(Time::NEVER) };
            state.pump_at = at;
            let now = self.now();
            let wait = at.since(now).min(LONGEST_SLEEP);
            state.look_at = now + wait;
            if wait.is_zero() {
                // Others have the lock in between, whatever the end's timers say.
                drop(state);
                std::thread::yield_now();
                state = self.lock();
            } else {
                state = self.pump.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner).0;
            }
            state.pump_at = Time::ZERO;
        }
    }

    /// Sends what the end wants sent now, unless another thread is at it.
    fn drive<'a>(&'a self, mut state: MutexGuard<'a, State<E>>) -> MutexGuard<'a, State<E>> {
        if std::mem::replace(&mut state.driven, true) {
            return state;
        }
        let mut outlet = self.outlet.lock().unwrap_or_else(PoisonError::into_inner);
        let Outlet { keys, buffer } = &mut *outlet;
        while state.ended.is_none() {
            let now = self.now();
            state.end.handle_timeout(now);
            let transmit = state.end.poll_transmit(now, keys, buffer);
            if state.end.carry_on() {
                self.work.notify_all();
            }
            let Some(transmit) = transmit else { break };
            drop(state);
            self.send(buffer, &transmit);
            state = self.lock();
        }
        state.driven = false;
        state
    }

    fn send(&self, buffer: &[u8], transmit: &Transmit) {
        let Some(bytes) = buffer.get(..transmit.len) else { return };
        let at = usize::from(transmit.channel.0);
        if let (Some(socket), Some(entrance)) = (self.sockets.get(at), self.entrances.get(at)) {
            let local = entrance.lock().unwrap_or_else(PoisonError::into_inner).local;
            socket.send(bytes, transmit.segment, transmit.to, local, transmit.ecn);
        }
    }

    /// Receives on `socket` until the exchange ends.
    pub fn run_intake(&self, socket: &Socket) {
        let mut batch = Batch::new();
        while !self.has_ended() {
            let received =
                socket.receive(&mut batch, LOOK, &mut |bytes, meta, age| self.take(bytes, meta, age));
            if let Err(error) = received {
                self.end(Some(format!("a UDP socket failed: {error}")));
            }
        }
    }
}

/// Takes in datagrams that came from one address, one behind the other.
pub(super) trait Intake: Send + Sync {
    /// They are opened where they lie; the system took them in `age` ago. What is not the other end's moves nothing.
    fn take(&self, bytes: &mut [u8], meta: &RecvMeta, age: Duration);
}

impl<E: End> Intake for Exchange<E> {
    fn take(&self, bytes: &mut [u8], meta: &RecvMeta, age: Duration) {
        let Ok(PacketHeader { channel, .. }) = PacketHeader::decode(bytes) else { return };
        let Some(entrance) = self.entrances.get(usize::from(channel.0)) else { return };
        let datagram = Datagram {
            arrived: self.now() - age,
            channel,
            from: meta.addr,
            congested: meta.ecn == Some(EcnCodepoint::Ce),
        };
        let mut opened = Vec::with_capacity(bytes.len() / meta.stride.max(1) + 1);
        {
            let mut entrance = entrance.lock().unwrap_or_else(PoisonError::into_inner);
            let Entrance { gate, keys, local } = &mut *entrance;
            for sealed in bytes.chunks_mut(meta.stride.max(1)) {
                if let Ok(packet) = gate.open(keys, sealed) {
                    opened.push(packet);
                }
            }
            if !opened.is_empty() {
                *local = meta.dst_ip;
            }
        }
        if opened.is_empty() {
            return;
        }
        let mut state = self.lock();
        // Behind the lock: others have told the end a later time meanwhile, and for it time never goes back.
        let now = self.now();
        if state.ended.is_some() {
            return;
        }
        let mut shown = false;
        for packet in &opened {
            match state.end.handle_packet(now, &datagram, packet) {
                Ok(shows) => shown |= shows,
                Err(error) => {
                    state.ended.get_or_insert(Some(error.to_string()));
                    self.work.notify_all();
                    self.pump.notify_all();
                    return;
                }
            }
        }
        let first = shown && self.heard.swap(now.nanos().max(1), Ordering::Relaxed) == 0;
        if state.end.carry_on() || first {
            self.work.notify_all();
        }
        if self.prompt {
            state = self.drive(state);
        }
        if state.end.poll_timeout().is_some_and(|at| at < state.pump_at) {
            self.pump.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use terahaul_core::Priority;
    use terahaul_wire::packet::ChannelNumber;

    use super::super::keys::Secret;
    use super::super::port::Port;
    use super::super::sending::{Outflow, exchange};
    use super::super::terms::{Wish, offer};
    use super::*;

    /// What a server agrees on with a client that says that it has no other way, and its socket.
    fn agreed(alone: bool) -> (Terms, Arc<Socket>) {
        let port = Arc::new(Port::open(([127, 0, 0, 1], 0).into()).unwrap());
        let round_trip = Duration::from_millis(1);
        let wish = Wish { channels: 1, paths: 1, round_trip, max_rate: None, alone, early: false };
        let offer = offer(&wish).unwrap();
        let (secret, peer) = (Secret::of_bytes([7; 32]), ([127, 0, 0, 1], 9).into());
        let place = port.reserve(None).unwrap();
        let (terms, _) = Terms::of_server(secret, &offer, peer, Priority::Fair, &place);
        (terms, place.socket(ChannelNumber(0)))
    }

    fn serving(alone: bool) -> Exchange<Outflow> {
        let (terms, socket) = agreed(alone);
        exchange(&terms, vec![socket], false, 2, Box::new(|_| ())).unwrap()
    }

    /// A sender that is done counts on each block which it was told is there, and waited for ever where UDP went silent behind the last one.
    #[test]
    fn what_has_arrived_is_taken_where_the_other_end_goes_silent_and_not_where_nobody_wants_it() {
        let (terms, socket) = agreed(false);
        let left = |ends: &[Option<&str>]| {
            let exchange = Exchange::new(|_| Waiting(true), &terms, vec![Arc::clone(&socket)], false);
            let (arrived, arrivals) = mpsc::channel();
            let arrivals = Mutex::new(arrivals);
            (1..4).for_each(|block| arrived.send(block).unwrap());
            let first = exchange.next_of(&arrivals);
            ends.iter().for_each(|why| exchange.end(why.map(str::to_owned)));
            first.into_iter().chain(std::iter::from_fn(|| exchange.next_of(&arrivals))).collect::<Vec<_>>()
        };
        assert_eq!(left(&[Some("nothing comes")]), [1, 2, 3]);
        assert_eq!(left(&[None]), [1]);
        assert_eq!(left(&[Some("nothing comes"), None]), [1], "the session has ended since");
    }

    /// Counts on the other end or not, and does nothing.
    struct Waiting(bool);

    impl End for Waiting {
        const PATIENCE: Duration = Duration::from_secs(10);

        fn handle_packet(&mut self, _: Time, _: &Datagram, _: &Opened<'_>) -> Result<bool, SessionError> {
            Ok(true)
        }

        fn handle_timeout(&mut self, _: Time) {}

        fn poll_transmit(&mut self, _: Time, _: &mut dyn Seal, _: &mut [u8]) -> Option<Transmit> {
            None
        }

        fn poll_timeout(&self) -> Option<Time> {
            None
        }

        fn waits(&self) -> bool {
            self.0
        }

        fn carry_on(&mut self) -> bool {
            false
        }
    }

    /// A session whose other end was heard at second 100, and the pump meant to look at `asked`. Whether it has ended when it looks
    /// at each of these, in milliseconds.
    fn ended(asked: u64, looks: &[u64]) -> Vec<bool> {
        let (terms, socket) = agreed(false);
        let exchange = Exchange::new(|_| Waiting(true), &terms, vec![socket], false);
        let after = |millis| Time::ZERO + Duration::from_millis(millis);
        exchange.heard.store(after(100_000).nanos(), Ordering::Relaxed);
        let mut state = exchange.lock();
        state.look_at = after(asked);
        let look = |at: &u64| {
            exchange.judge(&mut state, after(*at));
            state.look_at = after(*at);
            state.ended.is_some()
        };
        looks.iter().map(look).collect()
    }

    #[test]
    fn who_was_stopped_takes_in_what_has_come_before_it_gives_up() {
        assert_eq!(ended(110_000, &[110_000, 111_000]), [false, true]);
        assert_eq!(ended(101_000, &[111_000, 111_001, 111_999, 112_000]), [false, false, false, true]);
    }

    #[test]
    fn the_time_that_one_was_stopped_is_not_the_other_ends_silence() {
        let (terms, socket) = agreed(true);
        let exchange = Exchange::new(|_| Waiting(true), &terms, vec![socket], false);
        let after = |millis| Time::ZERO + Duration::from_millis(millis);
        let mut state = exchange.lock();
        let mut look = |asked, looked: bool, at| {
            state.look_at = after(asked);
            if looked {
                exchange.judge(&mut state, after(at));
            }
            state.silence(after(at), after(100_000)).unwrap().as_millis()
        };
        assert_eq!(look(110_000, true, 109_000), 9_000);
        assert_eq!(look(110_000, false, 400_000), 0, "others look before the pump does");
        assert_eq!(look(110_000, true, 400_000), 0);
        assert_eq!(look(401_000, true, 401_000), 0);
        assert_eq!(look(411_000, true, 411_000), 10_000);
    }

    #[test]
    fn what_was_not_to_be_heard_is_no_silence() {
        let (terms, socket) = agreed(false);
        let exchange = Exchange::new(|_| Waiting(false), &terms, vec![socket], false);
        let after = |millis| Time::ZERO + Duration::from_millis(millis);
        exchange.heard.store(after(100_000).nanos(), Ordering::Relaxed);
        let mut state = exchange.lock();
        // For eleven seconds it has nothing to do, and then it has.
        state.handle_work(after(111_000));
        state.end.0 = true;
        state.handle_work(after(112_000));
        let mut look = |at| {
            state.look_at = after(at);
            exchange.judge(&mut state, after(at));
            let silent = state.silence(after(at), after(100_000)).unwrap().as_millis();
            (silent, state.ended.is_some())
        };
        assert_eq!(look(111_600), (600, false));
        assert_eq!(look(121_000), (10_000, false));
        assert_eq!(look(121_001), (10_001, true));
    }

    #[test]
    fn a_server_does_not_wait_for_ever_for_a_client_that_has_no_other_way() {
        let after = |seconds| Time::ZERO + Duration::from_secs(seconds);
        let alone = serving(true);
        assert!(!alone.is_lost(Time::ZERO, after(179)), "a link may be down for some time");
        assert!(alone.is_lost(Time::ZERO, after(181)));
        alone.runs_since.store(after(60).nanos(), Ordering::Relaxed);
        assert!(!alone.is_lost(Time::ZERO, after(239)), "its disk was busy before it ran");
        alone.heard.store(after(100).nanos(), Ordering::Relaxed);
        assert!(!alone.is_lost(Time::ZERO, after(279)));
        assert!(alone.is_lost(Time::ZERO, after(281)));
        let beside_tcp = serving(false);
        assert!(!beside_tcp.is_lost(Time::ZERO, after(179)), "it may still come");
        assert!(
            beside_tcp.is_lost(Time::ZERO, after(181)),
            "others could have its share of the memory for blocks"
        );
        beside_tcp.heard.store(after(100).nanos(), Ordering::Relaxed);
        assert!(beside_tcp.is_lost(Time::ZERO, after(111)));
    }
}
