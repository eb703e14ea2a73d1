//! A data channel's thread at the sender: claim, read, hash, encrypt, write.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use terahaul_core::{BlockHasher, BlockShape, ChannelId, Pace};
use terahaul_store::BlockSource;
use terahaul_wire::{FrameHeader, Trailer};

use super::outbound::{Next, Outbound};
use super::sealed_writer::SealedWriter;

/// Bytes read, hashed, encrypted and written at a time: they stay in the second-level cache throughout.
const PIECE: usize = 256 << 10;
/// Records that a block can need, with its header and trailer: below this the channel is replaced.
const RECORDS_A_BLOCK: u64 = 512;

/// A limit on the rate, shared by a session's channels.
pub type SharedPace = Option<Arc<Mutex<Pace>>>;

/// Sends blocks until told to close. Errors are of the connection only: the caller hands the channel's blocks back.
pub fn send_blocks<W: Write>(
    mut writer: SealedWriter<W>,
    outbound: &Outbound,
    source: &dyn BlockSource,
    channel: ChannelId,
    pace: &SharedPace,
) -> io::Result<()> {
    let mut buffer = vec![0; PIECE];
    loop {
        let next = if writer.records_left() < RECORDS_A_BLOCK { Next::Close } else { outbound.next(channel) };
        match next {
            Next::Block(shape) => send_block(&mut writer, outbound, source, pace, &shape, &mut buffer)?,
            Next::Close => {
                writer.queue(&FrameHeader::End.encode())?;
                return writer.close();
            }
        }
    }
}

fn send_block<W: Write>(
    writer: &mut SealedWriter<W>,
    outbound: &Outbound,
    source: &dyn BlockSource,
    pace: &SharedPace,
    shape: &BlockShape,
    buffer: &mut [u8],
) -> io::Result<()> {
    let known = source.known_value(shape.number);
    let mut hasher = known.is_none().then(|| BlockHasher::new(shape));
    writer.queue(&FrameHeader::Block { block: shape.number, len: shape.len }.encode())?;
    let failures = source.read_block(shape, buffer, &mut |piece| {
        if let Some(hasher) = &mut hasher {
            hasher.update(piece);
        }
        if let Some(wait) = turn(pace, piece.len() as u64) {
            std::thread::sleep(wait);
        }
        outbound.handle_bytes(piece.len() as u64);
        writer.write(piece)
    })?;
    let proof = hasher.map(BlockHasher::finish);
    let value = proof.as_ref().map(terahaul_core::BlockProof::value).or(known).unwrap_or_default();
    writer.queue(&Trailer(value).encode())?;
    outbound.handle_sent(shape, proof, failures);
    writer.flush()
}

/// How long the limit asks to wait before `bytes` more go over a channel.
pub(crate) fn turn(pace: &SharedPace, bytes: u64) -> Option<Duration> {
    let mut pace = pace.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner);
    Some(pace.handle_send(Instant::now(), bytes)).filter(|wait| !wait.is_zero())
}
