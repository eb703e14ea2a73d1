//! A data channel's thread at the receiver: read, decrypt, hash, write.

use std::io::{self, Read};
use std::time::Duration;

use terahaul_core::{BlockNumber, BlockRefusal};
use terahaul_store::{BasisError, Inbound, InboundError};
use terahaul_wire::{ErrorCode, FRAME_HEADER_LEN, FrameError, FrameHeader, TRAILER_LEN, Trailer, WireError};

use super::sealed_reader::SealedReader;
use super::unpacking::{Unpacker, read_all, take_raw};

/// How long a block that another channel is writing is waited for: the sender takes a block that is refused from whichever channel has it,
/// and gives up after a few refusals, which at a slow disk all came in the time that one block takes. Shorter than what a session that ends
/// gives its last blocks.
pub(crate) const ELSEWHERE: Duration = Duration::from_secs(1);

/// Why a data channel ended before its time.
#[derive(Debug, thiserror::Error)]
pub enum ReceiveError {
    /// The connection failed: the sender will use another.
    #[error("a data channel was lost: {0}")]
    Connection(#[from] io::Error),
    /// The sender sent what no sender sends.
    #[error("the other end broke the protocol: {0}; upgrade the older of the two programs")]
    Frame(#[from] FrameError),
    /// The block cannot be taken.
    #[error(transparent)]
    Inbound(#[from] InboundError),
}

impl ReceiveError {
    /// What the other end should be told; `None` when only the connection failed.
    pub fn wire_error(&self) -> Option<WireError> {
        match self {
            Self::Connection(_) | Self::Inbound(InboundError::Closed) => None,
            Self::Frame(error) => Some(WireError::violation(error)),
            Self::Inbound(error) => Some(inbound_wire_error(error)),
        }
    }
}

/// How the other end is told of a block that was not taken.
pub fn inbound_wire_error(error: &InboundError) -> WireError {
    let code = match error {
        InboundError::Refused(BlockRefusal::Busy(_))
        | InboundError::Mismatch { .. }
        | InboundError::Basis(BasisError::Lost(_))
        | InboundError::Conflict(_) => ErrorCode::Conflict,
        InboundError::Refused(refusal) => return WireError::violation(refusal),
        InboundError::Basis(BasisError::Outside) => return WireError::violation(error),
        full if full.is_full() => ErrorCode::DiskFull,
        InboundError::Sink(_) | InboundError::Ledger(_) | InboundError::Broken(_) => ErrorCode::Internal,
        // Not this one: but who opens the transfer again finds it open.
        InboundError::Closed => return WireError::passing(ErrorCode::Unavailable, error.to_string()),
    };
    WireError { code, message: error.to_string(), retry: error.is_passing() }
}

/// What happened to a block that was not kept, and the channel goes on.
pub type OnRefused<'a> = &'a (dyn Fn(BlockNumber, WireError) + Sync);

/// Counts what arrives, and waits where a limit asks for it. An error ends the channel: a socket that was shut down
/// still gives what was in its buffer.
pub type OnBytes<'a> = &'a (dyn Fn(u64) -> io::Result<()> + Sync);

/// Receives blocks until the sender closes the channel.
pub fn receive_blocks<R: Read>(
    mut reader: SealedReader<R>,
    inbound: &Inbound,
    on_refused: OnRefused<'_>,
    on_bytes: OnBytes<'_>,
) -> Result<(), ReceiveError> {
    let mut unpacker = Unpacker::default();
    loop {
        let mut header = [0; FRAME_HEADER_LEN];
        // Without an end frame the channel was cut between two blocks.
        read_all(&mut reader, &mut header)?;
        let header = FrameHeader::decode(&header)?;
        let (block, len) = match header {
            FrameHeader::End => return read_end(&mut reader),
            FrameHeader::Block { block, len } | FrameHeader::Pieces { block, len } => (block, len),
        };
        let mut arrival = match inbound.begin_within(ELSEWHERE, block, u64::from(len)) {
            Ok(arrival) => Some(arrival),
            Err(error @ InboundError::Refused(BlockRefusal::Busy(_))) => {
                on_refused(block, inbound_wire_error(&error));
                None
            }
            Err(error) => return Err(error.into()),
        };
        match header {
            FrameHeader::Pieces { .. } => {
                if let Some(lost) = unpacker.take_pieces(&mut reader, len, &mut arrival, on_bytes)? {
                    on_refused(block, inbound_wire_error(&lost));
                }
            }
            _ => take_raw(&mut reader, len, &mut arrival, on_bytes)?,
        }
        let mut trailer = [0; TRAILER_LEN];
        read_all(&mut reader, &mut trailer)?;
        let Some(arrival) = arrival else { continue };
        match arrival.finish(Some(Trailer::decode(&trailer).0)) {
            Ok(_) => {}
            Err(error @ (InboundError::Mismatch { .. } | InboundError::Conflict(_))) => {
                on_refused(block, inbound_wire_error(&error));
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Reads the sender's last record too: closing a socket with something unread resets the connection, and the sender
/// would take its blocks for lost.
fn read_end<R: Read>(reader: &mut SealedReader<R>) -> Result<(), ReceiveError> {
    if reader.read_exact(&mut [0])? {
        return Err(FrameError::AfterEnd.into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use terahaul_store::{LedgerError, SyncFailure};

    use super::*;

    #[test]
    fn what_failed_to_become_durable_may_be_sent_again_unless_room_is_missing() {
        let broken = |full| InboundError::Broken(SyncFailure { reason: "it failed".into(), full });
        let told = |error| {
            let WireError { code, retry, .. } = inbound_wire_error(&error);
            (code, retry)
        };
        assert_eq!(told(broken(false)), (ErrorCode::Internal, true));
        assert_eq!(told(broken(true)), (ErrorCode::DiskFull, false));
        let ledger = |source| InboundError::from(LedgerError { action: "written", source });
        assert_eq!(told(ledger("the database is locked".into())), (ErrorCode::Internal, true));
        let full = io::Error::from(io::ErrorKind::StorageFull);
        assert_eq!(told(ledger(full.into())), (ErrorCode::DiskFull, false));
    }

    #[test]
    fn a_broken_protocol_has_one_remedy_in_its_sentence() {
        let error = ReceiveError::from(FrameError::Kind(9));
        assert_eq!(error.to_string(), error.wire_error().unwrap().message);
    }
}
