//! Where each entry lies in the transfer's flat address space.
//!
//! The layout is a pure function of the manifest, so addresses never travel: both ends append the same entries and
//! get the same answer. A file of a block or more starts on a block of its own; smaller files are packed, end to
//! end and never across a block's edge, into the *open* block. A packed block is *sealed*, and may be sent, when
//! the next small file does not fit or when the manifest is sealed.

use std::collections::BTreeMap;

use crate::{Address, BLOCK_SIZE, BlockNumber, BlockRun, ByteCount, EntryIndex};

/// Most files packed into one block, which bounds what describing a block costs.
pub const MAX_FILES_IN_BLOCK: usize = 4096;

/// Where one file's bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The first byte's address.
    pub address: Address,
    /// How many bytes follow.
    pub size: ByteCount,
}

/// A file inside a packed block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackedFile {
    /// Which entry.
    pub entry: EntryIndex,
    /// Bytes from the block's start.
    pub offset: u32,
    /// The file's whole length, at least 1.
    pub len: u32,
}

/// What a block holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BlockContent {
    /// A piece of one file of [`BLOCK_SIZE`] or more.
    Piece {
        /// Which entry.
        entry: EntryIndex,
        /// Where the piece starts in the file, a multiple of [`BLOCK_SIZE`].
        offset: u64,
        /// The whole file's size.
        file_size: ByteCount,
    },
    /// Whole small files, end to end from the block's start.
    Packed {
        /// Which, and where.
        files: Vec<PackedFile>,
        /// What the block's value is made of.
        value: PackedValue,
    },
}

/// What a packed block's value is made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PackedValue {
    /// The hash of each of its files, which a receipt names.
    #[default]
    Files,
    /// Its bytes from end to end. BLAKE3 takes eight chunks or more at a time: of source code this costs three quarters of hashing
    /// files, of files of a kilobyte a third.
    Bytes,
}

/// A block's position, length and content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockShape {
    /// Its number.
    pub number: BlockNumber,
    /// Bytes in use from the block's start, 1 to [`BLOCK_SIZE`].
    pub len: u32,
    /// What they are.
    pub content: BlockContent,
}

/// Why an entry has no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// The address space (2³² blocks, 16 PiB) is used up.
    #[error("the transfer is larger than 16 PiB: split it into several")]
    TooLarge,
    /// More than 2³² entries.
    #[error("the transfer has too many entries: split it into several")]
    TooManyEntries,
}

#[derive(Clone, Copy, Debug)]
struct Small {
    entry: EntryIndex,
    len: u32,
}

#[derive(Clone, Copy, Debug)]
enum Use {
    File {
        size: ByteCount,
    },
    /// `first` and the count index `smalls`; `used` bytes are taken.
    Packed {
        first: u32,
        count: u32,
        used: u32,
    },
}

/// A run of blocks with one use. Regions are in order of both `block` and `entry`.
#[derive(Clone, Copy, Debug)]
struct Region {
    block: BlockNumber,
    /// The entry that opened the region.
    entry: EntryIndex,
    used_for: Use,
}

/// Maps entries to addresses and blocks to content. About 8 bytes a small file, 32 a large one.
#[derive(Clone, Debug, Default)]
pub struct Layout {
    regions: Vec<Region>,
    smalls: Vec<Small>,
    /// Indices in `regions` of the packed blocks, in order.
    packed: Vec<usize>,
    /// Index in `regions` of the packed block that still takes files.
    open: Option<usize>,
    blocks: u64,
    entries: u64,
    bytes: ByteCount,
    packed_value: PackedValue,
}

impl Layout {
    /// An empty address space.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same, with packed blocks of such values.
    pub fn valuing(packed_value: PackedValue) -> Self {
        Self { packed_value, ..Self::default() }
    }

