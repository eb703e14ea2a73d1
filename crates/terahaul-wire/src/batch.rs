//! Manifest batches, on the wire and in a depot's database.

use minicbor::data::Type;
use minicbor::{Decode, Decoder, Encode, Encoder};
use terahaul_core::{ByteCount, Entry, EntryIndex, EntryKind, EntryPath, Mtime};

use crate::{DecodeError, extras};

/// Most entries in one batch.
pub const MAX_BATCH_ENTRIES: usize = 1000;

/// Consecutive entries of a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Index of the first entry.
    pub first: EntryIndex,
    /// The entries, on the wire [`MAX_BATCH_ENTRIES`] at most.
    pub entries: Vec<Entry>,
    /// Whether the open packed block is closed after the last of them.
    pub seal: bool,
}

impl Batch {
    /// The index behind the last entry. A hostile batch may begin where no manifest reaches; its end is then the last index that
    /// there is.
    pub fn end(&self) -> EntryIndex {
        let count = u32::try_from(self.entries.len()).unwrap_or(u32::MAX);
        EntryIndex(self.first.0.saturating_add(count))
    }

    /// What decides where its entries' bytes go: the size of each that is a file.
    pub fn sizes(&self) -> impl Iterator<Item = Option<ByteCount>> {
        self.entries.iter().map(Entry::file_size)
    }

    /// Whether an entry carries more than its seven fields. Only a peer that said it can
    /// ([`EXTRAS`](crate::EXTRAS)) is sent such a batch.
    pub fn has_extras(&self) -> bool {
        self.entries.iter().any(|entry| entry.extra.is_some())
    }
}

/// Collects entries into batches of a bounded encoded size. The first ones are smaller: on a long path a connection
/// that has just begun needs several round trips for a full batch, and content waits for it.
#[derive(Debug, Default)]
pub struct BatchBuilder {
    entries: Vec<Entry>,
    encoded: usize,
    taken: usize,
}

impl BatchBuilder {
    /// Encoded bytes after which a batch is full.
    const TARGET: usize = 128 << 10;
    /// The same of the first, which may travel with the request to open: that has to come in time.
    const FIRST_TARGET: usize = 32 << 10;
    /// Entries in the first batch: about as many as the first flight of a TCP connection carries. Each batch after it
    /// has as many more.
    const FIRST: usize = 250;

    /// Adds an entry; `true` when the batch should be taken now.
    pub fn push(&mut self, entry: Entry) -> bool {
        let target = match &entry.kind {
            EntryKind::Symlink { target } => target.len(),
            EntryKind::File { .. } | EntryKind::Directory => 0,
        };
        self.encoded += entry.path.as_bytes().len() + target + 40 + extras::weight(entry.extra.as_deref());
        self.entries.push(entry);
        self.entries.len() >= MAX_BATCH_ENTRIES.min(Self::FIRST * (self.taken + 1))
            || self.encoded >= if self.taken == 0 { Self::FIRST_TARGET } else { Self::TARGET }
    }

    /// Whether nothing was added since the last `take`.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Entries since the last `take`.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// The entries so far.
    pub fn take(&mut self) -> Vec<Entry> {
        self.encoded = 0;
        self.taken += 1;
        std::mem::take(&mut self.entries)
    }
}

/// An entry as CBOR: `[path, kind, size, mtime seconds, mtime nanos, mode, target]`.
struct WireEntry(Entry);

fn encode_entry<W: minicbor::encode::Write>(
    entry: &Entry,
    e: &mut Encoder<W>,
) -> Result<(), minicbor::encode::Error<W::Error>> {
    let (kind, size, target): (u8, u64, &[u8]) = match &entry.kind {
        EntryKind::File { size } => (0, size.0, b""),
        EntryKind::Directory => (1, 0, b""),
        EntryKind::Symlink { target } => (2, 0, target),
    };
    e.array(7)?.bytes(entry.path.as_bytes())?.u8(kind)?.u64(size)?.i64(entry.mtime.seconds)?;
    e.u32(entry.mtime.nanos)?.u32(entry.mode)?.bytes(target)?;
    Ok(())
}

