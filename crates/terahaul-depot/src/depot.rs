//! The depot as its front ends see it.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Instant;

use terahaul_core::{PublicKey, TransferId};
use terahaul_store::{DirectoryStore, Store};
use tokio::sync::Semaphore;

use crate::auth::{SignInCodes, Throttle, UnwrittenSessions};
use crate::clock_watch::ClockWatch;
use crate::config::DepotConfig;
use crate::data_lock::DataLock;
use crate::data_watch::DataWatch;
use crate::db::Database;
use crate::keys::{Keys, random};
use crate::places::Places;
use crate::private::keep_from_writing;
use crate::transfer::{Registry, Unmarked, recover, sweep};
use crate::{DepotError, blocking};

/// A depot: transfers, tokens and the page, behind HTTP and native sessions alike. Cheap to clone.
#[derive(Clone)]
pub struct Depot {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub config: DepotConfig,
    pub started: Instant,
    pub db: Database,
    pub store: Arc<dyn Store>,
    pub keys: Keys,
    pub clock_watch: ClockWatch,
    pub following_clock: tokio::sync::Mutex<()>,
    pub codes: SignInCodes,
    pub unwritten_sessions: UnwrittenSessions,
    pub throttle: Throttle,
    pub registry: Registry,
    pub uploads: Places,
    pub downloads: Places,
    pub long_bodies: Places,
    /// Of transfers in use.
    pub transfers_in_use: Arc<Semaphore>,
    pub data_watch: DataWatch,
    pub unmarked: Arc<Unmarked>,
    pub was_known: bool,
    links: RwLock<LinkBase>,
    lock: Mutex<Option<DataLock>>,
}

#[derive(Default)]
struct LinkBase {
    url: String,
    fingerprint: Option<String>,
}

impl Depot {
    /// Opens the depot in `config.data`, with its store in a directory there. Needs a Tokio runtime.
    pub async fn open(config: DepotConfig) -> Result<Self, DepotError> {
        let folder = config.data.join("store");
        let lock = DataLock::take(&config.data)?;
        keep_from_writing(&folder)?;
        let store = blocking::run(move || DirectoryStore::open(folder)).await??;
        Self::start(config, Arc::new(store), lock).await
    }

    /// The same over another store.
    pub async fn open_with_store(config: DepotConfig, store: Arc<dyn Store>) -> Result<Self, DepotError> {
        let lock = DataLock::take(&config.data)?;
        Self::start(config, store, lock).await
    }

    async fn start(config: DepotConfig, store: Arc<dyn Store>, lock: DataLock) -> Result<Self, DepotError> {
        let file = config.data.join("depot.db");
        let listed = Arc::clone(&store);
        let is_known = Database::is_in(&file).await?;
        if !is_known && !blocking::run(move || listed.list()).await??.is_empty() {
            return Err(DepotError::NoDatabase(file));
        }
        let keys = Keys::open(&config.data.join("keys"), is_known)?;
        let db = Database::open(&file).await?;
        let inner = Inner {
            clock_watch: ClockWatch::new(&config.clock, db.watched_clock().await?),
            following_clock: tokio::sync::Mutex::default(),
            codes: SignInCodes::default(),
            unwritten_sessions: UnwrittenSessions::default(),
            throttle: Throttle::new(random()?),
            registry: Registry::default(),
            uploads: Places::new(config.limits.uploads),
            downloads: Places::new(config.limits.downloads),
            transfers_in_use: Arc::new(Semaphore::new(config.limits.transfers_in_use)),
            long_bodies: Places::new(config.limits.long_bodies),
            links: RwLock::default(),
            // Behind the lock and the database, which are open.
            data_watch: DataWatch::of(&config.data),
            unmarked: Arc::default(),
            was_known: is_known,
            config,
            started: Instant::now(),
            db,
            store,
            keys,
            lock: Mutex::new(Some(lock)),
        };
        let depot = Self { inner: Arc::new(inner) };
        // Before anybody is told that what seems to have expired has. On a full disk, sweeping tries again.
        if let Err(error) = depot.follow_clock().await {
            tracing::warn!(%error, "that the clock was put forward could not be followed; it is tried again");
        }
        recover::recover(&depot).await?;
        depot.compare_generations().await?;
        sweep::spawn(&depot);
        Ok(depot)
    }

    /// Makes everything received durable and lets go of the data folder. Requests that are still running fail.
    pub async fn close(&self) {
        self.inner.registry.close_all().await;
        // What is at these names is otherwise not what it knows.
        if self.check_data().await.is_ok() {
            self.raise_generation().await;
        }
        self.inner.db.close().await;
        self.inner.lock.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    /// Why it signs nothing more, where a backup was restored beneath it: [`Server::run`](crate::Server::run) has ended then.
    pub fn displaced(&self) -> Option<DepotError> {
        self.inner.data_watch.found()
    }

    /// An error where its data folder has no longer what it has open.
    pub(crate) async fn check_data(&self) -> Result<(), DepotError> {
        let depot = self.clone();
        let is_displaced = blocking::run(move || depot.inner.data_watch.look()).await?;
        if is_displaced { Err(DepotError::Stopping) } else { Ok(()) }
    }

    /// What links start with, `https://host:port`, and the certificate's SHA-256 in hexadecimal where clients must
    /// pin it.
    pub fn set_link_base(&self, url: &str, fingerprint: Option<String>) {
        let base = LinkBase { url: url.trim_end_matches('/').to_owned(), fingerprint };
        *self.inner.links.write().unwrap_or_else(PoisonError::into_inner) = base;
    }

    /// The link to a transfer: whoever has it may read.
    pub fn link(&self, transfer: TransferId) -> String {
        let base = self.inner.links.read().unwrap_or_else(PoisonError::into_inner);
        let secret = self.inner.keys.link_secret(transfer);
        let pin = base.fingerprint.as_ref().map(|hex| format!("&fp={hex}")).unwrap_or_default();
        format!("{}/t/{transfer}#{secret}{pin}", base.url)
    }

    /// Counts a failed attempt of a peer, who after too many hears only that. What else fails is nobody's attempt.
    pub(crate) fn throttled(&self, peer: IpAddr, error: DepotError) -> DepotError {
        let counts = matches!(
            error,
            DepotError::UnknownToken
                | DepotError::OtherKeys
                | DepotError::TokenExpired
                | DepotError::TokenRevoked
                | DepotError::CodeInvalid
                | DepotError::SessionEnded
        );
        if counts && !self.inner.throttle.handle_failure(peer, self.inner.config.clock.now()) {
            return DepotError::TooManyAttempts;
        }
        error
    }

    /// The key that signs this depot's receipts.
    pub fn public_key(&self) -> PublicKey {
        self.inner.keys.signing.public_key()
    }

    /// The settings it was opened with.
    pub fn config(&self) -> &DepotConfig {
        &self.inner.config
    }
}
