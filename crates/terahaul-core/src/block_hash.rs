//! What a block's bytes are worth: BLAKE3, block by block, in any order.
//!
//! A block of a large file is an aligned subtree of the file's BLAKE3 tree, so its chaining value can be computed
//! alone and the file's root later from the values (`blake3::hazmat`): the hash that `b3sum` prints. A packed
//! block's value is a hash over the hashes of its files, or where nobody asks for these, as in a copy, over its
//! bytes. Either way a block has one 32-byte value, and both ends compute it from their own copy of the bytes.

use blake3::hazmat::{self, HasherExt, Mode};

use crate::{BLOCK_SIZE, BlockContent, BlockShape, EntryIndex, PackedValue};

/// A 32-byte BLAKE3 value: a file's hash, a subtree's chaining value or a block's value.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Hash(pub [u8; 32]);

impl Hash {
    /// Sixty-four lower-case hexadecimal digits.
    pub fn to_hex(self) -> String {
        data_encoding::HEXLOWER.encode(&self.0)
    }

    /// Reads what [`Hash::to_hex`] wrote.
    pub fn from_hex(text: &str) -> Option<Self> {
        Self::decoded(&data_encoding::HEXLOWER_PERMISSIVE, text)
    }

    fn decoded(encoding: &data_encoding::Encoding, text: &str) -> Option<Self> {
        let bytes = encoding.decode(text.as_bytes()).ok()?;
        bytes.try_into().ok().map(Self)
    }
}

impl std::fmt::Debug for Hash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.to_hex())
    }
}

impl serde::Serialize for Hash {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.to_hex())
    }
}

impl<'de> serde::Deserialize<'de> for Hash {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        // In one way, as what is signed has it.
        let hash = Self::decoded(&data_encoding::HEXLOWER, &text);
        hash.ok_or_else(|| serde::de::Error::custom("not a BLAKE3 hash in lower-case hexadecimal"))
    }
}

/// What hashing a block yields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BlockProof {
    /// The chaining value of a piece; the file's root hash itself when the file is one block long.
    Piece(Hash),
    /// The hash of each packed file, in the block's order.
    Packed(Vec<Hash>),
    /// The value of a packed block whose files nobody asks the hashes of.
    PackedBytes(Hash),
}

impl BlockProof {
    /// Of a block of a large file, from its [groups' values](BlockHasher::in_groups), all of them and in their order.
    pub fn of_groups(values: &[Hash]) -> Self {
        Self::Piece(if values.is_empty() { Hash::default() } else { Hash(subtree(values)) })
    }

    /// The block's 32-byte value: what both ends compare.
    pub fn value(&self) -> Hash {
        match self {
            Self::Piece(value) | Self::PackedBytes(value) => *value,
            Self::Packed(files) => {
                let mut hasher = blake3::Hasher::new_derive_key("terahaul 1 packed block");
                for hash in files {
                    hasher.update(&hash.0);
                }
                Hash(*hasher.finalize().as_bytes())
            }
        }
    }

    /// The entries of a block of this shape of which `read` proves other bytes than this: those whose own hashes differ where they have
    /// any, and otherwise all.
    pub fn differing(&self, shape: &BlockShape, read: &Self) -> Vec<EntryIndex> {
        match (self, read) {
            (Self::Packed(recorded), Self::Packed(read)) => {
                let pairs = shape.entries().zip(recorded.iter().zip(read));
                pairs.filter(|(_, (recorded, read))| recorded != read).map(|(entry, _)| entry).collect()
            }
            _ if self == read => Vec::new(),
            _ => shape.entries().collect(),
        }
    }

    /// The proof as bytes: 32, or 32 a file where those are proven one by one. [`BlockProof::from_bytes`] reads it.
    pub fn to_bytes(&self) -> Vec<u8> {
        match self {
            Self::Piece(value) | Self::PackedBytes(value) => value.0.to_vec(),
            Self::Packed(files) => files.iter().flat_map(|hash| hash.0).collect(),
        }
    }

    /// Reads a stored proof of a block of this shape; `None` when the length does not fit.
    pub fn from_bytes(shape: &BlockShape, bytes: &[u8]) -> Option<Self> {
        let mut hashes = bytes.chunks_exact(32).map(|chunk| Hash(chunk.try_into().unwrap_or_default()));
        match &shape.content {
            BlockContent::Piece { .. } if bytes.len() == 32 => hashes.next().map(Self::Piece),
            BlockContent::Packed { files, value: PackedValue::Files } if bytes.len() == 32 * files.len() => {
                Some(Self::Packed(hashes.collect()))
            }
            BlockContent::Packed { value: PackedValue::Bytes, .. } if bytes.len() == 32 => {
                hashes.next().map(Self::PackedBytes)
            }
            _ => None,
        }
    }
}

