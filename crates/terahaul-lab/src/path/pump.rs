//! The thread that carries packets one way: out of one TUN device, through the [`Link`], into the other.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use tun_rs::SyncDevice;

use super::burst::{Burst, PREFIX};
use super::delay_line::DelayLine;
use super::link::{Link, Verdict};
use crate::LabError;

/// The most that one read yields: 64 KiB and the prefix.
const LARGEST_READ: usize = 65_536 + PREFIX;
/// Reads before what is due is looked at again.
const READS_AT_ONCE: usize = 32;
/// While packets follow each other closely, so long passes between two rounds of giving them out: neighbours then go
/// together, which costs a fraction of the time, and none is late by more than this.
const GRAIN: Duration = Duration::from_micros(50);
/// A read this small is copied out of its buffer, so that an acknowledgement does not hold 64 KiB while it flies.
const SMALL: usize = 4_096;

/// The clock that both directions and the counters share.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock(Instant);

impl Clock {
    pub(super) fn start() -> Self {
        Self(Instant::now())
    }

    pub(super) fn now(self) -> Duration {
        self.0.elapsed()
    }
}

/// A running pump. Dropping it stops its thread.
#[derive(Debug)]
pub(super) struct Pump {
    link: Arc<Mutex<Link>>,
    stop: OwnedFd,
    thread: Option<JoinHandle<()>>,
}

impl Pump {
    pub(super) fn start(
        name: &str,
        clock: Clock,
        link: Link,
        from: Arc<SyncDevice>,
        to: Arc<SyncDevice>,
    ) -> Result<Self, LabError> {
        let stop =
            eventfd(0, EventfdFlags::CLOEXEC).map_err(LabError::system("making an event descriptor"))?;
        let stopped = stop.try_clone().map_err(LabError::system("copying a descriptor"))?;
        let link = Arc::new(Mutex::new(link));
        let shared = link.clone();
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || {
                hurry();
                Carrier {
                    clock,
                    link: shared,
                    from,
                    to,
                    stopped,
                    line: DelayLine::default(),
                    head: Vec::new(),
                }
                .run();
            })
            .map_err(LabError::system("starting a thread"))?;
        Ok(Self { link, stop, thread: Some(thread) })
    }

    /// The link's state, between two packets.
    pub(super) fn link<T>(&self, look: impl FnOnce(&mut Link) -> T) -> T {
        look(&mut self.link.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Pump {
    fn drop(&mut self) {
        // An event descriptor takes eight bytes at any time; were it to refuse them, waiting would never end.
        if rustix::io::write(&self.stop, &1u64.to_ne_bytes()).is_ok() {
            self.thread.take().map(JoinHandle::join);
        }
    }
}

/// A packet that waits for others costs them the accuracy of their delay: wake to the microsecond, and before others.
fn hurry() {
    // Neither is needed to be right, and the second needs root.
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
    let _ = rustix::process::setpriority_process(None, -19);
}

/// One packet under way.
struct Flying {
    burst: Rc<Burst>,
    index: u16,
}

struct Carrier {
    clock: Clock,
    link: Arc<Mutex<Link>>,
    from: Arc<SyncDevice>,
    to: Arc<SyncDevice>,
    stopped: OwnedFd,
    line: DelayLine<Flying>,
    head: Vec<u8>,
}

impl Carrier {
    fn run(&mut self) {
        let mut buffer = Vec::with_capacity(LARGEST_READ);
        let mut given_out = Duration::ZERO;
        loop {
            let more = self.take_in(&mut buffer);
            let now = self.clock.now();
            if self.line.next_due().is_some_and(|due| due <= now) && now >= given_out + GRAIN {
                self.give_out(now);
                given_out = now;
            }
            if more {
                continue;
            }
            let wake = self.line.next_due().map(|due| due.max(given_out + GRAIN));
            if self.wait(wake) {
                return;
            }
        }
    }

    /// Reads what has come. True if there may be more.
    fn take_in(&mut self, buffer: &mut Vec<u8>) -> bool {
        for _ in 0..READS_AT_ONCE {
            buffer.clear();
            buffer.reserve(LARGEST_READ);
            match rustix::io::read(&*self.from, rustix::buffer::spare_capacity(buffer)) {
                Ok(0) => return false,
                Ok(_) => {}
                Err(rustix::io::Errno::INTR) => continue,
                Err(_) => return false,
            }
            let bytes = if buffer.len() <= SMALL { buffer.to_vec() } else { std::mem::take(buffer) };
            self.admit(bytes);
        }
        true
    }

    fn admit(&mut self, bytes: Vec<u8>) {
        let now = self.clock.now();
        let mut link = self.link.lock().unwrap_or_else(PoisonError::into_inner);
        let Ok(burst) = Burst::parse(bytes) else {
            link.handle_missed(1);
            return;
        };
        let burst = Rc::new(burst);
        for index in 0..burst.count() {
            if let Verdict::Deliver(due) = link.handle_packet(now, burst.len(index)) {
                self.line.push(due, Flying { burst: burst.clone(), index });
            }
        }
    }

    /// Writes what is due; neighbours of one burst at once.
    fn give_out(&mut self, now: Duration) {
        let mut next = self.line.poll_due(now);
        while let Some(first) = next.take() {
            let mut end = first.index + 1;
            loop {
                next = self.line.poll_due(now);
                match &next {
                    Some(flying) if Rc::ptr_eq(&flying.burst, &first.burst) && flying.index == end => {
                        end += 1
                    }
                    _ => break,
                }
            }
            let body = first.burst.write_range(first.index..end, &mut self.head);
            let written = write_packet(&self.to, &self.head, body);
            if written.is_err() {
                let mut link = self.link.lock().unwrap_or_else(PoisonError::into_inner);
                link.handle_missed(u64::from(end - first.index));
            }
        }
    }

    /// Waits for packets, for `wake`, or for the end. True at the end.
    fn wait(&self, wake: Option<Duration>) -> bool {
        let timeout = match wake.map(|wake| wake.saturating_sub(self.clock.now())) {
            Some(Duration::ZERO) => return false,
            Some(left) => Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) },
            None => Timespec { tv_sec: 3600, tv_nsec: 0 },
        };
        let mut waited = [
            PollFd::from_borrowed_fd(self.from.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.stopped.as_fd(), PollFlags::IN),
        ];
        match poll(&mut waited, Some(&timeout)) {
            Ok(0) => false,
            Ok(_) => !waited[1].revents().is_empty(),
            Err(error) => error != rustix::io::Errno::INTR,
        }
    }
}

/// A packet must be written whole, in one call.
fn write_packet(to: &SyncDevice, head: &[u8], body: &[u8]) -> io::Result<()> {
    if head.is_empty() {
        rustix::io::write(to, body)?;
    } else {
        rustix::io::writev(to, &[IoSlice::new(head), IoSlice::new(body)])?;
    }
    Ok(())
}