    /// Places the next entry: `size` is `Some` for a regular file. Returns its extent if it has bytes.
    pub fn append(&mut self, size: Option<ByteCount>) -> Result<Option<Extent>, LayoutError> {
        let entry = u32::try_from(self.entries).map(EntryIndex).map_err(|_| LayoutError::TooManyEntries)?;
        let placed = match size {
            None | Some(ByteCount(0)) => None,
            Some(size) if size.0 < BLOCK_SIZE => Some(self.append_small(entry, size.0 as u32)?),
            Some(size) => Some(self.append_large(entry, size)?),
        };
        self.entries += 1;
        self.bytes += size.unwrap_or_default();
        Ok(placed)
    }

    fn append_large(&mut self, entry: EntryIndex, size: ByteCount) -> Result<Extent, LayoutError> {
        let block = self.take_blocks(size.0.div_ceil(BLOCK_SIZE))?;
        self.regions.push(Region { block, entry, used_for: Use::File { size } });
        Ok(Extent { address: block.address(), size })
    }

    fn append_small(&mut self, entry: EntryIndex, len: u32) -> Result<Extent, LayoutError> {
        let size = ByteCount(u64::from(len));
        if let Some(region) = self.open.map(|open| &mut self.regions[open])
            && let Use::Packed { count, used, .. } = &mut region.used_for
            && has_room(*count, *used, len)
        {
            let address = region.block.address() + u64::from(*used);
            *used += len;
            *count += 1;
            self.smalls.push(Small { entry, len });
            return Ok(Extent { address, size });
        }
        let block = self.take_blocks(1)?;
        let first = self.smalls.len() as u32;
        self.smalls.push(Small { entry, len });
        self.open = Some(self.regions.len());
        self.packed.push(self.regions.len());
        self.regions.push(Region { block, entry, used_for: Use::Packed { first, count: 1, used: len } });
        Ok(Extent { address: block.address(), size })
    }

    /// How many packed blocks files of these sizes would open, appended in this order.
    pub fn packed_blocks_for(&self, sizes: impl IntoIterator<Item = ByteCount>) -> u64 {
        let mut open = self.open.and_then(|open| match self.regions[open].used_for {
            Use::Packed { count, used, .. } => Some((count, used)),
            Use::File { .. } => None,
        });
        let mut opened = 0;
        for size in sizes.into_iter().filter(|size| (1..BLOCK_SIZE).contains(&size.0)) {
            let len = size.0 as u32;
            open = match open {
                Some((count, used)) if has_room(count, used, len) => Some((count + 1, used + len)),
                _ => {
                    opened += 1;
                    Some((1, len))
                }
            };
        }
        opened
    }

    fn take_blocks(&mut self, count: u64) -> Result<BlockNumber, LayoutError> {
        let first = u32::try_from(self.blocks).map_err(|_| LayoutError::TooLarge)?;
        let end = self.blocks.checked_add(count).filter(|&end| end <= u64::from(u32::MAX));
        self.blocks = end.ok_or(LayoutError::TooLarge)?;
        Ok(BlockNumber(first))
    }

    /// Closes the open packed block: no later file joins it, so it may be sent.
    pub fn seal(&mut self) {
        self.open = None;
    }

    /// Number of blocks that entries reach into, the open one included.
    pub fn block_count(&self) -> u64 {
        self.blocks
    }

    /// Number of entries appended.
    pub fn entry_count(&self) -> u64 {
        self.entries
    }

    /// Sum of the files' sizes.
    pub fn byte_count(&self) -> ByteCount {
        self.bytes
    }

    /// The end of the address space: what a flat store must be able to hold.
    pub fn end(&self) -> Address {
        Address(self.blocks * BLOCK_SIZE)
    }

    /// The packed block that may still grow, if there is one.
    pub fn open_block(&self) -> Option<BlockNumber> {
        self.open.map(|open| self.regions[open].block)
    }

