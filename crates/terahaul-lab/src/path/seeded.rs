//! The lab's only source of chance: a sequence that its seed decides.

/// SplitMix64 (Steele, Lea and Flood, 2014): small, quick, and good enough to decide which packets are lost.
#[derive(Clone, Debug)]
pub(super) struct Seeded(u64);

impl Seeded {
    /// A sequence of its own for each `stream` of one seed.
    pub(super) fn new(seed: u64, stream: u64) -> Self {
        let mut mixed = Self(seed);
        let start = mixed.next().wrapping_add(stream.wrapping_mul(0xd134_2543_de82_ef95));
        Self(start)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Evenly spread between 0 (included) and 1.
    pub(super) fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// True with this probability.
    pub(super) fn chance(&mut self, probability: f64) -> bool {
        self.share() < probability
    }
}
