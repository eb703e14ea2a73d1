//! What a walk could not take along: listed up to a bound, and counted beyond it, since a folder may have millions of them. Pure.

use terahaul_core::{EntryPath, FailureCause};

use crate::summary::Failure;

/// Failures that are kept word by word: some 20 MB.
const MOST: usize = 100_000;
/// Bytes of paths in [`Walked`]: they go with the last word.
const MOST_NAMED: usize = 64 << 10;

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

/// What a manifest lacks of what is at the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Lack {
    /// Nothing: it has gone, or is in the manifest all the same.
    Nothing,
    /// Something of this name, and nothing else.
    Name(EntryPath),
    /// Nobody knows what.
    Unknown,
}

impl Lack {
    /// What a walk that skips this takes less of along.
    pub(crate) fn of(skipped: &terahaul_tree::Skipped) -> Self {
        match &skipped.entry {
            _ if skipped.missed => Self::Unknown,
            // A FIFO or a device: something else may have its name at the destination, from when it was a file.
            Some(path) if skipped.cause == FailureCause::Unsupported => Self::Name(path.clone()),
            _ => Self::Nothing,
        }
    }
}

/// What was skipped so far.
#[derive(Debug, Default)]
pub(crate) struct Skipped {
    listed: Vec<Failure>,
    /// Those beyond the list, by their cause.
    more: Vec<(FailureCause, u64)>,
    walked: Walked,
    named: usize,
}

impl Skipped {
    /// Something was skipped, so that the manifest lacks this.
    pub(crate) fn add(&mut self, failure: Failure, lack: Lack) {
        match lack {
            Lack::Nothing => {}
            Lack::Name(path) if self.named + path.as_bytes().len() <= MOST_NAMED => {
                self.named += path.as_bytes().len();
                self.walked.kept.push(path);
            }
            Lack::Name(_) | Lack::Unknown => self.walked.errors += 1,
        }
        if self.listed.len() < MOST {
            self.listed.push(failure);
            return;
        }
        match self.more.iter_mut().find(|(cause, _)| *cause == failure.cause) {
            Some((_, count)) => *count += 1,
            None => self.more.push((failure.cause, 1)),
        }
    }

    /// What is there and not in the manifest, as far as the walk has come.
    pub(crate) fn walked(&self) -> &Walked {
        &self.walked
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
            skipped.add(failure(cause), if vanished { Lack::Nothing } else { Lack::Unknown });
        }
        assert_eq!(skipped.walked().errors, (MOST as u64 + 3000) * 2 / 3);
        let failures = skipped.to_failures();
        assert_eq!(failures.len(), MOST + 2);
        let beyond: Vec<_> = failures[MOST..].iter().map(|failure| failure.path.as_slice()).collect();
        assert_eq!(beyond, [&b"2000 more"[..], b"1000 more"]);
    }

    #[test]
    fn names_that_are_too_many_to_be_told_count_as_not_read() {
        let mut skipped = Skipped::default();
        for at in 0..5000 {
            let path = EntryPath::new(format!("folder/{at:09}").as_bytes()).unwrap();
            let (cause, message) = (FailureCause::Unsupported, String::new());
            skipped.add(Failure { path: path.as_bytes().to_vec(), cause, message }, Lack::Name(path));
        }
        let Walked { errors, kept } = skipped.walked();
        assert_eq!((kept.len(), kept.len() as u64 + errors), (MOST_NAMED / 16, 5000));
    }
}