    /// Whether a small file could join those among the first `entries` when these were all: what came then has, or has room to. Where that is
    /// not so nothing shows whether the manifest was sealed there, and nothing depends on it.
    pub fn was_open_after(&self, entries: u64) -> bool {
        let before = self.packed.partition_point(|&at| u64::from(self.regions[at].entry.0) < entries);
        let Some(&last) = self.packed[..before].last() else { return false };
        let Use::Packed { first, count, used } = self.regions[last].used_for else { return false };
        let newest = self.smalls[(first + count - 1) as usize].entry;
        u64::from(newest.0) >= entries || self.open == Some(last) && has_room(count, used, 1)
    }

    /// What holds `block`, or `None` when it is not declared or still open.
    fn region_of_block(&self, block: BlockNumber) -> Option<&Region> {
        if u64::from(block.0) >= self.blocks || self.open_block() == Some(block) {
            return None;
        }
        self.regions[..self.regions.partition_point(|region| region.block <= block)].last()
    }

    /// What `block` holds, or `None` when it is not declared or still open. Of a packed block it lists the files: who wants
    /// only its length asks for [that](Self::len_of).
    pub fn shape(&self, block: BlockNumber) -> Option<BlockShape> {
        let region = self.region_of_block(block)?;
        let content = match region.used_for {
            Use::File { size } => {
                let offset = region.offset_of(block);
                BlockContent::Piece { entry: region.entry, offset, file_size: size }
            }
            Use::Packed { first, count, .. } => {
                let mut offset = 0;
                let files = self.smalls[first as usize..(first + count) as usize]
                    .iter()
                    .map(|small| {
                        let file = PackedFile { entry: small.entry, offset, len: small.len };
                        offset += small.len;
                        file
                    })
                    .collect();
                BlockContent::Packed { files, value: self.packed_value }
            }
        };
        Some(BlockShape { number: block, len: region.len_of(block), content })
    }

    /// Bytes in use of `block`, or `None` when it is not declared or still open.
    pub fn len_of(&self, block: BlockNumber) -> Option<u32> {
        self.region_of_block(block).map(|region| region.len_of(block))
    }

    /// The entry that has `block` for itself.
    pub fn own_entry(&self, block: BlockNumber) -> Option<EntryIndex> {
        let region = self.region_of_block(block)?;
        matches!(region.used_for, Use::File { .. }).then_some(region.entry)
    }

    /// Whether `block` is sealed and `holds` is true of every entry whose bytes are in it.
    pub fn is_all(&self, block: BlockNumber, holds: impl Fn(EntryIndex) -> bool) -> bool {
        self.region_of_block(block).is_some_and(|region| match region.used_for {
            Use::File { .. } => holds(region.entry),
            Use::Packed { first, count, .. } => {
                self.smalls[first as usize..(first + count) as usize].iter().all(|small| holds(small.entry))
            }
        })
    }

    /// The sealed blocks with bytes of `entries` of which `holds` is true of all that is in them, in order. A block of
    /// thousands of files is looked at once, however many of them are named.
    pub fn blocks_of_all(
        &self,
        entries: impl IntoIterator<Item = EntryIndex>,
        holds: impl Fn(EntryIndex) -> bool,
    ) -> Vec<BlockRun> {
        let places = entries.into_iter().filter_map(|entry| self.blocks_of(entry));
        let places: BTreeMap<BlockNumber, u32> = places.map(|run| (run.first, run.count)).collect();
        let places = places.into_iter().filter(|(first, _)| self.is_all(*first, &holds));
        places.map(|(first, count)| BlockRun { first, count }).collect()
    }

    /// The blocks with bytes of `entry`, or `None` when it has none. Of a small file that is one, which holds others, too.
    pub fn blocks_of(&self, entry: EntryIndex) -> Option<BlockRun> {
        let (first, count) = match self.blocks_of_large(entry) {
            Some(blocks) => blocks,
            None => self.small_of(entry).map(|(_, region)| (region.block, 1))?,
        };
        Some(BlockRun { first, count })
    }

