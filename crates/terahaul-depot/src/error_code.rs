//! The kinds of a depot's errors: their names in the API, and what they are to HTTP and to the native protocol.

use axum::http::StatusCode;
use terahaul_wire::ErrorCode;

/// What kind of error it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // openapi.json says what each means, but for those that no request is answered with
pub enum ApiCode {
    Unauthenticated,
    TokenUnknown,
    TokenExpired,
    TokenRevoked,
    SessionEnded,
    CodeInvalid,
    ScopeMissing,
    CsrfHeaderMissing,
    TooManyAttempts,
    NotFound,
    MethodNotAllowed,
    MediaType,
    NotOpen,
    NotFinished,
    Incomplete,
    SenderReplaced,
    Closed,
    EntryFailed,
    ManifestConflict,
    DuplicatePath,
    BadEntry,
    TooManyEntries,
    TooManyTransfers,
    TooLarge,
    TooLong,
    TooSlow,
    Busy,
    Stopping,
    QuotaExceeded,
    DiskFull,
    BadRequest,
    BodyCut,
    RangeNotSatisfiable,
    PreconditionFailed,
    OutsideManifest,
    BlockLength,
    BlockBusy,
    HashMismatch,
    ContentConflict,
    NotHere,
    Damaged,
    NewerData,
    Internal,
}

impl ApiCode {
    /// Its name in the API.
    pub fn name(self) -> &'static str {
        self.row().0
    }

    /// What HTTP calls it.
    pub(crate) fn status(self) -> StatusCode {
        self.row().1
    }

    /// What the native protocol calls it.
    pub(crate) fn on_the_wire(self) -> ErrorCode {
        self.row().2
    }

    fn row(self) -> (&'static str, StatusCode, ErrorCode) {
        use ErrorCode as Wire;
        use StatusCode as Http;
        match self {
            Self::Unauthenticated => ("unauthenticated", Http::UNAUTHORIZED, Wire::Denied),
            Self::TokenUnknown => ("token_unknown", Http::UNAUTHORIZED, Wire::Denied),
            Self::TokenExpired => ("token_expired", Http::UNAUTHORIZED, Wire::Denied),
            Self::TokenRevoked => ("token_revoked", Http::UNAUTHORIZED, Wire::Denied),
            Self::SessionEnded => ("session_ended", Http::UNAUTHORIZED, Wire::Denied),
            Self::CodeInvalid => ("code_invalid", Http::UNAUTHORIZED, Wire::Denied),
            Self::ScopeMissing => ("scope_missing", Http::FORBIDDEN, Wire::Denied),
            Self::CsrfHeaderMissing => ("csrf_header_missing", Http::FORBIDDEN, Wire::Denied),
            Self::TooManyAttempts => ("too_many_attempts", Http::TOO_MANY_REQUESTS, Wire::Denied),
            Self::NotFound => ("not_found", Http::NOT_FOUND, Wire::NotFound),
            Self::MethodNotAllowed => ("method_not_allowed", Http::METHOD_NOT_ALLOWED, Wire::Violation),
            Self::MediaType => ("media_type", Http::UNSUPPORTED_MEDIA_TYPE, Wire::Violation),
            Self::NotOpen => ("not_open", Http::CONFLICT, Wire::WrongState),
            Self::NotFinished => ("not_finished", Http::CONFLICT, Wire::WrongState),
            Self::Incomplete => ("incomplete", Http::CONFLICT, Wire::WrongState),
            Self::SenderReplaced => ("sender_replaced", Http::CONFLICT, Wire::WrongState),
            Self::Closed => ("closed", Http::CONFLICT, Wire::Unavailable),
            Self::EntryFailed => ("entry_failed", Http::GONE, Wire::WrongState),
            Self::ManifestConflict => ("manifest_conflict", Http::CONFLICT, Wire::ManifestConflict),
            Self::DuplicatePath => ("duplicate_path", Http::CONFLICT, Wire::ManifestConflict),
            Self::BadEntry => ("bad_entry", Http::UNPROCESSABLE_ENTITY, Wire::Violation),
            Self::TooManyEntries => ("too_many_entries", Http::UNPROCESSABLE_ENTITY, Wire::LimitExceeded),
            Self::TooManyTransfers => ("too_many_transfers", Http::INSUFFICIENT_STORAGE, Wire::LimitExceeded),
            Self::TooLarge => ("too_large", Http::UNPROCESSABLE_ENTITY, Wire::LimitExceeded),
            Self::TooLong => ("too_long", Http::PAYLOAD_TOO_LARGE, Wire::LimitExceeded),
            Self::TooSlow => ("too_slow", Http::REQUEST_TIMEOUT, Wire::LimitExceeded),
            Self::Busy => ("busy", Http::SERVICE_UNAVAILABLE, Wire::Unavailable),
            Self::Stopping => ("stopping", Http::SERVICE_UNAVAILABLE, Wire::Unavailable),
            Self::QuotaExceeded => ("quota_exceeded", Http::INSUFFICIENT_STORAGE, Wire::QuotaExceeded),
            Self::DiskFull => ("disk_full", Http::INSUFFICIENT_STORAGE, Wire::DiskFull),
            Self::BadRequest => ("bad_request", Http::BAD_REQUEST, Wire::Violation),
            Self::BodyCut => ("body_cut", Http::BAD_REQUEST, Wire::Internal),
            Self::RangeNotSatisfiable => {
                ("range_not_satisfiable", Http::RANGE_NOT_SATISFIABLE, Wire::Violation)
            }
            Self::PreconditionFailed => ("precondition_failed", Http::PRECONDITION_FAILED, Wire::Conflict),
            Self::OutsideManifest => ("outside_manifest", Http::RANGE_NOT_SATISFIABLE, Wire::Violation),
            Self::BlockLength => ("block_length", Http::UNPROCESSABLE_ENTITY, Wire::Violation),
            Self::BlockBusy => ("block_busy", Http::CONFLICT, Wire::Conflict),
            Self::HashMismatch => ("hash_mismatch", Http::UNPROCESSABLE_ENTITY, Wire::Conflict),
            Self::ContentConflict => ("content_conflict", Http::CONFLICT, Wire::Conflict),
            Self::NotHere => ("not_here", Http::INTERNAL_SERVER_ERROR, Wire::Internal),
            Self::Damaged => ("damaged", Http::INTERNAL_SERVER_ERROR, Wire::Internal),
            Self::NewerData => ("newer_data", Http::INTERNAL_SERVER_ERROR, Wire::Internal),
            Self::Internal => ("internal", Http::INTERNAL_SERVER_ERROR, Wire::Internal),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    /// What only the native protocol meets, which has fewer names, and what a depot ends with before it listens.
    const NEVER_ANSWERED: [&str; 3] = ["sender_replaced", "not_here", "newer_data"];

    #[test]
    fn the_openapi_document_names_every_code_that_a_request_is_answered_with() {
        let (table, _) = include_str!("error_code.rs").split_once("#[cfg(test)]").unwrap();
        let rows = table.lines().filter(|line| line.contains(", Http::"));
        let names: BTreeSet<_> = rows.filter_map(|line| line.split('"').nth(1)).collect();
        assert!(names.len() > 40, "{names:?}");
        let document = include_str!("../openapi.json");
        for name in names {
            let is_named = document.contains(&format!("`{name}`"));
            assert_ne!(is_named, NEVER_ANSWERED.contains(&name), "{name}");
        }
    }
}
