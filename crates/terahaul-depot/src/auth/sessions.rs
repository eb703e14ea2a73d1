//! Browser sessions.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use subtle::ConstantTimeEq;

use super::Identity;
use super::tokens::hash_of;
use crate::DepotError;
use crate::config::DAY;
use crate::db::{self, SessionRow};
use crate::depot::Depot;
use crate::keys::random_secret;

/// Days a session lasts.
const SESSION_DAYS: i64 = 30;

/// Sessions that a full disk did not take: whoever is to make room on it has to get in. They end with the depot.
#[derive(Default)]
pub(crate) struct UnwrittenSessions(Mutex<VecDeque<SessionRow>>);

impl UnwrittenSessions {
    /// Most of them; the oldest ends first, of a token that has some already.
    const KEPT: usize = 64;

    fn rows(&self) -> MutexGuard<'_, VecDeque<SessionRow>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keep(&self, row: SessionRow) {
        let mut rows = self.rows();
        if rows.len() == Self::KEPT {
            let oldest = rows.iter().position(|kept| kept.token == row.token);
            rows.remove(oldest.unwrap_or(0));
        }
        rows.push_back(row);
    }

    fn by_hash(&self, hash: &[u8; 32]) -> Option<SessionRow> {
        self.rows().iter().find(|row| bool::from(row.hash.ct_eq(hash))).cloned()
    }
}

/// A session that was just opened.
pub(crate) struct OpenedSession {
    /// The cookie's value.
    pub secret: String,
    /// Seconds until it ends.
    pub seconds: i64,
    pub identity: Identity,
}

impl Depot {
    /// Opens a session with the owner's one-time code.
    pub(crate) async fn sign_in_with_code(&self, code: &str) -> Result<OpenedSession, DepotError> {
        let code = self.inner.codes.redeem(code).ok_or(DepotError::CodeInvalid)?;
        let opened = self.sign_in_as_owner().await;
        if matches!(opened, Ok(_) | Err(DepotError::CodeInvalid)) {
            code.use_up();
        }
        opened
    }

    async fn sign_in_as_owner(&self) -> Result<OpenedSession, DepotError> {
        // The code's token may have been revoked since.
        let owner = self.valid_owner_token().await?.ok_or(DepotError::CodeInvalid)?;
        self.sign_in_with_token(&owner).await
    }

    /// Opens a session with a token.
    pub(crate) async fn sign_in_with_token(&self, token: &str) -> Result<OpenedSession, DepotError> {
        let identity = self.authenticate(token).await?;
        let secret = random_secret("ths_")?;
        let seconds = SESSION_DAYS * DAY;
        let expires = self.inner.config.clock.now() + seconds;
        let row = SessionRow { hash: hash_of(&secret).to_vec(), token: identity.token.0.clone(), expires };
        match self.inner.db.insert_session(&row, self.inner.config.limits.sessions).await {
            Err(error) if db::lacks_room(&error) => self.inner.unwritten_sessions.keep(row),
            inserted => inserted?,
        }
        Ok(OpenedSession { secret, seconds, identity })
    }

    /// Whoever opened the session whose cookie this is.
    pub(crate) async fn session_identity(&self, secret: &str) -> Result<Identity, DepotError> {
        let hash = hash_of(secret);
        let rows = self.inner.db.sessions_by_prefix(&hash[..8]).await?;
        let row = rows.into_iter().find(|row| bool::from(row.hash.ct_eq(&hash)));
        let row = row.or_else(|| self.inner.unwritten_sessions.by_hash(&hash));
        let row = row.ok_or(DepotError::SessionEnded)?;
        if row.expires <= self.inner.config.clock.now() {
            return Err(DepotError::SessionEnded);
        }
        let token = self.inner.db.token(&row.token).await?.ok_or(DepotError::SessionEnded)?;
        self.identity_of(token).await
    }

    /// Ends the session.
    pub(crate) async fn sign_out(&self, secret: &str) -> Result<(), DepotError> {
        let hash = hash_of(secret);
        self.inner.unwritten_sessions.rows().retain(|row| !bool::from(row.hash.ct_eq(&hash)));
        Ok(self.inner.db.delete_session(&hash).await?)
    }

    /// A new code that signs the depot's owner in once, on the page.
    pub fn sign_in_code(&self) -> Result<String, DepotError> {
        self.inner.codes.issue()
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll, Waker};

    use super::*;
    use crate::fixture::Fixture;

    /// A client that went away in between had used the code up, and had no session.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_code_whose_client_goes_away_before_it_is_signed_in_works_again() {
        let Fixture { depot, .. } = &Fixture::new().await;
        let code = depot.sign_in_code().unwrap();
        let mut gone = Box::pin(depot.sign_in_with_code(&code));
        let begun = gone.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(matches!(begun, Poll::Pending), "the database has answered at once");
        let meanwhile = depot.sign_in_with_code(&code).await;
        assert!(matches!(meanwhile, Err(DepotError::CodeInvalid)), "it is in use");
        drop(gone);
        depot.sign_in_with_code(&code).await.unwrap();
        assert!(matches!(depot.sign_in_with_code(&code).await, Err(DepotError::CodeInvalid)));
    }

    /// The owner's, who was to make room, ended with others' signing in.
    #[test]
    fn of_sessions_that_a_full_disk_did_not_take_a_token_displaces_its_own() {
        let sessions = UnwrittenSessions::default();
        let session =
            |token: &str, number: u8| SessionRow { hash: vec![number; 32], token: token.into(), expires: 0 };
        sessions.keep(session("owner", 0));
        (1..200).for_each(|number| sessions.keep(session("script", number)));
        assert!(sessions.by_hash(&[0; 32]).is_some());
        assert!(sessions.by_hash(&[199; 32]).is_some() && sessions.by_hash(&[1; 32]).is_none());
        assert_eq!(sessions.rows().len(), UnwrittenSessions::KEPT);
    }
}
