//! Work that would hold up everything else on the threads that wait for the network.

use crate::exit::{Exit, Failure};

/// Runs `act` where it may block.
pub async fn blocking<T: Send + 'static>(act: impl FnOnce() -> T + Send + 'static) -> Result<T, Failure> {
    tokio::task::spawn_blocking(act).await.map_err(thread_failed)
}

/// A thread of this program ended out of turn.
pub fn thread_failed(error: tokio::task::JoinError) -> Failure {
    Failure::new(
        Exit::Unexpected,
        format!("a thread of this program failed ({error}): report this, and run the same command again"),
    )
}
