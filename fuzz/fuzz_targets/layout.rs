//! The layout: any manifest is placed or refused; no two bytes share an address; blocks cover exactly the files.
#![no_main]

use libfuzzer_sys::fuzz_target;
use terahaul_core::{Address, BLOCK_SIZE, BlockNumber, ByteCount, EntryIndex, Layout};

/// Blocks that one input may declare: more would only repeat.
const MANY: u64 = 4096;

fuzz_target!(|entries: Vec<(u8, u64)>| {
    let mut layout = Layout::new();
    let mut placed = Vec::new();
    for (how, size) in entries {
        let size = match how % 6 {
            0 => None,
            1 => Some(0),
            2 => Some(size % 5000),
            3 => Some(size % BLOCK_SIZE),
            4 => Some(size % (16 * BLOCK_SIZE)),
            _ => Some(size),
        };
        let before = (layout.entry_count(), layout.block_count());
        match layout.append(size.map(ByteCount)) {
            Ok(extent) => placed.push(extent),
            Err(_) => assert_eq!((layout.entry_count(), layout.block_count()), before),
        }
        if how & 0x80 != 0 {
            layout.seal();
        }
    }
    layout.seal();
    let mut end = Address(0);
    for (index, extent) in placed.iter().enumerate() {
        assert_eq!(layout.extent(EntryIndex(index as u32)), *extent);
        let Some(extent) = extent else { continue };
        assert!(extent.size.0 > 0 && extent.address.0 + extent.size.0 <= layout.end().0);
        end = end.max(extent.address);
    }
    if layout.block_count() > MANY {
        return;
    }
    let mut covered = 0;
    for block in 0..layout.block_count() as u32 {
        let shape = layout.shape(BlockNumber(block)).expect("a sealed layout has no open block");
        assert!(shape.len >= 1 && u64::from(shape.len) <= BLOCK_SIZE);
        covered += u64::from(shape.len);
    }
    assert_eq!(covered, layout.byte_count().0);
});
