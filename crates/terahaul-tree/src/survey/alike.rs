//! What of a sender's folders is here as it is there, by fingerprints: nobody needs to name it then.

use std::io;
use std::os::fd::AsFd;

use rayon::prelude::*;
use rustix::fs::{Dir, FileType, Stat};
use terahaul_core::EntryKind;

use super::Survey;
use crate::beneath::{Purpose, joined, open_folder, split};
use crate::listing::{Status, look_at, mode_of, mtime_of};
use crate::owners::LastFound;
use crate::staging::is_staging_name;
use crate::{Filter, Fingerprint, Fingerprinter};

/// A folder with so many more names than the sender has in it is not looked through: it may be anybody's home.
const MOST_OTHERS: usize = 4096;

/// What a sender has of one folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FolderPrints {
    /// Its path; empty for the folder whose content is sent.
    pub path: Box<[u8]>,
    /// Its own entry's fingerprint; the one whose content is sent has none.
    pub own: Option<Fingerprint>,
    /// Those of files and links in it.
    pub found: Vec<Fingerprint>,
}

/// What of a [`FolderPrints`] is here as it is there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Alike {
    /// The folder's own entry.
    pub own: bool,
    /// Those of the files and links, in their order.
    pub found: Vec<bool>,
    /// The paths of those that are, in any order, where they were asked for.
    pub paths: Vec<Vec<u8>>,
}

impl Alike {
    fn nothing(of: &FolderPrints) -> Self {
        Self { found: vec![false; of.found.len()], ..Self::default() }
    }
}

impl Survey {
    /// Whether anything is in the receiving folder, by one of these names where there are some.
    pub fn has_any<'a>(&self, names: impl IntoIterator<Item = &'a [u8]>) -> bool {
        let Some(root) = self.root() else { return false };
        let mut names = names.into_iter().peekable();
        match names.peek() {
            None => open_folder(root, b"", Purpose::List).is_ok(),
            Some(_) => names.any(|name| open_folder(root, name, Purpose::Pass).is_ok()),
        }
    }

    /// Looks through these folders, and tells the paths of what is alike if it is to be `named`. What `filter` leaves out, and what
    /// cannot be looked at, counts as different.
    pub fn alike(
        &self,
        maker: &Fingerprinter,
        folders: &[FolderPrints],
        filter: &Filter,
        named: bool,
    ) -> Vec<Alike> {
        let owner = LastFound::default();
        let looking = || Looking { survey: self, filter, named, maker: maker.clone(), owner: owner.clone() };
        let look = |looking: &mut Looking<'_>, folder: &FolderPrints| {
            looking.look_through(folder).unwrap_or_else(|_| Alike::nothing(folder))
        };
        self.threads.install(|| folders.par_iter().map_init(looking, look).collect())
    }
}

/// One thread's looks.
struct Looking<'a> {
    survey: &'a Survey,
    filter: &'a Filter,
    named: bool,
    maker: Fingerprinter,
    owner: LastFound,
}

impl Looking<'_> {
    fn look_through(&mut self, prints: &FolderPrints) -> io::Result<Alike> {
        let FolderPrints { path, own, found } = prints;
        let root = self.survey.root().filter(|_| self.is_taken(path)).ok_or(io::ErrorKind::NotFound)?;
        let mut folder = Dir::new(open_folder(root, path, Purpose::List)?)?;
        let stat = folder.stat()?;
        let is_own = |own| self.fingerprint(split(path).1, &EntryKind::Directory, &stat) == own;
        let own = own.is_some_and(is_own);
        if found.is_empty() {
            return Ok(Alike { own, ..Alike::default() });
        }
        let most = MOST_OTHERS + found.len();
        let mut asked = found.clone();
        asked.sort_unstable();
        let mut here = Vec::with_capacity(found.len());
        let (mut names, mut paths) = (0, Vec::new());
        while let Some(entry) = folder.read() {
            let entry = entry?;
            names += 1;
            if names > most {
                return Ok(Alike { own, ..Alike::nothing(prints) });
            }
            let name = entry.file_name().to_bytes();
            if entry.file_type() == FileType::Directory || !self.admits(path, name) {
                continue;
            }
            // What has gone meanwhile is no longer here.
            if let Ok((stat, Status::Entry { kind, .. })) = look_at(folder.fd()?.as_fd(), name) {
                let print = self.fingerprint(name, &kind, &stat);
                if asked.binary_search(&print).is_err() || !self.survey.may_stay_as_it_is(&stat) {
                    continue;
                }
                here.push(print);
                if self.named {
                    paths.push(joined(path, name));
                }
            }
        }
        here.sort_unstable();
        let found = found.iter().map(|print| here.binary_search(print).is_ok()).collect();
        Ok(Alike { own, found, paths })
    }

    /// Whether anything of this folder would be taken if it were offered.
    fn is_taken(&self, folder: &[u8]) -> bool {
        folder.is_empty()
            || self.filter.admits_path(folder, true)
                && !folder.split(|&byte| byte == b'/').any(is_staging_name)
    }

    fn admits(&self, folder: &[u8], name: &[u8]) -> bool {
        self.filter.takes_all() || self.filter.admits_path(&joined(folder, name), false)
    }

    fn fingerprint(&mut self, name: &[u8], kind: &EntryKind, stat: &Stat) -> Fingerprint {
        let Survey { keep, found_owners, .. } = self.survey;
        let owner = keep.owner.then(|| self.owner.of(found_owners, stat.st_uid, stat.st_gid));
        self.maker.of_parts(name, kind, mtime_of(stat), mode_of(stat), owner)
    }
}
