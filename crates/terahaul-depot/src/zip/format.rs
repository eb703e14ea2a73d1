//! The records of a ZIP file (APPNOTE 6.3). Lengths depend on nothing that is not known beforehand.

use terahaul_core::{BLOCK_SIZE, Date, Entry, EntryKind, Mtime};

/// Sizes and offsets from here on are written in ZIP64 extra fields.
const LIMIT: u64 = 0xFFFF_FFFF;
/// Counts from here on, too.
const COUNT_LIMIT: u64 = 0xFFFF;

const STORED: u16 = 0;
const CRC_BEHIND: u16 = 1 << 3;
const UTF8: u16 = 1 << 11;
const ZIP64_VERSION: u16 = 45;
const PLAIN_VERSION: u16 = 20;
/// Attributes are Unix modes.
const MADE_BY_UNIX: u16 = 3 << 8 | ZIP64_VERSION;

/// An entry as a ZIP file has it.
pub(super) struct Item<'a> {
    entry: &'a Entry,
    name: Vec<u8>,
    /// Bytes of data: a file's content, or a link's text.
    pub size: u64,
}

impl<'a> Item<'a> {
    pub fn new(entry: &'a Entry) -> Self {
        let mut name = utf8_name(entry.path.as_bytes());
        let size = match &entry.kind {
            EntryKind::File { size } => size.0,
            EntryKind::Symlink { target } => target.len() as u64,
            EntryKind::Directory => {
                name.push(b'/');
                0
            }
        };
        Self { entry, name, size }
    }

    /// Whether the checksum comes behind the data.
    pub fn has_descriptor(&self) -> bool {
        matches!(self.entry.kind, EntryKind::File { size } if size.0 >= BLOCK_SIZE)
    }

    /// Bytes before the data.
    pub fn local_len(&self) -> u64 {
        30 + self.name.len() as u64 + self.local_extra().len() as u64
    }

    /// Bytes behind the data.
    pub fn descriptor_len(&self) -> u64 {
        match (self.has_descriptor(), self.size >= LIMIT) {
            (false, _) => 0,
            (true, false) => 16,
            (true, true) => 24,
        }
    }

    /// Bytes in the central directory when the local header is at `offset`.
    pub fn central_len(&self, offset: u64) -> u64 {
        46 + self.name.len() as u64 + self.central_extra(offset).len() as u64
    }

    fn flags(&self) -> u16 {
        UTF8 | if self.has_descriptor() { CRC_BEHIND } else { 0 }
    }

    fn version(&self, offset: u64) -> u16 {
        if self.size >= LIMIT || offset >= LIMIT { ZIP64_VERSION } else { PLAIN_VERSION }
    }

    /// The local header; `crc` counts only where it comes in front.
    pub fn local_header(&self, crc: u32) -> Vec<u8> {
        let extra = self.local_extra();
        let size = self.size.min(LIMIT) as u32;
        let mut out = Vec::with_capacity(30 + self.name.len() + extra.len());
        out.extend_from_slice(b"PK\x03\x04");
        put16(&mut out, self.version(0));
        self.put_common(&mut out);
        put32(&mut out, if self.has_descriptor() { 0 } else { crc });
        put32(&mut out, size);
        put32(&mut out, size);
        put16(&mut out, self.name.len() as u16);
        put16(&mut out, extra.len() as u16);
        out.extend_from_slice(&self.name);
        out.extend_from_slice(&extra);
        out
    }

    /// What comes behind the data of an item with a descriptor.
    pub fn descriptor(&self, crc: u32) -> Vec<u8> {
        let mut out = b"PK\x07\x08".to_vec();
        put32(&mut out, crc);
        for _ in 0..2 {
            if self.size >= LIMIT {
                out.extend_from_slice(&self.size.to_le_bytes());
            } else {
                put32(&mut out, self.size as u32);
            }
        }
        out
    }

