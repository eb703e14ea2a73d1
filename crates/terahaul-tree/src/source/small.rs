//! Packed blocks: hundreds of small files, each opened, read, compared and closed.

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use terahaul_core::{EntryIndex, Mtime, PackedFile};
use terahaul_store::EntryFailure;

use super::{Outlet, Problem, TreeSource, compare};
use crate::beneath::open_to_read;
use crate::table::FolderId;

struct SmallFile {
    entry: EntryIndex,
    len: u32,
    folder: FolderId,
    name: Range<usize>,
    mtime: Mtime,
}

impl TreeSource {
    pub(super) fn read_packed(
        &self,
        files: &[PackedFile],
        outlet: &mut Outlet<'_>,
        failures: &mut Vec<EntryFailure>,
    ) -> io::Result<()> {
        // Copied out under one lock, so that reading holds up nobody who appends.
        let mut names = Vec::with_capacity(files.len() * 16);
        let mut wanted = Vec::with_capacity(files.len());
        {
            let table = self.table();
            for &PackedFile { entry, len, .. } in files {
                let row = table.row(entry);
                let start = names.len();
                names.extend_from_slice(row.map_or(b"", |row| row.name));
                let folder = row.map_or(FolderId::TOP, |row| row.folder);
                let mtime = row.map(|row| row.mtime).unwrap_or_default();
                wanted.push(SmallFile { entry, len, folder, name: start..names.len(), mtime });
            }
        }
        let mut here: Option<(FolderId, Arc<OwnedFd>)> = None;
        for file in &wanted {
            let name = &names[file.name.clone()];
            let known = here.take().filter(|(folder, _)| *folder == file.folder && *folder != FolderId::TOP);
            let folder = known.map_or_else(|| self.folder_of(file.folder, name), |(_, folder)| Ok(folder));
            let opened = folder.and_then(|folder| {
                let (_, folder) = here.insert((file.folder, folder));
                Ok(open_to_read(&*folder, name)?)
            });
            let opened = opened.or_else(|error| self.open_by_another_name(file.entry, error));
            if let Some(problem) = read_small(opened, file, outlet)? {
                failures.push(problem.of(file.entry));
            }
        }
        Ok(())
    }
}

/// Emits exactly the file's length, zeros from where reading failed.
fn read_small(
    opened: io::Result<OwnedFd>,
    file: &SmallFile,
    outlet: &mut Outlet<'_>,
) -> io::Result<Option<Problem>> {
    let mut left = file.len as usize;
    let opened = match opened {
        Ok(opened) => opened,
        Err(error) => {
            outlet.zeros(left)?;
            return Ok(Some(error.into()));
        }
    };
    let mut failed = None;
    while left > 0 {
        let space = outlet.space(left)?;
        match rustix::io::read(opened.as_fd(), &mut *space) {
            Ok(0) => break,
            Ok(read) => {
                outlet.advance(read);
                left -= read;
            }
            Err(rustix::io::Errno::INTR) => {}
            Err(errno) => {
                failed = Some(Problem::from(errno));
                break;
            }
        }
    }
    let same = match rustix::fs::fstat(&opened) {
        Ok(stat) => compare(&stat, u64::from(file.len), file.mtime),
        Err(errno) => Err(errno.into()),
    };
    // What the file is now explains a failed read better than the error does.
    let mut problem = same.err().or(failed);
    if left > 0 {
        outlet.zeros(left)?;
        problem.get_or_insert_with(|| Problem::ended_early(left));
    }
    Ok(problem)
}
