//! What the two ends refuse each other, and why bytes are no message.

use minicbor::{Decode, Encode};

/// What kind of error ends a session or refuses a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(index_only)]
pub enum ErrorCode {
    /// The token is wrong, expired or revoked, or its scope is too small.
    #[n(0)]
    Denied,
    /// There is no such transfer for this token or link.
    #[n(1)]
    NotFound,
    /// A quota is used up.
    #[n(2)]
    QuotaExceeded,
    /// The depot's disk cannot take what was declared.
    #[n(3)]
    DiskFull,
    /// The peer broke the protocol.
    #[n(4)]
    Violation,
    /// The manifest does not continue the one that is stored.
    #[n(5)]
    ManifestConflict,
    /// A limit of the depot was passed (entries, channels).
    #[n(6)]
    LimitExceeded,
    /// The transfer is in a state that does not allow this (expired, complete, open elsewhere).
    #[n(7)]
    WrongState,
    /// Versions do not fit.
    #[n(8)]
    Version,
    /// The depot failed; trying again later can help.
    #[n(9)]
    Internal,
    /// The depot is stopping, has as many sessions as it takes, or has closed the transfer in this moment; reconnect soon.
    #[n(10)]
    Unavailable,
    /// Content does not match what was declared or sent before.
    #[n(11)]
    Conflict,
}

/// A typed error of the other end, or one that this end reports.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode, thiserror::Error)]
#[error("{message}")]
pub struct WireError {
    /// What kind.
    #[n(0)]
    pub code: ErrorCode,
    /// One sentence with a remedy.
    #[n(1)]
    pub message: String,
    /// Whether the same request can succeed later without any change.
    #[n(2)]
    pub retry: bool,
}

impl WireError {
    /// An error that trying again does not cure.
    pub fn fatal(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), retry: false }
    }

    /// An error that may pass.
    pub fn passing(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), retry: true }
    }

    /// The other end broke the protocol; `what` completes "The other end broke the protocol: ".
    pub fn violation(what: impl std::fmt::Display) -> Self {
        Self::fatal(
            ErrorCode::Violation,
            format!("the other end broke the protocol: {what}; upgrade the older of the two programs"),
        )
    }
}

/// Why bytes are not a message. The peer is at fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// Longer than is taken from it here: [`MAX_MESSAGE`](crate::MAX_MESSAGE) at most.
    #[error("the other end announced a message of {0} bytes, which is more than is taken from it here")]
    TooLong(usize),
    /// Not CBOR, or not a message this version knows.
    #[error(
        "the other end sent something that is not a terahaul/1 message ({0}): upgrade the older of the two programs"
    )]
    Malformed(String),
}

impl From<minicbor::decode::Error> for DecodeError {
    fn from(error: minicbor::decode::Error) -> Self {
        Self::Malformed(error.to_string())
    }
}
