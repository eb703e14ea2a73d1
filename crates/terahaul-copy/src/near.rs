//! The near side's hold of a far side: ssh, the greeting, and the two ways to its port.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use terahaul_core::ByteCount;
use terahaul_net::client::{Client, ClientError, ErrorKind, Options, Transport, Way as Transported};
use terahaul_net::endpoint::Endpoint;
use terahaul_net::tls::Fingerprint;
use tokio::sync::{oneshot, watch};
use yamux::Stream;

use crate::error::{CopyError, CopyErrorKind};
use crate::greeting::{self, Answer, GreetingError, Ready, Request, Task};
use crate::install::{self, RUN_INSTALLED};
use crate::job::Job;
use crate::operand::Host;
use crate::overheard::Overheard;
use crate::report::Report;
use crate::ssh::{Running, Ssh, describe, explain, is_of_ssh};
use crate::through_ssh::{self, Aside, NearEnd};

/// Longest wait for the far side's port. A blocked one says nothing, and a connection over half the world takes less.
const PATIENCE: Duration = Duration::from_secs(3);
/// How long ssh may take to end once a copy has failed: how it ends may be why.
const FAREWELL: Duration = Duration::from_secs(5);
/// How much later than the far side's end ssh may be seen to end.
const NOTICE: Duration = Duration::from_secs(1);
/// A start-up file that reads stdin takes the request for its own, and no answer ever comes; but ssh may be waiting for a password as well.
const LONGEST_SILENCE: Duration = Duration::from_secs(30);

/// What is `awaited`, of which `tell` is called once if it takes long.
async fn telling_of_silence<T>(awaited: impl Future<Output = T>, tell: impl FnOnce()) -> T {
    let mut awaited = std::pin::pin!(awaited);
    match tokio::time::timeout(LONGEST_SILENCE, &mut awaited).await {
        Ok(came) => came,
        Err(_) => {
            tell();
            awaited.await
        }
    }
}

/// Which way the bytes of a copy go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Way {
    /// From folder to folder on one machine.
    #[default]
    Local,
    /// Straight to the far side's port.
    Direct,
    /// Through ssh, because that was asked for.
    ThroughSsh,
    /// Through ssh, because this port is blocked.
    Blocked(u16),
    /// Through ssh, because the far side found no port to listen on where it could be reached.
    NoPort,
}

impl Way {
    /// What blocks travel by, where the session says that it is `transport`.
    pub(crate) fn carries(self, transport: Transported) -> Transported {
        match self {
            Self::Direct => transport,
            Self::ThroughSsh | Self::Blocked(_) | Self::NoPort => {
                Transported { why: "the data goes through ssh", ..transport }
            }
            Self::Local => Transported::default(),
        }
    }
}

/// A far side that answers. Dropping it ends ssh, and with it the far side.
pub struct FarSide {
    ready: Ready,
    ssh: Ssh,
    host: Host,
    relay: NearEnd,
    /// Where the far side opens one.
    aside: Option<oneshot::Receiver<Stream>>,
    /// How ssh ended, once it has.
    ended: watch::Receiver<Option<Ended>>,
    farewell: tokio::task::JoinHandle<()>,
    /// All was said, and ssh may end when it likes.
    done: Arc<AtomicBool>,
}

/// How ssh ended.
#[derive(Clone, Default)]
struct Ended {
    status: String,
    /// By itself, as far as that can be told; otherwise with what it ran.
    of_ssh: bool,
}

impl FarSide {
    /// Starts ssh and greets the far side. Installs it first where it is missing and that was asked for.
    pub(crate) async fn open(
        ssh: &Ssh,
        host: &Host,
        job: &Job,
        report: &dyn Report,
        key: [u8; 16],
        task: Task,
        alike: Option<[u8; 32]>,
    ) -> Result<Self, CopyError> {
        let request = Request {
            versions: vec![greeting::VERSION],
            agent: concat!("terahaul ", env!("CARGO_PKG_VERSION")).to_owned(),
            ports: job.ports,
            key,
            task,
            alike,
            changes: true,
        };
        let request = greeting::encoded(&request);
        let error = match Self::greet(ssh, host, report, &request).await {
            Err(error) if job.install && error.is_curable_by_installing() => error,
            opened => return opened,
        };
        tracing::debug!("{error}");
        install::check(ssh, host).await?;
        if matches!(error, CopyError::NotHeard { .. }) {
            // If ssh was at fault, it is not any more, and nothing may be wrong with the program there.
            match Self::greet(ssh, host, report, &request).await {
                Err(error) if error.is_curable_by_installing() => tracing::debug!("{error}"),
                opened => return opened,
            }
        }
        report.installing(&host.destination());
        install::install(ssh, host).await?;
        let installed = Ssh { far_command: Some(RUN_INSTALLED.to_owned()), ..ssh.clone() };
        Self::greet(&installed, host, report, &request).await
    }

