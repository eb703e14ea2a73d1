//! Old files in the receiving folder that new ones are made of.
//!
//! They stay open from the time that a sender is told what is in them: what takes their name meanwhile is not read. One that is
//! changed in place is found out by the block's value, and costs that block.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::Mode;
use terahaul_core::{EntryIndex, Mtime};
use terahaul_store::BasisError;

use super::TreeSink;
use crate::beneath::{Purpose, open_folder, read_flags};
use crate::listing::{ctime_of, is_file, is_settled, size_of_file};
use crate::positional::read_up_to;

/// An old file of this length or longer takes a file system so long to remove that nobody should have to wait for it: it is kept
/// open until this process ends, as many of them as that is worth.
const LARGE: u64 = 64 << 20;
const MOST_KEPT: usize = 64;

/// Old files that are open.
#[derive(Default)]
pub(super) struct Bases(Mutex<Open>);

#[derive(Default)]
struct Open {
    in_use: BTreeMap<EntryIndex, Arc<OpenBasis>>,
    /// Nothing more is copied from these. Their last names are taken by what replaces them; their space is given back when
    /// they are closed.
    kept: Vec<Arc<OpenBasis>>,
}

/// An old file, as long as it was when it was opened.
pub struct OpenBasis {
    file: OwnedFd,
    size: u64,
    /// When it was last changed before it was opened, if that is known and so long ago that a later change has another time.
    changed: Option<Mtime>,
}

impl OpenBasis {
    fn new(file: OwnedFd) -> io::Result<Self> {
        let stat = rustix::fs::fstat(&file)?;
        if !is_file(&stat) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        Ok(Self { file, size: size_of_file(&stat), changed: None })
    }

    /// For bytes to be [shared](Self::share): every change from now on is one of its time. A page that somebody writes to by way of a
    /// mapping changes that only when it is first written to after it was written out.
    fn settle(&mut self) -> io::Result<()> {
        rustix::fs::fdatasync(&self.file)?;
        let stat = rustix::fs::fstat(&self.file)?;
        let is_settled = is_settled(&stat) && size_of_file(&stat) == self.size;
        self.changed = is_settled.then(|| ctime_of(&stat));
        Ok(())
    }

    /// Whether a change of this file from when it was opened on would be seen.
    pub(crate) fn is_settled(&self) -> bool {
        self.changed.is_some()
    }

    /// Has `file` share `len` bytes with this one, which begin there at `at` and here at `from`.
    pub(super) fn share(&self, from: u64, file: &OwnedFd, at: u64, len: usize) -> io::Result<()> {
        copy_range(&self.file, from, file, at, len)
    }

    /// Fills `buffer` with bytes that were shared before. `false` where they may have been others then, because somebody changes this
    /// file.
    ///
    /// They are read here, where they may be in memory; as the file has not been changed since it was opened, they are what was
    /// shared, or copied where the system could not share them.
    pub(super) fn read_unchanged(&self, from: u64, buffer: &mut [u8]) -> io::Result<bool> {
        self.read(from, buffer)?;
        Ok(self.changed == Some(ctime_of(&rustix::fs::fstat(&self.file)?)))
    }

    /// Its length in bytes when it was opened.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Fills `buffer` from `from` on. That it ends before is an error.
    pub fn read(&self, from: u64, buffer: &mut [u8]) -> io::Result<()> {
        match read_up_to(&self.file, buffer, from)? == buffer.len() {
            true => Ok(()),
            false => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

/// In the kernel, which shares what it can.
#[cfg(target_os = "linux")]
fn copy_range(from: &OwnedFd, mut at: u64, to: &OwnedFd, mut there: u64, len: usize) -> io::Result<()> {
    let end = at + len as u64;
    while at < end {
        let left = (end - at) as usize;
        if rustix::fs::copy_file_range(from, Some(&mut at), to, Some(&mut there), left)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn copy_range(_: &OwnedFd, _: u64, _: &OwnedFd, _: u64, _: usize) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

impl TreeSink {
    /// Opens the regular file that is in the entry's place, for its blocks to be copied from until
    /// [`close_basis`](Self::close_basis). `None` where there is none that can be read.
    pub fn open_basis(&self, entry: EntryIndex) -> Option<Arc<OpenBasis>> {
        let path = self.manifest().table.path(entry)?;
        let (folder, name) = path.split();
        let folder =
            open_folder(self.staging.root.as_fd(), folder.unwrap_or_default(), Purpose::Pass).ok()?;
        let file = rustix::fs::openat(&folder, name, read_flags(), Mode::empty()).ok()?;
        let mut basis = OpenBasis::new(file).ok()?;
        if self.shares.load(Ordering::Relaxed)
            && let Err(error) = basis.settle()
        {
            tracing::debug!("what is in {} is copied, not shared: {error}", self.path_text(entry));
        }
        let basis = Arc::new(basis);
        self.bases().in_use.insert(entry, Arc::clone(&basis));
        Some(basis)
    }

    /// The file that [`open_basis`](Self::open_basis) has opened for the entry.
    pub fn basis(&self, entry: EntryIndex) -> Option<Arc<OpenBasis>> {
        self.bases().in_use.get(&entry).cloned()
    }

    /// Nothing more of the entry is copied.
    pub fn close_basis(&self, entry: EntryIndex) {
        // There the server removes it, and an open one would have another name in the receiving folder meanwhile.
        let keeps = !self.staging.names_open_files();
        let mut bases = self.bases();
        let closed = bases.in_use.remove(&entry).filter(|basis| keeps && basis.size >= LARGE);
        let room = MOST_KEPT.saturating_sub(bases.kept.len());
        bases.kept.extend(closed.into_iter().take(room));
    }

    fn bases(&self) -> std::sync::MutexGuard<'_, Open> {
        self.bases.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn copy_from_basis(
        &self,
        entry: EntryIndex,
        from: u64,
        buffer: &mut [u8],
    ) -> Result<(), BasisError> {
        // The entry may have failed, or be here: then blocks that copy from its old file may still be on their way.
        let closed = || BasisError::Lost(io::Error::other("it is not open any more"));
        let basis = self.basis(entry).ok_or_else(closed)?;
        match from.checked_add(buffer.len() as u64) {
            Some(end) if end <= basis.size => basis.read(from, buffer).map_err(BasisError::Lost),
            _ => Err(BasisError::Outside),
        }
    }
}
