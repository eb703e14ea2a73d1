//! A depot whose disk is slower than the line: datagrams that nobody can take must not be sent. And one that takes long to publish.

use std::io::IoSlice;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use tempfile::TempDir;
use terahaul_core::{Address, BLOCK_SIZE, ByteCount, TransferId};
use terahaul_depot::{Bound, Depot, DepotConfig, Server};
use terahaul_net::endpoint::Endpoint;
use terahaul_store::{FlatTransfer, MemoryStore, Store, StoreError, StorePlace};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::relay::Relay;
use crate::rig::{PATIENCE, Ran, send_signal, spawn, terahaul, wait_until, write_random};

/// Bytes that the disk writes in a second.
const DISK: f64 = 20e6;

/// A store in memory that takes its time, whoever writes.
#[derive(Default)]
struct Slow {
    store: MemoryStore,
    disk: Arc<Mutex<()>>,
    /// Bytes that the disk has.
    written: Arc<AtomicU64>,
    /// What it does before it publishes.
    publishing: Option<Box<dyn Fn() + Send + Sync>>,
}

struct SlowTransfer {
    transfer: Arc<dyn FlatTransfer>,
    disk: Arc<Mutex<()>>,
    written: Arc<AtomicU64>,
}

impl Slow {
    fn slowly(&self, transfer: Arc<dyn FlatTransfer>) -> Arc<dyn FlatTransfer> {
        let (disk, written) = (Arc::clone(&self.disk), Arc::clone(&self.written));
        Arc::new(SlowTransfer { transfer, disk, written })
    }
}

impl Store for Slow {
    fn create(&self, id: TransferId) -> Result<Arc<dyn FlatTransfer>, StoreError> {
        self.store.create(id).map(|transfer| self.slowly(transfer))
    }

    fn open(&self, id: TransferId) -> Result<Arc<dyn FlatTransfer>, StoreError> {
        self.store.open(id).map(|transfer| self.slowly(transfer))
    }

    fn publish(&self, id: TransferId) -> Result<(), StoreError> {
        if let Some(publishing) = &self.publishing {
            publishing();
        }
        self.store.publish(id)
    }

    fn reopen(&self, id: TransferId) -> Result<(), StoreError> {
        self.store.reopen(id)
    }

    fn remove(&self, id: TransferId) -> Result<(), StoreError> {
        self.store.remove(id)
    }

    fn list(&self) -> Result<Vec<(TransferId, StorePlace)>, StoreError> {
        self.store.list()
    }

    fn free_space(&self) -> Result<Option<ByteCount>, StoreError> {
        self.store.free_space()
    }
}

impl FlatTransfer for SlowTransfer {
    fn write_at(&self, address: Address, parts: &[IoSlice<'_>]) -> Result<(), StoreError> {
        let bytes: usize = parts.iter().map(|part| part.len()).sum();
        let _one_disk = self.disk.lock().unwrap();
        std::thread::sleep(Duration::from_secs_f64(bytes as f64 / DISK));
        self.written.fetch_add(bytes as u64, Ordering::SeqCst);
        self.transfer.write_at(address, parts)
    }

    fn read_at(&self, address: Address, buffer: &mut [u8]) -> Result<(), StoreError> {
        self.transfer.read_at(address, buffer)
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.transfer.sync()
    }
}

/// A depot in this process.
struct Running {
    home: TempDir,
    url: String,
    token: String,
    stop: watch::Sender<bool>,
    serving: JoinHandle<()>,
}

impl Running {
    async fn over(store: Slow) -> Self {
        let home = tempfile::tempdir().unwrap();
        let config = DepotConfig::new(home.path().join("depot"));
        let depot = Depot::open_with_store(config, Arc::new(store)).await.unwrap();
        let bound = Bound::to("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = bound.address();
        let server = Server::listen(bound, depot.clone(), None).unwrap();
        let endpoint = Endpoint { host: address.ip().to_string(), port: address.port(), pin: server.pin() };
        depot.set_link_base(&endpoint.base_url(), endpoint.pin.map(|pin| pin.to_string()));
        let token = depot.owner_token().await.unwrap();
        let (stop, stopped) = watch::channel(false);
        let serving = tokio::spawn(server.run(stopped));
        Self { home, url: endpoint.to_string(), token, stop, serving }
    }

    /// A command with this depot's settings, but for its address.
    fn command(&self, url: &str, args: &[&str]) -> Command {
        let mut command = terahaul(self.home.path());
        command.env("TERAHAUL_URL", url).env("TERAHAUL_TOKEN", &self.token).args(args);
        command
    }

    /// Does what blocks, and stops.
    async fn while_it_runs<T: Send + 'static>(self, work: impl FnOnce(&Self) -> T + Send + 'static) -> T {
        let (done, running) = tokio::task::spawn_blocking(move || (work(&self), self)).await.unwrap();
        running.stop.send(true).unwrap();
        running.serving.await.unwrap();
        done
    }
}

/// Sends `size` random bytes over `transport`, through a relay that `meanwhile` is given, to a depot over this store. Returns what the
/// relay let through.
async fn send_over(
    store: Slow,
    size: usize,
    transport: &'static str,
    meanwhile: impl FnOnce(&Relay) + Send + 'static,
) -> u64 {
    let send = move |depot: &Running| {
        write_random(&depot.home.path().join("src/a.bin"), size, 1);
        let (relay, url) = Relay::to(&depot.url);
        std::thread::scope(|scope| {
            scope.spawn(|| meanwhile(&relay));
            let ran = Ran::of(depot.command(&url, &["send", "src", "--transport", transport, "--json"]));
            assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
            assert!(ran.event("done")["link"].is_string(), "{}", ran.stdout);
        });
        relay.bytes()
    };
    Running::over(store).await.while_it_runs(send).await
}

/// For longer than a ping takes to come.
#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_is_lost_while_a_depot_publishes_costs_nothing() {
    let (begun, heard) = mpsc::channel();
    let publishing = move || {
        // Nobody listens for a second time.
        let _ = begun.send(());
        std::thread::sleep(Duration::from_secs(12));
    };
    let store = Slow { publishing: Some(Box::new(publishing)), ..Slow::default() };
    let cut = move |relay: &Relay| {
        heard.recv_timeout(PATIENCE).unwrap();
        relay.cut();
    };
    send_over(store, 1_000_000, "tcp", cut).await;
}

