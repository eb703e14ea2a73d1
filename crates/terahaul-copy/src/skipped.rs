//! What a walk could not take along: listed up to a bound, and counted beyond it, since a folder may have millions of them. Pure.

use terahaul_core::EntryPath;
use terahaul_tree::Lack;

use crate::failures::{Failure, Failures};

/// Failures that are kept word by word: some 20 MB.
const MOST: usize = 100_000;
/// Bytes of paths in [`Walked`]: they go with the last word, as hexadecimal.
const MOST_NAMED: usize = 192 << 10;

/// What of the source is not in its manifest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Walked {
    /// How many things could not be read or can be no entries: what the manifest lacks may be among them, or in them.
    pub errors: u64,
    /// Besides these, where there are things of kinds that are not copied: whatever has these names at the destination is not to go.
    pub kept: Vec<EntryPath>,
}

impl Walked {
    /// As the other end says it; what is no path names nothing.
    pub(crate) fn said(errors: u64, kept: impl IntoIterator<Item = Vec<u8>>) -> Self {
        Self { errors, kept: kept.into_iter().filter_map(|path| EntryPath::new(path).ok()).collect() }
    }
}

/// What was skipped so far.
#[derive(Debug, Default)]
pub(crate) struct Skipped {
    failures: Failures,
    walked: Walked,
    named: usize,
}

impl Skipped {
    /// Something was skipped, which would have been this entry.
    pub(crate) fn add(&mut self, failure: Failure, lack: Lack, entry: Option<EntryPath>) {
        self.lack(lack, entry);
        self.failures.add(failure, MOST);
    }

    /// The same of what nobody misses.
    pub(crate) fn lack(&mut self, lack: Lack, entry: Option<EntryPath>) {
        match (lack, entry) {
            (Lack::Nothing, _) => {}
            (Lack::Itself, Some(path)) if self.named + path.as_bytes().len() <= MOST_NAMED => {
                self.named += path.as_bytes().len();
                self.walked.kept.push(path);
            }
            (Lack::Itself | Lack::Unknown, _) => self.walked.errors += 1,
        }
    }

    /// What is there and not in the manifest, as far as the walk has come.
    pub(crate) fn walked(&self) -> &Walked {
        &self.walked
    }

    pub(crate) fn failures(&self) -> &Failures {
        &self.failures
    }
}

#[cfg(test)]
mod tests {
    use terahaul_core::FailureCause;

    use super::*;

    #[test]
    fn a_folder_of_nothing_but_failures_is_counted_and_not_kept() {
        let mut skipped = Skipped::default();
        let failure =
            |cause| Failure { path: b"folder/name".to_vec(), cause, message: "cannot be read".into() };
        for at in 0..MOST as u64 + 3000 {
            let vanished = at % 3 == 0;
            let cause = if vanished { FailureCause::Vanished } else { FailureCause::Unreadable };
            skipped.add(failure(cause), if vanished { Lack::Nothing } else { Lack::Unknown }, None);
        }
        assert_eq!(skipped.walked().errors, (MOST as u64 + 3000) * 2 / 3);
        let Failures { listed, unlisted } = skipped.failures();
        assert_eq!((listed.len(), skipped.failures().count()), (MOST, MOST as u64 + 3000));
        assert_eq!(unlisted[..], [(FailureCause::Unreadable, 2000), (FailureCause::Vanished, 1000)]);
    }

    #[test]
    fn names_that_are_too_many_to_be_told_count_as_not_read() {
        let mut skipped = Skipped::default();
        for at in 0..20_000 {
            let path = EntryPath::new(format!("folder/{at:09}").as_bytes()).unwrap();
            let (cause, message) = (FailureCause::Unsupported, String::new());
            skipped.add(Failure { path: path.as_bytes().to_vec(), cause, message }, Lack::Itself, Some(path));
        }
        let Walked { errors, kept } = skipped.walked();
        assert_eq!((kept.len(), kept.len() as u64 + errors), (MOST_NAMED / 16, 20_000));
    }
}
