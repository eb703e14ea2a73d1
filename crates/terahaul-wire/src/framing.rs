//! Messages behind their lengths.

use minicbor::{Decode, Encode};

use crate::DecodeError;

/// Longest control message, in bytes, without its length.
pub const MAX_MESSAGE: usize = 1 << 20;

/// A length prefix and CBOR: what both kinds of channel use for messages.
pub trait Control: Sized {
    /// Appends the message with its length.
    fn encode_to(&self, out: &mut Vec<u8>);
    /// Reads a message without its length.
    fn decode_from(bytes: &[u8]) -> Result<Self, DecodeError>;
}

impl<T> Control for T
where
    T: Encode<()> + for<'b> Decode<'b, ()>,
{
    fn encode_to(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&[0; 4]);
        // Writing into a vector cannot fail.
        let _ = minicbor::encode(self, &mut *out);
        let len = (out.len() - start - 4) as u32;
        out[start..start + 4].copy_from_slice(&len.to_le_bytes());
    }

    fn decode_from(bytes: &[u8]) -> Result<Self, DecodeError> {
        if bytes.len() > MAX_MESSAGE {
            return Err(DecodeError::TooLong(bytes.len()));
        }
        let mut decoder = minicbor::Decoder::new(bytes);
        let value = decoder.decode()?;
        if decoder.position() != bytes.len() {
            return Err(DecodeError::Malformed("bytes are left over after the message".into()));
        }
        Ok(value)
    }
}

/// The message with its length, ready to send.
pub fn encode_message(message: &impl Control) -> Vec<u8> {
    let mut out = Vec::new();
    message.encode_to(&mut out);
    out
}

/// How long the message at the front of `bytes` says that it is; `None` when more bytes are needed for that.
pub fn message_len(bytes: &[u8]) -> Option<usize> {
    bytes.first_chunk::<4>().map(|prefix| u32::from_le_bytes(*prefix) as usize)
}

/// Takes one message off the front of `bytes`: the message and the bytes it took, or `None` when more are needed.
pub fn decode_message<T: Control>(bytes: &[u8]) -> Result<Option<(T, usize)>, DecodeError> {
    let Some(len) = message_len(bytes) else { return Ok(None) };
    if len > MAX_MESSAGE {
        return Err(DecodeError::TooLong(len));
    }
    match bytes[4..].get(..len) {
        Some(body) => Ok(Some((T::decode_from(body)?, 4 + len))),
        None => Ok(None),
    }
}
