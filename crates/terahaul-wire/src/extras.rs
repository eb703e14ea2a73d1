//! What entries of a batch carry beyond their seven fields: `[owners, [position, owner, same-as, xattrs, content]…]`, with a sixth,
//! `changed`, as `[seconds, nanoseconds]` where an entry has it and the other end has said that it knows it.
//!
//! Owners are written once a batch, and only entries that carry something are listed, so a batch of a thousand files of one
//! user costs some six bytes a file more than without.

use std::collections::BTreeMap;
use std::sync::Arc;

use minicbor::data::Type;
use minicbor::decode::Error;
use minicbor::encode::Write;
use minicbor::{Decoder, Encoder};
use terahaul_core::{
    Changed, Entry, EntryPath, Extra, Hash, MAX_NAME, MAX_XATTR_BYTES, MAX_XATTRS, Mtime, Owner, Xattr,
};

use crate::MAX_BATCH_ENTRIES;

type Encoded<W> = Result<(), minicbor::encode::Error<<W as Write>::Error>>;

/// An upper bound of what an extra adds to an encoded batch, more or less.
pub(crate) fn weight(extra: Option<&Extra>) -> usize {
    let Some(extra) = extra else { return 0 };
    let xattrs: usize = extra.xattrs.iter().map(|xattr| xattr.name.len() + xattr.value.len() + 10).sum();
    8 + 33 * usize::from(extra.content.is_some())
        + 15 * usize::from(extra.changed.is_some())
        + extra.same_as.as_ref().map_or(0, |path| path.as_bytes().len())
        + xattrs
}

pub(crate) fn encode<W: Write>(entries: &[Entry], e: &mut Encoder<W>) -> Encoded<W> {
    let mut owners: Vec<&Owner> = Vec::new();
    let mut numbers: BTreeMap<&Owner, u64> = BTreeMap::new();
    // Mostly the very same as that of the entry before.
    let mut last: Option<(&Arc<Owner>, u64)> = None;
    let mut number = |owner| match last {
        Some((known, number)) if Arc::ptr_eq(known, owner) => number,
        _ => {
            let number = *numbers.entry(&**owner).or_insert_with(|| {
                owners.push(&**owner);
                owners.len() as u64 - 1
            });
            last = Some((owner, number));
            number
        }
    };
    let owner_of: Vec<Option<u64>> = entries
        .iter()
        .map(|entry| entry.extra.as_ref().and_then(|extra| extra.owner.as_ref()).map(&mut number))
        .collect();
    e.array(2)?.array(owners.len() as u64)?;
    for Owner { user, group, user_name, group_name } in owners {
        e.array(4)?.u32(*user)?.u32(*group)?;
        optional(e, user_name.as_deref())?;
        optional(e, group_name.as_deref())?;
    }
    let carrying =
        || entries.iter().enumerate().filter_map(|(at, entry)| Some((at, entry.extra.as_deref()?)));
    e.array(carrying().count() as u64)?;
    for (at, Extra { same_as, xattrs, content, changed, .. }) in carrying() {
        e.array(5 + u64::from(changed.is_some()))?.u64(at as u64)?;
        match owner_of[at] {
            Some(number) => e.u64(number)?,
            None => e.null()?,
        };
        optional(e, same_as.as_ref().map(EntryPath::as_bytes))?;
        e.array(xattrs.len() as u64)?;
        for Xattr { name, value } in xattrs {
            e.array(2)?.bytes(name)?.bytes(value)?;
        }
        optional(e, content.as_ref().map(|content| &content.0[..]))?;
        if let Some(Changed { at: Mtime { seconds, nanos }, .. }) = changed {
            e.array(2)?.i64(*seconds)?.u32(*nanos)?;
        }
    }
    Ok(())
}

