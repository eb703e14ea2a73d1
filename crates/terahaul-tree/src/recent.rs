//! A few things opened lately, kept open.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A bounded cache of what is costly to open. Shared by threads; a value in use outlives its place in the cache.
pub(crate) struct Recent<K, V> {
    kept: Mutex<Kept<K, V>>,
    capacity: usize,
}

struct Kept<K, V> {
    /// Key, when it was last used, value. Short enough that a scan beats a map.
    items: Vec<(K, u64, Arc<V>)>,
    now: u64,
}

impl<K: Copy + PartialEq, V> Recent<K, V> {
    pub(crate) fn new(capacity: usize) -> Self {
        Self { kept: Mutex::new(Kept { items: Vec::with_capacity(capacity), now: 0 }), capacity }
    }

    fn kept(&self) -> MutexGuard<'_, Kept<K, V>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn find(&self, key: K) -> Option<Arc<V>> {
        let mut kept = self.kept();
        kept.now += 1;
        let now = kept.now;
        let item = kept.items.iter_mut().find(|item| item.0 == key)?;
        item.1 = now;
        Some(Arc::clone(&item.2))
    }

    pub(crate) fn insert(&self, key: K, value: Arc<V>) {
        let mut kept = self.kept();
        kept.now += 1;
        let now = kept.now;
        kept.items.retain(|item| item.0 != key);
        if kept.items.len() >= self.capacity
            && let Some(oldest) = (0..kept.items.len()).min_by_key(|&at| kept.items[at].1)
        {
            kept.items.swap_remove(oldest);
        }
        kept.items.push((key, now, value));
    }

    pub(crate) fn remove(&self, key: K) {
        self.kept().items.retain(|item| item.0 != key);
    }

    /// The kept value, or what `open` yields. Two threads may open the same key at once; the later one is kept.
    pub(crate) fn find_or_open(&self, key: K, open: impl FnOnce() -> io::Result<V>) -> io::Result<Arc<V>> {
        if let Some(value) = self.find(key) {
            return Ok(value);
        }
        let value = Arc::new(open()?);
        self.insert(key, Arc::clone(&value));
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_used_last_stays() {
        let recent = Recent::new(2);
        for key in [1, 2] {
            recent.find_or_open(key, || Ok(key * 10)).unwrap();
        }
        assert_eq!(recent.find(1).as_deref(), Some(&10));
        recent.find_or_open(3, || Ok(30)).unwrap();
        assert_eq!(recent.find(1).as_deref(), Some(&10), "used after 2");
        assert_eq!(recent.find(2), None);
        assert!(recent.find_or_open(4, || Err(io::ErrorKind::NotFound.into())).is_err());
        assert_eq!(recent.find(3).as_deref(), Some(&30), "a failure evicts nothing");
    }
}
