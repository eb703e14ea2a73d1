//! What a walk could not take along: listed up to a bound, and counted beyond it, since a folder may have millions of them. Pure.

use terahaul_core::FailureCause;

use crate::summary::Failure;

/// Failures that are kept word by word: some 20 MB.
const MOST: usize = 100_000;

/// What was skipped so far.
#[derive(Debug, Default)]
pub(crate) struct Skipped {
    listed: Vec<Failure>,
    /// Those beyond the list, by their cause.
    more: Vec<(FailureCause, u64)>,
    missed: u64,
}

impl Skipped {
    /// `missed`: it is there, and not in the manifest.
    pub(crate) fn add(&mut self, failure: Failure, missed: bool) {
        self.missed += u64::from(missed);
        if self.listed.len() < MOST {
            self.listed.push(failure);
            return;
        }
        match self.more.iter_mut().find(|(cause, _)| *cause == failure.cause) {
            Some((_, count)) => *count += 1,
            None => self.more.push((failure.cause, 1)),
        }
    }

    /// How many things are there and not in the manifest, so that what that lacks may be at the source.
    pub(crate) fn missed(&self) -> u64 {
        self.missed
    }

    /// The list, and a line for each cause beyond it.
    pub(crate) fn to_failures(&self) -> Vec<Failure> {
        let more = self.more.iter().map(|&(cause, count)| Failure {
            path: format!("{count} more").into_bytes(),
            cause,
            message: cause.describe().to_owned(),
        });
        self.listed.iter().cloned().chain(more).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_of_nothing_but_failures_is_counted_and_not_kept() {
        let mut skipped = Skipped::default();
        let failure =
            |cause| Failure { path: b"folder/name".to_vec(), cause, message: "cannot be read".into() };
        for at in 0..MOST as u64 + 3000 {
            let vanished = at % 3 == 0;
            let cause = if vanished { FailureCause::Vanished } else { FailureCause::Unreadable };
            skipped.add(failure(cause), !vanished);
        }
        assert_eq!(skipped.missed(), (MOST as u64 + 3000) * 2 / 3);
        let failures = skipped.to_failures();
        assert_eq!(failures.len(), MOST + 2);
        let beyond: Vec<_> = failures[MOST..].iter().map(|failure| failure.path.as_slice()).collect();
        assert_eq!(beyond, [&b"2000 more"[..], b"1000 more"]);
    }
}
