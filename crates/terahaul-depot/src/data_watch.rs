//! Whether the data folder still has what a depot has open: a backup that is restored beneath a running one leaves it with files that have no
//! name any more, and what it signs is gone at the next start.

use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use tokio::sync::watch;

use crate::DepotError;

/// What stays the same file or folder for as long as a depot runs. The database's log does not: SQLite makes it anew.
const WATCHED: [&str; 4] = ["depot.lock", "depot.db", "store/incoming", "store/published"];

/// What was at these names when the depot opened it.
pub(crate) struct DataWatch {
    opened: Vec<(PathBuf, (u64, u64))>,
    displaced: watch::Sender<Option<PathBuf>>,
}

impl DataWatch {
    /// Of what is open now in the folder `data`.
    pub fn of(data: &Path) -> Self {
        let opened = WATCHED.iter().filter_map(|name| {
            let path = data.join(name);
            let found = path.metadata().ok()?;
            Some((path, (found.dev(), found.ino())))
        });
        Self { opened: opened.collect(), displaced: watch::Sender::new(None) }
    }

    /// Whether one of them is gone, or another one has its name. Blocks.
    pub fn look(&self) -> bool {
        let displaced = self.opened.iter().find(|(path, opened)| is_displaced(path, *opened));
        if let Some((path, _)) = displaced {
            self.displaced.send_replace(Some(path.clone()));
        }
        displaced.is_some()
    }

    /// What a look has found.
    pub fn found(&self) -> Option<DepotError> {
        self.displaced.borrow().clone().map(DepotError::Displaced)
    }

    /// Waits until a look has found something.
    pub async fn until_found(&self) {
        let mut displaced = self.displaced.subscribe();
        // The sender is here.
        let _ = displaced.wait_for(Option::is_some).await;
    }
}

/// A disk that does not answer has displaced nothing.
fn is_displaced(path: &Path, opened: (u64, u64)) -> bool {
    match path.metadata() {
        Ok(found) => (found.dev(), found.ino()) != opened,
        Err(error) => matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use terahaul_core::ByteCount;

    use crate::fixture::Fixture;
    use crate::transfer::Asker;
    use crate::{DepotError, TransferState};

    /// Senders had receipts for what was gone at the next start.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_depot_beneath_which_a_backup_is_restored_signs_nothing_more() {
        for restored in ["depot.lock", "depot.db", "store"] {
            let fixture = Fixture::new().await;
            let (depot, id) = (&fixture.depot, fixture.finished(ByteCount(5)).await);
            let live = fixture.arrived(ByteCount(5)).await;
            assert!(depot.displaced().is_none());
            let at = depot.config().data.join(restored);
            fs::rename(&at, depot.config().data.join("before")).unwrap();
            if restored == "store" {
                fs::create_dir_all(at.join("incoming")).unwrap();
            } else {
                fs::write(&at, "").unwrap();
            }
            for id in [live.id(), id] {
                assert!(
                    matches!(depot.finish(id, Asker::Another).await, Err(DepotError::Stopping)),
                    "{restored}"
                );
            }
            let row = depot.inner.db.transfer(live.id()).await.unwrap().unwrap();
            assert_eq!(row.state, TransferState::Open);
            depot.inner.data_watch.until_found().await;
            let said = depot.displaced().unwrap().to_string();
            assert!(said.contains(restored) && said.contains("restore"), "{said}");
        }
    }
}
