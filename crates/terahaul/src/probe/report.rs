//! What a probe found, as people read it.

use terahaul_lab::probe::{
    Advice, Forecast, Measurements, Transferred, bits, bytes, milliseconds, percent, span,
};
use terahaul_lab::work::Direction;

/// Something that was not measured.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct NotMeasured {
    /// `up`, `down`, `udp_up`, `udp_down` or `disk`.
    pub what: &'static str,
    /// Why, and what would help.
    pub why: String,
}

/// What is reported.
pub struct Report<'a> {
    /// Host and port.
    pub place: String,
    pub measured: &'a Measurements,
    pub not_measured: &'a [NotMeasured],
    pub advice: &'a Advice,
    /// To the depot and from it, where they are known.
    pub forecasts: &'a [(Option<Forecast>, Option<Forecast>)],
}

/// Columns in front of figures.
const WIDTH: usize = 21;

impl Report<'_> {
    /// All of it.
    pub fn text(&self) -> String {
        let mut lines = vec![self.path()];
        lines.extend(self.figures());
        section(&mut lines, "What limits it", &self.advice.findings);
        section(&mut lines, "What to do", &self.advice.recommendations);
        settings(&mut lines, "on this machine", &self.advice.sysctl_here);
        settings(&mut lines, "at the depot", &self.advice.sysctl_there);
        lines.extend(self.times());
        lines.join("\n")
    }

    fn path(&self) -> String {
        let measured = self.measured;
        let rtt = measured.rtt().map(milliseconds).unwrap_or_default();
        let jitter = measured.jitter().map(milliseconds).unwrap_or_default();
        format!("{}: round trip {rtt}, jitter {jitter}", self.place)
    }

    fn figures(&self) -> Vec<String> {
        let Measurements { tcp, udp, here, .. } = self.measured;
        let mut rows = Vec::new();
        for (name, what, moved) in [
            ("to the depot", "up", &tcp.up),
            ("to the depot, UDP", "udp_up", &udp.up),
            ("from the depot", "down", &tcp.down),
            ("from the depot, UDP", "udp_down", &udp.down),
        ] {
            match moved {
                Some(moved) => rows.push((name, direction(moved))),
                None => rows.extend(self.why_not(what).map(|why| (name, why))),
            }
        }
        if let Some(behind) = self.measured.fastest(Direction::Put).and_then(|up| up.behind) {
            rows.push(("disk there", format!("had everything {} after it was received", span(behind))));
        }
        match (here.disk_write, here.disk_read) {
            (Some(write), Some(read)) => {
                rows.push(("disk here", format!("reads {}, writes and syncs {}", bytes(read), bytes(write))));
            }
            _ => rows.extend(self.why_not("disk").map(|why| ("disk here", why))),
        }
        let busy = tcp.measured().chain(udp.measured()).filter_map(|moved| moved.processors_busy);
        if let Some(busy) = busy.max_by(f64::total_cmp) {
            rows.push(("processors here", format!("{}, {} busy", here.processors, percent(busy))));
        }
        if let Some((aes, chacha)) = here.aes.zip(here.chacha) {
            let ciphers =
                format!("AES-128-GCM {}, ChaCha20-Poly1305 {} on one processor", bytes(aes), bytes(chacha));
            rows.push(("ciphers here", ciphers));
        }
        let mut lines = Vec::new();
        rows.into_iter().for_each(|(name, value)| wrap(&mut lines, &format!("  {name:<WIDTH$}"), &value));
        lines
    }

    fn why_not(&self, what: &str) -> Option<String> {
        let missing = self.not_measured.iter().find(|missing| missing.what == what)?;
        Some(format!("not measured: {}", missing.why))
    }

    fn times(&self) -> Vec<String> {
        if self.forecasts.is_empty() {
            return Vec::new();
        }
        let mut lines =
            vec![String::new(), format!("How long it takes{:>35}{:>22}", "to the depot", "from the depot")];
        for (up, down) in self.forecasts {
            let Some(any) = up.or(*down) else { continue };
            let [up, down] = [up, down].map(|time| time.map_or("?".into(), |time| duration(&time)));
            lines.push(format!("  {:<28}{up:>22}{down:>22}", amount(&any)));
        }
        lines
    }
}

/// A heading and what is below it, each as an item.
fn section(lines: &mut Vec<String>, heading: &str, items: &[String]) {
    if !items.is_empty() {
        lines.push(String::new());
        lines.push(heading.into());
        items.iter().for_each(|item| wrap(lines, "- ", item));
    }
}

/// Lines to be copied.
fn settings(lines: &mut Vec<String>, place: &str, settings: &[String]) {
    if !settings.is_empty() {
        lines.push(String::new());
        lines.push(format!("Settings {place}, for /etc/sysctl.d/90-terahaul.conf and 'sysctl -p' of it"));
        lines.extend(settings.iter().map(|setting| format!("  {setting}")));
    }
}

/// `text` behind `mark`, in lines that a terminal shows whole.
fn wrap(lines: &mut Vec<String>, mark: &str, text: &str) {
    const LONGEST: usize = 80;
    let indent = mark.chars().count();
    let mut line = mark.to_owned();
    for word in text.split(' ') {
        if line.chars().count() + word.chars().count() > LONGEST {
            lines.push(line.trim_end().to_owned());
            line = " ".repeat(indent);
        }
        line += word;
        line.push(' ');
    }
    lines.push(line.trim_end().to_owned());
}

