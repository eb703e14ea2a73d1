//! Packed blocks: hundreds of small files, each made, written, dated and closed as soon as its bytes are here.

use std::io::{self, ErrorKind, IoSlice};
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use terahaul_core::{EntryIndex, Mtime, Owner, PackedFile};
use terahaul_store::{BlockWriter, SinkError};

use super::dress::PERMISSIONS;
use super::folders::unknown;
use super::parts::{Parts, write_all};
use super::{TreeSink, close, said_of_name, times};
use crate::beneath::printable;
use crate::failpoint;
use crate::owners::{Ids, LastOwner};
use crate::table::FolderId;

struct SmallFile {
    entry: EntryIndex,
    len: u32,
    folder: FolderId,
    name: Range<usize>,
    mtime: Mtime,
    mode: u32,
    /// Whose it was, where that is kept.
    owner: Option<Arc<Owner>>,
    unwanted: bool,
    /// It is staged in `again/`, under this name.
    again: Option<Box<[u8]>>,
}

/// A folder that files are made in.
struct Here {
    id: FolderId,
    folder: Arc<OwnedFd>,
    /// Whose a file made in it is: the system decides that by this process and the folder, so one file tells it of all.
    born: Option<Ids>,
}

pub(super) struct PackedWriter<'a> {
    sink: &'a TreeSink,
    files: Vec<SmallFile>,
    names: Vec<u8>,
    at: usize,
    /// Bytes that the file at `at` still lacks.
    left: usize,
    /// The file at `at`, when its bytes came in several calls.
    open: Option<OwnedFd>,
    here: Option<Here>,
    last_owner: LastOwner,
}

impl TreeSink {
    pub(super) fn begin_packed(&self, packed: &[PackedFile]) -> Result<PackedWriter<'_>, SinkError> {
        // Copied out under one lock, so that writing holds up nobody who appends.
        let mut names = Vec::with_capacity(packed.len() * 16);
        let mut files = Vec::with_capacity(packed.len());
        let manifest = self.manifest();
        for &PackedFile { entry, len, .. } in packed {
            let row = manifest.table.row(entry).ok_or_else(|| unknown(entry))?;
            let mark = manifest.marks[entry.0 as usize];
            let start = names.len();
            names.extend_from_slice(row.name);
            files.push(SmallFile {
                entry,
                len,
                folder: row.folder,
                name: start..names.len(),
                mtime: row.mtime,
                mode: self.applied_mode(row.mode),
                owner: manifest.table.owner(entry).filter(|_| self.keep.owner).cloned(),
                unwanted: mark.unwanted,
                again: manifest.name_in_again(entry).map(Into::into),
            });
        }
        let left = files.first().map_or(0, |file| file.len as usize);
        Ok(PackedWriter {
            sink: self,
            files,
            names,
            at: 0,
            left,
            open: None,
            here: None,
            last_owner: LastOwner::default(),
        })
    }
}

