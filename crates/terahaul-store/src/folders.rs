//! What the directory store asks of a file system: two folders and flat files in them.
//!
//! The store's promises rest on the order of these calls, so they are a trait: a test double that loses power
//! stands in for the system and shows that the order is right.

use std::io::{self, IoSlice};

use crate::StorePlace;

/// The two folders of a store.
pub trait Folders: Send + Sync + 'static {
    /// An open file.
    type File: FlatFile;

    /// Makes a new file; `AlreadyExists` when the name is taken.
    fn create(&self, place: StorePlace, name: &str) -> io::Result<Self::File>;
    /// Opens a file, never through a symbolic link; `NotFound` when there is none.
    fn open(&self, place: StorePlace, name: &str) -> io::Result<Self::File>;
    /// Moves a file from one folder to the other under the same name, all or nothing.
    fn rename(&self, from: StorePlace, to: StorePlace, name: &str) -> io::Result<()>;
    /// Renames a file within its folder, and replaces what has the new name.
    fn rename_within(&self, place: StorePlace, name: &str, new: &str) -> io::Result<()>;
    /// Whether both folders have this name, of one and the same file: what is left of a move of which a power cut spared the new
    /// name and not the removal of the old one.
    fn is_twice(&self, name: &str) -> io::Result<bool>;
    /// Removes a name; `NotFound` when there is none.
    fn unlink(&self, place: StorePlace, name: &str) -> io::Result<()>;
    /// The names in a folder.
    fn names(&self, place: StorePlace) -> io::Result<Vec<String>>;
    /// Returns when the folder's names are durable.
    fn sync(&self, place: StorePlace) -> io::Result<()>;
    /// Bytes that may still be written, or `None` where there is no limit or nobody says.
    fn free_space(&self) -> io::Result<Option<u64>>;
}

/// A file that is read and written at any position, by several threads at once.
pub trait FlatFile: Send + Sync + 'static {
    /// Writes all of `parts`, one after the other.
    fn write_at(&self, offset: u64, parts: &[IoSlice<'_>]) -> io::Result<()>;
    /// Fills `buffer`; `UnexpectedEof` when the file ends before.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()>;
    /// Gives back the room of `len` bytes, which read as zeros from then on; the file stays as long as it is. `false` where the file
    /// system cannot do so.
    fn free(&self, _offset: u64, _len: u64) -> io::Result<bool> {
        Ok(false)
    }
    /// Where it ends.
    fn end(&self) -> io::Result<u64>;
    /// Whether the file system takes a file of `len` bytes, whatever room there is. Writes nothing.
    fn takes(&self, _len: u64) -> bool {
        true
    }
    /// Returns when the file's content and length are durable. Its name may still not be.
    fn sync(&self) -> io::Result<()>;
}
