//! The proof handed to both sides at the end.
//!
//! A receipt is a signed statement and the entries it speaks of. The statement's `root` is a hash over every entry
//! in a canonical encoding (docs/protocol.md), so the signature covers all of them, and a receipt can be checked
//! offline, entry by entry, without holding it in memory.

use ed25519_dalek::Signer;
use serde::{Deserialize, Serialize};

use crate::{ByteCount, Entry, EntryKind, EntryPath, Hash, Mtime, TransferId};

/// The depot's signing key. Made from 32 random bytes that the caller supplies.
pub struct SigningKey(ed25519_dalek::SigningKey);

/// A depot's public key: 32 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublicKey(pub [u8; 32]);

impl SigningKey {
    /// The key that these 32 secret bytes stand for (RFC 8032).
    pub fn from_seed(seed: &[u8; 32]) -> Self {
        Self(ed25519_dalek::SigningKey::from_bytes(seed))
    }

    /// Its public half.
    pub fn public_key(&self) -> PublicKey {
        PublicKey(self.0.verifying_key().to_bytes())
    }
}

/// What the depot states and signs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Statement {
    /// Format version: 1.
    pub version: u32,
    /// Which transfer.
    pub transfer: TransferId,
    /// Its name.
    pub name: String,
    /// When it was created, seconds since 1970 UTC.
    pub created: i64,
    /// When the last byte became durable and was published, seconds since 1970 UTC.
    pub completed: i64,
    /// Number of entries that arrived.
    pub entries: u64,
    /// Sum of their files' sizes.
    pub bytes: ByteCount,
    /// Number of entries that failed and are not part of what arrived.
    pub failed: u64,
    /// Hash over all arrived entries ([`RootHasher`]).
    pub root: Hash,
    /// The depot's public key in hexadecimal.
    pub public_key: String,
}

/// One arrived entry, as receipts and the API write it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceiptEntry {
    /// The path; where it is not UTF-8, a readable form of it.
    pub path: String,
    /// The path's bytes in hexadecimal, only where `path` is not exact.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_hex: Option<String>,
    /// `file`, `directory` or `symlink`.
    pub kind: ReceiptKind,
    /// The file's length in bytes; 0 for others.
    pub size: ByteCount,
    /// Modification time, whole seconds since 1970 UTC.
    pub mtime: i64,
    /// Nanoseconds past `mtime`.
    pub mtime_nanos: u32,
    /// Permission bits.
    pub mode: u32,
    /// BLAKE3 of the file's content, as `b3sum` prints it; files only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blake3: Option<Hash>,
    /// A symbolic link's text in hexadecimal; links only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_hex: Option<String>,
}

/// An entry's kind in a receipt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReceiptKind {
    /// A regular file.
    File,
    /// A folder.
    Directory,
    /// A symbolic link.
    Symlink,
}

/// An entry that did not arrive, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceiptFailure {
    /// The entry's path, readable.
    pub path: String,
    /// What went wrong, as one sentence.
    pub reason: String,
}

/// A whole receipt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    /// What is signed.
    pub statement: Statement,
    /// Ed25519 over [`Statement::signed_bytes`], hexadecimal.
    pub signature: String,
    /// What did not arrive.
    pub failures: Vec<ReceiptFailure>,
    /// What did, in manifest order.
    pub entries: Vec<ReceiptEntry>,
}

/// Why a receipt proves nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReceiptError {
    /// Written by a later version.
    #[error("the receipt has version {0}, which this program does not know: use a newer terahaul")]
    Version(u32),
    /// A field cannot be read.
    #[error("the receipt is damaged: its {0} cannot be read")]
    Damaged(&'static str),
    /// The signature does not match the statement.
    #[error("the receipt's signature does not match: it was altered, or signed by another depot")]
    Signature,
    /// An entry is not as a depot writes it: what its root does not cover was altered.
    #[error(
        "the receipt's entry '{0}' is not written as a depot writes it: it was altered; ask the depot for the receipt again"
    )]
    Spelling(String),
    /// The entries are not those the statement was made about.
    #[error("the receipt's entries do not match its signed root: entries were altered, added or removed")]
    Root,
}

impl Statement {
    /// The bytes that are signed: a fixed text, then each field on a line of its own, the name last.
    pub fn signed_bytes(&self) -> Vec<u8> {
        format!(
            "terahaul receipt {}\n{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}",
            self.version,
            self.transfer,
            self.created,
            self.completed,
            self.entries,
            self.bytes.0,
            self.failed,
            self.root.to_hex(),
            self.public_key,
            self.name
        )
        .into_bytes()
    }

