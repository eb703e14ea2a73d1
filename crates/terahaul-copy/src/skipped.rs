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
    errors: u64,
}

impl Skipped {
    pub(crate) fn add(&mut self, failure: Failure) {
        // What has vanished, or is of a kind that is never copied, is known well enough.
        let known = [FailureCause::Vanished, FailureCause::Unsupported];
        self.errors += u64::from(!known.contains(&failure.cause));
        if self.listed.len() < MOST {
            self.listed.push(failure);
            return;
        }
        match self.more.iter_mut().find(|(cause, _)| *cause == failure.cause) {
            Some((_, count)) => *count += 1,
            None => self.more.push((failure.cause, 1)),
        }
    }

    /// How many things could not be read, so that what is missing in the manifest may be there.
    pub(crate) fn errors(&self) -> u64 {
        self.errors
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
            skipped.add(failure(if vanished { FailureCause::Vanished } else { FailureCause::Unreadable }));
        }
        assert_eq!(skipped.errors(), (MOST as u64 + 3000) * 2 / 3);
        let failures = skipped.to_failures();
        assert_eq!(failures.len(), MOST + 2);
        let beyond: Vec<_> = failures[MOST..].iter().map(|failure| failure.path.as_slice()).collect();
        assert_eq!(beyond, [&b"2000 more"[..], b"1000 more"]);
    }
}
