//! Ctrl-C, requests to terminate and terminals that go away: the first stops in good order, the second at once.

use std::io;
use std::time::{Duration, Instant};

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

use crate::exit::{Exit, Failure};
use crate::output;

/// A terminal interrupts this process, and whoever started it may pass on the same: what comes so soon after the first is no second.
const SAME: Duration = Duration::from_millis(500);
/// What a terminal interrupts with this process may end before this one knows.
const AT_ONCE: Duration = Duration::from_millis(200);

/// Says whether the user wants to stop. Clones share one state.
#[derive(Clone)]
pub struct Interrupt(watch::Receiver<bool>);

impl Interrupt {
    /// Listens from now on, on a thread of its own: the second signal ends the process also where all others wait for something, and once
    /// the command has ended.
    pub fn listen() -> io::Result<Self> {
        let (set, state) = watch::channel(false);
        let (tell, told) = std::sync::mpsc::sync_channel(1);
        let listen = move || match Signals::listen() {
            Ok((runtime, signals)) => {
                let _ = tell.send(Ok(()));
                runtime.block_on(signals.take_turns(&set));
            }
            Err(error) => _ = tell.send(Err(error)),
        };
        std::thread::Builder::new().name("signals".to_owned()).spawn(listen)?;
        // It says one or the other.
        told.recv().map_err(io::Error::other)??;
        Ok(Self(state))
    }

    /// Whether the user wants to stop.
    pub fn is_set(&self) -> bool {
        *self.0.borrow()
    }

    /// The state itself, for others to wait on.
    pub fn state(&self) -> watch::Receiver<bool> {
        self.0.clone()
    }

    /// Returns when the user wants to stop.
    pub async fn wait(&self) {
        let mut state = self.0.clone();
        if state.wait_for(|set| *set).await.is_err() {
            // The listener lives as long as the process; without it there is nothing to wait for.
            std::future::pending::<()>().await;
        }
    }

    /// Whether the user wants to stop, where something has ended that hears the same Ctrl-C.
    pub async fn is_why(&self) -> bool {
        tokio::time::timeout(AT_ONCE, self.wait()).await.is_ok()
    }

    /// Runs `work` until it ends or the user wants to stop.
    pub async fn guard<T>(&self, work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
        tokio::select! {
            // A result that is ready counts, even if the user asks to stop at the same moment.
            biased;
            result = work => result,
            () = self.wait() => Err(Failure::new(Exit::Interrupted, "interrupted")),
        }
    }
}

/// What is listened for.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Option<Signal>,
}

impl Signals {
    /// What runs the listener, and what it listens for.
    fn listen() -> io::Result<(tokio::runtime::Runtime, Self)> {
        // Where it cannot have such a pair, the runtime panics.
        drop(std::os::unix::net::UnixStream::pair()?);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
        let signals = {
            let _within = runtime.enter();
            // What is longer than this process may make a file is an error like any other, which is told by the file's name.
            drop(signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()))?);
            // A handler would undo what whoever started this process has asked for.
            let hangup = match is_ignored(SignalKind::hangup()) {
                true => None,
                false => Some(signal(SignalKind::hangup())?),
            };
            let (interrupt, terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
            Self { interrupt, terminate, hangup }
        };
        Ok((runtime, signals))
    }

    /// Tells of the first, and ends the process at the second.
    async fn take_turns(mut self, set: &watch::Sender<bool>) {
        let mut first = None;
        loop {
            tokio::select! {
                _ = self.interrupt.recv() => {}
                _ = self.terminate.recv() => {}
                () = next(&mut self.hangup) => {}
            }
            if first.get_or_insert_with(Instant::now).elapsed() > SAME {
                std::process::exit(i32::from(Exit::Interrupted.number()));
            }
            output::handle_interrupt();
            set.send_replace(true);
        }
    }
}

/// Returns with the next of these signals, if they are taken.
pub async fn next(signals: &mut Option<Signal>) {
    match signals {
        Some(signals) => _ = signals.recv().await,
        None => std::future::pending().await,
    }
}

/// Whether this process was started with the signal ignored, as `nohup` does. Where that cannot be seen, it counts as such.
pub fn is_ignored(kind: SignalKind) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_none_or(|mask| mask >> (kind.as_raw_value() - 1) & 1 == 1)
}
