//! A server that has nothing but one finished transfer.

use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering};

use terahaul_core::{EntryIndex, FailureCause};
use terahaul_store::{BlockSource, EntryFailure, Inbound};
use terahaul_wire::{Cause, Failed};
use tokio::io::DuplexStream;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::*;
use crate::channel::Placement;
use crate::session::SignedWord;

/// Whose callers are as good as their token.
#[derive(Default)]
struct Shelf {
    revoked: AtomicBool,
}

/// Nobody fills anything here, nor is served.
struct Nobody(Infallible);

impl Manifest for Nobody {
    async fn next(&mut self) -> Result<Option<Batch>, WireError> {
        match self.0 {}
    }
}

impl Fill for Nobody {
    type Manifest = Self;
    type Looked = Batch;

    fn opened(&self) -> Opened {
        match self.0 {}
    }

    fn inbound(&self) -> Arc<Inbound> {
        match self.0 {}
    }

    fn manifest(&self) -> Result<Self, WireError> {
        match self.0 {}
    }

    async fn look(&self, _: Batch) -> Result<Batch, WireError> {
        match self.0 {}
    }

    async fn append(&self, _: Batch) -> Result<Appended, WireError> {
        match self.0 {}
    }

    async fn fail(&self, _: Vec<EntryFailure>) -> Result<(), WireError> {
        match self.0 {}
    }

    async fn finish(&self) -> Result<SignedWord, WireError> {
        match self.0 {}
    }
}

impl Serve for Nobody {
    type Manifest = Self;

    fn opened(&self) -> Opened {
        match self.0 {}
    }

    fn block_limit(&self) -> u64 {
        match self.0 {}
    }

    fn placement(&self) -> Placement {
        match self.0 {}
    }

    fn source(&self) -> Arc<dyn BlockSource> {
        match self.0 {}
    }

    fn manifest(&self) -> Result<Self, WireError> {
        match self.0 {}
    }

    async fn failed(&self, _: EntryIndex) -> Result<Vec<Failed>, WireError> {
        match self.0 {}
    }

    fn handle_failed(&self, _: &[Failed]) {
        match self.0 {}
    }

    fn word(&self) -> Result<SignedWord, WireError> {
        match self.0 {}
    }

    async fn recheck(&self) -> Result<(), WireError> {
        match self.0 {}
    }

    fn handle_finished(&self) {
        match self.0 {}
    }
}

impl Service for Shelf {
    type Caller = ();
    type Fill = Nobody;
    type Serve = Nobody;

    async fn caller(&self, _: &str, _: IpAddr) -> Result<(), WireError> {
        Ok(())
    }

    async fn recheck(&self, (): &()) -> Result<(), WireError> {
        match self.revoked.load(Ordering::Relaxed) {
            true => Err(WireError::fatal(ErrorCode::Denied, "the token was revoked")),
            false => Ok(()),
        }
    }

    async fn open_send(&self, (): &(), _: OpenSend) -> Result<Filling<Nobody>, WireError> {
        let word = SignedWord { said: b"{}".to_vec(), signature: "signature".into() };
        Ok(Filling::Finished { opened: Opened::default(), blocks: 2, word })
    }

    async fn open_receive(&self, (): &(), _: &OpenReceive) -> Result<Nobody, WireError> {
        Err(WireError::fatal(ErrorCode::NotFound, "there is nothing to receive"))
    }
}

/// A client of the shelf that wants to send.
struct Client {
    reader: ControlReader<tokio::io::ReadHalf<DuplexStream>>,
    writer: ControlWriter<tokio::io::WriteHalf<DuplexStream>>,
    session: JoinHandle<()>,
}

impl Client {
    async fn open(shelf: &Arc<Shelf>, sessions: &Arc<Sessions>, peer: IpAddr) -> Self {
        let (near, far) = tokio::io::duplex(1 << 16);
        let (shelf, sessions) = (Arc::clone(shelf), Arc::clone(sessions));
        let session = tokio::spawn(async move { run_control(&*shelf, far, peer, &sessions, None).await });
        let (read, write) = tokio::io::split(near);
        let mut client =
            Self { reader: ControlReader::new(read), writer: ControlWriter::new(write), session };
        let hello = Hello { versions: vec![VERSION], capabilities: Vec::new(), agent: "test".into() };
        for message in [
            Message::Hello(hello),
            // As whoever is asked for a credential may answer and send, before there is a session.
            Message::Pong,
            Message::Authenticate("token".into()),
            Message::Ping,
            Message::OpenSend(OpenSend::default()),
        ] {
            client.say(message).await;
        }
        client
    }

