//! How long a transfer is kept: for so many days from when it was last sent into, and from its finish on.

use terahaul_core::TransferId;

use super::registry::Slot;
use crate::DepotError;
use crate::config::DAY;
use crate::db::{Term, TransferRow, TransferState};
use crate::depot::Depot;

/// What is being sent is extended by no less than this: days need not cost a write every half minute.
const STEP: i64 = 3600;

impl Depot {
    /// `days` from now, or the depot's own number of them.
    pub(super) fn term(&self, days: Option<u32>) -> Result<Term, DepotError> {
        let limit = self.inner.config.limits.expiry_days;
        let days = days.unwrap_or(self.inner.config.expiry_days);
        if days == 0 || days > limit {
            return Err(DepotError::Invalid(format!(
                "a transfer is kept for 1 to {limit} days: choose a number of these"
            )));
        }
        let days = i64::from(days);
        Ok(Term { days, expires: self.inner.config.clock.now() + days * DAY })
    }

    /// The transfer's days from now, or `asked` if that is more. It never ends earlier for it.
    pub(super) fn term_anew(&self, row: &TransferRow, asked: Option<u32>) -> Term {
        let days = asked.map_or(row.kept_days, |asked| row.kept_days.max(i64::from(asked)));
        Term { days, expires: row.expires.max(self.inner.config.clock.now() + days * DAY) }
    }

    /// Extends what is being sent.
    pub(super) async fn keep_what_is_sent(&self) {
        let live = self.inner.registry.live().into_iter().filter(|live| live.is_being_sent());
        let sent: Vec<TransferId> = live.map(|live| live.id()).collect();
        for id in sent {
            let slot = self.inner.registry.slot(id).await;
            if let Err(error) = self.keep_if_sent(id, &slot).await {
                tracing::warn!(transfer = %id, %error, "a transfer that is being sent could not be extended; it is tried again");
            }
        }
    }

    /// Extends the transfer in its locked slot if it is being sent, and returns whether it is.
    pub(super) async fn keep_if_sent(&self, id: TransferId, slot: &Slot) -> Result<bool, DepotError> {
        let Some(live) = &slot.live else { return Ok(false) };
        if !live.is_being_sent() {
            return Ok(false);
        }
        if let Some(row) = self.inner.db.transfer(id).await?
            && row.state == TransferState::Open
        {
            let term = self.term_anew(&row, None);
            if row.expires + STEP <= term.expires {
                self.inner.db.keep_transfer(id, term).await?;
            }
        }
        Ok(true)
    }
}
