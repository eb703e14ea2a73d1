//! How long a transfer would take.

use serde::{Deserialize, Serialize};

use super::{Measurements, Transferred};

/// Files that an end opens and closes in a second, cautiously: what the slower of two ordinary disks does.
const FILES_PER_SECOND: f64 = 10_000.0;
/// Round trips until the first byte of content is on its way, and from the last one to the receipt.
const ROUND_TRIPS: f64 = 7.0;
/// Round trips that a connection needs, about, to reach its rate.
const RAMP: f64 = 8.0;

/// How long it would take.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Forecast {
    /// Bytes.
    pub size: u64,
    /// Files.
    pub files: u64,
    /// Seconds, start to receipt.
    pub seconds: f64,
    /// Whether the files' number decides, rather than their size.
    pub files_decide: bool,
}

/// For `size` bytes in `files` files at what `moved` says. Files are opened while others are under way, so the
/// slower of both counts, not the sum.
pub fn forecast(measured: &Measurements, moved: &Transferred, size: u64, files: u64) -> Forecast {
    let rtt = measured.rtt().unwrap_or(0.0);
    let bytes = size as f64 / moved.bytes_per_second.max(1.0);
    let opening = files as f64 / FILES_PER_SECOND;
    // While a connection speeds up, it carries about half of what it will.
    let beginning = ROUND_TRIPS * rtt + RAMP * rtt / 2.0;
    Forecast { size, files, seconds: beginning + bytes.max(opening), files_decide: opening > bytes }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(rtt: f64) -> Measurements {
        Measurements { connects: vec![rtt], ..Measurements::default() }
    }

    fn rate(bytes_per_second: f64) -> Transferred {
        Transferred { bytes_per_second, ..Transferred::default() }
    }

    #[test]
    fn a_large_file_takes_its_bytes_time_and_a_small_one_its_round_trips() {
        let large = forecast(&path(0.1), &rate(100e6), 1_000_000_000_000, 1);
        assert!((large.seconds - 10_000.0).abs() < 2.0 && !large.files_decide, "{large:?}");
        let small = forecast(&path(0.1), &rate(100e6), 1000, 1);
        assert!((1.0..1.2).contains(&small.seconds), "{small:?}");
    }

    #[test]
    fn many_small_files_take_their_numbers_time() {
        let many = forecast(&path(0.0), &rate(1e9), 1_000_000, 1_000_000);
        assert!(many.files_decide && (many.seconds - 100.0).abs() < 1.0, "{many:?}");
    }
}
