//! The transfers of a depot, from the first entry to removal.
//!
//! | state | in memory | on |
//! |---|---|---|
//! | open | [`Live`] while someone sends, nothing when idle | `create`, [`reopen`] |
//! | complete, partial | [`Published`] while someone reads; of a partial one a [`Live`], too, while someone may send more | `finish` |
//!
//! What a transfer is doing is decided under its slot's lock in the [`Registry`], so that finishing, reopening,
//! deleting and dropping from memory never overlap. The database is the truth; the store follows it:
//! an object is made before its row and published before its row says so, and start-up repairs what was
//! interrupted in between.

mod append;
mod create;
mod entry_hashes;
mod entry_list;
mod extents;
mod fail;
mod failures;
mod finish;
mod free;
mod generation;
mod info;
mod known_values;
mod ledger;
mod live;
mod load;
mod manifest_reader;
mod page;
mod path_set;
mod published;
mod reader;
pub(crate) mod recover;
mod registry;
mod remove;
mod reopen;
mod source;
mod space;
pub(crate) mod sweep;
mod term;
mod unit;

pub use append::{Appended, Placed};
pub use create::{CreateTransfer, Created};
pub use entry_list::{EntryRecord, EntryState};
pub use extents::Extents;
pub use failures::Failure;
pub(crate) use failures::NamedFailures;
pub(crate) use finish::Asker;
pub use finish::Finished;
pub(crate) use generation::Unmarked;
pub use info::TransferInfo;
pub use live::Live;
pub use manifest_reader::{ManifestBatch, ManifestReader};
pub use page::{Before, Page};
pub use published::Published;
pub(crate) use reader::Reader;
pub(crate) use registry::Registry;
pub(crate) use unit::Unit;
