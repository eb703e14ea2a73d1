//! Which packets a path loses. Pure: the seed and the packets' order decide.

use super::seeded::Seeded;
use super::spec::LossSpec;

/// Decides packet by packet.
#[derive(Clone, Debug)]
pub struct Loss {
    spec: LossSpec,
    chance: Seeded,
    /// Gilbert and Elliott's bad state.
    bad: bool,
}

impl Loss {
    /// The same `seed` and `stream` lose the same packets.
    pub fn new(spec: LossSpec, seed: u64, stream: u64) -> Self {
        Self { spec, chance: Seeded::new(seed, stream), bad: false }
    }

    /// Whether the next packet is lost.
    pub fn takes_next(&mut self) -> bool {
        match self.spec {
            LossSpec::None => false,
            LossSpec::Uniform(share) => self.chance.chance(share),
            LossSpec::GilbertElliott { enter, leave, loss } => {
                self.bad = if self.bad { !self.chance.chance(leave) } else { self.chance.chance(enter) };
                self.bad && self.chance.chance(loss)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn taken(spec: LossSpec, seed: u64, stream: u64, packets: usize) -> Vec<bool> {
        let mut loss = Loss::new(spec, seed, stream);
        (0..packets).map(|_| loss.takes_next()).collect()
    }

    fn share(taken: &[bool]) -> f64 {
        taken.iter().filter(|taken| **taken).count() as f64 / taken.len() as f64
    }

    proptest! {
        #[test]
        fn one_seed_loses_the_same_packets_and_as_many_as_asked(seed: u64, per_cent in 0.1f64..20.0) {
            let spec = LossSpec::Uniform(per_cent / 100.0);
            let packets = 200_000;
            let lost = taken(spec, seed, 0, packets);
            prop_assert_eq!(&lost, &taken(spec, seed, 0, packets));
            prop_assert_ne!(&lost, &taken(spec, seed, 1, packets));
            // Six standard deviations: one failure in half a billion.
            let deviation = (spec.mean() * (1.0 - spec.mean()) / packets as f64).sqrt();
            prop_assert!((share(&lost) - spec.mean()).abs() < 6.0 * deviation, "{}", share(&lost));
        }
    }

    #[test]
    fn bursts_lose_what_the_model_says_and_come_together() {
        let spec = LossSpec::GilbertElliott { enter: 0.0005, leave: 0.1, loss: 0.5 };
        let lost = taken(spec, 7, 0, 4_000_000);
        assert!((share(&lost) / spec.mean() - 1.0).abs() < 0.1, "{} {}", share(&lost), spec.mean());
        let after_a_loss: Vec<bool> = lost.windows(2).filter(|pair| pair[0]).map(|pair| pair[1]).collect();
        // In the bad state still (0.9), and lost again (0.5).
        assert!((share(&after_a_loss) - 0.45).abs() < 0.02, "{}", share(&after_a_loss));
    }

    #[test]
    fn no_loss_takes_nothing() {
        assert_eq!(share(&taken(LossSpec::None, 1, 0, 10_000)), 0.0);
        assert_eq!(share(&taken(LossSpec::Uniform(1.0), 1, 0, 10_000)), 1.0);
    }
}
