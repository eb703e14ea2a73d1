//! The far side: what ssh starts on the other host.
//!
//! | state | on | does |
//! |---|---|---|
//! | greeting | a request on stdin | opens what it names, listens, answers with port, pin and token |
//! | serving | connections to the port | the server's end of `terahaul/1`, for whoever presents the token |
//! | serving | datagrams to the same port number | UDP data channels of those sessions |
//! | serving | streams of the relay, on stdin and stdout | carries each to its own port |
//! | serving | the end of stdin, or no session for long | keeps what has arrived, and ends |

mod fill;
mod listening;
mod presence;
mod serve;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use data_encoding::HEXLOWER;
use subtle::ConstantTimeEq;
use terahaul_core::FailureCause;
use terahaul_net::Listener;
use terahaul_net::accept::{Incoming, accept};
use terahaul_net::server::{Fill, Filling, Seat, Service, run_control};
use terahaul_net::session::{Sessions, SignedWord};
use terahaul_net::tls::{Certificate, ServerTls};
use terahaul_net::udp::{Port, Secret};
use terahaul_tree::expand;
use terahaul_wire::{COPY, ErrorCode, OpenReceive, OpenSend, Opened, WireError};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinSet;

use crate::alike;
use crate::error::CopyError;
use crate::failures::{Failure, Failures};
use crate::greeting::{
    self, Answer, Asked as Requested, Destination, Name, Ready, Reason, Refusal, Request, Sources, Task,
};
use crate::landing::{Asked, Landing};
use crate::naming::{far_path, is_home_of_another, settle, unknown_user};
use crate::offer::{Offer, is_only_file};
use crate::skipped::Walked;
use crate::summary::Landed;
use crate::through_ssh::{self, Aside};
use crate::top::Top;
use fill::FarFill;
use listening::Listening;
use presence::Presence;
use serve::FarServe;

/// Connections at once; a session has 32 data channels at most.
const MAX_CONNECTIONS: usize = 128;
/// Most bytes of paths and words that the last word lists.
const MOST_LISTED: usize = 100 << 10;
/// Longest time without a session. A near side that is there opens one within seconds, or when its network is back; one whose machine
/// sleeps, when that wakes.
const PATIENCE: Duration = Duration::from_secs(60 * 60);
/// How long what has arrived may take to become durable once the near side is gone.
const LAST_SYNC: Duration = Duration::from_secs(30);

/// What the far side says at the end.
#[derive(Debug, Default, serde::Serialize, serde::Deserialize)]
pub(crate) struct LastWord {
    pub landed: Landed,
    /// What went wrong there and was not said before, by path, cause and words.
    pub failed: Vec<(Vec<u8>, String, String)>,
    /// How many things it could not read.
    pub walk_errors: u64,
    /// Paths, in hexadecimal, of what it does not copy: they keep their names. Earlier versions do not say.
    #[serde(default)]
    pub kept: Vec<String>,
    /// How much more went wrong than is listed, by cause. Earlier versions do not say.
    #[serde(default)]
    pub more: BTreeMap<String, u64>,
}

impl LastWord {
    pub(crate) fn read(said: &[u8]) -> Result<Self, CopyError> {
        serde_json::from_slice(said).map_err(|_| {
            CopyError::Local("the far side's last word cannot be read: upgrade the older program".into())
        })
    }

    /// What of the source is not in the manifest.
    pub(crate) fn walked(&self) -> Walked {
        let kept = self.kept.iter().filter_map(|path| HEXLOWER.decode(path.as_bytes()).ok());
        Walked::said(self.walk_errors, kept)
    }

    pub(crate) fn failures(self) -> Failures {
        let named = |cause: &str| FailureCause::named(cause).unwrap_or(FailureCause::Unreadable);
        let listed = self.failed.into_iter().map(|(path, cause, message)| {
            let cause = named(&cause);
            Failure { path, cause, message }
        });
        let mut failures = Failures::from(listed.collect::<Vec<_>>());
        self.more.iter().for_each(|(cause, count)| failures.add_unlisted(named(cause), *count));
        failures
    }
}