fn direction(moved: &Transferred) -> String {
    let mut text = match moved.at_least {
        true => format!("at least {}", bits(moved.bytes_per_second)),
        false => bits(moved.bytes_per_second),
    };
    text += &match moved.channels {
        0 => String::new(),
        1 => " over 1 channel".to_owned(),
        channels => format!(" over {channels} channels"),
    };
    if let Some(resent) = moved.resent {
        text += &format!(", {} sent again", percent(resent));
    }
    if let Some(disordered) = moved.disordered {
        text += &format!(", {} out of order", percent(disordered));
    }
    if let Some(loaded) = moved.loaded_rtt {
        text += &format!(", round trip {} meanwhile", milliseconds(loaded));
    }
    text
}

/// `2 h 21 min`, `at most 2 h 21 min`.
fn duration(forecast: &Forecast) -> String {
    let most = if forecast.at_most { "at most " } else { "" };
    format!("{most}{}", span(forecast.seconds))
}

/// `1 TB in 1 file`.
fn amount(forecast: &Forecast) -> String {
    let files = match forecast.files {
        1 => "1 file".into(),
        files => format!("{} files", thousands(files)),
    };
    format!("{} in {files}", forecast.size.to_string().replace(".0 ", " "))
}

/// `100,000`.
fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use terahaul_core::ByteCount;
    use terahaul_lab::probe::{Directions, Here, advise, forecast};

    #[test]
    fn a_report_says_what_was_measured_what_was_not_and_what_follows() {
        let up = Transferred {
            bytes_per_second: 117.9e6,
            channels: 8,
            resent: Some(0.09),
            loaded_rtt: Some(0.18),
            behind: Some(1.2),
            processors_busy: Some(0.4),
            ..Transferred::default()
        };
        let over_udp =
            Transferred { bytes_per_second: 1e6, udp: true, channels: 2, ..Transferred::default() };
        let measured = Measurements {
            connects: vec![0.1, 0.1002],
            tcp: Directions { up: Some(up.clone()), down: None },
            udp: Directions { up: Some(over_udp), down: None },
            here: Here { processors: 4, aes: Some(5e9), chacha: Some(2e9), ..Here::default() },
            ..Measurements::default()
        };
        let not_measured = [
            NotMeasured { what: "down", why: "the token may not receive".into() },
            NotMeasured { what: "udp_down", why: "UDP does not get through".into() },
            NotMeasured { what: "disk", why: "name a folder with --dir".into() },
        ];
        let sent = forecast(&measured, &up, Direction::Put, ByteCount(1_000_000_000_000), 1);
        let report = Report {
            place: "depot.example:8750".into(),
            measured: &measured,
            not_measured: &not_measured,
            advice: &advise(&measured),
            forecasts: &[(Some(sent), None)],
        };
        let text = report.text();
        for part in [
            "depot.example:8750: round trip 100 ms, jitter 0.10 ms",
            "to the depot         943 Mbit/s over 8 channels, 9.0 % sent again, round trip\n",
            "to the depot, UDP    8.00 Mbit/s over 2 channels",
            "from the depot       not measured: the token may not receive",
            "from the depot, UDP  not measured: UDP does not get through",
            "disk here            not measured: name a folder with --dir",
            "Sending: the line, which is full: a queue of 80.0 ms",
            "1 TB in 1 file                          2 h 21 min                     ?",
        ] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
        assert!(text.lines().all(|line| line.chars().count() <= 80), "wider than a terminal:\n{text}");
    }

    /// Where only UDP was measured, two rows looked the same.
    #[test]
    fn rows_say_which_way_they_are_and_a_rate_that_is_a_lower_bound_makes_times_upper_ones() {
        let moved = |bytes_per_second| {
            Some(Transferred { bytes_per_second, at_least: true, udp: true, ..Transferred::default() })
        };
        let measured =
            Measurements { udp: Directions { up: moved(2e6), down: moved(1e6) }, ..Measurements::default() };
        let time = |direction| {
            measured
                .fastest(direction)
                .map(|moved| forecast(&measured, moved, direction, ByteCount(1_000_000_000_000), 1))
        };
        let report = Report {
            place: "depot.example:8750".into(),
            measured: &measured,
            not_measured: &[],
            advice: &advise(&measured),
            forecasts: &[(time(Direction::Put), time(Direction::Get))],
        };
        let text = report.text();
        for part in [
            "to the depot, UDP    at least 16.0 Mbit/s",
            "from the depot, UDP  at least 8.00 Mbit/s",
            "1 TB in 1 file                 at most 5 days 19 h  at most 11 days 14 h",
        ] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
        assert!(text.lines().all(|line| line.chars().count() <= 80), "wider than a terminal:\n{text}");
    }

    #[test]
    fn nothing_is_said_of_channels_where_none_was_seen() {
        let moved = Transferred { bytes_per_second: 1e6, at_least: true, ..Transferred::default() };
        assert_eq!(direction(&moved), "at least 8.00 Mbit/s");
    }

    #[test]
    fn large_numbers_are_grouped() {
        assert_eq!(
            [thousands(1), thousands(999), thousands(1000), thousands(1_234_567)],
            ["1", "999", "1,000", "1,234,567"]
        );
    }
}