impl<'b, C> Decode<'b, C> for WireEntry {
    fn decode(d: &mut Decoder<'b>, _: &mut C) -> Result<Self, minicbor::decode::Error> {
        let invalid = |why: &str| minicbor::decode::Error::message(why);
        if d.array()? != Some(7) {
            return Err(invalid("an entry has seven fields"));
        }
        let path = EntryPath::new(d.bytes()?).map_err(|error| invalid(&error.to_string()))?;
        let kind = d.u8()?;
        let size = ByteCount(d.u64()?);
        let mtime = Mtime { seconds: d.i64()?, nanos: d.u32()? };
        let mode = d.u32()?;
        let target = d.bytes()?;
        if mtime.nanos >= 1_000_000_000 || mode > 0o7777 {
            return Err(invalid("an entry's time or mode is out of range"));
        }
        let kind = match kind {
            0 if target.is_empty() => EntryKind::File { size },
            1 if target.is_empty() && size.0 == 0 => EntryKind::Directory,
            2 if size.0 == 0 && (1..=4096).contains(&target.len()) && !target.contains(&0) => {
                EntryKind::Symlink { target: target.into() }
            }
            _ => return Err(invalid("an entry's kind does not fit its fields")),
        };
        Ok(Self(Entry { path, kind, mtime, mode, extra: None }))
    }
}

impl<C> Encode<C> for Batch {
    fn encode<W: minicbor::encode::Write>(
        &self,
        e: &mut Encoder<W>,
        _: &mut C,
    ) -> Result<(), minicbor::encode::Error<W::Error>> {
        let fields = if self.has_extras() { 4 } else { 3 };
        e.array(fields)?.u32(self.first.0)?.bool(self.seal)?.array(self.entries.len() as u64)?;
        self.entries.iter().try_for_each(|entry| encode_entry(entry, e))?;
        if self.has_extras() { extras::encode(&self.entries, e) } else { Ok(()) }
    }
}

impl<'b, C> Decode<'b, C> for Batch {
    fn decode(d: &mut Decoder<'b>, _: &mut C) -> Result<Self, minicbor::decode::Error> {
        let fields = d.array()?;
        let (first, seal, mut entries) = match fields {
            Some(3 | 4) => (EntryIndex(d.u32()?), d.bool()?, entry_list(d)?),
            _ => return Err(minicbor::decode::Error::message("a batch has three or four fields")),
        };
        if fields == Some(4) {
            extras::decode(d, &mut entries)?;
        }
        Ok(Self { first, seal, entries })
    }
}

fn entry_list(d: &mut Decoder<'_>) -> Result<Vec<Entry>, minicbor::decode::Error> {
    let too_many = || minicbor::decode::Error::message("a batch has at most 1000 entries");
    let count = d.array()?.ok_or_else(too_many)?;
    if count > MAX_BATCH_ENTRIES as u64 {
        return Err(too_many());
    }
    let mut entries = Vec::new();
    for _ in 0..count {
        entries.push(WireEntry::decode(d, &mut ())?.0);
    }
    Ok(entries)
}

/// Encodes entries alone, as a depot's database keeps them: without what they carry beyond their seven fields.
pub fn encode_entries(entries: &[Entry]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = Encoder::new(&mut bytes);
    // Writing into a vector cannot fail.
    let _ = encoder.array(entries.len() as u64).map(|_| ());
    for entry in entries {
        let _ = encode_entry(entry, &mut encoder);
    }
    bytes
}

/// Reads what [`encode_entries`] wrote.
pub fn decode_entries(bytes: &[u8]) -> Result<Vec<Entry>, DecodeError> {
    let mut decoder = Decoder::new(bytes);
    if decoder.datatype().ok() != Some(Type::Array) {
        return Err(DecodeError::Malformed("not a list of entries".into()));
    }
    let entries = entry_list(&mut decoder).map_err(DecodeError::from)?;
    if decoder.position() != bytes.len() {
        return Err(DecodeError::Malformed("bytes are left over after the last entry".into()));
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_ends_behind_its_last_entry_or_with_the_last_index() {
        let entry = Entry {
            path: EntryPath::new(*b"folder").unwrap(),
            kind: EntryKind::Directory,
            mtime: Mtime::default(),
            mode: 0o755,
            extra: None,
        };
        let end = |first, count| {
            Batch { first: EntryIndex(first), entries: vec![entry.clone(); count], seal: false }.end()
        };
        assert_eq!(end(7, 0), EntryIndex(7));
        assert_eq!(end(7, 3), EntryIndex(10));
        assert_eq!(end(u32::MAX - 1, 3), EntryIndex(u32::MAX));
    }
}
