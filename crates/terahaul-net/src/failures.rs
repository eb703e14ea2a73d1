//! What the two ends say to each other of entries that will not arrive.

use terahaul_core::{EntryIndex, kept_detail};
use terahaul_store::EntryFailure;
use terahaul_wire::{Failed, Message};

/// Failures in one message: a folder that vanished may have held a million files, and a message's length has a limit.
pub(crate) const AT_ONCE: usize = 500;

/// As it is said.
pub fn to_failed(failure: EntryFailure) -> Failed {
    let EntryFailure { entry, cause, detail } = failure;
    Failed { entry: entry.0, cause: cause.into(), detail }
}

/// As it was meant; a detail that is too long to read is cut.
pub fn from_failed(failed: Failed) -> EntryFailure {
    let Failed { entry, cause, detail } = failed;
    EntryFailure { entry: EntryIndex(entry), cause: cause.into(), detail: kept_detail(detail) }
}

/// These failures, in as many messages as that takes.
pub(crate) fn messages(failures: &[EntryFailure]) -> impl Iterator<Item = Message> {
    let said = |some: &[EntryFailure]| Message::Failed(some.iter().cloned().map(to_failed).collect());
    failures.chunks(AT_ONCE).map(said)
}

#[cfg(test)]
mod tests {
    use terahaul_core::FailureCause;
    use terahaul_wire::{Control, MAX_MESSAGE};

    use super::*;

    #[test]
    fn a_long_detail_is_cut_between_characters() {
        let failed = |detail: String| Failed { entry: 1, cause: FailureCause::Changed.into(), detail };
        assert_eq!(from_failed(failed("é".repeat(100_000))).detail, "é".repeat(500));
        assert_eq!(from_failed(failed("short".into())).detail, "short");
    }

    #[test]
    fn a_hundred_thousand_failures_fit_into_messages() {
        let failure = |entry| EntryFailure {
            entry: EntryIndex(entry),
            cause: FailureCause::Vanished,
            detail: "it was there when an earlier run began".into(),
        };
        let failures: Vec<_> = (0..100_000).map(failure).collect();
        let mut said = 0;
        for message in messages(&failures) {
            let mut bytes = Vec::new();
            message.encode_to(&mut bytes);
            assert!(bytes.len() < MAX_MESSAGE / 2, "{}", bytes.len());
            let Message::Failed(failed) = message else { panic!("{message:?}") };
            said += failed.len();
        }
        assert_eq!(said, failures.len());
        assert_eq!(messages(&[]).count(), 0);
    }
}
