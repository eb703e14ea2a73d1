//! What the two sides say over ssh's stdin and stdout before anything else.
//!
//! The near side writes one [`Request`]; the far side answers with one [`Answer`]. Each is a line that a shell's
//! start-up noise is not, a length and CBOR. Behind the answer, both directions carry the relay.

use std::net::IpAddr;

use minicbor::{Decode, Encode};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::rules::{Compare, Kept, Rules, Selection};
use crate::top::Top;

/// The greeting's own version. A far side of another one says so in the first field that it can read.
pub const VERSION: u16 = 1;
const MAGIC: &[u8; 16] = b"\0terahaul copy\n\0";
/// Longest request: what the user typed, which the system keeps short, and a list of paths (`--files-from`).
pub const LONGEST: usize = 64 << 20;
/// Longest request that earlier far sides take; they end without a word on a longer one.
pub(crate) const LONGEST_ONCE: usize = 8 << 20;
/// Longest answer, in which nothing grows with the copy, and longest message of any other kind.
pub(crate) const LONGEST_ANSWER: usize = 1 << 20;
/// What a shell's start-up files may print before the answer.
const MOST_NOISE: usize = 64 << 10;

/// What the near side wants.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Request {
    /// Versions of the greeting that it speaks, best first.
    #[n(0)]
    pub versions: Vec<u16>,
    /// Program and version.
    #[n(1)]
    pub agent: String,
    /// Ports that the far side may listen on, first and last; any free one without.
    #[n(2)]
    pub ports: Option<(u16, u16)>,
    /// The same for the same command, so that running it again resumes.
    #[cbor(n(3), with = "minicbor::bytes")]
    pub key: [u8; 16],
    /// What to do.
    #[n(4)]
    pub task: Task,
    /// What the two sides have alike is to be found out first, in fingerprints of this key. Earlier versions do not say, and do not
    /// know.
    #[cbor(n(5), with = "minicbor::bytes")]
    pub alike: Option<[u8; 32]>,
    /// It knows when a sender's file was last changed ([`Extra::changed`](terahaul_core::Extra)). Earlier versions refuse such entries.
    #[cbor(n(6), default)]
    pub changes: bool,
}

/// What the far side is to do.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Task {
    /// Receive into a destination there.
    #[n(0)]
    Receive(#[n(0)] Destination),
    /// Send sources there.
    #[n(1)]
    Send(#[n(0)] Sources),
}

/// What a request of any version begins with.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
struct Opening {
    #[n(0)]
    versions: Vec<u16>,
    #[n(1)]
    agent: String,
}

/// A request, as far as this version can read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Of this version.
    Request(Box<Request>),
    /// Of other versions only.
    Foreign {
        /// Program and version.
        agent: String,
    },
}

/// Where entries go, and what may come.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Destination {
    /// The path as the user wrote it.
    #[cbor(n(0), with = "minicbor::bytes")]
    pub path: Vec<u8>,
    /// The names that the sources arrive under; empty where one of them stands for its content, and where the selection has a
    /// list, which says more exactly what may come.
    #[n(1)]
    pub names: Vec<Name>,
    /// The only source is not a folder: a destination that is none is its new name.
    #[n(2)]
    pub only_file: bool,
    /// What is done with what is there.
    #[n(3)]
    pub rules: Rules,
    /// What the sender was told to leave out, which is not removed here.
    #[n(4)]
    pub selection: Selection,
    /// Of the folder whose content comes.
    #[n(5)]
    pub top: Option<Top>,
}

/// A path's component, as it is.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(transparent)]
pub struct Name(#[cbor(n(0), with = "minicbor::bytes")] pub Vec<u8>);

/// What is sent.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Sources {
    /// Paths as the user wrote them.
    #[n(0)]
    pub paths: Vec<Name>,
    /// Which entries of them.
    #[n(1)]
    pub selection: Selection,
    /// What is read of each.
    #[n(2)]
    pub kept: Kept,
    /// What the receiver compares by.
    #[n(3)]
    pub compare: Compare,
}

