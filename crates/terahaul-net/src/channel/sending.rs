//! A data channel's thread at the sender: claim, read, hash, encrypt, write.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use terahaul_core::{BlockShape, ChannelId, Pace};
use terahaul_store::{BlockSource, PIECE};
use terahaul_wire::{FrameHeader, PIECE_HEADER_LEN, PieceHeader, Trailer};

use super::outbound::{Next, Outbound};
use super::packing::{Packer, Piece, SharedCompression, carry};
use super::planning::{Sought, plan};
use super::record::Read;
use super::sealed_writer::SealedWriter;

/// Records that a block can need, with its header and trailer: below this the channel is replaced. One in many small steps
/// needs most.
const RECORDS_A_BLOCK: u64 = 8192;

/// A limit on the rate, shared by a session's channels.
pub type SharedPace = Option<Arc<Mutex<Pace>>>;

/// What a data channel sends from, and by which laws.
pub struct Sender<'a> {
    /// Which blocks, and when.
    pub outbound: &'a Outbound,
    /// Their bytes.
    pub source: &'a dyn BlockSource,
    /// The channel.
    pub channel: ChannelId,
    /// Waits before so many bytes more, where a limit asks for it. An error ends the channel.
    pub hold: &'a dyn Fn(u64) -> io::Result<()>,
    /// When to compress; never for a receiver that has not said that it can take it.
    pub compression: &'a SharedCompression,
    /// Whether what was written before is still waiting to go out.
    pub line_full: &'a dyn Fn() -> bool,
    /// Whether the other end is not there any more.
    pub is_gone: &'a dyn Fn() -> bool,
}

/// Sends blocks until told to close. Errors are of the connection, or of a source that is gone: the caller hands the channel's blocks
/// back.
pub fn send_blocks<W: Write>(mut writer: SealedWriter<W>, sender: &Sender<'_>) -> io::Result<()> {
    let mut buffer = vec![0; PIECE];
    let mut window = Vec::new();
    let mut packer = sender.compression.as_ref().map(Packer::new);
    loop {
        let next = match writer.records_left() < RECORDS_A_BLOCK {
            true => Next::Close,
            false => sender
                .outbound
                .next_unless(sender.channel, sender.is_gone)
                .ok_or(io::ErrorKind::ConnectionAborted)?,
        };
        match next {
            Next::Block(shape) => match plan(sender.outbound, sender.source, &shape, &mut window)? {
                Sought::Found(planned) => {
                    sender.send_planned(&mut writer, &shape, planned, &mut packer, &mut window)?;
                }
                Sought::Early(wanting) => sender.outbound.defer(sender.channel, &shape, wanting),
                Sought::Unfit if sender.outbound.was_refused(shape.number) => {
                    sender.send_read(&mut writer, &shape, &mut packer, &mut window)?;
                }
                Sought::Unfit => sender.send_block(&mut writer, &shape, &mut packer, &mut buffer)?,
            },
            Next::Close => {
                writer.queue(&FrameHeader::End.encode())?;
                return writer.close();
            }
        }
    }
}

/// Begins a block, and says whether it goes in pieces.
fn queue_header<W: Write>(
    writer: &mut SealedWriter<W>,
    shape: &BlockShape,
    packer: &Option<Packer>,
) -> io::Result<bool> {
    let (block, len) = (shape.number, shape.len);
    let in_pieces = packer.as_ref().is_some_and(Packer::is_on);
    let header =
        if in_pieces { FrameHeader::Pieces { block, len } } else { FrameHeader::Block { block, len } };
    writer.queue(&header.encode())?;
    Ok(in_pieces)
}

impl Sender<'_> {
    fn send_block<W: Write>(
        &self,
        writer: &mut SealedWriter<W>,
        shape: &BlockShape,
        packer: &mut Option<Packer>,
        buffer: &mut [u8],
    ) -> io::Result<()> {
        let record = self.outbound.record_of(self.source, shape)?;
        let in_pieces = queue_header(writer, shape, packer)?;
        let read = record.read(self.source, shape, buffer, &mut |bytes| {
            self.send_piece(writer, packer, bytes, in_pieces)
        })?;
        self.end_block(writer, shape, read)
    }

    /// Reads a block whole, into `window`, before anything of it goes out. Read while it did, it would take a file in it for failed that
    /// changes meanwhile, and go once more for each.
    fn send_read<W: Write>(
        &self,
        writer: &mut SealedWriter<W>,
        shape: &BlockShape,
        packer: &mut Option<Packer>,
        window: &mut Vec<u8>,
    ) -> io::Result<()> {
        window.resize(shape.len as usize, 0);
        let record = self.outbound.record_of(self.source, shape)?;
        let read = record.read(self.source, shape, window, &mut |_| Ok(()))?;
        if self.outbound.waits_unread(shape, &read.failures) {
            return Ok(());
        }
        let in_pieces = queue_header(writer, shape, packer)?;
        for piece in window.chunks_mut(PIECE) {
            self.send_piece(writer, packer, piece, in_pieces)?;
        }
        self.end_block(writer, shape, read)
    }

    /// All bytes of a block went out.
    fn end_block<W: Write>(
        &self,
        writer: &mut SealedWriter<W>,
        shape: &BlockShape,
        read: Read,
    ) -> io::Result<()> {
        let value = self.outbound.value_to_send(read.value, &read.failures);
        writer.queue(&Trailer(value).encode())?;
        self.outbound.handle_sent(shape, read.proof, read.failures);
        writer.flush()
    }

    /// Sends a piece as the law of compression has it, and tells the law how that went.
    pub(super) fn send_piece<W: Write>(
        &self,
        writer: &mut SealedWriter<W>,
        packer: &mut Option<Packer>,
        bytes: &mut [u8],
        in_pieces: bool,
    ) -> io::Result<()> {
        carry(packer, bytes, in_pieces, self.line_full, |piece| match piece {
            Piece::Packed(packed) => self.write(writer, packed),
            Piece::Raw(bytes) if in_pieces => self.send_raw(writer, bytes),
            Piece::Raw(bytes) => self.write(writer, bytes),
        })
    }

    fn send_raw<W: Write>(&self, writer: &mut SealedWriter<W>, bytes: &mut [u8]) -> io::Result<()> {
        writer.queue(&PieceHeader::Raw { len: bytes.len() as u32 }.encode())?;
        self.outbound.handle_bytes(PIECE_HEADER_LEN as u64);
        self.write(writer, bytes)
    }

    fn write<W: Write>(&self, writer: &mut SealedWriter<W>, bytes: &mut [u8]) -> io::Result<()> {
        (self.hold)(bytes.len() as u64)?;
        self.outbound.handle_bytes(bytes.len() as u64);
        writer.write(bytes)
    }
}
