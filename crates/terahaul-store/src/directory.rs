//! The store in a directory: `incoming/<id>.data` while a transfer is filled, `published/<id>.data` once complete.
//!
//! Names are made from transfer ids alone. A file's name is durable before `create` returns, so that a synced block
//! is never in a file without a name; the destination of a move is made durable before its origin, so that a power
//! cut between the two never loses the file.

use std::io::{self, IoSlice};
use std::path::Path;
use std::sync::Arc;

use terahaul_core::{Address, ByteCount, TransferId};

use crate::StorePlace::{Incoming, Published};
use crate::generation;
use crate::{FlatFile, FlatTransfer, Folders, Generation, OsFolders, Store, StoreError, StorePlace};

const SUFFIX: &str = ".data";
/// What the name of a file that is set aside ends with besides.
const ASIDE: &str = ".aside";

/// A store in a directory.
#[derive(Debug)]
pub struct DirectoryStore<F: Folders = OsFolders> {
    folders: F,
}

impl DirectoryStore {
    /// Opens, or makes, the store under `root`.
    pub fn open(root: impl AsRef<Path>) -> Result<Self, StoreError> {
        Ok(Self::over(OsFolders::open(root.as_ref())?))
    }
}

impl<F: Folders> DirectoryStore<F> {
    /// A store over `folders`.
    pub fn over(folders: F) -> Self {
        Self { folders }
    }

    fn find(&self, id: TransferId) -> Result<(StorePlace, F::File), StoreError> {
        // Incoming twice: a reopen may move it past the search.
        for place in [Incoming, Published, Incoming] {
            match self.folders.open(place, &name_of(id)) {
                Ok(file) => return Ok((place, file)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(StoreError::Missing(id))
    }

    /// Moves the object to `to`. The folders are synced even when it is there already: whoever moved it may have
    /// been stopped before they were.
    fn move_to(&self, id: TransferId, to: StorePlace) -> Result<(), StoreError> {
        let (place, file) = self.find(id)?;
        let (from, name) = (if to == Published { Incoming } else { Published }, name_of(id));
        if to == Published {
            file.sync()?;
        }
        if self.folders.is_twice(&name)? {
            // The rest of a move that a power cut stopped half-way, whichever way it went.
            self.folders.unlink(from, &name)?;
        } else if place != to {
            match self.folders.rename(from, to, &name) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    return Err(StoreError::Exists(id));
                }
                other => other?,
            }
        }
        self.folders.sync(to)?;
        Ok(self.folders.sync(from)?)
    }
}

fn name_of(id: TransferId) -> String {
    format!("{id}{SUFFIX}")
}

impl<F: Folders> Store for DirectoryStore<F> {
    fn create(&self, id: TransferId) -> Result<Arc<dyn FlatTransfer>, StoreError> {
        match self.find(id) {
            Err(StoreError::Missing(_)) => {}
            Err(error) => return Err(error),
            Ok(_) => return Err(StoreError::Exists(id)),
        }
        let file = match self.folders.create(Incoming, &name_of(id)) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(StoreError::Exists(id)),
            other => other?,
        };
        self.folders.sync(Incoming)?;
        Ok(Arc::new(DirectoryTransfer { id, file }))
    }

    fn open(&self, id: TransferId) -> Result<Arc<dyn FlatTransfer>, StoreError> {
        let (_, file) = self.find(id)?;
        Ok(Arc::new(DirectoryTransfer { id, file }))
    }

    fn publish(&self, id: TransferId) -> Result<(), StoreError> {
        self.move_to(id, Published)
    }

    fn reopen(&self, id: TransferId) -> Result<(), StoreError> {
        self.move_to(id, Incoming)
    }

    fn set_aside(&self, id: TransferId, kept: StorePlace) -> Result<bool, StoreError> {
        let (other, name) = (if kept == Published { Incoming } else { Published }, name_of(id));
        match self.folders.open(kept, &name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            kept => drop(kept?),
        }
        // One file of two names is what a move leaves that was stopped half-way.
        if self.folders.is_twice(&name)? {
            return Ok(false);
        }
        match self.folders.rename_within(other, &name, &format!("{name}{ASIDE}")) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            renamed => renamed?,
        }
        self.folders.sync(other)?;
        Ok(true)
    }

    fn remove(&self, id: TransferId) -> Result<(), StoreError> {
        for place in [Incoming, Published] {
            match self.folders.unlink(place, &name_of(id)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
                // Gone already, perhaps only a moment ago: its absence is made durable all the same.
                _ => self.folders.sync(place)?,
            }
        }
        Ok(())
    }

    fn list(&self) -> Result<Vec<(TransferId, StorePlace)>, StoreError> {
        let mut found = Vec::new();
        for place in [Incoming, Published] {
            let names = self.folders.names(place)?;
            let ids = names.iter().filter_map(|name| name.strip_suffix(SUFFIX)?.parse().ok());
            found.extend(ids.map(|id| (id, place)));
        }
        Ok(found)
    }

    fn generation(&self) -> Result<Option<Generation>, StoreError> {
        Ok(generation::read(&self.folders)?)
    }

    fn keep_generation(&self, generation: Generation) -> Result<bool, StoreError> {
        generation::write(&self.folders, generation)?;
        Ok(true)
    }

    fn free_space(&self) -> Result<Option<ByteCount>, StoreError> {
        Ok(self.folders.free_space()?.map(ByteCount))
    }
}

struct DirectoryTransfer<F> {
    id: TransferId,
    file: F,
}

impl<F: FlatFile> FlatTransfer for DirectoryTransfer<F> {
    fn write_at(&self, address: Address, parts: &[IoSlice<'_>]) -> Result<(), StoreError> {
        Ok(self.file.write_at(address.0, parts)?)
    }

    fn read_at(&self, address: Address, buffer: &mut [u8]) -> Result<(), StoreError> {
        self.file.read_at(address.0, buffer).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => StoreError::Short(self.id),
            _ => error.into(),
        })
    }

    fn free(&self, address: Address, len: ByteCount) -> Result<bool, StoreError> {
        Ok(self.file.free(address.0, len.0)?)
    }

    fn end(&self) -> Result<Option<Address>, StoreError> {
        Ok(Some(Address(self.file.end()?)))
    }

    fn takes(&self, len: ByteCount) -> bool {
        self.file.takes(len.0)
    }

    fn sync(&self) -> Result<(), StoreError> {
        Ok(self.file.sync()?)
    }
}
