//! The TLS 1.3 record layer of a data channel, in place.
//!
//! rustls makes the handshake and derives the keys; from there on a data channel seals and opens records where the
//! bytes lie (RFC 8446 §5), because the library's own record layer copies each record twice on the way out and once
//! on the way in. A file's bytes are read into a buffer, hashed, encrypted in that buffer and written to the
//! socket from it; what arrives is decrypted in the buffer it was received into and written to disk from there.
//!
//! A channel is replaced long before its keys wear out ([`MAX_RECORDS`]), so there are no key updates.

use ring::aead::{AES_128_GCM, AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use rustls::ConnectionTrafficSecrets;

/// Most plaintext bytes in a record (2¹⁴); sixteen BLAKE3 chunks, so full records hash at full width.
pub const RECORD_LEN: usize = 16384;
/// Bytes of a record before its ciphertext.
pub const HEADER_LEN: usize = 5;
/// Bytes after it: the inner content type, encrypted, and the tag.
pub const TAIL_LEN: usize = 17;
/// Records after which a channel must be replaced: 2²² full records are 64 GiB, far below AES-GCM's limit of 2²⁴·⁵
/// (RFC 8446 §5.5).
pub const MAX_RECORDS: u64 = 1 << 22;

const APPLICATION_DATA: u8 = 23;
const ALERT: u8 = 21;
const HANDSHAKE: u8 = 22;

/// Why a record cannot be sealed or opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// The tag does not fit: bytes were changed on the way, or the peer is not who it was.
    #[error("a data channel received bytes that were altered on the way: the channel is replaced")]
    Altered,
    /// A header, length or type that TLS 1.3 does not allow here.
    #[error("a data channel received something that is not a TLS record: the channel is replaced")]
    Malformed,
    /// The keys have been used as often as is safe.
    #[error("a data channel has used up its keys: the channel is replaced")]
    Exhausted,
    /// The peer sent a fatal alert.
    #[error("the other end closed a data channel with TLS alert {0}")]
    Alert(u8),
}

struct Keys {
    key: LessSafeKey,
    iv: [u8; 12],
    sequence: u64,
}

impl Keys {
    fn new(sequence: u64, secrets: &ConnectionTrafficSecrets) -> Option<Self> {
        let (algorithm, key, iv) = match secrets {
            ConnectionTrafficSecrets::Aes128Gcm { key, iv } => (&AES_128_GCM, key, iv),
            ConnectionTrafficSecrets::Aes256Gcm { key, iv } => (&AES_256_GCM, key, iv),
            ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => (&CHACHA20_POLY1305, key, iv),
            _ => return None,
        };
        let key = LessSafeKey::new(UnboundKey::new(algorithm, key.as_ref()).ok()?);
        Some(Self { key, iv: iv.as_ref().try_into().ok()?, sequence })
    }

    fn next_nonce(&mut self) -> Result<Nonce, RecordError> {
        if self.sequence >= MAX_RECORDS {
            return Err(RecordError::Exhausted);
        }
        let mut nonce = self.iv;
        for (byte, counter) in nonce[4..].iter_mut().zip(self.sequence.to_be_bytes()) {
            *byte ^= counter;
        }
        self.sequence += 1;
        Ok(Nonce::assume_unique_for_key(nonce))
    }
}

/// Encrypts, in order.
pub struct Sealer(Keys);

/// Decrypts, in order.
pub struct Opener(Keys);

impl Sealer {
    /// From the secrets of a finished handshake.
    pub fn new(sequence: u64, secrets: &ConnectionTrafficSecrets) -> Option<Self> {
        Keys::new(sequence, secrets).map(Self)
    }

    /// Records that may still be sealed.
    pub fn left(&self) -> u64 {
        MAX_RECORDS.saturating_sub(self.0.sequence)
    }

