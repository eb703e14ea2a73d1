//! The far side: what ssh starts on the other host.
//!
//! | state | on | does |
//! |---|---|---|
//! | greeting | a request on stdin | opens what it names, listens, answers with port, pin and token |
//! | serving | connections to the port | the server's end of `terahaul/1`, for whoever presents the token |
//! | serving | streams of the relay, on stdin and stdout | carries each to its own port |
//! | serving | the end of stdin | keeps what has arrived, and ends |

use std::ffi::OsStr;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use subtle::ConstantTimeEq;
use terahaul_core::EntryIndex;
use terahaul_net::accept::{Incoming, accept};
use terahaul_net::channel::Placement;
use terahaul_net::server::{Appended, Fill, Filling, Manifest, Serve, Service, run_control};
use terahaul_net::session::Sessions;
use terahaul_net::tls::{Certificate, ServerTls};
use terahaul_store::{BlockSource, EntryFailure, Inbound};
use terahaul_wire::{
    Batch, EXTRAS, ErrorCode, Failed, OpenReceive, OpenSend, Opened, PLACE_ACCEPTED, WireError,
};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use crate::error::CopyError;
use crate::greeting::{self, Answer, Destination, Ready, Reason, Refusal, Request, Sources, Task};
use crate::landing::{Asked, Judged, Landing};
use crate::naming::{far_path, settle};
use crate::offer::{Offer, OfferManifest, is_only_file};
use crate::summary::{Failure, Landed, cause_name};
use crate::through_ssh;

/// Connections at once; a session has 32 data channels at most.
const MAX_CONNECTIONS: usize = 128;
/// Most bytes of paths and words that the last word lists.
const MOST_LISTED: usize = 100 << 10;
/// How long what has arrived may take to become durable once the near side is gone.
const LAST_SYNC: Duration = Duration::from_secs(30);

/// What the far side says at the end.
#[derive(Debug, Default, serde::Serialize, serde::Deserialize)]
pub(crate) struct LastWord {
    pub landed: Landed,
    /// What could not be read, by path, cause and words.
    pub skipped: Vec<(Vec<u8>, String, String)>,
}

/// Runs the far side over ssh's stdin and stdout, until stdin ends.
pub async fn run<R, W>(mut stdin: R, mut stdout: W) -> std::io::Result<()>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let request = match greeting::read::<_, Request>(&mut stdin).await {
        Ok(request) => request,
        // Whoever started this has gone, or is a person at a terminal.
        Err(_) => return Ok(()),
    };
    let far = match open(request).await {
        Ok(far) => far,
        Err(refusal) => return greeting::write(&mut stdout, &Answer::Refused(refusal)).await,
    };
    greeting::write(&mut stdout, &Answer::Ready(far.ready.clone())).await?;
    let side = Arc::clone(&far.side);
    let address = far.address;
    let serving = tokio::spawn(far.serve());
    let ended = through_ssh::far_end(stdin, stdout, address).await;
    serving.abort();
    let closing = tokio::task::spawn_blocking(move || side.close());
    // A disk that hangs does not keep a far side that nobody needs.
    let _ = tokio::time::timeout(LAST_SYNC, closing).await;
    ended
}

struct Far {
    side: Arc<Side>,
    listener: TcpListener,
    address: SocketAddr,
    tls: ServerTls,
    ready: Ready,
}

/// What this side is to the copy.
enum Side {
    Receives {
        landing: Arc<Landing>,
        key: [u8; 16],
        token: String,
        finished: tokio::sync::Mutex<Option<Landed>>,
    },
    Sends {
        offer: Arc<Offer>,
        key: [u8; 16],
        token: String,
    },
}

fn failed(message: impl ToString) -> Refusal {
    Refusal { reason: Reason::Failed, message: message.to_string() }
}

