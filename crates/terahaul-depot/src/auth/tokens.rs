//! Making, checking, listing, extending and revoking tokens.

use subtle::ConstantTimeEq;
use terahaul_core::ByteCount;

use super::{Caller, Identity, Scope, Scopes, TokenId};
use crate::DepotError;
use crate::config::DAY;
use crate::db::TokenRow;
use crate::depot::Depot;
use crate::keys::{LINK_PREFIX, TOKEN_PREFIX, random, random_secret};

/// `last_used` is for people who tidy up tokens, so it need not cost a write a request.
const TOUCH_SECONDS: i64 = 60;

/// What a new token is to be.
#[derive(Clone, Debug)]
pub struct NewToken {
    /// What its owner calls it, 1 to 100 characters.
    pub label: String,
    /// What it may do; at least one.
    pub scopes: Vec<Scope>,
    /// Most bytes that its transfers may declare together.
    pub quota: Option<ByteCount>,
    /// Days until it ends.
    pub expires_in_days: Option<u32>,
}

/// A token as lists show it.
#[derive(Clone, Debug, serde::Serialize)]
pub struct TokenInfo {
    /// Its identifier.
    pub id: TokenId,
    /// What its owner calls it.
    pub label: String,
    /// What it may do.
    pub scopes: Vec<Scope>,
    /// When it was made.
    pub created: i64,
    /// When it was last used, to the minute.
    pub last_used: Option<i64>,
    /// Most bytes that its transfers may declare together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quota_bytes: Option<u64>,
    /// When it ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires: Option<i64>,
}

/// A token that was just made: the only time its text is known.
#[derive(Clone, Debug, serde::Serialize)]
pub struct CreatedToken {
    /// As lists show it.
    #[serde(flatten)]
    pub info: TokenInfo,
    /// The secret text.
    pub token: String,
}

impl Depot {
    /// Who shows this token or link secret. A link secret is checked later, against the transfer it is used for.
    pub async fn caller(&self, text: &str) -> Result<Caller, DepotError> {
        if text.starts_with(LINK_PREFIX) {
            return Ok(Caller::Link(text.to_owned()));
        }
        self.authenticate(text).await.map(Caller::Token)
    }

    /// Who shows this token.
    pub async fn authenticate(&self, token: &str) -> Result<Identity, DepotError> {
        if !token.starts_with(TOKEN_PREFIX) {
            return Err(DepotError::UnknownToken);
        }
        let hash = hash_of(token);
        let rows = self.inner.db.tokens_by_prefix(&hash[..8]).await?;
        let row =
            rows.into_iter().find(|row| bool::from(row.hash.ct_eq(&hash))).ok_or(DepotError::UnknownToken)?;
        self.identity_of(row).await
    }

    /// Whether a caller still holds: long sessions and requests end when their token does.
    pub(crate) async fn recheck(&self, caller: &Caller) -> Result<(), DepotError> {
        match caller {
            Caller::Token(identity) => self.still_valid(identity).await,
            Caller::Link(_) => Ok(()),
        }
    }

    /// Whether an identity still holds: its token was neither revoked nor has it expired.
    pub async fn still_valid(&self, identity: &Identity) -> Result<(), DepotError> {
        let row = self.inner.db.token(&identity.token.0).await?.ok_or(DepotError::UnknownToken)?;
        self.identity_of(row).await.map(|_| ())
    }

    pub(super) async fn identity_of(&self, mut row: TokenRow) -> Result<Identity, DepotError> {
        let now = self.inner.config.clock.now();
        if row.revoked.is_some() {
            return Err(DepotError::TokenRevoked);
        }
        if row.generation.is_some() && self.text_of_owners(&row).is_none() {
            return Err(DepotError::OtherKeys);
        }
        let has_expired = |row: &TokenRow| row.expires.is_some_and(|expires| expires <= now);
        if has_expired(&row) {
            // By a clock that was put forward since that was last looked at?
            self.follow_clock().await?;
            row = self.inner.db.token(&row.id).await?.ok_or(DepotError::UnknownToken)?;
        }
        if has_expired(&row) {
            return Err(DepotError::TokenExpired);
        }
        if row.last_used.is_none_or(|used| now - used >= TOUCH_SECONDS) {
            // A note for people, which nobody is refused for: on a full disk, whoever may remove something has to get in.
            if let Err(error) = self.inner.db.touch_token(&row.id, now).await {
                tracing::warn!(token = %row.id, %error, "when the token was last used could not be noted");
            }
        }
        Ok(Identity {
            quota: row.quota().map(ByteCount),
            token: TokenId(row.id),
            label: row.label,
            scopes: Scopes::from_bits(row.scopes),
        })
    }

    /// The owner's own token: made at the first start, the same from then on until it is revoked. One that was made with other keys is
    /// nobody's, and is the owner's again where those are put back.
    pub async fn owner_token(&self) -> Result<String, DepotError> {
        if let Some(valid) = self.valid_owner_token().await? {
            return Ok(valid);
        }
        let known = self.inner.db.owner_tokens().await?;
        // Not the next number: keys may be older than the database, or that be put back to one in which what was revoked since is not
        // known, and a number that comes again is a token that does.
        let step = i64::from(u32::from_le_bytes(random()?)) + 1;
        let generation = known.first().and_then(|row| row.generation).unwrap_or(0) + step;
        let text = self.inner.keys.owner_token(generation);
        let scopes: Scopes = [Scope::Own].into_iter().collect();
        let mut row = self.new_row(&text, "owner".into(), scopes)?;
        row.generation = Some(generation);
        self.inner.db.insert_token(&row).await?;
        Ok(text)
    }

