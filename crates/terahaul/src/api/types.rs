//! What the API answers, as far as it is used. Fields that are not known are ignored.

use serde::{Deserialize, Serialize};
use terahaul_core::{Address, BlockNumber, Hash, ReceiptEntry};

/// A transfer.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[allow(missing_docs)] // docs/cli.md describes the fields
pub struct Transfer {
    pub id: String,
    pub name: String,
    pub state: String,
    pub created: i64,
    #[serde(default)]
    pub expires: Option<i64>,
    #[serde(default)]
    pub completed: Option<i64>,
    pub entries: u64,
    pub files: u64,
    pub failed: u64,
    pub bytes: u64,
    pub durable_bytes: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arrived_entries: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arrived_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sender: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct Transfers {
    pub transfers: Vec<Transfer>,
    /// Where the next page begins; older depots do not say.
    #[serde(default)]
    pub next: Option<String>,
}

/// An entry of a transfer.
#[derive(Clone, Debug, Deserialize)]
pub struct EntryRecord {
    /// As in receipts.
    #[serde(flatten)]
    pub entry: ReceiptEntry,
    /// `pending`, `complete` or `failed`.
    pub state: String,
    /// Where its bytes are; `None` when it has none.
    #[serde(default)]
    pub address: Option<Address>,
    /// Why it failed.
    #[serde(default)]
    pub reason: Option<String>,
    /// It failed, and a later entry of the same path has taken its place.
    #[serde(default)]
    pub superseded: bool,
}

/// Some entries of a transfer.
#[derive(Deserialize)]
pub(super) struct EntryPage {
    /// In manifest order.
    pub entries: Vec<EntryRecord>,
    /// Where to go on.
    pub next: Option<u64>,
}

#[derive(Deserialize)]
pub(super) struct BlockValues {
    pub blocks: Vec<BlockValue>,
}

#[derive(Deserialize)]
pub(super) struct BlockValue {
    pub block: BlockNumber,
    pub value: Hash,
}

/// Which blocks are there: runs, each as its first block and how many they are.
#[derive(Deserialize)]
pub(super) struct Extents {
    pub durable: Vec<(u32, u32)>,
}

/// Who a credential stands for.
#[derive(Debug, Deserialize)]
pub struct Session {
    /// What it may do.
    pub scopes: Vec<String>,
    /// What its owner calls it.
    pub label: String,
}

/// A token, without its secret.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[allow(missing_docs)] // docs/cli.md describes the fields
pub struct Token {
    pub id: String,
    pub label: String,
    pub scopes: Vec<String>,
    pub created: i64,
    #[serde(default)]
    pub last_used: Option<i64>,
    #[serde(default)]
    pub quota_bytes: Option<u64>,
    #[serde(default)]
    pub expires: Option<i64>,
}

#[derive(Deserialize)]
pub(super) struct Tokens {
    pub tokens: Vec<Token>,
}

/// A token that was just made.
#[derive(Debug, Serialize, Deserialize)]
pub struct CreatedToken {
    /// As in lists.
    #[serde(flatten)]
    pub info: Token,
    /// The secret.
    pub token: String,
}

/// A token to be made.
#[derive(Debug, Serialize)]
pub struct NewToken<'a> {
    /// What to call it.
    pub label: &'a str,
    /// What it may do.
    pub scopes: Vec<&'static str>,
    /// Most bytes that its transfers may hold together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quota_bytes: Option<u64>,
    /// Days until it ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_in_days: Option<u32>,
}