/// Runs the far side over ssh's stdin and stdout, until stdin ends.
pub async fn run<R, W>(mut stdin: R, mut stdout: W) -> std::io::Result<()>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let request = match greeting::read_request(&mut stdin).await {
        Ok(Requested::Request(request)) => *request,
        Ok(Requested::Foreign { agent }) => {
            return greeting::write(&mut stdout, &Answer::Refused(other_version(&agent))).await;
        }
        // Whoever started this has gone, or is a person at a terminal.
        Err(_) => return Ok(()),
    };
    let (side, terms) = match open(request).await {
        Ok(opened) => opened,
        Err(refusal) => return greeting::write(&mut stdout, &Answer::Refused(refusal)).await,
    };
    let ended = attend(&side, terms, stdin, stdout).await;
    let closing = tokio::task::spawn_blocking(move || side.close());
    // A disk that hangs does not keep a far side that nobody needs.
    let _ = tokio::time::timeout(LAST_SYNC, closing).await;
    ended
}

/// Answers for `side`, and serves it until stdin ends.
async fn attend<R, W>(side: &Arc<Side>, terms: Terms, stdin: R, mut stdout: W) -> std::io::Result<()>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let far = match Far::start(side, terms).await {
        Ok(far) => far,
        Err(refusal) => return greeting::write(&mut stdout, &Answer::Refused(refusal)).await,
    };
    greeting::write(&mut stdout, &Answer::Ready(far.ready.clone())).await?;
    let (address, presence) = (far.address, Arc::clone(&far.presence));
    let (aside, opened) = oneshot::channel();
    let aside = far.alike.map(|_| aside);
    let (asked, alike) = (Arc::clone(side), far.alike);
    let mut tasks = JoinSet::new();
    tasks.spawn(far.serve());
    tasks.spawn(async move { asked.tell_alike(alike, through_ssh::aside(opened).await).await });
    let ended = tokio::select! {
        ended = through_ssh::far_end(stdin, stdout, address, aside) => ended,
        () = presence.deserted(PATIENCE) => {
            tracing::warn!("the far side ends, as there was no session for an hour: what has arrived is kept");
            Ok(())
        }
    };
    if let Err(error) = &ended
        && !has_gone(error)
    {
        tracing::warn!("the far side ends, as what ssh carries broke off: {error}");
    }
    // What they hold goes with them: in this process's last moment nothing is sure to be dropped.
    tasks.shutdown().await;
    ended
}

/// Whether it is only the near side's end, in the middle of what was said.
fn has_gone(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionReset | UnexpectedEof)
}

/// What is to be known of a side besides what it is to answer for it.
struct Terms {
    ports: Option<(u16, u16)>,
    only_file: bool,
    /// The key of the fingerprints by which the two sides find out what they have alike, if they do.
    alike: Option<[u8; 32]>,
    /// The near side knows `changed`.
    changes: bool,
}

struct Far {
    side: Arc<Side>,
    listener: TcpListener,
    /// On loopback, for what comes through ssh: a firewall may keep a host from its own addresses.
    inner: Option<TcpListener>,
    /// Of the same number, where it was free.
    udp: Option<Port>,
    /// What comes through ssh goes to.
    address: SocketAddr,
    tls: ServerTls,
    ready: Ready,
    /// The key of the fingerprints by which the two sides find out what they have alike, if they do.
    alike: Option<[u8; 32]>,
    presence: Arc<Presence>,
}

