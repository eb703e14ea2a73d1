//! What a receiver tells of an old file, and what the sender makes of it.

use minicbor::{Decode, Encode};

/// Most sums of chunks in one message.
pub const MAX_SUMS: usize = 1 << 16;
/// Bytes that are told of a guessed group's value.
pub const GUESS_LEN: usize = 8;
/// Pieces of advice on one entry in one session, at most: whatever a file is like, it comes to an end.
pub const MAX_ADVICE: u32 = 17;

/// A block that a receiver has filled from its old file: the first eight bytes of the [values of its
/// groups](terahaul_core::BlockHasher::in_groups).
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct Guessed {
    /// Which entry it is that is to be sent.
    #[n(0)]
    pub entry: u32,
    /// How many pieces of [`Advice`] on this entry the receiver had heard in this session: a guess from before the last one is void.
    #[n(1)]
    pub heard: u32,
    /// Which of the entry's blocks, from 0 on.
    #[n(2)]
    pub block: u32,
    /// Where in the old file its first byte was read.
    #[n(3)]
    pub from: u64,
    /// Bytes of a group: a power of two, from 4 KiB on.
    #[n(4)]
    pub group: u32,
    /// [`GUESS_LEN`] bytes a group, from the block's first on. None at all says that no guess follows.
    #[cbor(n(5), with = "minicbor::bytes")]
    pub values: Vec<u8>,
}

/// What a sender makes of guesses: they are wrong, or what they should be.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct Advice {
    /// Which entry.
    #[n(0)]
    pub entry: u32,
    /// The first of its blocks that this is about.
    #[n(1)]
    pub block: u32,
    /// Where in the old file its first byte probably is: guesses go on from there. Without it sums are to follow instead.
    #[n(2)]
    pub from: Option<u64>,
}

/// Sums of chunks of a receiver's old file, the basis of the new one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct Sums {
    /// Which entry it is that is to be sent.
    #[n(0)]
    pub entry: u32,
    /// Bytes of the basis; 0 says that there is none after all.
    #[n(1)]
    pub size: u64,
    /// Bytes of a chunk, a power of two.
    #[n(2)]
    pub chunk: u32,
    /// The first chunk whose sum is here.
    #[n(3)]
    pub first: u32,
    /// Sums of 8 bytes each, [`MAX_SUMS`] at most.
    #[cbor(n(4), with = "minicbor::bytes")]
    pub sums: Vec<u8>,
}
