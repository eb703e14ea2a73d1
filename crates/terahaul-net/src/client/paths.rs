//! What each of the paths that UDP goes over has carried, over all sessions of a transfer.

use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use terahaul_core::ByteCount;

/// One path: what went over its UDP channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathProgress {
    /// The address of this machine that it leaves from.
    pub local: IpAddr,
    /// Bytes in datagrams that arrived, all headers but IP's and UDP's counted.
    pub bytes: ByteCount,
}

#[derive(Debug)]
struct Counted {
    /// Of those that the user named; the system chooses the address otherwise.
    local: Option<IpAddr>,
    bytes: ByteCount,
    /// Of them, those of the session that runs.
    of_session: u64,
}

/// All of them, in the user's order.
#[derive(Debug, Default)]
pub(crate) struct Paths(Mutex<Vec<Counted>>);

impl Paths {
    /// What the session that runs has counted so far; nothing while it has no UDP channels, and those that it gets then count from zero.
    pub fn update(&self, counted: impl Iterator<Item = (Option<IpAddr>, u64)>) {
        let mut counted = counted.peekable();
        if counted.peek().is_none() {
            return self.restart();
        }
        let mut paths = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (local, bytes) in counted {
            let at = paths.iter().position(|counted| counted.local == local).unwrap_or_else(|| {
                paths.push(Counted { local, bytes: ByteCount(0), of_session: 0 });
                paths.len() - 1
            });
            let counted = &mut paths[at];
            counted.bytes.0 += bytes.saturating_sub(counted.of_session);
            counted.of_session = bytes;
        }
    }

    /// The session has ended, with these counts; the next one counts from zero.
    pub fn end_session(&self, counted: impl Iterator<Item = (Option<IpAddr>, u64)>) {
        self.update(counted);
        self.restart();
    }

    fn restart(&self) {
        let mut paths = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        paths.iter_mut().for_each(|counted| counted.of_session = 0);
    }

    /// How far those are that have names, and what all have carried.
    pub fn progress(&self) -> (Vec<PathProgress>, ByteCount) {
        let paths = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let named = paths.iter().filter_map(|Counted { local, bytes, .. }| {
            Some(PathProgress { local: (*local)?, bytes: *bytes })
        });
        (named.collect(), ByteCount(paths.iter().map(|counted| counted.bytes.0).sum()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_add_up_over_sessions() {
        let [one, two]: [IpAddr; 2] = ["192.0.2.1", "192.0.2.2"].map(|text| text.parse().unwrap());
        let paths = Paths::default();
        let counts = |of_one, of_two| [(Some(one), of_one), (Some(two), of_two)].into_iter();
        paths.update(counts(5, 1));
        paths.end_session(counts(9, 1));
        // At its first look the next session has carried more than the one before in all.
        paths.update(counts(12, 0));
        paths.update(counts(13, 4));
        let (named, all) = paths.progress();
        let bytes: Vec<_> = named.iter().map(|path| (path.local, path.bytes.0)).collect();
        assert_eq!((bytes, all), (vec![(one, 22), (two, 5)], ByteCount(27)));
    }

    #[test]
    fn bytes_add_up_over_channels_that_ended_in_a_session() {
        let paths = Paths::default();
        paths.update([(None, 7)].into_iter());
        paths.update([].into_iter());
        paths.update([(None, 9)].into_iter());
        paths.end_session([(None, 10)].into_iter());
        assert_eq!(paths.progress().1, ByteCount(17));
    }

    #[test]
    fn a_path_that_nobody_named_counts_and_is_not_named() {
        let paths = Paths::default();
        paths.end_session([(None, 7)].into_iter());
        paths.update([(None, 2)].into_iter());
        assert_eq!(paths.progress(), (Vec::new(), ByteCount(9)));
    }
}
