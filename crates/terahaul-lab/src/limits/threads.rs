//! The same work on every processor at once.

use std::sync::Barrier;
use std::thread;

/// Runs `act` on `threads` threads at once and adds up what they return. Making the threads is part of the time that
/// the caller measures: let `act` be long beside that.
pub fn on_all_threads(threads: usize, act: impl Fn() -> u64 + Sync) -> u64 {
    let ready = Barrier::new(threads);
    thread::scope(|scope| {
        let run = || {
            ready.wait();
            act()
        };
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(run)).collect();
        let own = run();
        // A thread that panicked has nothing to add.
        own + others.into_iter().map(|other| other.join().unwrap_or(0)).sum::<u64>()
    })
}

#[cfg(test)]
mod tests {
    use super::on_all_threads;

    #[test]
    fn what_every_thread_did_is_added_up() {
        assert_eq!(on_all_threads(1, || 5), 5);
        assert_eq!(on_all_threads(4, || 5), 20);
    }
}
