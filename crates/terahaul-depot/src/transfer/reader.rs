//! Bytes of a finished transfer, none of them before it is proven.

use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use terahaul_core::{Address, BlockHasher};

use super::Published;
use super::unit::Unit;
use crate::DepotError;

/// Bytes read at a time.
const PIECE: usize = 256 << 10;
/// Buffers that wait to be used again.
const KEPT: usize = 64;

/// Reads a run of addresses, a piece at a time, and gives out what is wanted of a [`Unit`] once all of that is read and compared.
pub(crate) struct Reader {
    published: Published,
    /// What comes before is given out.
    at: Address,
    end: Address,
    reading: Option<Reading>,
}

/// A unit of which some has been read.
struct Reading {
    unit: Unit,
    hasher: BlockHasher,
    read: u32,
    wanted: Vec<Bytes>,
}

impl Reader {
    /// Reads `len` bytes from `at` on.
    pub fn new(published: Published, at: Address, len: u64) -> Self {
        Self { published, at, end: at + len, reading: None }
    }

    /// Whether all is given out.
    pub fn is_done(&self) -> bool {
        self.at >= self.end
    }

    /// Reads one more piece of what is wanted, and gives out what that proves. Blocks.
    pub fn read_on(&mut self) -> Result<Vec<Bytes>, DepotError> {
        let mut reading = match self.reading.take() {
            Some(reading) => reading,
            None => Reading::of(Unit::at(&self.published, self.at, self.end)?),
        };
        while reading.read < reading.unit.len() {
            if reading.read_piece(&self.published, self.at, self.end)? && reading.read < reading.unit.len() {
                self.reading = Some(reading);
                return Ok(Vec::new());
            }
        }
        reading.unit.judge(reading.hasher)?;
        self.at = reading.unit.start() + u64::from(reading.unit.len());
        Ok(reading.wanted)
    }
}

impl Reading {
    fn of(unit: Unit) -> Self {
        Self { hasher: unit.hasher(), unit, read: 0, wanted: Vec::new() }
    }

    /// Returns whether any of it is wanted, which is what lies between `from` and `to`.
    fn read_piece(&mut self, published: &Published, from: Address, to: Address) -> Result<bool, DepotError> {
        let mut buffer = Buffer::take();
        let len = PIECE.min((self.unit.len() - self.read) as usize);
        let start = self.unit.start() + u64::from(self.read);
        let bytes = &mut buffer.bytes[..len];
        published.read_at(start, bytes)?;
        self.hasher.update(bytes);
        self.read += len as u32;
        let within = |address: Address| address.0.saturating_sub(start.0).min(len as u64) as usize;
        let wanted = within(from)..within(to);
        let is_wanted = !wanted.is_empty();
        if is_wanted {
            self.wanted.push(Bytes::from_owner(buffer).slice(wanted));
        }
        Ok(is_wanted)
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
