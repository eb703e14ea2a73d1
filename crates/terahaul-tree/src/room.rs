//! Whether what is received has room where it is staged.

use std::io;

use terahaul_core::ByteCount;

use crate::TreeSink;

/// How much is known to fit.
#[derive(Debug, Default)]
pub struct Room {
    fits: ByteCount,
}

/// There is less room than is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRoom {
    /// It lacks where what is not complete waits, which is on another file system than what has its name.
    pub apart: bool,
    /// What is free.
    pub free: ByteCount,
    /// What is still to be written, at least.
    pub more: ByteCount,
}

impl Room {
    /// Whether `wanted` bytes fit, all that this run receives, of which `received` are here by now and in what was free before.
    /// The file system is asked only when it is more than it was known to take.
    pub fn check(
        &mut self,
        sink: &TreeSink,
        wanted: ByteCount,
        received: ByteCount,
    ) -> io::Result<Option<NoRoom>> {
        if wanted <= self.fits {
            return Ok(None);
        }
        let here = sink.available()?;
        // What waits on another file system needs room on both, here all of it once more.
        let apart = sink.available_apart()?;
        let (free, limit) = apart.map_or((here, ByteCount(u64::MAX)), |apart| (apart, here));
        if wanted > limit {
            return Ok(Some(NoRoom { apart: false, free: limit, more: wanted }));
        }
        let with = |there: ByteCount| ByteCount(free.0.saturating_add(there.0)).min(limit);
        self.fits = with(received);
        if wanted > self.fits {
            // Also pieces that had arrived and were not durable: they are written again where they lie.
            let taken = sink.taken()?;
            self.fits = with(taken);
            if wanted > self.fits {
                let more = ByteCount(wanted.0.saturating_sub(taken.0));
                return Ok(Some(NoRoom { apart: apart.is_some(), free, more }));
            }
        }
        Ok(None)
    }
}