/// It said that the same command would resume, and that would have sent all of it anew.
#[tokio::test(flavor = "multi_thread")]
async fn a_send_that_is_interrupted_while_the_depot_finishes_says_that_the_depot_may_finish() {
    let (begun, heard) = mpsc::channel();
    let (ended, sender_ended) = mpsc::channel();
    let sender_ended = Mutex::new(sender_ended);
    let publishing = move || {
        begun.send(()).unwrap();
        sender_ended.lock().unwrap().recv_timeout(PATIENCE).unwrap();
    };
    let store = Slow { publishing: Some(Box::new(publishing)), ..Slow::default() };
    let interrupt = move |depot: &Running| {
        write_random(&depot.home.path().join("src/a.bin"), 1_000_000, 1);
        let sender = spawn(depot.command(&depot.url, &["send", "src"]));
        heard.recv_timeout(PATIENCE).unwrap();
        send_signal(sender.id(), "INT");
        let ran = Ran::of_child(sender);
        ended.send(()).unwrap();
        assert_eq!(ran.code, 130, "{}", ran.stderr);
        let transfer = || Ran::of(depot.command(&depot.url, &["list", "--json"])).event("transfer");
        wait_until("it has finished by itself", || transfer()["state"] == "complete");
        let info = format!("'terahaul info {}'", transfer()["id"].as_str().unwrap());
        assert!(ran.stderr.contains(&info) && !ran.stderr.contains("resume"), "{}", ran.stderr);
    };
    Running::over(store).await.while_it_runs(interrupt).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_disk_slows_the_sender_down_and_hardly_a_datagram_is_sent_in_vain() {
    /// Three times what the depot may have in memory for a session.
    const SIZE: usize = 360_000_000;
    const MEMORY: u64 = 32 * BLOCK_SIZE;
    let store = Slow::default();
    let written = Arc::clone(&store.written);
    let looks = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&looks);
    let look = move |relay: &Relay| {
        wait_until("all is written", || {
            let came = relay.bytes();
            // Read second: what is written meanwhile only makes it less.
            let written = written.load(Ordering::SeqCst);
            seen.lock().unwrap().push((came, written));
            written >= SIZE as u64
        });
    };
    let sent = send_over(store, SIZE, "udp", look).await;
    assert!(sent < SIZE as u64 * 115 / 100, "{sent} bytes in datagrams for {SIZE} of content");
    // Of the bytes in datagrams, headers and what was sent again are not written.
    let content = |came: u64| (u128::from(came) * SIZE as u128 / u128::from(sent)) as u64;
    let ahead =
        looks.lock().unwrap().iter().map(|(came, written)| content(*came).saturating_sub(*written)).max();
    let most = ahead.unwrap();
    // As much as it may, or it would not have been what slowed the sender down.
    assert!(most > MEMORY / 2, "{most} bytes came before they were written");
    assert!(most < MEMORY * 11 / 10, "{most} bytes came before they were written, for {MEMORY} of memory");
}