    /// The item's record in the central directory.
    pub fn central_header(&self, crc: u32, offset: u64) -> Vec<u8> {
        let extra = self.central_extra(offset);
        let size = self.size.min(LIMIT) as u32;
        let mut out = Vec::with_capacity(46 + self.name.len() + extra.len());
        out.extend_from_slice(b"PK\x01\x02");
        put16(&mut out, MADE_BY_UNIX);
        put16(&mut out, self.version(offset));
        self.put_common(&mut out);
        put32(&mut out, crc);
        put32(&mut out, size);
        put32(&mut out, size);
        put16(&mut out, self.name.len() as u16);
        put16(&mut out, extra.len() as u16);
        // No comment, first disk, no internal attributes.
        out.extend_from_slice(&[0; 6]);
        put32(&mut out, self.attributes());
        put32(&mut out, offset.min(LIMIT) as u32);
        out.extend_from_slice(&self.name);
        out.extend_from_slice(&extra);
        out
    }

    fn put_common(&self, out: &mut Vec<u8>) {
        put16(out, self.flags());
        put16(out, STORED);
        let (time, date) = dos_time(self.entry.mtime);
        put16(out, time);
        put16(out, date);
    }

    fn attributes(&self) -> u32 {
        let (kind, dos) = match self.entry.kind {
            EntryKind::File { .. } => (0o100_000, 0),
            EntryKind::Directory => (0o040_000, 0x10),
            EntryKind::Symlink { .. } => (0o120_000, 0),
        };
        (kind | self.entry.mode) << 16 | dos
    }

    fn local_extra(&self) -> Vec<u8> {
        let mut out = Vec::new();
        if self.size >= LIMIT {
            put16(&mut out, 1);
            put16(&mut out, 16);
            out.extend_from_slice(&self.size.to_le_bytes());
            out.extend_from_slice(&self.size.to_le_bytes());
        }
        self.put_time(&mut out);
        out
    }

    fn central_extra(&self, offset: u64) -> Vec<u8> {
        let mut large = Vec::new();
        if self.size >= LIMIT {
            large.extend_from_slice(&self.size.to_le_bytes());
            large.extend_from_slice(&self.size.to_le_bytes());
        }
        if offset >= LIMIT {
            large.extend_from_slice(&offset.to_le_bytes());
        }
        let mut out = Vec::new();
        if !large.is_empty() {
            put16(&mut out, 1);
            put16(&mut out, large.len() as u16);
            out.extend_from_slice(&large);
        }
        self.put_time(&mut out);
        out
    }

    /// The exact time, where 32 bits hold it: DOS time is local, and in steps of two seconds.
    fn put_time(&self, out: &mut Vec<u8>) {
        if let Ok(seconds) = i32::try_from(self.entry.mtime.seconds) {
            out.extend_from_slice(b"UT");
            put16(out, 5);
            out.push(1);
            out.extend_from_slice(&seconds.to_le_bytes());
        }
    }
}

/// A path as UTF-8, which every program reads alike. In a name that has them, bytes that are not UTF-8 become `%FF`, control characters,
/// which `unzip` leaves out, `%0A`, a backslash, which some take for a separator, `%5C`, a semicolon before what could be a version's number,
/// which `unzip` leaves out with it, `%3B`, the colon of what could be a drive's letter at the beginning of a path, which `bsdtar` leaves out,
/// `%3A`, and `%` becomes `%25`; so it does in a name that looks as if this had been done to it. Two names
/// never become the same, and a folder has one name in all of its files' paths.
fn utf8_name(path: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(path.len());
    for (at, name) in path.split(|byte| *byte == b'/').enumerate() {
        if at > 0 {
            out.push(b'/');
        }
        let (named, version) = name.split_at(version_at(name).unwrap_or(name.len()));
        let drive = if at == 0 { drive_of(named) } else { None };
        let is_plain = std::str::from_utf8(named).is_ok() && !named.iter().any(is_read_otherwise);
        if is_plain && version.is_empty() && drive.is_none() && !looks_escaped(name) {
            out.extend_from_slice(name);
            continue;
        }
        let named = match drive {
            Some((letter, rest)) => {
                out.push(letter);
                escape(b':', &mut out);
                rest
            }
            None => named,
        };
        for chunk in named.utf8_chunks() {
            for byte in chunk.valid().as_bytes() {
                match *byte == b'%' || is_read_otherwise(byte) {
                    true => escape(*byte, &mut out),
                    false => out.push(*byte),
                }
            }
            chunk.invalid().iter().for_each(|byte| escape(*byte, &mut out));
        }
        if let Some((semicolon, digits)) = version.split_first() {
            escape(*semicolon, &mut out);
            out.extend_from_slice(digits);
        }
    }
    out
}

