//! Reading and writing at a place in a file.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;

/// Fills `buffer` from `at` on, and says how far: less than all of it where the file ends.
pub(crate) fn read_up_to(file: &OwnedFd, buffer: &mut [u8], at: u64) -> io::Result<usize> {
    let mut read = 0;
    while read < buffer.len() {
        match rustix::io::pread(file.as_fd(), &mut buffer[read..], at + read as u64) {
            Ok(0) => break,
            Ok(more) => read += more,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(read)
}

/// Writes all of `bytes` from `at` on.
pub(crate) fn write_at(file: &OwnedFd, mut bytes: &[u8], mut at: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match rustix::io::pwrite(file.as_fd(), bytes, at) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                bytes = &bytes[written..];
                at += written as u64;
            }
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}
