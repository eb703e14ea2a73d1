//! What can be said. These names and fields are an interface: docs/cli.md describes them.

use std::net::IpAddr;

use serde::Serialize;
use terahaul_core::{ByteCount, EntryPath, ReceiptEntry};

use super::secrets::serialize_masked;
use crate::api::{Token, Transfer};

/// One event. As JSON, its name is in the field `event`.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event<'a> {
    /// A depot listens. The first line of `serve`.
    Ready {
        /// The page, with a one-time sign-in.
        page: &'a str,
        /// The value for `TERAHAUL_URL`.
        url: &'a str,
        /// The owner's token.
        token: &'a str,
        /// The address that is listened on.
        listen: String,
        /// The data folder.
        data: String,
    },
    /// A transfer begins, or begins again.
    Start {
        /// `send` or `receive`.
        command: &'static str,
        /// The transfer.
        transfer: String,
        /// Its name.
        name: &'a str,
        /// Whether an earlier run is continued.
        resumed: bool,
    },
    /// How far it is.
    Progress(ProgressView),
    /// An entry of a manifest: what is in a transfer, or would be sent or received.
    Entry {
        /// The entry, as receipts have it.
        #[serde(flatten)]
        entry: &'a ReceiptEntry,
        /// Whether it has arrived, or is at the depot already; left out where that is not known.
        #[serde(skip_serializing_if = "Option::is_none")]
        present: Option<bool>,
    },
    /// A copy changes something at its destination, or in a dry run would; `text` is the line that people read.
    Item {
        /// What.
        #[serde(flatten)]
        path: PathText,
        /// `file`, `directory`, `symlink`.
        kind: &'static str,
        /// `write`, `metadata` or `delete`.
        change: &'static str,
        /// What differs, as rsync writes it.
        flags: String,
        /// A written file's size.
        #[serde(skip_serializing_if = "Option::is_none")]
        size: Option<ByteCount>,
        /// For people.
        #[serde(skip)]
        text: String,
    },
    /// An entry failed; the rest goes on.
    Failure {
        /// Which.
        #[serde(flatten)]
        path: PathText,
        /// The cause's name.
        cause: &'a str,
        /// What happened, and what to do.
        #[serde(serialize_with = "serialize_masked")]
        message: &'a str,
    },
    /// Something is not what the receipt says.
    Difference {
        /// Which.
        #[serde(flatten)]
        path: PathText,
        /// `missing`, `kind`, `size`, `content`, `target`, `unreadable` or `extra`.
        what: &'static str,
        /// In words.
        message: &'a str,
    },
    /// A transfer in a list.
    Transfer(&'a Transfer),
    /// A token in a list.
    Token(&'a Token),
    /// The lab has measured something; `text` is the line that people read.
    Measured {
        /// Its own fields.
        #[serde(flatten)]
        result: serde_json::Value,
        /// For people.
        #[serde(skip)]
        text: String,
    },
    /// Something worth knowing.
    Notice {
        /// What.
        message: &'a str,
    },
    /// The command's result; `text` is what people read, on the last lines of stdout.
    Done {
        /// Which command.
        command: &'static str,
        /// The command's own fields.
        #[serde(flatten)]
        result: serde_json::Value,
        /// For people.
        #[serde(skip)]
        text: String,
    },
    /// The command failed.
    Error {
        /// A stable name.
        code: &'a str,
        /// What happened, and what to do.
        #[serde(serialize_with = "serialize_masked")]
        message: &'a str,
        /// The exit code.
        exit: u8,
    },
}

impl Event<'_> {
    /// Whether `--quiet` silences it.
    pub fn is_chatter(&self) -> bool {
        matches!(self, Self::Start { .. } | Self::Progress(_) | Self::Notice { .. })
    }
}

/// A path as events write it: as text, and as hexadecimal bytes where the text is not exact.
#[derive(Clone, Debug, Serialize)]
pub struct PathText {
    /// Readable.
    pub path: String,
    /// Exact, only where `path` is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_hex: Option<String>,
    /// For terminals: nothing in it can move a cursor.
    #[serde(skip)]
    pub printable: String,
}

impl PathText {
    /// Adds it to a result as the field `name`, and exactly as `name_hex` where that is not.
    pub fn put(self, name: &str, result: &mut serde_json::Value) {
        result[name] = self.path.into();
        if let Some(hex) = self.path_hex {
            result[format!("{name}_hex")] = hex.into();
        }
    }
}

impl From<&EntryPath> for PathText {
    fn from(path: &EntryPath) -> Self {
        Self { printable: path.to_string(), ..Self::from(path.as_bytes()) }
    }
}

impl From<&[u8]> for PathText {
    fn from(bytes: &[u8]) -> Self {
        let exact = std::str::from_utf8(bytes).is_ok();
        Self {
            path: String::from_utf8_lossy(bytes).into_owned(),
            path_hex: (!exact).then(|| data_encoding::HEXLOWER.encode(bytes)),
            printable: super::human::printable(bytes),
        }
    }
}

/// How far a transfer is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ProgressView {
    /// Bytes that are declared so far.
    pub total_bytes: u64,
    /// Bytes that are durable where they belong.
    pub done_bytes: u64,
    /// Bytes that this run has moved.
    pub moved_bytes: u64,
    /// Entries that are declared so far.
    pub entries: u64,
    /// Open data channels.
    pub channels: usize,
    /// What carries blocks now: `tcp`, `udp` or `tcp+udp`, and why.
    pub transport: &'static str,
    #[allow(missing_docs)]
    pub transport_why: &'static str,
    /// It is what anybody would expect.
    #[serde(skip)]
    pub transport_usual: bool,
    /// Each path, where addresses to leave from were named and UDP is in use.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<PathView>,
    /// Whether the depot is reached at the moment.
    pub connected: bool,
    /// Whether `total_bytes` and `entries` may still grow.
    pub counting: bool,
    /// Speed over the last seconds.
    pub bytes_per_second: u64,
    /// How fast what is left becomes less.
    #[serde(skip)]
    pub left_per_second: u64,
}

/// How one of several paths does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct PathView {
    /// The address of this machine that it leaves from.
    pub local: IpAddr,
    /// Bytes in datagrams that arrived.
    pub bytes: u64,
    /// Speed over the last seconds.
    pub bytes_per_second: u64,
}
