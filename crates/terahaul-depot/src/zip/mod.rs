//! A transfer as one ZIP file, made while it is sent.
//!
//! Nothing is compressed, so every offset follows from the manifest: the length is known before the first byte, and
//! a range can start anywhere. What the manifest does not know is CRC-32. Small files get theirs in front, since the
//! block that holds them is read whole; a file of a block or more gets it behind its data (a data descriptor; the
//! sizes are in front all the same). Checksums are computed block by block when first needed, combined for a file,
//! and kept in the database, so that a resumed download reads nothing twice.
//!
//! Names are UTF-8, marked so. In others each byte that is not becomes `%FF`, and each control character `%0A` or the like: programs
//! disagree about every other way (`unzip` in a UTF-8 locale loses such bytes). So that this gives no two the same name, `%` becomes `%25` there and wherever `%FF` or the
//! like stands in a name already. The native protocol and the API give the exact names.

mod checksums;
mod format;
mod plan;
mod stream;
mod writer;

pub(crate) use plan::{Plan, plan};
pub(crate) use stream::stream;

/// Counts up when the bytes that are made of the same transfer change.
pub(crate) const FORMAT: u32 = 6;
