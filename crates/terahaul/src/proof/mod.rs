//! Checking what a depot signed against what this end has read or written itself.

mod hashes;
mod receipt_file;

pub use hashes::{RootCheck, check_root, file_hashes};
pub use receipt_file::ReceiptFile;
