//! Browser sessions.

use subtle::ConstantTimeEq;

use super::Identity;
use super::tokens::hash_of;
use crate::DepotError;
use crate::config::DAY;
use crate::depot::Depot;
use crate::keys::random_secret;

/// Days a session lasts.
const SESSION_DAYS: i64 = 30;

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
        if !self.inner.codes.redeem(code) {
            return Err(DepotError::CodeInvalid);
        }
        // Its token may have been revoked since.
        let owner = self.valid_owner_token().await?.ok_or(DepotError::CodeInvalid)?;
        self.sign_in_with_token(&owner).await
    }

    /// Opens a session with a token.
    pub(crate) async fn sign_in_with_token(&self, token: &str) -> Result<OpenedSession, DepotError> {
        let identity = self.authenticate(token).await?;
        let secret = random_secret("ths_")?;
        let seconds = SESSION_DAYS * DAY;
        let expires = self.inner.config.clock.now() + seconds;
        self.inner.db.insert_session(&hash_of(&secret), &identity.token.0, expires).await?;
        Ok(OpenedSession { secret, seconds, identity })
    }

    /// Whoever opened the session whose cookie this is.
    pub(crate) async fn session_identity(&self, secret: &str) -> Result<Identity, DepotError> {
        let hash = hash_of(secret);
        let rows = self.inner.db.sessions_by_prefix(&hash[..8]).await?;
        let row =
            rows.into_iter().find(|row| bool::from(row.hash.ct_eq(&hash))).ok_or(DepotError::SessionEnded)?;
        if row.expires <= self.inner.config.clock.now() {
            return Err(DepotError::SessionEnded);
        }
        let token = self.inner.db.token(&row.token).await?.ok_or(DepotError::SessionEnded)?;
        self.identity_of(token).await
    }

    /// Ends the session.
    pub(crate) async fn sign_out(&self, secret: &str) -> Result<(), DepotError> {
        Ok(self.inner.db.delete_session(&hash_of(secret)).await?)
    }

    /// A new code that signs the depot's owner in once, on the page.
    pub fn sign_in_code(&self) -> Result<String, DepotError> {
        self.inner.codes.issue()
    }
}