    /// Where `entry`'s bytes are, or `None` when it has none.
    pub fn extent(&self, entry: EntryIndex) -> Option<Extent> {
        if let Some((block, size)) = self.large_of(entry) {
            return Some(Extent { address: block.address(), size });
        }
        let (at, region) = self.small_of(entry)?;
        let Use::Packed { first, .. } = region.used_for else { return None };
        let before: u64 = self.smalls[first as usize..at].iter().map(|small| u64::from(small.len)).sum();
        let size = ByteCount(u64::from(self.smalls[at].len));
        Some(Extent { address: region.block.address() + before, size })
    }

    /// How many bytes `entry` has.
    pub fn size_of(&self, entry: EntryIndex) -> ByteCount {
        let small = || self.small_of(entry).map(|(at, _)| ByteCount(u64::from(self.smalls[at].len)));
        self.large_of(entry).map(|(_, size)| size).or_else(small).unwrap_or_default()
    }

    /// The first block of `entry` and its size, when it is a large file.
    fn large_of(&self, entry: EntryIndex) -> Option<(BlockNumber, ByteCount)> {
        let at = self.regions.binary_search_by_key(&entry, |region| region.entry).ok()?;
        match self.regions[at].used_for {
            Use::File { size } => Some((self.regions[at].block, size)),
            Use::Packed { .. } => None,
        }
    }

    /// Its index in `smalls` and the block that `entry` is in, when it is a small file.
    fn small_of(&self, entry: EntryIndex) -> Option<(usize, &Region)> {
        let at = self.smalls.binary_search_by_key(&entry, |small| small.entry).ok()?;
        Some((at, self.packed_region_of(at)?))
    }

    fn packed_region_of(&self, small: usize) -> Option<&Region> {
        let after = self.packed.partition_point(|&at| match self.regions[at].used_for {
            Use::Packed { first, .. } => first as usize <= small,
            Use::File { .. } => false,
        });
        self.packed[..after].last().map(|&at| &self.regions[at])
    }

    /// The blocks of `entry` when it is a large file: first block and count.
    pub fn blocks_of_large(&self, entry: EntryIndex) -> Option<(BlockNumber, u32)> {
        self.large_of(entry).map(|(first, size)| (first, size.0.div_ceil(BLOCK_SIZE) as u32))
    }
}

impl Region {
    /// Where `block`, which is one of its own, begins in its file.
    fn offset_of(&self, block: BlockNumber) -> u64 {
        u64::from(block.0 - self.block.0) * BLOCK_SIZE
    }

    /// Bytes in use of `block`, which is one of its own.
    fn len_of(&self, block: BlockNumber) -> u32 {
        match self.used_for {
            Use::File { size } => (size.0 - self.offset_of(block)).min(BLOCK_SIZE) as u32,
            Use::Packed { used, .. } => used,
        }
    }
}

impl BlockShape {
    /// The entry that has this block for itself.
    pub fn own_entry(&self) -> Option<EntryIndex> {
        match &self.content {
            BlockContent::Piece { entry, .. } => Some(*entry),
            BlockContent::Packed { .. } => None,
        }
    }

    /// The entries whose bytes are in this block.
    pub fn entries(&self) -> impl Iterator<Item = EntryIndex> {
        let packed = match &self.content {
            BlockContent::Piece { .. } => &[][..],
            BlockContent::Packed { files, .. } => files.as_slice(),
        };
        self.own_entry().into_iter().chain(packed.iter().map(|file| file.entry))
    }

    /// How many of its bytes are this entry's.
    pub fn bytes_of(&self, entry: EntryIndex) -> u32 {
        match &self.content {
            BlockContent::Piece { entry: own, .. } if *own == entry => self.len,
            BlockContent::Piece { .. } => 0,
            BlockContent::Packed { files, .. } => {
                files.iter().find(|file| file.entry == entry).map_or(0, |file| file.len)
            }
        }
    }
}