/// The letter of what could be a drive, and what follows its colon.
fn drive_of(name: &[u8]) -> Option<(u8, &[u8])> {
    match name {
        [letter, b':', rest @ ..] if letter.is_ascii_alphabetic() => Some((*letter, rest)),
        _ => None,
    }
}

/// Where a name ends in a semicolon and digits, or in a semicolon, as names of OpenVMS and of ISO 9660 do.
fn version_at(name: &[u8]) -> Option<usize> {
    let semicolon = name.iter().rposition(|byte| !byte.is_ascii_digit())?;
    (name[semicolon] == b';').then_some(semicolon)
}

/// Whether some program takes this byte of a name for something else, or for nothing.
fn is_read_otherwise(byte: &u8) -> bool {
    *byte == b'\\' || byte.is_ascii_control()
}

fn escape(byte: u8, out: &mut Vec<u8>) {
    out.extend_from_slice(format!("%{byte:02X}").as_bytes());
}

fn looks_escaped(name: &[u8]) -> bool {
    name.windows(3).any(|at| at[0] == b'%' && at[1].is_ascii_hexdigit() && at[2].is_ascii_hexdigit())
}

/// Bytes after the central directory.
pub(super) fn end_len(entries: u64, size: u64, offset: u64) -> u64 {
    end(entries, size, offset).len() as u64
}

/// What comes after a central directory of `entries` records and `size` bytes at `offset`.
pub(super) fn end(entries: u64, size: u64, offset: u64) -> Vec<u8> {
    let mut out = Vec::new();
    if entries >= COUNT_LIMIT || size >= LIMIT || offset >= LIMIT {
        out.extend_from_slice(b"PK\x06\x06");
        out.extend_from_slice(&44u64.to_le_bytes());
        put16(&mut out, MADE_BY_UNIX);
        put16(&mut out, ZIP64_VERSION);
        out.extend_from_slice(&[0; 8]);
        for number in [entries, entries, size, offset] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(b"PK\x06\x07");
        put32(&mut out, 0);
        out.extend_from_slice(&(offset + size).to_le_bytes());
        put32(&mut out, 1);
    }
    out.extend_from_slice(b"PK\x05\x06");
    out.extend_from_slice(&[0; 4]);
    put16(&mut out, entries.min(COUNT_LIMIT) as u16);
    put16(&mut out, entries.min(COUNT_LIMIT) as u16);
    put32(&mut out, size.min(LIMIT) as u32);
    put32(&mut out, offset.min(LIMIT) as u32);
    put16(&mut out, 0);
    out
}

fn put16(out: &mut Vec<u8>, number: u16) {
    out.extend_from_slice(&number.to_le_bytes());
}

fn put32(out: &mut Vec<u8>, number: u32) {
    out.extend_from_slice(&number.to_le_bytes());
}

