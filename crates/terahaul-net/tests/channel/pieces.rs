//! Blocks that travel in pieces: what arrives is what was sent, however it was packed, and nothing that lies is taken.

use std::io;
use std::sync::Arc;
use std::sync::Mutex;

use crate::rig::{Bytes, established, send_all};
use proptest::prelude::*;
use terahaul_core::delta::{Sum, chunk_len};
use terahaul_core::{
    Address, BlockNumber, BlockShape, ByteCount, ChannelId, Compress, EntryIndex, Receiver, TransferId,
};
use terahaul_net::channel::{
    Outbound, Placement, ReceiveError, SealedReader, SealedWriter, Sender, receive_blocks, send_blocks,
    shared_compression,
};
use terahaul_store::{
    BasisError, BlockSink, BlockWriter, FlatSink, FlatTransfer, Inbound, MemoryLedger, MemoryStore,
    SinkError, Store,
};
use terahaul_wire::{ErrorCode, FrameError, FrameHeader, MAX_PIECE, PieceHeader, Sums, Trailer, WireError};

struct Arrived {
    inbound: Inbound,
    flat: Arc<dyn FlatTransfer>,
    refused: Mutex<Vec<(BlockNumber, WireError)>>,
    over_the_line: Mutex<u64>,
}

impl Arrived {
    fn expecting(size: usize) -> Self {
        let mut receiver = Receiver::default();
        receiver.append(Some(ByteCount(size as u64))).unwrap();
        receiver.seal();
        let flat = MemoryStore::new().create(TransferId([1; 16])).unwrap();
        let sink = Arc::new(FlatSink::new(Arc::clone(&flat)));
        let inbound = Inbound::start(receiver, sink, Arc::new(MemoryLedger::default())).unwrap();
        Self { inbound, flat, refused: Mutex::default(), over_the_line: Mutex::default() }
    }

    /// Receives what was sealed.
    fn take(
        &self,
        wire: &[u8],
        server: terahaul_net::tls::Established,
        rest: &[u8],
    ) -> Result<(), ReceiveError> {
        let reader = SealedReader::new(wire, server.opener, &server.early, rest).unwrap();
        let refuse = |block, error| self.refused.lock().unwrap().push((block, error));
        let count = |bytes| {
            *self.over_the_line.lock().unwrap() += bytes;
            Ok(())
        };
        receive_blocks(reader, &self.inbound, &refuse, &count)
    }

    fn content(&self, size: usize) -> Vec<u8> {
        let mut content = vec![0; size];
        self.flat.read_at(Address(0), &mut content).unwrap();
        content
    }
}

/// Sends `content` as one file, and receives it. Returns the bytes of blocks that went over the line.
fn round_trip(content: &[u8], compress: Compress) -> u64 {
    let (client, server, rest) = established();
    let (events, _heard) = tokio::sync::mpsc::unbounded_channel();
    let outbound = Outbound::new(events);
    outbound.declare([Some(ByteCount(content.len() as u64))], true).unwrap();
    outbound.handle_accepted(1).unwrap();
    let source = Bytes(content.to_vec());
    let compression = shared_compression(compress);
    let sender = Sender {
        outbound: &outbound,
        source: &source,
        channel: ChannelId(0),
        hold: &|_| Ok(()),
        compression: &compression,
        line_full: &|| false,
        is_gone: &|| false,
    };
    let wire = send_all(&sender, client.sealer);
    let arrived = Arrived::expecting(content.len());
    arrived.take(&wire, server, &rest).unwrap();
    assert!(arrived.refused.lock().unwrap().is_empty());
    arrived.inbound.flush().unwrap();
    assert!(arrived.inbound.with(|receiver| receiver.is_complete()));
    assert!(arrived.content(content.len()) == content);
    assert_eq!(outbound.sent().0, *arrived.over_the_line.lock().unwrap());
    outbound.sent().0
}

/// Bytes of which `noisy` in 16 pieces of 64 KiB cannot be compressed.
fn mixed(len: usize, noisy: u8) -> Vec<u8> {
    let mut content = vec![0; len];
    for (at, part) in content.chunks_mut(64 << 10).enumerate() {
        if (at as u8) % 16 < noisy {
            blake3::Hasher::new().update(&at.to_le_bytes()).finalize_xof().fill(part);
        } else {
            part.iter_mut().enumerate().for_each(|(i, byte)| *byte = b'a' + (i / 7 % 23) as u8);
        }
    }
    content
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]
    #[test]
    fn what_is_packed_arrives_as_it_was(len in (4usize << 20)..(10 << 20), noisy in 0u8..=16, level in 1i32..6) {
        round_trip(&mixed(len, noisy), Compress::Level(level));
    }
}

