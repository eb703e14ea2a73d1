//! Room for many connections: a process may have as many open files as the system allows it at all.

use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the soft limit of open files to the hard one and returns how many there may be; `None` is unlimited.
///
/// The soft limit is often 1,024 for the sake of programs that use `select`, and thousands of idle clients must not
/// be able to use it up beside a working transfer.
pub fn raise_descriptor_limit() -> Option<u64> {
    if !may_be_asked() {
        return Some(USUAL);
    }
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    match setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        Ok(()) => maximum,
        // Only a system with rules of its own refuses this; the old limit then holds.
        Err(_) => current,
    }
}

/// The soft limit that most systems give.
const USUAL: u64 = 1024;

/// Whether the system answers about limits at all, which a filter of system calls may keep it from: `getrlimit` panics then. What is
/// asked here is refused as wrong everywhere else, and changes nothing.
fn may_be_asked() -> bool {
    let wrong = Rlimit { current: Some(1), maximum: Some(0) };
    setrlimit(Resource::Nofile, wrong) == Err(Errno::INVAL)
}