/// Reads what [`encode`] wrote into `entries`.
pub(crate) fn decode(d: &mut Decoder<'_>, entries: &mut [Entry]) -> Result<(), Error> {
    array_of(d, 2)?;
    let mut owners = Vec::new();
    for _ in 0..length(d, MAX_BATCH_ENTRIES)? {
        array_of(d, 4)?;
        let (user, group) = (d.u32()?, d.u32()?);
        let (user_name, group_name) = (bytes_or_null(d, MAX_NAME)?, bytes_or_null(d, MAX_NAME)?);
        let [user_name, group_name] = [user_name, group_name].map(|name| name.map(Box::from));
        owners.push(Arc::new(Owner { user, group, user_name, group_name }));
    }
    let mut next = 0;
    for _ in 0..length(d, entries.len())? {
        let fields = d.array()?.filter(|fields| (5..=6).contains(fields)).ok_or_else(invalid)?;
        let at = usize::try_from(d.u64()?).unwrap_or(usize::MAX);
        let entry = entries.get_mut(at).filter(|_| at >= next).ok_or_else(invalid)?;
        next = at + 1;
        let mut extra = decode_one(d, &owners)?;
        if fields == 6 {
            array_of(d, 2)?;
            let at = Mtime { seconds: d.i64()?, nanos: d.u32()? };
            extra.changed = Some(Changed { at, file: None });
        }
        extra.check().map_err(|error| Error::message(error.to_string()))?;
        if extra.same_as.is_some() && entry.file_size().is_none_or(|size| size.0 > 0) {
            return Err(Error::message("another name of a file has no bytes of its own"));
        }
        entry.extra = extra.into_option();
    }
    Ok(())
}

fn decode_one(d: &mut Decoder<'_>, owners: &[Arc<Owner>]) -> Result<Extra, Error> {
    let owner = match d.datatype()? {
        Type::Null => {
            d.null()?;
            None
        }
        _ => Some(Arc::clone(owners.get(d.u16()? as usize).ok_or_else(invalid)?)),
    };
    let same_as = bytes_or_null(d, terahaul_core::MAX_PATH)?.map(EntryPath::new).transpose();
    let same_as = same_as.map_err(|error| Error::message(error.to_string()))?;
    let mut xattrs = Vec::new();
    let mut left = MAX_XATTR_BYTES;
    for _ in 0..length(d, MAX_XATTRS)? {
        array_of(d, 2)?;
        let (name, value) = (d.bytes()?, d.bytes()?);
        left = left.checked_sub(name.len() + value.len()).ok_or_else(invalid)?;
        xattrs.push(Xattr { name: name.into(), value: value.into() });
    }
    let content = match bytes_or_null(d, 32)? {
        Some(bytes) => Some(Hash(bytes.try_into().map_err(|_| invalid())?)),
        None => None,
    };
    Ok(Extra { owner, same_as, xattrs, content, changed: None })
}

fn optional<W: Write>(e: &mut Encoder<W>, bytes: Option<&[u8]>) -> Encoded<W> {
    match bytes {
        Some(bytes) => e.bytes(bytes)?,
        None => e.null()?,
    };
    Ok(())
}

fn bytes_or_null<'b>(d: &mut Decoder<'b>, most: usize) -> Result<Option<&'b [u8]>, Error> {
    if d.datatype()? == Type::Null {
        d.null()?;
        return Ok(None);
    }
    let bytes = d.bytes()?;
    if bytes.len() <= most { Ok(Some(bytes)) } else { Err(invalid()) }
}

fn array_of(d: &mut Decoder<'_>, len: u64) -> Result<(), Error> {
    if d.array()? == Some(len) { Ok(()) } else { Err(invalid()) }
}

/// An array's length, refused before anything is allocated for it.
fn length(d: &mut Decoder<'_>, most: usize) -> Result<u64, Error> {
    d.array()?.filter(|len| *len <= most as u64).ok_or_else(invalid)
}