/// Hashes one block as its bytes stream by, in order, in slices of any length.
pub struct BlockHasher {
    state: State,
}

enum State {
    Piece { hasher: Box<blake3::Hasher>, whole_file: bool },
    Groups(Groups),
    Packed(Packed),
    PackedBytes(Box<blake3::Hasher>),
}

/// A piece of a large file in groups: aligned subtrees of the block's own.
struct Groups {
    hasher: Box<blake3::Hasher>,
    /// Where in the file the next byte belongs.
    at: u64,
    len: u32,
    /// Bytes of the group so far.
    taken: u32,
    values: Vec<Hash>,
}

impl Groups {
    fn update(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min((self.len - self.taken) as usize));
            if self.taken == 0 {
                // One that was reset still counts from its first offset.
                *self.hasher = blake3::Hasher::new();
                self.hasher.set_input_offset(self.at);
            }
            self.hasher.update(now);
            self.at += now.len() as u64;
            self.taken += now.len() as u32;
            bytes = later;
            if self.taken == self.len {
                self.close();
            }
        }
    }

    fn close(&mut self) {
        self.values.push(Hash(self.hasher.finalize_non_root()));
        self.taken = 0;
    }

    fn finish(mut self) -> Vec<Hash> {
        if self.taken > 0 {
            self.close();
        }
        self.values
    }
}

/// Files of a packed block, one after the other.
struct Packed {
    lengths: std::vec::IntoIter<u32>,
    /// Length of the file that is being hashed, and how much of it is still to come.
    len: u32,
    left: u32,
    /// The bytes so far of a short file that lies in several slices.
    carry: Vec<u8>,
    /// The state of a long one.
    hasher: Box<blake3::Hasher>,
    done: Vec<Hash>,
}

/// Files up to this length are hashed in one piece even when their bytes come in several: BLAKE3 hashes sixteen
/// chunks at a time, and a file cut into slices loses most of that. Copying is far cheaper.
const CARRY: u32 = 128 << 10;

impl Packed {
    fn new(lengths: Vec<u32>) -> Self {
        let done = Vec::with_capacity(lengths.len());
        let mut lengths = lengths.into_iter();
        let len = lengths.next().unwrap_or(0);
        Self { lengths, len, left: len, carry: Vec::new(), hasher: Box::new(blake3::Hasher::new()), done }
    }

    fn update(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() && self.left > 0 {
            let take = bytes.len().min(self.left as usize);
            let (now, later) = bytes.split_at(take);
            bytes = later;
            self.left -= take as u32;
            match (self.left, self.len <= CARRY) {
                (1.., true) => self.carry.extend_from_slice(now),
                (1.., false) => {
                    self.hasher.update(now);
                }
                (0, _) => self.finish_file(now),
            }
        }
    }

    fn finish_file(&mut self, last: &[u8]) {
        let hash = if last.len() == self.len as usize {
            blake3::hash(last)
        } else if self.len <= CARRY {
            self.carry.extend_from_slice(last);
            let hash = blake3::hash(&self.carry);
            self.carry.clear();
            hash
        } else {
            let hash = self.hasher.update(last).finalize();
            self.hasher.reset();
            hash
        };
        self.done.push(Hash(*hash.as_bytes()));
        self.len = self.lengths.next().unwrap_or(0);
        self.left = self.len;
    }
}

impl BlockHasher {
    /// A hasher for the bytes of `shape`.
    pub fn new(shape: &BlockShape) -> Self {
        let state = match &shape.content {
            BlockContent::Piece { offset, file_size, .. } => {
                let mut hasher = Box::new(blake3::Hasher::new());
                hasher.set_input_offset(*offset);
                State::Piece { hasher, whole_file: file_size.0 <= BLOCK_SIZE }
            }
            BlockContent::Packed { files, value: PackedValue::Files } => {
                State::Packed(Packed::new(files.iter().map(|file| file.len).collect()))
            }
            BlockContent::Packed { value: PackedValue::Bytes, .. } => {
                State::PackedBytes(Box::new(blake3::Hasher::new_derive_key("terahaul 1 packed bytes")))
            }
        };
        Self { state }
    }