/// A time as DOS has it, in UTC, between 1980 and 2107.
fn dos_time(mtime: Mtime) -> (u16, u16) {
    let Date { year, month, day } = Date::of_unix(mtime.seconds);
    let second = mtime.seconds.rem_euclid(86_400);
    match year {
        ..1980 => (0, 1 << 5 | 1),
        1980..=2107 => {
            let time = ((second / 3600) << 11) | ((second / 60 % 60) << 5) | (second % 60 / 2);
            let date = ((year - 1980) << 9) | (i64::from(month) << 5) | i64::from(day);
            (time as u16, date as u16)
        }
        _ => (0xBF7D, 0xFF9F),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use terahaul_core::{ByteCount, EntryPath};

    #[test]
    fn a_time_that_dos_cannot_have_is_the_nearest_that_it_can() {
        let dos = |seconds| dos_time(Mtime { seconds, nanos: 0 });
        let date = |years: u16, month: u16, day: u16| years << 9 | month << 5 | day;
        assert_eq!(dos(1_795_291_200 + 3_661), (21 << 11 | 1 << 5, date(46, 11, 21)));
        // The first moments of 1980, and the last of 2107.
        let (first, last) = (315_532_800, 4_354_819_199);
        let end = 23 << 11 | 59 << 5 | 29;
        assert_eq!((dos(first), dos(last)), ((0, date(0, 1, 1)), (end, date(127, 12, 31))));
        assert_eq!((dos(first - 1), dos(i64::MIN)), (dos(first), dos(first)));
        assert_eq!((dos(last + 1), dos(i64::MAX)), (dos(last), dos(last)));
    }

    #[test]
    fn names_that_not_every_program_reads_alike_stay_apart() {
        assert_eq!(utf8_name(b"100%"), b"100%");
        assert_eq!(utf8_name(b"z:/b:;1"), b"z%3A/b:%3B1", "bsdtar makes b of z:/b");
        assert_eq!(utf8_name(b"C:%/1:b"), b"C%3A%25/1:b");
        assert_eq!(utf8_name(b"1:b/c:d"), b"1:b/c:d", "that is no drive");
        assert_eq!(utf8_name(b"a\nb/\x7f\x01%"), b"a%0Ab/%7F%01%25", "unzip makes ab of it");
        assert_eq!(utf8_name(br"..\x%"), b"..%5Cx%25");
        assert_eq!(utf8_name(b"a%\xff/\xfe\xc3\xa4"), "a%25%FF/%FE\u{e4}".as_bytes());
        assert_eq!(utf8_name(b"d%/a\xff"), b"d%/a%FF", "d% is d% in every path");
        assert_eq!(utf8_name(b"a;1/b;/c;d;23%"), b"a%3B1/b%3B/c;d;23%", "unzip makes a of a;1");
        assert_eq!(utf8_name(b"a;%;2/;/7"), b"a;%25%3B2/%3B/7");
    }

    #[test]
    fn different_names_never_become_the_same() {
        let parts: [&[u8]; 11] = [b"a", b"%", b"F", b"2", b"5", b"c", b"\\", b"\xff", b"/", b";", b"3B"];
        let mut made = std::collections::HashMap::new();
        // Every name of five of these.
        for number in 0..11u32.pow(5) {
            let digits = (0..5).map(|at| (number / 11u32.pow(at) % 11) as usize);
            let name: Vec<u8> = digits.flat_map(|digit| parts[digit].iter().copied()).collect();
            if let Some(other) = made.insert(utf8_name(&name), name.clone()) {
                panic!("{name:?} and {other:?} have the same name");
            }
        }
    }

    #[test]
    fn records_are_as_long_as_announced() {
        for size in [0, 5, BLOCK_SIZE, LIMIT - 1, LIMIT, 1 << 40] {
            for seconds in [0, i64::MAX, i64::MIN, 1_700_000_000] {
                let entry = Entry {
                    path: EntryPath::new(&b"a/\xffb"[..]).unwrap(),
                    kind: EntryKind::File { size: ByteCount(size) },
                    mtime: Mtime { seconds, nanos: 0 },
                    mode: 0o644,
                    extra: None,
                };
                let item = Item::new(&entry);
                assert_eq!(item.local_header(7).len() as u64, item.local_len());
                if item.has_descriptor() {
                    assert_eq!(item.descriptor(7).len() as u64, item.descriptor_len());
                }
                for offset in [0, LIMIT - 1, LIMIT, 1 << 50] {
                    assert_eq!(item.central_header(7, offset).len() as u64, item.central_len(offset));
                }
            }
        }
    }
}
