//! Extended attributes and access control lists, read and written by a folder and a name, following no link.
//!
//! Linux keeps a list under an attribute's name (`system.posix_acl_access`), with users and groups by number, so one path
//! serves for both.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::fs::{AtFlags, XattrFlags};
use rustix::io::Errno;
use terahaul_core::{Extra, ExtraError, MAX_XATTR_BYTES, MAX_XATTRS, Xattr};

use crate::Keep;

const ACCESS: &[u8] = b"system.posix_acl_access";
const DEFAULT: &[u8] = b"system.posix_acl_default";

/// Longest list of names that the system gives.
const LONGEST_LIST: usize = 64 << 10;

/// Whether an attribute is an access control list.
pub(crate) fn is_acl(name: &[u8]) -> bool {
    matches!(name, ACCESS | DEFAULT)
}

/// Which attributes are kept: those of users, and by root the others too, as far as they are not the system's own.
fn is_kept(name: &[u8], keep: Keep, root: bool) -> bool {
    if is_acl(name) {
        return keep.acls;
    }
    keep.xattrs && (name.starts_with(b"user.") || root && !is_systems_own(name))
}

/// Whether the attribute is of no use elsewhere: the seal over a file's other metadata (EVM), which is made with a system's key and is good
/// for this very file.
fn is_systems_own(name: &[u8]) -> bool {
    name == b"security.evm" || name.starts_with(b"system.")
}

/// Whether it is a label of a policy (SELinux, Smack). Where there is one, it gives each file one by itself, by the folder that the file is
/// made in, and lets nobody remove it; where there is none, a file system may take no label.
fn is_label(name: &[u8]) -> bool {
    name == b"security.selinux" || name.starts_with(b"security.SMACK64")
}

/// `name` in `folder` as a path. The folder is reached by its descriptor, the name is not followed.
fn path_of(folder: BorrowedFd<'_>, name: &[u8]) -> Vec<u8> {
    [format!("/proc/self/fd/{}/", folder.as_raw_fd()).as_bytes(), itself_or(name)].concat()
}

/// No name is the folder itself.
fn itself_or(name: &[u8]) -> &[u8] {
    if name.is_empty() { b"." } else { name }
}

/// What is kept of the attributes of `name` in `folder`, sorted by name. One that cannot be read is an error: it is not absent.
pub(crate) fn read(folder: BorrowedFd<'_>, name: &[u8], keep: Keep) -> io::Result<Vec<Xattr>> {
    read_unless(folder, name, keep, |_| false)
}

/// Whether lists and other attributes of `name` in `folder`, as far as they can be read, differ from `wanted`. What is to be replaced need
/// not be readable, and may be more than is kept of an entry.
pub(crate) fn differ(
    folder: BorrowedFd<'_>,
    name: &[u8],
    wanted: &[Xattr],
    keep: Keep,
) -> io::Result<(bool, bool)> {
    match read_unless(folder, name, keep, is_unreadable) {
        Ok(there) => Ok(compare(&there, wanted, keep)),
        // The sender may have had as many, and then has sent none.
        Err(error) if is_too_much(&error) && wanted.is_empty() => Ok((false, false)),
        Err(error) if is_too_much(&error) => Ok((keep.acls, keep.xattrs)),
        Err(error) => Err(error),
    }
}

fn is_unreadable(errno: Errno) -> bool {
    matches!(errno, Errno::ACCESS | Errno::PERM)
}

fn read_unless(
    folder: BorrowedFd<'_>,
    name: &[u8],
    keep: Keep,
    is_passed_over: impl Fn(Errno) -> bool,
) -> io::Result<Vec<Xattr>> {
    if !keep.xattrs && !keep.acls || !cfg!(target_os = "linux") {
        return Ok(Vec::new());
    }
    let root = rustix::process::geteuid().is_root();
    let path = path_of(folder, name);
    let mut xattrs = Vec::new();
    let mut left = MAX_XATTR_BYTES;
    for name in names_of(folder, name)?.into_iter().filter(|name| is_kept(name, keep, root)) {
        let value = match value_of(&path, &name) {
            Ok(value) => value,
            // It was removed meanwhile.
            Err(Errno::NODATA) => continue,
            Err(errno) if is_passed_over(errno) => continue,
            Err(Errno::RANGE | Errno::TOOBIG) => return Err(too_many()),
            Err(errno) => return Err(errno.into()),
        };
        left = left.checked_sub(name.len() + value.len()).ok_or_else(too_many)?;
        xattrs.push(Xattr { name: name.into(), value: value.into() });
    }
    xattrs.sort_unstable();
    let checked = Extra { xattrs, ..Extra::default() };
    checked.check().map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
    Ok(checked.xattrs)
}

