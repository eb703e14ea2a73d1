//! Pieces of a block on their way in.

use std::io::{self, IoSlice, Read};

use terahaul_store::{Arrival, BasisError, InboundError};
use terahaul_wire::{FrameError, PIECE_HEADER_LEN, PieceHeader};
use zstd::bulk::Decompressor;

use super::receiving::{OnBytes, ReceiveError};
use super::sealed_reader::SealedReader;

/// Bytes that are read from an old file, hashed and written at a time: they stay in the second-level cache.
const COPIED_AT_ONCE: usize = 256 << 10;

/// One channel's decompressor. Its buffers are as long as the longest piece so far, which is no longer than a piece may be.
#[derive(Default)]
pub(crate) struct Unpacker {
    decompressor: Option<Decompressor<'static>>,
    packed: Vec<u8>,
    content: Vec<u8>,
}

impl Unpacker {
    /// Takes pieces that amount to `len` bytes of a block. Without an arrival they are skipped. What is to be copied may be gone:
    /// then the rest is skipped too, and that error returned.
    pub(super) fn take_pieces<R: Read>(
        &mut self,
        reader: &mut SealedReader<R>,
        len: u32,
        arrival: &mut Option<Arrival<'_>>,
        on_bytes: OnBytes<'_>,
    ) -> Result<Option<InboundError>, ReceiveError> {
        let (mut left, mut lost) = (len, None);
        while left > 0 {
            let mut header = [0; PIECE_HEADER_LEN];
            read_all(reader, &mut header)?;
            on_bytes(PIECE_HEADER_LEN as u64)?;
            let header = PieceHeader::decode(&header, left)?;
            match header {
                PieceHeader::Raw { len } => take_raw(reader, len, arrival, on_bytes)?,
                PieceHeader::Zstd { len, packed } => {
                    let mut bytes = std::mem::take(&mut self.packed);
                    bytes.resize(packed as usize, 0);
                    read_all(reader, &mut bytes)?;
                    on_bytes(u64::from(packed))?;
                    if let Some(arrival) = arrival {
                        arrival.write(&[IoSlice::new(self.unpack(&bytes, len)?)])?;
                    }
                    self.packed = bytes;
                }
                PieceHeader::Copy { len, from } => {
                    if let Some(taking) = arrival {
                        match self.copy(from, len, taking) {
                            Err(error @ InboundError::Basis(BasisError::Lost(_))) => {
                                lost = Some(error);
                                *arrival = None;
                            }
                            copied => copied?,
                        }
                    }
                }
            }
            left -= header.len();
        }
        Ok(lost)
    }

    /// Copies what a piece names out of the old file.
    pub(super) fn copy(
        &mut self,
        from: u64,
        len: u32,
        arrival: &mut Arrival<'_>,
    ) -> Result<(), InboundError> {
        self.content.resize(COPIED_AT_ONCE, 0);
        arrival.copy(from, len, &mut self.content)
    }

    /// Whatever was packed, it becomes `len` bytes or an error: there is room for no more.
    pub(super) fn unpack(&mut self, packed: &[u8], len: u32) -> Result<&[u8], ReceiveError> {
        let decompressor = match &mut self.decompressor {
            Some(decompressor) => decompressor,
            none => none.insert(Decompressor::new()?),
        };
        self.content.resize(len as usize, 0);
        match decompressor.decompress_to_buffer(packed, &mut self.content[..]) {
            Ok(got) if got == len as usize => Ok(&self.content),
            _ => Err(FrameError::Unpack { len, packed: packed.len() as u32 }.into()),
        }
    }
}

/// Takes `len` bytes from where they were received.
pub(super) fn take_raw<R: Read>(
    reader: &mut SealedReader<R>,
    len: u32,
    arrival: &mut Option<Arrival<'_>>,
    on_bytes: OnBytes<'_>,
) -> Result<(), ReceiveError> {
    let mut left = len as usize;
    while left > 0 {
        let taken = reader.take(left, |parts| match arrival {
            Some(arrival) => arrival.write(parts).map_err(ReceiveError::from),
            None => Ok(()),
        })?;
        if taken == 0 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        on_bytes(taken as u64)?;
        left -= taken;
    }
    Ok(())
}

/// Fills `out`: what ends before that was cut.
pub(super) fn read_all<R: Read>(reader: &mut SealedReader<R>, out: &mut [u8]) -> Result<(), ReceiveError> {
    match reader.read_exact(out)? {
        true => Ok(()),
        false => Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
    }
}
