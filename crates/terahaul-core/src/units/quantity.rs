//! A number and its unit, as in `1.5 GB`: what sizes and rates have in common when they are read.

/// The most bytes that are read: the lengths of files, and the numbers in a depot's database, are signed.
const MOST: u64 = i64::MAX as u64;
/// Digits behind the point that count: of any unit they are less than a byte.
const DECIMALS: usize = 18;

/// A number that is still text, and what stands behind it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quantity<'a> {
    pub(super) number: &'a str,
    pub(super) unit: &'a str,
}

/// Why it is no number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// What stands before the unit is no number.
    NoNumber,
    /// It is more than [`MOST`].
    TooLarge,
}

impl<'a> Quantity<'a> {
    /// `None` where there is no unit. A sign is none, and so nothing is negative.
    pub(super) fn split(text: &'a str) -> Option<Self> {
        let text = text.trim();
        let at = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, unit) = text.split_at(at);
        Some(Self { number, unit: unit.trim_start() })
    }

    /// The bytes of it where its unit is `worth` of them, or of what `in_byte` of make one; to the nearest whole.
    ///
    /// In whole numbers, as binary fractions would make 1.001 kB one byte less.
    pub(super) fn bytes(self, worth: u64, in_byte: u64) -> Result<u64, Fault> {
        let (whole, decimals) = self.number.split_once('.').unwrap_or((self.number, ""));
        if decimals.contains('.') || whole.len() + decimals.len() == 0 {
            return Err(Fault::NoNumber);
        }
        let decimals = decimals.get(..DECIMALS).unwrap_or(decimals);
        let divisor = 10u128.pow(decimals.len() as u32) * u128::from(in_byte);
        // There are digits only, and with so few decimals what is too much for 128 bits is too much in any unit.
        let digits = format!("{whole}{decimals}").parse::<u128>().map_err(|_| Fault::TooLarge)?;
        let parts = digits.checked_mul(u128::from(worth)).ok_or(Fault::TooLarge)?;
        let bytes = parts.checked_add(divisor / 2).ok_or(Fault::TooLarge)? / divisor;
        u64::try_from(bytes).ok().filter(|bytes| *bytes <= MOST).ok_or(Fault::TooLarge)
    }
}
