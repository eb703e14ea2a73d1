//! Whether whoever a request is for may still have it done. One may run for hours, and a token that is revoked or expires ends it, as it
//! ends a native session. A link ends with its transfer.

use axum::body::Body;
use futures_util::{StreamExt, stream};
use tokio::time::Instant;

use super::log_cut;
use crate::DepotError;
use crate::auth::Caller;
use crate::depot::Depot;

/// What is known of a caller's standing.
pub(super) struct Standing {
    depot: Depot,
    caller: Caller,
    looked: Instant,
}

impl Standing {
    /// The caller was accepted just now.
    pub fn new(depot: &Depot, caller: &Caller) -> Self {
        Self { depot: depot.clone(), caller: caller.clone(), looked: Instant::now() }
    }

    /// Looks again if it is time to.
    pub async fn check(&mut self) -> Result<(), DepotError> {
        if self.looked.elapsed() < self.depot.inner.config.limits.recheck {
            return Ok(());
        }
        self.depot.recheck(&self.caller).await?;
        self.looked = Instant::now();
        Ok(())
    }

    /// `body`, cut as soon as the caller may not have it any more.
    pub fn guard(self, body: Body) -> Body {
        Body::from_stream(stream::unfold(
            (self, body.into_data_stream()),
            |(mut standing, mut pieces)| async {
                let piece = pieces.next().await?;
                // Asked last: making a piece may have taken long.
                let piece = match standing.check().await {
                    Ok(()) => piece,
                    Err(error) => {
                        log_cut(None, &error);
                        Err(axum::Error::new(error))
                    }
                };
                if piece.is_err() {
                    // The connection sends what it has when there is nothing to take, and forgets it over an error: the client would get
                    // nothing of what comes before that, however often it asked.
                    tokio::task::yield_now().await;
                }
                Some((piece, (standing, pieces)))
            },
        ))
    }
}
