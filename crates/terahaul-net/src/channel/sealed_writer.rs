//! The sending half of a data channel: encrypts in place, writes with as few system calls and copies as there can be.

use std::io::{self, IoSlice, Write};

use crate::tls::{HEADER_LEN, RECORD_LEN, RecordError, Sealer, TAIL_LEN};

/// Between two records' data lie the first one's tail and the second one's header.
const EDGE: usize = TAIL_LEN + HEADER_LEN;

/// Writes records to a stream.
pub struct SealedWriter<W> {
    stream: W,
    sealer: Sealer,
    /// Sealed small records that go out with the next write.
    pending: Vec<u8>,
    /// A record behind which there is no byte to lend.
    last: Vec<u8>,
    edges: Vec<[u8; EDGE]>,
}

impl From<RecordError> for io::Error {
    fn from(error: RecordError) -> Self {
        let kind = match error {
            RecordError::Exhausted => io::ErrorKind::ConnectionAborted,
            RecordError::Alert(_) => io::ErrorKind::ConnectionReset,
            RecordError::Altered | RecordError::Malformed => io::ErrorKind::InvalidData,
        };
        Self::new(kind, error)
    }
}

impl<W: Write> SealedWriter<W> {
    /// Seals with `sealer` onto `stream`.
    pub fn new(stream: W, sealer: Sealer) -> Self {
        Self { stream, sealer, pending: Vec::new(), last: Vec::new(), edges: Vec::new() }
    }

    /// Gives the sealer back, to go on with another stream. Nothing must be queued.
    pub fn into_sealer(self) -> Sealer {
        self.sealer
    }

    /// Records that may still be written before the channel must be replaced.
    pub fn records_left(&self) -> u64 {
        self.sealer.left()
    }

    /// Adds a small piece as a record of its own; it goes out with the next `write` or `flush`.
    pub fn queue(&mut self, bytes: &[u8]) -> io::Result<()> {
        for chunk in bytes.chunks(RECORD_LEN) {
            let start = self.pending.len() + HEADER_LEN;
            self.pending.extend_from_slice(&[0; HEADER_LEN]);
            self.pending.extend_from_slice(chunk);
            self.pending.push(0);
            let (mut header, mut tail) = ([0; HEADER_LEN], [0; TAIL_LEN]);
            self.sealer.seal(&mut self.pending[start..], &mut header, &mut tail)?;
            self.pending[start - HEADER_LEN..start].copy_from_slice(&header);
            self.pending.truncate(start + chunk.len());
            self.pending.extend_from_slice(&tail);
        }
        Ok(())
    }

    /// Encrypts `data` where it lies and writes all of it.
    pub fn write(&mut self, data: &mut [u8]) -> io::Result<()> {
        let records = data.len().div_ceil(RECORD_LEN);
        self.edges.clear();
        self.edges.resize(records + 1, [0; EDGE]);
        for at in 0..records {
            let (mut header, mut tail) = ([0; HEADER_LEN], [0; TAIL_LEN]);
            let rest = &mut data[at * RECORD_LEN..];
            match rest.get_mut(..=RECORD_LEN) {
                Some(data_and_one) => self.sealer.seal(data_and_one, &mut header, &mut tail)?,
                None => {
                    self.last.clear();
                    self.last.extend_from_slice(rest);
                    self.last.push(0);
                    self.sealer.seal(&mut self.last, &mut header, &mut tail)?;
                    rest.copy_from_slice(&self.last[..rest.len()]);
                }
            }
            self.edges[at][TAIL_LEN..].copy_from_slice(&header);
            self.edges[at + 1][..TAIL_LEN].copy_from_slice(&tail);
        }
        let mut slices = Vec::with_capacity(2 * records + 2);
        slices.push(IoSlice::new(&self.pending));
        slices.push(IoSlice::new(&self.edges[0][TAIL_LEN..]));
        for (at, chunk) in data.chunks(RECORD_LEN).enumerate() {
            let last = at + 1 == records;
            let edge = &self.edges[at + 1];
            slices.push(IoSlice::new(chunk));
            slices.push(IoSlice::new(if last { &edge[..TAIL_LEN] } else { edge }));
        }
        if records == 0 {
            slices.truncate(1);
        }
        write_all(&mut self.stream, &mut slices)?;
        self.pending.clear();
        Ok(())
    }

    /// Writes what was queued.
    pub fn flush(&mut self) -> io::Result<()> {
        self.stream.write_all(&self.pending)?;
        self.pending.clear();
        self.stream.flush()
    }

    /// Ends the channel in order.
    pub fn close(&mut self) -> io::Result<()> {
        let alert = self.sealer.close_notify()?;
        self.pending.extend_from_slice(&alert);
        self.flush()
    }
}

fn write_all(stream: &mut impl Write, mut slices: &mut [IoSlice<'_>]) -> io::Result<()> {
    IoSlice::advance_slices(&mut slices, 0);
    while !slices.is_empty() {
        match stream.write_vectored(slices) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => IoSlice::advance_slices(&mut slices, written),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
