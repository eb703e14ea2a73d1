//! Control messages.

use minicbor::{Decode, Encode};
use terahaul_core::FailureCause;

use crate::{Advice, Batch, Guessed, RunList, Sums, WireError};

/// First message of both ends.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Hello {
    /// Versions this end speaks, best first. The server answers with the one it chose.
    #[n(0)]
    pub versions: Vec<u16>,
    /// Optional features this end has, as [`ZSTD`](crate::ZSTD); unknown ones are ignored.
    #[n(1)]
    pub capabilities: Vec<String>,
    /// Program and version, for logs.
    #[n(2)]
    pub agent: String,
}

impl Hello {
    /// Whether that end named this capability.
    pub fn can(&self, capability: &str) -> bool {
        self.capabilities.iter().any(|named| named == capability)
    }
}

/// Client: start or go on sending.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct OpenSend {
    /// Go on with this transfer; without one, with the unfinished transfer of the same `resume_key`, or a new one.
    #[cbor(n(0), with = "minicbor::bytes")]
    pub transfer: Option<[u8; 16]>,
    /// Name of a new transfer, 200 characters at most.
    #[n(1)]
    pub name: String,
    /// The client's own key for what it is sending: the same command gives the same key.
    #[n(2)]
    pub resume_key: Option<String>,
    /// Days until a new transfer expires.
    #[n(3)]
    pub expires_in_days: Option<u32>,
    /// Whether the server should send the manifest it has (after [`Opened`]): a new process resumes with it.
    #[n(4)]
    pub want_manifest: bool,
    /// UDP data channels, if the client would have some.
    #[n(5)]
    pub udp: Option<UdpOffer>,
    /// The manifest's first entries, for a transfer that has none yet; nothing happens to it otherwise. Only a server that
    /// named the capability [`FIRST_BATCH`](crate::FIRST_BATCH) takes it.
    #[n(6)]
    pub first: Option<Batch>,
    /// Entries of `transfer` that the client knows of. Where there are more, another has gone on with it, and is not to be ended for this one.
    #[n(7)]
    pub known: Option<u32>,
}

/// Client: receive.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct OpenReceive {
    /// Which transfer.
    #[cbor(n(0), with = "minicbor::bytes")]
    pub transfer: [u8; 16],
    /// Blocks that are durable here already. More follow in [`Message::Durable`] if they do not fit.
    #[n(1)]
    pub have: RunList,
    /// Zstandard's level at which the server is to compress always; without one it does when that helps. Either way only
    /// for a client that has the capability [`ZSTD`](crate::ZSTD).
    #[n(2)]
    pub compress: Option<u8>,
    /// UDP data channels, if the client would have some.
    #[n(3)]
    pub udp: Option<UdpOffer>,
    /// How the server is to share the path with others: [`Priority`](terahaul_core::Priority) by its number.
    #[n(4)]
    pub priority: Option<u8>,
}

/// Client: it would have UDP data channels.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct UdpOffer {
    /// What the client calls the session in packets.
    #[cbor(n(0), with = "minicbor::bytes")]
    pub connection: [u8; 8],
    /// How many channels.
    #[n(1)]
    pub channels: u8,
    /// Microseconds of a round trip, as this connection's first showed.
    #[n(2)]
    pub round_trip: u32,
    /// Most bytes a second that the user wants to be sent, either way.
    #[n(3)]
    pub max_rate: Option<u64>,
    /// There will be no TCP channels: UDP is not to be given up for a silence.
    #[n(4)]
    pub alone: bool,
    /// How many network paths the channels are dealt to, in turn; one where it is left out.
    #[n(5)]
    pub paths: Option<u8>,
    /// What the server should call the session in packets, where the client sends some before it has the answer. One that has
    /// another session of that name answers another.
    #[cbor(n(6), with = "minicbor::bytes")]
    pub server: Option<[u8; 8]>,
}

/// Server: it has UDP data channels, on the port of this connection.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct UdpAnswer {
    /// What the server calls the session in packets.
    #[cbor(n(0), with = "minicbor::bytes")]
    pub connection: [u8; 8],
    /// How many channels: at most as many as were offered.
    #[n(1)]
    pub channels: u8,
}

/// Server: the session is open.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct Opened {
    /// Which transfer.
    #[cbor(n(0), with = "minicbor::bytes")]
    pub transfer: [u8; 16],
    /// Binds data channels to this session; good for this session only.
    #[cbor(n(1), with = "minicbor::bytes")]
    pub secret: [u8; 32],
    /// Most data channels.
    #[n(2)]
    pub max_channels: u32,
    /// Entries in the manifest so far.
    #[n(3)]
    pub entries: u32,
    /// The transfer's name.
    #[n(4)]
    pub name: String,
    /// What recipients open; senders only.
    #[n(5)]
    pub link: Option<String>,
    /// Bytes of files in the manifest so far.
    #[n(6)]
    pub bytes: u64,
    /// The answer to a client that offered UDP; none where the server has it not.
    #[n(7)]
    pub udp: Option<UdpAnswer>,
    /// Whether the manifest is sealed behind these entries; senders only.
    #[n(8)]
    pub sealed: Option<bool>,
}