    /// The signature by `key`, hexadecimal. `public_key` must be the key's.
    pub fn sign(&self, key: &SigningKey) -> String {
        data_encoding::HEXLOWER.encode(&key.0.sign(&self.signed_bytes()).to_bytes())
    }

    /// Checks `signature` against the public key that the statement names.
    pub fn verify(&self, signature: &str) -> Result<PublicKey, ReceiptError> {
        if self.version != 1 {
            return Err(ReceiptError::Version(self.version));
        }
        let key = hex_array::<32>(&self.public_key).ok_or(ReceiptError::Damaged("public key"))?;
        let signature = hex_array::<64>(signature).ok_or(ReceiptError::Damaged("signature"))?;
        let verifying =
            ed25519_dalek::VerifyingKey::from_bytes(&key).map_err(|_| ReceiptError::Damaged("public key"))?;
        let signature = ed25519_dalek::Signature::from_bytes(&signature);
        // Keys of small order have signatures that fit every statement.
        verifying.verify_strict(&self.signed_bytes(), &signature).map_err(|_| ReceiptError::Signature)?;
        Ok(PublicKey(key))
    }
}

impl Receipt {
    /// Checks the signature and that the entries are those it was made about. Returns who signed.
    pub fn verify(&self) -> Result<PublicKey, ReceiptError> {
        let key = self.statement.verify(&self.signature)?;
        let mut root = RootHasher::default();
        for entry in &self.entries {
            root.update(&entry.to_entry()?, entry.blake3);
        }
        if root.finish() != self.statement.root || self.entries.len() as u64 != self.statement.entries {
            return Err(ReceiptError::Root);
        }
        Ok(key)
    }
}

impl ReceiptEntry {
    /// Writes `entry`; `hash` is the file's BLAKE3.
    pub fn new(entry: &Entry, hash: Option<Hash>) -> Self {
        let bytes = entry.path.as_bytes();
        let exact = std::str::from_utf8(bytes).is_ok();
        let (kind, target_hex) = match &entry.kind {
            EntryKind::File { .. } => (ReceiptKind::File, None),
            EntryKind::Directory => (ReceiptKind::Directory, None),
            EntryKind::Symlink { target } => {
                (ReceiptKind::Symlink, Some(data_encoding::HEXLOWER.encode(target)))
            }
        };
        Self {
            path: entry.path.to_text(),
            path_hex: (!exact).then(|| data_encoding::HEXLOWER.encode(bytes)),
            kind,
            size: entry.file_size().unwrap_or_default(),
            mtime: entry.mtime.seconds,
            mtime_nanos: entry.mtime.nanos,
            mode: entry.mode,
            blake3: hash,
            target_hex,
        }
    }

    /// Reads it back as an entry. One entry has one spelling, so that a reader who looks at `path` alone sees what was signed:
    /// a path in hexadecimal beside another in `path`, a folder's size or a file's link target are refused.
    pub fn to_entry(&self) -> Result<Entry, ReceiptError> {
        let damaged = |_| ReceiptError::Damaged("path");
        let path = match &self.path_hex {
            Some(hex) => data_encoding::HEXLOWER.decode(hex.as_bytes()).map_err(damaged)?,
            None => self.path.clone().into_bytes(),
        };
        let kind = match self.kind {
            ReceiptKind::File => EntryKind::File { size: self.size },
            ReceiptKind::Directory => EntryKind::Directory,
            ReceiptKind::Symlink => {
                let hex = self.target_hex.as_deref().unwrap_or_default();
                let target = data_encoding::HEXLOWER
                    .decode(hex.as_bytes())
                    .map_err(|_| ReceiptError::Damaged("link target"))?;
                EntryKind::Symlink { target: target.into() }
            }
        };
        let path = EntryPath::new(path).map_err(|_| ReceiptError::Damaged("path"))?;
        let entry = Entry {
            path,
            kind,
            mtime: Mtime { seconds: self.mtime, nanos: self.mtime_nanos },
            mode: self.mode,
            extra: None,
        };
        let hash = self.blake3.filter(|_| entry.file_size().is_some());
        match Self::new(&entry, hash) == *self {
            true => Ok(entry),
            false => Err(ReceiptError::Spelling(entry.path.to_string())),
        }
    }
}

/// Hashes entries, in manifest order, into a transfer's root.
pub struct RootHasher(blake3::Hasher);

impl Default for RootHasher {
    fn default() -> Self {
        Self(blake3::Hasher::new_derive_key("terahaul 1 transfer root"))
    }
}