async fn open(request: Request) -> Result<Far, Refusal> {
    if !request.versions.contains(&greeting::VERSION) {
        let message = format!(
            "the far side is terahaul {} and this side is {}: they do not understand each other, upgrade the older of the two",
            env!("CARGO_PKG_VERSION"),
            request.agent
        );
        return Err(Refusal { reason: Reason::Version, message });
    }
    let token = token().map_err(failed)?;
    let (key, task_token) = (request.key, token.clone());
    let opening = tokio::task::spawn_blocking(move || open_side(request.task, key, task_token));
    let (side, only_file) = opening.await.map_err(failed)?.map_err(|error| error.refusal())?;
    let side = Arc::new(side);
    let certificate = Certificate::for_one_session().map_err(failed)?;
    let pin = certificate.fingerprint().0;
    let tls = ServerTls::new(certificate.chain, certificate.key).map_err(failed)?;
    let (listener, reached) = listen(reached_at(), request.ports).await?;
    let address = listener.local_addr().map_err(failed)?;
    let ready = Ready {
        version: greeting::VERSION,
        agent: concat!("terahaul/", env!("CARGO_PKG_VERSION")).to_owned(),
        address: reached.map(|address| address.to_string()),
        port: address.port(),
        pin,
        token,
        only_file,
    };
    if let Side::Sends { offer, .. } = &*side {
        let walking = Arc::clone(offer);
        std::thread::Builder::new()
            .name("walk".into())
            .spawn(move || walking.walk_ahead())
            .map_err(failed)?;
    }
    Ok(Far { side, listener, address, tls, ready })
}

fn token() -> Result<String, &'static str> {
    let mut secret = [0; 32];
    aws_lc_rs::rand::fill(&mut secret).map_err(|_| "the far system gives no random numbers")?;
    Ok(data_encoding::BASE64URL_NOPAD.encode(&secret))
}

fn open_side(task: Task, key: [u8; 16], token: String) -> Result<(Side, bool), CopyError> {
    let home = std::env::home_dir();
    let there = |path: &[u8]| far_path(path, home.as_ref().map(|home| home.as_os_str()));
    match task {
        Task::Receive(Destination { path, names, only_file, rules }) => {
            let base = settle(&there(&path), only_file)?;
            let landing = Arc::new(Landing::open(base, Asked { names }, key, &rules)?);
            Ok((Side::Receives { landing, key, token, finished: Default::default() }, false))
        }
        Task::Send(Sources { paths, include, exclude }) => {
            let paths: Vec<PathBuf> = paths.iter().map(|path| there(&path.0)).collect();
            let only_file = is_only_file(&paths);
            let offer = Arc::new(Offer::open(&paths, &include, &exclude)?);
            Ok((Side::Sends { offer, key, token }, only_file))
        }
    }
}

/// The address at which the near side's ssh has reached this host.
fn reached_at() -> Option<IpAddr> {
    let connection = std::env::var_os("SSH_CONNECTION")?;
    let third = connection.as_bytes().split(|&b| b == b' ').nth(2)?;
    OsStr::from_bytes(third).to_str()?.parse().ok()
}

/// Listens where the near side can reach, or else on loopback only, where the relay can.
async fn listen(
    reached: Option<IpAddr>,
    ports: Option<(u16, u16)>,
) -> Result<(TcpListener, Option<IpAddr>), Refusal> {
    if let Some(address) = reached {
        let (first, last) = ports.unwrap_or((0, 0));
        for port in first..=last {
            match TcpListener::bind((address, port)).await {
                Ok(listener) => return Ok((listener, Some(address))),
                Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {}
                // Not an address of this system: behind some address translations that is so.
                Err(_) => break,
            }
        }
    }
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(failed)?;
    Ok((listener, None))
}

