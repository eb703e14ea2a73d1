//! The progress bar: one line on a terminal's stderr.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use terahaul_core::ByteCount;

use super::ProgressView;

pub(super) struct Bar {
    bar: ProgressBar,
    /// It is on the terminal. Suspended it would be drawn anew, shown before or not.
    is_shown: AtomicBool,
}

impl Bar {
    pub fn new() -> Self {
        let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr_with_hz(5));
        if let Ok(style) = ProgressStyle::with_template("{wide_bar} {msg}") {
            bar.set_style(style.progress_chars("━╸ "));
        }
        Self { bar, is_shown: AtomicBool::new(false) }
    }

    pub fn show(&self, view: &ProgressView) {
        self.is_shown.store(true, Ordering::Relaxed);
        self.bar.set_length(view.total_bytes.max(1));
        self.bar.set_position(view.done_bytes);
        self.bar.set_message(text_of(view));
    }

    pub fn clear(&self) {
        if self.is_shown.swap(false, Ordering::Relaxed) {
            self.bar.finish_and_clear();
            // A finished bar would not be drawn by the next progress.
            self.bar.reset();
        }
    }

    pub fn suspend(&self, write: impl FnOnce()) {
        match self.is_shown.load(Ordering::Relaxed) {
            true => self.bar.suspend(write),
            false => write(),
        }
    }
}

fn text_of(view: &ProgressView) -> String {
    let more = if view.counting { "+" } else { "" };
    let moved = format!("{} of {}{more}", ByteCount(view.done_bytes), ByteCount(view.total_bytes));
    if !view.connected {
        return format!("{moved}  reconnecting");
    }
    // TCP is what everybody expects.
    let by = if view.transport.contains("udp") { format!(" by {}", view.transport) } else { String::new() };
    let speed = format!("{}/s{by}{}", ByteCount(view.bytes_per_second), paths_of(view));
    let left = view.total_bytes.saturating_sub(view.done_bytes).checked_div(view.left_per_second);
    match left {
        Some(seconds) if !view.counting => format!("{moved}  {speed}  {} left", short(seconds)),
        _ => format!("{moved}  {speed}"),
    }
}

/// Each path's speed, where there are several.
fn paths_of(view: &ProgressView) -> String {
    let [_, _, ..] = view.paths[..] else { return String::new() };
    let speeds: Vec<String> =
        view.paths.iter().map(|path| format!("{}/s", ByteCount(path.bytes_per_second))).collect();
    format!(", {} paths ({})", view.paths.len(), speeds.join(" + "))
}

fn short(seconds: u64) -> String {
    let left = Duration::from_secs(seconds).as_secs();
    match left {
        0..60 => format!("{left} s"),
        60..3600 => format!("{}:{:02} min", left / 60, left % 60),
        _ => format!("{} h {:02} min", left / 3600, left % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::PathView;

    #[test]
    fn time_left_is_shown_once_the_whole_is_known() {
        let view = ProgressView {
            total_bytes: 10_000_000,
            done_bytes: 4_000_000,
            bytes_per_second: 50_000,
            left_per_second: 50_000,
            connected: true,
            ..ProgressView::default()
        };
        let like = || view.clone();
        assert_eq!(text_of(&view), "4.0 MB of 10.0 MB  50.0 kB/s  2:00 min left");
        assert_eq!(text_of(&ProgressView { counting: true, ..like() }), "4.0 MB of 10.0 MB+  50.0 kB/s");
        assert!(text_of(&ProgressView { connected: false, ..like() }).ends_with("reconnecting"));
        let udp = ProgressView { transport: "tcp+udp", ..like() };
        assert_eq!(text_of(&udp), "4.0 MB of 10.0 MB  50.0 kB/s by tcp+udp  2:00 min left");
        let path = |last, speed| PathView {
            local: std::net::IpAddr::from([192, 0, 2, last]),
            bytes: 1,
            bytes_per_second: speed,
        };
        let paths = vec![path(1, 30_000), path(2, 20_000)];
        assert_eq!(
            text_of(&ProgressView { transport: "udp", paths, ..like() }),
            "4.0 MB of 10.0 MB  50.0 kB/s by udp, 2 paths (30.0 kB/s + 20.0 kB/s)  2:00 min left"
        );
        let copied_here = ProgressView { bytes_per_second: 5_000, ..like() };
        assert!(text_of(&copied_here).ends_with("5.0 kB/s  2:00 min left"), "what need not travel counts");
        assert!(!text_of(&ProgressView { left_per_second: 0, ..like() }).contains("left"));
    }
}
