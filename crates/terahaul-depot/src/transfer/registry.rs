//! The transfers that are in memory.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use terahaul_core::TransferId;
use tokio::sync::OwnedMutexGuard;

use super::{Live, Published};

/// How long a transfer that nobody uses stays in memory.
const IDLE: Duration = Duration::from_secs(300);
/// The same where others wait for its place.
const IDLE_WHEN_FULL: Duration = Duration::from_secs(5);

/// What is in memory of one transfer; of one that nobody uses nothing, and the database knows.
#[derive(Default)]
pub(crate) struct Slot {
    /// It is being received; or it is partial, and somebody may send the rest.
    pub live: Option<Arc<Live>>,
    /// It is finished, and being read.
    pub published: Option<Published>,
}

type Lock = Arc<tokio::sync::Mutex<Slot>>;

/// One slot for each transfer in use.
#[derive(Default)]
pub(crate) struct Registry {
    slots: Mutex<HashMap<TransferId, Lock>>,
    /// Those whose data is removed, and whose rows do not say so.
    unmarked: Mutex<HashSet<TransferId>>,
    /// Held while space is given out, so that two transfers are never promised the same.
    pub space: tokio::sync::Mutex<()>,
    /// Held while a resume key's transfer is looked for and made, so that a key has one.
    pub resuming: tokio::sync::Mutex<()>,
}

impl Registry {
    fn slots(&self) -> MutexGuard<'_, HashMap<TransferId, Lock>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Those whose data is removed, and whose rows do not say so: the disk was full.
    pub fn unmarked(&self) -> MutexGuard<'_, HashSet<TransferId>> {
        self.unmarked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks a transfer's slot: its state changes under this lock only.
    pub async fn slot(&self, id: TransferId) -> OwnedMutexGuard<Slot> {
        let lock = Arc::clone(self.slots().entry(id).or_default());
        lock.lock_owned().await
    }

    /// The transfers being received. One that is just changing state is left out.
    pub fn live(&self) -> Vec<Arc<Live>> {
        let locks: Vec<Lock> = self.slots().values().cloned().collect();
        locks.into_iter().filter_map(|lock| lock.try_lock().ok()?.live.clone()).collect()
    }

    /// Drops from memory what nobody has used for a while.
    pub async fn drop_idle(&self) {
        self.drop_idle_for(IDLE).await;
    }

    /// The same of what is hardly used, where others wait for its place. Without such, of what nobody reads at the moment that which has
    /// waited for the longest time: it is easily read again, so one who goes through all of a depot's transfers keeps nobody out.
    pub async fn make_room(&self) {
        if !self.drop_idle_for(IDLE_WHEN_FULL).await {
            self.drop_oldest_read();
        }
    }

    fn drop_oldest_read(&self) {
        let locks: Vec<Lock> = self.slots().values().cloned().collect();
        let now = Instant::now();
        let unread = locks.into_iter().filter_map(|lock| {
            let slot = lock.try_lock_owned().ok()?;
            let idle = slot.published.as_ref().filter(|read| read.is_unshared())?.idle_for(now);
            Some((idle, slot))
        });
        if let Some((_, mut oldest)) = unread.max_by_key(|(idle, _)| *idle) {
            oldest.clear_published();
        }
    }

    /// Returns whether there was anything.
    async fn drop_idle_for(&self, time: Duration) -> bool {
        let mut dropped = false;
        let locks: Vec<(TransferId, Lock)> =
            self.slots().iter().map(|(id, lock)| (*id, lock.clone())).collect();
        for (id, lock) in locks {
            // A slot that is locked is in use.
            let Ok(mut slot) = Arc::clone(&lock).try_lock_owned() else { continue };
            let now = Instant::now();
            let is_idle = |live: &Arc<Live>| Arc::strong_count(live) == 1 && live.idle_for(now) >= time;
            if slot.live.as_ref().is_some_and(is_idle) {
                slot.clear_live().await;
                dropped = true;
            }
            if slot.published.as_ref().is_some_and(|read| read.is_unshared() && read.idle_for(now) >= time) {
                slot.clear_published();
                dropped = true;
            }
            if slot.live.is_none() && slot.published.is_none() {
                self.forget(id, &slot);
            }
        }
        dropped
    }

    /// Takes an empty slot out of the map, unless somebody waits for it. The guard is held meanwhile: whoever locked the slot in between
    /// could load the transfer into what is no longer in the map, and the next one would load it a second time.
    fn forget(&self, id: TransferId, slot: &OwnedMutexGuard<Slot>) {
        let mut slots = self.slots();
        let lock = OwnedMutexGuard::mutex(slot);
        // The map's own, the guard's, and that of the list that the caller goes through.
        if slots.get(&id).is_some_and(|known| Arc::ptr_eq(known, lock) && Arc::strong_count(known) == 3) {
            slots.remove(&id);
        }
    }

    /// Closes all that is in memory.
    pub async fn close_all(&self) {
        let locks: Vec<Lock> = self.slots().values().cloned().collect();
        for lock in locks {
            lock.lock().await.clear().await;
        }
    }
}

impl Slot {
    /// Ends what is here: everything received becomes durable, and whoever still uses it gets errors. Only then may
    /// the transfer be loaded again, or two receivers would write it.
    pub async fn clear(&mut self) {
        self.clear_published();
        self.clear_live().await;
    }

    /// The same of what is being received.
    pub async fn clear_live(&mut self) {
        if let Some(live) = self.live.take() {
            live.close().await;
        }
    }

    /// The same of what is being read.
    pub fn clear_published(&mut self) {
        self.cut_published();
    }

    /// The same, and returns what is read, for readers to go on if it was cut for nothing.
    pub fn cut_published(&mut self) -> Option<Published> {
        self.published.take().inspect(Published::close)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_idle_slot_is_forgotten_unless_somebody_waits_for_it() {
        let registry = Registry::default();
        let id = TransferId([1; 16]);
        drop(registry.slot(id).await);
        let waiting = registry.slots().get(&id).cloned();
        registry.drop_idle_for(Duration::ZERO).await;
        assert_eq!(registry.slots().len(), 1, "or the next to come would lock another one beside it");
        drop(waiting);
        registry.drop_idle_for(Duration::ZERO).await;
        assert!(registry.slots().is_empty());
    }
}