    async fn greet(ssh: &Ssh, host: &Host, report: &dyn Report, request: &[u8]) -> Result<Self, CopyError> {
        if request.len() > greeting::LONGEST {
            let [named, most] = [request.len(), greeting::LONGEST].map(|len| ByteCount(len as u64));
            return Err(CopyError::TooMuchNamed { named, most });
        }
        let Running { mut child, mut stdin, mut stdout } = ssh.start(host)?;
        // If ssh has ended already, how it ended says more than a broken pipe.
        let _ = greeting::write_bytes(&mut stdin, request).await;
        let mut heard = Overheard::new(&mut stdout);
        let reading = greeting::read::<_, Answer>(&mut heard);
        let answer = match telling_of_silence(reading, || report.unanswered(&host.destination())).await {
            Ok(answer) => answer,
            Err(GreetingError::Garbled) => {
                let detail = heard.after("it gave no greeting");
                return Err(CopyError::NotTerahaul { host: host.destination(), detail });
            }
            Err(GreetingError::Connection(error)) => {
                drop(stdin);
                let status = tokio::time::timeout(FAREWELL, child.wait()).await;
                return Err(match status {
                    Ok(Ok(status)) if status.success() && request.len() > greeting::LONGEST_ONCE => {
                        let detail = "it may be of an older version, which takes no list of this length: upgrade it, or split the list".into();
                        CopyError::NotTerahaul { host: host.destination(), detail }
                    }
                    Ok(Ok(status)) => explain(ssh, host, status, &heard),
                    _ => CopyError::NotTerahaul {
                        host: host.destination(),
                        detail: heard.after(&error.to_string()),
                    },
                });
            }
        };
        let ready = match answer {
            Answer::Ready(ready) if ready.version == greeting::VERSION => ready,
            Answer::Ready(_) => {
                let detail = "it speaks another version: upgrade the older of the two programs".into();
                return Err(CopyError::NotTerahaul { host: host.destination(), detail });
            }
            Answer::Refused(refusal) => return Err(CopyError::Far(refusal)),
        };
        let (aside, awaited) = oneshot::channel();
        let (relay, driving) = NearEnd::new(stdout, stdin, aside);
        let aside = ready.asks.then_some(awaited);
        let (end, ended) = watch::channel(None);
        let done = Arc::new(AtomicBool::new(false));
        let is_done = Arc::clone(&done);
        let farewell = tokio::spawn(async move {
            let relayed = tokio::select! {
                relayed = driving => Some(relayed),
                // Whoever holds the far side has dropped it: closing stdin tells ssh.
                () = end.closed() => None,
            };
            if let Some(Err(error)) = relayed {
                tracing::debug!("the relay ended: {error}");
            }
            if is_done.load(Ordering::Relaxed) {
                return child.let_go();
            }
            let status = tokio::time::timeout(FAREWELL, child.wait()).await;
            let ended = match status {
                Ok(Ok(status)) => {
                    // A signal here ends what runs here.
                    let of_ssh = is_of_ssh(status) || status.code().is_none();
                    Ended { status: describe(status), of_ssh }
                }
                _ => Ended { status: "it stopped answering".to_owned(), of_ssh: true },
            };
            end.send_replace(Some(ended));
        });
        let (ssh, host) = (ssh.clone(), host.clone());
        Ok(Self { ready, ssh, host, relay, aside, ended, farewell, done })
    }

    /// What the far side said.
    pub(crate) fn ready(&self) -> &Ready {
        &self.ready
    }

    /// The stream on which the sending side asks what the other one has, once it is there; none where the far side opens none.
    pub(crate) fn take_aside(&mut self) -> impl Future<Output = Option<Aside>> + Send + use<> {
        let aside = self.aside.take();
        async { through_ssh::aside(aside?).await }
    }

    /// Runs `work` unless ssh ends before it.
    pub(crate) async fn guard<T>(
        &self,
        work: impl Future<Output = Result<T, CopyError>>,
    ) -> Result<T, CopyError> {
        let result = tokio::select! {
            biased;
            result = work => result,
            ended = self.ended() => return Err(ended),
        };
        match result {
            Err(error) if error.kind() == CopyErrorKind::Unreachable => {
                Err(self.broken_off().await.unwrap_or(error))
            }
            result => result,
        }
    }

    /// Returns once ssh has ended.
    async fn ended(&self) -> CopyError {
        let mut ended = self.ended.clone();
        let ended = ended.wait_for(Option::is_some).await;
        let Ended { status, of_ssh } = ended.ok().and_then(|ended| ended.clone()).unwrap_or_default();
        let host = self.host.destination();
        match of_ssh {
            true => CopyError::SshEnded { host, status },
            false => CopyError::FarEnded { host, status },
        }
    }

    /// How ssh has ended, if that is why nobody answers: whoever was spoken to may be seen to be gone before it is.
    async fn broken_off(&self) -> Option<CopyError> {
        tokio::time::timeout(NOTICE, self.relay.ended()).await.ok()?;
        Some(self.ended().await)
    }

