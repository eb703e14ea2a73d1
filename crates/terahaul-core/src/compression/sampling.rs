//! How often to look whether something can be compressed.

/// Chooses which pieces of a channel are sampled before they are compressed. What could be compressed last is sampled each
/// time; after each sample that could not, twice as many pieces are sent as they are.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sampling {
    skip: u32,
    misses: u32,
}

impl Sampling {
    /// Most pieces between two samples: as many as there are in a block.
    const LONGEST: u32 = 16;

    /// Whether to sample the next piece; otherwise it is sent as it is.
    pub fn poll(&mut self) -> bool {
        let due = self.skip == 0;
        self.skip = self.skip.saturating_sub(1);
        due
    }

    /// Whether a sample could be compressed.
    pub fn handle_sample(&mut self, compressible: bool) {
        self.misses = if compressible { 0 } else { (self.misses + 1).min(Self::LONGEST.ilog2()) };
        self.skip = (1 << self.misses) - 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_compressed_is_sampled_ever_less_and_what_can_each_time() {
        let mut sampling = Sampling::default();
        let mut sampled = Vec::new();
        for piece in 0..70 {
            if sampling.poll() {
                sampled.push(piece);
                sampling.handle_sample(false);
            }
        }
        assert_eq!(sampled, [0, 2, 6, 14, 30, 46, 62]);
        let mut sampling = Sampling::default();
        for _ in 0..5 {
            assert!(sampling.poll());
            sampling.handle_sample(true);
        }
    }
}
