//! Giving everything that was received its final name.
//!
//! | step | what | when it is interrupted |
//! |---|---|---|
//! | check | nothing in the receiving folder is in the way | nothing has changed |
//! | prepare | empty files, folders, links, times and modes, all in staging | done again |
//! | sync, mark | all is durable in staging, and `ready` says which entries that is | prepared again; what has its name already is left alone |
//! | move | each item to its final name, by rename; folders that exist are merged | what is still staged is moved |
//! | settle | times and modes of folders that moving has touched | done again |
//! | sync, remove | the staging folder goes, its journal first | what is left is removed by the next run |
//!
//! A copy does the same without a mark, in two halves, between which the receiving folder may be swept. Its manifest is made anew by each run,
//! so an interrupted one begins again: what is in its place already is then found to be the same.

mod across;
mod collisions;
mod folding;
mod leading;
mod left_beside;
mod left_open;
mod moves;
mod names;
mod prepare;
mod ready;
mod settle;
mod touch;
mod way;

use std::io;
use std::ops::Range;
use std::path::PathBuf;

use terahaul_core::{EntryIndex, Mtime};
use terahaul_store::SinkError;

use crate::TreeSink;
use crate::decision::Rules;
use crate::failpoint;
use crate::sink::{Mark, sync_file_system};
use crate::sweep::{Sweeping, Swept};
use crate::table::{FolderId, RowKind};
pub use collisions::{Collision, Existing, ExistingFolder};
pub(crate) use folding::Listings;
pub(crate) use moves::{in_moving_order, rename_new};
pub(crate) use ready::Ready;
pub(crate) use settle::closed_to_others;
pub(crate) use touch::{SET_GROUP, before_or_after, set_mode};
use way::Clearing;
pub(crate) use way::Way;
pub use way::{Copying, TOO_MUCH};

/// What to do with files that exist under the names of received ones. Folders are merged either way, and a link is
/// never followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overwrite {
    /// Leave everything as it is and say what is in the way.
    #[default]
    Refuse,
    /// Replace files and links, each at once; never a folder by a file or a file by a folder.
    Replace,
}

/// What was published.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Published {
    /// Regular files.
    pub files: u64,
    /// Bytes in them.
    pub bytes: u64,
    /// Folders that are entries.
    pub folders: u64,
    /// Symbolic links.
    pub links: u64,
    /// What was removed to make way.
    pub cleared: Sweeping,
}

/// Why not everything has its final name. Nothing is lost: publishing again goes on where it stopped.
#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    /// Something else has the names already.
    #[error("{}", collisions::describe(.0))]
    Collisions(Vec<Collision>),
    /// A folder in the receiving folder is on another disk, where a rename does not reach.
    #[error(
        "{path} would be on another file system than the folder that receives: receive into a new folder on that one and move what is in it from there"
    )]
    OtherFileSystem {
        /// Which.
        path: String,
    },
    /// A file system below the receiving folder has no room.
    #[error(
        "the file system that {path} is on is full: free some space there, then run the same command again"
    )]
    FullBelow {
        /// What was to be placed.
        path: String,
        /// What the system said.
        source: io::Error,
    },
    /// The receiving folder was moved, replaced or mounted over meanwhile.
    #[error(
        "{} does not lead to the folder any more that this was received into, and what has arrived is there: put it back and run the same command again",
        .0.display()
    )]
    Moved(PathBuf),
    /// A wanted file is not all there: the caller published too early, or somebody changed the staging folder.
    #[error(
        "{path} is missing, or not complete in the staging folder: run the same command again, which receives it anew; if that stays so, remove that folder first"
    )]
    Incomplete {
        /// Which.
        path: String,
    },
    /// The file system failed.
    #[error(transparent)]
    Sink(#[from] SinkError),
}

impl From<io::Error> for PublishError {
    fn from(error: io::Error) -> Self {
        Self::Sink(error.into())
    }
}

impl From<rustix::io::Errno> for PublishError {
    fn from(errno: rustix::io::Errno) -> Self {
        io::Error::from(errno).into()
    }
}

/// An entry's row by value, so that no lock is held while the file system works.
struct Item {
    index: EntryIndex,
    folder: FolderId,
    name: Vec<u8>,
    kind: RowKind,
    size: u64,
    mtime: Mtime,
    mode: u32,
    target: Vec<u8>,
    mark: Mark,
}