fn names_of(folder: BorrowedFd<'_>, name: &[u8]) -> io::Result<Vec<Vec<u8>>> {
    names(&path_of(folder, name)).map_err(|errno| match errno {
        // What is gone has gone with its attributes. The path leads by a file system that need not be mounted.
        Errno::NOENT if is_there(folder, name) => {
            io::Error::other("attributes are read by way of /proc, which is not mounted here")
        }
        Errno::RANGE | Errno::TOOBIG => too_many(),
        errno => errno.into(),
    })
}

fn is_there(folder: BorrowedFd<'_>, name: &[u8]) -> bool {
    rustix::fs::statat(folder, itself_or(name), AtFlags::SYMLINK_NOFOLLOW).is_ok()
}

fn too_many() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, ExtraError::TooMany)
}

/// Whether this is the error of attributes that could be read, and are more than are kept.
pub(crate) fn is_too_much(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::InvalidData
}

fn names(path: &[u8]) -> rustix::io::Result<Vec<Vec<u8>>> {
    let mut list = vec![0; 1024];
    let len = loop {
        match rustix::fs::llistxattr(path, &mut list[..]) {
            Ok(len) => break len,
            Err(Errno::RANGE) if list.len() < LONGEST_LIST => list.resize(list.len() * 4, 0),
            // The file system has none, or this kind of file cannot.
            Err(Errno::NOTSUP) => return Ok(Vec::new()),
            Err(errno) => return Err(errno),
        }
    };
    Ok(list[..len].split(|byte| *byte == 0).filter(|name| !name.is_empty()).map(<[u8]>::to_vec).collect())
}

fn value_of(path: &[u8], name: &[u8]) -> rustix::io::Result<Vec<u8>> {
    let mut value = vec![0; 256];
    loop {
        match rustix::fs::lgetxattr(path, name, &mut value[..]) {
            Ok(len) => {
                value.truncate(len);
                return Ok(value);
            }
            Err(Errno::RANGE) if value.len() < MAX_XATTR_BYTES => value.resize(MAX_XATTR_BYTES, 0),
            Err(errno) => return Err(errno),
        }
    }
}

