//! Integers of 1, 2, 4 or 8 bytes, as QUIC writes them (RFC 9000, section 16), each in its shortest form.

use super::PacketError;

/// The largest integer that fits.
pub const MAX_VARINT: u64 = (1 << 62) - 1;

/// Appends `value`; what is above [`MAX_VARINT`] is written as that.
pub(super) fn write(out: &mut Vec<u8>, value: u64) {
    let value = value.min(MAX_VARINT);
    match value {
        0..=0x3f => out.push(value as u8),
        0x40..=0x3fff => out.extend_from_slice(&(value as u16 | 0x4000).to_be_bytes()),
        0x4000..=0x3fff_ffff => out.extend_from_slice(&(value as u32 | 0x8000_0000).to_be_bytes()),
        _ => out.extend_from_slice(&(value | 0xc000_0000_0000_0000).to_be_bytes()),
    }
}

/// Bytes that [`write`] takes for `value`.
pub(super) fn len(value: u64) -> usize {
    match value {
        0..=0x3f => 1,
        0x40..=0x3fff => 2,
        0x4000..=0x3fff_ffff => 4,
        _ => 8,
    }
}

/// Reads bytes from the front of a packet.
#[derive(Clone, Debug)]
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn take(&mut self, len: usize) -> Result<&'a [u8], PacketError> {
        let (head, rest) = self.0.split_at_checked(len).ok_or(PacketError::Short)?;
        self.0 = rest;
        Ok(head)
    }

    pub(super) fn byte(&mut self) -> Result<u8, PacketError> {
        self.take(1).map(|bytes| bytes[0])
    }

    /// A little-endian integer of `N` bytes, at most 8.
    pub(super) fn fixed<const N: usize>(&mut self) -> Result<u64, PacketError> {
        let (head, rest) = self.0.split_first_chunk::<N>().ok_or(PacketError::Short)?;
        self.0 = rest;
        let mut bytes = [0; 8];
        bytes[..N].copy_from_slice(head);
        Ok(u64::from_le_bytes(bytes))
    }

    pub(super) fn varint(&mut self) -> Result<u64, PacketError> {
        let first = *self.0.first().ok_or(PacketError::Short)?;
        let size = 1usize << (first >> 6);
        let bytes = self.take(size)?;
        let value =
            bytes[1..].iter().fold(u64::from(first & 0x3f), |value, byte| value << 8 | u64::from(*byte));
        if len(value) != size {
            return Err(PacketError::NotShortest);
        }
        Ok(value)
    }

    /// A varint that is at most `limit`.
    pub(super) fn bounded(&mut self, limit: u64) -> Result<u64, PacketError> {
        self.varint().and_then(|value| if value <= limit { Ok(value) } else { Err(PacketError::Range) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_integer_reads_back_from_as_many_bytes_as_were_said(value in 0..=MAX_VARINT, shift in 0u32..62) {
            let value = value >> shift;
            let mut bytes = Vec::new();
            write(&mut bytes, value);
            prop_assert_eq!(bytes.len(), len(value));
            let mut reader = Reader(&bytes);
            prop_assert_eq!(reader.varint(), Ok(value));
            prop_assert!(reader.0.is_empty());
        }
    }

    #[test]
    fn a_longer_form_than_needed_is_refused() {
        assert_eq!(Reader(&[0x40, 0x01]).varint(), Err(PacketError::NotShortest));
        assert_eq!(Reader(&[0x40]).varint(), Err(PacketError::Short));
    }
}
