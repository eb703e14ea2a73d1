//! What a copy says while it runs.

use std::sync::{Mutex, PoisonError};

use terahaul_copy::{Report, Way};
use terahaul_core::{ByteCount, Entry, ReceiptEntry};

use crate::output::{Event, Output};

pub struct ToOutput<'a> {
    output: &'a Output,
    verbose: bool,
    listed: Mutex<(u64, ByteCount)>,
}

impl<'a> ToOutput<'a> {
    pub fn new(output: &'a Output, verbose: bool) -> Self {
        Self { output, verbose, listed: Mutex::default() }
    }

    /// Entries and bytes that a dry run has listed.
    pub fn listed(&self) -> (u64, ByteCount) {
        *self.listed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Report for ToOutput<'_> {
    fn started(&self, way: Way) {
        match way {
            Way::Blocked(port) => self.output.notice(format!(
                "port {port} of the other host is blocked: the data goes through ssh, which is slower; open some ports there and name them with --ports A-B"
            )),
            Way::NoPort => self.output.notice(
                "the other host has no free port at the address that ssh has reached: the data goes through ssh, which is slower; name free ports with --ports A-B",
            ),
            Way::ThroughSsh if self.verbose => self.output.notice("the data goes through ssh"),
            Way::Direct if self.verbose => self.output.notice("the data goes straight to the other host, encrypted"),
            Way::Local | Way::ThroughSsh | Way::Direct => {}
        }
    }

    fn installing(&self, host: &str) {
        self.output.notice(format!("'terahaul' is copied to ~/.local/bin on {host}"));
    }

    fn entry(&self, entry: &Entry) {
        let mut listed = self.listed.lock().unwrap_or_else(PoisonError::into_inner);
        listed.0 += 1;
        listed.1 += entry.file_size().unwrap_or_default();
        drop(listed);
        self.output.emit(&Event::Entry { entry: &ReceiptEntry::new(entry, None), present: None });
    }
}
