//! A block as one run of bytes, as UDP carries it: its content or, where those are fewer bytes, pieces that amount to it; and
//! behind it its value.
//!
//! Which of the two follows from the length: pieces are fewer bytes than the block has.

use std::convert::Infallible;
use std::io::{self, IoSlice};

use terahaul_core::BlockShape;
use terahaul_core::delta::Step;
use terahaul_store::{Arrival, BlockSource, EntryFailure, PIECE};
use terahaul_wire::packet::VALUE_LEN;
use terahaul_wire::{FrameError, PIECE_HEADER_LEN, PieceHeader};

use super::outbound::Outbound;
use super::packing::{Packer, Piece, SharedCompression, carry};
use super::planning::{Planned, Sought, Wanting, plan};
use super::receiving::ReceiveError;
use super::record::{Read, Record};
use super::unpacking::Unpacker;

/// Makes cargo of blocks. Its buffers are kept from one to the next.
pub(crate) struct Loader {
    packer: Option<Packer>,
    window: Vec<u8>,
    pieces: Vec<u8>,
}

/// How a block gets to the receiver.
pub(crate) struct Loaded {
    /// Bytes of its content that are sent, in pieces or as they are.
    pub sent: u64,
    /// Bytes that the receiver copies instead.
    pub copied: u64,
}

/// Why there is no cargo.
pub(crate) enum NotLoaded {
    /// The block waits for this before it can be planned.
    Early(Wanting),
    /// It waits until the receiver has read of what in it has failed.
    Unread,
    /// The source is gone, or does not know what it reads.
    Source(io::Error),
}

impl From<io::Error> for NotLoaded {
    fn from(error: io::Error) -> Self {
        Self::Source(error)
    }
}

impl Loader {
    /// Under the session's law of compression; `None` for a receiver that takes nothing compressed.
    pub fn new(compression: &SharedCompression) -> Self {
        let packer = compression.as_ref().map(Packer::new);
        Self { packer, window: Vec::new(), pieces: Vec::new() }
    }

    /// Reads a block into `cargo`. What of it goes out is for the caller to count, once it does. `line_full` says that the cargo before it
    /// still waits to go out.
    pub fn load(
        &mut self,
        outbound: &Outbound,
        source: &dyn BlockSource,
        shape: &BlockShape,
        line_full: bool,
        cargo: &mut Vec<u8>,
    ) -> Result<Loaded, NotLoaded> {
        let planned = match plan(outbound, source, shape, &mut self.window)? {
            Sought::Early(wanting) => return Err(NotLoaded::Early(wanting)),
            Sought::Found(planned) => Some(planned),
            Sought::Unfit => None,
        };
        let agreed = planned.as_ref().is_some_and(|planned| planned.agreed);
        let go_now = |failures: &[EntryFailure]| match outbound.waits_unread(shape, failures) {
            true => Err(NotLoaded::Unread),
            false => Ok(()),
        };
        let (Read { value, proof, failures }, copied) = match planned {
            Some(planned) => {
                go_now(&planned.failures)?;
                self.load_planned(planned, line_full, cargo)
            }
            None => {
                let record = outbound.record_of(source, shape)?;
                let read = read_whole(source, shape, &record, cargo)?;
                go_now(&read.failures)?;
                self.pack_whole(line_full, cargo);
                (read, 0)
            }
        };
        let sent = cargo.len() as u64;
        cargo.extend_from_slice(&value.0);
        outbound.handle_copied(copied);
        if agreed {
            outbound.handle_agreed(shape);
        }
        outbound.handle_sent(shape, proof, failures);
        Ok(Loaded { sent, copied })
    }

    /// Has a whole block go in pieces, where these are fewer bytes.
    fn pack_whole(&mut self, line_full: bool, cargo: &mut Vec<u8>) {
        self.pieces.clear();
        let in_pieces = self.packer.as_ref().is_some_and(Packer::is_on);
        for piece in cargo.chunks_mut(PIECE) {
            pack(&mut self.packer, piece, in_pieces, line_full, &mut self.pieces);
        }
        if in_pieces && self.pieces.len() < cargo.len() {
            std::mem::swap(cargo, &mut self.pieces);
        }
    }

    /// Returns how many bytes the receiver copies, too.
    fn load_planned(&mut self, planned: Planned, line_full: bool, cargo: &mut Vec<u8>) -> (Read, u64) {
        let Planned { steps, block, proof, failures, .. } = planned;
        let whole = block.clone();
        self.pieces.clear();
        let (mut left, mut copied) = (&mut self.window[block], 0);
        for step in steps {
            match step {
                Step::Copy { from, len } => {
                    self.pieces.extend_from_slice(&PieceHeader::Copy { len, from }.encode());
                    copied += u64::from(len);
                    left = &mut left[len as usize..];
                }
                Step::Literal { len } => {
                    let (literal, rest) = left.split_at_mut(len as usize);
                    for piece in literal.chunks_mut(PIECE) {
                        pack(&mut self.packer, piece, true, line_full, &mut self.pieces);
                    }
                    left = rest;
                }
            }
        }
        cargo.clear();
        if self.pieces.len() < whole.len() {
            cargo.extend_from_slice(&self.pieces);
        } else {
            cargo.extend_from_slice(&self.window[whole]);
            copied = 0;
        }
        (Read { value: proof.value(), proof: Some(proof), failures }, copied)
    }
}