/// What the far side answers.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Answer {
    /// It listens.
    #[n(0)]
    Ready(#[n(0)] Ready),
    /// It cannot do this.
    #[n(1)]
    Refused(#[n(0)] Refusal),
}

/// A far side that listens.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Ready {
    /// The version of the greeting that it chose.
    #[n(0)]
    pub version: u16,
    /// Program and version.
    #[n(1)]
    pub agent: String,
    /// The address at which ssh has reached it, where there is one.
    #[cbor(n(2), with = "numeric")]
    pub address: Option<IpAddr>,
    /// Its port.
    #[n(3)]
    pub port: u16,
    /// SHA-256 of its certificate, which is for this copy only.
    #[cbor(n(4), with = "minicbor::bytes")]
    pub pin: [u8; 32],
    /// Lets in whoever presents it, for this copy only.
    #[n(5)]
    pub token: String,
    /// Of sources: the only one is not a folder.
    #[n(6)]
    pub only_file: bool,
    /// Of sources: the folder whose content they are.
    #[n(7)]
    pub top: Option<Top>,
    /// It opens a stream on which the sending side asks what the other one has. Earlier versions do not.
    #[cbor(n(8), default)]
    pub asks: bool,
    /// It knows when a sender's file was last changed.
    #[cbor(n(9), default)]
    pub changes: bool,
}

/// An address as text, or none: a name in its place is none, for nothing is looked up that the far side has chosen.
mod numeric {
    use std::net::IpAddr;

    use minicbor::decode::Decoder;
    use minicbor::encode::{Encoder, Write};

    pub(super) fn encode<C, W: Write>(
        address: &Option<IpAddr>,
        e: &mut Encoder<W>,
        _: &mut C,
    ) -> Result<(), minicbor::encode::Error<W::Error>> {
        e.encode(address.map(|address| address.to_string()))?.ok()
    }

    pub(super) fn decode<C>(
        d: &mut Decoder<'_>,
        _: &mut C,
    ) -> Result<Option<IpAddr>, minicbor::decode::Error> {
        Ok(d.decode::<Option<&str>>()?.and_then(|text| text.parse().ok()))
    }
}

/// Why the far side does not do it.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Refusal {
    /// What kind of reason.
    #[n(0)]
    pub reason: Reason,
    /// One sentence with a remedy.
    #[n(1)]
    pub message: String,
}

/// What kind of reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum Reason {
    /// The paths or flags cannot be used.
    #[n(0)]
    Usage,
    /// There is no such file.
    #[n(1)]
    NotFound,
    /// The two programs do not understand each other.
    #[n(2)]
    Version,
    /// It failed.
    #[n(3)]
    Failed,
    /// The disk there has no room.
    #[n(4)]
    NoRoom,
}

/// Why there was no greeting.
#[derive(Debug, thiserror::Error)]
pub enum GreetingError {
    /// The connection ended or failed.
    #[error("the connection ended before the greeting: {0}")]
    Connection(#[from] std::io::Error),
    /// Something else was said.
    #[error("what it said is not a greeting")]
    Garbled,
}

/// Writes a message.
pub async fn write<W: AsyncWrite + Unpin, T: Encode<()>>(stream: &mut W, message: &T) -> std::io::Result<()> {
    write_bytes(stream, &encoded(message)).await
}

/// A message as it travels.
pub(crate) fn encoded<T: Encode<()>>(message: &T) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&[0; 4]);
    // Writing to memory does not fail.
    let _ = minicbor::encode(message, &mut bytes);
    let len = (bytes.len() - MAGIC.len() - 4) as u32;
    bytes[MAGIC.len()..MAGIC.len() + 4].copy_from_slice(&len.to_le_bytes());
    bytes
}

