//! Copies of trees, as a first run of a copying program leaves them: with the times of all that is in them.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, utimensat};

use super::{WorkError, heed};

/// Copies the files and links `names` below `from` to below `to`, and the folders that they are in.
pub(super) fn copy(from: &Path, names: &[PathBuf], to: &Path, stop: &AtomicBool) -> Result<(), WorkError> {
    fs::create_dir_all(to).map_err(WorkError::file("created", to))?;
    let mut folders = BTreeSet::from([Path::new("")]);
    for name in names {
        let (old, new) = (from.join(name), to.join(name));
        let above = name.parent().unwrap_or(Path::new(""));
        if !folders.contains(above) {
            let above = to.join(above);
            fs::create_dir_all(&above).map_err(WorkError::file("created", &above))?;
        }
        folders.extend(name.ancestors().skip(1));
        heed(stop).and_then(|()| copy_one(&old, &new)).map_err(WorkError::file("copied", &old))?;
    }
    // What is made in a folder changes its time, so these come last; dating what is in one does not.
    for folder in folders {
        let new = to.join(folder);
        date_as(&from.join(folder), &new).map_err(WorkError::file("dated", &new))?;
    }
    Ok(())
}

fn copy_one(old: &Path, new: &Path) -> io::Result<()> {
    if old.is_symlink() {
        std::os::unix::fs::symlink(fs::read_link(old)?, new)?;
    } else {
        fs::copy(old, new)?;
    }
    date_as(old, new)
}

fn date_as(old: &Path, new: &Path) -> io::Result<()> {
    let status = old.symlink_metadata()?;
    let time = Timespec { tv_sec: status.mtime(), tv_nsec: status.mtime_nsec() };
    let times = Timestamps { last_access: time, last_modification: time };
    Ok(utimensat(CWD, new, &times, AtFlags::SYMLINK_NOFOLLOW)?)
}
