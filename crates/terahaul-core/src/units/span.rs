//! How long something takes.

use std::fmt;
use std::time::Duration;

/// How long something takes, as people say it: `2 h 25 min`, `3 min 20 s`, `11 s`, `3.9 s`, `4 days 3 h`.
///
/// Two units at the most, of which the smaller is rounded and not cut down: who waits wants to know no more of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span(pub Duration);

impl Span {
    /// Of so many seconds, where a calculation has come to them; the longest there is for what is longer.
    pub fn of_seconds(seconds: f64) -> Self {
        Self(Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX))
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs_f64();
        let [whole, minutes, hours] = [1.0, 60.0, 3600.0].map(|unit| (seconds / unit).round() as u64);
        match (whole, minutes / 60, hours / 24) {
            _ if seconds < 9.5 => write!(f, "{seconds:.1} s"),
            (0..60, ..) => write!(f, "{whole} s"),
            (60..3600, ..) => write!(f, "{} min {} s", whole / 60, whole % 60),
            (_, hours @ 0..24, _) => write!(f, "{hours} h {} min", minutes % 60),
            (.., 1) => write!(f, "1 day {} h", hours % 24),
            (.., days) => write!(f, "{days} days {} h", hours % 24),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said<const N: usize>(seconds: [f64; N]) -> [String; N] {
        seconds.map(|seconds| Span::of_seconds(seconds).to_string())
    }

    #[test]
    fn spans_are_as_exact_as_they_are_known() {
        assert_eq!(
            said([3.94, 11.4, 725.0, 8_700.0, 11_940.0, 356_400.0]),
            ["3.9 s", "11 s", "12 min 5 s", "2 h 25 min", "3 h 19 min", "4 days 3 h"]
        );
    }

    #[test]
    fn spans_are_rounded_and_not_cut_down() {
        assert_eq!(
            said([59.7, 3_599.8, 7_259.0, 86_395.0, 89_880.0, 171_000.0]),
            ["1 min 0 s", "1 h 0 min", "2 h 1 min", "1 day 0 h", "1 day 1 h", "2 days 0 h"]
        );
    }

    #[test]
    fn what_no_calculation_should_come_to_is_said_all_the_same() {
        let ends = [f64::NAN, -1.0, f64::INFINITY];
        assert_eq!(
            ends.map(Span::of_seconds),
            [Span(Duration::ZERO), Span(Duration::ZERO), Span(Duration::MAX)]
        );
        assert!(Span(Duration::MAX).to_string().contains(" days "));
    }
}
