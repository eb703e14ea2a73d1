//! Places for what holds memory as long as it runs: there are so many, and no token may have the last quarter of them, its
//! transfers' links included. A link's holder who takes nothing of what is sent keeps nobody else waiting.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::DepotError;
use crate::auth::TokenId;

/// So many places.
pub(crate) struct Places {
    free: Arc<Semaphore>,
    most: usize,
    held: Arc<Held>,
}

/// How many each caller has.
#[derive(Default)]
struct Held(Mutex<HashMap<TokenId, usize>>);

/// A place, until it is dropped.
pub(crate) struct Place {
    _permit: OwnedSemaphorePermit,
    held: Arc<Held>,
    caller: TokenId,
}

impl Places {
    pub(crate) fn new(count: usize) -> Self {
        Self { free: Arc::new(Semaphore::new(count)), most: count - count / 4, held: Arc::default() }
    }

    /// A place for `caller`, or [`DepotError::Busy`].
    pub(crate) fn take(&self, caller: &TokenId) -> Result<Place, DepotError> {
        let caller = caller.clone();
        let mut held = self.held.lock();
        let has = held.get(&caller).copied().unwrap_or_default();
        if has >= self.most {
            return Err(DepotError::Busy);
        }
        let permit = Arc::clone(&self.free).try_acquire_owned().map_err(|_| DepotError::Busy)?;
        held.insert(caller.clone(), has + 1);
        drop(held);
        Ok(Place { _permit: permit, held: Arc::clone(&self.held), caller })
    }
}

impl Held {
    fn lock(&self) -> MutexGuard<'_, HashMap<TokenId, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut held = self.held.lock();
        match held.get_mut(&self.caller) {
            Some(has) if *has > 1 => *has -= 1,
            _ => drop(held.remove(&self.caller)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_has_all_of_the_places_and_each_gives_his_back() {
        let places = Places::new(8);
        let [greedy, other] = ["a", "b"].map(|token| TokenId(token.into()));
        let taken: Vec<_> = std::iter::from_fn(|| places.take(&greedy).ok()).collect();
        assert_eq!(taken.len(), 6);
        let others: Vec<_> = std::iter::from_fn(|| places.take(&other).ok()).collect();
        assert_eq!(others.len(), 2);
        drop(taken);
        assert!(places.take(&greedy).is_ok() && places.held.lock().len() == 1, "who has none is forgotten");
        let only = Places::new(1);
        assert!(only.take(&other).is_ok());
    }
}