    /// One that tells the values of groups of `len` bytes, a power of two and at least 1024: where the two ends have different
    /// ones their bytes differ. `None` for a block that is not one of several of a large file.
    pub fn in_groups(shape: &BlockShape, len: u32) -> Option<Self> {
        let BlockContent::Piece { offset, file_size, .. } = &shape.content else { return None };
        Self::in_groups_at(*offset, len).filter(|_| file_size.0 > BLOCK_SIZE)
    }

    /// The same for what begins at `offset`, where a group does, of a file of several blocks.
    pub fn in_groups_at(offset: u64, len: u32) -> Option<Self> {
        let fits = len.is_power_of_two() && len >= 1024 && u64::from(len) <= BLOCK_SIZE;
        fits.then(|| {
            let hasher = Box::new(blake3::Hasher::new());
            Self { state: State::Groups(Groups { hasher, at: offset, len, taken: 0, values: Vec::new() }) }
        })
    }

    /// The next group, or the shorter one at the block's end, is `len` bytes of this value. `false` where no group begins: then
    /// nothing has happened.
    pub fn take_group(&mut self, value: Hash, len: u32) -> bool {
        match &mut self.state {
            State::Groups(groups) if groups.taken == 0 && len <= groups.len => {
                groups.at += u64::from(len);
                groups.values.push(value);
                true
            }
            _ => false,
        }
    }

    /// The groups' values, once every byte has been taken; none where it was not made for groups.
    pub fn finish_groups(self) -> Vec<Hash> {
        match self.state {
            State::Groups(groups) => groups.finish(),
            State::Piece { .. } | State::Packed(_) | State::PackedBytes(_) => Vec::new(),
        }
    }

    /// Takes the next bytes. Bytes past the block's length are ignored; callers check lengths first.
    pub fn update(&mut self, bytes: &[u8]) {
        match &mut self.state {
            State::Piece { hasher, .. } | State::PackedBytes(hasher) => {
                hasher.update(bytes);
            }
            State::Groups(groups) => groups.update(bytes),
            State::Packed(packed) => packed.update(bytes),
        }
    }

    /// The proof, once every byte has been taken.
    pub fn finish(self) -> BlockProof {
        match self.state {
            State::Piece { hasher, whole_file: true } => {
                BlockProof::Piece(Hash(*hasher.finalize().as_bytes()))
            }
            State::Piece { hasher, whole_file: false } => BlockProof::Piece(Hash(hasher.finalize_non_root())),
            State::Groups(groups) => BlockProof::of_groups(&groups.finish()),
            State::Packed(packed) => BlockProof::Packed(packed.done),
            State::PackedBytes(hasher) => BlockProof::PackedBytes(Hash(*hasher.finalize().as_bytes())),
        }
    }
}

/// BLAKE3's tree puts the largest power of two that leaves something over on the left.
fn on_the_left(count: usize) -> usize {
    count.next_power_of_two() / 2
}

