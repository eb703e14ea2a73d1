//! The directory store's folders on a real file system.

use std::fs::File;
use std::io::{self, IoSlice};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use rustix::fs::{
    AtFlags, Dir, FallocateFlags, FileType, Mode, OFlags, RenameFlags, SeekFrom, fallocate, fchmod, fstat,
    fsync, mkdirat, openat, renameat, renameat_with, seek, statat, unlinkat,
};
use rustix::io::{Errno, pwritev, retry_on_intr};

use crate::{FlatFile, Folders, StorePlace, make_private_folders};

const PRIVATE_FOLDER: Mode = Mode::RWXU;
const PRIVATE_FILE: Mode = Mode::RUSR.union(Mode::WUSR);
/// Most parts that one system call takes (`IOV_MAX` on Linux).
const MAX_PARTS: usize = 1024;

/// `incoming/` and `published/` under one root, reached through descriptors that stay open.
#[derive(Debug)]
pub struct OsFolders {
    incoming: File,
    published: File,
}

impl OsFolders {
    /// Opens or makes the folders, for their owner alone. The root may be a symbolic link; what is in it may not.
    pub fn open(root: &Path) -> io::Result<Self> {
        make_private_folders(root)?;
        let top = File::open(root)?;
        let incoming = subfolder(&top, "incoming")?;
        let published = subfolder(&top, "published")?;
        check_together(&incoming, &published)?;
        retry_on_intr(|| fsync(&top))?;
        if let Some(above) = root.canonicalize()?.parent()
            && let Ok(above) = File::open(above)
        {
            retry_on_intr(|| fsync(&above))?;
        }
        Ok(Self { incoming, published })
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
        Ok(OsFile { file: file.into(), turn: Mutex::default(), writable })
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

/// Whether files can be moved between them, which is otherwise found out when a transfer is finished.
fn check_together(incoming: &File, published: &File) -> io::Result<()> {
    if fstat(incoming)?.st_dev != fstat(published)?.st_dev {
        return Err(Errno::XDEV.into());
    }
    // One file system may be mounted twice. A folder itself is moved nowhere, and for that they are looked at first.
    match renameat(incoming, ".", published, ".") {
        Err(Errno::XDEV) => Err(Errno::XDEV.into()),
        _ => Ok(()),
    }
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

    fn rename_within(&self, place: StorePlace, name: &str, new: &str) -> io::Result<()> {
        let folder = self.folder(place);
        Ok(renameat(folder, name, folder, new)?)
    }

    fn is_twice(&self, name: &str) -> io::Result<bool> {
        let [incoming, published] = [&self.incoming, &self.published].map(|folder| {
            match retry_on_intr(|| statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)) {
                Err(Errno::NOENT) => Ok(None),
                found => found.map(|file| Some((file.st_dev, file.st_ino))),
            }
        });
        let incoming = incoming?;
        Ok(incoming.is_some() && incoming == published?)
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
        crate::free_space(&self.incoming)
    }
}

/// A file of the directory store.
#[derive(Debug)]
pub struct OsFile {
    file: File,
    /// Writers of one file take turns here rather than in the kernel, where they spin on the inode's lock: with as
    /// many channels as processors that spinning is taken from the other end of the transfer.
    turn: Mutex<()>,
    writable: bool,
}

impl OsFile {
    fn check_writable(&self) -> io::Result<()> {
        if self.writable { Ok(()) } else { Err(io::ErrorKind::ReadOnlyFilesystem.into()) }
    }
}

impl FlatFile for OsFile {
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

    fn free(&self, offset: u64, len: u64) -> io::Result<bool> {
        self.check_writable()?;
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match retry_on_intr(|| fallocate(&self.file, hole, offset, len)) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(false),
            done => Ok(done.map(|()| true)?),
        }
    }

    fn end(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn takes(&self, len: u64) -> bool {
        // A seek beyond the longest file is refused, and one before that does nothing: what is read and written says itself where. To
        // lengthen the file would write all of it on FAT.
        !matches!(seek(&self.file, SeekFrom::Start(len)), Err(Errno::INVAL | Errno::OVERFLOW))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_between_which_nothing_can_be_moved_are_not_together() {
        let (root, Ok(other)) = (tempfile::tempdir().unwrap(), tempfile::tempdir_in("/dev/shm")) else {
            eprintln!("skipped: no /dev/shm here");
            return;
        };
        let inside = tempfile::tempdir_in(root.path()).unwrap();
        let [root, inside, other] = [&root, &inside, &other].map(|folder| File::open(folder.path()).unwrap());
        check_together(&root, &inside).unwrap();
        if fstat(&root).unwrap().st_dev != fstat(&other).unwrap().st_dev {
            let refused = check_together(&root, &other).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::CrossesDevices);
        }
    }
}
