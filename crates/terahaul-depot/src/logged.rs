//! What is said in the log, for tests of that.

use std::fmt::{Debug, Write as _};
use std::sync::{Arc, LazyLock, Mutex};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Dispatch, Event, Level, Metadata, Subscriber};

/// What the thread that has made it says from then on.
pub(crate) struct Logged {
    lines: Lines,
    _guard: DefaultGuard,
}

type Lines = Arc<Mutex<Vec<(Level, String)>>>;

/// Nobody's. Of a place in the code, whoever comes by first finds out whether anybody listens: of one subscriber that would be asked in that
/// thread alone, which may be another test's, and what is said there would be heard by nobody from then on. Of two all are asked.
static ANOTHER: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(Log(Lines::default())));

impl Logged {
    pub fn here() -> Self {
        LazyLock::force(&ANOTHER);
        let lines = Lines::default();
        let _guard = tracing::subscriber::set_default(Log(Arc::clone(&lines)));
        Self { lines, _guard }
    }

    /// This crate's lines of a level.
    pub fn at(&self, level: Level) -> Vec<String> {
        let lines = self.lines.lock().unwrap();
        lines.iter().filter(|(of, _)| *of == level).map(|(_, line)| line.clone()).collect()
    }
}

struct Log(Lines);

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, "{field}={value:?} ").unwrap();
    }
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("terahaul_depot")
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(String::new());
        event.record(&mut line);
        self.0.lock().unwrap().push((*event.metadata().level(), line.0));
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}
