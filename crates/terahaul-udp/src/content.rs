//! Which of a block's bytes are content: its value follows them, and is nothing that anybody waits for.

use std::ops::Range;

use terahaul_wire::packet::VALUE_LEN;

/// The part of `range` that is content, in a block of `total` bytes with its value.
pub(crate) fn content_in(range: Range<u64>, total: usize) -> Range<u64> {
    let end = (total as u64).saturating_sub(VALUE_LEN.into());
    range.start.min(end)..range.end.min(end)
}
