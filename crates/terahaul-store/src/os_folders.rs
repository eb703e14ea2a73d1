//! The directory store's folders on a real file system.

use std::fs::{DirBuilder, File};
use std::io::{self, IoSlice};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use rustix::fs::{
    AtFlags, Dir, FallocateFlags, FileType, FsWord, Mode, OFlags, RenameFlags, fallocate, fchmod, fstat,
    fstatfs, fstatvfs, fsync, mkdirat, openat, renameat, renameat_with, unlinkat,
};
use rustix::io::{Errno, pwritev, retry_on_intr};

use crate::{FlatFile, Folders, StorePlace};

const PRIVATE_FOLDER: Mode = Mode::RWXU;
const PRIVATE_FILE: Mode = Mode::RUSR.union(Mode::WUSR);
/// Most parts that one system call takes (`IOV_MAX` on Linux).
const MAX_PARTS: usize = 1024;
/// What `st_blocks` counts in, whatever the file system's own blocks are.
const BLOCK_UNIT: u64 = 512;
/// `TMPFS_MAGIC` of `linux/magic.h`.
const TMPFS: FsWord = 0x0102_1994;

/// `incoming/` and `published/` under one root, reached through descriptors that stay open.
#[derive(Debug)]
pub struct OsFolders {
    incoming: File,
    published: File,
    /// Whether the file system sets blocks aside cheaply. tmpfs fills them with zeros instead.
    reserves: bool,
}

impl OsFolders {
    /// Opens or makes the folders, for their owner alone. The root may be a symbolic link; what is in it may not.
    pub fn open(root: &Path) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(root)?;
        let top = File::open(root)?;
        let incoming = subfolder(&top, "incoming")?;
        let published = subfolder(&top, "published")?;
        retry_on_intr(|| fsync(&top))?;
        if let Some(above) = root.canonicalize()?.parent()
            && let Ok(above) = File::open(above)
        {
            retry_on_intr(|| fsync(&above))?;
        }
        let reserves = fstatfs(&top)?.f_type != TMPFS;
        Ok(Self { incoming, published, reserves })
    }

    fn folder(&self, place: StorePlace) -> &File {
        match place {
            StorePlace::Incoming => &self.incoming,
            StorePlace::Published => &self.published,
        }
    }

    fn open_with(&self, place: StorePlace, name: &str, flags: OFlags) -> io::Result<OsFile> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = retry_on_intr(|| openat(self.folder(place), name, flags, PRIVATE_FILE))?;
        if FileType::from_raw_mode(fstat(&file)?.st_mode) != FileType::RegularFile {
            return Err(io::Error::new(io::ErrorKind::InvalidData, format!("{name} is not a regular file")));
        }
        let writable = flags.contains(OFlags::RDWR);
        Ok(OsFile { file: file.into(), turn: Mutex::default(), writable, reserves: self.reserves })
    }
}

fn subfolder(top: &File, name: &str) -> io::Result<File> {
    match mkdirat(top, name, PRIVATE_FOLDER) {
        // A read-only disk still serves what it holds.
        Ok(()) | Err(Errno::EXIST | Errno::ROFS) => {}
        Err(error) => return Err(error.into()),
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = openat(top, name, flags, Mode::empty())?;
    if Mode::from_raw_mode(fstat(&folder)?.st_mode) != PRIVATE_FOLDER {
        fchmod(&folder, PRIVATE_FOLDER)?;
    }
    Ok(folder.into())
}

impl Folders for OsFolders {
    type File = OsFile;

    fn create(&self, place: StorePlace, name: &str) -> io::Result<OsFile> {
        self.open_with(place, name, OFlags::RDWR | OFlags::CREATE | OFlags::EXCL)
    }

    fn open(&self, place: StorePlace, name: &str) -> io::Result<OsFile> {
        match self.open_with(place, name, OFlags::RDWR) {
            Err(error) if error.kind() == io::ErrorKind::ReadOnlyFilesystem => {
                self.open_with(place, name, OFlags::RDONLY)
            }
            other => other,
        }
    }

    fn rename(&self, from: StorePlace, to: StorePlace, name: &str) -> io::Result<()> {
        let (from, to) = (self.folder(from), self.folder(to));
        match renameat_with(from, name, to, name, RenameFlags::NOREPLACE) {
            // Some network file systems do not know the flag; ids are unique, so there is nothing to replace.
            Err(Errno::INVAL | Errno::NOSYS) => Ok(renameat(from, name, to, name)?),
            other => Ok(other?),
        }
    }

    fn unlink(&self, place: StorePlace, name: &str) -> io::Result<()> {
        Ok(unlinkat(self.folder(place), name, AtFlags::empty())?)
    }

    fn names(&self, place: StorePlace) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(self.folder(place))? {
            if let Ok(name) = entry?.file_name().to_str() {
                names.push(name.to_owned());
            }
        }
        Ok(names)
    }

    fn sync(&self, place: StorePlace) -> io::Result<()> {
        Ok(retry_on_intr(|| fsync(self.folder(place)))?)
    }

    fn free_space(&self) -> io::Result<Option<u64>> {
        Ok(Some(free_space(&self.incoming)?))
    }
}

