//! Who is asking, and what they may do.
//!
//! A token is a user: what it sends is its own. Scopes say what else it may do. A link secret is not a user; it
//! reads one transfer. A browser session stands for a token.

mod codes;
mod scopes;
mod sessions;
mod throttle;
mod tokens;

pub(crate) use codes::SignInCodes;
pub use scopes::{Scope, Scopes};
pub(crate) use sessions::UnwrittenSessions;
pub(crate) use throttle::Throttle;
pub use tokens::{CreatedToken, NewToken, TokenInfo};

use data_encoding::HEXLOWER;
use terahaul_core::{ByteCount, PublicKey, TransferId};

use crate::DepotError;
use crate::db::TransferRow;
use crate::keys::Keys;

/// A token's own identifier, which is not secret.
#[derive(Clone, Debug, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(transparent)]
pub struct TokenId(pub(crate) String);

impl std::fmt::Display for TokenId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// Whoever showed a valid token, or a session that stands for one.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The token.
    pub token: TokenId,
    /// What its owner calls it.
    pub label: String,
    /// What it may do.
    pub scopes: Scopes,
    /// Most bytes that its transfers may declare together.
    pub quota: Option<ByteCount>,
}

impl Identity {
    /// Refuses unless the token has `scope` (or owns the depot).
    pub fn require(&self, scope: Scope) -> Result<(), DepotError> {
        if self.scopes.has(scope) { Ok(()) } else { Err(DepotError::Scope(scope.text())) }
    }

    /// Whether this is the depot's owner.
    pub fn is_owner(&self) -> bool {
        self.scopes.has(Scope::Own)
    }

    fn made(&self, transfer: &TransferRow) -> bool {
        transfer.owner == self.token.0
    }
}

/// What a request or session was opened with.
#[derive(Clone, Debug)]
pub enum Caller {
    /// A token that was checked.
    Token(Identity),
    /// A link's secret, checked against the transfer it is used for.
    Link(String),
}

/// Whose a request is, where it takes one of a number of places.
#[derive(Clone, Debug)]
pub(crate) struct Counted {
    /// The caller's token, or that of the owner of the link's transfer, who could make any number of links.
    pub token: TokenId,
    /// The link's secret, if it is that.
    pub link: Option<String>,
}

impl Counted {
    pub fn token(identity: &Identity) -> Self {
        Self { token: identity.token.clone(), link: None }
    }
}

impl Caller {
    /// Whether the caller may read this transfer. A transfer that may not be read does not exist for the caller.
    pub(crate) fn may_read(&self, keys: &Keys, transfer: &TransferRow) -> bool {
        match self {
            Self::Token(identity) => identity.scopes.has(Scope::Receive) || identity.made(transfer),
            Self::Link(secret) => keys.is_link_secret(transfer.transfer_id(), secret),
        }
    }

    /// Whether the caller may change this transfer; an error says what is missing.
    pub(crate) fn may_write(&self, keys: &Keys, transfer: &TransferRow) -> Result<(), DepotError> {
        if !self.may_read(keys, transfer) {
            return Err(DepotError::NoTransfer);
        }
        match self {
            Self::Token(identity) if identity.is_owner() => Ok(()),
            Self::Token(identity) if identity.made(transfer) => identity.require(Scope::Send),
            Self::Token(_) => Err(DepotError::Scope("own")),
            Self::Link(_) => Err(DepotError::LinkReads),
        }
    }

    /// The token's holder; links are refused.
    pub fn identity(&self) -> Result<&Identity, DepotError> {
        match self {
            Self::Token(identity) => Ok(identity),
            Self::Link(_) => Err(DepotError::LinkIsNoToken),
        }
    }

    /// Whether the caller is the depot's owner.
    pub(crate) fn is_owner(&self) -> bool {
        matches!(self, Self::Token(identity) if identity.is_owner())
    }

    /// Whether the caller's token made this transfer.
    pub(crate) fn made(&self, transfer: &TransferRow) -> bool {
        matches!(self, Self::Token(identity) if identity.made(transfer))
    }

    /// Whether the link to this transfer may be shown to the caller.
    pub(crate) fn may_share(&self, transfer: &TransferRow) -> bool {
        self.is_owner() || self.made(transfer)
    }
}

/// The name of the cookie that holds a browser session. Browsers tell hosts apart and not ports, so each depot has its own.
pub(crate) fn session_cookie(depot: &PublicKey) -> String {
    format!("terahaul_session_{}", HEXLOWER.encode(&depot.0[..8]))
}

/// The name of the cookie that holds a link's secret for one transfer.
pub(crate) fn link_cookie(transfer: TransferId) -> String {
    format!("terahaul_link_{transfer}")
}
