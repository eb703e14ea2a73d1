//! A user's folders: walked and read by a sender, written and published by a receiver.

mod beneath;
mod contents;
pub mod decision;
mod failpoint;
mod file_journal;
mod filter;
mod fingerprint;
mod journal;
mod keep;
mod listing;
mod matching;
mod owners;
mod positional;
mod publish;
mod read_only;
mod recent;
mod resumed;
mod rights;
mod room;
mod roots;
mod salvage;
mod sink;
mod source;
mod staging;
mod survey;
mod sweep;
mod table;
mod top;
mod verify;
mod walk;
mod xattrs;

pub use file_journal::{FileJournal, Pieces};
pub use filter::{
    Filter, FilterError, LineEnd, ListError, PatternError, Rule, RuleError, Sense, read_list, read_rules,
};
pub use fingerprint::{Fingerprint, Fingerprinter};
pub use journal::Journal;
pub use keep::{Keep, Permissions};
pub use matching::{NamePattern, expand};
pub use owners::home_of;
pub use publish::{
    Collision, Copying, Existing, ExistingFolder, Overwrite, PublishError, Published, TOO_MUCH,
};
pub use read_only::{make_folders, remove_opening_up};
pub use resumed::RestoreError;
pub use room::{NoRoom, Room};
pub use roots::{RootError, Roots};
pub use sink::{AppendError, OpenBasis, Refusal, TreeSink};
pub use source::{LargeFile, TreeSource};
pub use staging::{OpenError, foretell_unwritable, staging_folder};
pub use survey::{Alike, FolderPrints, Places, Survey, SurveyError};
pub use sweep::{Sweep, SweepError, Sweeping, Swept};
pub use table::{EntryTable, TableFull};
pub use top::Top;
pub use verify::{Verdict, VerifyError, verify};
pub use walk::{Batch, FoldersAbove, Lack, Reading, Skipped, walk, walk_reading};

#[cfg(test)]
mod tests;