impl PackedWriter<'_> {
    /// Makes the file at `at`.
    fn create(&mut self) -> Result<OwnedFd, SinkError> {
        let file = &self.files[self.at];
        if let Some(name) = &file.again {
            return self.sink.make_file(&self.sink.staging.again, name, file.mode);
        }
        let here = match &self.here {
            Some(here) if here.id == file.folder => here,
            _ => {
                let folder = self.sink.staged_folder(file.folder)?;
                self.here.insert(Here { id: file.folder, folder, born: None })
            }
        };
        self.sink.make_file(&here.folder, &self.names[file.name.clone()], file.mode)
    }

    /// Those of the block's files that are [lost](TreeSink::is_lost) by now: none, as a rule.
    fn lost(&self) -> Vec<EntryIndex> {
        let manifest = self.sink.manifest();
        let is_lost = |entry: &EntryIndex| manifest.marks[entry.0 as usize].lost;
        self.files.iter().map(|file| file.entry).filter(is_lost).collect()
    }

    /// `None`: the file system cannot have the file at `at` under its name, so its bytes are passed over.
    fn create_or_refuse(&mut self) -> Result<Option<OwnedFd>, SinkError> {
        match self.create() {
            Ok(made) => Ok(Some(made)),
            Err(error) => {
                self.sink.refuse_name(self.files[self.at].entry, error)?;
                self.files[self.at].unwanted = true;
                Ok(None)
            }
        }
    }

    /// The file at `at` has all its bytes.
    fn complete(&mut self, made: OwnedFd) -> io::Result<()> {
        // First: what is given away may not be this user's to date.
        rustix::fs::futimens(&made, &times(self.files[self.at].mtime))?;
        if self.lacks_dress(&made)? {
            self.sink.give_plain_bits(&made, self.files[self.at].mode);
            self.dress()?;
        }
        let file = &self.files[self.at];
        if self.sink.mode_made(file.mode) != file.mode {
            self.sink.give_mode(&made, file.entry, file.mode, PERMISSIONS)?;
        }
        if !self.sink.staging.answers_by_file {
            return Ok(());
        }
        match rustix::fs::fsync(&made) {
            // One that cannot be asked.
            Ok(()) | Err(Errno::INVAL | Errno::NOTSUP | Errno::NOSYS) => close(made),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Gives the file at `at` its owner and attributes, by its name: that goes at once when the file fails at the sender, of which
    /// another thread hears.
    fn dress(&self) -> io::Result<()> {
        let file = &self.files[self.at];
        let dressed = match (&file.again, &self.here) {
            (Some(name), _) => self.sink.dress(self.sink.staging.again.as_fd(), name, file.entry),
            (None, Some(here)) => {
                self.sink.dress(here.folder.as_fd(), &self.names[file.name.clone()], file.entry)
            }
            // It was made in one.
            (None, None) => return Ok(()),
        };
        match dressed {
            Err(error) if error.kind() == ErrorKind::NotFound && self.sink.is_lost(file.entry) => Ok(()),
            dressed => dressed.map(drop),
        }
    }

    /// Whether the file at `at`, which was just made, needs more than content, time and mode. Without a look at each: on a
    /// copy of many small files by root that would be one system call in six.
    fn lacks_dress(&mut self, made: &OwnedFd) -> io::Result<bool> {
        let (keep, file) = (self.sink.keep, &self.files[self.at]);
        if keep.xattrs || keep.acls || file.again.is_some() {
            return Ok(true);
        }
        let (Some(owner), Some(here)) = (&file.owner, &mut self.here) else { return Ok(false) };
        let wanted = self.last_owner.resolve(&self.sink.owners, owner);
        let born = match here.born {
            Some(born) => born,
            None => {
                let stat = rustix::fs::fstat(made)?;
                *here.born.insert(Ids { user: Some(stat.st_uid), group: Some(stat.st_gid) })
            }
        };
        let differs = |wanted: Option<u32>, born| wanted.is_some() && wanted != born;
        Ok(differs(wanted.user, born.user) || differs(wanted.group, born.group))
    }
}

/// Makes a new file. One of that name is what an interrupted attempt left, and goes.
pub(super) fn create(folder: &OwnedFd, name: &[u8], mode: u32) -> Result<OwnedFd, SinkError> {
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mode = Mode::from_raw_mode((mode & 0o777) as _);
    for _ in 0..3 {
        match failpoint::name(name).and_then(|()| rustix::fs::openat(folder, name, flags, mode)) {
            Err(Errno::EXIST) => match rustix::fs::unlinkat(folder, name, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(errno) => {
                    let path = printable(name);
                    return Err(SinkError::Tampered { path, detail: errno.to_string() });
                }
            },
            opened => return opened.map_err(|errno| io::Error::from(said_of_name(folder, errno)).into()),
        }
    }
    Err(SinkError::Tampered { path: printable(name), detail: "it keeps coming back".into() })
}

impl BlockWriter for PackedWriter<'_> {
    fn write(&mut self, parts: &[IoSlice<'_>]) -> Result<(), SinkError> {
        let mut parts = Parts::new(parts);
        let mut slices = Vec::new();
        while !parts.is_empty() {
            if self.at >= self.files.len() {
                return Err(SinkError::Io(io::Error::other("more bytes than the block has")));
            }
            let taken = parts.take(self.left, &mut slices);
            self.left -= taken;
            let made = match self.open.take() {
                _ if self.files[self.at].unwanted => None,
                Some(made) => Some(made),
                None => self.create_or_refuse()?,
            };
            if let Some(made) = made {
                let entry = self.files[self.at].entry;
                let failed = |error: io::Error| SinkError::from(error).at(|| self.sink.path_text(entry));
                write_all(&made, &mut slices, None).map_err(failed)?;
                if self.left == 0 {
                    self.complete(made).map_err(failed)?;
                } else {
                    self.open = Some(made);
                }
            }
            if self.left == 0 {
                self.at += 1;
                self.left = self.files.get(self.at).map_or(0, |file| file.len as usize);
            }
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<(), SinkError> {
        if self.at < self.files.len() {
            return Err(SinkError::Io(io::Error::other("fewer bytes than the block has")));
        }
        self.sink.dirty().everything = true;
        let lost = self.lost();
        // Of what was lost while an arrival of this block was under way, this one or one that was refused, it may have made files after what
        // was staged of them had gone: with the block recorded, the next run would take them for what was sent.
        for entry in &lost {
            self.sink.remove_staged(*entry)?;
        }
        let written = self.files.iter().filter(|file| !file.unwanted).map(|file| file.entry);
        self.sink.mark_written(written.filter(|entry| !lost.contains(entry)));
        Ok(())
    }
}
