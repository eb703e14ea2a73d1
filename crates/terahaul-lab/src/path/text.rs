//! Rates, times and shares as people write them, in both directions.

use std::fmt;
use std::time::Duration;

/// Why a path's description cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// Not a loss.
    #[error(
        "'{0}' is not a loss: give a share such as 0.1%, or burst:ENTER:LEAVE:LOSS such as burst:0.05%:10%:50%"
    )]
    Loss(String),
    /// Not a queue.
    #[error(
        "'{0}' is not a queue: give 1bdp (bandwidth-delay products), 64kB, 4s (the time that it takes to drain), or none"
    )]
    Queue(String),
    /// Not a reordering.
    #[error("'{0}' is not a reordering: give a share and a time to hold back, such as 0.1%:1ms")]
    Reorder(String),
    /// Not a time.
    #[error("'{0}' is not a time: give a number and a unit, such as 100ms, 0.3ms or 4s")]
    Time(String),
    /// Not a congestion control.
    #[error("'{0}' is not the name of a congestion control: give one such as cubic or bbr")]
    CongestionControl(String),
    /// None named.
    #[error("only one congestion control was to be there, but none was named: name it, such as --cc cubic")]
    NoCongestionControl,
    /// Too small for IPv4.
    #[error("an MTU of {0} is too small for IPv4: give 576 or more")]
    Mtu(u16),
    /// None, or too many.
    #[error("there cannot be {0} paths side by side: give 1 to 4")]
    Paths(u8),
    /// Longer than two minutes.
    #[error("no path is emulated whose round trip or jitter is over 120s: give less")]
    TooLong,
}

/// Reads `100ms`, `0.3ms`, `4s`, `50us`.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let (number, nanos_in_unit) =
        split(text, &[("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("ms", 1e6), ("s", 1e9)])?;
    let nanos = (number * nanos_in_unit).round();
    (nanos < 1e18).then(|| Duration::from_nanos(nanos as u64))
}

/// As [`parse_duration`], for flags.
pub fn read_duration(text: &str) -> Result<Duration, SpecError> {
    parse_duration(text).ok_or_else(|| SpecError::Time(text.to_owned()))
}

/// Reads `0.1%` as a share between 0 and 1.
pub(super) fn parse_share(text: &str) -> Option<f64> {
    let (number, _) = split(text, &[("%", 1.0)])?;
    (number <= 100.0).then_some(number / 100.0)
}

/// A number that is not negative, and the worth of the unit behind it.
fn split(text: &str, units: &[(&str, f64)]) -> Option<(f64, f64)> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = text.split_at(end);
    let worth = units.iter().find(|(name, _)| *name == unit.trim())?.1;
    Some((number.parse().ok()?, worth))
}

/// `100ms`, as [`parse_duration`] reads it, without loss.
pub struct DurationText(pub Duration);

impl fmt::Display for DurationText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.as_nanos();
        if nanos >= 1_000_000_000 && nanos.is_multiple_of(1_000_000) {
            write!(f, "{}s", nanos as f64 / 1e9)
        } else if nanos.is_multiple_of(1_000) {
            write!(f, "{}ms", nanos as f64 / 1e6)
        } else {
            write!(f, "{nanos}ns")
        }
    }
}

/// `0.1%`.
pub(super) struct ShareText(pub(super) f64);

impl fmt::Display for ShareText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A share was a decimal number of per cent; binary fractions would show as 0.30000000000000004.
        let text = format!("{:.10}", self.0 * 100.0);
        write!(f, "{}%", text.trim_end_matches('0').trim_end_matches('.'))
    }
}

/// For `#[serde(with)]`: a rate as `1000000000bit`.
pub(super) mod rate {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};
    use terahaul_core::Rate;

    pub(in crate::path) fn serialize<S: Serializer>(rate: &Rate, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&text(*rate))
    }

    pub(in crate::path) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Rate, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }

    /// The largest unit that leaves a whole number.
    pub(super) fn text(rate: Rate) -> String {
        let bits = u128::from(rate.bytes_per_second()) * 8;
        for (unit, worth) in [("gbit", 1_000_000_000), ("mbit", 1_000_000), ("kbit", 1_000)] {
            if bits.is_multiple_of(worth) {
                return format!("{}{unit}", bits / worth);
            }
        }
        format!("{}B", bits / 8)
    }
}

/// As [`rate`], where there may be none.
pub(super) mod optional_rate {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};
    use terahaul_core::Rate;

    pub(in crate::path) fn serialize<S: Serializer>(
        rate: &Option<Rate>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match rate {
            Some(rate) => serializer.serialize_some(&super::rate::text(*rate)),
            None => serializer.serialize_none(),
        }
    }

    pub(in crate::path) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Rate>, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        text.map(|text| text.parse().map_err(D::Error::custom)).transpose()
    }
}

/// For `#[serde(with)]`: a time as `100ms`.
pub(super) mod duration {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(in crate::path) fn serialize<S: Serializer>(
        time: &Duration,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&super::DurationText(*time))
    }

    pub(in crate::path) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Duration, D::Error> {
        super::read_duration(&String::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

/// For `#[serde(with)]`: what `Display` shows and `FromStr` reads.
pub(super) mod shown {
    use std::fmt::Display;
    use std::str::FromStr;

    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(in crate::path) fn serialize<T: Display, S: Serializer>(
        value: &T,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_str(value)
    }

    pub(in crate::path) fn deserialize<'de, T: FromStr<Err: Display>, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<T, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_shown_as_they_are_read() {
        for text in ["100ms", "0.3ms", "4s", "1.5s", "0ms", "250ms", "7ns"] {
            assert_eq!(DurationText(parse_duration(text).unwrap()).to_string(), text);
        }
        assert_eq!(parse_duration("100"), None);
        assert_eq!(parse_duration("-1ms"), None);
        assert_eq!(parse_duration("99999999999999999999s"), None);
    }

    #[test]
    fn rates_are_kept_in_bits() {
        assert_eq!(rate::text("8.15gbit".parse().unwrap()), "8150mbit");
    }
}
