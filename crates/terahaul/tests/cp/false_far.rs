//! A far side made by the test: it greets as the real one does, and then says what no honest one would.

use std::fs;
use std::net::IpAddr;
use std::sync::Arc;

use terahaul_copy::greeting::{self, Answer, Ready};
use terahaul_copy::top::Top;
use terahaul_core::{BlockShape, EntryIndex, Receiver};
use terahaul_net::accept::{Incoming, accept};
use terahaul_net::channel::Placement;
use terahaul_net::server::{Appended, Fill, Filling, Manifest, Serve, Service, run_control};
use terahaul_net::session::{Sessions, SignedWord, Telling};
use terahaul_net::tls::{Certificate, ServerTls};
use terahaul_store::{BlockSource, EntryFailure, Inbound, MemoryLedger, Nowhere, piece_at};
use terahaul_wire::{Batch, COPY, ErrorCode, Failed, OpenReceive, OpenSend, Opened, WireError};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

use crate::sshd::Sshd;

/// What it says.
#[derive(Clone, Default)]
pub struct Script {
    /// To a sender, of each batch, instead of the truth.
    pub appended: Option<fn(&Batch) -> Appended>,
    /// To a sender: which entries it is to hold.
    pub holds: Vec<EntryIndex>,
    pub notes: Vec<Vec<u8>>,
    pub last_word: Vec<u8>,
    /// To a sender that declares entries.
    pub refuses: Option<WireError>,
    /// To a receiver, batch by batch.
    pub manifest: Vec<Batch>,
    /// To a receiver, before the manifest.
    pub failed: Vec<Failed>,
    /// To a receiver, of what it has asked for.
    pub only_file: bool,
    pub top: Option<Top>,
}

/// The far side; ended when dropped.
pub struct FalseFar {
    /// For `--far-command`.
    pub command: String,
    _runtime: Runtime,
}

impl FalseFar {
    pub fn start(ssh: &Sshd, script: Script) -> Self {
        let runtime = Runtime::new().unwrap();
        let answer = runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let certificate = Certificate::for_one_session().unwrap();
            let ready = Ready {
                version: greeting::VERSION,
                agent: "terahaul/0".into(),
                address: "127.0.0.1".parse().ok(),
                port: listener.local_addr().unwrap().port(),
                pin: certificate.fingerprint().0,
                token: "token".into(),
                only_file: script.only_file,
                top: script.top.clone(),
                asks: false,
                changes: true,
            };
            let tls = ServerTls::new(certificate.chain, certificate.key).unwrap();
            tokio::spawn(serve(listener, tls, Liar(Arc::new(script))));
            Answer::Ready(ready)
        });
        Self { command: answering(ssh, &answer), _runtime: runtime }
    }
}

/// A program that gives this answer, and then waits until nobody listens.
pub fn answering(ssh: &Sshd, answer: &Answer) -> String {
    let mut bytes = Vec::new();
    Runtime::new().unwrap().block_on(greeting::write(&mut bytes, answer)).unwrap();
    fs::write(ssh.path("answer"), bytes).unwrap();
    ssh.script("false-far", &format!("cat {}; exec cat > /dev/null", ssh.path("answer").display()))
}

async fn serve(listener: TcpListener, tls: ServerTls, liar: Liar) {
    let sessions = Arc::new(Sessions::default());
    while let Ok((socket, peer)) = listener.accept().await {
        let (tls, liar, sessions) = (tls.clone(), liar.clone(), Arc::clone(&sessions));
        tokio::spawn(async move {
            match accept(socket, &tls).await {
                Ok(Incoming::Control(stream)) => {
                    run_control(&liar, *stream, peer.ip(), &sessions, None).await
                }
                Ok(Incoming::Data(channel, bind)) => drop(sessions.bind(*channel, &bind, ())),
                _ => {}
            }
        });
    }
}

#[derive(Clone)]
struct Liar(Arc<Script>);

impl Service for Liar {
    type Caller = ();
    type Fill = Taker;
    type Serve = Liar;

    fn capabilities(&self) -> &'static [&'static str] {
        COPY
    }

    fn has_delta(&self) -> bool {
        true
    }

    async fn caller(&self, _: &str, _: IpAddr) -> Result<(), WireError> {
        Ok(())
    }

    async fn recheck(&self, (): &()) -> Result<(), WireError> {
        Ok(())
    }

    async fn open_send(&self, (): &(), _: OpenSend) -> Result<Filling<Taker>, WireError> {
        let receiver = Receiver::resuming(self.placement().layout(), Default::default(), []);
        let inbound = Inbound::start(receiver, Arc::new(Nowhere), Arc::new(MemoryLedger::default())).unwrap();
        Ok(Filling::Open(Taker { script: Arc::clone(&self.0), inbound: Arc::new(inbound) }))
    }

    async fn open_receive(&self, (): &(), _: &OpenReceive) -> Result<Liar, WireError> {
        Ok(self.clone())
    }
}

