//! A question at a terminal, which does not show what is typed.

use std::cell::Cell;
use std::io::{self, IsTerminal, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::process::{Signal as Number, getpgrp, getpid, kill_process};
use rustix::termios::{LocalModes, OptionalActions, tcdrain, tcgetattr, tcgetpgrp, tcsetattr};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::exit::{Exit, Failure};
use crate::interrupt::{is_ignored, next};

/// A process that is not stopped where it should be has nobody who would continue it, and is not in the way of anything.
const STOPS_WITHIN: Duration = Duration::from_millis(200);

/// From its beginning on, a terminal on stdin does not show what is typed, until the question is answered. Its modes are the shell's
/// while this process is stopped, and when it is continued, the question is asked again.
pub struct Prompt {
    terminal: OwnedFd,
    question: String,
    /// Whether the terminal showed what is typed.
    was_shown: bool,
    is_open: Cell<bool>,
}

impl Prompt {
    /// Asks, if stdin is a terminal. In the background it waits until it is brought to the front: a shell that reads a line itself has
    /// modes of its own.
    pub fn begin(question: String) -> io::Result<Option<(Self, Signals)>> {
        let stdin = io::stdin();
        if !stdin.is_terminal() {
            return Ok(None);
        }
        let signals = Signals::listen()?;
        let terminal = stdin.as_fd().try_clone_to_owned()?;
        // Whoever sets nothing is stopped for it, too.
        rustix::io::retry_on_intr(|| tcdrain(&terminal))?;
        let was_shown = tcgetattr(&terminal)?.local_modes.contains(LocalModes::ECHO);
        let prompt = Self { terminal, question, was_shown, is_open: Cell::new(true) };
        prompt.hide()?;
        prompt.ask();
        Ok(Some((prompt, signals)))
    }

    fn ask(&self) {
        // Without a terminal on stderr the user sees no question, and can answer it all the same.
        let _ = write!(io::stderr(), "{}", self.question);
    }

    /// Returns whether the terminal would have shown what is typed.
    fn hide(&self) -> io::Result<bool> {
        let mut modes = tcgetattr(&self.terminal)?;
        let shows = modes.local_modes.contains(LocalModes::ECHO);
        if shows {
            modes.local_modes.remove(LocalModes::ECHO);
            tcsetattr(&self.terminal, OptionalActions::Flush, &modes)?;
        }
        Ok(shows)
    }

    fn show(&self) -> io::Result<()> {
        if !self.was_shown || !self.is_open.get() || self.is_in_background() {
            return Ok(());
        }
        let mut modes = tcgetattr(&self.terminal)?;
        modes.local_modes.insert(LocalModes::ECHO);
        Ok(tcsetattr(&self.terminal, OptionalActions::Flush, &modes)?)
    }

    /// Where the terminal's modes are those of another.
    fn is_in_background(&self) -> bool {
        tcgetpgrp(&self.terminal).is_ok_and(|front| front != getpgrp())
    }

    /// The question is answered.
    pub fn end(&self) {
        // The end of the line that was not shown either, or what is said next would stand behind the question.
        let _ = writeln!(io::stderr());
        // A terminal that is gone shows nothing any more.
        let _ = self.show();
        self.is_open.set(false);
    }

    /// What is typed at the terminal besides the answer: to stop, to end. Returns only to end.
    pub async fn attend(&self, mut signals: Signals) -> Failure {
        loop {
            let continued = tokio::select! {
                () = next(&mut signals.quit) => return Failure::new(Exit::Interrupted, "interrupted"),
                () = next(&mut signals.stop) => self.stop(&mut signals.continued).await,
                _ = signals.continued.recv() => Ok(()),
            };
            if let Err(error) = continued.and_then(|()| self.resume()) {
                return would_show(&error);
            }
        }
    }

    /// Stops this process as the terminal would have done.
    async fn stop(&self, continued: &mut Signal) -> io::Result<()> {
        self.show()?;
        // The terminal's own signal has a handler. This one has none, and does nothing where nobody could continue the process.
        kill_process(getpid(), Number::TTIN)?;
        // The other threads go on for a moment.
        let _ = tokio::time::timeout(STOPS_WITHIN, continued.recv()).await;
        Ok(())
    }

    /// Asks again where what is typed would be shown.
    fn resume(&self) -> io::Result<()> {
        // In the background, reading stops the process until it comes to the front.
        if self.is_open.get() && !self.is_in_background() && self.hide()? {
            self.ask();
        }
        Ok(())
    }
}

impl Drop for Prompt {
    fn drop(&mut self) {
        if self.is_open.get() {
            self.end();
        }
    }
}

/// A terminal cannot be made not to show what is typed.
pub fn would_show(error: &io::Error) -> Failure {
    Failure::usage(format!("the terminal would show the token ({error}): pipe it into stdin"))
}

/// What is heard from the question on.
pub struct Signals {
    stop: Option<Signal>,
    quit: Option<Signal>,
    continued: Signal,
}

impl Signals {
    fn listen() -> io::Result<Self> {
        // A handler would undo what whoever started this process has asked for.
        let unless_ignored = |number: Number| -> io::Result<Option<Signal>> {
            let kind = SignalKind::from_raw(number.as_raw());
            if is_ignored(kind) { Ok(None) } else { signal(kind).map(Some) }
        };
        Ok(Self {
            stop: unless_ignored(Number::TSTP)?,
            quit: unless_ignored(Number::QUIT)?,
            continued: signal(SignalKind::from_raw(Number::CONT.as_raw()))?,
        })
    }
}
