//! The journal of a copy's staging folder: a torn, altered or made-up file is never believed beyond its sound frames.
#![no_main]

use std::path::PathBuf;
use std::sync::OnceLock;

use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use terahaul_core::{ByteCount, Entry, EntryKind, EntryPath, Mtime, TransferId};
use terahaul_tree::{Keep, Pieces, TreeSink};

#[derive(Arbitrary, Debug)]
struct Input {
    /// Which file is whole, and what the check value is changed by.
    frames: Vec<(u8, u8)>,
    /// The file ends so many bytes early.
    torn: u8,
    tail: Vec<u8>,
    /// Instead of sound frames, records with a right check value that nobody wrote.
    forged: Option<Vec<u8>>,
}

const COPY: TransferId = TransferId([5; 16]);

fn folder() -> &'static PathBuf {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = terahaul_fuzz::folder().keep();
        drop(TreeSink::open_copy(&folder, None, COPY, Keep::default()).expect("a new folder is taken"));
        folder
    })
}

fn file(number: u8) -> Entry {
    Entry {
        path: EntryPath::new(format!("file {number}").as_bytes()).expect("a good path"),
        kind: EntryKind::File { size: ByteCount(3) },
        mtime: Mtime { seconds: 1, nanos: 2 },
        mode: 0o644,
        extra: None,
    }
}

/// A frame that says this file is whole.
fn whole(entry: &Entry) -> Vec<u8> {
    let mut identity = blake3::Hasher::new();
    identity.update(&3u64.to_le_bytes()).update(&1i64.to_le_bytes()).update(&2u32.to_le_bytes());
    let path = blake3::hash(entry.path.as_bytes());
    [&[0][..], &path.as_bytes()[..16], &identity.finalize().as_bytes()[..8]].concat()
}

fn frame(records: &[u8], damage: u8) -> Vec<u8> {
    let mut check = *blake3::hash(records).as_bytes();
    check[0] ^= damage;
    [&(records.len() as u32).to_le_bytes()[..], records, &check[..8]].concat()
}

fuzz_target!(|input: Input| {
    let mut bytes = b"terahaul files 1".to_vec();
    let forged = input.forged.is_some();
    if let Some(records) = &input.forged {
        bytes.extend(frame(records, 0));
    }
    let (mut sound, mut intact) = (Vec::new(), !forged);
    for (number, damage) in input.frames {
        bytes.extend(frame(&whole(&file(number)), damage));
        intact &= damage == 0;
        if intact {
            sound.push((number, bytes.len()));
        }
    }
    bytes.truncate(bytes.len() - bytes.len().min(usize::from(input.torn)));
    let left = bytes.len();
    bytes.extend_from_slice(&input.tail);

    let path = folder().join(format!(".terahaul-{COPY}/journal"));
    std::fs::write(&path, &bytes).expect("the folder is ours");
    let Ok((_, journal)) = TreeSink::open_copy(folder(), None, COPY, Keep::default()) else { return };
    for number in 0..=u8::MAX {
        let believed = journal.pieces(&file(number)) == Some(Pieces::Whole);
        let is_sound = |(sound, end): &(u8, usize)| *sound == number && *end <= left;
        assert!(believed || !sound.iter().any(is_sound), "a sound record is lost");
        // The tail might complete a torn record with the bytes that were cut off; beyond that it cannot forge any.
        assert!(forged || !believed || sound.iter().any(|(sound, _)| *sound == number), "a record is made up");
    }
});
