//! Room for many connections: a process may have as many open files as the system allows it at all.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the soft limit of open files to the hard one and returns how many there may be; `None` is unlimited.
///
/// The soft limit is often 1,024 for the sake of programs that use `select`, and thousands of idle clients must not
/// be able to use it up beside a working transfer.
pub fn raise_descriptor_limit() -> Option<u64> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    match setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        Ok(()) => maximum,
        // Only a system with rules of its own refuses this; the old limit then holds.
        Err(_) => current,
    }
}
