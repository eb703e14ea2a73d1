//! Memory for blocks, as the sessions of one port share it.
//!
//! A session takes its share when it begins and gives it back when it ends. A share is never waited for: with [`LEAST`] blocks a session goes
//! on, if more slowly on a long path. So none of them can keep another from ending.

use std::sync::{Arc, Mutex, PoisonError};

use terahaul_core::BLOCK_SIZE;

/// Blocks that a session has in memory at most: what 10 Gbit/s have under way in 100 ms.
pub(super) const MOST: u32 = 32;
/// Blocks that every session may have: one that is under way while the next is read or written.
const LEAST: u32 = 2;
/// Which part of this machine's memory is for blocks beyond those.
const PART: u64 = 4;

/// Blocks that are in nobody's share.
pub(super) struct Pool {
    free: Mutex<u32>,
}

impl Pool {
    /// Of so many blocks beyond those that every session has.
    pub fn of(blocks: u32) -> Arc<Self> {
        Arc::new(Self { free: Mutex::new(blocks) })
    }

    /// Of a part of this machine's memory.
    pub fn of_this_machine() -> Arc<Self> {
        let machine = rustix::system::sysinfo();
        let memory = machine.totalram.saturating_mul(machine.mem_unit.into());
        Self::of((memory / PART / BLOCK_SIZE).try_into().unwrap_or(u32::MAX))
    }

    /// A session's share: no more than half of what is free, so that who comes later gets some of it, too.
    pub fn take(self: &Arc<Self>) -> Share {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let more = free.div_ceil(2).min(MOST - LEAST);
        *free -= more;
        Share { pool: Some(Arc::clone(self)), more }
    }
}

/// Blocks that one session may have in memory.
pub(super) struct Share {
    /// `None`: nobody else is there.
    pool: Option<Arc<Pool>>,
    more: u32,
}

impl Share {
    /// Of an end that is alone with its memory.
    pub fn whole() -> Self {
        Self { pool: None, more: MOST - LEAST }
    }

    /// How many.
    pub fn blocks(&self) -> u32 {
        LEAST + self.more
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        if let Some(pool) = &self.pool {
            *pool.free.lock().unwrap_or_else(PoisonError::into_inner) += self.more;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_together_have_no_more_than_the_pool_and_each_has_enough_to_go_on() {
        let pool = Pool::of(100);
        let mut shares: Vec<_> = (0..1_000).map(|_| pool.take()).collect();
        let blocks: Vec<_> = shares.iter().map(Share::blocks).collect();
        assert_eq!(blocks[..6], [32, 32, 22, 12, 7, 5]);
        assert!(blocks.iter().all(|blocks| *blocks >= LEAST));
        assert_eq!(blocks.iter().sum::<u32>(), 1_000 * LEAST + 100);
        shares.drain(..1);
        assert_eq!(pool.take().blocks(), LEAST + 15, "who ends leaves room for others");
        drop(shares);
        assert_eq!(pool.take().blocks(), MOST);
        assert_eq!(Share::whole().blocks(), MOST);
    }

    #[test]
    fn this_machine_has_memory_for_one_session() {
        assert_eq!(Pool::of_this_machine().take().blocks(), MOST);
    }
}
