//! Received bytes as they come, in slices, dealt out by length without copying.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, OwnedFd};

/// The system takes at most 1,024 slices at once.
const MOST_SLICES: usize = 1024;

/// A position in a list of slices.
pub(super) struct Parts<'a> {
    parts: &'a [IoSlice<'a>],
    /// Bytes of the first part that were dealt out.
    used: usize,
}

impl<'a> Parts<'a> {
    pub(super) fn new(parts: &'a [IoSlice<'a>]) -> Self {
        let mut parts = Self { parts, used: 0 };
        parts.skip_empty();
        parts
    }

    pub(super) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Moves at most `most` bytes into `slices`; returns how many.
    pub(super) fn take(&mut self, most: usize, slices: &mut Vec<IoSlice<'a>>) -> usize {
        slices.clear();
        let mut taken = 0;
        while taken < most
            && slices.len() < MOST_SLICES
            && let Some(part) = self.parts.first()
        {
            let len = (part.len() - self.used).min(most - taken);
            slices.push(IoSlice::new(&part[self.used..self.used + len]));
            taken += len;
            self.used += len;
            self.skip_empty();
        }
        taken
    }

    fn skip_empty(&mut self) {
        while let Some(part) = self.parts.first()
            && self.used == part.len()
        {
            self.parts = &self.parts[1..];
            self.used = 0;
        }
    }
}

/// Writes all of `slices`, at most [`MOST_SLICES`], at `at`, or at the file's position.
pub(super) fn write_all(file: &OwnedFd, slices: &mut [IoSlice<'_>], mut at: Option<u64>) -> io::Result<()> {
    let mut left = slices;
    while !left.is_empty() {
        let written = match (at, &*left) {
            (None, [only]) => rustix::io::write(file.as_fd(), only),
            (None, several) => rustix::io::writev(file.as_fd(), several),
            (Some(at), several) => rustix::io::pwritev(file.as_fd(), several, at),
        };
        match written {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                at = at.map(|at| at + written as u64);
                IoSlice::advance_slices(&mut left, written);
            }
            Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn bytes_are_dealt_out_in_order_and_none_is_lost(
            lengths in proptest::collection::vec(0usize..9, 0..12),
            takes in proptest::collection::vec(1usize..12, 1..40),
        ) {
            let mut next = 0u8;
            let bytes: Vec<Vec<u8>> = lengths.iter().map(|&len| {
                (0..len).map(|_| { next = next.wrapping_add(1); next }).collect()
            }).collect();
            let slices: Vec<IoSlice<'_>> = bytes.iter().map(|part| IoSlice::new(part)).collect();
            let mut parts = Parts::new(&slices);
            let (mut dealt, mut out) = (Vec::new(), Vec::new());
            for most in takes.into_iter().cycle().take(200) {
                if parts.is_empty() { break; }
                let taken = parts.take(most, &mut out);
                prop_assert!(taken <= most && taken > 0);
                out.iter().for_each(|slice| dealt.extend_from_slice(slice));
            }
            prop_assert_eq!(dealt, bytes.concat());
        }
    }
}
