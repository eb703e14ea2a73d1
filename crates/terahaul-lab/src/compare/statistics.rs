//! What several runs say together.

use serde::{Deserialize, Serialize};

/// Several measurements of one thing.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// How many.
    pub runs: usize,
    /// Their mean.
    pub mean: f64,
    /// The standard deviation of the sample; 0 for one run, of which nothing can be said.
    pub deviation: f64,
    /// The middle one, or the mean of the middle two.
    pub median: f64,
    /// The least.
    pub least: f64,
    /// The most.
    pub most: f64,
}

impl Summary {
    /// Of `values`, or `None` where there are none.
    pub fn of(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (least, most) = (*sorted.first()?, *sorted.last()?);
        let runs = sorted.len();
        let mean = sorted.iter().sum::<f64>() / runs as f64;
        let squares: f64 = sorted.iter().map(|value| (value - mean).powi(2)).sum();
        let deviation = if runs < 2 { 0.0 } else { (squares / (runs - 1) as f64).sqrt() };
        let middle = runs / 2;
        let median =
            if runs % 2 == 1 { sorted[middle] } else { f64::midpoint(sorted[middle - 1], sorted[middle]) };
        Some(Self { runs, mean, deviation, median, least, most })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_summary_is_the_textbooks() {
        let summary = Summary::of(&[4.0, 2.0, 9.0, 5.0]).unwrap();
        assert_eq!((summary.runs, summary.mean, summary.median), (4, 5.0, 4.5));
        assert_eq!((summary.least, summary.most), (2.0, 9.0));
        assert!((summary.deviation - (26.0_f64 / 3.0).sqrt()).abs() < 1e-12);
    }

    #[test]
    fn one_run_has_no_deviation_and_none_no_summary() {
        assert_eq!(Summary::of(&[3.0]).unwrap().deviation, 0.0);
        assert_eq!(Summary::of(&[]), None);
    }

    proptest! {
        #[test]
        fn mean_and_median_lie_between_the_extremes(values in proptest::collection::vec(0.001f64..1e6, 1..50)) {
            let summary = Summary::of(&values).unwrap();
            let slack = summary.most * 1e-12;
            for middle in [summary.mean, summary.median] {
                prop_assert!(summary.least - slack <= middle && middle <= summary.most + slack);
            }
            prop_assert!(summary.deviation >= 0.0);
        }
    }
}