    /// Encrypts one record of at most [`RECORD_LEN`] bytes in place: `header`, then the data, then `tail` go on the
    /// wire. Behind its data `data_and_one` has one byte more, which is lent: the content type is encrypted there, and
    /// then the byte is what it was.
    pub fn seal(
        &mut self,
        data_and_one: &mut [u8],
        header: &mut [u8; HEADER_LEN],
        tail: &mut [u8; TAIL_LEN],
    ) -> Result<(), RecordError> {
        debug_assert!((1..=RECORD_LEN + 1).contains(&data_and_one.len()));
        *header = record_header(data_and_one.len() - 1 + TAIL_LEN);
        let nonce = self.0.next_nonce()?;
        let lent = swap_last(data_and_one, APPLICATION_DATA);
        let sealed = self.0.key.seal_in_place_separate_tag(nonce, Aad::from(*header), data_and_one);
        tail[0] = swap_last(data_and_one, lent);
        tail[1..].copy_from_slice(sealed.map_err(|_| RecordError::Exhausted)?.as_ref());
        Ok(())
    }

    /// The alert that ends a channel in order.
    pub fn close_notify(&mut self) -> Result<Vec<u8>, RecordError> {
        let header = record_header(2 + TAIL_LEN);
        let mut body = vec![1, 0, ALERT];
        let nonce = self.0.next_nonce()?;
        self.0
            .key
            .seal_in_place_append_tag(nonce, Aad::from(header), &mut body)
            .map_err(|_| RecordError::Exhausted)?;
        Ok([&header[..], &body].concat())
    }
}

fn swap_last(bytes: &mut [u8], byte: u8) -> u8 {
    bytes.last_mut().map_or(byte, |last| std::mem::replace(last, byte))
}

fn record_header(len: usize) -> [u8; HEADER_LEN] {
    let len = (len as u16).to_be_bytes();
    [APPLICATION_DATA, 3, 3, len[0], len[1]]
}

/// What a record held.
#[derive(Debug, PartialEq, Eq)]
pub enum Record {
    /// Plaintext, this many bytes from the record's start plus [`HEADER_LEN`].
    Data(usize),
    /// The peer closed in order.
    Closed,
    /// Nothing for the application.
    Other,
}

impl Opener {
    /// From the secrets of a finished handshake.
    pub fn new(sequence: u64, secrets: &ConnectionTrafficSecrets) -> Option<Self> {
        Keys::new(sequence, secrets).map(Self)
    }

    /// The length of the record at the front of `bytes`, header included, or `None` when more bytes are needed.
    pub fn record_len(bytes: &[u8]) -> Result<Option<usize>, RecordError> {
        let Some(header) = bytes.first_chunk::<HEADER_LEN>() else { return Ok(None) };
        let len = usize::from(u16::from_be_bytes([header[3], header[4]]));
        // RFC 8446 §5.2: at most 2¹⁴ + 256; a record always holds a type byte and a tag.
        if header[0] != APPLICATION_DATA || !(TAIL_LEN..=RECORD_LEN + 256).contains(&len) {
            return Err(RecordError::Malformed);
        }
        Ok((bytes.len() >= HEADER_LEN + len).then_some(HEADER_LEN + len))
    }

    /// Decrypts one whole record in place.
    pub fn open(&mut self, record: &mut [u8]) -> Result<Record, RecordError> {
        let (header, body) = record.split_first_chunk_mut::<HEADER_LEN>().ok_or(RecordError::Malformed)?;
        let nonce = self.0.next_nonce()?;
        let inner =
            self.0.key.open_in_place(nonce, Aad::from(*header), body).map_err(|_| RecordError::Altered)?;
        // The content type is the last byte that is not padding.
        let end = inner.iter().rposition(|&byte| byte != 0).ok_or(RecordError::Malformed)?;
        match (inner[end], &inner[..end]) {
            (APPLICATION_DATA, data) if data.len() <= RECORD_LEN => Ok(Record::Data(data.len())),
            (ALERT, [_, 0]) => Ok(Record::Closed),
            (ALERT, [_, alert]) => Err(RecordError::Alert(*alert)),
            // A session ticket, which data channels do not use. Anything else would need an answer.
            (HANDSHAKE, [4, ..]) => Ok(Record::Other),
            _ => Err(RecordError::Malformed),
        }
    }
}
