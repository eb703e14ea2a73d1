//! Plots as inline SVG. Colours come from the page's style sheet, so that they follow its light or dark theme.

use std::fmt::Write;

/// Text inside HTML and SVG.
pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Colours that the style sheet has. What comes after them has the same ones, dashed.
const COLOURS: usize = 8;

/// One bar.
pub(super) struct Bar {
    pub(super) name: String,
    /// Which peer it is: the same has the same colour everywhere.
    pub(super) colour: usize,
    pub(super) value: f64,
    pub(super) deviation: f64,
    /// What stands at its end.
    pub(super) label: String,
    /// Whether it is of a run that was cut.
    pub(super) cut: bool,
}

const WIDTH: f64 = 760.0;
const NAMES: f64 = 128.0;
const LABELS: f64 = 132.0;
const BAR: f64 = 18.0;
const STEP: f64 = 28.0;

/// Horizontal bars with error bars. `limit` is drawn as a line: what could be reached.
pub(super) fn bars(title: &str, bars: &[Bar], limit: Option<(f64, &str)>) -> String {
    let reach = bars
        .iter()
        .map(|bar| bar.value + bar.deviation)
        .fold(limit.map_or(0.0, |(value, _)| value), f64::max);
    if reach <= 0.0 {
        return String::new();
    }
    let top = if limit.is_some() { 22.0 } else { 6.0 };
    let height = top + STEP * bars.len() as f64 + 6.0;
    let scale = (WIDTH - NAMES - LABELS) / reach;
    let mut out = open(title, height);
    let bottom = height - 6.0;
    let _ =
        writeln!(out, "<line class=\"axis\" x1=\"{NAMES}\" x2=\"{NAMES}\" y1=\"{top}\" y2=\"{bottom}\"/>");
    if let Some((value, text)) = limit {
        let x = NAMES + value * scale;
        let _ =
            writeln!(out, "<line class=\"limit\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{top}\" y2=\"{bottom}\"/>");
        let _ = writeln!(
            out,
            "<text class=\"small\" x=\"{x:.1}\" y=\"14\" text-anchor=\"end\">{}</text>",
            escaped(text)
        );
    }
    for (at, bar) in bars.iter().enumerate() {
        let y = top + STEP * at as f64 + (STEP - BAR) / 2.0;
        let (middle, baseline) = (y + BAR / 2.0, y + BAR / 2.0 + 4.5);
        let width = (bar.value * scale).max(1.0);
        let class = if bar.cut { " cut" } else { "" };
        let (name, label) = (escaped(&bar.name), escaped(&bar.label));
        let _ = writeln!(
            out,
            "<text x=\"{:.1}\" y=\"{baseline:.1}\" text-anchor=\"end\">{name}</text>",
            NAMES - 8.0
        );
        let _ = writeln!(
            out,
            "<rect class=\"c{}{class}\" x=\"{NAMES}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{BAR}\" rx=\"2\"><title>{name}: {label}</title></rect>",
            bar.colour % COLOURS
        );
        let mut end = NAMES + width;
        if bar.deviation > 0.0 {
            let (from, to) = (
                NAMES + (bar.value - bar.deviation).max(0.0) * scale,
                NAMES + (bar.value + bar.deviation) * scale,
            );
            let (above, below) = (middle - 4.0, middle + 4.0);
            let _ = writeln!(
                out,
                "<path class=\"error\" d=\"M{from:.1} {middle:.1}H{to:.1}M{from:.1} {above:.1}V{below:.1}M{to:.1} {above:.1}V{below:.1}\"/>"
            );
            end = end.max(to);
        }
        let _ =
            writeln!(out, "<text class=\"value\" x=\"{:.1}\" y=\"{baseline:.1}\">{label}</text>", end + 8.0);
    }
    out + "</svg>\n"
}

/// One line over time: values at equal distances.
pub(super) struct Series {
    pub(super) name: String,
    pub(super) colour: usize,
    /// Seconds between two values.
    pub(super) step: f64,
    pub(super) values: Vec<f64>,
}

const PLOT_HEIGHT: f64 = 220.0;
const LEFT: f64 = 52.0;
const BELOW: f64 = 34.0;
const ABOVE: f64 = 10.0;
/// More points than this nobody can see.
const POINTS: usize = 240;

impl Series {
    /// From bytes in each tenth of a second: as many means in Mbit/s as can be seen.
    pub(super) fn of_samples(name: &str, colour: usize, samples: &[u64]) -> Self {
        let each = samples.len().div_ceil(POINTS).max(1);
        let step = 0.1 * each as f64;
        let values = samples.chunks(each).map(|chunk| {
            let seconds = 0.1 * chunk.len() as f64;
            super::text::mbit(chunk.iter().sum::<u64>() as f64 / seconds)
        });
        Self { name: name.to_owned(), colour, step, values: values.collect() }
    }
}