pub(crate) async fn write_bytes<W: AsyncWrite + Unpin>(stream: &mut W, bytes: &[u8]) -> std::io::Result<()> {
    stream.write_all(bytes).await?;
    stream.flush().await
}

/// Reads an answer, behind whatever a shell printed. Takes no byte more.
pub async fn read<R: AsyncRead + Unpin, T: for<'b> Decode<'b, ()>>(
    stream: &mut R,
) -> Result<T, GreetingError> {
    minicbor::decode(&read_bytes(stream, LONGEST_ANSWER).await?).map_err(|_| GreetingError::Garbled)
}

/// Reads a request. What another version's holds beyond its first two fields is not looked at.
pub async fn read_request<R: AsyncRead + Unpin>(stream: &mut R) -> Result<Asked, GreetingError> {
    let bytes = read_bytes(stream, LONGEST).await?;
    let Opening { versions, agent } = minicbor::decode(&bytes).map_err(|_| GreetingError::Garbled)?;
    if !versions.contains(&VERSION) {
        return Ok(Asked::Foreign { agent });
    }
    minicbor::decode(&bytes)
        .map(|request| Asked::Request(Box::new(request)))
        .map_err(|_| GreetingError::Garbled)
}

async fn read_bytes<R: AsyncRead + Unpin>(stream: &mut R, longest: usize) -> Result<Vec<u8>, GreetingError> {
    let mut last = [0; MAGIC.len()];
    stream.read_exact(&mut last).await?;
    let mut noise = 0;
    while last != *MAGIC {
        noise += 1;
        if noise > MOST_NOISE {
            return Err(GreetingError::Garbled);
        }
        last.rotate_left(1);
        last[MAGIC.len() - 1] = stream.read_u8().await?;
    }
    let len = stream.read_u32_le().await? as usize;
    if len > longest {
        return Err(GreetingError::Garbled);
    }
    // Grows with what arrives, not with what is claimed.
    let mut bytes = Vec::new();
    stream.take(len as u64).read_to_end(&mut bytes).await?;
    if bytes.len() < len {
        return Err(std::io::Error::from(std::io::ErrorKind::UnexpectedEof).into());
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ready() -> Answer {
        Answer::Ready(Ready {
            version: 1,
            agent: "terahaul/0".into(),
            address: "10.0.0.1".parse().ok(),
            port: 4,
            pin: [7; 32],
            token: "t".into(),
            only_file: true,
            top: None,
            asks: true,
            changes: true,
        })
    }

    fn block_on<T>(work: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(work)
    }

    #[test]
    fn a_greeting_is_found_behind_a_shells_noise_and_nothing_behind_it_is_taken() {
        block_on(async {
            let almost = &MAGIC[..MAGIC.len() - 2];
            for noise in [&b"Welcome, \0 you\n"[..], almost, &[almost, almost].concat()] {
                let mut bytes = noise.to_vec();
                write(&mut bytes, &ready()).await.unwrap();
                bytes.extend_from_slice(b"more");
                let mut stream = bytes.as_slice();
                assert_eq!(
                    read::<_, Answer>(&mut stream).await.unwrap(),
                    ready(),
                    "{}",
                    noise.escape_ascii()
                );
                assert_eq!(stream, b"more");
            }
        });
    }

    #[test]
    fn what_only_looks_like_a_greeting_is_refused() {
        block_on(async {
            let mut bytes = [b"Welcome!\n", &MAGIC[..], b"\x05\0\0\0hello"].concat();
            write(&mut bytes, &ready()).await.unwrap();
            let mistaken = read::<_, Answer>(&mut bytes.as_slice()).await;
            assert!(matches!(mistaken, Err(GreetingError::Garbled)), "{mistaken:?}");
        });
    }

    /// A name would be looked up, and somebody told that it was, before anything is known of who gave it.
    #[test]
    fn a_far_side_says_by_number_where_it_is() {
        let said = |address: &[u8; 8]| {
            let bytes = encoded(&ready());
            let at = bytes.windows(8).position(|window| window == b"10.0.0.1").unwrap();
            let bytes = [&bytes[..at], address, &bytes[at + 8..]].concat();
            match block_on(read::<_, Answer>(&mut bytes.as_slice())).unwrap() {
                Answer::Ready(ready) => ready.address,
                Answer::Refused(_) => panic!("it was ready"),
            }
        };
        assert_eq!(said(b"10.0.0.2"), "10.0.0.2".parse().ok());
        assert_eq!(said(b"fd00::ab"), "fd00::ab".parse().ok());
        assert_eq!([said(b"far.test"), said(b"10.0.0.x")], [None; 2]);
    }

    #[test]
    fn endless_noise_and_lengths_that_lie_end_it() {
        block_on(async {
            let noise = vec![b'x'; MOST_NOISE + 100];
            assert!(matches!(read::<_, Answer>(&mut noise.as_slice()).await, Err(GreetingError::Garbled)));
            let mut bytes = MAGIC.to_vec();
            bytes.extend_from_slice(&u32::MAX.to_le_bytes());
            assert!(matches!(read::<_, Answer>(&mut bytes.as_slice()).await, Err(GreetingError::Garbled)));
        });
    }

    #[test]
    fn a_list_of_many_paths_arrives_and_one_that_is_too_long_is_refused_before_it_is_read() {
        let list = |paths: usize| {
            let paths = vec![Name(vec![b'a'; 1000]); paths];
            let list = crate::rules::List { paths, recursive: false };
            let sources = Sources {
                paths: Vec::new(),
                selection: Selection { list: Some(list), ..Selection::default() },
                kept: Kept::default(),
                compare: Compare::Size,
            };
            let (agent, key) = (String::new(), [0; 16]);
            Request {
                versions: vec![VERSION],
                agent,
                ports: None,
                key,
                task: Task::Send(sources),
                alike: Some([2; 32]),
                changes: true,
            }
        };
        block_on(async {
            let long = list(20_000);
            let asked = read_request(&mut encoded(&long).as_slice()).await.unwrap();
            assert!(asked == Asked::Request(Box::new(long)), "20 MB");
            let too_long = [&MAGIC[..], &(LONGEST as u32 + 1).to_le_bytes()].concat();
            let refused = read_request(&mut too_long.as_slice()).await;
            assert!(matches!(refused, Err(GreetingError::Garbled)), "{refused:?}");
        });
    }

    /// A request as a later version may write it.
    #[derive(Encode)]
    struct Later {
        #[n(0)]
        versions: Vec<u16>,
        #[n(1)]
        agent: String,
        #[n(2)]
        ports: [u8; 3],
        #[n(7)]
        more: bool,
    }

    #[test]
    fn a_request_of_a_later_version_is_known_as_one_whatever_it_holds() {
        block_on(async {
            let later = |versions| Later { versions, agent: "terahaul 9".into(), ports: [1; 3], more: true };
            let mut bytes = Vec::new();
            write(&mut bytes, &later(vec![VERSION + 1])).await.unwrap();
            let asked = read_request(&mut bytes.as_slice()).await.unwrap();
            assert_eq!(asked, Asked::Foreign { agent: "terahaul 9".into() });
            let mut bytes = Vec::new();
            write(&mut bytes, &later(vec![VERSION])).await.unwrap();
            let lies = read_request(&mut bytes.as_slice()).await;
            assert!(matches!(lies, Err(GreetingError::Garbled)), "{lies:?}");
        });
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_greeting_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut message = MAGIC.to_vec();
            message.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
            message.extend_from_slice(&bytes);
            block_on(async {
                let _ = read::<_, Answer>(&mut message.as_slice()).await;
                let _ = read_request(&mut message.as_slice()).await;
            });
        }
    }
}
