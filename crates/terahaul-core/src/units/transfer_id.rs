//! Which transfer it is.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A transfer's identifier: 16 random bytes, written as 26 lower-case base32 characters.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransferId(pub [u8; 16]);

impl fmt::Display for TransferId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = data_encoding::BASE32_NOPAD.encode(&self.0);
        text.make_ascii_lowercase();
        f.write_str(&text)
    }
}

impl fmt::Debug for TransferId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TransferId({self})")
    }
}

/// A text is not a transfer's identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a transfer identifier: it has 26 characters, a to z and 2 to 7")]
pub struct TransferIdError;

impl FromStr for TransferId {
    type Err = TransferIdError;
    fn from_str(text: &str) -> Result<Self, TransferIdError> {
        if text.len() != 26 || text.bytes().any(|b| b.is_ascii_uppercase()) {
            return Err(TransferIdError);
        }
        let bytes = data_encoding::BASE32_NOPAD
            .decode(text.to_ascii_uppercase().as_bytes())
            .map_err(|_| TransferIdError)?;
        bytes.try_into().map(Self).map_err(|_| TransferIdError)
    }
}

impl Serialize for TransferId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for TransferId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transfer_id_reads_back_as_it_was_written() {
        let id = TransferId([7; 16]);
        assert_eq!(id.to_string().parse::<TransferId>().unwrap(), id);
        assert_eq!(id.to_string().len(), 26);
        assert!("../../etc/passwd".parse::<TransferId>().is_err());
        assert!(id.to_string().to_uppercase().parse::<TransferId>().is_err());
    }
}
