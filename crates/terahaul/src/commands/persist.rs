//! Asking a depot again that was there a moment ago.

use std::time::{Duration, Instant};

use terahaul_core::Backoff;

use crate::commands::client_error::LACKING;
use crate::exit::{Exit, Failure};

/// How long such a depot may be gone, from when it is first seen to be: as long as that of a transfer that runs.
const GIVE_UP: Duration = Duration::from_secs(600);

/// Calls `ask` until it is answered. Calls `on_wait` each time that it has to wait for the depot.
pub async fn persist<T>(
    on_wait: &dyn Fn(),
    ask: impl AsyncFnMut() -> Result<T, Failure>,
) -> Result<T, Failure> {
    persist_getting_on(on_wait, &|| 0, ask).await
}

/// The same of what may take long. `reached` is how far the last call of `ask` has come: the depot was there if that is farther than
/// all before.
pub async fn persist_getting_on<T>(
    on_wait: &dyn Fn(),
    reached: &dyn Fn() -> u64,
    mut ask: impl AsyncFnMut() -> Result<T, Failure>,
) -> Result<T, Failure> {
    let (mut lost_since, mut farthest) = (None, 0);
    let mut backoff = Backoff::default();
    loop {
        let ended = ask().await;
        if reached() > farthest {
            farthest = reached();
            lost_since = None;
        }
        match ended {
            Err(failure)
                if (failure.exit == Exit::Unreachable || failure.code == LACKING)
                    && lost_since.get_or_insert_with(Instant::now).elapsed() < GIVE_UP =>
            {
                tracing::warn!("{failure}; the depot is asked again");
                on_wait();
            }
            ended => return ended,
        }
        tokio::time::sleep(backoff.handle_failure(1.0)).await;
    }
}
