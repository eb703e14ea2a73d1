//! The folder itself, where a source stands for what is in it: it is no entry, and yet gets its time, and with the sender's
//! permission bits and owners also these, at the destination.

use std::io;
use std::os::fd::AsFd;

use rustix::fs::AtFlags;
use terahaul_core::{Extra, Mtime};

use crate::beneath::{Purpose, open_folder};
use crate::listing::{mode_of, mtime_of};
use crate::publish::{before_or_after, closed_to_others, set_mode};
use crate::rights;
use crate::sink::times;
use crate::walk::{Carried, Reading};
use crate::xattrs::is_too_much;
use crate::{Keep, Permissions, RootError, Roots, TreeSink};

/// What is kept of such a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Top {
    /// Its permission bits.
    pub mode: u32,
    /// When it was last modified.
    pub mtime: Mtime,
    /// Its owner and attributes.
    pub extra: Option<Box<Extra>>,
}

impl Roots {
    /// Of the only source, if that stands for its content, and why it is without its attributes, where these are more than are kept.
    ///
    /// # Errors
    /// It cannot be looked at, or its attributes cannot be read: without them those at the destination would be removed.
    pub fn top(&self, keep: Keep) -> Result<Option<(Top, Option<io::Error>)>, RootError> {
        let mut roots = self.iter();
        let (Some(root), None) = (roots.next().filter(|root| root.name.is_none()), roots.next()) else {
            return Ok(None);
        };
        let unreadable = |source| RootError::Unreadable { path: root.typed.clone(), source };
        // Attributes are read by a path that the folder's own handle gives.
        let folder = open_folder(root.base(), b"", Purpose::List).map_err(unreadable)?;
        let stat = rustix::fs::fstat(&folder).map_err(|errno| unreadable(errno.into()))?;
        let reading = Reading { keep, ..Reading::default() };
        let (extra, lost) = Carried::new(reading).read(folder.as_fd(), b".", &stat);
        match lost {
            Some(source) if !is_too_much(&source) => {
                Err(RootError::Attributes { path: root.typed.clone(), source })
            }
            short => Ok(Some((Top { mode: mode_of(&stat), mtime: mtime_of(&stat), extra }, short))),
        }
    }
}

impl TreeSink {
    /// Takes from a receiving folder that is there what others could read by what is to be placed in it, where `top` lets nobody do so. What
    /// stands against that is told at the [end](Self::settle_top).
    pub fn close_top_to_others(&self, top: &Top) {
        if self.permissions() != Permissions::Exact {
            return;
        }
        let root = &self.staging.root;
        let close = || -> io::Result<()> {
            let is = mode_of(&rustix::fs::fstat(root)?);
            let shall = closed_to_others(is, self.applied_mode(top.mode));
            if is == shall { Ok(()) } else { set_mode(root.as_fd(), b".", shall) }
        };
        if let Err(error) = close() {
            tracing::debug!("the receiving folder stays open to others for now: {error}");
        }
    }

    /// Gives the receiving folder what is kept of `top`, once nothing in it changes any more. `made`: it was not there before.
    /// Returns what could not be set.
    pub fn settle_top(&self, top: &Top, made: bool) -> io::Result<Vec<String>> {
        let root = &self.staging.root;
        let (owner, xattrs) = match &top.extra {
            Some(extra) => (extra.owner.as_ref(), &extra.xattrs[..]),
            None => (None, &[][..]),
        };
        let ids = self.ids_of(owner);
        let dress = || self.dress_as(root.as_fd(), b".", ids, xattrs);
        let stat = rustix::fs::fstat(root)?;
        let set_time = || match mtime_of(&stat) == top.mtime {
            true => Ok(()),
            false => Ok(rustix::fs::utimensat(root, ".", &times(top.mtime), AtFlags::empty())?),
        };
        before_or_after(set_time, || {
            let (_, short) = self.opened_up_to_dress(root.as_fd(), b".", &stat, xattrs, dress)?;
            let now = rustix::fs::fstat(root)?;
            let mode = rights::given(self.folder_mode(self.applied_mode(top.mode), &now), ids, &now);
            let kept = made || self.permissions() == Permissions::Exact;
            if kept && mode != mode_of(&now) {
                set_mode(root.as_fd(), b".", mode)?;
            }
            Ok(short)
        })
    }
}
