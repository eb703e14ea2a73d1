//! Why one entry fails while the rest arrives.

use serde::{Deserialize, Serialize};

/// What happened to the entry at the sender or the receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureCause {
    /// It was there when the folder was walked and is gone.
    Vanished,
    /// Its size or modification time changed while it was being sent, or since an interrupted run.
    Changed,
    /// It could not be opened or read.
    Unreadable,
    /// The receiver cannot or will not have it under this name.
    Refused,
    /// It is not a file, folder or symbolic link, or it is a file that says it is empty and is not.
    Unsupported,
}

/// Longest detail that is kept of what somebody else says of a failure, in characters.
const MAX_DETAIL: usize = 500;

/// A failure's detail, cut where it is too long to read.
pub fn kept_detail(mut detail: String) -> String {
    if let Some((end, _)) = detail.char_indices().nth(MAX_DETAIL) {
        detail.truncate(end);
        detail.shrink_to_fit();
    }
    detail
}

impl FailureCause {
    /// Every cause.
    pub const ALL: [Self; 5] =
        [Self::Vanished, Self::Changed, Self::Unreadable, Self::Refused, Self::Unsupported];

    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Vanished => "vanished",
            Self::Changed => "changed",
            Self::Unreadable => "unreadable",
            Self::Refused => "refused",
            Self::Unsupported => "unsupported",
        }
    }

    /// The cause of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|cause| cause.name() == name)
    }

    /// What happened, for whoever sends: for the middle of a sentence, `a.txt changed while …`.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Vanished => "vanished before it was read: if it was moved, send it from its new place",
            Self::Changed => "changed while it was being sent: run the command again once it is left alone",
            Self::Unreadable => {
                "could not be read: check its permissions and the disk, then run the command again"
            }
            Self::Refused => "was refused by the receiver",
            Self::Unsupported => "is not a file, a folder or a symbolic link, so it is not sent",
        }
    }

    /// What happened, for who receives: there is nothing that they could do about it but ask.
    pub fn describe_elsewhere(self) -> &'static str {
        match self {
            Self::Vanished => "it vanished at its sender before it was read: ask for it to be sent again",
            Self::Changed => "it changed while it was being sent: ask for it to be sent again",
            Self::Unreadable => "its sender could not read it: ask for it to be sent again",
            Self::Refused => "the depot refused it: ask for it to be sent again",
            Self::Unsupported => "it is not a file, a folder or a symbolic link",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cause_has_one_name_and_reads_back() {
        for cause in FailureCause::ALL {
            assert_eq!(FailureCause::named(cause.name()), Some(cause));
            assert_eq!(format!("\"{}\"", cause.name()), serde_json::to_string(&cause).unwrap());
        }
    }
}
