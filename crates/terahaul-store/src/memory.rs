//! The store in memory, for tests and for depots that keep nothing.

use std::collections::BTreeMap;
use std::io::{self, IoSlice};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use terahaul_core::{Address, ByteCount, TransferId};

use crate::sparse::{Claims, SparseBytes};
use crate::{FlatTransfer, Store, StoreError, StorePlace};

/// A store in memory. Sparse: only what was written takes space.
#[derive(Debug, Default)]
pub struct MemoryStore {
    objects: Mutex<BTreeMap<TransferId, (StorePlace, Arc<Object>)>>,
    space: Arc<Space>,
}

/// What the store may hold and does hold, in written bytes.
#[derive(Debug, Default)]
struct Space {
    state: Mutex<(u64, Option<u64>)>,
    /// The longest object, if there is a limit to that.
    longest: Option<u64>,
}

impl Space {
    fn state(&self) -> MutexGuard<'_, (u64, Option<u64>)> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, bytes: u64) -> Result<(), StoreError> {
        let (used, limit) = &mut *self.state();
        if bytes > 0 && limit.is_some_and(|limit| bytes > limit.saturating_sub(*used)) {
            return Err(StoreError::Full(io::ErrorKind::StorageFull.into()));
        }
        *used += bytes;
        Ok(())
    }

    fn takes(&self, len: u64) -> bool {
        self.longest.is_none_or(|longest| len <= longest)
    }
}

#[derive(Debug)]
struct Object {
    id: TransferId,
    space: Arc<Space>,
    content: RwLock<Content>,
}

#[derive(Debug, Default)]
struct Content {
    bytes: SparseBytes,
    claims: Claims,
}

impl MemoryStore {
    /// A store without a limit.
    pub fn new() -> Self {
        Self::default()
    }

    /// A store that is full when `limit` bytes are written.
    pub fn with_limit(limit: ByteCount) -> Self {
        let store = Self::default();
        store.set_limit(Some(limit));
        store
    }

    /// A store that takes no object which is longer than this.
    pub fn with_longest(longest: ByteCount) -> Self {
        let space = Space { longest: Some(longest.0), ..Space::default() };
        Self { space: Arc::new(space), ..Self::default() }
    }

    /// Changes the limit from now on. What is stored stays.
    pub fn set_limit(&self, limit: Option<ByteCount>) {
        self.space.state().1 = limit.map(|limit| limit.0);
    }

    fn objects(&self) -> MutexGuard<'_, BTreeMap<TransferId, (StorePlace, Arc<Object>)>> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn move_to(&self, id: TransferId, place: StorePlace) -> Result<(), StoreError> {
        self.objects().get_mut(&id).ok_or(StoreError::Missing(id))?.0 = place;
        Ok(())
    }
}

impl Store for MemoryStore {
    fn create(&self, id: TransferId) -> Result<Arc<dyn FlatTransfer>, StoreError> {
        let mut objects = self.objects();
        if objects.contains_key(&id) {
            return Err(StoreError::Exists(id));
        }
        let object = Arc::new(Object { id, space: Arc::clone(&self.space), content: RwLock::default() });
        objects.insert(id, (StorePlace::Incoming, Arc::clone(&object)));
        Ok(object)
    }

    fn open(&self, id: TransferId) -> Result<Arc<dyn FlatTransfer>, StoreError> {
        match self.objects().get(&id) {
            Some((_, object)) => Ok(Arc::clone(object) as Arc<dyn FlatTransfer>),
            None => Err(StoreError::Missing(id)),
        }
    }

    fn publish(&self, id: TransferId) -> Result<(), StoreError> {
        self.move_to(id, StorePlace::Published)
    }

    fn reopen(&self, id: TransferId) -> Result<(), StoreError> {
        self.move_to(id, StorePlace::Incoming)
    }

    fn remove(&self, id: TransferId) -> Result<(), StoreError> {
        self.objects().remove(&id);
        Ok(())
    }

    fn list(&self) -> Result<Vec<(TransferId, StorePlace)>, StoreError> {
        Ok(self.objects().iter().map(|(id, (place, _))| (*id, *place)).collect())
    }

    fn free_space(&self) -> Result<Option<ByteCount>, StoreError> {
        let (used, limit) = *self.space.state();
        Ok(limit.map(|limit| ByteCount(limit.saturating_sub(used))))
    }
}

impl Object {
    /// Pays for `start..start + len` and returns the content, to be changed.
    fn claim(&self, start: u64, len: u64) -> Result<std::sync::RwLockWriteGuard<'_, Content>, StoreError> {
        let end = start.checked_add(len).filter(|end| self.space.takes(*end));
        let end = end.ok_or_else(|| StoreError::TooLong(io::ErrorKind::FileTooLarge.into()))?;
        let mut content = self.content.write().unwrap_or_else(PoisonError::into_inner);
        self.space.take(content.claims.missing(start, end))?;
        if len > 0 {
            content.claims.insert(start, end);
        }
        Ok(content)
    }
}

impl FlatTransfer for Object {
    fn write_at(&self, address: Address, parts: &[IoSlice<'_>]) -> Result<(), StoreError> {
        let len = parts.iter().map(|part| part.len() as u64).sum();
        let mut content = self.claim(address.0, len)?;
        let mut at = address.0;
        for part in parts.iter().filter(|part| !part.is_empty()) {
            content.bytes.write(at, part);
            at += part.len() as u64;
        }
        Ok(())
    }

    fn read_at(&self, address: Address, buffer: &mut [u8]) -> Result<(), StoreError> {
        let content = self.content.read().unwrap_or_else(PoisonError::into_inner);
        if buffer.is_empty() || content.bytes.read(address.0, buffer) {
            return Ok(());
        }
        Err(StoreError::Short(self.id))
    }

    fn takes(&self, len: ByteCount) -> bool {
        self.space.takes(len.0)
    }

    fn sync(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        let content = self.content.get_mut().unwrap_or_else(PoisonError::into_inner);
        self.space.state().0 -= content.claims.total();
    }
}