#[test]
fn what_can_be_compressed_is_few_bytes_and_what_cannot_is_hardly_more() {
    let (text, noise) = (mixed(9 << 20, 0), mixed(9 << 20, 16));
    assert!(round_trip(&text, Compress::Level(1)) < 1 << 20);
    assert_eq!(round_trip(&text, Compress::No), 9 << 20);
    assert!(round_trip(&noise, Compress::Level(1)) < (9 << 20) + 1000);
    assert_eq!(round_trip(&text, Compress::Auto), 9 << 20, "a line that is never full needs no compression");
}

/// Sends the one block of a file of `len` bytes as these pieces, with what follows each header.
fn forge(len: u32, pieces: &[(PieceHeader, &[u8])]) -> (Arrived, Result<(), ReceiveError>) {
    let (client, server, rest) = established();
    let mut wire = Vec::new();
    let mut writer = SealedWriter::new(&mut wire, client.sealer);
    writer.queue(&FrameHeader::Pieces { block: BlockNumber(0), len }.encode()).unwrap();
    for (header, body) in pieces {
        writer.queue(&header.encode()).unwrap();
        writer.queue(body).unwrap();
    }
    writer.queue(&Trailer(terahaul_core::Hash::default()).encode()).unwrap();
    writer.queue(&FrameHeader::End.encode()).unwrap();
    writer.close().unwrap();
    let arrived = Arrived::expecting(len as usize);
    let result = arrived.take(&wire, server, &rest);
    (arrived, result)
}

#[test]
fn a_bomb_becomes_no_more_than_its_header_says() {
    let bomb = zstd::bulk::compress(&vec![0; 8 << 20], 1).unwrap();
    let packed = bomb.len() as u32;
    let header = PieceHeader::Zstd { len: MAX_PIECE, packed };
    let (_, result) = forge(4 << 20, &[(header, &bomb)]);
    assert!(matches!(result, Err(ReceiveError::Frame(FrameError::Unpack { len: MAX_PIECE, .. }))));
    let short = zstd::bulk::compress(&[0; 1000], 1).unwrap();
    let header = PieceHeader::Zstd { len: 2000, packed: short.len() as u32 };
    let (_, result) = forge(4 << 20, &[(header, &short)]);
    assert!(matches!(result, Err(ReceiveError::Frame(FrameError::Unpack { len: 2000, .. }))), "nor less");
    let (_, result) = forge(4 << 20, &[(PieceHeader::Zstd { len: 2000, packed: 9 }, b"no frame.")]);
    assert!(result.unwrap_err().wire_error().is_some(), "the sender is told");
}

#[test]
fn pieces_that_do_not_amount_to_their_block_are_refused() {
    let raw = |len: u32| (PieceHeader::Raw { len }, vec![7; len as usize]);
    let (first, second) = (raw(60), raw(41));
    let (_, result) = forge(100, &[(first.0, &first.1), (second.0, &second.1)]);
    assert!(matches!(result, Err(ReceiveError::Frame(FrameError::PieceLength { len: 41, most: 40 }))));
    let second = raw(40);
    let (arrived, result) = forge(100, &[(first.0, &first.1), (second.0, &second.1)]);
    result.unwrap();
    assert_eq!(arrived.refused.lock().unwrap().len(), 1, "the value in the trailer is wrong");
}

/// A sink whose file replaces another, of which bytes can be copied.
struct Replacing {
    inner: FlatSink,
    old: Vec<u8>,
    /// From here on the old file is gone.
    cut: usize,
}

impl BlockSink for Replacing {
    fn begin<'a>(&'a self, shape: &BlockShape) -> Result<Box<dyn BlockWriter + 'a>, SinkError> {
        self.inner.begin(shape)
    }

    fn read_basis(&self, _: &BlockShape, from: u64, buffer: &mut [u8]) -> Result<(), BasisError> {
        let range = from as usize..from as usize + buffer.len();
        let old = self.old.get(range.clone()).ok_or(BasisError::Outside)?;
        if range.end > self.cut {
            return Err(BasisError::Lost(io::ErrorKind::UnexpectedEof.into()));
        }
        buffer.copy_from_slice(old);
        Ok(())
    }

    fn sync(&self) -> Result<(), SinkError> {
        self.inner.sync()
    }
}

impl Arrived {
    fn replacing(old: Vec<u8>, cut: usize, size: usize) -> Self {
        let mut arrived = Self::expecting(size);
        let mut receiver = Receiver::default();
        receiver.append(Some(ByteCount(size as u64))).unwrap();
        receiver.seal();
        let sink = Replacing { inner: FlatSink::new(Arc::clone(&arrived.flat)), old, cut };
        arrived.inbound =
            Inbound::start(receiver, Arc::new(sink), Arc::new(MemoryLedger::default())).unwrap();
        arrived
    }
}

