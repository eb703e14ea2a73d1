//! What a copy says while it runs.

use std::sync::{Mutex, PoisonError};

use terahaul_copy::{Item, Report, Way};
use terahaul_core::{ByteCount, EntryKind, EntryPath};

use super::itemised::{self, Copying};
use crate::output::{Event, Output, PathText};

/// How changes are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lines {
    /// Not at all, except as JSON.
    None,
    /// With sizes, as what a dry run would do.
    Sizes,
    /// The paths.
    Paths,
    /// As rsync's `--itemize-changes`.
    Flags,
}

pub struct ToOutput<'a> {
    output: &'a Output,
    verbose: bool,
    lines: Lines,
    copying: Copying,
    listed: Mutex<Listed>,
}

/// What was told of that is written.
#[derive(Clone, Copy, Debug, Default)]
pub struct Listed {
    pub written: u64,
    pub bytes: ByteCount,
}

impl<'a> ToOutput<'a> {
    pub fn new(output: &'a Output, verbose: bool, lines: Lines, copying: Copying) -> Self {
        Self { output, verbose, lines, copying, listed: Mutex::default() }
    }

    /// What was told of so far.
    pub fn listed(&self) -> Listed {
        *self.listed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self, item: &Item<'_>) {
        let bytes = match item {
            Item::Entry { entry, written: true, .. } => entry.file_size().unwrap_or_default(),
            Item::Destination { written: true, .. } => ByteCount::default(),
            _ => return,
        };
        let mut listed = self.listed.lock().unwrap_or_else(PoisonError::into_inner);
        listed.written += 1;
        listed.bytes += bytes;
    }
}

impl Report for ToOutput<'_> {
    fn started(&self, way: Way) {
        match way {
            Way::Blocked(port) => self.output.notice(format!(
                "port {port} of the other host is blocked: the data goes through ssh, which is slower; open some ports there and name them with --ports A-B"
            )),
            Way::NoPort => self.output.notice(
                "the other host has no free port at the address that it is reached at, or was not told one, as by ssh: the data goes through that, which is slower; where ports are taken, name free ones with --ports A-B",
            ),
            Way::ThroughSsh if self.verbose => self.output.notice("the data goes through ssh"),
            Way::Direct if self.verbose => self.output.notice("the data goes straight to the other host, encrypted"),
            Way::Local | Way::ThroughSsh | Way::Direct => {}
        }
    }

    fn unanswered(&self, host: &str) {
        self.output.notice(format!(
            "nothing has come from {host} for half a minute: if ssh asks for nothing here, a start-up file there may read stdin or run another shell"
        ));
    }

    fn installing(&self, host: &str) {
        self.output.notice(format!("'terahaul' is being copied to ~/.local/bin on {host}"));
    }

    fn named_link(&self, name: &EntryPath) {
        self.output.notice(format!("{name} is a link and goes as one; what it leads to is not copied"));
    }

    fn item(&self, item: Item<'_>) {
        self.count(&item);
        let change_of = |written: &bool| if *written { "write" } else { "metadata" };
        let (path, kind, change, size) = match &item {
            Item::Entry { entry, written, .. } => {
                let kind = match entry.kind {
                    EntryKind::File { .. } => "file",
                    EntryKind::Directory => "directory",
                    EntryKind::Symlink { .. } => "symlink",
                };
                let size = entry.file_size().filter(|_| *written);
                (entry.path.as_bytes(), kind, change_of(written), size)
            }
            Item::Destination { written, .. } => (&b"."[..], "directory", change_of(written), None),
            Item::Removed { path, folder } => {
                (*path, if *folder { "directory" } else { "file" }, "delete", None)
            }
        };
        let path = PathText::from(path);
        let flags = itemised::flags(&item, self.copying);
        let slash = if kind == "directory" { "/" } else { "" };
        let name = format!("{}{slash}", path.printable);
        let text = match (self.lines, change) {
            (Lines::None, _) => String::new(),
            (Lines::Flags, _) => format!("{flags} {name}"),
            (_, "delete") => format!("deleting {name}"),
            (Lines::Paths, _) => name,
            (Lines::Sizes, _) => {
                let what = match (size, kind) {
                    (Some(size), _) => size.to_string(),
                    (None, "directory") => "folder".into(),
                    (None, "symlink") => "link".into(),
                    (None, _) => "metadata".into(),
                };
                format!("{what:>9}  {name}")
            }
        };
        self.output.emit(&Event::Item { path, kind, change, flags, size, text });
    }
}