/// The access control list of `name` in `folder`, if it has one beyond its permission bits.
pub(crate) fn access_list(folder: BorrowedFd<'_>, name: &[u8]) -> io::Result<Option<Vec<u8>>> {
    if !cfg!(target_os = "linux") {
        return Ok(None);
    }
    match value_of(&path_of(folder, name), ACCESS) {
        Ok(list) => Ok(Some(list)),
        Err(errno) if has_none(errno) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

/// Gives `name` in `folder` this list, and the permission bits that are in it.
pub(crate) fn set_access_list(folder: BorrowedFd<'_>, name: &[u8], list: &[u8]) -> io::Result<()> {
    Ok(rustix::fs::lsetxattr(&path_of(folder, name)[..], ACCESS, list, XattrFlags::empty())?)
}

/// Takes from `name` in `folder` the list that it has beyond its permission bits. Those are to be set then.
pub(crate) fn remove_access_list(folder: BorrowedFd<'_>, name: &[u8]) -> io::Result<()> {
    remove(folder, name, ACCESS)
}

/// The list that what is made in `folder` gets.
pub(crate) fn default_list(folder: BorrowedFd<'_>) -> io::Result<Option<Vec<u8>>> {
    match value_of(&path_of(folder, b""), DEFAULT) {
        Ok(list) => Ok(Some(list)),
        Err(errno) if has_none(errno) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

/// Has what is made in `folder` get this list, or none.
pub(crate) fn set_default_list(folder: BorrowedFd<'_>, list: Option<&[u8]>) -> io::Result<()> {
    match list {
        Some(list) => {
            Ok(rustix::fs::lsetxattr(&path_of(folder, b"")[..], DEFAULT, list, XattrFlags::empty())?)
        }
        None => remove(folder, b"", DEFAULT),
    }
}

fn remove(folder: BorrowedFd<'_>, name: &[u8], attribute: &[u8]) -> io::Result<()> {
    match rustix::fs::lremovexattr(&path_of(folder, name)[..], attribute) {
        Err(errno) if !has_none(errno) => Err(errno.into()),
        _ => Ok(()),
    }
}

/// Not found is what all is where nothing is mounted at /proc, by which a list is reached.
fn has_none(errno: Errno) -> bool {
    matches!(errno, Errno::NODATA | Errno::NOTSUP | Errno::NOSYS | Errno::NOENT)
}

/// What a list gives a file's group, in the place that it has in permission bits. Where there is a list, those show there what it gives
/// anybody at most.
pub(crate) fn bits_of_group(list: &[u8]) -> u32 {
    /// A version comes before its entries.
    const VERSION: usize = 4;
    /// Two bytes for whom, two for what, four for which user or group.
    const ENTRY: usize = 8;
    const OWNING_GROUP: u16 = 4;
    let mut entries = list.get(VERSION..).unwrap_or_default().chunks_exact(ENTRY);
    let group = entries.find(|entry| entry[..2] == OWNING_GROUP.to_le_bytes());
    group.map_or(0, |entry| u32::from(entry[2] & 7) << 3)
}

/// What setting attributes has come to.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Applied {
    /// Some were set or removed.
    pub(crate) changed: bool,
    /// Lists among them, which change permission bits.
    pub(crate) lists_changed: bool,
    /// Names of those that could not be set or removed, and what the system said.
    pub(crate) failed: Vec<(Box<[u8]>, Errno)>,
    /// There are more than are kept of an entry, none of which is wanted, or more than the system lists: they stay.
    pub(crate) too_many: bool,
}

impl Applied {
    fn note(&mut self, name: &[u8], outcome: rustix::io::Result<()>) -> io::Result<()> {
        match outcome {
            Ok(()) => {
                self.changed = true;
                self.lists_changed |= is_acl(name);
            }
            Err(errno) if is_refusal(errno) => self.failed.push((name.into(), errno)),
            Err(errno) => return Err(errno.into()),
        }
        Ok(())
    }

    /// What could not be set and why, in words for each reason.
    pub(crate) fn shortfalls(&self) -> Vec<String> {
        let mut by_reason: Vec<((bool, Errno), Vec<String>)> = Vec::new();
        for (name, errno) in &self.failed {
            let reason = (is_acl(name), *errno);
            let name = name.escape_ascii().to_string();
            match by_reason.iter_mut().find(|(other, _)| *other == reason) {
                Some((_, names)) => names.push(name),
                None => by_reason.push((reason, vec![name])),
            }
        }
        let in_words = |((is_acl, errno), names): ((bool, Errno), Vec<String>)| {
            let remedy = match errno {
                Errno::NOTSUP if is_acl => ": the file system there takes no such lists, copy without -A",
                Errno::NOTSUP => ": the file system there takes no such attributes, copy without -X",
                errno if is_too_large(errno) => {
                    ": the file system there has no more room for those of one file"
                }
                _ => "",
            };
            format!("its attributes {} could not be set ({errno}){remedy}", names.join(", "))
        };
        by_reason.into_iter().map(in_words).collect()
    }
}

/// Gives `name` in `folder` exactly `wanted` of what is kept. What is there may be more than is kept of an entry.
pub(crate) fn apply(
    folder: BorrowedFd<'_>,
    name: &[u8],
    wanted: &[Xattr],
    keep: Keep,
) -> io::Result<Applied> {
    let mut applied = Applied::default();
    if !keep.xattrs && !keep.acls || !cfg!(target_os = "linux") {
        return Ok(applied);
    }
    let root = rustix::process::geteuid().is_root();
    let path = path_of(folder, name);
    let names = match names_of(folder, name) {
        Err(error) if is_too_much(&error) => {
            applied.too_many = true;
            Vec::new()
        }
        names => names?,
    };
    let (mut same, mut unwanted, mut len) = (Vec::new(), Vec::new(), 0);
    for name in names.into_iter().filter(|name| is_kept(name, keep, root)) {
        let value = match value_of(&path, &name) {
            Err(errno) if errno == Errno::NODATA || is_unreadable(errno) => continue,
            Err(Errno::RANGE | Errno::TOOBIG) => None,
            value => Some(value?),
        };
        len += name.len() + value.as_ref().map_or(MAX_XATTR_BYTES, Vec::len);
        match wanted.iter().find(|xattr| *xattr.name == *name) {
            Some(xattr) if value.as_deref() == Some(&xattr.value) => same.push(name),
            Some(_) => {}
            None if is_label(&name) => {}
            None => unwanted.push(name),
        }
    }
    // The sender may have had as many, and then has sent none.
    if wanted.is_empty() && (unwanted.len() > MAX_XATTRS || len > MAX_XATTR_BYTES) {
        applied.too_many = true;
        return Ok(applied);
    }
    for name in unwanted {
        match rustix::fs::lremovexattr(&path[..], &name[..]) {
            Err(Errno::NODATA) => {}
            removed => applied.note(&name, removed)?,
        }
    }
    let is_missing = |xattr: &&Xattr| !same.iter().any(|name| *xattr.name == **name);
    let missing = wanted.iter().filter(|xattr| is_kept(&xattr.name, keep, root)).filter(is_missing);
    for Xattr { name, value } in missing {
        match rustix::fs::lsetxattr(&path[..], &name[..], value, XattrFlags::empty()) {
            // There is no such policy here.
            Err(errno) if is_label(name) && is_refusal(errno) && value_of(&path, name).is_err() => {}
            set => applied.note(name, set)?,
        }
    }
    Ok(applied)
}

/// The attribute is not taken; the file is none the worse for it. Some file systems have so little room for those of one file that
/// they call themselves full: should they be, what is written next says so.
fn is_refusal(errno: Errno) -> bool {
    is_too_large(errno) || matches!(errno, Errno::NOTSUP | Errno::PERM | Errno::ACCESS | Errno::INVAL)
}

fn is_too_large(errno: Errno) -> bool {
    matches!(errno, Errno::TOOBIG | Errno::RANGE | Errno::NOSPC | Errno::DQUOT)
}

/// Whether lists and other attributes differ from what is wanted.
pub(crate) fn compare(there: &[Xattr], wanted: &[Xattr], keep: Keep) -> (bool, bool) {
    let root = rustix::process::geteuid().is_root();
    let is_on_both =
        |name: &[u8]| [there, wanted].iter().all(|side| side.iter().any(|xattr| *xattr.name == *name));
    let differ = |acls: bool| {
        let counts = |xattr: &&Xattr| {
            let name = &xattr.name;
            is_acl(name) == acls && is_kept(name, keep, root) && (!is_label(name) || is_on_both(name))
        };
        !there.iter().filter(counts).eq(wanted.iter().filter(counts))
    };
    (differ(true), differ(false))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    fn xattr(name: &str, value: &[u8]) -> Xattr {
        Xattr { name: name.as_bytes().into(), value: value.into() }
    }

    /// `None` where the file system of the temporary folder has no attributes of users.
    fn folder_with_xattrs() -> Option<tempfile::TempDir> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        std::fs::write(&path, "").unwrap();
        let set = rustix::fs::lsetxattr(&path, "user.probe", b"1", XattrFlags::empty());
        set.is_ok().then(|| {
            rustix::fs::lremovexattr(&path, "user.probe").unwrap();
            dir
        })
    }

    const KEEP: Keep = Keep {
        xattrs: true,
        acls: true,
        owner: false,
        numeric_ids: false,
        hard_links: false,
        permissions: crate::Permissions::Exact,
    };

    #[test]
    fn what_was_applied_is_read_and_nothing_else_is_left() {
        let Some(dir) = folder_with_xattrs() else { return };
        let folder = std::fs::File::open(dir.path()).unwrap();
        let first = [xattr("user.a", b"1"), xattr("user.b", &[7; 3000])];
        let changed = Applied { changed: true, ..Applied::default() };
        assert_eq!(apply(folder.as_fd(), b"file", &first, KEEP).unwrap(), changed);
        assert_eq!(apply(folder.as_fd(), b"file", &first, KEEP).unwrap(), Applied::default());
        assert_eq!(read(folder.as_fd(), b"file", KEEP).unwrap(), first);
        let second = [xattr("user.b", b"2"), xattr("user.c", b"")];
        assert_eq!(compare(&first, &second, KEEP), (false, true));
        apply(folder.as_fd(), b"file", &second, KEEP).unwrap();
        assert_eq!(read(folder.as_fd(), b"file", KEEP).unwrap(), second);
        let none = Keep { xattrs: false, ..KEEP };
        assert_eq!(read(folder.as_fd(), b"file", none).unwrap(), []);
        apply(folder.as_fd(), b"file", &[], none).unwrap();
        assert_eq!(read(folder.as_fd(), b"file", KEEP).unwrap(), second, "what is not kept is not touched");
    }

    /// As all are where nothing is mounted at /proc: no file could be replaced there.
    #[test]
    fn a_file_that_is_not_found_has_no_list() {
        let dir = tempfile::tempdir().unwrap();
        let folder = std::fs::File::open(dir.path()).unwrap();
        assert_eq!(access_list(folder.as_fd(), b"file").unwrap(), None);
    }

    /// It was refused in each run, a folder with all that is in it.
    #[test]
    fn of_more_attributes_than_are_kept_those_that_are_not_wanted_are_removed() {
        let Some(dir) = folder_with_xattrs() else { return };
        let folder = std::fs::File::open(dir.path()).unwrap();
        let path = dir.path().join("file");
        let set = |at| rustix::fs::lsetxattr(&path, format!("user.{at:03}"), b"1", XattrFlags::empty());
        // ext4 has no room for so many.
        if (0..300).any(|at| set(at).is_err()) {
            return;
        }
        assert!(is_too_much(&read(folder.as_fd(), b"file", KEEP).unwrap_err()));
        let wanted = [xattr("user.007", b"1"), xattr("user.a", b"2")];
        assert_eq!(differ(folder.as_fd(), b"file", &wanted, KEEP).unwrap(), (true, true));
        // As of a sender that has too many itself.
        assert_eq!(differ(folder.as_fd(), b"file", &[], KEEP).unwrap(), (false, false));
        let stay = Applied { too_many: true, ..Applied::default() };
        assert_eq!(apply(folder.as_fd(), b"file", &[], KEEP).unwrap(), stay);
        let changed = Applied { changed: true, ..Applied::default() };
        assert_eq!(apply(folder.as_fd(), b"file", &wanted, KEEP).unwrap(), changed);
        assert_eq!(read(folder.as_fd(), b"file", KEEP).unwrap(), wanted);
        assert_eq!(differ(folder.as_fd(), b"file", &wanted, KEEP).unwrap(), (false, false));
    }

    /// ext4 has a block for those of one file, XFS 64 KiB for each.
    #[test]
    fn an_attribute_that_the_file_system_has_no_room_for_is_named_and_the_others_are_set() {
        let Some(dir) = folder_with_xattrs() else { return };
        let folder = std::fs::File::open(dir.path()).unwrap();
        let wanted = [xattr("user.large", &[7; 60_000]), xattr("user.small", b"1")];
        let failed = apply(folder.as_fd(), b"file", &wanted, KEEP).unwrap().failed;
        let there = read(folder.as_fd(), b"file", KEEP).unwrap();
        match failed.as_slice() {
            [] => assert_eq!(there, wanted, "this file system has the room"),
            failed => {
                assert_eq!(failed.iter().map(|(name, _)| &**name).collect::<Vec<_>>(), [b"user.large"]);
                assert_eq!(there, wanted[1..]);
            }
        }
        assert!(is_refusal(Errno::NOSPC) && is_refusal(Errno::DQUOT));
    }

    /// They read alike, whether there is no room, no such attributes, or no right to set them.
    #[test]
    fn what_could_not_be_set_is_named_with_the_reason_and_what_to_leave_out() {
        let failed = [
            ("user.large", Errno::NOSPC),
            ("user.a", Errno::NOTSUP),
            ("system.posix_acl_access", Errno::NOTSUP),
            ("user.b", Errno::NOTSUP),
            ("trusted.c", Errno::PERM),
        ];
        let failed = failed.map(|(name, errno)| (name.as_bytes().into(), errno)).into();
        let said = Applied { failed, ..Applied::default() }.shortfalls();
        for (at, (names, reason, remedy)) in [
            ("user.large", Errno::NOSPC, "room for those of one file"),
            ("user.a, user.b", Errno::NOTSUP, "copy without -X"),
            ("system.posix_acl_access", Errno::NOTSUP, "copy without -A"),
            ("trusted.c", Errno::PERM, ""),
        ]
        .into_iter()
        .enumerate()
        {
            let start = format!("its attributes {names} could not be set ({reason})");
            assert!(said[at].starts_with(&start) && said[at].ends_with(remedy), "{said:?}");
        }
        assert_eq!(said.len(), 4);
    }

    #[test]
    fn a_link_is_not_followed_and_the_systems_own_are_never_set() {
        let Some(dir) = folder_with_xattrs() else { return };
        std::os::unix::fs::symlink("file", dir.path().join("link")).unwrap();
        let folder = std::fs::File::open(dir.path()).unwrap();
        // No file system has attributes of users on links.
        let failed = apply(folder.as_fd(), b"link", &[xattr("user.a", b"1")], KEEP).unwrap().failed;
        assert_eq!(failed.iter().map(|(name, _)| &**name).collect::<Vec<_>>(), [b"user.a"]);
        apply(folder.as_fd(), b"file", &[xattr("system.other", b"1")], KEEP).unwrap();
        assert_eq!(read(folder.as_fd(), b"file", KEEP).unwrap(), []);
    }

    /// A system that has labels lets nobody remove one, and each run named all files. A file is made in the staging folder, whose label it
    /// has until it is given its own.
    #[test]
    fn a_label_is_given_and_compared_and_never_removed() {
        assert!(!is_kept(b"security.evm", KEEP, true));
        let kept = ["security.capability", "security.ima", "security.selinux", "trusted.a", "user.a"];
        assert!(kept.iter().all(|name| is_kept(name.as_bytes(), KEEP, true)));
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let (one, other) = (xattr("security.selinux", b"one"), xattr("security.selinux", b"other"));
        for (there, wanted, differs) in [
            (std::slice::from_ref(&one), &[][..], false),
            (&[], std::slice::from_ref(&one), false),
            (std::slice::from_ref(&one), std::slice::from_ref(&other), true),
        ] {
            assert_eq!(compare(there, wanted, KEEP), (false, differs), "{there:?} {wanted:?}");
        }
        let Some(dir) = folder_with_xattrs() else { return };
        let folder = std::fs::File::open(dir.path()).unwrap();
        if rustix::fs::lsetxattr(dir.path().join("file"), "security.selinux", b"one", XattrFlags::empty())
            .is_err()
        {
            return;
        }
        assert_eq!(apply(folder.as_fd(), b"file", &[], KEEP).unwrap(), Applied::default());
        assert_eq!(read(folder.as_fd(), b"file", KEEP).unwrap(), [one]);
        assert!(apply(folder.as_fd(), b"file", std::slice::from_ref(&other), KEEP).unwrap().changed);
        assert_eq!(read(folder.as_fd(), b"file", KEEP).unwrap(), [other]);
    }

    #[test]
    fn an_access_control_list_is_kept_only_when_asked_for() {
        let Some(dir) = folder_with_xattrs() else { return };
        let folder = std::fs::File::open(dir.path()).unwrap();
        // Version 2: owner rwx, user 77 r, group r, mask rwx, others nothing.
        let entry = |tag: u16, perm: u16, id: u32| {
            [&tag.to_le_bytes()[..], &perm.to_le_bytes(), &id.to_le_bytes()].concat()
        };
        let none = u32::MAX;
        let list = [
            2u32.to_le_bytes().to_vec(),
            entry(1, 7, none),
            entry(2, 4, 77),
            entry(4, 4, none),
            entry(16, 7, none),
            entry(32, 0, none),
        ]
        .concat();
        let acl = [xattr("system.posix_acl_access", &list)];
        if !apply(folder.as_fd(), b"file", &acl, KEEP).unwrap().failed.is_empty() {
            return;
        }
        assert_eq!(read(folder.as_fd(), b"file", KEEP).unwrap(), acl);
        assert_eq!(access_list(folder.as_fd(), b"file").unwrap().as_ref(), Some(&list));
        assert_eq!((bits_of_group(&list), bits_of_group(&list[..30])), (0o040, 0o040));
        assert_eq!((bits_of_group(&list[..27]), bits_of_group(&[])), (0, 0));
        assert_eq!(read(folder.as_fd(), b"file", Keep { acls: false, ..KEEP }).unwrap(), []);
        apply(folder.as_fd(), b"file", &[], KEEP).unwrap();
        assert_eq!(read(folder.as_fd(), b"file", KEEP).unwrap(), []);
        assert_eq!(access_list(folder.as_fd(), b"file").unwrap(), None);
    }
}
