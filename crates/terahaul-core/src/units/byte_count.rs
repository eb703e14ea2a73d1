//! A number of bytes.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::quantity::{Fault, Quantity};

/// A number of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ByteCount(pub u64);

/// As disks and networks are sold, the smallest first.
const DECIMAL: [(&str, u64); 6] = [
    ("B", 1),
    ("kB", 1000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("PB", 1_000_000_000_000_000),
];

/// As memory is.
const BINARY: [(&str, u64); 5] =
    [("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("TiB", 1 << 40), ("PiB", 1 << 50)];

/// The bytes in a unit of this name, whatever its case: that `b` may be bits is a matter of rates.
pub(super) fn bytes_in(unit: &str) -> Option<u64> {
    let mut units = DECIMAL.into_iter().chain(BINARY);
    units.find(|(name, _)| name.eq_ignore_ascii_case(unit)).map(|(_, bytes)| bytes)
}

impl ByteCount {
    /// `1.5GB` or `64MiB`, as it is read, without loss: in decimal units or in binary ones, whichever is shorter.
    pub fn exact(self) -> String {
        let decimal = self.exact_in(&DECIMAL);
        let either = decimal.into_iter().chain(self.exact_in(&BINARY)).min_by_key(String::len);
        either.unwrap_or_else(|| format!("{}B", self.0))
    }

    /// In the largest of these units in which it has three decimals at the most.
    fn exact_in(self, units: &[(&str, u64)]) -> Option<String> {
        let thousand = u128::from(self.0) * 1000;
        let fits =
            |(_, worth): &&(&str, u64)| self.0 >= *worth && thousand.is_multiple_of(u128::from(*worth));
        let (unit, worth) = units.iter().rev().find(fits)?;
        let thousandths = thousand / u128::from(*worth);
        let number = format!("{}.{:03}", thousandths / 1000, thousandths % 1000);
        Some(format!("{}{unit}", number.trim_end_matches('0').trim_end_matches('.')))
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

impl fmt::Display for ByteCount {
    /// Decimal multiples, as disks and networks are sold: `1.5 GB`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut value = self.0 as f64;
        let mut unit = 0;
        while value >= 999.95 && unit + 1 < DECIMAL.len() {
            value /= 1000.0;
            unit += 1;
        }
        if unit == 0 { write!(f, "{} B", self.0) } else { write!(f, "{value:.1} {}", DECIMAL[unit].0) }
    }
}

/// Why a number of bytes could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ByteCountError {
    /// No number, or no unit that is known: a bare number says nothing of what was meant.
    #[error("'{0}' is not a size: give a number and a unit, such as 500GB or 64MiB")]
    Unreadable(String),
    /// No file is so long.
    #[error("'{0}' is larger than anything can be: give 9000PB at most")]
    TooLarge(String),
}

impl FromStr for ByteCount {
    type Err = ByteCountError;

    /// Reads `500GB`, `1.5 TiB`, `64kb` or `4096B`. The unit is required, in upper or lower case.
    fn from_str(text: &str) -> Result<Self, ByteCountError> {
        let unreadable = || ByteCountError::Unreadable(text.to_owned());
        let quantity = Quantity::split(text).ok_or_else(unreadable)?;
        let worth = bytes_in(quantity.unit).ok_or_else(unreadable)?;
        quantity.bytes(worth, 1).map(Self).map_err(|fault| match fault {
            Fault::NoNumber => unreadable(),
            Fault::TooLarge => ByteCountError::TooLarge(text.to_owned()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> Result<ByteCount, ByteCountError> {
        text.parse()
    }

    #[test]
    fn byte_counts_read_as_people_write_them() {
        assert_eq!(ByteCount(999).to_string(), "999 B");
        assert_eq!(ByteCount(1_500_000_000).to_string(), "1.5 GB");
    }

    #[test]
    fn a_size_is_read_in_any_unit_and_any_case() {
        for (text, bytes) in [
            ("0B", 0),
            ("1b", 1),
            ("4096B", 4096),
            ("64kb", 64_000),
            ("64KB", 64_000),
            ("500GB", 500_000_000_000),
            ("2pb", 2_000_000_000_000_000),
            ("64KiB", 65_536),
            ("1.5 TiB", 1_649_267_441_664),
            ("1pib", 1 << 50),
            (" 1.5 GB ", 1_500_000_000),
            (".5kB", 500),
            ("5.kB", 5_000),
        ] {
            assert_eq!(read(text), Ok(ByteCount(bytes)), "{text}");
        }
    }

    #[test]
    fn a_size_is_not_a_byte_less_because_its_fraction_is_binary() {
        assert_eq!(read("1.025kB"), Ok(ByteCount(1_025)));
        assert_eq!(read("0.29kB"), Ok(ByteCount(290)));
        assert_eq!(read("9007199254740993B"), Ok(ByteCount(9_007_199_254_740_993)));
        assert_eq!(read("1.0000000000000000000000000000000000000000009MB"), Ok(ByteCount(1_000_000)));
    }

    #[test]
    fn what_is_no_size_is_refused_with_one() {
        for text in
            ["", "500", "GB", "-1GB", "+1GB", "1GBit", "1e3GB", ".GB", "1.2.3GB", "1 G B", "1E", "NaNGB"]
        {
            let error = read(text).unwrap_err();
            assert_eq!(error, ByteCountError::Unreadable(text.to_owned()));
            assert!(error.to_string().contains("500GB"), "{error}");
        }
    }

    /// A quota of 2^63 bytes was read, and no database has that number.
    #[test]
    fn a_size_that_no_file_has_is_refused_as_such() {
        assert_eq!(read("9223372036854775807B"), Ok(ByteCount(i64::MAX as u64)));
        for text in [
            "9223372036854775808B",
            "9300PB",
            "99999999PB",
            "9999999999999999999999999999999999999999999999999GB",
            "340282366920938463463374607431768211455B",
        ] {
            assert_eq!(read(text), Err(ByteCountError::TooLarge(text.to_owned())));
        }
        assert_eq!(read("9000PB"), Ok(ByteCount(9_000_000_000_000_000_000)), "what the refusal advises");
    }

    /// 64 kB were written as 62.5KiB.
    #[test]
    fn a_size_is_written_in_the_units_in_which_it_is_shorter() {
        for text in
            ["0B", "7B", "1.025kB", "123456.789kB", "64kB", "64KiB", "1.5GB", "256MB", "1GiB", "1TiB", "9PB"]
        {
            assert_eq!(read(text).unwrap().exact(), text);
        }
    }

    proptest! {
        #[test]
        fn a_size_is_read_as_it_was_written(bytes in 0..=i64::MAX as u64) {
            prop_assert_eq!(read(&ByteCount(bytes).exact()), Ok(ByteCount(bytes)));
        }
    }
}
