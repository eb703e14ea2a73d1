//! A file's hash, for comparing contents at both ends.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::io::Errno;
use terahaul_core::Hash;

use crate::beneath::open_to_read;
use crate::listing::is_file;

/// Fits the second-level cache.
const PIECE: usize = 256 << 10;

/// BLAKE3 of the regular file `name` in `folder`, which is not followed.
pub(crate) fn hash_file(folder: BorrowedFd<'_>, name: &[u8]) -> io::Result<Hash> {
    let file = open_to_read(folder, name)?;
    let stat = rustix::fs::fstat(&file)?;
    if !is_file(&stat) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; PIECE.min(stat.st_size.max(1) as usize)];
    loop {
        match rustix::io::read(file.as_fd(), &mut buffer[..]) {
            Ok(0) => return Ok(Hash(*hasher.finalize().as_bytes())),
            Ok(read) => {
                hasher.update(&buffer[..read]);
            }
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}
