//! Places for what holds memory as long as it runs: there are so many, and no token may have the last quarter of them, its transfers' links
//! included. Those together leave it some, and one of them leaves some to the others: a link's holder who takes nothing of what is sent
//! keeps nobody else waiting.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::DepotError;
use crate::auth::{Counted, TokenId};

/// So many places.
pub(crate) struct Places {
    free: Arc<Semaphore>,
    /// For a token and its links, for these alone, and for one of them.
    most: [usize; 3],
    held: Arc<Held>,
}

/// Who has places.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Holder {
    /// A token and the links of its transfers.
    Token(TokenId),
    /// These links.
    Links(TokenId),
    /// One of them.
    Link(String),
}

/// How many each has.
#[derive(Default)]
struct Held(Mutex<HashMap<Holder, usize>>);

/// A place, until it is dropped.
pub(crate) struct Place {
    _permit: OwnedSemaphorePermit,
    held: Arc<Held>,
    holders: Vec<Holder>,
}

impl Places {
    pub(crate) fn new(count: usize) -> Self {
        let most = count - count / 4;
        let most = [most, most - most / 4, (count / 2).max(1)];
        Self { free: Arc::new(Semaphore::new(count)), most, held: Arc::default() }
    }

    /// A place for whoever is counted so, or [`DepotError::Busy`].
    pub(crate) fn take(&self, Counted { token, link }: &Counted) -> Result<Place, DepotError> {
        let mut holders = vec![Holder::Token(token.clone())];
        if let Some(link) = link {
            holders.extend([Holder::Links(token.clone()), Holder::Link(link.clone())]);
        }
        let mut held = self.held.lock();
        let has = |holder: &Holder| held.get(holder).copied().unwrap_or_default();
        if holders.iter().zip(self.most).any(|(holder, most)| has(holder) >= most) {
            return Err(DepotError::Busy);
        }
        let permit = Arc::clone(&self.free).try_acquire_owned().map_err(|_| DepotError::Busy)?;
        holders.iter().for_each(|holder| *held.entry(holder.clone()).or_default() += 1);
        drop(held);
        Ok(Place { _permit: permit, held: Arc::clone(&self.held), holders })
    }
}

impl Held {
    fn lock(&self) -> MutexGuard<'_, HashMap<Holder, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut held = self.held.lock();
        for holder in &self.holders {
            match held.get_mut(holder) {
                Some(has) if *has > 1 => *has -= 1,
                _ => drop(held.remove(holder)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(token: &str, link: Option<&str>) -> Counted {
        Counted { token: TokenId(token.into()), link: link.map(str::to_owned) }
    }

    fn taken(places: &Places, by: &Counted) -> Vec<Place> {
        std::iter::from_fn(|| places.take(by).ok()).collect()
    }

    #[test]
    fn nobody_has_all_of_the_places_and_each_gives_his_back() {
        let places = Places::new(8);
        let [greedy, other] = ["a", "b"].map(|token| counted(token, None));
        let held = taken(&places, &greedy);
        assert_eq!(held.len(), 6);
        assert_eq!(taken(&places, &other).len(), 2);
        drop(held);
        assert!(places.take(&greedy).is_ok() && places.held.lock().is_empty(), "who has none is forgotten");
        assert!(Places::new(1).take(&counted("a", Some("link"))).is_ok());
    }

    /// Whoever makes two transfers had all of them by their links, and one link's holder keeps neither other links nor the owner waiting.
    #[test]
    fn links_are_their_owners_and_leave_it_some() {
        let places = Places::new(128);
        let [one, another] = ["1", "2"].map(|link| counted("a", Some(link)));
        let first = taken(&places, &one);
        let second = taken(&places, &another);
        let own = taken(&places, &counted("a", None));
        assert_eq!((first.len(), second.len(), own.len()), (64, 8, 24));
        assert_eq!(taken(&places, &counted("b", None)).len(), 32);
    }
}
