//! A store that keeps no bytes. Their hashes, which the depot has verified, are in its database, as always.

use std::fs::{self, File};
use std::io::{self, IoSlice};
use std::path::PathBuf;
use std::sync::Arc;

use terahaul_core::{Address, ByteCount, TransferId};
use terahaul_store::{FlatTransfer, Store, StoreError, StorePlace};

const INCOMING: &str = "incoming";
const PUBLISHED: &str = "published";

/// Knows which transfers there are, by an empty file for each.
#[derive(Debug)]
pub struct HashStore {
    folder: PathBuf,
}

impl HashStore {
    /// The store in `folder`, which is made where it is missing.
    pub fn open(folder: impl Into<PathBuf>) -> io::Result<Self> {
        let folder = folder.into();
        fs::create_dir_all(&folder)?;
        Ok(Self { folder })
    }

    fn path(&self, id: TransferId, place: &str) -> PathBuf {
        self.folder.join(format!("{id}.{place}"))
    }

    fn move_to(&self, id: TransferId, from: &str, to: &str) -> Result<(), StoreError> {
        let to = self.path(id, to);
        match fs::rename(self.path(id, from), &to) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && to.exists() => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(StoreError::Missing(id)),
            other => Ok(other?),
        }
    }
}

impl Store for HashStore {
    fn create(&self, id: TransferId) -> Result<Arc<dyn FlatTransfer>, StoreError> {
        match File::create_new(self.path(id, INCOMING)) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(StoreError::Exists(id)),
            Err(error) => Err(error.into()),
            Ok(_) => Ok(Arc::new(Nothing)),
        }
    }

    fn open(&self, id: TransferId) -> Result<Arc<dyn FlatTransfer>, StoreError> {
        match [INCOMING, PUBLISHED].iter().any(|place| self.path(id, place).exists()) {
            true => Ok(Arc::new(Nothing)),
            false => Err(StoreError::Missing(id)),
        }
    }

    fn publish(&self, id: TransferId) -> Result<(), StoreError> {
        self.move_to(id, INCOMING, PUBLISHED)
    }

    fn reopen(&self, id: TransferId) -> Result<(), StoreError> {
        self.move_to(id, PUBLISHED, INCOMING)
    }

    fn remove(&self, id: TransferId) -> Result<(), StoreError> {
        for place in [INCOMING, PUBLISHED] {
            match fs::remove_file(self.path(id, place)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
                _ => {}
            }
        }
        Ok(())
    }

    fn list(&self) -> Result<Vec<(TransferId, StorePlace)>, StoreError> {
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let name = entry?.file_name();
            let Some((id, place)) = name.to_str().and_then(|name| name.split_once('.')) else { continue };
            let place = match place {
                INCOMING => StorePlace::Incoming,
                PUBLISHED => StorePlace::Published,
                _ => continue,
            };
            found.extend(id.parse().ok().map(|id| (id, place)));
        }
        Ok(found)
    }

    fn free_space(&self) -> Result<Option<ByteCount>, StoreError> {
        Ok(None)
    }
}

/// Takes any bytes and has none.
struct Nothing;

impl FlatTransfer for Nothing {
    fn write_at(&self, _address: Address, _parts: &[IoSlice<'_>]) -> Result<(), StoreError> {
        Ok(())
    }

    fn read_at(&self, _address: Address, _buffer: &mut [u8]) -> Result<(), StoreError> {
        Err(StoreError::Io(io::Error::new(io::ErrorKind::Unsupported, "this store keeps hashes only")))
    }

    fn sync(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_knows_which_transfers_there_are_when_it_is_opened_again() {
        let dir = tempfile::tempdir().unwrap();
        let (a, b) = (TransferId([1; 16]), TransferId([2; 16]));
        let store = HashStore::open(dir.path()).unwrap();
        store.create(a).unwrap().write_at(Address(7), &[IoSlice::new(b"gone")]).unwrap();
        store.create(b).unwrap();
        assert!(matches!(store.create(a), Err(StoreError::Exists(id)) if id == a));
        store.publish(b).unwrap();
        store.publish(b).unwrap();
        let store = HashStore::open(dir.path()).unwrap();
        let mut list = store.list().unwrap();
        list.sort_by_key(|(id, _)| *id);
        assert_eq!(list, [(a, StorePlace::Incoming), (b, StorePlace::Published)]);
        store.reopen(b).unwrap();
        store.remove(a).unwrap();
        store.remove(a).unwrap();
        assert_eq!(store.list().unwrap(), [(b, StorePlace::Incoming)]);
        assert!(matches!(store.open(a), Err(StoreError::Missing(id)) if id == a));
        assert!(matches!(store.publish(a), Err(StoreError::Missing(id)) if id == a));
        assert!(store.open(b).unwrap().read_at(Address(0), &mut [0]).is_err(), "no byte is kept");
    }
}
