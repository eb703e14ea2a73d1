//! The receiving half of a data channel: decrypts where the bytes were received, and lends them out from there.

use std::collections::VecDeque;
use std::io::{self, IoSlice, Read};
use std::ops::Range;

use crate::tls::{HEADER_LEN, Opener, RECORD_LEN, Record, TAIL_LEN};

/// What one read from the socket may bring. Small enough that what is decrypted is still in the second-level cache
/// when it is hashed and written.
const BUFFER: usize = 32 * (HEADER_LEN + RECORD_LEN + TAIL_LEN);

/// Reads records from a stream.
pub struct SealedReader<R> {
    stream: R,
    opener: Opener,
    buffer: Box<[u8]>,
    filled: usize,
    /// Bytes of the buffer whose records were opened.
    opened: usize,
    /// Plaintext in the buffer that was not taken yet.
    plain: VecDeque<Range<usize>>,
    closed: bool,
}

impl<R: Read> SealedReader<R> {
    /// Opens with `opener` what comes from `stream`. `early` is plaintext and `ciphertext` are bytes that came
    /// with the handshake.
    pub fn new(stream: R, opener: Opener, early: &[u8], ciphertext: &[u8]) -> io::Result<Self> {
        let mut buffer = vec![0; BUFFER.max(early.len() + ciphertext.len() + BUFFER)].into_boxed_slice();
        buffer[..early.len()].copy_from_slice(early);
        let filled = early.len() + ciphertext.len();
        buffer[early.len()..filled].copy_from_slice(ciphertext);
        let mut plain = VecDeque::new();
        if !early.is_empty() {
            plain.push_back(0..early.len());
        }
        let mut reader = Self { stream, opener, buffer, filled, opened: early.len(), plain, closed: false };
        reader.open_records()?;
        Ok(reader)
    }

    /// Fills `out`; `false` at the end of the stream before its first byte.
    pub fn read_exact(&mut self, out: &mut [u8]) -> io::Result<bool> {
        let mut at = 0;
        while at < out.len() {
            let want = out.len() - at;
            let taken = self.take(want, |parts| {
                for part in parts {
                    out[at..at + part.len()].copy_from_slice(part);
                    at += part.len();
                }
                Ok::<_, io::Error>(())
            })?;
            if taken == 0 {
                return if at == 0 { Ok(false) } else { Err(io::ErrorKind::UnexpectedEof.into()) };
            }
        }
        Ok(true)
    }

    /// Lends at most `limit` of the next bytes to `act`, reading only when there are none. Returns how many; 0 at the
    /// end of the stream.
    pub fn take<E: From<io::Error>>(
        &mut self,
        limit: usize,
        act: impl FnOnce(&[IoSlice<'_>]) -> Result<(), E>,
    ) -> Result<usize, E> {
        while self.plain.is_empty() {
            if self.closed || !self.read_more()? {
                return Ok(0);
            }
        }
        let mut left = limit;
        let mut parts = Vec::with_capacity(self.plain.len());
        for range in &self.plain {
            if left == 0 {
                break;
            }
            let part = &self.buffer[range.start..range.end.min(range.start.saturating_add(left))];
            left -= part.len();
            parts.push(IoSlice::new(part));
        }
        act(&parts)?;
        let taken = limit - left;
        self.consume(taken);
        Ok(taken)
    }

    fn consume(&mut self, mut count: usize) {
        while let Some(range) = self.plain.front_mut() {
            let step = count.min(range.len());
            range.start += step;
            count -= step;
            if range.start < range.end {
                return;
            }
            self.plain.pop_front();
        }
    }

    /// Only when all plaintext was taken: moves the torn record at the end to the front and reads after it.
    fn read_more(&mut self) -> io::Result<bool> {
        self.buffer.copy_within(self.opened..self.filled, 0);
        self.filled -= self.opened;
        self.opened = 0;
        let count = loop {
            match self.stream.read(&mut self.buffer[self.filled..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => break other?,
            }
        };
        if count == 0 {
            return if self.filled == 0 { Ok(false) } else { Err(io::ErrorKind::UnexpectedEof.into()) };
        }
        self.filled += count;
        self.open_records()?;
        Ok(true)
    }

    fn open_records(&mut self) -> io::Result<()> {
        while !self.closed {
            let Some(len) = Opener::record_len(&self.buffer[self.opened..self.filled])? else { break };
            match self.opener.open(&mut self.buffer[self.opened..self.opened + len])? {
                Record::Data(0) | Record::Other => {}
                Record::Data(data) => {
                    let start = self.opened + HEADER_LEN;
                    self.plain.push_back(start..start + data);
                }
                Record::Closed => self.closed = true,
            }
            self.opened += len;
        }
        Ok(())
    }
}
