//! Repeating a piece of work, and what the repetitions say.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::compare::statistics::Summary;

/// Repetitions at least, however long each takes.
const LEAST: usize = 3;

/// How fast some work went, over several repetitions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// The median.
    pub bytes_per_second: f64,
    /// Standard deviation, in the same unit.
    pub deviation: f64,
    /// Repetitions.
    pub runs: usize,
}

impl Measured {
    /// What these rates say; zero of none.
    pub fn of(rates: &[f64]) -> Self {
        let Some(Summary { median, deviation, runs, .. }) = Summary::of(rates) else {
            return Self::default();
        };
        Self { bytes_per_second: median, deviation, runs }
    }
}

/// Repeats `act`, which returns how many bytes it has worked on, for `time` and some times at least. The first
/// repetition warms up and does not count.
pub fn repeat<E>(time: Duration, mut act: impl FnMut() -> Result<u64, E>) -> Result<Measured, E> {
    act()?;
    let begun = Instant::now();
    let mut rates = Vec::new();
    while rates.len() < LEAST || begun.elapsed() < time {
        let start = Instant::now();
        let bytes = act()?;
        rates.push(bytes as f64 / start.elapsed().as_secs_f64().max(1e-9));
    }
    Ok(Measured::of(&rates))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_counts_and_not_the_one_that_was_disturbed() {
        let measured = Measured::of(&[100.0, 102.0, 5.0, 101.0]);
        assert_eq!((measured.bytes_per_second, measured.runs), (100.5, 4));
        assert!((measured.deviation - 48.0).abs() < 0.1, "{measured:?}");
        assert_eq!(Measured::of(&[7.0]), Measured { bytes_per_second: 7.0, deviation: 0.0, runs: 1 });
        assert_eq!(Measured::of(&[]), Measured::default());
    }

    #[test]
    fn the_first_repetition_does_not_count_and_an_error_ends_all() {
        let mut done = 0;
        let measured = repeat(Duration::ZERO, || -> Result<u64, ()> {
            done += 1;
            Ok(1)
        });
        assert_eq!((measured.unwrap().runs, done), (LEAST, LEAST + 1));
        assert_eq!(repeat(Duration::ZERO, || Err("no")), Err("no"));
    }
}
