//! Writing to stdout and stderr, each of which may not take everything at once.
//!
//! `ssh`, which inherits stderr, sets it not to block where it is no terminal. That holds for whoever else has the same pipe: in
//! `2>&1 | less` this program's stdout.

use std::io::{self, Write};
use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

/// Writes all of `text`, and waits for the reader where it has to.
///
/// Not through the standard library, which takes what could not be written for written where stdout is open for reading only.
///
/// # Errors
/// Those of writing.
pub fn write_all(to: impl AsFd, mut text: &[u8]) -> io::Result<()> {
    while !text.is_empty() {
        match rustix::io::write(&to, text) {
            Ok(written) => text = &text[written..],
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => wait_for_room(&to)?,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn wait_for_room(to: impl AsFd) -> io::Result<()> {
    rustix::io::retry_on_intr(|| poll(&mut [PollFd::new(&to, PollFlags::OUT)], None))?;
    Ok(())
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
