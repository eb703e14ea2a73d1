//! Work that would hold up everything else on the threads that wait for the network.

use std::fmt::Display;

use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::exit::{Exit, Failure};

/// Runs `act` where it may block.
pub async fn blocking<T: Send + 'static>(act: impl FnOnce() -> T + Send + 'static) -> Result<T, Failure> {
    tokio::task::spawn_blocking(act).await.map_err(thread_failed)
}

/// What takes as long as the command does, on a thread of its own: where no more threads can be started, what is [`blocking`] for a moment
/// waits for one that there is, and this may wait for that.
pub struct Beside<T>(oneshot::Receiver<T>);

impl<T: Send + 'static> Beside<T> {
    /// Begins it. An error where there is no thread for it.
    pub fn begin(name: &str, act: impl FnOnce() -> T + Send + 'static) -> Result<Self, Failure> {
        let (done, is_done) = oneshot::channel();
        let runtime = Handle::current();
        let started = std::thread::Builder::new().name(name.into()).spawn(move || {
            let _entered = runtime.enter();
            // The command may have been given up.
            let _ = done.send(act());
        });
        started.map_err(|error| Failure::new(Exit::Unexpected, terahaul_store::said_of_no_thread(&error)))?;
        Ok(Self(is_done))
    }

    /// What it came to, once it has.
    pub async fn ended(self) -> Result<T, Failure> {
        self.0.await.map_err(|_| thread_failed("it panicked"))
    }
}

/// A thread of this program ended out of turn.
fn thread_failed(error: impl Display) -> Failure {
    Failure::new(
        Exit::Unexpected,
        format!("a thread of this program failed ({error}): report this, and run the same command again"),
    )
}
