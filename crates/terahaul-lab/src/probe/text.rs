//! Figures as people read them.

/// `943 Mbit/s`, `1.23 Gbit/s`, from bytes a second.
pub fn bits(bytes_per_second: f64) -> String {
    match bytes_per_second * 8.0 {
        bits if bits >= 9.995e8 => format!("{} Gbit/s", figures(bits / 1e9)),
        bits if bits >= 9.995e5 => format!("{} Mbit/s", figures(bits / 1e6)),
        bits => format!("{:.0} kbit/s", bits / 1e3),
    }
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

/// `2 h 25 min`, `3 min 20 s`, `11 s`, `4 days 3 h`: as exact as a forecast can be.
pub fn span(seconds: f64) -> String {
    let [whole, minutes, hours] = [1.0, 60.0, 3600.0].map(|unit| (seconds / unit).round() as u64);
    match (whole, minutes / 60, hours / 24) {
        _ if seconds < 9.5 => format!("{seconds:.1} s"),
        (0..60, ..) => format!("{whole} s"),
        (60..3600, ..) => format!("{} min {} s", whole / 60, whole % 60),
        (_, hours @ 0..24, _) => format!("{hours} h {} min", minutes % 60),
        (.., 1) => format!("1 day {} h", hours % 24),
        (.., days) => format!("{days} days {} h", hours % 24),
    }
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
        assert_eq!(
            [span(3.94), span(11.4), span(725.0), span(8_700.0), span(356_400.0)],
            ["3.9 s", "11 s", "12 min 5 s", "2 h 25 min", "4 days 3 h"]
        );
    }

    #[test]
    fn spans_are_rounded_and_not_cut_down() {
        assert_eq!(
            [span(59.7), span(3_599.8), span(7_259.0), span(86_395.0), span(89_880.0), span(171_000.0)],
            ["1 min 0 s", "1 h 0 min", "2 h 1 min", "1 day 0 h", "1 day 1 h", "2 days 0 h"]
        );
    }
}