/// What this side is to the copy.
enum Side {
    Receives {
        landing: Arc<Landing>,
        key: [u8; 16],
        token: String,
        /// The near side's last session: one whose connection it has lost keeps nothing from it.
        seat: Seat,
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

fn other_version(agent: &str) -> Refusal {
    let message = format!(
        "the far side is terahaul {} and this side is {agent}: they do not understand each other, upgrade the older of the two",
        env!("CARGO_PKG_VERSION"),
    );
    Refusal { reason: Reason::Version, message }
}

/// Opens what was named. It is to be [closed](Side::close) whatever comes of it.
async fn open(request: Request) -> Result<(Arc<Side>, Terms), Refusal> {
    let token = token().map_err(failed)?;
    let Request { task, key, alike, ports, changes, .. } = request;
    let opening = tokio::task::spawn_blocking(move || {
        let (side, only_file) = open_side(task, key, alike, token)?;
        let alike = alike.filter(|_| side.may_have_some());
        Ok((Arc::new(side), Terms { ports, only_file, alike, changes }))
    });
    opening.await.map_err(failed)?.map_err(|error: CopyError| error.refusal())
}

fn token() -> Result<String, &'static str> {
    let mut secret = [0; 32];
    getrandom::fill(&mut secret).map_err(|_| "the far system gives no random numbers")?;
    Ok(data_encoding::BASE64URL_NOPAD.encode(&secret))
}

/// Where a user's home is; without a name, that of who this is.
fn home_of(user: &[u8]) -> Option<PathBuf> {
    match user {
        b"" => std::env::home_dir(),
        user => terahaul_tree::home_of(str::from_utf8(user).ok()?),
    }
}

fn open_side(
    task: Task,
    key: [u8; 16],
    alike: Option<[u8; 32]>,
    token: String,
) -> Result<(Side, bool), CopyError> {
    let there = |path: &[u8]| far_path(path, home_of);
    match task {
        Task::Receive(Destination { path, names, only_file, rules, selection, top }) => {
            if let Some(user) = unknown_user(&path, home_of) {
                let [user, path] = [user, &path].map(|text| String::from_utf8_lossy(text).into_owned());
                return Err(CopyError::NoSuchUser { user, path });
            }
            let base = settle(&there(&path), only_file)?;
            let names = selection.top_names().unwrap_or(names);
            let asked = Asked { names, patterns: Vec::new(), top: top.map(Top::checked).transpose()? };
            let landing = Arc::new(Landing::open(base, asked, key, &rules, &selection)?);
            Ok((
                Side::Receives { landing, key, token, seat: Seat::default(), finished: Default::default() },
                false,
            ))
        }
        Task::Send(Sources { paths, selection, kept, compare }) => {
            let is_home = |path: &&Name| selection.list.is_none() && is_home_of_another(&path.0, home_of);
            if let Some(Name(home)) = paths.iter().find(is_home) {
                return Err(CopyError::Home(String::from_utf8_lossy(home).into_owned()));
            }
            let paths: Vec<PathBuf> = paths.iter().flat_map(|path| expand(&there(&path.0))).collect();
            let only_file = is_only_file(&paths, &selection);
            let offer = Arc::new(Offer::open(&paths, &selection, kept, compare)?.asking_first(alike));
            Ok((Side::Sends { offer, key, token }, only_file))
        }
    }
}

impl Far {
    /// Listens, and has what is sent walked.
    async fn start(
        side: &Arc<Side>,
        Terms { ports, only_file, alike, changes }: Terms,
    ) -> Result<Self, Refusal> {
        let certificate = Certificate::for_one_session().map_err(failed)?;
        let pin = certificate.fingerprint().0;
        let tls = ServerTls::new(certificate.chain, certificate.key).map_err(failed)?;
        let Listening { listener, udp, reached } = Listening::start(listening::reached_at(), ports).await?;
        let port = listener.local_addr().map_err(failed)?.port();
        let inner = through_ssh::listen_on_loopback().await.ok();
        let address = inner.as_ref().unwrap_or(&listener).local_addr().map_err(failed)?;
        let ready = Ready {
            version: greeting::VERSION,
            agent: concat!("terahaul/", env!("CARGO_PKG_VERSION")).to_owned(),
            address: reached,
            port,
            pin,
            token: side.token().to_owned(),
            only_file,
            top: match &**side {
                Side::Sends { offer, .. } => offer.top().map(Into::into),
                Side::Receives { .. } => None,
            },
            asks: alike.is_some(),
            changes: true,
        };
        if let Side::Sends { offer, .. } = &**side {
            if changes {
                offer.tell_changes();
            }
            let walking = Arc::clone(offer);
            std::thread::Builder::new()
                .name("walk".into())
                .spawn(move || walking.walk_and_hash_ahead())
                .map_err(|error| failed(terahaul_store::said_of_no_thread(&error)))?;
        }
        let (side, presence) = (Arc::clone(side), Presence::new());
        Ok(Self { side, listener, inner, udp, address, tls, ready, alike, presence })
    }

