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
    let far = match open(request).await {
        Ok(far) => far,
        Err(refusal) => return greeting::write(&mut stdout, &Answer::Refused(refusal)).await,
    };
    greeting::write(&mut stdout, &Answer::Ready(far.ready.clone())).await?;
    let side = Arc::clone(&far.side);
    let (address, presence) = (far.address, Arc::clone(&far.presence));
    let (aside, opened) = oneshot::channel();
    let aside = far.alike.map(|_| aside);
    let (asked, alike) = (Arc::clone(&side), far.alike);
    let mut tasks = JoinSet::new();
    tasks.spawn(far.serve());
    tasks.spawn(async move { asked.tell_alike(alike, through_ssh::aside(opened).await).await });
    let ended = tokio::select! {
        ended = through_ssh::far_end(stdin, stdout, address, aside) => ended,
        () = presence.deserted(PATIENCE) => Ok(()),
    };
    // What they hold goes with them: in this process's last moment nothing is sure to be dropped.
    tasks.shutdown().await;
    let closing = tokio::task::spawn_blocking(move || side.close());
    // A disk that hangs does not keep a far side that nobody needs.
    let _ = tokio::time::timeout(LAST_SYNC, closing).await;
    ended
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

async fn open(request: Request) -> Result<Far, Refusal> {
    let token = token().map_err(failed)?;
    let (key, alike, changes, task_token) = (request.key, request.alike, request.changes, token.clone());
    let opening = tokio::task::spawn_blocking(move || {
        let (side, only_file) = open_side(request.task, key, alike, task_token)?;
        let alike = alike.filter(|_| side.may_have_some());
        Ok((side, only_file, alike))
    });
    let opened = opening.await.map_err(failed)?;
    let (side, only_file, alike) = opened.map_err(|error: CopyError| error.refusal())?;
    let side = Arc::new(side);
    let certificate = Certificate::for_one_session().map_err(failed)?;
    let pin = certificate.fingerprint().0;
    let tls = ServerTls::new(certificate.chain, certificate.key).map_err(failed)?;
    let Listening { listener, udp, reached } =
        Listening::start(listening::reached_at(), request.ports).await?;
    let port = listener.local_addr().map_err(failed)?.port();
    let inner = through_ssh::listen_on_loopback().await.ok();
    let address = inner.as_ref().unwrap_or(&listener).local_addr().map_err(failed)?;
    let ready = Ready {
        version: greeting::VERSION,
        agent: concat!("terahaul/", env!("CARGO_PKG_VERSION")).to_owned(),
        address: reached,
        port,
        pin,
        token,
        only_file,
        top: match &*side {
            Side::Sends { offer, .. } => offer.top().map(Into::into),
            Side::Receives { .. } => None,
        },
        asks: alike.is_some(),
        changes: true,
    };
    if let Side::Sends { offer, .. } = &*side {
        if changes {
            offer.tell_changes();
        }
        let walking = Arc::clone(offer);
        std::thread::Builder::new()
            .name("walk".into())
            .spawn(move || walking.walk_and_hash_ahead())
            .map_err(|error| failed(terahaul_store::said_of_no_thread(&error)))?;
    }
    Ok(Far { side, listener, inner, udp, address, tls, ready, alike, presence: Presence::new() })
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
    async fn serve(self) {
        let sessions = Arc::new(Sessions::with_udp(self.udp));
        let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        let mut is_told = false;
        loop {
            let accepted = match &self.inner {
                Some(inner) => tokio::select! {
                    accepted = self.listener.accept() => accepted,
                    accepted = inner.accept() => accepted,
                },
                None => self.listener.accept().await,
            };
            let (socket, peer) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Of a cause that stays, such as a limit on open files, once is enough.
                    if !std::mem::replace(&mut is_told, true) {
                        tracing::warn!("cannot accept a connection: {error}");
                    }
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
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
mod tests {
    use std::os::unix::ffi::OsStrExt;

    use terahaul_core::{ByteCount, Entry, EntryIndex, EntryKind, EntryPath, Mtime};
    use terahaul_net::server::Fill;
    use terahaul_wire::Batch;

    use super::*;
    use crate::rules::{Rules, Selection};

    fn request(versions: Vec<u16>, path: &std::path::Path) -> Request {
        let destination = Destination {
            path: path.as_os_str().as_bytes().to_vec(),
            names: Vec::new(),
            only_file: false,
            rules: Rules::default(),
            selection: Selection::default(),
            top: None,
        };
        Request {
            versions,
            agent: "terahaul 9.9".into(),
            ports: None,
            key: [1; 16],
            task: Task::Receive(destination),
            alike: None,
            changes: true,
        }
    }

    /// What a far side answers, and that it ends when its stdin does.
    async fn answer_to(request: &Request) -> Answer {
        let (mut near, far) = tokio::io::duplex(1 << 16);
        let (stdin, stdout) = tokio::io::split(far);
        let running = tokio::spawn(run(stdin, stdout));
        greeting::write(&mut near, request).await.unwrap();
        let answer = greeting::read(&mut near).await.unwrap();
        drop(near);
        tokio::time::timeout(Duration::from_secs(20), running).await.unwrap().unwrap().unwrap_or_default();
        answer
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_near_side_of_another_version_is_told_which_to_upgrade() {
        let dir = tempfile::tempdir().unwrap();
        let answer = answer_to(&request(vec![99], dir.path())).await;
        let Answer::Refused(Refusal { reason: Reason::Version, message }) = answer else {
            panic!("{answer:?}");
        };
        assert!(message.contains("terahaul 9.9") && message.contains("upgrade the older"), "{message}");
        let newer = answer_to(&request(vec![99, greeting::VERSION], dir.path())).await;
        assert!(matches!(newer, Answer::Ready(Ready { version: greeting::VERSION, .. })), "{newer:?}");
    }

    /// What only vanished has an exit code of its own.
    #[test]
    fn what_is_too_much_to_be_listed_is_counted_by_cause() {
        let failures = |cause, count: usize| {
            let one = move |at| Failure { path: vec![b'a'; 200], cause, message: format!("{at}") };
            (0..count).map(one)
        };
        let all: Vec<_> =
            failures(FailureCause::Vanished, 1000).chain(failures(FailureCause::Unreadable, 7)).collect();
        let mut all = Failures::from(all);
        all.add_unlisted(FailureCause::Unreadable, 100);
        let word = last_word(Landed::default(), all, Walked::said(107, [])).unwrap();
        let failures = LastWord::read(&word.said).unwrap().failures();
        let listed = failures.listed.len() as u64;
        assert!((400..600).contains(&listed), "{listed}");
        let unlisted = [(FailureCause::Unreadable, 107), (FailureCause::Vanished, 1000 - listed)];
        assert_eq!(failures.unlisted, unlisted);
        let earlier = br#"{"landed":{"files":0,"folders":0,"links":0,"bytes":0,"unchanged":0,"touched":0,"removed":0,"limited":false,"resumed":false},"failed":[],"walk_errors":0}"#;
        assert_eq!(LastWord::read(earlier).unwrap().failures(), Failures::default());
    }

    /// The connection was lost after the sender's last word, and the next session is open before that word is done with.
    #[tokio::test(flavor = "multi_thread")]
    async fn two_sessions_that_finish_one_copy_hear_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let Task::Receive(task) = request(vec![1], dir.path()).task else { unreachable!() };
        let (side, _) = open_side(Task::Receive(task), [1; 16], None, "token".into()).unwrap();
        let Side::Receives { landing, .. } = &side else { unreachable!() };
        let landing = Arc::clone(landing);
        let side = Shared(Arc::new(side));
        let entry = Entry {
            path: EntryPath::new(*b"file").unwrap(),
            kind: EntryKind::File { size: ByteCount(0) },
            mtime: Mtime::default(),
            mode: 0o644,
            extra: None,
        };
        let batch = Batch { first: EntryIndex(0), entries: vec![entry], seal: true };
        landing.take(batch).unwrap();
        let [earlier, later] = [opened(&side).await, opened(&side).await];
        let first = earlier.finish().await.unwrap();
        assert_eq!(LastWord::read(&first.said).unwrap().landed.files, 1);
        assert_eq!(later.finish().await.unwrap().said, first.said);
        assert!(dir.path().join("file").exists());
    }

    /// What had half arrived in a session whose connection was lost stayed claimed for 45 seconds, until this side noticed, and was sent and
    /// refused again and again meanwhile.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_session_ends_when_its_near_side_connects_again() {
        let dir = tempfile::tempdir().unwrap();
        let Task::Receive(task) = request(vec![1], dir.path()).task else { unreachable!() };
        let (side, _) = open_side(Task::Receive(task), [1; 16], None, "token".into()).unwrap();
        let side = Shared(Arc::new(side));
        let earlier = opened(&side).await;
        let later = opened(&side).await;
        assert!(earlier.lost().await.retry);
        tokio::select! {
            biased;
            _ = later.lost() => panic!("it is the last one"),
            () = std::future::ready(()) => {}
        }
    }

    async fn opened(side: &Shared) -> FarFill {
        let Ok(Filling::Open(fill)) = side.open_send(&(), OpenSend::default()).await else {
            panic!("a near side may send")
        };
        fill
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_destination_that_cannot_be_is_refused_with_the_reason() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("file"), "").unwrap();
        let answer = answer_to(&request(vec![greeting::VERSION], &dir.path().join("file"))).await;
        assert!(
            matches!(&answer, Answer::Refused(Refusal { reason: Reason::Usage, message }) if message.contains("is not a folder")),
            "{answer:?}"
        );
    }
}