    async fn say(&mut self, message: Message) {
        self.writer.send(&message).await.unwrap();
    }

    /// What it hears until one of these two comes, and that one.
    async fn hear_last(&mut self) -> Message {
        loop {
            match self.reader.next().await.unwrap() {
                last @ (Message::ManifestEnd | Message::Statement(..) | Message::Error(_)) => return last,
                Message::Ping => self.say(Message::Pong).await,
                _ => {}
            }
        }
    }
}

fn peer(last: u8) -> IpAddr {
    IpAddr::from([192, 0, 2, last])
}

/// A connection that was lost while this end published: the client's next session begins and ends as each does.
#[tokio::test]
async fn a_client_that_missed_the_end_is_told_it_whatever_each_session_says_first() {
    let mut client = Client::open(&Arc::default(), &Arc::default(), peer(1)).await;
    let failed = Failed { entry: 1, cause: Cause::from(FailureCause::Changed), detail: String::new() };
    for message in [Message::Failed(vec![failed]), Message::Ping, Message::Note(vec![7])] {
        client.say(message).await;
    }
    client.say(Message::OfferUdp(Default::default())).await;
    client.say(Message::Finish).await;
    assert_eq!(client.hear_last().await, Message::ManifestEnd);
    assert_eq!(client.hear_last().await, Message::Statement(b"{}".to_vec(), "signature".into()));
}

/// They take as many connections, tasks and transfers in memory as others do.
#[tokio::test]
async fn sessions_on_a_finished_transfer_are_counted() {
    let (shelf, sessions) = (Arc::default(), Arc::default());
    let mut clients = Vec::new();
    for _ in 0..64 {
        let mut client = Client::open(&shelf, &sessions, peer(1)).await;
        assert_eq!(client.hear_last().await, Message::ManifestEnd);
        clients.push(client);
    }
    let refused = Client::open(&shelf, &sessions, peer(1)).await.hear_last().await;
    assert!(
        matches!(&refused, Message::Error(error) if error.code == ErrorCode::Unavailable && error.retry),
        "{refused:?}"
    );
    assert_eq!(Client::open(&shelf, &sessions, peer(2)).await.hear_last().await, Message::ManifestEnd);
    let mut first = clients.remove(0);
    first.say(Message::Finish).await;
    assert!(matches!(first.hear_last().await, Message::Statement(..)));
    assert_eq!(Client::open(&shelf, &sessions, peer(1)).await.hear_last().await, Message::ManifestEnd);
}

#[tokio::test(start_paused = true)]
async fn a_session_on_a_finished_transfer_ends_with_its_token() {
    let shelf: Arc<Shelf> = Arc::default();
    let mut client = Client::open(&shelf, &Arc::default(), peer(1)).await;
    assert_eq!(client.hear_last().await, Message::ManifestEnd);
    shelf.revoked.store(true, Ordering::Relaxed);
    let told = timeout(2 * RECHECK, client.hear_last()).await.unwrap();
    assert!(matches!(&told, Message::Error(error) if error.code == ErrorCode::Denied), "{told:?}");
}

/// Whoever speaks to it waits, and looked at nothing else.
#[tokio::test(start_paused = true)]
async fn a_session_ends_with_its_token_though_its_client_does_not_read() {
    let shelf: Arc<Shelf> = Arc::default();
    let mut client = Client::open(&shelf, &Arc::default(), peer(1)).await;
    while timeout(Duration::from_secs(1), client.say(Message::Ping)).await.is_ok() {}
    shelf.revoked.store(true, Ordering::Relaxed);
    timeout(2 * RECHECK + LAST_WORDS + Duration::from_secs(5), client.session).await.unwrap().unwrap();
}
