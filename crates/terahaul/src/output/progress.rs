//! The progress bar: one line on a terminal's stderr.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle, TermLike};
use terahaul_core::ByteCount;

use super::ProgressView;
use super::narrow::Narrow;

pub(super) struct Bar {
    bar: ProgressBar,
    /// It is on the terminal. Suspended it would be drawn anew, shown before or not.
    is_shown: AtomicBool,
}

impl Bar {
    pub fn new() -> Self {
        Self::drawn(Narrow::stderr())
    }

    fn drawn<T: TermLike + 'static>(terminal: Narrow<T>) -> Self {
        let target = ProgressDrawTarget::term_like_with_hz(Box::new(terminal), 5);
        let bar = ProgressBar::with_draw_target(Some(0), target);
        if let Ok(style) = ProgressStyle::with_template("{wide_bar} {msg}") {
            bar.set_style(style.progress_chars("━╸ "));
        }
        Self { bar, is_shown: AtomicBool::new(false) }
    }

    pub fn show(&self, view: &ProgressView) {
        self.bar.set_length(view.total_bytes.max(1));
        self.bar.set_message(text_of(view));
        if !self.is_shown.swap(true, Ordering::Relaxed) && self.bar.is_finished() {
            // One that was cleared would not be drawn. It is drawn by this, too, so not before there is something to show.
            self.bar.reset();
        }
        self.bar.set_position(view.done_bytes);
    }

    pub fn clear(&self) {
        if self.is_shown.swap(false, Ordering::Relaxed) {
            self.bar.finish_and_clear();
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
        let again = if view.moved_bytes > 0 { "re" } else { "" };
        return format!("{moved}  {again}connecting");
    }
    let speed = format!("{}/s{}", ByteCount(view.bytes_per_second), paths_of(view));
    let left = view.total_bytes.saturating_sub(view.done_bytes).checked_div(view.left_per_second);
    let left = left.filter(|_| !view.counting).map(|seconds| format!("  {} left", short(seconds)));
    let why = match view.transport_usual || view.transport.is_empty() {
        true => String::new(),
        false => format!("  by {}: {}", view.transport, view.transport_why),
    };
    format!("{moved}  {speed}{}{why}", left.unwrap_or_default())
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
    use std::io;
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::output::PathView;

    /// A terminal that keeps what is on its last line.
    #[derive(Clone, Debug)]
    struct Line(Arc<Mutex<String>>, u16);

    impl Default for Line {
        fn default() -> Self {
            Self(Arc::default(), 80)
        }
    }

    impl Line {
        fn shown(&self) -> String {
            self.0.lock().unwrap().trim().to_owned()
        }
    }

    impl TermLike for Line {
        fn width(&self) -> u16 {
            self.1
        }
        fn height(&self) -> u16 {
            60
        }
        fn move_cursor_up(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_down(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_right(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_left(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn write_line(&self, text: &str) -> io::Result<()> {
            self.write_str(text).and_then(|()| self.clear_line())
        }
        fn write_str(&self, text: &str) -> io::Result<()> {
            self.0.lock().unwrap().push_str(text);
            Ok(())
        }
        fn clear_line(&self) -> io::Result<()> {
            self.0.lock().unwrap().clear();
            Ok(())
        }
        fn flush(&self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_terminal_of_hardly_any_columns_ends_nothing() {
        for width in 0..5 {
            let bar = Bar::drawn(Narrow(Line(Arc::default(), width)));
            let view =
                ProgressView { total_bytes: 10, done_bytes: 4, connected: true, ..ProgressView::default() };
            (0..2).for_each(|_| bar.show(&view));
        }
    }

    #[test]
    fn a_bar_that_was_cleared_leaves_nothing_before_the_result() {
        let line = Line::default();
        let bar = Bar::drawn(Narrow(line.clone()));
        let view =
            ProgressView { total_bytes: 10, done_bytes: 4, connected: true, ..ProgressView::default() };
        for _ in 0..2 {
            bar.show(&view);
            assert!(line.shown().ends_with("4 B of 10 B  0 B/s"), "{}", line.shown());
            bar.clear();
            assert_eq!(line.shown(), "");
            bar.suspend(|| assert_eq!(line.shown(), ""));
            assert_eq!(line.shown(), "");
        }
    }

    /// Where the bar filled the line, it stayed there, with what the terminal had written below it.
    #[test]
    fn a_terminal_has_room_for_what_it_writes_on_ctrl_c() {
        let line = Line::default();
        let bar = Bar::drawn(Narrow(line.clone()));
        for done in [0, 50, 100] {
            bar.show(&ProgressView { total_bytes: 100, done_bytes: done, ..ProgressView::default() });
            let written = line.0.lock().unwrap().chars().count();
            assert_eq!(written, usize::from(line.width()) - "^C".len(), "{}", line.shown());
        }
    }

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
        let without = |moved_bytes| text_of(&ProgressView { connected: false, moved_bytes, ..like() });
        assert!(without(0).ends_with("  connecting") && without(1).ends_with("  reconnecting"));
        let by = |transport, transport_why| ProgressView { transport, transport_why, ..like() };
        assert_eq!(
            text_of(&by("tcp", "nothing comes over UDP any more")),
            "4.0 MB of 10.0 MB  50.0 kB/s  2:00 min left  by tcp: nothing comes over UDP any more"
        );
        let usual = ProgressView { transport_usual: true, ..by("tcp", "the path is short") };
        assert!(text_of(&usual).ends_with(" left"));
        let path = |last, speed| PathView {
            local: std::net::IpAddr::from([192, 0, 2, last]),
            bytes: 1,
            bytes_per_second: speed,
        };
        let paths = vec![path(1, 30_000), path(2, 20_000)];
        assert_eq!(
            text_of(&ProgressView { paths, ..by("udp", "asked for") }),
            "4.0 MB of 10.0 MB  50.0 kB/s, 2 paths (30.0 kB/s + 20.0 kB/s)  2:00 min left  by udp: asked for"
        );
        let copied_here = ProgressView { bytes_per_second: 5_000, ..like() };
        assert!(text_of(&copied_here).ends_with("5.0 kB/s  2:00 min left"), "what need not travel counts");
        assert!(!text_of(&ProgressView { left_per_second: 0, ..like() }).contains("left"));
    }
}