    fn client(&self, host: String, port: u16) -> Result<Client, CopyError> {
        let endpoint = Endpoint { host, port, pin: Some(Fingerprint(self.ready.pin)) };
        let client = Client::new(endpoint, self.ready.token.clone())?;
        Ok(client.placing_accepted().with_patience(PATIENCE))
    }

    /// Opens a session: straight, or through ssh where that does not work. Through ssh there is no UDP.
    pub(crate) async fn connect<T>(
        &self,
        job: &Job,
        mut open: impl AsyncFnMut(Client, Options) -> Result<T, ClientError>,
    ) -> Result<(T, Way), CopyError> {
        let needs_udp = job.options.transport == Transport::Udp;
        if needs_udp && job.through_ssh {
            return Err(CopyError::UdpThroughSsh);
        }
        let straight = self.ready.address.filter(|_| !job.through_ssh);
        if let Some(address) = straight {
            if let Some(opened) = self.straight(address.to_string(), job, &mut open).await? {
                return Ok((opened, Way::Direct));
            }
            // Behind an address translation, as in a cloud, its own is not the one that it is reached at.
            if let Some(name) = self.ssh.name_besides(&self.host, address).await
                && let Some(opened) = self.straight(name, job, &mut open).await?
            {
                return Ok((opened, Way::Direct));
            }
        }
        if needs_udp {
            return Err(CopyError::NoPortForUdp { host: self.host.destination() });
        }
        let failed =
            |error: std::io::Error| CopyError::Local(format!("a port on loopback cannot be opened: {error}"));
        let relayed = self.relay.listen().await.map_err(failed)?;
        let options = Options { transport: Transport::Tcp, ..job.options };
        let opened = open(self.client(relayed.ip().to_string(), relayed.port())?, options).await?;
        let way = match straight {
            _ if job.through_ssh => Way::ThroughSsh,
            Some(_) => Way::Blocked(self.ready.port),
            None => Way::NoPort,
        };
        Ok((opened, way))
    }

    /// Opens a session at this host's port; `None` where nobody answers there, or somebody else does.
    async fn straight<T>(
        &self,
        at: String,
        job: &Job,
        open: &mut impl AsyncFnMut(Client, Options) -> Result<T, ClientError>,
    ) -> Result<Option<T>, CopyError> {
        let client = self.client(at, self.ready.port)?.leaving_from(job.local.clone());
        match open(client, job.options).await {
            Ok(opened) => Ok(Some(opened)),
            Err(error) if is_blocked(&error) => {
                tracing::debug!("not straight: {error}");
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Lets ssh and the far side end in order. Once a copy is `done` nobody waits for that: the far side has said that all is durable and
    /// in its place, and the end of ssh's stdin, which it has now, ends both. On a long path that takes another two round trips.
    pub(crate) async fn close(self, done: bool) {
        let Self { farewell, done: is_done, ended, relay, aside, .. } = self;
        is_done.store(done, Ordering::Relaxed);
        drop((ended, relay, aside));
        // A far side that hangs is killed with its ssh.
        let _ = tokio::time::timeout(FAREWELL, farewell).await;
    }
}

fn is_blocked(error: &ClientError) -> bool {
    matches!(error.kind(), ErrorKind::Unreachable | ErrorKind::Certificate)
        || matches!(error, ClientError::Tls { .. })
}

#[cfg(test)]
mod tests {
    use terahaul_core::EntryPath;

    use super::*;
    use crate::notes::Item;

    struct Nobody;

    impl Report for Nobody {
        fn started(&self, _: Way) {}
        fn unanswered(&self, _: &str) {}
        fn installing(&self, _: &str) {}
        fn named_link(&self, _: &EntryPath) {}
        fn item(&self, _: Item<'_>) {}
    }

    /// It ended between its answer and the first session, and what was told was the end of a TLS handshake with the relay.
    #[tokio::test]
    async fn what_fails_because_ssh_has_ended_is_told_as_that() {
        let folder = tempfile::tempdir().unwrap();
        let answer = folder.path().join("answer");
        let ready = Ready {
            version: greeting::VERSION,
            agent: "terahaul/0".into(),
            address: None,
            port: 1,
            pin: [0; 32],
            token: "token".into(),
            only_file: false,
            top: None,
            asks: false,
            changes: true,
        };
        let mut bytes = Vec::new();
        greeting::write(&mut bytes, &Answer::Ready(ready)).await.unwrap();
        std::fs::write(&answer, bytes).unwrap();
        let ssh = format!("sh -c 'cat {}; exit 255'", answer.display());
        let ssh = Ssh { rsh: Some(ssh.parse().unwrap()), ..Ssh::default() };
        let host = Host { user: None, name: "host".into(), port: None };
        let far = FarSide::greet(&ssh, &host, &Nobody, &[]).await.unwrap();
        far.ended.clone().wait_for(Option::is_some).await.unwrap();
        let lost = async { Err::<(), _>(CopyError::Lost("tls handshake eof".into())) };
        let error = far.guard(lost).await.unwrap_err();
        assert!(matches!(error, CopyError::SshEnded { .. }), "{error}");
    }
}
