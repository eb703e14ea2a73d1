//! A receipt's file, read entry by entry: a million entries are never held at once.

use std::fmt;
use std::fs::File;
use std::io::{BufReader, Seek};

use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use terahaul_core::{ReceiptEntry, ReceiptError, RootHasher, Statement};

use crate::exit::{Exit, Failure};

/// A receipt whose signature and entries were checked.
pub struct ReceiptFile {
    file: File,
    /// What was signed.
    pub statement: Statement,
}

impl ReceiptFile {
    /// Reads `file` once, and refuses it unless the signature and the root over all entries are right.
    pub fn check(file: File) -> Result<Self, Failure> {
        let mut root = RootHasher::default();
        let mut count = 0;
        let mut damaged = None;
        let mut on_entry = |entry: ReceiptEntry| {
            match entry.to_entry() {
                // A file that arrived has a hash; that nothing else has one `to_entry` has seen.
                Ok(plain) if entry.blake3.is_some() == plain.file_size().is_some() => {
                    root.update(&plain, entry.blake3);
                }
                Ok(_) => damaged = Some(ReceiptError::Root),
                Err(error) => damaged = Some(error),
            }
            count += 1;
            damaged.is_none()
        };
        let parts = read(&file, &mut on_entry)?;
        if let Some(error) = damaged {
            return Err(not_proven(&error));
        }
        parts.statement.verify(&parts.signature).map_err(|error| not_proven(&error))?;
        if root.finish() != parts.statement.root || count != parts.statement.entries {
            return Err(not_proven(&ReceiptError::Root));
        }
        Ok(Self { file, statement: parts.statement })
    }

    /// Calls `on_entry` with every entry, in manifest order, until it returns `false`.
    pub fn entries(&self, on_entry: &mut dyn FnMut(ReceiptEntry) -> bool) -> Result<(), Failure> {
        read(&self.file, on_entry).map(drop)
    }
}

fn not_proven(error: &ReceiptError) -> Failure {
    Failure::new(Exit::VerifyFailed, error.to_string())
}

struct Parts {
    statement: Statement,
    signature: String,
}

fn read(file: &File, on_entry: &mut dyn FnMut(ReceiptEntry) -> bool) -> Result<Parts, Failure> {
    let mut file = file;
    file.rewind().map_err(|error| unreadable(Exit::Unexpected, &error))?;
    let mut json = serde_json::Deserializer::from_reader(BufReader::with_capacity(1 << 18, file));
    let parts = Document { on_entry }.deserialize(&mut json).and_then(|parts| json.end().map(|()| parts));
    parts.map_err(|error| {
        // What the disk does not give says nothing about what was signed.
        unreadable(if error.is_io() { Exit::Unexpected } else { Exit::VerifyFailed }, &error)
    })
}

fn unreadable(exit: Exit, detail: &dyn fmt::Display) -> Failure {
    Failure::new(
        exit,
        format!(
            "the receipt cannot be read ({detail}): use a file that --receipt of 'terahaul send', 'receive' or 'info' has written"
        ),
    )
}

struct Document<'a> {
    on_entry: &'a mut dyn FnMut(ReceiptEntry) -> bool,
}

impl<'de> DeserializeSeed<'de> for Document<'_> {
    type Value = Parts;
    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Parts, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Document<'_> {
    type Value = Parts;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a receipt")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Parts, A::Error> {
        let (mut statement, mut signature, mut failures, mut entries) = (None, None, None, false);
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "statement" if statement.is_none() => statement = Some(map.next_value()?),
                "signature" if signature.is_none() => signature = Some(map.next_value()?),
                // What did not arrive is not signed, but for how much it is.
                "failures" if failures.is_none() => failures = Some(map.next_value::<IgnoredAny>()?),
                "entries" if !entries => {
                    entries = true;
                    map.next_value_seed(Entries { on_entry: &mut *self.on_entry })?;
                }
                "statement" | "signature" | "failures" | "entries" => {
                    return Err(A::Error::custom(format_args!("it has {key} twice")));
                }
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        if !entries {
            return Err(A::Error::missing_field("entries"));
        }
        Ok(Parts {
            statement: statement.ok_or_else(|| A::Error::missing_field("statement"))?,
            signature: signature.ok_or_else(|| A::Error::missing_field("signature"))?,
        })
    }
}

