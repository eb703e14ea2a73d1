//! Everything a command says, as events: text for people, JSON lines for scripts.
//!
//! Results go to stdout; notices, failures, errors and the progress bar to stderr. With `--json` all events go to
//! stdout, one object a line. A reader that went away (`| head -1`) ends the output, not the work.

mod date;
mod descriptor;
mod event;
mod human;
mod json;
mod narrow;
mod progress;
mod secrets;

use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

pub use date::date_of;
pub use descriptor::{Stderr, handle_interrupt};
pub use event::{Event, PathText, PathView, ProgressView};
pub use human::{TOKENS, counted, long, printable, printable_path, printable_text, transfers_head};
pub use secrets::{PREFIXES, masked, remedy_of_repeated};

use crate::cli::GlobalArgs;
use crate::exit::Failure;
use progress::Bar;

/// Where events go. Clones share one output.
#[derive(Clone)]
pub struct Output {
    shared: Arc<Shared>,
}

struct Shared {
    json: bool,
    quiet: bool,
    bar: Option<Bar>,
    /// The reader of stdout went away.
    closed: AtomicBool,
    /// Why stdout could not be written, other than that.
    lost: Mutex<Option<std::io::Error>>,
    /// What is to be done then.
    remedy: Mutex<Option<String>>,
}

impl Output {
    /// As the flags say. The bar is for terminals only, and for those that can write a line anew.
    pub fn new(args: GlobalArgs) -> Self {
        let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let bar = (!args.json && !args.quiet && std::io::stderr().is_terminal() && !is_dumb).then(Bar::new);
        let shared = Shared {
            json: args.json,
            quiet: args.quiet,
            bar,
            closed: AtomicBool::new(false),
            lost: Mutex::new(None),
            remedy: Mutex::new(None),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Whether events are JSON lines.
    pub fn is_json(&self) -> bool {
        self.shared.json
    }

    /// Says `event`.
    pub fn emit(&self, event: &Event<'_>) {
        if self.shared.json {
            if !(self.shared.quiet && event.is_chatter()) {
                self.line(&json::line(event));
            }
            return;
        }
        if let Event::Progress(view) = event {
            if let Some(bar) = &self.shared.bar {
                bar.show(view);
            }
            return;
        }
        if self.shared.quiet && event.is_chatter() {
            return;
        }
        if let Some(text) = human::stderr_text(event) {
            self.above_bar(|| {
                // With nobody reading stderr there is nobody left to tell.
                let _ = Stderr.write_all(format!("{text}\n").as_bytes());
            });
        }
        if let Some(text) = human::stdout_text(event) {
            self.line(&text);
        }
    }

    /// A line of a table's head, for people only.
    pub fn heading(&self, text: &str) {
        if !self.shared.json && !self.shared.quiet {
            self.line(text);
        }
    }

    /// A result that people are told in a line of its own, and scripts as part of an event.
    pub fn detail(&self, text: &str) {
        if !self.shared.json {
            self.line(text);
        }
    }

    /// Says that something is worth knowing.
    pub fn notice(&self, message: impl AsRef<str>) {
        self.emit(&Event::Notice { message: message.as_ref() });
    }

    /// Says at the end what somebody who has watched the progress bar wants to know, and nobody else.
    pub fn closing(&self, message: impl FnOnce() -> String) {
        if self.shared.bar.is_some() {
            self.notice(message());
        }
    }

    /// Removes the progress bar for good or until the next progress.
    pub fn clear_progress(&self) {
        if let Some(bar) = &self.shared.bar {
            bar.clear();
        }
    }

    /// Whether progress would be shown: if not, nobody need measure it.
    pub fn shows_progress(&self) -> bool {
        !self.shared.quiet && (self.shared.json || self.shared.bar.is_some())
    }

    /// Says what is to be done should results be lost on the way to stdout, where running the command again is not enough.
    pub fn set_remedy(&self, remedy: String) {
        *self.shared.remedy.lock().unwrap_or_else(PoisonError::into_inner) = Some(remedy);
    }

    /// Fails when results were lost on the way to stdout, a closed pipe apart.
    pub fn check(&self) -> Result<(), Failure> {
        let Some(error) = self.shared.lost.lock().unwrap_or_else(PoisonError::into_inner).take() else {
            return Ok(());
        };
        let failure = lost(&error);
        match self.shared.remedy.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(remedy) => Err(Failure { message: format!("{failure}; {remedy}"), ..failure }),
            None => Err(failure),
        }
    }

    fn line(&self, text: &str) {
        if self.shared.closed.load(Ordering::Relaxed) {
            return;
        }
        self.above_bar(|| {
            if let Err(error) = write_line(text) {
                self.shared.closed.store(true, Ordering::Relaxed);
                if error.kind() != std::io::ErrorKind::BrokenPipe {
                    *self.shared.lost.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                }
            }
        });
    }

    fn above_bar(&self, write: impl FnOnce()) {
        match &self.shared.bar {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }
}

/// What is said, and the exit code, where stdout could not be written.
pub fn lost(error: &std::io::Error) -> Failure {
    // Not by the system: a socket's peer may be gone.
    if error.kind() == std::io::ErrorKind::TimedOut && error.raw_os_error().is_none() {
        let message = "interrupted while nobody read what it said: run the same command again";
        return Failure::new(crate::exit::Exit::Interrupted, message);
    }
    let message =
        format!("the result could not be written to stdout ({error}): check where it is redirected to");
    Failure::new(crate::exit::Exit::Unexpected, message)
}

/// Writes to stdout.
pub fn write_line(text: &str) -> std::io::Result<()> {
    descriptor::write_all(std::io::stdout().lock(), format!("{text}\n").as_bytes())
}
