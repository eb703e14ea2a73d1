//! What each of the addresses that the user named has carried, over all sessions of a transfer.

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

/// All of them, in the user's order.
#[derive(Debug, Default)]
pub(crate) struct Paths(Mutex<Vec<(PathProgress, u64)>>);

impl Paths {
    /// What the session that runs has counted so far; a new session counts from zero.
    pub fn update(&self, counted: impl Iterator<Item = (IpAddr, u64)>) {
        let mut paths = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (local, bytes) in counted {
            let at = paths.iter().position(|(path, _)| path.local == local).unwrap_or_else(|| {
                paths.push((PathProgress { local, bytes: ByteCount(0) }, 0));
                paths.len() - 1
            });
            let (path, before) = &mut paths[at];
            path.bytes.0 += if bytes < *before { bytes } else { bytes - *before };
            *before = bytes;
        }
    }

    /// How far they are.
    pub fn progress(&self) -> Vec<PathProgress> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().map(|(path, _)| *path).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_add_up_over_sessions() {
        let [one, two]: [IpAddr; 2] = ["192.0.2.1", "192.0.2.2"].map(|text| text.parse().unwrap());
        let paths = Paths::default();
        for counted in [[5, 1], [9, 1], [2, 0], [3, 4]] {
            paths.update([one, two].into_iter().zip(counted));
        }
        let bytes: Vec<_> = paths.progress().iter().map(|path| (path.local, path.bytes.0)).collect();
        assert_eq!(bytes, [(one, 12), (two, 5)]);
    }
}
