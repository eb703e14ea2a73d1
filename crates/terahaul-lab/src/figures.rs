//! Figures as people read them.

use terahaul_core::{Rate, Span};

/// `943 Mbit/s`, `1.23 Gbit/s`, from bytes a second: what was measured, in three figures.
pub fn bits(bytes_per_second: f64) -> String {
    match in_bits(bytes_per_second, 0.9995) {
        (kbit, "kbit/s") => format!("{kbit:.0} kbit/s"),
        (number, unit) => format!("{} {unit}", figures(number)),
    }
}

/// `8.15 Gbit/s`, `1 Gbit/s`: what was asked for, which is exact.
pub fn exact_bits(rate: Rate) -> String {
    let (number, unit) = in_bits(rate.bytes_per_second() as f64, 1.0);
    let number = format!("{number:.3}");
    format!("{} {unit}", number.trim_end_matches('0').trim_end_matches('.'))
}

/// In the largest unit of which there is `least`: a little below one where that will be rounded up to one.
fn in_bits(bytes_per_second: f64, least: f64) -> (f64, &'static str) {
    let bits = bytes_per_second * 8.0;
    let larger = [(1e9, "Gbit/s"), (1e6, "Mbit/s")].into_iter().find(|(worth, _)| bits >= worth * least);
    let (worth, unit) = larger.unwrap_or((1e3, "kbit/s"));
    (bits / worth, unit)
}

/// `5.01 GB/s`, `80.0 MB/s`.
pub fn bytes(bytes_per_second: f64) -> String {
    match bytes_per_second {
        rate if rate >= 9.995e8 => format!("{} GB/s", figures(rate / 1e9)),
        rate => format!("{} MB/s", figures(rate / 1e6)),
    }
}

/// `100 ms`, `0.31 ms`, from seconds.
pub fn milliseconds(seconds: f64) -> String {
    format!("{} ms", figures(seconds * 1e3))
}

/// `1.2 %`, from a share.
pub fn percent(share: f64) -> String {
    match share * 100.0 {
        percent if percent >= 9.95 => format!("{percent:.0} %"),
        percent if percent > 0.0 && percent < 0.095 => format!("{percent:.2} %"),
        percent => format!("{percent:.1} %"),
    }
}

/// `2 h 25 min`, from seconds: as exact as a forecast can be.
pub fn span(seconds: f64) -> String {
    Span::of_seconds(seconds).to_string()
}

/// Three figures.
fn figures(number: f64) -> String {
    match number {
        _ if number >= 99.95 => format!("{number:.0}"),
        _ if number >= 9.995 => format!("{number:.1}"),
        _ => format!("{number:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_as_exact_as_they_are_known() {
        assert_eq!(
            [bits(117.9e6), bits(2.1e6), bits(1.25e9), bits(5e3)],
            ["943 Mbit/s", "16.8 Mbit/s", "10.0 Gbit/s", "40 kbit/s"]
        );
        assert_eq!([bytes(5.011e9), bytes(80e6)], ["5.01 GB/s", "80.0 MB/s"]);
        assert_eq!([milliseconds(0.1002), milliseconds(0.000_31)], ["100 ms", "0.31 ms"]);
        assert_eq!(
            [percent(0.0), percent(0.0004), percent(0.011), percent(0.45)],
            ["0.0 %", "0.04 %", "1.1 %", "45 %"]
        );
    }

    #[test]
    fn a_rate_that_was_asked_for_is_said_exactly() {
        let said = |text: &str| exact_bits(text.parse().unwrap());
        assert_eq!(
            ["8.15gbit", "50mbit", "999.6mbit", "1gbit", "64kbit"].map(said),
            ["8.15 Gbit/s", "50 Mbit/s", "999.6 Mbit/s", "1 Gbit/s", "64 kbit/s"]
        );
        assert_eq!(bits(999.6e6 / 8.0), "1.00 Gbit/s", "what was measured");
    }
}