fn free_space(file: &File) -> io::Result<u64> {
    let space = fstatvfs(file)?;
    Ok(space.f_bavail.saturating_mul(space.f_frsize))
}

/// A file of the directory store.
#[derive(Debug)]
pub struct OsFile {
    file: File,
    /// Writers of one file take turns here rather than in the kernel, where they spin on the inode's lock: with as
    /// many channels as processors that spinning is taken from the other end of the transfer.
    turn: Mutex<()>,
    writable: bool,
    reserves: bool,
}

impl OsFile {
    fn check_writable(&self) -> io::Result<()> {
        if self.writable { Ok(()) } else { Err(io::ErrorKind::ReadOnlyFilesystem.into()) }
    }

    /// Refuses `len` bytes that cannot fit, even if all that the file holds already is part of them. The file system
    /// would find out by taking all there is before it gives it back, and meanwhile everybody else's disk is full.
    fn check_room(&self, len: u64) -> io::Result<()> {
        let held = self.file.metadata()?.blocks().saturating_mul(BLOCK_UNIT);
        let fits = len.saturating_sub(held) <= free_space(&self.file)?;
        if fits { Ok(()) } else { Err(io::ErrorKind::StorageFull.into()) }
    }

    /// Grows the file to `end` bytes. Allocating its last byte never shrinks a file that another thread is growing,
    /// as setting its length might.
    fn grow(&self, end: u64) -> io::Result<()> {
        let last = end - 1;
        match retry_on_intr(|| fallocate(&self.file, FallocateFlags::empty(), last, 1)) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
                // Without it a length set too late is the worst there is, and only where writes overtake `reserve`.
                if self.file.metadata()?.len() < end { self.file.set_len(end) } else { Ok(()) }
            }
            other => Ok(other?),
        }
    }
}

impl FlatFile for OsFile {
    fn reserve(&self, offset: u64, len: u64) -> io::Result<()> {
        self.check_writable()?;
        if len == 0 {
            return Ok(());
        }
        let end = offset.checked_add(len).ok_or(io::ErrorKind::FileTooLarge)?;
        if !self.reserves {
            return self.grow(end);
        }
        self.check_room(len)?;
        match retry_on_intr(|| fallocate(&self.file, FallocateFlags::empty(), offset, len)) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => self.grow(end),
            other => Ok(other?),
        }
    }

    fn write_at(&self, mut offset: u64, parts: &[IoSlice<'_>]) -> io::Result<()> {
        self.check_writable()?;
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        for mut parts in parts.chunks(MAX_PARTS) {
            while !parts.is_empty() {
                let written = retry_on_intr(|| pwritev(&self.file, parts, offset))?;
                offset += written as u64;
                let (whole, rest) = split_written(parts, written);
                parts = &parts[whole..];
                if rest > 0 {
                    // Ended inside a part, which is rare: its rest goes alone, so that no list has to be rebuilt.
                    let part = &parts[0][rest..];
                    self.file.write_all_at(part, offset)?;
                    offset += part.len() as u64;
                    parts = &parts[1..];
                } else if written == 0 && !parts.is_empty() {
                    return Err(io::ErrorKind::WriteZero.into());
                }
            }
        }
        Ok(())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(buffer, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }
}

/// How many of `parts` are wholly within the first `written` bytes, and how many bytes of the next one are.
fn split_written(parts: &[IoSlice<'_>], mut written: usize) -> (usize, usize) {
    for (at, part) in parts.iter().enumerate() {
        if written < part.len() {
            return (at, written);
        }
        written -= part.len();
    }
    (parts.len(), 0)
}