struct Entries<'a> {
    on_entry: &'a mut dyn FnMut(ReceiptEntry) -> bool,
}

impl<'de> DeserializeSeed<'de> for Entries<'_> {
    type Value = ();
    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Entries<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of entries")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while let Some(entry) = seq.next_element()? {
            if !(self.on_entry)(entry) {
                while seq.next_element::<IgnoredAny>()?.is_some() {}
                return Ok(());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use terahaul_core::{
        ByteCount, Entry, EntryKind, EntryPath, Hash, Mtime, Receipt, SigningKey, TransferId,
    };

    fn receipt() -> Receipt {
        let key = SigningKey::from_seed(&[9; 32]);
        let entry = |name: &str| Entry {
            path: EntryPath::new(name.as_bytes()).unwrap(),
            kind: EntryKind::File { size: ByteCount(1) },
            mtime: Mtime::default(),
            mode: 0o644,
            extra: None,
        };
        let entries: Vec<_> =
            ["a", "b"].map(|name| ReceiptEntry::new(&entry(name), Some(Hash([1; 32])))).into();
        let mut root = RootHasher::default();
        entries.iter().for_each(|entry| root.update(&entry.to_entry().unwrap(), entry.blake3));
        let statement = Statement {
            version: 1,
            transfer: TransferId([1; 16]),
            name: "n".into(),
            created: 1,
            completed: 2,
            entries: 2,
            bytes: ByteCount(2),
            failed: 0,
            root: root.finish(),
            public_key: data_encoding::HEXLOWER.encode(&key.public_key().0),
        };
        let signature = statement.sign(&key);
        Receipt { statement, signature, failures: Vec::new(), entries }
    }

    fn check(text: &str) -> Result<ReceiptFile, Failure> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        ReceiptFile::check(file)
    }

    #[test]
    fn a_genuine_receipt_is_taken_and_read_again() {
        let receipt = receipt();
        let checked = check(&serde_json::to_string(&receipt).unwrap()).unwrap();
        let mut names = Vec::new();
        checked
            .entries(&mut |entry| {
                names.push(entry.path);
                names.len() < 2
            })
            .unwrap();
        assert_eq!(names, ["a", "b"]);
        assert_eq!(checked.statement, receipt.statement);
    }

    #[test]
    fn whatever_was_altered_is_refused() {
        let good = receipt();
        let altered = |alter: fn(&mut Receipt)| {
            let mut receipt = good.clone();
            alter(&mut receipt);
            check(&serde_json::to_string(&receipt).unwrap()).err().map(|failure| failure.exit)
        };
        assert_eq!(altered(|_| ()), None);
        let refused = Some(Exit::VerifyFailed);
        assert_eq!(altered(|receipt| receipt.entries[0].size = ByteCount(9)), refused);
        assert_eq!(altered(|receipt| receipt.entries[0].path = "../x".into()), refused);
        assert_eq!(altered(|receipt| drop(receipt.entries.pop())), refused);
        assert_eq!(altered(|receipt| receipt.entries.swap(0, 1)), refused);
        assert_eq!(altered(|receipt| receipt.entries[0].blake3 = None), refused);
        assert_eq!(altered(|receipt| receipt.entries[0].target_hex = Some("61".into())), refused);
        assert_eq!(altered(|receipt| receipt.statement.name = "other".into()), refused);
        assert_eq!(altered(|receipt| receipt.signature.replace_range(0..1, "z")), refused);
        assert_eq!(check("not JSON").err().map(|failure| failure.exit), refused);
        assert_eq!(check("{\"entries\":[]}").err().map(|failure| failure.exit), refused);
    }
}
