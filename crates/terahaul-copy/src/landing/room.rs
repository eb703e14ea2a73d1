//! Whether what is wanted has room at the destination.

use std::io;

use terahaul_core::ByteCount;
use terahaul_tree::{NoRoom, Room, TreeSink};

use super::{Landing, State, partial_dir};
use crate::error::CopyError;

/// What a copy needs room for.
#[derive(Default)]
pub(super) struct Wanted {
    bytes: ByteCount,
    /// Those of files that may share with what they replace.
    may_share: ByteCount,
    room: Room,
}

impl Wanted {
    /// One of the files that are wanted, of this size, may share with what it replaces.
    pub(super) fn handle_sharing(&mut self, size: ByteCount) {
        self.may_share = ByteCount(self.may_share.0.saturating_add(size.0));
    }

    /// Files of these sizes are wanted, too; what has come of all of them takes `received` bytes.
    fn check(
        &mut self,
        sizes: &[Option<ByteCount>],
        sink: &TreeSink,
        received: impl FnOnce() -> ByteCount,
    ) -> io::Result<Option<NoRoom>> {
        let more = sizes.iter().flatten().map(|size| size.0).fold(0, u64::saturating_add);
        self.bytes = ByteCount(self.bytes.0.saturating_add(more));
        if more == 0 {
            return Ok(None);
        }
        // How much of these is shared turns out later: it may be all.
        let shared = if sink.shares_with_bases() { self.may_share } else { ByteCount(0) };
        let wanted = ByteCount(self.bytes.0.saturating_sub(shared.0));
        self.room.check(sink, wanted, received())
    }
}

impl Landing {
    /// Refuses to go on where what is wanted by now, with files of these sizes, does not fit.
    pub(super) fn check_room(&self, state: &mut State, sizes: &[Option<ByteCount>]) -> Result<(), CopyError> {
        let Some((sink, _)) = &self.staged else { return Ok(()) };
        let received = || self.inbound.with(|receiver| receiver.received_bytes());
        let checked = state.wanted.check(sizes, sink, received);
        match checked.map_err(CopyError::file(&self.base.folder, "asked for its free space"))? {
            None => Ok(()),
            Some(NoRoom { apart, free, more }) => {
                let folder = if apart { partial_dir(&self.base, &self.rules) } else { None };
                let folder = folder.unwrap_or_else(|| self.base.folder.clone());
                Err(CopyError::NoRoom { folder, free, more })
            }
        }
    }
}
