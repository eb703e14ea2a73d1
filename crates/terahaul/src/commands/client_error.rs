//! What goes wrong in a session, as exit codes.

use terahaul_net::client::{ClientError, ErrorKind};

use crate::exit::{Exit, Failure};

/// The code of what this machine has no more of just now: others may give some back.
pub const LACKING: &str = "lacking";

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        let error = match error {
            // The folder that is received into has said why, in this type.
            ClientError::Destination(error) => match error.downcast() {
                Ok(failure) => return *failure,
                Err(error) => ClientError::Destination(error),
            },
            error => error,
        };
        let (exit, code) = match error.kind() {
            ErrorKind::Usage => (Exit::Usage, "usage"),
            ErrorKind::Unreachable => (Exit::Unreachable, "unreachable"),
            ErrorKind::Certificate => (Exit::Denied, "certificate"),
            ErrorKind::Denied => (Exit::Denied, "denied"),
            ErrorKind::NotFound => (Exit::NotFound, "not_found"),
            ErrorKind::NoRoom => (Exit::NoSpace, "no_space"),
            ErrorKind::Protocol => (Exit::Unexpected, "protocol"),
            ErrorKind::Conflict => (Exit::Unexpected, "conflict"),
            ErrorKind::Local => (Exit::Unexpected, "local"),
            ErrorKind::Lacking => (Exit::Unexpected, LACKING),
            ErrorKind::Depot => (Exit::Unexpected, "depot"),
            ErrorKind::Interrupted => (Exit::Interrupted, "interrupted"),
        };
        Self { exit, code: code.to_owned(), message: error.to_string() }
    }
}