/// Whether a packed block of `count` files and `used` bytes takes one more of `len`.
fn has_room(count: u32, used: u32, len: u32) -> bool {
    u64::from(used) + u64::from(len) <= BLOCK_SIZE && (count as usize) < MAX_FILES_IN_BLOCK
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sizes() -> impl Strategy<Value = Vec<Option<u64>>> {
        let size = prop_oneof![
            1 => Just(None),
            1 => Just(Some(0)),
            6 => (1u64..20_000).prop_map(Some),
            2 => (1u64..BLOCK_SIZE).prop_map(Some),
            1 => (BLOCK_SIZE - 1..=BLOCK_SIZE + 1).prop_map(Some),
            1 => (BLOCK_SIZE..4 * BLOCK_SIZE).prop_map(Some),
        ];
        proptest::collection::vec(size, 0..80)
    }

    proptest! {
        #[test]
        fn every_byte_of_every_file_is_in_exactly_one_block(sizes in sizes(), seal_every in 1usize..40) {
            let mut layout = Layout::new();
            let mut extents = Vec::new();
            for (at, size) in sizes.iter().enumerate() {
                extents.push(layout.append(size.map(ByteCount)).unwrap());
                if at % seal_every == 0 { layout.seal(); }
            }
            layout.seal();
            let mut bytes = vec![0u64; sizes.len()];
            for block in 0..layout.block_count() {
                let shape = layout.shape(BlockNumber(block as u32)).unwrap();
                prop_assert!(shape.len >= 1 && u64::from(shape.len) <= BLOCK_SIZE);
                prop_assert_eq!(layout.len_of(shape.number), Some(shape.len));
                match &shape.content {
                    BlockContent::Piece { entry, offset, file_size } => {
                        let extent = extents[entry.0 as usize].unwrap();
                        prop_assert_eq!(extent.address + *offset, shape.number.address());
                        prop_assert_eq!(extent.size, *file_size);
                        bytes[entry.0 as usize] += u64::from(shape.len);
                    }
                    BlockContent::Packed { files, .. } => {
                        let mut end = 0;
                        for file in files {
                            prop_assert_eq!(file.offset, end);
                            end += file.len;
                            let extent = extents[file.entry.0 as usize].unwrap();
                            prop_assert_eq!(extent.address, shape.number.address() + u64::from(file.offset));
                            bytes[file.entry.0 as usize] += u64::from(file.len);
                        }
                        prop_assert_eq!(end, shape.len);
                    }
                }
            }
            for (at, size) in sizes.iter().enumerate() {
                prop_assert_eq!(bytes[at], size.unwrap_or(0));
                prop_assert_eq!(layout.extent(EntryIndex(at as u32)), extents[at]);
                prop_assert_eq!(layout.size_of(EntryIndex(at as u32)), ByteCount(size.unwrap_or(0)));
            }
        }

        #[test]
        fn whether_a_manifest_was_sealed_somewhere_shows_later_where_it_matters(
            sizes in sizes(), seals in proptest::collection::vec(any::<bool>(), 80), at in 0usize..80,
        ) {
            // The same files, with a seal behind the first `at` of them and without one.
            let laid = |sealed: bool| {
                let mut layout = Layout::new();
                for (entry, size) in sizes.iter().enumerate() {
                    if entry == at && sealed || entry != at && seals[entry] { layout.seal(); }
                    layout.append(size.map(ByteCount)).unwrap();
                }
                if at >= sizes.len() && sealed { layout.seal(); }
                layout
            };
            let (with, without) = (laid(true), laid(false));
            prop_assert!(!with.was_open_after(at as u64));
            let extents = |layout: &Layout| (0..sizes.len()).map(|entry| layout.extent(EntryIndex(entry as u32))).collect::<Vec<_>>();
            prop_assert!(without.was_open_after(at as u64) || extents(&with) == extents(&without));
        }

        #[test]
        fn the_blocks_of_some_entries_are_those_that_hold_nothing_else(
            sizes in sizes(),
            chosen in proptest::collection::vec(any::<bool>(), 80),
            sealed in any::<bool>(),
        ) {
            let mut layout = Layout::new();
            for size in &sizes {
                layout.append(size.map(ByteCount)).unwrap();
            }
            if sealed { layout.seal(); }
            let holds = |entry: EntryIndex| chosen[entry.0 as usize];
            let entries = (0..sizes.len() as u32).map(EntryIndex).filter(|entry| holds(*entry));
            let found = layout.blocks_of_all(entries, holds).into_iter().flat_map(BlockRun::blocks);
            let shapes = (0..layout.block_count() as u32).filter_map(|block| layout.shape(BlockNumber(block)));
            let expected = shapes.filter(|shape| shape.entries().all(holds)).map(|shape| shape.number);
            prop_assert_eq!(found.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
        }

        #[test]
        fn the_packed_blocks_that_are_foreseen_are_opened(sizes in sizes(), batch in 1usize..40, seals in any::<bool>()) {
            let mut layout = Layout::new();
            let mut foreseen = 0;
            for sizes in sizes.chunks(batch) {
                foreseen += layout.packed_blocks_for(sizes.iter().flatten().copied().map(ByteCount));
                for size in sizes {
                    layout.append(size.map(ByteCount)).unwrap();
                }
                if seals { layout.seal(); }
            }
            prop_assert_eq!(foreseen, layout.packed.len() as u64);
        }

        #[test]
        fn batches_of_any_size_give_the_same_addresses(sizes in sizes()) {
            let mut once = Layout::new();
            let all: Vec<_> = sizes.iter().map(|size| once.append(size.map(ByteCount)).unwrap()).collect();
            let mut again = Layout::new();
            for (at, size) in sizes.iter().enumerate() {
                prop_assert_eq!(again.append(size.map(ByteCount)).unwrap(), all[at]);
                let _ = again.shape(BlockNumber(at as u32));
            }
        }
    }

    #[test]
    fn files_that_fail_together_cost_one_look_at_each() {
        let mut layout = Layout::new();
        let count = 3 * MAX_FILES_IN_BLOCK as u32;
        for _ in 0..count {
            layout.append(Some(ByteCount(900))).unwrap();
        }
        layout.seal();
        let looks = std::cell::Cell::new(0);
        let blocks = layout.blocks_of_all((0..count).map(EntryIndex), |_| {
            looks.set(looks.get() + 1);
            true
        });
        assert_eq!(blocks.len(), 3);
        assert_eq!(looks.get(), count);
    }

    #[test]
    fn an_open_block_is_not_yet_to_be_sent() {
        let mut layout = Layout::new();
        layout.append(Some(ByteCount(10))).unwrap();
        assert_eq!(layout.shape(BlockNumber(0)), None);
        layout.seal();
        assert_eq!(layout.shape(BlockNumber(0)).unwrap().len, 10);
        layout.append(Some(ByteCount(10))).unwrap();
        assert_eq!(layout.block_count(), 2, "a sealed block takes no more files");
    }

    #[test]
    fn a_size_that_overflows_the_address_space_is_refused_and_changes_nothing() {
        let mut layout = Layout::new();
        assert_eq!(layout.append(Some(ByteCount(u64::MAX))), Err(LayoutError::TooLarge));
        assert_eq!(layout.block_count(), 0);
        assert_eq!(layout.entry_count(), 0);
        layout.append(Some(ByteCount(1))).unwrap();
    }

    #[test]
    fn small_files_between_large_ones_share_blocks() {
        let mut layout = Layout::new();
        for _ in 0..100 {
            layout.append(Some(ByteCount(BLOCK_SIZE))).unwrap();
            layout.append(Some(ByteCount(1000))).unwrap();
        }
        assert_eq!(layout.block_count(), 101);
    }
}
