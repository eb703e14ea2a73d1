//! The pure core of Terahaul: what a transfer *is*.
//!
//! A transfer's files are laid end to end into one flat range of bytes, cut into blocks of 4 MiB. Everything in
//! this crate speaks of that range: [`Layout`] maps entries to addresses, [`BlockHasher`] gives each block its
//! value, [`BlockSet`] says which blocks have arrived, [`BlockQueue`] says which to send next.
//!
//! Nothing here does I/O, reads a clock or draws a random number: time is an argument, so every state can be
//! tested by seed.

mod backoff;
mod block_hash;
mod block_queue;
mod block_set;
mod calendar;
mod channel_count;
mod compression;
pub mod delta;
mod entry;
mod extra;
mod failure;
mod file_hash;
mod group_sync;
mod layout;
mod pace;
mod path;
mod printable;
mod priority;
mod receipt;
mod receiver;
mod resume;
mod speedometer;
mod transport;
mod units;
mod ways;

pub use backoff::Backoff;
pub use block_hash::{BlockHasher, BlockProof, Hash};
pub use block_queue::{BlockQueue, ChannelId};
pub use block_set::{BlockRun, BlockSet};
pub use calendar::Date;
pub use channel_count::ChannelCount;
pub use compression::{Compress, Compression, Packing, PieceSent, Sampling};
pub use entry::{Entry, EntryKind, Mtime};
pub use extra::{Changed, Extra, ExtraError, MAX_NAME, MAX_XATTR_BYTES, MAX_XATTRS, Owner, Xattr};
pub use failure::{FailureCause, kept_detail};
pub use file_hash::{FileHasher, empty_file_hash, file_hash_from_values};
pub use group_sync::GroupSync;
pub use layout::{
    BlockContent, BlockShape, Extent, Layout, LayoutError, MAX_FILES_IN_BLOCK, PackedFile, PackedValue,
};
pub use pace::{Pace, Turn};
pub use path::{EntryPath, MAX_COMPONENT, MAX_DEPTH, MAX_PATH, PathError, take_below};
pub use printable::{Printable, PrintableText};
pub use priority::Priority;
pub use receipt::{
    PublicKey, Receipt, ReceiptEntry, ReceiptError, ReceiptFailure, ReceiptKind, RootHasher, SigningKey,
    Statement,
};
pub use receiver::{Admission, BlockRefusal, Receiver};
pub use resume::{Absent, Disposition, Resume};
pub use speedometer::Speedometer;
pub use transport::{Carrier, Transport};
pub use units::{
    Address, BLOCK_SIZE, BlockNumber, ByteCount, ByteCountError, EntryIndex, Rate, RateError, Span,
    TransferId,
};
pub use ways::{ALONE_SILENT, Act, NoUdp, STOPPED, Seen, SeenUdp, Way, Ways};
