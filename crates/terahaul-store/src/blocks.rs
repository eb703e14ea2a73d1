//! Blocks in and out: what the engine asks of a place that bytes come from or go to.

use std::io::{self, IoSlice};
use std::sync::Arc;

use terahaul_core::{BlockNumber, BlockProof, BlockShape, EntryIndex, FailureCause, Hash};

use crate::StoreError;
use crate::fault::{Fault, said_of_full};
use crate::limits::remedy_of_too_many_files;

/// An entry that failed while it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryFailure {
    /// Which entry.
    pub entry: EntryIndex,
    /// What happened.
    pub cause: FailureCause,
    /// The system's words, for the log and the user.
    pub detail: String,
}

impl EntryFailure {
    /// What was read of it is not what was recorded when it arrived.
    pub fn damaged(entry: EntryIndex) -> Self {
        Self { entry, cause: FailureCause::Unreadable, detail: "what is stored of it is damaged".into() }
    }
}

/// Where a sender's blocks come from. Called by several threads at once.
pub trait BlockSource: Send + Sync {
    /// The block's value if it was proven earlier: then the sender does not hash it again. An error where that cannot be told now: what
    /// is read in its place is not to be hashed, as nothing would prove it.
    fn known_value(&self, _block: BlockNumber) -> io::Result<Option<Hash>> {
        Ok(None)
    }

    /// The same in full, file by file where a block holds several: looked up when a receiver has refused the block, to find what of it
    /// is no longer what it was.
    fn known_proof(&self, _shape: &BlockShape) -> io::Result<Option<BlockProof>> {
        Ok(None)
    }

    /// The values of the block's groups of `group` bytes, where they are known without reading it and its file has not changed since.
    fn known_groups(&self, _shape: &BlockShape, _group: u32) -> Option<Arc<[Hash]>> {
        None
    }

    /// Reads the block's bytes in order into `buffer` and passes them to `emit`, a piece at a time.
    ///
    /// A `buffer` that is shorter than the block holds one piece after the other, and every piece but the block's last should fill
    /// it, because records and system calls are made a piece at a time. `emit` may overwrite what it is given: a channel hashes the
    /// piece and then encrypts it where it lies. A `buffer` as long as the block holds all of it in the end ([`piece_at`]).
    ///
    /// Exactly `shape.len` bytes are emitted. When a file vanished, changed or cannot be read, zeros stand for the
    /// rest of it and the entry is among the returned failures; other files of the block are not affected. The
    /// only errors returned are those of `emit`, and that of a source which is gone, or cannot tell whether what it reads is right:
    /// nothing that was emitted of the block is of use then.
    fn read_block(
        &self,
        shape: &BlockShape,
        buffer: &mut [u8],
        emit: &mut dyn FnMut(&mut [u8]) -> io::Result<()>,
    ) -> io::Result<Vec<EntryFailure>>;

    /// Fills `buffer` from `offset` of a large file on, as far as that can be done now; returns how far. It need not be what was
    /// declared: it is looked at, and sent only if it is of [known values](Self::known_groups).
    fn read_around(&self, _entry: EntryIndex, _offset: u64, _buffer: &mut [u8]) -> usize {
        0
    }
}

/// Bytes read, hashed, encrypted and written at a time: they stay in the second-level cache throughout.
pub const PIECE: usize = 256 << 10;

/// Where in `buffer` the piece belongs that begins `at` bytes into a block of `len`: behind those before it, if there is room for all.
pub fn piece_at(buffer: &mut [u8], at: u32, len: u32) -> &mut [u8] {
    let left = len.saturating_sub(at) as usize;
    let (start, most) = if buffer.len() < len as usize { (0, buffer.len()) } else { (at as usize, PIECE) };
    &mut buffer[start..start + left.min(most)]
}

