//! How a command ends: its exit code, and the sentence that goes with it.

use std::fmt;
use std::process::ExitCode;

use crate::output::printable_path;

/// An exit code. Scripts rely on these numbers; docs/cli.md and `terahaul help exit-codes` list them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// All went well.
    Ok = 0,
    /// Something that is not foreseen here.
    Unexpected = 1,
    /// The command line or the settings cannot be used.
    Usage = 2,
    /// The depot cannot be reached, or the network was lost for good.
    Unreachable = 3,
    /// The token, the link or the certificate was not accepted.
    Denied = 4,
    /// There is no such transfer, token or file, or it has expired.
    NotFound = 5,
    /// A disk or a quota has no room.
    NoSpace = 6,
    /// Some entries failed, and the rest arrived.
    Partial = 7,
    /// What was checked is not what was signed.
    VerifyFailed = 8,
    /// Some files of a copy had vanished when they were to be read; everything else arrived. As rsync's.
    Vanished = 24,
    /// Ended by Ctrl-C, a request to terminate or the end of its terminal; can be resumed.
    Interrupted = 130,
}

impl Exit {
    /// The number.
    pub fn number(self) -> u8 {
        self as u8
    }

    /// Of a place that was named to be written to and cannot be.
    pub fn of_place(error: &std::io::Error) -> Self {
        match error {
            _ if terahaul_store::is_full(error) => Self::NoSpace,
            _ if terahaul_store::is_no_place(error) => Self::Usage,
            _ => Self::Unexpected,
        }
    }

    /// What JSON lines call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Unexpected => "unexpected",
            Self::Usage => "usage",
            Self::Unreachable => "unreachable",
            Self::Denied => "denied",
            Self::NotFound => "not_found",
            Self::NoSpace => "no_space",
            Self::Partial => "partial",
            Self::VerifyFailed => "verify_failed",
            Self::Vanished => "vanished",
            Self::Interrupted => "interrupted",
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.number())
    }
}

/// Why a command did not do all it was asked to: one sentence with a remedy, and the exit code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The exit code.
    pub exit: Exit,
    /// A stable name for scripts; where the depot refused, the depot's own.
    pub code: String,
    /// What happened and what to do about it. Never holds a secret.
    pub message: String,
}

impl Failure {
    /// A failure named after its exit code.
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, code: exit.name().to_owned(), message: message.into() }
    }

    /// The command line or a setting is at fault.
    pub fn usage(message: impl fmt::Display) -> Self {
        Self::new(Exit::Usage, message.to_string())
    }

    /// Reading or writing a local file failed.
    pub fn file(action: &str, path: &std::path::Path, error: &std::io::Error) -> Self {
        use std::io::ErrorKind;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        if let (ErrorKind::NotFound, "written", Some(folder)) = (error.kind(), action, folder) {
            let (path, folder) = (printable_path(path), printable_path(folder));
            let message = format!(
                "{path} could not be written, as there is no folder {folder}: make it, or check the spelling"
            );
            return Self::new(Exit::NotFound, message);
        }
        let (exit, remedy) = match error.kind() {
            ErrorKind::NotFound => (Exit::NotFound, "check the spelling"),
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
                (Exit::NoSpace, "free some space and try again")
            }
            _ => {
                let remedy = terahaul_store::remedy_of_too_many_files(error);
                (Exit::Unexpected, remedy.unwrap_or("check its permissions and the disk"))
            }
        };
        Self::new(exit, format!("{} could not be {action} ({error}): {remedy}", printable_path(path)))
    }

    /// What was named to be written to cannot be, which is known before anything was done.
    pub fn place(path: &std::path::Path, error: &std::io::Error) -> Self {
        Self::new(Exit::of_place(error), Self::file("written", path, error).message)
    }

    /// A file of this program's own could not be written. That its folder is not there is not what scripts take `not_found` for.
    pub fn unwritable(path: &std::path::Path, error: &std::io::Error) -> Self {
        let Self { exit, message, .. } = Self::file("written", path, error);
        let exit = if exit == Exit::NoSpace { exit } else { Exit::Unexpected };
        Self::new(exit, message)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Error, ErrorKind};
    use std::path::Path;

    #[test]
    fn a_place_that_was_named_and_does_not_fit_is_a_mistake_of_whoever_named_it() {
        for (kind, exit) in [
            (ErrorKind::StorageFull, Exit::NoSpace),
            (ErrorKind::NotFound, Exit::Usage),
            (ErrorKind::PermissionDenied, Exit::Usage),
            (ErrorKind::NotADirectory, Exit::Usage),
            (ErrorKind::Other, Exit::Unexpected),
        ] {
            let failure = Failure::place(Path::new("man1"), &Error::from(kind));
            assert_eq!((failure.exit, failure.code.as_str()), (exit, exit.name()), "{kind}");
        }
    }

    #[test]
    fn what_cannot_be_written_has_the_code_of_its_exit() {
        for (kind, exit) in [
            (ErrorKind::StorageFull, Exit::NoSpace),
            (ErrorKind::QuotaExceeded, Exit::NoSpace),
            (ErrorKind::NotFound, Exit::Unexpected),
            (ErrorKind::PermissionDenied, Exit::Unexpected),
        ] {
            let failure = Failure::unwritable(Path::new("login.json"), &Error::from(kind));
            assert_eq!((failure.exit, failure.code.as_str()), (exit, exit.name()), "{kind}");
            assert!(failure.message.contains("login.json could not be written"), "{failure}");
        }
    }
}