/// Lines over time.
pub(super) fn over_time(title: &str, unit: &str, series: &[Series]) -> String {
    let seconds = series.iter().map(|one| one.step * one.values.len() as f64).fold(0.0, f64::max);
    let most = series.iter().flat_map(|one| &one.values).copied().fold(0.0, f64::max);
    if seconds <= 0.0 || most <= 0.0 {
        return String::new();
    }
    let (wide, tall) = (WIDTH - LEFT - 12.0, PLOT_HEIGHT - ABOVE - BELOW);
    let (x_ticks, y_ticks) = (ticks(seconds), ticks(most));
    let (full_x, full_y) =
        (seconds.max(*x_ticks.last().unwrap_or(&seconds)), most.max(*y_ticks.last().unwrap_or(&most)));
    let x = |value: f64| LEFT + value / full_x * wide;
    let y = |value: f64| ABOVE + tall - value / full_y * tall;
    let mut out = open(title, PLOT_HEIGHT);
    for tick in &y_ticks {
        let at = y(*tick);
        let _ = writeln!(
            out,
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>",
            LEFT + wide
        );
        let _ = writeln!(
            out,
            "<text class=\"small\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            LEFT - 6.0,
            at + 4.0,
            round(*tick)
        );
    }
    let base = y(0.0);
    for tick in &x_ticks {
        let _ = writeln!(
            out,
            "<text class=\"small\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            x(*tick),
            base + 15.0,
            round(*tick)
        );
    }
    let _ = writeln!(
        out,
        "<line class=\"axis\" x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{base:.1}\" y2=\"{base:.1}\"/>",
        LEFT + wide
    );
    let _ = writeln!(
        out,
        "<text class=\"small\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">seconds</text>",
        LEFT + wide,
        PLOT_HEIGHT - 4.0
    );
    let _ = writeln!(
        out,
        "<text class=\"small\" x=\"{LEFT}\" y=\"{:.1}\">{}</text>",
        PLOT_HEIGHT - 4.0,
        escaped(unit)
    );
    for one in series {
        let points = one
            .values
            .iter()
            .enumerate()
            .map(|(at, value)| format!("{:.1},{:.1}", x((at as f64 + 0.5) * one.step), y(*value)));
        let points = points.collect::<Vec<_>>().join(" ");
        let _ = writeln!(
            out,
            "<polyline class=\"l{} d{}\" points=\"{points}\"><title>{}</title></polyline>",
            one.colour % COLOURS,
            one.colour / COLOURS,
            escaped(&one.name)
        );
    }
    out + "</svg>\n" + &legend(series)
}

fn legend(series: &[Series]) -> String {
    let items = series
        .iter()
        .map(|one| {
            let (colour, dash) = (one.colour % COLOURS, one.colour / COLOURS);
            format!(
                "<span><svg viewBox=\"0 0 26 4\"><path class=\"l{colour} d{dash}\" d=\"M0 2H26\"/></svg>{}</span>",
                escaped(&one.name)
            )
        });
    format!("<p class=\"legend\">{}</p>\n", items.collect::<String>())
}

pub(super) fn open(title: &str, height: f64) -> String {
    let title = escaped(title);
    format!("<svg role=\"img\" aria-label=\"{title}\" viewBox=\"0 0 {WIDTH} {height}\">\n")
}

/// Without the digits that a binary fraction leaves.
fn round(tick: f64) -> f64 {
    (tick * 1e9).round() / 1e9
}

/// Round numbers from 0 to `most` at least, four to eight of them.
fn ticks(most: f64) -> Vec<f64> {
    let rough = most / 5.0;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power).into_iter().find(|step| *step >= rough);
    let step = step.unwrap_or(10.0 * power);
    (0..=(most / step).ceil() as u32).map(|count| f64::from(count) * step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_cover_the_values() {
        assert_eq!(ticks(870.0), [0.0, 200.0, 400.0, 600.0, 800.0, 1000.0]);
        assert_eq!(ticks(1.0).len(), 6);
        for most in [0.003, 0.7, 12.0, 99.9, 1e7] {
            let ticks = ticks(most);
            assert!(*ticks.last().unwrap() >= most && (4..=8).contains(&ticks.len()), "{most}: {ticks:?}");
        }
    }

    #[test]
    fn long_runs_are_drawn_with_the_points_that_can_be_seen() {
        let series = Series::of_samples("scp", 1, &[1_250_000; 6_000]);
        assert!(series.values.len() <= POINTS);
        assert!((series.values[3] - 100.0).abs() < 1e-9, "{}", series.values[3]);
        assert!((series.step * series.values.len() as f64 - 600.0).abs() < 3.0);
    }

    #[test]
    fn names_cannot_become_markup() {
        let bar = Bar {
            name: "<b>".into(),
            colour: 0,
            value: 1.0,
            deviation: 0.1,
            label: "\"&".into(),
            cut: false,
        };
        let svg = bars("t", &[bar], None);
        assert!(svg.contains("&lt;b&gt;") && svg.contains("&quot;&amp;") && !svg.contains("<b>"));
    }
}