fn subtree(values: &[Hash]) -> hazmat::ChainingValue {
    if let [only] = values {
        return only.0;
    }
    let split = on_the_left(values.len());
    hazmat::merge_subtrees_non_root(&subtree(&values[..split]), &subtree(&values[split..]), Mode::Hash)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BlockNumber, ByteCount, Layout, file_hash_from_values};

    fn content(len: u64) -> Vec<u8> {
        (0..len).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
    }

    /// One block of files of these sizes.
    fn packed(value: PackedValue, sizes: &[u64]) -> Layout {
        let mut layout = Layout::valuing(value);
        for size in sizes {
            layout.append(Some(ByteCount(*size))).unwrap();
        }
        layout.seal();
        layout
    }

    fn hash_blocks(layout: &Layout, space: &[u8], step: usize) -> Vec<BlockProof> {
        (0..layout.block_count() as u32)
            .map(|number| {
                let shape = layout.shape(BlockNumber(number)).unwrap();
                let start = shape.number.address().0 as usize;
                let mut hasher = BlockHasher::new(&shape);
                space[start..start + shape.len as usize].chunks(step).for_each(|part| hasher.update(part));
                hasher.finish()
            })
            .collect()
    }

    #[test]
    fn block_values_merge_into_the_hash_that_b3sum_prints() {
        for size in [
            BLOCK_SIZE,
            BLOCK_SIZE + 1,
            2 * BLOCK_SIZE,
            3 * BLOCK_SIZE + 77,
            5 * BLOCK_SIZE - 1,
            8 * BLOCK_SIZE,
        ] {
            let bytes = content(size);
            let mut layout = Layout::new();
            layout.append(Some(ByteCount(size))).unwrap();
            let proofs = hash_blocks(&layout, &bytes, 16384);
            let values: Vec<Hash> = proofs.iter().map(BlockProof::value).collect();
            let root = file_hash_from_values(ByteCount(size), &values).unwrap();
            assert_eq!(&root.0, blake3::hash(&bytes).as_bytes(), "{size}");
            assert_eq!(file_hash_from_values(ByteCount(size), &values[1..]), None);
        }
    }

    #[test]
    fn packed_files_get_their_own_hashes_however_the_bytes_are_cut() {
        let sizes = [1u64, 1000, 1024, 40_000, 7, 200_000, 3];
        let layout = packed(PackedValue::Files, &sizes);
        let bytes = content(sizes.iter().sum());
        for step in [1, 999, 16384, 100_000] {
            let BlockProof::Packed(hashes) = &hash_blocks(&layout, &bytes, step)[0] else { panic!() };
            let mut at = 0;
            for (hash, size) in hashes.iter().zip(sizes) {
                assert_eq!(&hash.0, blake3::hash(&bytes[at..at + size as usize]).as_bytes());
                at += size as usize;
            }
        }
    }

    #[test]
    fn a_block_whose_bytes_are_its_value_is_hashed_as_one_however_they_are_cut() {
        let sizes = [1u64, 1000, 1024, 40_000, 7];
        let layout = packed(PackedValue::Bytes, &sizes);
        let bytes = content(sizes.iter().sum());
        let value = Hash(blake3::derive_key("terahaul 1 packed bytes", &bytes));
        for step in [1, 999, 16384, 100_000] {
            assert_eq!(hash_blocks(&layout, &bytes, step), [BlockProof::PackedBytes(value)]);
        }
    }

    #[test]
    fn groups_merge_into_the_value_that_the_block_has_whoever_hashed_them() {
        let size = 2 * BLOCK_SIZE + 100_001;
        let bytes = content(size);
        let mut layout = Layout::new();
        layout.append(Some(ByteCount(size))).unwrap();
        let proofs = hash_blocks(&layout, &bytes, 16384);
        for (number, group, step) in
            [(0, 32 << 10, 7_001), (1, 4 << 20, 1 << 20), (2, 4096, 4096), (2, 1024, 9)]
        {
            let shape = layout.shape(BlockNumber(number)).unwrap();
            let start = shape.number.address().0 as usize;
            let block = &bytes[start..start + shape.len as usize];
            let hasher = || BlockHasher::in_groups(&shape, group).unwrap();
            let mut whole = hasher();
            block.chunks(step).for_each(|part| whole.update(part));
            let values = whole.finish_groups();
            assert_eq!(values.len(), block.len().div_ceil(group as usize));
            assert_eq!(BlockProof::of_groups(&values), proofs[number as usize]);
            // Every other group is known, the rest is hashed.
            let mut mixed = hasher();
            for (at, group) in block.chunks(group as usize).enumerate() {
                if at % 2 == 1 {
                    assert!(mixed.take_group(values[at], group.len() as u32));
                    continue;
                }
                mixed.update(&group[..1]);
                assert!(!mixed.take_group(values[at], group.len() as u32), "it has begun");
                mixed.update(&group[1..]);
            }
            assert_eq!(mixed.finish(), proofs[number as usize]);
        }
        let shape = layout.shape(BlockNumber(0)).unwrap();
        assert!(BlockHasher::in_groups(&shape, 3000).is_none());
        let mut small = Layout::new();
        small.append(Some(ByteCount(BLOCK_SIZE))).unwrap();
        assert!(
            BlockHasher::in_groups(&small.shape(BlockNumber(0)).unwrap(), 4096).is_none(),
            "it is the root"
        );
    }

    #[test]
    fn a_stored_proof_reads_back() {
        let shape_of = |value| packed(value, &[5, 6]).shape(BlockNumber(0)).unwrap();
        let shape = shape_of(PackedValue::Files);
        let proof = BlockProof::Packed(vec![Hash([1; 32]), Hash([2; 32])]);
        assert_eq!(BlockProof::from_bytes(&shape, &proof.to_bytes()), Some(proof));
        assert_eq!(BlockProof::from_bytes(&shape, &[0; 32]), None);

        let shape = shape_of(PackedValue::Bytes);
        let proof = BlockProof::PackedBytes(Hash([3; 32]));
        assert_eq!(BlockProof::from_bytes(&shape, &proof.to_bytes()), Some(proof));
        assert_eq!(BlockProof::from_bytes(&shape, &[0; 64]), None);
    }
}
