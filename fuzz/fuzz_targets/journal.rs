//! The journal of a receiving folder: a torn, altered or made-up file is never believed beyond its sound records.
#![no_main]

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::OnceLock;

use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use terahaul_core::{Hash, TransferId};
use terahaul_tree::TreeSink;

#[derive(Arbitrary, Debug)]
struct Input {
    /// Block number, hashes in its proof, of which none says that the block is not kept any more, and what the check value is changed by.
    records: Vec<(u32, u8, u8)>,
    /// The file ends so many bytes early.
    torn: u8,
    tail: Vec<u8>,
    /// Instead of a header, what the fuzzer likes.
    header: Option<Vec<u8>>,
}

const TRANSFER: TransferId = TransferId([5; 16]);
const BOUND_TO: Hash = Hash([1; 32]);

fn folder() -> &'static PathBuf {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = terahaul_fuzz::folder().keep();
        drop(TreeSink::open(&folder, TRANSFER, BOUND_TO).expect("a new folder is taken"));
        folder
    })
}

fuzz_target!(|input: Input| {
    let mut header = b"terahaul block 1".to_vec();
    header.extend_from_slice(&TRANSFER.0);
    header.extend_from_slice(&BOUND_TO.0);
    let seed = *blake3::hash(&header).as_bytes();
    let own_header = input.header.is_none();
    let mut bytes = input.header.unwrap_or(header);
    let (mut sound, mut intact) = (Vec::new(), own_header);
    for (block, hashes, damage) in input.records {
        let start = bytes.len();
        let len = u32::from(hashes) * 32;
        bytes.extend_from_slice(&block.to_le_bytes());
        bytes.extend_from_slice(&len.to_le_bytes());
        bytes.resize(bytes.len() + len as usize, hashes);
        let check = blake3::keyed_hash(&seed, &bytes[start..]);
        bytes.extend_from_slice(&check.as_bytes()[..8]);
        if let Some(last) = bytes.last_mut() {
            *last ^= damage;
        }
        intact &= damage == 0;
        if intact {
            sound.push((block, hashes > 0, bytes.len()));
        }
    }
    bytes.truncate(bytes.len() - bytes.len().min(usize::from(input.torn)));
    let whole = bytes.len();
    bytes.extend_from_slice(&input.tail);

    let journal = folder().join(format!(".terahaul-{TRANSFER}/journal"));
    std::fs::write(&journal, &bytes).expect("the folder is ours");
    let Ok((_, journal)) = TreeSink::open(folder(), TRANSFER, BOUND_TO) else { return };
    let believed = journal.blocks();
    // The tail might complete a torn record with the bytes that were cut off; beyond that it cannot forge any.
    let (mut kept, mut possible) = (BTreeSet::new(), BTreeSet::new());
    for (block, is_kept, end) in sound {
        match (is_kept, end <= whole) {
            (true, true) => drop(kept.insert(block)),
            (false, _) => drop(kept.remove(&block)),
            (true, false) => {}
        }
        possible.extend(is_kept.then_some(block));
    }
    let has = |block: &u32| believed.contains(terahaul_core::BlockNumber(*block));
    assert!(kept.iter().all(has), "a sound record is lost");
    let believed = believed.runs().flat_map(terahaul_core::BlockRun::blocks);
    assert!(!own_header || believed.into_iter().all(|block| possible.contains(&block.0)));
});
