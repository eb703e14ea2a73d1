//! Events as text for people.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use terahaul_core::{ByteCount, Printable, PrintableText, ReceiptEntry, ReceiptKind, Span};

use super::{Event, date_of, masked};
use crate::api::{Token, Transfer};

/// The head of a list of transfers; with their senders, who are told to the depot's owner alone.
pub fn transfers_head(with_senders: bool) -> String {
    let sender = if with_senders { format!("{:<16}  ", "SENDER") } else { String::new() };
    format!("ID                          STATE     SIZE      ENTRIES  EXPIRES     {sender}NAME")
}

/// The head of a list of tokens.
pub const TOKENS: &str =
    "ID                          SCOPES            CREATED     EXPIRES     QUOTA     LABEL";

/// What goes to stdout.
pub fn stdout_text(event: &Event<'_>) -> Option<String> {
    match event {
        Event::Ready { page, url, token, .. } => Some(ready(page, url, token)),
        Event::Entry { entry, present } => Some(entry_line(entry, *present)),
        Event::Difference { path, message, .. } => {
            Some(format!("{}: {}", path.printable, printable_text(message)))
        }
        Event::Transfer(transfer) => Some(transfer_line(transfer)),
        Event::Token(token) => Some(token_line(token)),
        Event::Item { text, .. } => (!text.is_empty()).then(|| text.clone()),
        Event::Measured { text, .. } => Some(printable_text(text)),
        Event::Done { text, .. } => (!text.is_empty()).then(|| text.clone()),
        Event::Start { .. } | Event::Progress(_) | Event::Failure { .. } | Event::Notice { .. } => None,
        Event::Error { .. } => None,
    }
}

/// What goes to stderr.
pub fn stderr_text(event: &Event<'_>) -> Option<String> {
    match event {
        Event::Failure { path, message, .. } => {
            Some(format!("terahaul: {} {}", path.printable, masked(&printable_text(message))))
        }
        Event::Notice { message } => Some(format!("terahaul: {}", printable_text(message))),
        Event::Error { message, .. } => Some(format!("terahaul: {}", masked(&printable_text(message)))),
        _ => None,
    }
}

fn ready(page: &str, url: &str, token: &str) -> String {
    format!(
        "Open this page; the sign-in in it works once:\n  {page}\n\nFor the command line, paste these two lines:\n  export TERAHAUL_URL='{url}'\n  export TERAHAUL_TOKEN='{token}'\n"
    )
}

fn entry_line(entry: &ReceiptEntry, present: Option<bool>) -> String {
    let size = match entry.kind {
        ReceiptKind::File => ByteCount(entry.size.0).to_string(),
        ReceiptKind::Directory => "folder".into(),
        ReceiptKind::Symlink => "link".into(),
    };
    let state = match present {
        None => "",
        Some(true) => "  present",
        Some(false) => "  absent ",
    };
    let path =
        entry.to_entry().map_or_else(|_| printable(entry.path.as_bytes()), |entry| entry.path.to_string());
    format!("{size:>9}{state}  {path}")
}

fn transfer_line(transfer: &Transfer) -> String {
    let sender = transfer.sender.as_deref().map(|sender| format!("{:<16}  ", printable(sender.as_bytes())));
    format!(
        "{:<26}  {:<8}  {:>8}  {:>7}  {:<10}  {}{}",
        printable(transfer.id.as_bytes()),
        printable(transfer.state.as_bytes()),
        ByteCount(transfer.arrived_bytes.unwrap_or(transfer.bytes)).to_string(),
        transfer.arrived_entries.unwrap_or(transfer.entries),
        transfer.expires.map_or_else(|| "never".into(), date_of),
        sender.unwrap_or_default(),
        printable(transfer.name.as_bytes()),
    )
}

fn token_line(token: &Token) -> String {
    format!(
        "{:<26}  {:<16}  {:<10}  {:<10}  {:>8}  {}",
        printable(token.id.as_bytes()),
        printable(token.scopes.join(",").as_bytes()),
        date_of(token.created),
        token.expires.map_or_else(|| "never".into(), date_of),
        token.quota_bytes.map_or_else(|| "none".into(), |quota| ByteCount(quota).to_string()),
        printable(token.label.as_bytes()),
    )
}

/// `1 entry`, `2 entries`.
pub fn counted(number: u64, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

/// `3 h 19 min`, `12 min 5 s`, `3.9 s`.
pub fn long(time: Duration) -> String {
    Span(time).to_string()
}

/// As [`Printable`] shows it.
pub fn printable(bytes: &[u8]) -> String {
    Printable(bytes).to_string()
}

/// As [`Printable`] shows a path of this machine.
pub fn printable_path(path: &Path) -> String {
    printable(path.as_os_str().as_bytes())
}

/// As [`PrintableText`] shows what is no name.
pub fn printable_text(text: &str) -> String {
    PrintableText(text.as_bytes()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_said_as_people_say_them() {
        assert_eq!(long(Duration::from_secs(3 * 3600 + 19 * 60)), "3 h 19 min");
        assert_eq!(long(Duration::from_secs(725)), "12 min 5 s");
        assert_eq!(long(Duration::from_millis(3_940)), "3.9 s");
    }

    /// Of 119.9 s it was said that they were "1 min 59 s", and of 59.97 s "60.0 s".
    #[test]
    fn times_are_rounded_and_not_cut_down() {
        assert_eq!(long(Duration::from_millis(119_900)), "2 min 0 s");
        assert_eq!(long(Duration::from_millis(59_970)), "1 min 0 s");
    }

    #[test]
    fn nothing_that_others_named_can_move_the_cursor() {
        assert_eq!(printable(b"a\x1b[2Jb\r\n\xff\xc3\xa9"), "a\\u{1b}[2Jb\\r\\n\\xff\u{e9}");
        assert_eq!(printable("invoice\u{202e}fdp.exe".as_bytes()), "invoice\\u{202e}fdp.exe");
    }
}