fn invalid() -> Error {
    Error::message("what an entry carries does not fit the grammar")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Batch, Control, encode_message};
    use proptest::prelude::*;
    use terahaul_core::{ByteCount, EntryIndex, EntryKind, Mtime};

    fn owner() -> impl Strategy<Value = Arc<Owner>> {
        let name = || proptest::option::of(proptest::collection::vec(1u8..=255, 1..9).prop_map(Box::from));
        (0u32..3, 0u32..3, name(), name()).prop_map(|(user, group, user_name, group_name)| {
            Arc::new(Owner { user, group, user_name, group_name })
        })
    }

    fn extra() -> impl Strategy<Value = Option<Box<Extra>>> {
        let path = "[a-z]{1,3}(/[a-z]{1,3})?".prop_map(|path| EntryPath::new(path.into_bytes()).unwrap());
        let value = proptest::collection::vec(any::<u8>(), 0..20);
        let xattrs = proptest::collection::btree_map("user\\.[a-z]{1,3}", value, 0..4);
        let content = proptest::option::of(any::<[u8; 32]>().prop_map(Hash));
        let changed = proptest::option::of((any::<i64>(), any::<u32>()));
        let at = |(seconds, nanos)| Changed { at: Mtime { seconds, nanos }, file: None };
        let changed = changed.prop_map(move |changed| changed.map(at));
        (proptest::option::of(owner()), proptest::option::of(path), xattrs, content, changed).prop_map(
            |(owner, same_as, xattrs, content, changed)| {
                let xattr = |(name, value): (String, Vec<u8>)| Xattr {
                    name: name.into_bytes().into(),
                    value: value.into(),
                };
                let xattrs = xattrs.into_iter().map(xattr).collect();
                Extra { owner, same_as, xattrs, content, changed }.into_option()
            },
        )
    }

    fn entry(extra: Option<Box<Extra>>) -> Entry {
        Entry {
            path: EntryPath::new(&b"a/b"[..]).unwrap(),
            kind: EntryKind::File { size: ByteCount(0) },
            mtime: Mtime::default(),
            mode: 0o644,
            extra,
        }
    }

    proptest! {
        #[test]
        fn what_entries_carry_reads_back(extras in proptest::collection::vec(extra(), 0..20)) {
            let entries: Vec<_> = extras.into_iter().map(entry).collect();
            let batch = Batch { first: EntryIndex(3), entries, seal: true };
            let bytes = encode_message(&batch);
            prop_assert_eq!(Batch::decode_from(&bytes[4..]).unwrap(), batch);
        }

        #[test]
        fn damage_is_an_error_or_fits_the_limits(
            extras in proptest::collection::vec(extra(), 1..6),
            damage in proptest::collection::vec((any::<usize>(), any::<u8>()), 1..4),
        ) {
            let batch = Batch { first: EntryIndex(3), entries: extras.into_iter().map(entry).collect(), seal: true };
            let mut bytes = encode_message(&batch);
            bytes.drain(..4);
            for (at, to) in damage {
                let at = at % bytes.len();
                bytes[at] = to;
            }
            if let Ok(batch) = Batch::decode_from(&bytes) {
                for extra in batch.entries.iter().filter_map(|entry| entry.extra.as_ref()) {
                    prop_assert_eq!(extra.check(), Ok(()));
                }
            }
        }
    }

    #[test]
    fn a_batch_without_extras_is_what_it_was_before_there_were_any() {
        let bytes = encode_message(&Batch { first: EntryIndex(0), entries: vec![entry(None)], seal: false });
        assert_eq!(bytes[4], 0x83, "three fields");
        assert_eq!(bytes[7..9], [0x81, 0x87], "one entry of seven fields");
    }

    #[test]
    fn another_name_of_a_file_has_no_bytes_of_its_own() {
        let extra = Extra { same_as: EntryPath::new(&b"a"[..]).ok(), ..Extra::default() };
        let mut linked = entry(extra.into_option());
        linked.kind = EntryKind::File { size: ByteCount(1) };
        let bytes = encode_message(&Batch { first: EntryIndex(0), entries: vec![linked], seal: false });
        assert!(Batch::decode_from(&bytes[4..]).is_err());
    }
}
