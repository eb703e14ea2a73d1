//! What a failed call of the system says about the medium.

use std::io;

use rustix::io::Errno;

use crate::limits::remedy_of_too_many_files;

/// What is to be done about it differs between these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// No space is left.
    Full,
    /// There is space, but not in one file.
    TooLong,
    /// It cannot be written to.
    Denied,
    /// Nothing is said of it: this process has too many files open.
    TooManyFiles,
    /// Anything else.
    Other,
}

/// Whether room on the medium is what is missing.
pub fn is_full(error: &io::Error) -> bool {
    Fault::from(error) == Fault::Full
}

/// Whether it failed because of where something was to be written: somebody has to name another place, or make this one fit.
pub fn is_no_place(error: &io::Error) -> bool {
    use io::ErrorKind::{
        AlreadyExists, InvalidFilename, NotADirectory, NotFound, PermissionDenied, ReadOnlyFilesystem,
    };
    let kinds =
        [AlreadyExists, InvalidFilename, NotADirectory, NotFound, PermissionDenied, ReadOnlyFilesystem];
    kinds.contains(&error.kind()) || Errno::from_io_error(error) == Some(Errno::LOOP)
}

/// In which way it is, before the remedies that there are for both.
pub(crate) fn said_of_full(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::QuotaExceeded => "has no room left within a quota: raise it, or",
        _ => "is full ('df' or 'df -i' says of what):",
    }
}

impl From<&io::Error> for Fault {
    fn from(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::Full,
            io::ErrorKind::FileTooLarge => Self::TooLong,
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => Self::Denied,
            _ if remedy_of_too_many_files(error).is_some() => Self::TooManyFiles,
            _ => Self::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LedgerError, SinkError, StoreError};

    #[test]
    fn a_disk_is_not_to_be_checked_where_too_many_files_are_open() {
        let too_many = || io::Error::from(Errno::MFILE);
        let record = LedgerError { action: "written", source: too_many().into() };
        for said in [
            StoreError::from(too_many()).to_string(),
            SinkError::from(too_many()).at(|| "path".into()).to_string(),
            record.to_string(),
        ] {
            assert!(said.contains("ulimit -n") && !said.contains("check"), "{said}");
        }
    }

    /// The receiving folder was blamed, which could be written to.
    #[test]
    fn who_may_not_write_at_one_place_is_told_where() {
        let said = SinkError::from(io::Error::from(Errno::ACCESS)).at(|| "folder/file".into()).to_string();
        assert!(said.starts_with("folder/file cannot be written") && !said.contains("receiving"), "{said}");
    }

    #[test]
    fn a_disk_is_not_to_be_checked_where_somebody_removed_what_had_arrived() {
        let said = SinkError::from(io::Error::from(Errno::NOENT)).at(|| "folder/file".into()).to_string();
        assert!(said.starts_with("folder/file") && said.contains(".terahaul-"), "{said}");
        assert!(!said.contains("check"), "{said}");
    }

    /// They were told to free space on a disk that has some, or to check it.
    #[test]
    fn who_has_used_up_a_quota_is_told_so() {
        let used_up = || io::Error::from(Errno::DQUOT);
        let record = LedgerError { action: "written", source: used_up().into() };
        assert!(record.is_full());
        for said in [
            StoreError::from(used_up()).to_string(),
            SinkError::from(used_up()).to_string(),
            record.to_string(),
        ] {
            assert!(said.contains("quota") && said.contains("raise"), "{said}");
            assert!(!said.contains("is full") && !said.contains("check"), "{said}");
        }
        let full = StoreError::from(io::Error::from(Errno::NOSPC)).to_string();
        assert!(full.contains("is full") && !full.contains("quota"), "{full}");
    }
}
