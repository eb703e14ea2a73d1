//! A client that says whatever a test wants.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rustls::{ClientConnection, StreamOwned};
use terahaul_core::{
    BlockHasher, BlockNumber, ByteCount, Entry, EntryIndex, EntryKind, EntryPath, Hash, Layout, Mtime,
};
use terahaul_net::channel::{DataChannel, SealedWriter, connect_data};
use terahaul_net::endpoint::Endpoint;
use terahaul_net::tls::ClientTls;
use terahaul_wire::{
    Batch, ErrorCode, FrameHeader, Hello, Message, OpenSend, Opened, Trailer, VERSION, WireError,
    decode_message, encode_message,
};

use crate::rig::Depot;

pub struct Peer {
    stream: StreamOwned<ClientConnection, TcpStream>,
    heard: Vec<u8>,
    endpoint: Endpoint,
    address: SocketAddr,
    tls: ClientTls,
}

impl Peer {
    /// A control channel on which nothing was said.
    pub fn connect(depot: &Depot) -> Self {
        let endpoint: Endpoint = depot.url.parse().unwrap();
        let tls = ClientTls::new(endpoint.pin).unwrap();
        let address = depot.listen.parse().unwrap();
        let socket = TcpStream::connect(address).unwrap();
        socket.set_nodelay(true).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let connection =
            ClientConnection::new(Arc::clone(&tls.control), endpoint.server_name().unwrap()).unwrap();
        Self { stream: StreamOwned::new(connection, socket), heard: Vec::new(), endpoint, address, tls }
    }

    /// One that has said who it is.
    pub fn greet(depot: &Depot, credential: &str) -> Self {
        let mut peer = Self::connect(depot);
        peer.say(&Message::Hello(hello()));
        peer.say(&Message::Authenticate(credential.to_owned()));
        peer
    }

    /// One that sends a new transfer.
    pub fn open_send(depot: &Depot, name: &str) -> (Self, Opened) {
        let mut peer = Self::greet(depot, &depot.token);
        peer.say(&Message::OpenSend(OpenSend { name: name.to_owned(), ..OpenSend::default() }));
        let opened = peer.hear_opened();
        while peer.hear() != Some(Message::ManifestEnd) {}
        (peer, opened)
    }

    pub fn hear_opened(&mut self) -> Opened {
        match (self.hear(), self.hear()) {
            (Some(Message::Hello(_)), Some(Message::Opened(opened))) => opened,
            other => panic!("not opened: {other:?}"),
        }
    }

    pub fn say(&mut self, message: &Message) {
        self.say_bytes(&encode_message(message));
    }

    pub fn say_bytes(&mut self, bytes: &[u8]) {
        // The depot may have hung up; what it said before is still to be heard.
        let _ = self.stream.write_all(bytes).and_then(|()| self.stream.flush());
    }

    /// The next message, or `None` when the depot has hung up.
    pub fn hear(&mut self) -> Option<Message> {
        loop {
            if let Some((message, len)) = decode_message(&self.heard).unwrap() {
                self.heard.drain(..len);
                if message != Message::Ping {
                    return Some(message);
                }
                continue;
            }
            let mut piece = [0; 16 << 10];
            match self.stream.read(&mut piece) {
                Ok(0) => return None,
                Ok(more) => self.heard.extend_from_slice(&piece[..more]),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    panic!("the depot says nothing")
                }
                Err(_) => return None,
            }
        }
    }

    /// Says that this is all, while blocks may still be on their way, and waits for the depot's statement.
    pub fn finish(&mut self) {
        self.say(&Message::Finish);
        while !matches!(self.hear_more(), Message::Statement(..)) {}
    }

    fn hear_more(&mut self) -> Message {
        match self.hear() {
            Some(Message::Error(error)) => panic!("{error}"),
            Some(message) => message,
            None => panic!("the depot hung up"),
        }
    }

    /// How the depot ends the session.
    pub fn hear_end(&mut self) -> WireError {
        loop {
            match self.hear() {
                Some(Message::Error(error)) => {
                    assert_eq!(self.hear(), None, "an error ends the session");
                    assert!(error.message.contains([':', ';', ',']), "no remedy: {}", error.message);
                    return error;
                }
                Some(_) => {}
                None => panic!("the depot hung up without a word"),
            }
        }
    }

    #[track_caller]
    pub fn assert_ends(&mut self, code: ErrorCode) {
        let error = self.hear_end();
        assert_eq!(error.code, code, "{}", error.message);
    }

    /// Declares files of these sizes and waits until the depot has accepted them.
    pub fn declare(&mut self, sizes: &[u64]) -> Layout {
        let entries = sizes.iter().enumerate().map(|(number, size)| file(&format!("f{number}"), *size));
        self.say(&Message::Batch(Batch { first: EntryIndex(0), entries: entries.collect(), seal: true }));
        assert_eq!(self.hear(), Some(Message::Accepted(sizes.len() as u32)));
        let mut layout = Layout::new();
        for size in sizes {
            layout.append(Some(ByteCount(*size))).unwrap();
        }
        layout.seal();
        layout
    }

    pub fn channel(&self, secret: [u8; 32], number: u32) -> SealedWriter<TcpStream> {
        self.open_channel(secret, number).into_writer()
    }

    pub fn open_channel(&self, secret: [u8; 32], number: u32) -> DataChannel {
        let name = self.endpoint.server_name().unwrap();
        let config = Arc::clone(&self.tls.data);
        connect_data(self.address, None, name, config).unwrap().bind(secret, number).unwrap()
    }
}

pub fn hello() -> Hello {
    Hello { versions: vec![VERSION], capabilities: Vec::new(), agent: "hostile".into() }
}

pub fn file(path: &str, size: u64) -> Entry {
    Entry {
        path: EntryPath::new(path.as_bytes()).unwrap(),
        kind: EntryKind::File { size: ByteCount(size) },
        mtime: Mtime::default(),
        mode: 0o644,
        extra: None,
    }
}

/// `len` bytes that only `seed` decides.
pub fn content(seed: u8, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    blake3::Hasher::new().update(&[seed]).finalize_xof().fill(&mut bytes);
    bytes
}

pub fn value(layout: &Layout, block: u32, bytes: &[u8]) -> Hash {
    let mut hasher = BlockHasher::new(&layout.shape(BlockNumber(block)).unwrap());
    hasher.update(bytes);
    hasher.finish().value()
}

/// A frame, true or not.
pub fn send_frame(
    channel: &mut SealedWriter<TcpStream>,
    block: u32,
    len: u32,
    bytes: &[u8],
    value: Hash,
) -> std::io::Result<()> {
    channel.queue(&FrameHeader::Block { block: BlockNumber(block), len }.encode())?;
    channel.write(&mut bytes.to_vec())?;
    channel.queue(&Trailer(value).encode())?;
    channel.flush()
}
