//! Bytes of the store as a response body, one piece ahead of the network.

use std::sync::{Arc, Mutex, PoisonError};

use axum::body::Body;
use bytes::Bytes;
use futures_util::stream;
use terahaul_core::Address;
use tokio::task::JoinHandle;

use crate::DepotError;
use crate::places::Place;
use crate::transfer::Outbound;

/// Bytes read at a time.
const PIECE: usize = 256 << 10;
/// Buffers that wait to be used again.
const KEPT: usize = 16;

/// Reads `start..end` of an address space.
pub(crate) struct ReadAhead {
    outbound: Outbound,
    at: Address,
    left: u64,
    next: Option<JoinHandle<Result<Bytes, DepotError>>>,
    _place: Option<Arc<Place>>,
}

impl ReadAhead {
    /// Reads `len` bytes from `at` on; `place` is held until the reader is dropped.
    pub fn new(outbound: Outbound, at: Address, len: u64, place: Option<Arc<Place>>) -> Self {
        Self { outbound, at, left: len, next: None, _place: place }
    }

    /// The next piece; `None` at the end.
    pub async fn next(&mut self) -> Option<Result<Bytes, DepotError>> {
        if self.outbound.is_closed() {
            return Some(Err(DepotError::NoTransfer));
        }
        let reading = match self.next.take() {
            Some(reading) => reading,
            None => self.start()?,
        };
        let piece = reading.await.unwrap_or(Err(DepotError::Stopping));
        self.next = self.start();
        Some(piece)
    }

    fn start(&mut self) -> Option<JoinHandle<Result<Bytes, DepotError>>> {
        if self.left == 0 {
            return None;
        }
        let len = self.left.min(PIECE as u64) as usize;
        let (outbound, at) = (self.outbound.clone(), self.at);
        self.at = self.at + len as u64;
        self.left -= len as u64;
        Some(tokio::task::spawn_blocking(move || {
            let mut buffer = Buffer::take();
            outbound.read_at(at, &mut buffer.bytes[..len])?;
            Ok(Bytes::from_owner(buffer).slice(..len))
        }))
    }

    /// The rest as a response body. An error ends the connection: the client sees that bytes are missing.
    pub fn into_body(self) -> Body {
        Body::from_stream(stream::unfold(self, |mut reader| async move {
            let piece = reader.next().await?;
            if let Err(error) = &piece {
                tracing::warn!(transfer = %reader.outbound.id(), %error, "a download was cut");
            }
            Some((piece, reader))
        }))
    }
}

/// A buffer that is used again once its bytes are sent: fresh ones would be filled with zeros first.
struct Buffer {
    bytes: Vec<u8>,
}

static BUFFERS: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());

impl Buffer {
    fn take() -> Self {
        let known = BUFFERS.lock().unwrap_or_else(PoisonError::into_inner).pop();
        Self { bytes: known.unwrap_or_else(|| vec![0; PIECE]) }
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let mut buffers = BUFFERS.lock().unwrap_or_else(PoisonError::into_inner);
        if buffers.len() < KEPT {
            buffers.push(std::mem::take(&mut self.bytes));
        }
    }
}
