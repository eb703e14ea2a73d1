//! What this process may have no more of: open files and threads. Neither a file nor the other end is at fault then.

use std::fmt::Display;
use std::io;

use rustix::io::Errno;

/// What is to be done where it failed because too many files are open.
pub fn remedy_of_too_many_files(error: &io::Error) -> Option<&'static str> {
    match Errno::from_io_error(error)? {
        Errno::MFILE => Some("raise the limit on open files, as with 'ulimit -n'"),
        Errno::NFILE => Some("close other programs, or raise the system's limit on open files"),
        _ => None,
    }
}

/// Says that a thread could not be started, and what is to be done about that. The system does not say which limit it is.
pub fn said_of_no_thread(error: &dyn Display) -> String {
    format!(
        "a thread could not be started ({error}): raise the limit on processes and threads ('ulimit -u', or the container's), or that on memory ('ulimit -v')"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_on_open_files_is_told_from_what_is_wrong_with_a_file() {
        let remedy = |errno: Errno| remedy_of_too_many_files(&errno.into());
        assert!(remedy(Errno::MFILE).is_some_and(|remedy| remedy.contains("ulimit -n")));
        assert!(remedy(Errno::NFILE).is_some_and(|remedy| remedy.contains("system's")));
        assert!([Errno::ACCESS, Errno::IO, Errno::NOSPC].into_iter().all(|errno| remedy(errno).is_none()));
        assert!(remedy_of_too_many_files(&io::Error::other("of no system")).is_none());
    }
}
