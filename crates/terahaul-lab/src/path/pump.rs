//! The thread that carries packets one way: out of one TUN device, through the [`Link`], into the other.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

use super::burst::{Burst, PREFIX};
use super::delay_line::DelayLine;
use super::link::{Link, Verdict};
use crate::LabError;
use crate::namespace::Tun;

/// The most that one read yields: 64 KiB and the prefix.
const LARGEST_READ: usize = 65_536 + PREFIX;
/// Reads before what is due is looked at again.
const READS_AT_ONCE: usize = 32;
/// While packets follow each other closely, so long passes between two rounds of giving them out: neighbours then go
/// together, which costs a fraction of the time, and none is late by more than this: a share of the delay, so that what
/// else runs on this machine keeps as much of it as can be, within these bounds.
const SMALLEST_GRAIN: Duration = Duration::from_micros(50);
const LARGEST_GRAIN: Duration = Duration::from_micros(200);
const GRAINS_A_DELAY: u32 = 250;
/// Sleeping longer than this, a processor takes its time to wake up.
const LONG_SLEEP: Duration = Duration::from_micros(500);
/// The most that is taken for usual lateness.
const LATEST: Duration = Duration::from_micros(200);
/// A read this small is copied out of its buffer, so that an acknowledgement does not hold 64 KiB while it flies.
const SMALL: usize = 4_096;
/// Large buffers that are kept: 4 MiB of them.
const SPARE: usize = 64;

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
        from: Arc<Tun>,
        to: Arc<Tun>,
    ) -> Result<Self, LabError> {
        let stop =
            eventfd(0, EventfdFlags::CLOEXEC).map_err(LabError::system("making an event descriptor"))?;
        let stopped = stop.try_clone().map_err(LabError::system("copying a descriptor"))?;
        let grain = (link.delay() / GRAINS_A_DELAY).clamp(SMALLEST_GRAIN, LARGEST_GRAIN);
        let link = Arc::new(Mutex::new(link));
        let shared = link.clone();
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || {
                hurry();
                let (line, head) = Default::default();
                let (spare, late, came_before) = Default::default();
                Carrier {
                    clock,
                    link: shared,
                    from,
                    to,
                    stopped,
                    grain,
                    line,
                    head,
                    spare,
                    late,
                    came_before,
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
    from: Arc<Tun>,
    to: Arc<Tun>,
    stopped: OwnedFd,
    grain: Duration,
    line: DelayLine<Flying>,
    head: Vec<u8>,
    /// Buffers of [`LARGEST_READ`] for the next reads: the allocator would give such back to the system, and the system
    /// clear them, each time.
    spare: Vec<Vec<u8>>,
    /// How late sleeps ended lately, short ones and long ones.
    late: [Duration; 2],
    /// How long ago, most likely, the packets came that are read next.
    came_before: Duration,
}

impl Carrier {
    fn run(&mut self) {
        let mut given_out = Duration::ZERO;
        loop {
            let more = self.take_in();
            self.came_before = Duration::ZERO;
            let now = self.clock.now();
            if self.line.next_due().is_some_and(|due| due <= now) && now >= given_out + self.grain {
                self.give_out(now);
                given_out = now;
            }
            if more {
                continue;
            }
            let wake = self.line.next_due().map(|due| due.max(given_out + self.grain));
            if self.wait(wake) {
                return;
            }
        }
    }

    /// Reads what has come. True if there may be more.
    fn take_in(&mut self) -> bool {
        for _ in 0..READS_AT_ONCE {
            let mut buffer = self.spare.pop().unwrap_or_default();
            buffer.clear();
            buffer.reserve(LARGEST_READ);
            match rustix::io::read(&*self.from, rustix::buffer::spare_capacity(&mut buffer)) {
                Ok(len) if len > SMALL => self.admit(buffer),
                Ok(len) => {
                    self.admit(buffer.clone());
                    self.spare.push(buffer);
                    if len == 0 {
                        return false;
                    }
                }
                Err(error) => {
                    self.spare.push(buffer);
                    if error != rustix::io::Errno::INTR {
                        return false;
                    }
                }
            }
        }
        true
    }

    fn admit(&mut self, bytes: Vec<u8>) {
        let now = self.clock.now() - self.came_before;
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
            if let Ok(burst) = Rc::try_unwrap(first.burst) {
                self.keep(burst.into_bytes());
            }
        }
    }

    /// Keeps a large buffer for the next read.
    fn keep(&mut self, bytes: Vec<u8>) {
        if bytes.capacity() >= LARGEST_READ && self.spare.len() < SPARE {
            self.spare.push(bytes);
        }
    }

    /// Waits for packets, for `wake`, or for the end. True at the end.
    fn wait(&mut self, wake: Option<Duration>) -> bool {
        let Some(wake) = wake else { return self.sleep(Duration::from_secs(3600)) == Woken::Stop };
        let left = wake.saturating_sub(self.clock.now());
        if left.is_zero() {
            return false;
        }
        // Long sleeps end late, by a tenth of a millisecond and more on virtual machines. So they are to end early by
        // twice as much as the last ones were late, and the rest is spent looking at the device. Short ones follow each
        // other so closely that this would keep a processor busy.
        let early = if left < LONG_SLEEP { Duration::ZERO } else { self.late[1] * 2 };
        let woken = self.sleep(left.saturating_sub(early));
        while woken == Woken::Due && self.clock.now() < wake && !readable(&self.from) {
            std::hint::spin_loop();
        }
        woken == Woken::Stop
    }

    fn sleep(&mut self, time: Duration) -> Woken {
        let timeout = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: i64::from(time.subsec_nanos()) };
        let mut waited = [
            PollFd::from_borrowed_fd(self.from.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.stopped.as_fd(), PollFlags::IN),
        ];
        let begun = self.clock.now();
        let result = poll(&mut waited, Some(&timeout));
        let stopped = !waited[1].revents().is_empty();
        let slept = self.clock.now().saturating_sub(begun);
        let late = &mut self.late[usize::from(slept >= LONG_SLEEP)];
        match result {
            Ok(0) => {
                *late = (*late * 7 + slept.saturating_sub(time).min(LATEST)) / 8;
                Woken::Due
            }
            Ok(_) if stopped => Woken::Stop,
            Ok(_) => {
                // A packet wakes as a clock does: late, and by as much.
                self.came_before = (*late).min(slept);
                Woken::Packet
            }
            Err(rustix::io::Errno::INTR) => Woken::Packet,
            Err(_) => Woken::Stop,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Woken {
    Due,
    Packet,
    Stop,
}

fn readable(device: &Tun) -> bool {
    let mut waited = [PollFd::from_borrowed_fd(device.as_fd(), PollFlags::IN)];
    poll(&mut waited, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|ready| ready > 0)
}

/// A packet must be written whole, in one call.
fn write_packet(to: &Tun, head: &[u8], body: &[u8]) -> io::Result<()> {
    if head.is_empty() {
        rustix::io::write(to, body)?;
    } else {
        rustix::io::writev(to, &[IoSlice::new(head), IoSlice::new(body)])?;
    }
    Ok(())
}
