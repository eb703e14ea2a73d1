//! What was not copied: by name, and where that is too much to be listed, by number. Pure.

use terahaul_core::FailureCause;

/// Something that was not copied; the rest was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Its path as bytes.
    pub path: Vec<u8>,
    /// Why, as a class.
    pub cause: FailureCause,
    /// Why, in words: completes a sentence that begins with the path.
    pub message: String,
}

/// All that was not copied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Failures {
    /// What there was room to name.
    pub listed: Vec<Failure>,
    /// How many there are beyond that, each cause once.
    pub unlisted: Vec<(FailureCause, u64)>,
}

impl Failures {
    /// How many there are.
    pub fn count(&self) -> u64 {
        // The other end may say any numbers.
        let unlisted = self.unlisted.iter().map(|(_, count)| *count);
        unlisted.fold(self.listed.len() as u64, u64::saturating_add)
    }

    /// Whether this is the only cause.
    pub fn are_all(&self, cause: FailureCause) -> bool {
        self.listed.iter().all(|failure| failure.cause == cause)
            && self.unlisted.iter().all(|(other, _)| *other == cause)
    }

    /// Names one more, unless so many are named already: then it is counted.
    pub(crate) fn add(&mut self, failure: Failure, most: usize) {
        if self.listed.len() < most {
            self.listed.push(failure);
        } else {
            self.add_unlisted(failure.cause, 1);
        }
    }

    pub(crate) fn add_unlisted(&mut self, cause: FailureCause, count: u64) {
        match self.unlisted.iter_mut().find(|(known, _)| *known == cause) {
            Some((_, counted)) => *counted = counted.saturating_add(count),
            None => self.unlisted.push((cause, count)),
        }
    }

    /// With those as well.
    pub(crate) fn and(mut self, others: Self) -> Self {
        self.listed.extend(others.listed);
        others.unlisted.into_iter().for_each(|(cause, count)| self.add_unlisted(cause, count));
        self
    }
}

impl From<Vec<Failure>> for Failures {
    fn from(listed: Vec<Failure>) -> Self {
        Self { listed, unlisted: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_of_both_ends_are_counted_together() {
        let ends = |vanished, unreadable| {
            let failure =
                Failure { path: b"x".into(), cause: FailureCause::Vanished, message: String::new() };
            let mut failures = Failures::from(vec![failure]);
            failures.add_unlisted(FailureCause::Vanished, vanished);
            if unreadable > 0 {
                failures.add_unlisted(FailureCause::Unreadable, unreadable);
            }
            failures
        };
        let both = ends(3, 0).and(ends(4, 5));
        assert_eq!(both.count(), 14);
        assert_eq!(both.unlisted, [(FailureCause::Vanished, 7), (FailureCause::Unreadable, 5)]);
        assert!(ends(3, 0).are_all(FailureCause::Vanished) && !both.are_all(FailureCause::Vanished));
        assert_eq!(ends(u64::MAX, 5).and(ends(u64::MAX, 5)).count(), u64::MAX, "whatever the other end says");
    }
}