impl TreeSink {
    /// Gives all wanted entries their final names. Their blocks must be durable. Interrupted at any point, it can be
    /// called again, by another process too. The sink is of no more use after it.
    pub fn publish(&self, overwrite: Overwrite) -> Result<Published, PublishError> {
        self.check_not_moved()?;
        self.want_what_leads();
        let entries = self.entry_count();
        if self.wanted(0..entries).all(|item| item.mark.there) {
            // Nothing was received, so there is nothing to sync.
            self.settle()?;
            self.staging.remove()?;
            return Ok(Published::default());
        }
        if !self.ready.is_empty() {
            for index in 0..entries as u32 {
                self.was_moved(EntryIndex(index))?;
            }
        }
        self.check_collisions(0..entries, overwrite)?;
        self.prepare(0..entries)?;
        failpoint::point()?;
        sync_file_system(&self.staging.folder)?;
        self.mark_ready()?;
        self.move_all(Way::Receive(overwrite))?;
        self.settle()?;
        sync_file_system(&self.staging.folder)?;
        failpoint::point()?;
        self.staging.remove()?;
        self.check_not_moved()?;
        Ok(self.published())
    }

    /// Whoever goes on as if all were there, and removes the source, is to be told first.
    fn check_not_moved(&self) -> Result<(), PublishError> {
        self.staging.moved_from().map_or(Ok(()), |dir| Err(PublishError::Moved(dir.into())))
    }

    fn published(&self) -> Published {
        let mut published = Published::default();
        let manifest = self.manifest();
        let is_placed = |mark: &Mark| !mark.unwanted && !mark.there && !mark.leads;
        for (index, _) in manifest.marks.iter().enumerate().filter(|(_, mark)| is_placed(mark)) {
            let Some(row) = manifest.table.row(EntryIndex(index as u32)) else { continue };
            match row.kind {
                RowKind::File => {
                    published.files += 1;
                    published.bytes += row.size;
                }
                RowKind::Directory => published.folders += 1,
                RowKind::Symlink => published.links += 1,
            }
        }
        published
    }

    /// A copy's first half: all wanted entries get their final names. Their blocks must be durable. What cannot be placed
    /// is [refused](Self::refusals), and the rest goes on. `tell` hears of what is removed to make way.
    pub fn publish_copy(
        &self,
        copying: Copying<'_>,
        tell: &mut dyn FnMut(Swept<'_>),
    ) -> Result<Published, PublishError> {
        self.check_not_moved()?;
        self.refuse_second_names();
        self.lose_below_refused();
        self.note_what_stays(&copying.rules);
        let nothing = self.manifest().marks.iter().all(|mark| mark.unwanted || mark.there);
        if nothing {
            return Ok(Published::default());
        }
        self.handle_change();
        self.prepare_copy()?;
        self.note_new_read_only()?;
        failpoint::point()?;
        sync_file_system(&self.staging.folder)?;
        self.close_to_others()?;
        let clearing = Clearing::new(copying, tell);
        self.move_all(Way::Copy(&clearing))?;
        // What is in the place of such a file is not the sender's, and gets no further names.
        self.lose_below_refused();
        self.name_again(Way::Copy(&clearing))?;
        clearing.sync_elsewhere()?;
        self.lose_below_refused();
        Ok(Published { cleared: clearing.done(), ..self.published() })
    }

    /// A copy's second half, after a [sweep](Self::sweep): metadata of what stays, if it still is what it was by these rules,
    /// times and modes of folders. What cannot be set is a [shortfall](Self::shortfalls). The sink is of no more use after it.
    pub fn conclude_copy(&self, rules: &Rules) -> Result<(), PublishError> {
        self.touch_all(rules)?;
        self.settle()?;
        if self.has_changed() {
            sync_file_system(&self.staging.folder)?;
            if self.staging.is_apart()? {
                sync_file_system(&self.staging.root)?;
            }
        }
        failpoint::point()?;
        match self.has_changed() {
            true => self.staging.remove()?,
            false => self.staging.remove_without_a_trace()?,
        }
        self.check_not_moved()
    }

    fn item(&self, index: usize) -> Option<Item> {
        let manifest = self.manifest();
        let row = manifest.table.row(EntryIndex(index as u32))?;
        Some(Item {
            index: EntryIndex(index as u32),
            folder: row.folder,
            name: row.name.to_vec(),
            kind: row.kind,
            size: row.size,
            mtime: row.mtime,
            mode: self.applied_mode(row.mode),
            target: row.target.to_vec(),
            mark: manifest.marks[index],
        })
    }

    fn wanted(&self, range: Range<usize>) -> impl Iterator<Item = Item> {
        self.wanted_where(range, |_, _| true)
    }

    /// Those of the wanted entries that are of such a kind and mark. Names are copied only of these.
    fn wanted_where(
        &self,
        range: Range<usize>,
        fits: impl Fn(RowKind, &Mark) -> bool,
    ) -> impl Iterator<Item = Item> {
        let is_wanted = move |index: &usize| {
            let manifest = self.manifest();
            let mark = &manifest.marks[*index];
            let row = manifest.table.row(EntryIndex(*index as u32));
            !mark.unwanted && row.is_some_and(|row| fits(row.kind, mark))
        };
        range.filter(is_wanted).filter_map(|index| self.item(index))
    }
}