/// Why bytes cannot be taken. The receiver's side is at fault, so the transfer pauses and keeps what it has.
#[derive(Debug, thiserror::Error)]
pub enum SinkError {
    /// No space is left.
    #[error(
        "the disk that receives the transfer {full} free some space, then run the same command again",
        full = said_of_full(.0)
    )]
    Full(#[source] io::Error),
    /// There is room, but not in one file.
    #[error(
        "the disk that receives the transfer takes no file that long ({0}), or a limit on their length that this process has (ulimit -f): receive onto another file system, such as XFS"
    )]
    TooLong(#[source] io::Error),
    /// The place cannot be written to.
    #[error(
        "the receiving folder cannot be written to ({0}): check its permissions and that it is not read-only"
    )]
    Denied(#[source] io::Error),
    /// The same of one place in it.
    #[error(
        "{path} cannot be written ({source}): check the permissions of the folder that it is in, and that it is not read-only, then run the same command again"
    )]
    DeniedAt {
        /// What was to be written.
        path: String,
        /// What the system said.
        source: io::Error,
    },
    /// Nothing is wrong with the disk: no more files can be open.
    #[error(
        "the files that are received cannot be opened ({0}): {remedy}, then run the same command again",
        remedy = remedy_of_too_many_files(.0).unwrap_or_default()
    )]
    TooManyFiles(#[source] io::Error),
    /// Something was changed under the receiver in a way that could lead outside its root.
    #[error(
        "{path} was replaced while the transfer ran ({detail}): nothing was written through it; remove it and run the same command again"
    )]
    Tampered {
        /// What was replaced.
        path: String,
        /// How.
        detail: String,
    },
    /// Any other failure of the file system.
    #[error(
        "the disk that receives the transfer failed ({0}): check it and the system's log, then run the same command again"
    )]
    Io(#[source] io::Error),
    /// The same, at one place.
    #[error(
        "{path} could not be written on the disk that receives the transfer ({source}): check that disk and the system's log, then run the same command again"
    )]
    At {
        /// Which.
        path: String,
        /// What the system said.
        source: io::Error,
    },
    /// Somebody has removed what had arrived.
    #[error(
        "{path} could not be written ({source}): what had arrived was removed while the transfer ran, or the folder that it is in; run the same command again, and let nothing else remove what begins with '.terahaul-' there"
    )]
    Gone {
        /// What was being written.
        path: String,
        /// What the system said.
        source: io::Error,
    },
    /// Of a depot's store, which is not on the disk of whoever sends.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl SinkError {
    /// Whether room on the disk is what is missing.
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Full(_) | Self::Store(StoreError::Full(_)))
    }

    /// Names the place where it failed, if something failed that may not be in all of them: to look for it is the user's part.
    #[must_use]
    pub fn at(self, path: impl FnOnce() -> String) -> Self {
        match self {
            Self::Io(source) if source.kind() == io::ErrorKind::NotFound => {
                Self::Gone { path: path(), source }
            }
            Self::Io(source) => Self::At { path: path(), source },
            Self::Denied(source) => Self::DeniedAt { path: path(), source },
            named @ (Self::Full(_)
            | Self::TooLong(_)
            | Self::DeniedAt { .. }
            | Self::TooManyFiles(_)
            | Self::Tampered { .. }
            | Self::At { .. }
            | Self::Gone { .. }
            | Self::Store(_)) => named,
        }
    }
}

impl From<io::Error> for SinkError {
    fn from(error: io::Error) -> Self {
        match Fault::from(&error) {
            Fault::Full => Self::Full(error),
            Fault::TooLong => Self::TooLong(error),
            Fault::Denied => Self::Denied(error),
            Fault::TooManyFiles => Self::TooManyFiles(error),
            Fault::Other => Self::Io(error),
        }
    }
}

/// Why bytes of an old file cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum BasisError {
    /// Nothing is to be copied for this block, or not from there. The sender is at fault.
    #[error("it wants bytes copied that are in no file here")]
    Outside,
    /// They were there when the sender was told.
    #[error("the old file was changed while its bytes were copied ({0}): they are sent instead")]
    Lost(#[source] io::Error),
}

/// Where a receiver's blocks go. Called by several threads at once, each with a block of its own.
pub trait BlockSink: Send + Sync {
    /// Starts writing a block; bytes follow in order.
    fn begin<'a>(&'a self, shape: &BlockShape) -> Result<Box<dyn BlockWriter + 'a>, SinkError>;

    /// Fills `buffer` with bytes of the old file that the block's file replaces, from `from` on.
    fn read_basis(&self, _shape: &BlockShape, _from: u64, _buffer: &mut [u8]) -> Result<(), BasisError> {
        Err(BasisError::Outside)
    }

    /// Makes durable all that finished writers have written. After an error, blocks written since the last success
    /// are written again.
    fn sync(&self) -> Result<(), SinkError>;
}

/// One block being written. Dropped unfinished, its bytes may be anything and will be written again.
pub trait BlockWriter: Send {
    /// The next bytes, in order; `parts` together continue where the last call ended.
    fn write(&mut self, parts: &[IoSlice<'_>]) -> Result<(), SinkError>;

    /// The next `len` bytes are where they belong already: an earlier writer of this block has written them. Only of a sink that has
    /// [old files](BlockSink::read_basis).
    fn skip(&mut self, _len: u32) -> Result<(), SinkError> {
        Err(SinkError::Io(io::ErrorKind::Unsupported.into()))
    }

    /// The next bytes are those of the [old file](BlockSink::read_basis) from `from` on: has the two files share them, where the file
    /// system can, and fills `buffer` with them. `false` where they do not, and then they are read and written.
    fn share(&mut self, _from: u64, _buffer: &mut [u8]) -> Result<bool, SinkError> {
        Ok(false)
    }

    /// All bytes were written.
    fn finish(self: Box<Self>) -> Result<(), SinkError>;
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn pieces_fill_a_long_buffer_in_a_row_and_a_short_one_anew(len in 1u32..3_000_000, short in 1usize..300_000) {
            for room in [short, len as usize, len as usize + short] {
                let mut buffer = vec![0; room];
                let (mut at, mut ends) = (0, 0);
                while at < len {
                    let base = buffer.as_ptr() as usize;
                    let piece = piece_at(&mut buffer, at, len);
                    let start = piece.as_ptr() as usize - base;
                    prop_assert_eq!(start, if room < len as usize { 0 } else { ends });
                    prop_assert!(!piece.is_empty() && piece.len() <= PIECE.max(short));
                    (at, ends) = (at + piece.len() as u32, start + piece.len());
                }
                prop_assert_eq!(at, len);
            }
        }
    }
}
