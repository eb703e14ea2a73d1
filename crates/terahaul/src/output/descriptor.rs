//! Writing to stdout and stderr, each of which may not take everything at once.
//!
//! `ssh`, which inherits stderr, sets it not to block where it is no terminal. That holds for whoever else has the same pipe: in
//! `2>&1 | less` this program's stdout.
//!
//! A reader that takes nothing holds the work up, but not its end: once the user wants to stop, it is waited for for a second.

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, OFlags, fstat};
use rustix::io::Errno;

/// The user wants to stop.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// How often that is looked at while a reader takes nothing.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// How long a reader that takes nothing is waited for then.
const PATIENCE: Duration = Duration::from_secs(1);
/// That was in vain once: no more time is spent on it.
static GIVEN_UP: AtomicBool = AtomicBool::new(false);
/// A pipe that has room takes so much without waiting (`PIPE_BUF`).
const AT_ONCE: usize = 4096;

/// The user wants to stop: a reader that takes nothing is not waited for any more.
pub fn handle_interrupt() {
    INTERRUPTED.store(true, Ordering::Relaxed);
}

/// Writes all of `text`, and waits for the reader where it has to.
///
/// Not through the standard library, which takes what could not be written for written where stdout is open for reading only.
///
/// # Errors
/// Those of writing; [`io::ErrorKind::TimedOut`] where nobody reads and the user wants to stop.
pub fn write_all(to: impl AsFd, mut text: &[u8]) -> io::Result<()> {
    // Of a pipe's other end there would never be room.
    if rustix::fs::fcntl_getfl(&to)? & OFlags::ACCMODE == OFlags::RDONLY {
        return Err(Errno::BADF.into());
    }
    // In one piece, as others may write to the same file.
    let is_file =
        || fstat(&to).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile);
    let most = if text.len() > AT_ONCE && is_file() { usize::MAX } else { AT_ONCE };
    while !text.is_empty() {
        wait_for_room(&to)?;
        match rustix::io::write(&to, &text[..text.len().min(most)]) {
            Ok(written) => text = &text[written..],
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn wait_for_room(to: impl AsFd) -> io::Result<()> {
    let mut waits_since = None;
    loop {
        let given_up = GIVEN_UP.load(Ordering::Relaxed);
        let look = if given_up { Timespec::default() } else { LOOK };
        match poll(&mut [PollFd::new(&to, PollFlags::OUT)], Some(&look)) {
            Ok(0) if given_up => return Err(io::ErrorKind::TimedOut.into()),
            Ok(0) if INTERRUPTED.load(Ordering::Relaxed) => {
                let waits = waits_since.get_or_insert_with(Instant::now).elapsed();
                GIVEN_UP.fetch_or(waits > PATIENCE, Ordering::Relaxed);
            }
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => {
                // It does read, or another does.
                GIVEN_UP.store(false, Ordering::Relaxed);
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// The process's stderr.
pub struct Stderr;

impl Write for Stderr {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        write_all(io::stderr().lock(), text)?;
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn a_pipe_that_does_not_block_and_is_full_is_waited_for() {
        let (mut reader, writer) = io::pipe().unwrap();
        rustix::io::ioctl_fionbio(&writer, true).unwrap();
        // Several times what a pipe holds.
        let text: Vec<u8> = (0..1_000_000_u32).map(|at| at as u8).collect();
        let read = std::thread::scope(|scope| {
            let writing = scope.spawn(|| {
                let written = write_all(&writer, &text);
                drop(writer);
                written
            });
            let mut read = Vec::new();
            reader.read_to_end(&mut read).unwrap();
            writing.join().unwrap().unwrap();
            read
        });
        assert!(read == text, "{} of {} bytes", read.len(), text.len());
    }
}