/// Takes whatever comes.
struct Taker {
    script: Arc<Script>,
    inbound: Arc<Inbound>,
}

impl Fill for Taker {
    type Manifest = Told;
    type Looked = Batch;

    fn opened(&self) -> Opened {
        Opened::default()
    }

    fn inbound(&self) -> Arc<Inbound> {
        Arc::clone(&self.inbound)
    }

    fn manifest(&self) -> Result<Told, WireError> {
        Ok(Told(Vec::new().into_iter()))
    }

    async fn look(&self, batch: Batch) -> Result<Batch, WireError> {
        Ok(batch)
    }

    async fn append(&self, batch: Batch) -> Result<Appended, WireError> {
        if let Some(error) = &self.script.refuses {
            return Err(error.clone());
        }
        self.inbound.with(|receiver| receiver.append_batch(batch.sizes(), batch.seal)).unwrap();
        let honest = |batch: &Batch| Appended { end: batch.end(), ..Appended::default() };
        Ok(self.script.appended.unwrap_or(honest)(&batch))
    }

    fn tell_bases(&self) -> Option<Telling> {
        let (_, messages) = tokio::sync::mpsc::channel(1);
        Some(Telling { messages, advise: Box::new(|_| {}) })
    }

    fn held(&self, _: EntryIndex) -> Vec<EntryIndex> {
        self.script.holds.clone()
    }

    async fn fail(&self, _: Vec<EntryFailure>) -> Result<(), WireError> {
        Ok(())
    }

    async fn finish(&self) -> Result<SignedWord, WireError> {
        Ok(SignedWord { said: self.script.last_word.clone(), signature: String::new() })
    }

    fn handle_note(&self, _: Vec<u8>) -> Result<(), WireError> {
        Ok(())
    }

    fn take_notes(&self) -> Vec<Vec<u8>> {
        self.script.notes.clone()
    }
}

impl Serve for Liar {
    type Manifest = Told;

    fn opened(&self) -> Opened {
        Opened::default()
    }

    fn block_limit(&self) -> u64 {
        u64::from(u32::MAX)
    }

    fn placement(&self) -> Placement {
        Placement::Accepted
    }

    fn source(&self) -> Arc<dyn BlockSource> {
        Arc::new(Evil)
    }

    fn manifest(&self) -> Result<Told, WireError> {
        Ok(Told(self.0.manifest.clone().into_iter()))
    }

    async fn failed(&self, from: EntryIndex) -> Result<Vec<Failed>, WireError> {
        Ok(self.0.failed.iter().filter(|failed| failed.entry >= from.0).cloned().collect())
    }

    fn handle_failed(&self, _: &[Failed]) {}

    fn word(&self) -> Result<SignedWord, WireError> {
        Ok(SignedWord { said: self.0.last_word.clone(), signature: String::new() })
    }

    async fn recheck(&self) -> Result<(), WireError> {
        Ok(())
    }

    fn handle_finished(&self) {}
}

/// A manifest that is known.
struct Told(std::vec::IntoIter<Batch>);

impl Manifest for Told {
    async fn next(&mut self) -> Result<Option<Batch>, WireError> {
        Ok(self.0.next())
    }
}

/// Every file holds `evil`.
struct Evil;

impl BlockSource for Evil {
    fn read_block(
        &self,
        shape: &BlockShape,
        buffer: &mut [u8],
        emit: &mut dyn FnMut(&mut [u8]) -> std::io::Result<()>,
    ) -> std::io::Result<Vec<EntryFailure>> {
        let mut at = 0;
        while at < shape.len {
            let piece = piece_at(buffer, at, shape.len);
            piece.iter_mut().zip(b"evil".iter().cycle()).for_each(|(byte, evil)| *byte = *evil);
            at += piece.len() as u32;
            emit(piece)?;
        }
        Ok(Vec::new())
    }
}

/// An error in words that would paint a terminal.
pub fn painted() -> WireError {
    WireError::fatal(ErrorCode::Internal, "\x1b[2J\x1b[31mall is well\r\nterahaul: done")
}