impl RootHasher {
    /// The next arrived entry and, for a file, its hash.
    pub fn update(&mut self, entry: &Entry, hash: Option<Hash>) {
        let (kind, size, target): (u8, u64, &[u8]) = match &entry.kind {
            EntryKind::File { size } => (0, size.0, b""),
            EntryKind::Directory => (1, 0, b""),
            EntryKind::Symlink { target } => (2, 0, target),
        };
        let path = entry.path.as_bytes();
        self.0.update(&[kind]);
        self.0.update(&(path.len() as u32).to_le_bytes());
        self.0.update(path);
        self.0.update(&size.to_le_bytes());
        self.0.update(&entry.mtime.seconds.to_le_bytes());
        self.0.update(&entry.mtime.nanos.to_le_bytes());
        self.0.update(&entry.mode.to_le_bytes());
        self.0.update(&(target.len() as u32).to_le_bytes());
        self.0.update(target);
        self.0.update(&hash.unwrap_or_default().0);
    }

    /// The transfer's root.
    pub fn finish(self) -> Hash {
        Hash(*self.0.finalize().as_bytes())
    }
}

fn hex_array<const N: usize>(text: &str) -> Option<[u8; N]> {
    data_encoding::HEXLOWER.decode(text.as_bytes()).ok()?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receipt() -> Receipt {
        let key = SigningKey::from_seed(&[9; 32]);
        let entries: Vec<Entry> = [&b"a/b.txt"[..], b"a/\xff"]
            .into_iter()
            .map(|path| Entry {
                path: EntryPath::new(path).unwrap(),
                kind: EntryKind::File { size: ByteCount(3) },
                mtime: Mtime { seconds: 1_700_000_000, nanos: 5 },
                mode: 0o640,
                extra: None,
            })
            .chain([Entry {
                path: EntryPath::new(&b"l"[..]).unwrap(),
                kind: EntryKind::Symlink { target: (*b"../x").into() },
                mtime: Mtime::default(),
                mode: 0o777,
                extra: None,
            }])
            .collect();
        let mut root = RootHasher::default();
        let hash = |entry: &Entry| entry.file_size().map(|_| Hash([3; 32]));
        entries.iter().for_each(|entry| root.update(entry, hash(entry)));
        let statement = Statement {
            version: 1,
            transfer: TransferId([1; 16]),
            name: "run 7".into(),
            created: 1,
            completed: 2,
            entries: 3,
            bytes: ByteCount(6),
            failed: 0,
            root: root.finish(),
            public_key: data_encoding::HEXLOWER.encode(&key.public_key().0),
        };
        let signature = statement.sign(&key);
        let entries = entries.iter().map(|entry| ReceiptEntry::new(entry, hash(entry))).collect();
        Receipt { statement, signature, failures: vec![], entries }
    }

    #[test]
    fn a_receipt_survives_json_and_verifies_offline() {
        let text = serde_json::to_string(&receipt()).unwrap();
        let read: Receipt = serde_json::from_str(&text).unwrap();
        assert_eq!(read, receipt());
        assert_eq!(read.verify().unwrap(), SigningKey::from_seed(&[9; 32]).public_key());
    }

    #[test]
    fn any_change_to_a_receipt_is_noticed() {
        let changes: [fn(&mut Receipt); 15] = [
            |r| r.entries[0].size = ByteCount(4),
            |r| r.entries[0].path = "b".into(),
            |r| {
                r.entries[0].path = "contract.pdf".into();
                r.entries[0].path_hex = Some(data_encoding::HEXLOWER.encode(b"a/b.txt"));
            },
            |r| r.entries[0].path_hex = Some(data_encoding::HEXLOWER.encode(b"a/b.txt")),
            |r| r.entries[1].path = "contract.pdf".into(),
            |r| r.entries[0].target_hex = Some("61".into()),
            |r| r.entries[2].size = ByteCount(1),
            |r| r.entries[2].blake3 = Some(Hash::default()),
            |r| r.entries[0].blake3 = None,
            |r| r.entries[1].blake3 = Some(Hash([4; 32])),
            |r| r.entries[2].target_hex = Some("00".into()),
            |r| drop(r.entries.pop()),
            |r| r.statement.name = "run 8".into(),
            |r| r.statement.root = Hash([0; 32]),
            |r| {
                r.statement.public_key =
                    data_encoding::HEXLOWER.encode(&SigningKey::from_seed(&[8; 32]).public_key().0)
            },
        ];
        for (at, change) in changes.into_iter().enumerate() {
            let mut altered = receipt();
            change(&mut altered);
            assert!(altered.verify().is_err(), "change {at}");
        }
    }

    #[test]
    fn a_key_whose_signature_fits_every_statement_proves_nothing() {
        let mut forged = receipt();
        forged.statement.public_key = format!("01{}", "0".repeat(62));
        forged.signature = format!("01{}", "0".repeat(126));
        assert_eq!(forged.verify(), Err(ReceiptError::Signature));
    }
}
