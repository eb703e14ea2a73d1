//! What is seen of a copy while it runs.

use std::sync::{Arc, Mutex, PoisonError};

use terahaul_core::EntryPath;
use terahaul_net::client::Progress;

use crate::near::Way;
use crate::notes::Item;

/// Hears what a copy has to say while it runs.
pub trait Report: Send + Sync {
    /// The bytes begin to go this way.
    fn started(&self, way: Way);
    /// Nothing has come from there for long.
    fn unanswered(&self, host: &str);
    /// The other host is given the program.
    fn installing(&self, host: &str);
    /// What was named there is a link, and is copied as one: its name.
    fn named_link(&self, name: &EntryPath);
    /// This is changed, or in a dry run would be. Told where [`Rules::itemise`](crate::Rules::itemise) asks for it.
    fn item(&self, item: Item<'_>);
}

/// A look at a copy while it runs.
#[derive(Clone, Default)]
pub struct Looks(Arc<Mutex<Option<Look>>>);

/// How far a copy is, and whether its totals may still grow.
pub(crate) type Look = Box<dyn Fn() -> (Progress, bool) + Send>;

impl Looks {
    pub(crate) fn set(&self, look: Look) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(look);
    }

    /// How far it is, and whether the totals may still grow. `None` as long as the other host has not answered: until then ssh may have
    /// something to ask, at the terminal.
    pub fn progress(&self) -> Option<(Progress, bool)> {
        let look = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        look.as_ref().map(|look| look())
    }
}