    async fn serve(self) {
        let sessions = Arc::new(Sessions::with_udp(self.udp));
        let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        let (mut listener, mut inner) = (Listener::from(self.listener), self.inner.map(Listener::from));
        loop {
            let (socket, peer) = match &mut inner {
                Some(inner) => tokio::select! {
                    accepted = listener.accept() => accepted,
                    accepted = inner.accept() => accepted,
                },
                None => listener.accept().await,
            };
            let Ok(permit) = Arc::clone(&room).try_acquire_owned() else { continue };
            let (side, tls, sessions) =
                (Shared(Arc::clone(&self.side)), self.tls.clone(), Arc::clone(&sessions));
            let presence = Arc::clone(&self.presence);
            tokio::spawn(async move {
                match accept(socket, &tls).await {
                    Ok(Incoming::Control(stream)) => {
                        let _present = presence.enter();
                        let secret = Secret::of_server(stream.get_ref().1);
                        run_control(&side, *stream, peer.ip(), &sessions, secret).await
                    }
                    Ok(Incoming::Data(channel, bind)) => {
                        if let Err(error) = sessions.bind(*channel, &bind, permit) {
                            tracing::debug!(%peer, "a data channel was refused: {error}");
                        }
                    }
                    Ok(Incoming::Https(_) | Incoming::Http(_)) => {}
                    Err(error) => tracing::debug!(%peer, "{error}"),
                }
            });
        }
    }
}

impl Side {
    /// Whether it pays to find out what the two sides have alike. Blocks.
    fn may_have_some(&self) -> bool {
        match self {
            Self::Receives { landing, .. } => landing.may_have_some(),
            // The near side says so.
            Self::Sends { .. } => true,
        }
    }

    /// Finds out what the two sides have alike, on a stream to the near one.
    async fn tell_alike(&self, key: Option<[u8; 32]>, aside: Option<Aside>) {
        match (self, key, aside) {
            (Self::Receives { landing, .. }, Some(key), Some(aside)) => {
                alike::answer(aside, landing, key).await;
            }
            (Self::Receives { .. }, ..) => {}
            (Self::Sends { offer, .. }, _, aside) => alike::ask(aside, offer).await,
        }
    }

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
        COPY
    }

    fn has_delta(&self) -> bool {
        true
    }

    async fn caller(&self, credential: &str, _: IpAddr) -> Result<(), WireError> {
        if bool::from(credential.as_bytes().ct_eq(self.0.token().as_bytes())) {
            Ok(())
        } else {
            Err(WireError::fatal(ErrorCode::Denied, "the token is not this copy's"))
        }
    }

    /// The token is this copy's, and good for as long as it lasts.
    async fn recheck(&self, (): &()) -> Result<(), WireError> {
        Ok(())
    }

    async fn open_send(&self, (): &(), _: OpenSend) -> Result<Filling<FarFill>, WireError> {
        let Side::Receives { landing, key, seat, finished, .. } = &*self.0 else { return Err(other_way()) };
        let fill = FarFill { side: Arc::clone(&self.0), landing: Arc::clone(landing), seated: seat.take() };
        let finished = *finished.lock().await;
        match finished {
            None => Ok(Filling::Open(fill)),
            Some(landed) => {
                let blocks = landing.inbound().with(|receiver| receiver.layout().block_count()) as u32;
                let opened = Opened { transfer: *key, ..fill.opened() };
                Ok(Filling::Finished {
                    opened,
                    blocks,
                    word: last_word(landed, landing.late_failures(), Walked::default())?,
                })
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

/// As many failures as there is room for, and how many there are besides.
fn last_word(
    landed: Landed,
    Failures { listed, unlisted }: Failures,
    Walked { errors, kept }: Walked,
) -> Result<SignedWord, WireError> {
    let mut room = MOST_LISTED;
    let mut failed = Vec::new();
    let mut more: BTreeMap<String, u64> =
        unlisted.into_iter().map(|(cause, count)| (cause.name().to_owned(), count)).collect();
    for Failure { path, cause, message } in listed {
        room = room.saturating_sub(path.len() + message.len());
        if room > 0 {
            failed.push((path, cause.name().into(), message));
        } else {
            *more.entry(cause.name().into()).or_default() += 1;
        }
    }
    let kept = kept.iter().map(|path| HEXLOWER.encode(path.as_bytes())).collect();
    let said = serde_json::to_vec(&LastWord { landed, failed, walk_errors: errors, kept, more })
        .map_err(|error| WireError::fatal(ErrorCode::Internal, error.to_string()))?;
    Ok(SignedWord { said, signature: String::new() })
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

#[cfg(test)]
mod tests;
