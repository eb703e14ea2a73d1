//! Folders that let this process write for as long as it publishes: what an interrupted one has left so is closed by the next run.
//!
//! New ones lack the owner's bits only once all is in them, and those of this user's own that were opened up get back what they had.
//! The file `open` of the staging folder says which: records of length and permission bits (4 bytes each, little-endian) and path. A
//! torn last one is not believed.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::PoisonError;

use rustix::fs::{Access, AtFlags, OFlags};

use super::settle::is_gone;
use crate::TreeSink;
use crate::beneath::{Purpose, open_folder};
use crate::failpoint;
use crate::read_only::{self, OWNER, TO_CHANGE, TO_SWEEP, close_again, closed_mode, open_own};
use crate::sink::sync_file_system;
use crate::staging::{OPEN, Staging};
use crate::table::RowKind;

impl TreeSink {
    /// Notes the folders that will be placed with more bits than they are to have. What is noted is as durable as the next sync of
    /// the file system makes it.
    pub(super) fn note_new_read_only(&self) -> io::Result<()> {
        let mut records = Vec::new();
        for item in
            self.wanted_where(0..self.entry_count(), |kind, mark| kind == RowKind::Directory && !mark.there)
        {
            if item.mode & OWNER != OWNER
                && let Some(path) = self.manifest().table.path(item.index)
            {
                add(&mut records, path.as_bytes(), item.mode);
            }
        }
        self.staging.append_open(&records).map(drop)
    }

    /// Lets this process write into the folder at `path` until [`settle`](Self::settle).
    pub(super) fn open_up(&self, folder: &OwnedFd, path: &[u8]) -> io::Result<()> {
        self.open_up_for(TO_CHANGE, folder, path).map(drop)
    }

    /// Lets it reach that folder and look through it for as long; `false` where nothing had to be opened up, or can be.
    pub(crate) fn open_up_to_sweep(&self, path: &[u8]) -> io::Result<bool> {
        let slashes = (0..path.len()).filter(|&at| path[at] == b'/');
        let mut any = false;
        for end in [0].into_iter().chain(slashes).chain([path.len()]) {
            let folder = open_folder(self.staging.root.as_fd(), &path[..end], Purpose::Pass)?;
            any |= self.open_up_for(TO_SWEEP, &folder, &path[..end])?;
        }
        Ok(any)
    }

    fn open_up_for(&self, needed: Access, folder: &OwnedFd, path: &[u8]) -> io::Result<bool> {
        let Some(mode) = closed_mode(folder.as_fd(), needed)? else { return Ok(false) };
        let is_first = self.opened.lock().unwrap_or_else(PoisonError::into_inner).is_empty();
        self.staging.note_open(path, mode, is_first)?;
        failpoint::point()?;
        // What is to be done in it fails then, and is told of each by its name.
        if let Err(error) = read_only::open(folder.as_fd(), mode) {
            tracing::debug!("{} stays read-only: {error}", path.escape_ascii());
            return Ok(false);
        }
        self.opened.lock().unwrap_or_else(PoisonError::into_inner).push((path.into(), mode));
        Ok(true)
    }

    /// Closes what an interrupted publishing has left open, where it still is as that has left it.
    pub(crate) fn close_left_open(&self) -> io::Result<()> {
        let left = self.staging.read_left(OPEN)?;
        let noted: Vec<_> = records(&left).collect();
        let mut all = true;
        // Inner ones were noted behind those that they are in, and closed, these may not be reached.
        for (path, mode) in noted.iter().rev() {
            let closed = open_folder(self.staging.root.as_fd(), path, Purpose::Pass)
                .and_then(|folder| close_again(folder.as_fd(), *mode));
            if let Err(error) = closed {
                tracing::debug!("{} is not closed again: {error}", path.escape_ascii());
                if !is_gone(&error) {
                    // The end tries again.
                    self.opened.lock().unwrap_or_else(PoisonError::into_inner).push(((*path).into(), *mode));
                    all = false;
                }
            }
        }
        // Once: the bits that its owner gives such a folder from now on are meant.
        if all && !noted.is_empty() {
            sync_file_system(&self.staging.root)?;
            failpoint::point()?;
            rustix::fs::unlinkat(&self.staging.folder, OPEN, AtFlags::empty())?;
        }
        Ok(())
    }
}

impl Staging {
    /// Notes a folder that is to be opened up, and the bits that it has: of whatever an interrupted run has opened the next one has to know.
    /// The file of those may have to be made for the first one.
    pub(crate) fn note_open(&self, path: &[u8], mode: u32, is_first: bool) -> io::Result<()> {
        let mut record = Vec::new();
        add(&mut record, path, mode);
        // The folder may be open on the disk long before this is there by itself.
        if let Some(file) = self.append_open(&record)? {
            file.sync_data()?;
            if is_first {
                rustix::fs::fsync(&self.folder)?;
            }
        }
        Ok(())
    }

    fn append_open(&self, records: &[u8]) -> io::Result<Option<File>> {
        if records.is_empty() {
            return Ok(None);
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::APPEND;
        let mut file = File::from(open_own(&self.folder, OPEN.as_bytes(), flags)?);
        file.write_all(records)?;
        Ok(Some(file))
    }
}

/// Paths and modes, up to a record that is not whole.
fn records(mut bytes: &[u8]) -> impl Iterator<Item = (&[u8], u32)> {
    std::iter::from_fn(move || {
        let (path, mode, behind) = split_record(bytes)?;
        bytes = behind;
        Some((path, mode))
    })
}

fn add(records: &mut Vec<u8>, path: &[u8], mode: u32) {
    records.extend_from_slice(&(path.len() as u32).to_le_bytes());
    records.extend_from_slice(&mode.to_le_bytes());
    records.extend_from_slice(path);
}

/// The first record's path and mode, and what is behind it.
fn split_record(records: &[u8]) -> Option<(&[u8], u32, &[u8])> {
    let (len, rest) = records.split_first_chunk::<4>()?;
    let (mode, rest) = rest.split_first_chunk::<4>()?;
    let (path, rest) = rest.split_at_checked(u32::from_le_bytes(*len) as usize)?;
    Some((path, u32::from_le_bytes(*mode), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_torn_record_is_not_believed() {
        let mut bytes = Vec::new();
        add(&mut bytes, b"a/b", 0o555);
        add(&mut bytes, b"", 0o500);
        let whole = bytes.len();
        for len in 0..=whole {
            let found: Vec<_> = records(&bytes[..len]).collect();
            let all = [(&b"a/b"[..], 0o555), (&b""[..], 0o500)];
            assert_eq!(found, all[..found.len()]);
            assert_eq!(found.len(), usize::from(len >= 11) + usize::from(len == whole));
        }
    }
}
