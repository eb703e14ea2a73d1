//! What a failed call of the system says about the medium.

use std::io;

/// What is to be done about it differs between these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// No space is left.
    Full,
    /// There is space, but not in one file.
    TooLong,
    /// It cannot be written to.
    Denied,
    /// Anything else.
    Other,
}

/// Whether room on the medium is what is missing.
pub fn is_full(error: &io::Error) -> bool {
    Fault::from(error) == Fault::Full
}

impl From<&io::Error> for Fault {
    fn from(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::Full,
            io::ErrorKind::FileTooLarge => Self::TooLong,
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => Self::Denied,
            _ => Self::Other,
        }
    }
}