    /// The same, unless it was revoked.
    pub(super) async fn valid_owner_token(&self) -> Result<Option<String>, DepotError> {
        let known = self.inner.db.owner_tokens().await?;
        let newest = known.iter().find_map(|row| Some((row, self.text_of_owners(row)?)));
        Ok(newest.filter(|(row, _)| row.revoked.is_none()).map(|(_, text)| text))
    }

    /// The text of an owner's token that was made with the depot's present keys.
    fn text_of_owners(&self, row: &TokenRow) -> Option<String> {
        let text = self.inner.keys.owner_token(row.generation?);
        bool::from(row.hash.ct_eq(&hash_of(&text))).then_some(text)
    }

    fn new_row(&self, text: &str, label: String, scopes: Scopes) -> Result<TokenRow, DepotError> {
        let mut id = data_encoding::BASE32_NOPAD.encode(&random::<10>()?);
        id.make_ascii_lowercase();
        Ok(TokenRow::new(id, hash_of(text), label, scopes.bits(), self.inner.config.clock.now()))
    }

    /// Makes a token.
    pub async fn create_token(&self, new: NewToken) -> Result<CreatedToken, DepotError> {
        let invalid = |text: &str| Err(DepotError::Invalid(text.to_owned()));
        if new.label.is_empty() || new.label.chars().count() > 100 || new.label.chars().any(char::is_control)
        {
            return invalid("a token's label has 1 to 100 characters, none of them a control character");
        }
        if new.scopes.is_empty() {
            return invalid("a token needs at least one scope: send, receive or own");
        }
        let lasts = new.expires_in_days.map(seconds_of_token).transpose()?;
        let token = random_secret(TOKEN_PREFIX)?;
        let mut row = self.new_row(&token, new.label, new.scopes.into_iter().collect())?;
        row.set_quota(new.quota.map(|quota| quota.0));
        row.expires = lasts.map(|seconds| row.created + seconds);
        self.inner.db.insert_token(&row).await?;
        Ok(CreatedToken { info: info_of(row), token })
    }

    /// All tokens that were not revoked.
    pub async fn tokens(&self) -> Result<Vec<TokenInfo>, DepotError> {
        Ok(self.inner.db.tokens().await?.into_iter().map(info_of).collect())
    }

    /// Has a token end so many days from now, also one that has expired: what it has sent in part can be sent on with it, and with no
    /// other. One that was revoked stays so, and the owner's own, which has no end, keeps none.
    pub async fn extend_token(&self, id: &str, days: u32) -> Result<TokenInfo, DepotError> {
        let seconds = seconds_of_token(days)?;
        let row = self.inner.db.token(id).await?.filter(|row| row.revoked.is_none());
        let row = row.ok_or(DepotError::NotFound("token"))?;
        if row.generation.is_some() {
            return Ok(info_of(row));
        }
        let now = self.inner.config.clock.now();
        if !self.inner.db.extend_token(id, now, now + seconds).await? {
            return Err(DepotError::NotFound("token"));
        }
        self.inner.db.token(id).await?.map(info_of).ok_or(DepotError::NotFound("token"))
    }

    /// Revokes a token, at once: its sessions end, its transfers stay.
    pub async fn revoke_token(&self, id: &str) -> Result<(), DepotError> {
        let done = self.inner.db.revoke_token(id, self.inner.config.clock.now()).await?;
        if self.valid_owner_token().await?.is_none() {
            // They stood for the owner's.
            self.inner.codes.clear();
        }
        if done { Ok(()) } else { Err(DepotError::NotFound("token")) }
    }
}

fn seconds_of_token(days: u32) -> Result<i64, DepotError> {
    if days == 0 || days > 36_500 {
        return Err(DepotError::Invalid("a token expires after 1 to 36500 days".to_owned()));
    }
    Ok(i64::from(days) * DAY)
}

fn info_of(row: TokenRow) -> TokenInfo {
    TokenInfo {
        quota_bytes: row.quota(),
        id: TokenId(row.id),
        label: row.label,
        scopes: Scopes::from_bits(row.scopes).list(),
        created: row.created,
        last_used: row.last_used,
        expires: row.expires,
    }
}

/// What is kept of a secret: it has 256 random bits, so a fast hash is enough.
pub(super) fn hash_of(secret: &str) -> [u8; 32] {
    *blake3::hash(secret.as_bytes()).as_bytes()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicI64, Ordering};

    use crate::fixture::Fixture;
    use crate::{Clock, DepotConfig};

    #[tokio::test(flavor = "multi_thread")]
    async fn nobody_who_signs_in_waits_for_what_others_write() {
        let now = Arc::new(AtomicI64::new(1_000_000_000));
        let clock = Clock::set_by(Arc::clone(&now));
        let Fixture { depot, owner, .. } = &Fixture::with(|config| DepotConfig { clock, ..config }).await;
        let token = depot.owner_token().await.unwrap();
        now.fetch_add(3600, Ordering::Relaxed);
        let _held = depot.inner.db.hold().await.unwrap();
        let patience = std::time::Duration::from_secs(20);
        tokio::time::timeout(patience, depot.authenticate(&token))
            .await
            .expect("it is not waited for")
            .unwrap();
        tokio::time::timeout(patience, depot.still_valid(owner)).await.expect("nor here").unwrap();
    }
}
