//! One command line, from its start to its end or to the limit.

use std::fs::File;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use super::CompareError;
use crate::Namespace;
use crate::peer::{ATTENTION, Phase, confined, end_process, last_lines};

/// An error once the user wants to stop.
pub(super) fn heed(stop: &AtomicBool) -> Result<(), CompareError> {
    if stop.load(Ordering::Relaxed) { Err(CompareError::Interrupted) } else { Ok(()) }
}

/// How a command line ended.
#[derive(Debug)]
pub(super) enum Ended {
    /// With success, after this time.
    Well(Duration),
    /// Without, and what it said last.
    Badly(Duration, String),
    /// It did not, and was ended.
    Cut,
}

/// Runs a phase until it ends or `deadline`.
pub(super) fn run(
    phase: &Phase,
    namespace: &Namespace,
    log: &Path,
    deadline: Instant,
    stop: &AtomicBool,
) -> Result<Ended, CompareError> {
    let output = File::create(log).map_err(CompareError::file("created", log))?;
    let errors = output.try_clone().map_err(CompareError::file("opened", log))?;
    let mut command = confined(namespace, Path::new("bash"));
    command
        .args(["-o", "pipefail", "-c", &phase.command])
        .envs(phase.secrets.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stdout(output)
        .stderr(errors);
    let start = Instant::now();
    let mut child = command.spawn().map_err(CompareError::file("started", Path::new("setpriv")))?;
    let process = child.id();
    let (ended, end) = channel();
    // Waiting has a thread of its own, because nothing in the standard library waits with a time limit. The child was
    // started on this thread, with whose end the kernel would end it.
    let waiter = std::thread::spawn(move || {
        let status = child.wait();
        let _ = ended.send((Instant::now(), status));
    });
    let mut cut = false;
    let (at, status) = loop {
        match end.recv_timeout(ATTENTION) {
            Ok(ended) => break ended,
            Err(RecvTimeoutError::Timeout) => {
                if stop.load(Ordering::Relaxed) || Instant::now() >= deadline {
                    cut = true;
                    end_process(process);
                }
            }
            Err(RecvTimeoutError::Disconnected) => {
                return Err(CompareError::file("waited for", Path::new("bash"))(
                    std::io::ErrorKind::BrokenPipe.into(),
                ));
            }
        }
    };
    let _ = waiter.join();
    heed(stop)?;
    if cut {
        return Ok(Ended::Cut);
    }
    let status = status.map_err(CompareError::file("waited for", Path::new("bash")))?;
    let took = at.duration_since(start);
    if status.success() {
        return Ok(Ended::Well(took));
    }
    Ok(Ended::Badly(took, format!("'{}' ended with {status}: {}", phase.command, last_lines(log))))
}
