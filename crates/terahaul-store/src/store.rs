//! The store: flat objects, one a transfer.

use std::io::{self, IoSlice};
use std::sync::Arc;

use terahaul_core::{Address, ByteCount, TransferId};

use crate::Generation;
use crate::fault::{Fault, said_of_full};
use crate::limits::remedy_of_too_many_files;

/// Where a transfer's object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StorePlace {
    /// Being filled; never served.
    Incoming,
    /// Complete and served.
    Published,
}

/// Why the store cannot do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// There is no object of this transfer.
    #[error(
        "transfer {0} has no data in the store: it was removed, or the depot's data folder is another one; to send it anew, remove what is left of it (terahaul remove {0}) first"
    )]
    Missing(TransferId),
    /// There is one already.
    #[error(
        "transfer {0} is in the store already: stop the depot, move one of its files out of the data folder, then try again"
    )]
    Exists(TransferId),
    /// No space is left for what was declared.
    #[error(
        "the depot's disk {full} free some space or remove old transfers, then try again",
        full = said_of_full(.0)
    )]
    Full(#[source] io::Error),
    /// The medium has room, but takes no file that long.
    #[error(
        "the file system of the depot's data folder takes no file that long ({0}), or a limit on their length that the depot has (ulimit -f): move the folder to XFS, or split the transfer into several"
    )]
    TooLong(#[source] io::Error),
    /// The medium cannot be written to.
    #[error(
        "the depot's data folder cannot be written to ({0}): check its permissions and that its disk is not read-only"
    )]
    Denied(#[source] io::Error),
    /// What is finished cannot be moved to where it is served.
    #[error(
        "store/incoming and store/published of the depot's data folder are not real folders on one file system ({0}): make them so, with neither of them a mount or a symbolic link"
    )]
    Apart(#[source] io::Error),
    /// Nothing is wrong with the medium: no more files can be open.
    #[error(
        "the depot's files cannot be opened ({0}): {remedy} before the depot starts, then try again",
        remedy = remedy_of_too_many_files(.0).unwrap_or_default()
    )]
    TooManyFiles(#[source] io::Error),
    /// Read past what was written.
    #[error(
        "transfer {0} is shorter than its manifest says: the depot's data folder is damaged; restore it, or remove what is left of it (terahaul remove {0}) and send it anew"
    )]
    Short(TransferId),
    /// Any other failure.
    #[error("the depot's store failed: {0}; check its disk")]
    Io(#[source] io::Error),
}

impl From<io::Error> for StoreError {
    fn from(error: io::Error) -> Self {
        match Fault::from(&error) {
            Fault::Full => Self::Full(error),
            Fault::TooLong => Self::TooLong(error),
            Fault::Denied => Self::Denied(error),
            Fault::TooManyFiles => Self::TooManyFiles(error),
            Fault::Other => match error.kind() {
                io::ErrorKind::CrossesDevices | io::ErrorKind::NotADirectory => Self::Apart(error),
                _ => Self::Io(error),
            },
        }
    }
}

/// A place for transfers' bytes. Object stores fit: parts may be written in any order, and `publish` is where a
/// multipart upload completes.
pub trait Store: Send + Sync {
    /// Makes an empty object in [`StorePlace::Incoming`].
    fn create(&self, id: TransferId) -> Result<Arc<dyn FlatTransfer>, StoreError>;
    /// Opens an object wherever it is.
    fn open(&self, id: TransferId) -> Result<Arc<dyn FlatTransfer>, StoreError>;
    /// Moves a synced object to [`StorePlace::Published`], durably. Done already: no error.
    fn publish(&self, id: TransferId) -> Result<(), StoreError>;
    /// Moves it back, to take more. Done already: no error.
    fn reopen(&self, id: TransferId) -> Result<(), StoreError>;
    /// Where a copy of a store in use has a transfer's object in either place, two files that differ, keeps the one in `kept` and gives the
    /// other a name under which nothing finds it. Returns whether there was one.
    fn set_aside(&self, _id: TransferId, _kept: StorePlace) -> Result<bool, StoreError> {
        Ok(false)
    }
    /// Removes it from either place. Not there: no error.
    fn remove(&self, id: TransferId) -> Result<(), StoreError>;
    /// Every object and where it is.
    fn list(&self) -> Result<Vec<(TransferId, StorePlace)>, StoreError>;
    /// The one that was kept last; `None` where none was.
    fn generation(&self) -> Result<Option<Generation>, StoreError> {
        Ok(None)
    }
    /// Keeps it, durably, with what is received, so that an older copy of that is known by it; `false` where nothing keeps it.
    fn keep_generation(&self, _generation: Generation) -> Result<bool, StoreError> {
        Ok(false)
    }
    /// Bytes still free, or `None` where the store has no such limit, or nobody says.
    fn free_space(&self) -> Result<Option<ByteCount>, StoreError>;
}

/// One transfer's address space. All calls block; any thread may make them at once on disjoint ranges.
pub trait FlatTransfer: Send + Sync {
    /// Writes `parts`, one after the other, from `address` on.
    fn write_at(&self, address: Address, parts: &[IoSlice<'_>]) -> Result<(), StoreError>;
    /// Fills `buffer` from `address` on; less is [`StoreError::Short`].
    fn read_at(&self, address: Address, buffer: &mut [u8]) -> Result<(), StoreError>;
    /// Gives back the room of `len` bytes that nobody will read again; `false` where the medium cannot do so.
    fn free(&self, _address: Address, _len: ByteCount) -> Result<bool, StoreError> {
        Ok(false)
    }
    /// Where its bytes end; `None` where nobody says.
    fn end(&self) -> Result<Option<Address>, StoreError> {
        Ok(None)
    }
    /// Whether the medium takes `len` bytes in one object, whatever room there is.
    fn takes(&self, _len: ByteCount) -> bool {
        true
    }
    /// Returns when all that was written before is durable. After an error, what was written since the last success
    /// must be written again: a system may drop bytes that it failed to write, and report that once.
    fn sync(&self) -> Result<(), StoreError>;
}