/// First message on a data channel.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Bind {
    /// From [`Opened`].
    #[cbor(n(0), with = "minicbor::bytes")]
    pub secret: [u8; 32],
    /// The channel's number, unique in the session.
    #[n(1)]
    pub channel: u32,
}

/// Every message of a control channel.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Message {
    /// Both: versions and capabilities.
    #[n(0)]
    Hello(#[n(0)] Hello),
    /// Client: a token (`tht_…`) or a link's secret (`thl_…`).
    #[n(1)]
    Authenticate(#[n(0)] String),
    /// Client.
    #[n(2)]
    OpenSend(#[n(0)] OpenSend),
    /// Client.
    #[n(3)]
    OpenReceive(#[n(0)] OpenReceive),
    /// Server.
    #[n(4)]
    Opened(#[n(0)] Opened),
    /// Sender: entries. In a resume, the server's stored manifest.
    #[n(5)]
    Batch(#[n(0)] Batch),
    /// Server, in a resume: the stored manifest and its failures end here.
    #[n(6)]
    ManifestEnd,
    /// Receiver: the manifest up to this many entries is stored; blocks they seal may be sent.
    #[n(7)]
    Accepted(#[n(0)] u32),
    /// Receiver: these entries are not wanted. Sent before the [`Message::Accepted`] that covers them.
    #[n(8)]
    Declined(#[n(0)] Vec<u32>),
    /// Either: these entries will not arrive.
    #[n(9)]
    Failed(#[n(0)] Vec<Failed>),
    /// Receiver: these blocks are kept for good.
    #[n(10)]
    Durable(#[n(0)] RunList),
    /// Receiver: send this block again.
    #[n(11)]
    Refused(#[n(0)] u32, #[n(1)] WireError),
    /// Client, receiving: close this data channel after the block in progress. Client, sending, to a server that named the
    /// [capability](crate::LOST_CHANNELS): it is lost, and what had begun to arrive on it comes on another.
    #[n(12)]
    CloseChannel(#[n(0)] u32),
    /// Sender: everything was declared; receiver: everything is kept and published.
    #[n(13)]
    Finish,
    /// Server: the signed statement, as JSON, and its signature.
    #[n(14)]
    Statement(#[cbor(n(0), with = "minicbor::bytes")] Vec<u8>, #[n(1)] String),
    /// Either, when idle.
    #[n(15)]
    Ping,
    /// Answer to [`Message::Ping`].
    #[n(16)]
    Pong,
    /// Either: the session ends with this.
    #[n(17)]
    Error(#[n(0)] WireError),
    /// Either, to an end that named the [capability](crate::NOTES): something that only the programs at the two ends
    /// understand.
    #[n(20)]
    Note(#[cbor(n(0), with = "minicbor::bytes")] Vec<u8>),
    /// Receiver, to an end that named the [capability](crate::DELTA): blocks of these entries wait for what is told of the
    /// files in their place. Sent before the [`Message::Accepted`] that covers them.
    #[n(21)]
    Held(#[n(0)] Vec<u32>),
    /// Receiver: sums for an entry that is held; with the last ones its blocks may be sent.
    #[n(22)]
    Sums(#[n(0)] Sums),
    /// Receiver: what it has put in the place of a block of an entry that is held.
    #[n(23)]
    Guessed(#[n(0)] Guessed),
    /// Sender: how to go on with an entry that is held.
    #[n(24)]
    Advice(#[n(0)] Advice),
    /// Client, to a server that named the [capability](crate::LATER_UDP): it would have UDP data channels in place of those that it
    /// may have had in this session.
    #[n(25)]
    OfferUdp(#[n(0)] UdpOffer),
    /// Server: the answer to that; nothing where it has none to give now.
    #[n(26)]
    AnswerUdp(#[n(0)] Option<UdpAnswer>),
}

/// An entry that will not arrive.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Failed {
    /// Which entry.
    #[n(0)]
    pub entry: u32,
    /// Why.
    #[n(1)]
    pub cause: Cause,
    /// The system's words.
    #[n(2)]
    pub detail: String,
}

/// [`FailureCause`] on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum Cause {
    /// See [`FailureCause::Vanished`].
    #[n(0)]
    Vanished,
    /// See [`FailureCause::Changed`].
    #[n(1)]
    Changed,
    /// See [`FailureCause::Unreadable`].
    #[n(2)]
    Unreadable,
    /// See [`FailureCause::Refused`].
    #[n(3)]
    Refused,
    /// See [`FailureCause::Unsupported`].
    #[n(4)]
    Unsupported,
}

impl From<FailureCause> for Cause {
    fn from(cause: FailureCause) -> Self {
        match cause {
            FailureCause::Vanished => Self::Vanished,
            FailureCause::Changed => Self::Changed,
            FailureCause::Unreadable => Self::Unreadable,
            FailureCause::Refused => Self::Refused,
            FailureCause::Unsupported => Self::Unsupported,
        }
    }
}

impl From<Cause> for FailureCause {
    fn from(cause: Cause) -> Self {
        match cause {
            Cause::Vanished => Self::Vanished,
            Cause::Changed => Self::Changed,
            Cause::Unreadable => Self::Unreadable,
            Cause::Refused => Self::Refused,
            Cause::Unsupported => Self::Unsupported,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Control, DecodeError, ErrorCode, decode_message, encode_message};
    use proptest::prelude::*;
    use terahaul_core::{BlockNumber, BlockRun, ByteCount, Entry, EntryIndex, EntryKind, EntryPath, Mtime};

    fn entry(path: &[u8], kind: EntryKind) -> Entry {
        Entry {
            path: EntryPath::new(path).unwrap(),
            kind,
            mtime: Mtime { seconds: -5, nanos: 9 },
            mode: 0o755,
            extra: None,
        }
    }

    fn samples() -> Vec<Message> {
        let entries = vec![
            entry(b"a/\xff", EntryKind::File { size: ByteCount(u64::MAX) }),
            entry(b"a", EntryKind::Directory),
            entry(b"l", EntryKind::Symlink { target: (*b"../../x").into() }),
        ];
        let run = |first, count| BlockRun { first: BlockNumber(first), count };
        let runs = RunList::split([run(0, 4), run(9, 1)]).remove(0);
        vec![
            Message::Hello(Hello { versions: vec![1], capabilities: vec![], agent: "terahaul 0.1".into() }),
            Message::Authenticate("tht_x".into()),
            Message::OpenSend(OpenSend { name: "n".into(), want_manifest: true, ..OpenSend::default() }),
            Message::OpenReceive(OpenReceive::default()),
            Message::Opened(Opened { link: Some("l".into()), ..Opened::default() }),
            Message::Batch(Batch { first: EntryIndex(7), entries, seal: true }),
            Message::ManifestEnd,
            Message::Accepted(3),
            Message::Declined(vec![1, 2]),
            Message::Failed(vec![Failed { entry: 1, cause: Cause::Changed, detail: "x".into() }]),
            Message::Durable(runs),
            Message::Refused(4, WireError::violation("x")),
            Message::CloseChannel(1),
            Message::Finish,
            Message::Statement(vec![1, 2], "s".into()),
            Message::Ping,
            Message::Pong,
            Message::Error(WireError::passing(ErrorCode::Internal, "x")),
            Message::Note(vec![1, 2]),
            Message::Held(vec![3, 5]),
            Message::Sums(Sums { entry: 3, size: 9000, chunk: 4096, first: 1, sums: vec![7; 8] }),
            Message::Guessed(Guessed {
                entry: 3,
                heard: 1,
                block: 2,
                from: 9,
                group: 4096,
                values: vec![7; 8],
            }),
            Message::Advice(Advice { entry: 3, block: 2, from: Some(1) }),
            Message::OfferUdp(UdpOffer { channels: 2, server: Some([1; 8]), ..UdpOffer::default() }),
            Message::AnswerUdp(None),
            Message::AnswerUdp(Some(UdpAnswer { connection: [2; 8], channels: 1 })),
        ]
    }

    #[test]
    fn every_message_reads_back_as_it_was_written() {
        for message in samples() {
            let bytes = encode_message(&message);
            assert_eq!(decode_message::<Message>(&bytes).unwrap(), Some((message, bytes.len())));
            for cut in 0..bytes.len() {
                assert_eq!(
                    decode_message::<Message>(&bytes[..cut]).unwrap(),
                    None,
                    "a part is not a message"
                );
            }
        }
    }

    #[test]
    fn a_length_that_lies_costs_no_memory() {
        let mut bytes = u32::MAX.to_le_bytes().to_vec();
        bytes.extend([0; 8]);
        assert_eq!(decode_message::<Message>(&bytes), Err(DecodeError::TooLong(u32::MAX as usize)));
        // An array that claims 2⁶³ entries inside a short message.
        let hostile = [0x82, 0x08, 0x81, 0x9b, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff];
        assert!(Message::decode_from(&hostile).is_err());
    }

    #[test]
    fn entries_that_could_leave_the_root_do_not_decode() {
        let good = encode_message(&Message::Batch(Batch {
            first: EntryIndex(0),
            entries: vec![entry(b"aa/aa", EntryKind::Directory)],
            seal: false,
        }));
        let at = good.windows(5).position(|w| w == b"aa/aa").unwrap();
        for bad in [b"../aa", b"/aa/a", b"aa/..", b"a//aa", b"a\0/aa"] {
            let mut bytes = good.clone();
            bytes[at..at + 5].copy_from_slice(bad);
            assert!(decode_message::<Message>(&bytes).is_err(), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_decode_or_fail_and_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Message::decode_from(&bytes);
            let _ = decode_message::<Bind>(&bytes);
            let _ = crate::decode_entries(&bytes);
        }

        #[test]
        fn damaged_messages_decode_or_fail_and_never_panic(at in 0..samples().len(), flip in any::<(usize, u8)>()) {
            let mut bytes = encode_message(&samples()[at]);
            let len = bytes.len();
            bytes[flip.0 % len] ^= flip.1;
            let _ = decode_message::<Message>(&bytes);
        }
    }
}
