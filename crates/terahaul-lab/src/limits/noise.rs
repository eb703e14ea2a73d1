//! What is written to a disk that is measured.

use crate::terabyte::Generator;

/// As much as file systems compress at once.
const RECORD: usize = 1 << 20;
/// The least that they keep once where it comes twice.
const BLOCK: usize = 4 << 10;
const WORD: usize = 8;

/// Pieces that can neither be compressed nor be kept once for all: they are there before the clock starts, but for a word in
/// each block, which is another in every piece.
pub(super) struct Noise {
    generator: Generator,
    bytes: Vec<u8>,
    /// What the generator has made so far.
    made: u64,
}

impl Noise {
    pub fn new() -> Self {
        let (generator, mut bytes) = (Generator::new(1), vec![0; RECORD]);
        generator.fill(0, &mut bytes);
        Self { generator, bytes, made: RECORD as u64 }
    }

    /// The piece of `len` bytes that is written to the place of this number.
    pub fn piece(&mut self, number: u64, len: usize) -> &[u8] {
        let at = (number % (RECORD / len) as u64) as usize * len;
        let piece = &mut self.bytes[at..at + len];
        for block in piece.chunks_exact_mut(BLOCK) {
            self.generator.fill(self.made, &mut block[..WORD]);
            self.made += WORD as u64;
        }
        piece
    }
}
