//! How long a transfer would take.

use serde::{Deserialize, Serialize};
use terahaul_core::ByteCount;

use super::{Limit, Measurements, Transferred, find_limit};
use crate::work::Direction;

/// Files that an end opens and closes in a second, cautiously: what the slower of two ordinary disks does.
const FILES_PER_SECOND: f64 = 10_000.0;
/// Round trips from the last byte to the receipt.
const ENDING: f64 = 3.0;

/// How long it would take.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Forecast {
    /// Bytes.
    pub size: ByteCount,
    /// Files.
    pub files: u64,
    /// Seconds, start to receipt.
    pub seconds: f64,
    /// Whether the files' number decides, rather than their size.
    pub files_decide: bool,
    /// Whether it may be less: the path carries what was measured at least.
    pub at_most: bool,
}

/// For a `size` in `files` files in this direction, of which `moved` tells. Files are opened while
/// others are under way, so the slower of both counts, not the sum.
pub fn forecast(
    measured: &Measurements,
    moved: &Transferred,
    direction: Direction,
    size: ByteCount,
    files: u64,
) -> Forecast {
    let bytes = size.0 as f64 / sustained(measured, moved, direction);
    let opening = files as f64 / FILES_PER_SECOND;
    let seconds = around(measured, moved) + bytes.max(opening);
    Forecast { size, files, seconds, files_decide: opening > bytes, at_most: moved.at_least }
}

/// What lasts: a disk may be slower than the network, and a cache in front of it hides that for a while.
fn sustained(measured: &Measurements, moved: &Transferred, direction: Direction) -> f64 {
    let whole = moved.bytes.zip(moved.seconds).map(|(bytes, seconds)| bytes as f64 / seconds);
    let there = whole.filter(|_| find_limit(measured, moved, direction) == Limit::DiskThere);
    let rates = [Some(moved.bytes_per_second), measured.here.disk(direction), there];
    rates.into_iter().flatten().fold(f64::INFINITY, f64::min).max(1.0)
}

/// Seconds that any transfer takes, besides its bytes' time: until it has its rate, and from the last byte to the
/// receipt. The measurement was a transfer itself and shows it.
fn around(measured: &Measurements, moved: &Transferred) -> f64 {
    let least = moved.delay + ENDING * measured.rtt().unwrap_or(0.0);
    let whole = moved.bytes.zip(moved.seconds);
    whole.map_or(least, |(bytes, seconds)| (seconds - bytes as f64 / moved.bytes_per_second).max(least))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(rtt: f64) -> Measurements {
        Measurements { connects: vec![rtt], ..Measurements::default() }
    }

    fn rate(bytes_per_second: f64) -> Transferred {
        Transferred { bytes_per_second, delay: 0.8, ..Transferred::default() }
    }

    #[test]
    fn a_large_file_takes_its_bytes_time_and_a_small_one_its_round_trips() {
        let large = forecast(&path(0.1), &rate(100e6), Direction::Put, ByteCount(1_000_000_000_000), 1);
        assert!((large.seconds - 10_000.0).abs() < 2.0 && !large.files_decide, "{large:?}");
        let small = forecast(&path(0.1), &rate(100e6), Direction::Put, ByteCount(1000), 1);
        assert!((1.0..1.2).contains(&small.seconds), "{small:?}");
    }

    #[test]
    fn of_a_path_that_carries_so_much_at_least_it_is_the_most() {
        let at_most =
            |moved| forecast(&path(0.1), &moved, Direction::Put, ByteCount(1_000_000_000), 1).at_most;
        assert_eq!(
            (at_most(rate(100e6)), at_most(Transferred { at_least: true, ..rate(100e6) })),
            (false, true)
        );
    }

    #[test]
    fn what_the_measurement_took_besides_its_bytes_another_transfer_takes_too() {
        let moved = Transferred { bytes: Some(300_000_000), seconds: Some(5.0), ..rate(100e6) };
        let again = forecast(&path(0.1), &moved, Direction::Put, ByteCount(1_000_000_000), 1);
        assert!((again.seconds - 12.0).abs() < 1e-6, "{again:?}");
    }

    #[test]
    fn many_small_files_take_their_numbers_time() {
        let many = forecast(&path(0.0), &rate(1e9), Direction::Put, ByteCount(1_000_000), 1_000_000);
        assert!(many.files_decide && (many.seconds - 100.8).abs() < 0.1, "{many:?}");
        assert_eq!(serde_json::to_value(many).unwrap()["size"], 1_000_000, "as scripts read it");
    }

    #[test]
    fn a_slow_disk_at_either_end_is_what_lasts() {
        let mut measured = path(0.001);
        measured.here.disk_write = Some(50e6);
        assert!(
            (forecast(&measured, &rate(100e6), Direction::Get, ByteCount(1_000_000_000), 1).seconds - 20.8)
                .abs()
                < 0.1
        );
        let whole =
            Transferred { bytes: Some(200_000_000), seconds: Some(8.0), behind: Some(4.0), ..rate(100e6) };
        assert!(
            (forecast(&measured, &whole, Direction::Put, ByteCount(1_000_000_000), 1).seconds - 46.0).abs()
                < 0.1
        );
    }
}
