//! A rate.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::byte_count::{ByteCount, bytes_in};
use super::quantity::{Fault, Quantity};

/// A rate, in bytes a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Rate(u64);

/// Bits in a byte.
const BITS: u64 = 8;

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
    /// No line is so fast.
    #[error("'{0}' is faster than anything can be: give 9000PB at most")]
    TooLarge(String),
}

/// The bits in a unit of bits, whatever its case: they have decimal multiples only.
fn bits_in(unit: &str) -> Option<u64> {
    let unit = unit.to_ascii_lowercase();
    let prefix = unit.strip_suffix("bit")?;
    bytes_in(&format!("{prefix}b")).filter(|_| !prefix.ends_with('i'))
}

impl FromStr for Rate {
    type Err = RateError;

    /// Reads `1gbit`, `800mbit`, `100MB`, `64MiB`, `1.5GB/s`. The unit is required; bits and bytes are spelled out.
    fn from_str(text: &str) -> Result<Self, RateError> {
        let unreadable = || RateError::Unreadable(text.to_owned());
        let trimmed = text.trim();
        let quantity =
            Quantity::split(trimmed.strip_suffix("/s").unwrap_or(trimmed)).ok_or_else(unreadable)?;
        let Quantity { number, unit } = quantity;
        if let Some(prefix) = unit.strip_suffix('b')
            && let Some(first @ ('K' | 'M' | 'G' | 'T' | 'P')) = prefix.chars().next()
        {
            return Err(RateError::Ambiguous {
                text: text.to_owned(),
                number: number.to_owned(),
                prefix: prefix.to_owned(),
                small: first.to_ascii_lowercase(),
            });
        }
        let (worth, in_byte) = match bits_in(unit) {
            Some(bits) => (bits, BITS),
            None => (bytes_in(unit).ok_or_else(unreadable)?, 1),
        };
        let bytes = quantity.bytes(worth, in_byte).map_err(|fault| match fault {
            Fault::NoNumber => unreadable(),
            Fault::TooLarge => RateError::TooLarge(text.to_owned()),
        })?;
        Self::per_second(bytes).ok_or(RateError::Zero)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<u64, RateError> {
        text.parse().map(Rate::bytes_per_second)
    }

    #[test]
    fn a_rate_needs_a_unit() {
        assert_eq!(read("1gbit"), Ok(125_000_000));
        assert_eq!(read("64MiB"), Ok(64 << 20));
        assert_eq!(read("1.5MB/s"), Ok(1_500_000));
        for text in ["100", "fast", "1ibit", "1mibit", "1eb", ".mbit", "1.2.3MB", "-1MB"] {
            assert_eq!(read(text), Err(RateError::Unreadable(text.to_owned())));
        }
        assert_eq!(read("0MB"), Err(RateError::Zero));
    }

    #[test]
    fn a_rate_that_may_be_bits_or_bytes_is_refused_with_both_spellings() {
        for (text, advice) in [
            ("100Mb", "write 100MB for bytes or 100mbit for bits"),
            ("1.5 Gb/s", "write 1.5GB for bytes or 1.5gbit for bits"),
            ("64Mib", "write 64MiB for bytes or 64mbit for bits"),
            ("1Tb", "write 1TB for bytes or 1tbit for bits"),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.ends_with(advice), "{error}");
        }
        assert_eq!(read("100kB"), Ok(100_000));
        assert_eq!(read("100mb"), Ok(100_000_000));
        assert_eq!(read("100Mbit"), Ok(12_500_000));
    }

    #[test]
    fn a_rate_has_the_units_of_a_size_and_as_many_of_bits() {
        for (text, bytes) in [
            ("8bit", 1),
            ("8.15gbit", 1_018_750_000),
            ("1tbit", 125_000_000_000),
            ("2TB", 2_000_000_000_000),
            ("1 PiB/s", 1 << 50),
            ("1.001kB", 1_001),
        ] {
            assert_eq!(read(text), Ok(bytes), "{text}");
        }
        assert_eq!(read("9999999PB"), Err(RateError::TooLarge("9999999PB".to_owned())));
    }
}
