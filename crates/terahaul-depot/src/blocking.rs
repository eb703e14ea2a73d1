//! Where work that blocks is done.

use crate::DepotError;

/// Runs `work` on a thread that may block.
pub(crate) async fn run<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, DepotError> {
    tokio::task::spawn_blocking(work).await.map_err(|error| {
        // Cancelled when the runtime stops; a panic was already reported by its hook.
        if error.is_cancelled() {
            DepotError::Stopping
        } else {
            DepotError::io("a background task")(std::io::Error::other("it panicked"))
        }
    })
}

/// Does a short piece of blocking work here, which saves a hand-over between threads; the runtime moves its other
/// tasks to another thread meanwhile, where it can.
pub(crate) fn here<T>(work: impl FnOnce() -> T) -> T {
    match tokio::runtime::Handle::try_current().map(|handle| handle.runtime_flavor()) {
        Ok(tokio::runtime::RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        _ => work(),
    }
}

/// Waits, on a thread that may block, for `work` on the runtime; `None` when the runtime has stopped. Unlike
/// `Handle::block_on` it never panics then.
pub(crate) fn wait<T: Send + 'static>(
    runtime: &tokio::runtime::Handle,
    work: impl Future<Output = T> + Send + 'static,
) -> Option<T> {
    let (sender, receiver) = std::sync::mpsc::sync_channel(1);
    runtime.spawn(async move {
        let _ = sender.send(work.await);
    });
    receiver.recv().ok()
}