fn read_whole(
    source: &dyn BlockSource,
    shape: &BlockShape,
    record: &Record,
    cargo: &mut Vec<u8>,
) -> io::Result<Read> {
    let len = shape.len as usize;
    // With the value behind it: a new buffer is not copied into a larger one for that.
    cargo.reserve_exact((len + VALUE_LEN as usize).saturating_sub(cargo.len()));
    cargo.resize(len, 0);
    record.read(source, shape, cargo, &mut |_| Ok(()))
}

/// Appends a piece as the law of compression has it; not `in_pieces`, the law alone hears.
fn pack(
    packer: &mut Option<Packer>,
    bytes: &mut [u8],
    in_pieces: bool,
    line_full: bool,
    pieces: &mut Vec<u8>,
) {
    let Ok(()) = carry::<Infallible>(
        packer,
        bytes,
        in_pieces,
        || line_full,
        |piece| {
            match piece {
                Piece::Packed(packed) => pieces.extend_from_slice(packed),
                Piece::Raw(bytes) if in_pieces => {
                    pieces.extend_from_slice(&PieceHeader::Raw { len: bytes.len() as u32 }.encode());
                    pieces.extend_from_slice(bytes);
                }
                Piece::Raw(_) => {}
            }
            Ok(())
        },
    );
}

/// Takes a block's cargo, without the value, into `arrival`, and says how many of its bytes were copied.
pub(crate) fn unload(
    unpacker: &mut Unpacker,
    mut cargo: &[u8],
    arrival: &mut Arrival<'_>,
) -> Result<u64, ReceiveError> {
    let (mut left, mut copied) = (arrival.shape().len, 0);
    if cargo.len() >= left as usize {
        // Hashed and written while it is in the second-level cache.
        for piece in cargo.chunks(PIECE) {
            arrival.write(&[IoSlice::new(piece)])?;
        }
        return Ok(0);
    }
    while left > 0 {
        let (header, rest) = cargo.split_first_chunk::<PIECE_HEADER_LEN>().ok_or(FrameError::NotWhole)?;
        let header = PieceHeader::decode(header, left)?;
        let follows = match header {
            PieceHeader::Raw { len } => len,
            PieceHeader::Zstd { packed, .. } => packed,
            PieceHeader::Copy { .. } => 0,
        };
        let (bytes, rest) = rest.split_at_checked(follows as usize).ok_or(FrameError::NotWhole)?;
        match header {
            PieceHeader::Raw { .. } => arrival.write(&[IoSlice::new(bytes)])?,
            PieceHeader::Zstd { len, .. } => arrival.write(&[IoSlice::new(unpacker.unpack(bytes, len)?)])?,
            PieceHeader::Copy { len, from } => {
                unpacker.copy(from, len, arrival)?;
                copied += u64::from(len);
            }
        }
        left -= header.len();
        cargo = rest;
    }
    if cargo.is_empty() { Ok(copied) } else { Err(FrameError::NotWhole.into()) }
}

#[cfg(test)]
mod tests {
    use terahaul_core::{BlockNumber, ByteCount, Compress, Hash};
    use tokio::sync::mpsc::unbounded_channel;

    use super::*;
    use crate::channel::{Next, shared_compression};

    /// A depot's transfer that was removed while it is read: zeros are where its bytes were.
    struct Gone {
        recorded: io::Result<Option<Hash>>,
    }

    fn gone() -> io::Error {
        io::Error::other("the transfer was removed")
    }

    impl BlockSource for Gone {
        fn known_value(&self, _: BlockNumber) -> io::Result<Option<Hash>> {
            self.recorded.as_ref().map(|value| *value).map_err(|_| gone())
        }

        fn read_block(
            &self,
            _: &BlockShape,
            _: &mut [u8],
            _: &mut dyn FnMut(&mut [u8]) -> io::Result<()>,
        ) -> io::Result<Vec<EntryFailure>> {
            Err(gone())
        }
    }

    /// They were sent with the value that zeros have.
    #[test]
    fn no_cargo_is_made_of_what_a_source_that_is_gone_has_left() {
        for recorded in [Ok(None), Ok(Some(Hash([1; 32]))), Err(gone())] {
            let outbound = Outbound::new(unbounded_channel().0);
            outbound.declare([Some(ByteCount(1000))], true).unwrap();
            outbound.handle_accepted(1).unwrap();
            let Some(Next::Block(shape)) = outbound.poll_next(terahaul_core::ChannelId(0)) else {
                panic!("nothing to send")
            };
            let mut loader = Loader::new(&shared_compression(Compress::No));
            let loaded = loader.load(&outbound, &Gone { recorded }, &shape, false, &mut Vec::new());
            assert!(matches!(loaded, Err(NotLoaded::Source(_))));
            assert!(!outbound.is_sent(), "it is still to be sent");
        }
    }
}
