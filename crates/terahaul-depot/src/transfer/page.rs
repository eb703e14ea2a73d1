//! Lists of transfers, a page at a time.

use std::fmt;

use terahaul_core::TransferId;

use super::TransferInfo;
use crate::DepotError;
use crate::auth::{Caller, Identity, Scope};
use crate::depot::Depot;

/// The transfer before a page, newest first. `CREATED-ID` holds when that one is removed, too; an id alone does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(try_from = "String")]
pub struct Before {
    created: Option<i64>,
    id: TransferId,
}

impl TryFrom<String> for Before {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        let (created, id) = match text.split_once('-') {
            None => (None, text.as_str()),
            Some((created, id)) => (Some(created), id),
        };
        let created = created.map(str::parse).transpose();
        match (created, id.parse()) {
            (Ok(created), Ok(id)) => Ok(Self { created, id }),
            _ => Err("before is the next of the page before, or the id of its last transfer".to_owned()),
        }
    }
}

impl fmt::Display for Before {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.created {
            Some(created) => write!(f, "{created}-{}", self.id),
            None => self.id.fmt(f),
        }
    }
}

/// Some of a list.
#[derive(Clone, Debug)]
pub struct Page {
    /// Newest first.
    pub transfers: Vec<TransferInfo>,
    /// Where the next page begins; `None` at the end.
    pub next: Option<Before>,
}

impl Depot {
    /// The caller's transfers, newest first; all of the depot's for `receive` and `own`.
    pub async fn transfers(
        &self,
        identity: &Identity,
        before: Option<Before>,
        limit: u32,
    ) -> Result<Page, DepotError> {
        let all = identity.scopes.has(Scope::Receive);
        let owner = (!all).then_some(identity.token.0.as_str());
        let caller = Caller::Token(identity.clone());
        let before = match before {
            None => None,
            Some(Before { created: Some(created), id }) => Some((created, id)),
            Some(Before { created: None, id }) => match self.inner.db.transfer(id).await? {
                Some(row) if caller.may_read(&self.inner.keys, &row) => Some((row.created, id)),
                _ => {
                    return Err(DepotError::NotFound("transfer to list from any more: list from the start"));
                }
            },
        };
        let now = self.inner.config.clock.now();
        let rows = self.inner.db.transfers(owner, before, limit, now).await?;
        let last = rows.last().filter(|_| rows.len() >= limit as usize);
        let next = last.map(|row| Before { created: Some(row.created), id: row.transfer_id() });
        Ok(Page { transfers: rows.iter().map(|row| self.info(&caller, row)).collect(), next })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_page_says_is_next_reads_back() {
        let id = TransferId([7; 16]);
        for created in [None, Some(0), Some(1_800_000_000)] {
            let before = Before { created, id };
            assert_eq!(Before::try_from(before.to_string()), Ok(before));
        }
        for wrong in ["", "-", "x", "1-x", &format!("x-{id}"), &format!("{id}-1")] {
            assert!(Before::try_from(wrong.to_owned()).is_err(), "{wrong}");
        }
    }
}
