//! What goes wrong in a copy, as exit codes.

use terahaul_copy::{CopyError, CopyErrorKind};

use crate::exit::{Exit, Failure};

impl From<CopyError> for Failure {
    fn from(error: CopyError) -> Self {
        let error = match error {
            CopyError::Client(error) => return error.into(),
            error => error,
        };
        let exit = match error.kind() {
            CopyErrorKind::Usage => Exit::Usage,
            CopyErrorKind::Unreachable => Exit::Unreachable,
            CopyErrorKind::NotFound => Exit::NotFound,
            CopyErrorKind::NoRoom => Exit::NoSpace,
            CopyErrorKind::Unexpected => Exit::Unexpected,
        };
        let code = match &error {
            CopyError::NotInstalled { .. } => "not_installed",
            CopyError::SshEnded { .. } | CopyError::FarEnded { .. } => "ssh_ended",
            CopyError::Interrupted => return Self::new(Exit::Interrupted, error.to_string()),
            _ => exit.name(),
        };
        Self { exit, code: code.to_owned(), message: error.to_string() }
    }
}
