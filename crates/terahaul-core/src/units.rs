//! The units of a transfer, each its own type: an address is not a count, and a count is not a rate.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Bytes in a block: the unit of scheduling, hashing, acknowledgement and resume.
///
/// A power of two, so that a block of a large file is an aligned BLAKE3 subtree.
pub const BLOCK_SIZE: u64 = 4 << 20;

/// A position in a transfer's flat address space, in bytes from its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Address(pub u64);

/// A block's number: its address divided by [`BLOCK_SIZE`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BlockNumber(pub u32);

/// An entry's position in the manifest, from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EntryIndex(pub u32);

/// A number of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ByteCount(pub u64);

/// A rate, in bytes a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Rate(u64);

/// A transfer's identifier: 16 random bytes, written as 26 lower-case base32 characters.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransferId(pub [u8; 16]);

impl Address {
    /// The block that holds this address, or `None` past the last block there can be.
    pub fn block(self) -> Option<BlockNumber> {
        u32::try_from(self.0 / BLOCK_SIZE).ok().map(BlockNumber)
    }

    /// Bytes between the start of this address's block and the address.
    pub fn offset_in_block(self) -> u64 {
        self.0 % BLOCK_SIZE
    }
}

impl BlockNumber {
    /// The block's first address.
    pub fn address(self) -> Address {
        Address(u64::from(self.0) * BLOCK_SIZE)
    }
}

impl std::ops::Add<u64> for Address {
    type Output = Self;
    fn add(self, bytes: u64) -> Self {
        Self(self.0 + bytes)
    }
}

impl std::ops::Add for ByteCount {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl std::ops::AddAssign for ByteCount {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl fmt::Display for BlockNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl fmt::Display for EntryIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl fmt::Display for ByteCount {
    /// Decimal multiples, as disks and networks are sold: `1.5 GB`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 6] = ["B", "kB", "MB", "GB", "TB", "PB"];
        let mut value = self.0 as f64;
        let mut unit = 0;
        while value >= 999.95 && unit + 1 < UNITS.len() {
            value /= 1000.0;
            unit += 1;
        }
        if unit == 0 { write!(f, "{} B", self.0) } else { write!(f, "{value:.1} {}", UNITS[unit]) }
    }
}

impl Rate {
    /// A rate in bytes a second; `None` for zero, which would never end.
    pub fn per_second(bytes: u64) -> Option<Self> {
        (bytes > 0).then_some(Self(bytes))
    }

    /// Bytes a second.
    pub fn bytes_per_second(self) -> u64 {
        self.0
    }

    /// How long `bytes` take at this rate.
    pub fn time_for(self, bytes: u64) -> Duration {
        Duration::from_secs_f64(bytes as f64 / self.0 as f64)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/s", ByteCount(self.0))
    }
}

/// Why a rate could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RateError {
    /// No unit, or one that is not known: `100` could be bits or bytes.
    #[error("'{0}' is not a rate: give a number and a unit, such as 800mbit, 1gbit, 100MB or 64MiB")]
    Unreadable(String),
    /// `100Mb`: bits by one custom and bytes by another, which differ eightfold.
    #[error(
        "'{text}' may mean bits or bytes: write {number}{prefix}B for bytes or {number}{small}bit for bits"
    )]
    Ambiguous {
        /// What was given.
        text: String,
        /// Its number.
        number: String,
        /// The unit without its last letter.
        prefix: String,
        /// The first letter of that, as bits have it.
        small: char,
    },
    /// Zero would never end.
    #[error("a rate of zero would never end: leave the limit out, or give at least 1kB")]
    Zero,
}

impl FromStr for Rate {
    type Err = RateError;

    /// Reads `1gbit`, `800mbit`, `100MB`, `64MiB`, `1.5GB/s`. The unit is required; bits and bytes are spelled out.
    fn from_str(text: &str) -> Result<Self, RateError> {
        let unreadable = || RateError::Unreadable(text.to_owned());
        let trimmed = text.trim();
        let trimmed = trimmed.strip_suffix("/s").unwrap_or(trimmed);
        let split = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(unreadable)?;
        let (number, unit) = trimmed.split_at(split);
        let unit = unit.trim();
        if let Some(prefix) = unit.strip_suffix('b')
            && let Some(first @ ('K' | 'M' | 'G')) = prefix.chars().next()
        {
            return Err(RateError::Ambiguous {
                text: text.to_owned(),
                number: number.to_owned(),
                prefix: prefix.to_owned(),
                small: first.to_ascii_lowercase(),
            });
        }
        let number: f64 = number.parse().map_err(|_| unreadable())?;
        let bytes_in_unit = match unit.to_ascii_lowercase().as_str() {
            "bit" => 0.125,
            "kbit" => 125.0,
            "mbit" => 125e3,
            "gbit" => 125e6,
            "b" => 1.0,
            "kb" => 1e3,
            "mb" => 1e6,
            "gb" => 1e9,
            "kib" => 1024.0,
            "mib" => 1_048_576.0,
            "gib" => 1_073_741_824.0,
            _ => return Err(unreadable()),
        };
        Self::per_second((number * bytes_in_unit) as u64).ok_or(RateError::Zero)
    }
}

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
    fn a_rate_needs_a_unit() {
        assert_eq!("1gbit".parse::<Rate>().unwrap().bytes_per_second(), 125_000_000);
        assert_eq!("64MiB".parse::<Rate>().unwrap().bytes_per_second(), 64 << 20);
        assert_eq!("1.5MB/s".parse::<Rate>().unwrap().bytes_per_second(), 1_500_000);
        assert!(matches!("100".parse::<Rate>(), Err(RateError::Unreadable(_))));
        assert!(matches!("fast".parse::<Rate>(), Err(RateError::Unreadable(_))));
        assert_eq!("0MB".parse::<Rate>(), Err(RateError::Zero));
    }

    #[test]
    fn a_rate_that_may_be_bits_or_bytes_is_refused_with_both_spellings() {
        for (text, advice) in [
            ("100Mb", "write 100MB for bytes or 100mbit for bits"),
            ("1.5 Gb/s", "write 1.5GB for bytes or 1.5gbit for bits"),
            ("64Mib", "write 64MiB for bytes or 64mbit for bits"),
        ] {
            let error = text.parse::<Rate>().unwrap_err().to_string();
            assert!(error.ends_with(advice), "{error}");
        }
        assert_eq!("100kB".parse::<Rate>().unwrap().bytes_per_second(), 100_000);
        assert_eq!("100mb".parse::<Rate>().unwrap().bytes_per_second(), 100_000_000);
        assert_eq!("100Mbit".parse::<Rate>().unwrap().bytes_per_second(), 12_500_000);
    }

    #[test]
    fn a_transfer_id_reads_back_as_it_was_written() {
        let id = TransferId([7; 16]);
        assert_eq!(id.to_string().parse::<TransferId>().unwrap(), id);
        assert_eq!(id.to_string().len(), 26);
        assert!("../../etc/passwd".parse::<TransferId>().is_err());
        assert!(id.to_string().to_uppercase().parse::<TransferId>().is_err());
    }

    #[test]
    fn byte_counts_read_as_people_write_them() {
        assert_eq!(ByteCount(999).to_string(), "999 B");
        assert_eq!(ByteCount(1_500_000_000).to_string(), "1.5 GB");
    }
}