impl Far {
    async fn serve(self) {
        let sessions = Arc::new(Sessions::default());
        let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        loop {
            let (socket, peer) = match self.listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!("cannot accept a connection: {error}");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            };
            let Ok(permit) = Arc::clone(&room).try_acquire_owned() else { continue };
            let (side, tls, sessions) =
                (Shared(Arc::clone(&self.side)), self.tls.clone(), Arc::clone(&sessions));
            tokio::spawn(async move {
                match accept(socket, &tls).await {
                    Ok(Incoming::Control(stream)) => run_control(&side, *stream, peer.ip(), &sessions).await,
                    Ok(Incoming::Data(channel, bind)) => {
                        if let Err(error) = sessions.bind(*channel, &bind) {
                            tracing::debug!(%peer, "a data channel was refused: {error}");
                        }
                    }
                    Ok(Incoming::Https(_) | Incoming::Http(_)) => {}
                    Err(error) => tracing::debug!(%peer, "{error}"),
                }
                drop(permit);
            });
        }
    }
}

impl Side {
    fn token(&self) -> &str {
        match self {
            Self::Receives { token, .. } | Self::Sends { token, .. } => token,
        }
    }

    /// Keeps what has arrived. Blocks.
    fn close(&self) {
        match self {
            Self::Receives { landing, .. } => landing.close(),
            Self::Sends { offer, .. } => offer.stop(),
        }
    }
}

/// What every connection is served.
#[derive(Clone)]
struct Shared(Arc<Side>);

impl Service for Shared {
    type Caller = ();
    type Fill = FarFill;
    type Serve = FarServe;

    fn capabilities(&self) -> &'static [&'static str] {
        &[PLACE_ACCEPTED, EXTRAS]
    }

    async fn caller(&self, credential: &str, _: IpAddr) -> Result<(), WireError> {
        if bool::from(credential.as_bytes().ct_eq(self.0.token().as_bytes())) {
            Ok(())
        } else {
            Err(WireError::fatal(ErrorCode::Denied, "the token is not this copy's"))
        }
    }

    async fn open_send(&self, (): &(), _: OpenSend) -> Result<Filling<FarFill>, WireError> {
        let Side::Receives { landing, key, finished, .. } = &*self.0 else { return Err(other_way()) };
        let fill = FarFill { side: Arc::clone(&self.0), landing: Arc::clone(landing) };
        let finished = *finished.lock().await;
        match finished {
            None => Ok(Filling::Open(fill)),
            Some(landed) => {
                let blocks = landing.inbound().with(|receiver| receiver.layout().block_count()) as u32;
                let opened = Opened { transfer: *key, ..fill.opened() };
                Ok(Filling::Finished { opened, blocks, statement: last_word(landed, Vec::new())? })
            }
        }
    }

    async fn open_receive(&self, (): &(), _: &OpenReceive) -> Result<FarServe, WireError> {
        let Side::Sends { offer, key, .. } = &*self.0 else { return Err(other_way()) };
        Ok(FarServe { offer: Arc::clone(offer), key: *key })
    }
}

fn other_way() -> WireError {
    WireError::fatal(ErrorCode::WrongState, "this copy goes the other way")
}

fn last_word(
    landed: Landed,
    skipped: Vec<(Vec<u8>, String, String)>,
) -> Result<(Vec<u8>, String), WireError> {
    let json = serde_json::to_vec(&LastWord { landed, skipped });
    Ok((json.map_err(|error| WireError::fatal(ErrorCode::Internal, error.to_string()))?, String::new()))
}

fn wire(error: &CopyError) -> WireError {
    use crate::error::CopyErrorKind::{NoRoom, NotFound, Unexpected, Unreachable, Usage};
    let code = match error.kind() {
        NoRoom => ErrorCode::DiskFull,
        NotFound => ErrorCode::NotFound,
        Usage => ErrorCode::WrongState,
        Unreachable | Unexpected => ErrorCode::Internal,
    };
    WireError::fatal(code, error.to_string())
}

async fn off_runtime<T: Send + 'static>(
    act: impl FnOnce() -> Result<T, CopyError> + Send + 'static,
) -> Result<T, WireError> {
    let stopped = |_| WireError::fatal(ErrorCode::Unavailable, "the far side is ending");
    tokio::task::spawn_blocking(act).await.map_err(stopped)?.map_err(|error| wire(&error))
}

