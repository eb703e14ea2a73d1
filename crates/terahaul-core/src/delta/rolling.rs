//! The weak sum: the sum of a chunk's bytes and the sum of that sum's values on the way, as in rsync and Adler-32, both of 32 bits.
//! It can be moved on by one byte at the cost of a few additions.

/// Bytes that are summed side by side.
const LANES: usize = 16;
/// Rows of those whose sums of sums fit into 16 bits: 255 · (1 + 2 + … + 16) = 34,680.
const ROWS: usize = 16;

/// A weak sum over some bytes in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rolling {
    /// Of the bytes.
    plain: u32,
    /// Of the bytes, each times its distance to the end.
    weighted: u32,
    len: u32,
}

impl Rolling {
    /// Over `bytes`, whose number is a multiple of 16.
    pub(super) fn over(bytes: &[u8]) -> Self {
        // Only additions, in lanes of their own: the compiler makes vectors of them, of twice as many lanes where they have 16 bits.
        let (mut sums, mut sums_of_sums) = ([0u32; LANES], [0u32; LANES]);
        let (rows, rest) = bytes.as_chunks::<LANES>();
        debug_assert!(rest.is_empty());
        for some in rows.chunks(ROWS) {
            let (mut here, mut here_of_sums) = ([0u16; LANES], [0u16; LANES]);
            for row in some {
                for lane in 0..LANES {
                    here[lane] += u16::from(row[lane]);
                    here_of_sums[lane] += here[lane];
                }
            }
            for lane in 0..LANES {
                let before = sums[lane].wrapping_mul(some.len() as u32);
                sums_of_sums[lane] =
                    sums_of_sums[lane].wrapping_add(before).wrapping_add(u32::from(here_of_sums[lane]));
                sums[lane] = sums[lane].wrapping_add(u32::from(here[lane]));
            }
        }
        let (mut plain, mut weighted) = (0u32, 0u32);
        for lane in 0..LANES {
            plain = plain.wrapping_add(sums[lane]);
            let ahead = sums[lane].wrapping_mul(lane as u32);
            weighted =
                weighted.wrapping_add(sums_of_sums[lane].wrapping_mul(LANES as u32)).wrapping_sub(ahead);
        }
        Self { plain, weighted, len: bytes.len() as u32 }
    }

    /// Moves on by a byte: `out` leaves at the front, `next` comes at the end.
    #[inline(always)]
    pub(super) fn roll(&mut self, out: u8, next: u8) {
        self.plain = self.plain.wrapping_add(u32::from(next)).wrapping_sub(u32::from(out));
        self.weighted =
            self.weighted.wrapping_sub(self.len.wrapping_mul(u32::from(out))).wrapping_add(self.plain);
    }

    #[inline(always)]
    pub(super) fn weak(self) -> u32 {
        self.weighted.wrapping_add(self.plain.wrapping_mul(0x9E37_79B1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn rolled_on_it_is_what_it_would_be_from_there(bytes in proptest::collection::vec(any::<u8>(), 64..200)) {
            let mut rolling = Rolling::over(&bytes[..48]);
            for at in 1..=bytes.len() - 48 {
                rolling.roll(bytes[at - 1], bytes[at + 47]);
                prop_assert_eq!(rolling, Rolling::over(&bytes[at..at + 48]));
            }
        }

        #[test]
        fn it_is_the_sum_that_it_is_said_to_be(bytes in proptest::collection::vec(any::<u8>(), 16 * 40)) {
            let plain: u32 = bytes.iter().map(|&byte| u32::from(byte)).sum();
            let weighted = bytes.iter().rev().zip(1u32..).map(|(&byte, weight)| weight * u32::from(byte)).sum();
            prop_assert_eq!(Rolling::over(&bytes), Rolling { plain, weighted, len: 640 });
        }
    }

    #[test]
    fn the_largest_sums_fit() {
        let weights: u32 = (1..=640).sum();
        assert_eq!(
            Rolling::over(&[255; 640]),
            Rolling { plain: 640 * 255, weighted: weights * 255, len: 640 }
        );
    }
}