/// Tells the sender what is in `old`, in messages of `at_once` sums.
fn tell(outbound: &Outbound, old: &[u8], at_once: usize) {
    let chunk = chunk_len(old.len() as u64).unwrap();
    let sums: Vec<_> = old.chunks_exact(chunk as usize).map(|chunk| Sum::of(chunk).encode()).collect();
    for (at, some) in sums.chunks(at_once).enumerate() {
        let first = (at * at_once) as u32;
        let size = old.len() as u64;
        outbound.handle_sums(&Sums { entry: 0, size, chunk, first, sums: some.concat() }).unwrap();
    }
}

fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut bytes = vec![0; len];
    blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof().fill(&mut bytes);
    bytes
}

/// Sends `new`, of which the receiver has `old`, cut off somewhere meanwhile. Refused blocks are sent again. Returns the bytes
/// over the line.
fn replace(old: &[u8], new: &[u8], cut: usize, compress: Compress) -> u64 {
    let (events, _heard) = tokio::sync::mpsc::unbounded_channel();
    let outbound = Outbound::placing(Placement::Accepted, events);
    outbound.declare([Some(ByteCount(new.len() as u64))], true).unwrap();
    outbound.handle_held([EntryIndex(0)]);
    outbound.handle_accepted(1).unwrap();
    let arrived = Arrived::replacing(old.to_vec(), cut, new.len());
    let source = Bytes(new.to_vec());
    let compression = shared_compression(compress);
    let sender = Sender {
        outbound: &outbound,
        source: &source,
        channel: ChannelId(0),
        hold: &|_| Ok(()),
        compression: &compression,
        line_full: &|| false,
        is_gone: &|| false,
    };
    for told in [false, true] {
        let (client, server, rest) = established();
        let mut wire = Vec::new();
        std::thread::scope(|threads| {
            threads.spawn(|| {
                if !told {
                    assert!(!outbound.is_sent(), "its blocks wait");
                    tell(&outbound, old, 300);
                }
                while !outbound.is_sent() {
                    std::thread::yield_now();
                }
                outbound.close();
            });
            send_blocks(SealedWriter::new(&mut wire, client.sealer), &sender).unwrap();
        });
        arrived.take(&wire, server, &rest).unwrap();
        outbound.reopen();
        let received: Vec<_> = arrived.inbound.with(|receiver| receiver.received().runs().collect());
        outbound.handle_durable(&received);
        for (block, error) in arrived.refused.lock().unwrap().drain(..) {
            assert!(error.retry && !told, "{error}");
            outbound.handle_refused(block);
        }
    }
    assert!(arrived.content(new.len()) == new);
    assert_eq!(arrived.inbound.copied() + arrived.inbound.sent(), new.len() as u64);
    outbound.sent().0
}

#[test]
fn of_a_file_that_replaces_another_only_what_that_one_lacks_is_sent() {
    let old = noise(13 << 20, 1);
    let shifted = [&noise(100_000, 2)[..], &old].concat();
    assert!(replace(&old, &shifted, usize::MAX, Compress::No) < 120_000);
    let mut edited = old.clone();
    edited[5 << 20..6 << 20].fill(9);
    let sent = replace(&old, &edited, usize::MAX, Compress::No);
    assert!(((1 << 20)..(1 << 20) + 10_000).contains(&sent), "{sent}");
    assert!(
        replace(&old, &edited, usize::MAX, Compress::Level(1)) < 20_000,
        "and what is sent is compressed"
    );
    assert!(replace(&old, &noise(9 << 20, 3), usize::MAX, Compress::No) >= 9 << 20);
}

#[test]
fn blocks_whose_basis_is_gone_are_sent_whole() {
    let old = noise(13 << 20, 1);
    let sent = replace(&old, &old, 9 << 20, Compress::No);
    assert!(((5 << 20)..(5 << 20) + 10_000).contains(&sent), "the third block and the fourth: {sent}");
}

#[test]
fn copies_from_where_nothing_is_end_the_session() {
    let copy = |from| (PieceHeader::Copy { len: 100, from }, &[][..]);
    for (old, from) in [(200, 101), (200, u64::MAX - 100), (0, 0)] {
        let (client, server, rest) = established();
        let mut wire = Vec::new();
        let mut writer = SealedWriter::new(&mut wire, client.sealer);
        writer.queue(&FrameHeader::Pieces { block: BlockNumber(0), len: 100 }.encode()).unwrap();
        writer.queue(&copy(from).0.encode()).unwrap();
        writer.flush().unwrap();
        let result = Arrived::replacing(vec![7; old], usize::MAX, 100).take(&wire, server, &rest);
        let error = result.unwrap_err().wire_error().unwrap();
        assert_eq!(error.code, ErrorCode::Violation, "{error}");
    }
    let (_, result) = forge(100, &[copy(0)]);
    assert!(result.unwrap_err().wire_error().is_some(), "a depot has no old files");
}