/// A near side sends.
pub(crate) struct FarFill {
    side: Arc<Side>,
    landing: Arc<Landing>,
}

/// What is stored of a manifest: nothing that a near side would need.
pub(crate) struct NoManifest;

impl Manifest for NoManifest {
    async fn next(&mut self) -> Result<Option<Batch>, WireError> {
        Ok(None)
    }
}

impl Fill for FarFill {
    type Manifest = NoManifest;

    fn opened(&self) -> Opened {
        let Side::Receives { key, .. } = &*self.side else { return Opened::default() };
        let entries = self.landing.inbound().with(|receiver| receiver.layout().entry_count() as u32);
        Opened { transfer: *key, entries, ..Opened::default() }
    }

    fn inbound(&self) -> Arc<Inbound> {
        Arc::clone(self.landing.inbound())
    }

    fn manifest(&self) -> Result<NoManifest, WireError> {
        Ok(NoManifest)
    }

    async fn append(&self, batch: Batch) -> Result<Appended, WireError> {
        let landing = Arc::clone(&self.landing);
        let total = batch.first + batch.entries.len() as u32;
        let judged = off_runtime(move || landing.append(batch.first, batch.entries, batch.seal)).await?;
        let Judged { declined, failed, durable } = judged;
        let failed = failed.into_iter().map(|failure| Failed {
            entry: failure.entry.0,
            cause: failure.cause.into(),
            detail: failure.detail,
        });
        let declined = declined.into_iter().map(|EntryIndex(entry)| entry).collect();
        Ok(Appended { total, declined, failed: failed.collect(), durable })
    }

    async fn fail(&self, failures: Vec<EntryFailure>) -> Result<(), WireError> {
        let landing = Arc::clone(&self.landing);
        off_runtime(move || {
            landing.fail(failures);
            Ok(())
        })
        .await
    }

    async fn finish(&self) -> Result<(Vec<u8>, String), WireError> {
        let Side::Receives { finished, .. } = &*self.side else { return Err(other_way()) };
        let mut finished = finished.lock().await;
        let landing = Arc::clone(&self.landing);
        let landed = off_runtime(move || landing.finish()).await?;
        *finished = Some(landed);
        last_word(landed, Vec::new())
    }

    async fn recheck(&self) -> Result<(), WireError> {
        Ok(())
    }
}

/// A near side receives.
pub(crate) struct FarServe {
    offer: Arc<Offer>,
    key: [u8; 16],
}

impl Serve for FarServe {
    type Manifest = OfferManifest;

    fn opened(&self) -> Opened {
        Opened { transfer: self.key, ..Opened::default() }
    }

    fn block_limit(&self) -> u64 {
        u64::from(u32::MAX)
    }

    fn placement(&self) -> Placement {
        Placement::Accepted
    }

    fn source(&self) -> Arc<dyn BlockSource> {
        self.offer.source()
    }

    fn manifest(&self) -> Result<OfferManifest, WireError> {
        Ok(OfferManifest::new(Arc::clone(&self.offer)))
    }

    async fn failed(&self) -> Result<Vec<Failed>, WireError> {
        Ok(self.offer.failed())
    }

    fn handle_failed(&self, failed: &[Failed]) {
        self.offer.handle_failed(failed);
    }

    fn statement(&self) -> Result<(Vec<u8>, String), WireError> {
        let mut room = MOST_LISTED;
        let fits = |failure: &Failure| {
            room = room.saturating_sub(failure.path.len() + failure.message.len());
            room > 0
        };
        let skipped = self.offer.skipped().into_iter().take_while(fits);
        let skipped =
            skipped.map(|failure| (failure.path, cause_name(failure.cause).into(), failure.message));
        last_word(Landed::default(), skipped.collect())
    }

    async fn recheck(&self) -> Result<(), WireError> {
        Ok(())
    }

    fn handle_finished(&self) {}
}
