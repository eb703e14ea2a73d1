//! Where the sources of a copy arrive.
//!
//! | the destination | one source that is not a folder | anything else |
//! |---|---|---|
//! | is a folder | in it, under its own name | in it |
//! | ends in `/`, or is `.` or `..` | in it; it is made | in it; it is made |
//! | is a device, a FIFO or a socket | refused | refused |
//! | is something else, or nothing | is its new name | is made as a folder; something else is refused |

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use terahaul_core::EntryPath;

use crate::error::CopyError;

/// The folder that entries are relative to, and the new name of the only one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Base {
    pub folder: PathBuf,
    pub rename: Option<EntryPath>,
}

/// `only_file`: there is one source, and it is not a folder.
pub(crate) fn settle(destination: &Path, only_file: bool) -> Result<Base, CopyError> {
    let bytes = destination.as_os_str().as_bytes();
    let last = bytes.rsplit(|&b| b == b'/').next().unwrap_or_default();
    let must_be_folder = matches!(last, b"" | b"." | b"..");
    let folder = || Base { folder: destination.to_owned(), rename: None };
    match std::fs::metadata(destination) {
        Ok(found) if found.is_dir() => Ok(folder()),
        Ok(_) if must_be_folder || !only_file => Err(CopyError::NotAFolder(destination.to_owned())),
        // To replace it is what nobody wants who names `/dev/null`.
        Ok(found) if !found.is_file() => Err(CopyError::Special(destination.to_owned())),
        Ok(_) => renamed(destination, bytes, last),
        Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => {
            Err(CopyError::NotAFolder(destination.to_owned()))
        }
        Err(_) if !only_file && destination.symlink_metadata().is_ok_and(|found| found.is_symlink()) => {
            Err(CopyError::LeadsNowhere(destination.to_owned()))
        }
        // What cannot be looked at is found out, and said, when it is written to.
        Err(_) if must_be_folder || !only_file => Ok(folder()),
        Err(_) => renamed(destination, bytes, last),
    }
}

fn renamed(destination: &Path, bytes: &[u8], last: &[u8]) -> Result<Base, CopyError> {
    let above = match &bytes[..bytes.len() - last.len()] {
        [] => Path::new("."),
        above => Path::new(OsStr::from_bytes(above)),
    };
    let name = EntryPath::new(last)
        .map_err(|error| CopyError::BadName { path: destination.to_owned(), reason: error.to_string() })?;
    Ok(Base { folder: above.to_owned(), rename: Some(name) })
}

/// A path on the far side as the user wrote it: relative to the home, for which `~` stands too, as `~user` does for another's. `home`
/// knows where a user's is; the empty name is for who is asked. What begins with `~` and is no user's is a name like any other.
pub(crate) fn far_path(path: &[u8], home: impl Fn(&[u8]) -> Option<PathBuf>) -> PathBuf {
    let Some((user, below)) = split_home(path) else {
        return PathBuf::from(if path.is_empty() { OsStr::new(".") } else { OsStr::from_bytes(path) });
    };
    match home(user) {
        // `join` would drop a trailing slash, which means something.
        Some(home) => {
            let below = if below.is_empty() { b"/" } else { below };
            PathBuf::from(OsStr::from_bytes(&[home.as_os_str().as_bytes(), below].concat()))
        }
        None if !user.is_empty() => PathBuf::from(OsStr::from_bytes(path)),
        None => match below.strip_prefix(b"/") {
            None | Some(b"") => PathBuf::from("."),
            Some(below) => PathBuf::from(OsStr::from_bytes(below)),
        },
    }
}

/// Who is not known there, though a destination is written as if it were in their home: nothing there is called so, and it is no name that
/// no user has, such as `~$letter.docx`.
pub(crate) fn unknown_user(path: &[u8], home: impl Fn(&[u8]) -> Option<PathBuf>) -> Option<&[u8]> {
    let (user, _) = split_home(path)?;
    let may_be_one =
        |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'@' | b'\\');
    if user.is_empty() || !user.iter().all(may_be_one) || home(user).is_some() {
        return None;
    }
    let named = [b"~", user].concat();
    let is_there = Path::new(OsStr::from_bytes(&named)).symlink_metadata().is_ok();
    (!is_there).then_some(user)
}

/// Whether a source is another user's home, and not what is in it: what it is called there nobody here has asked for.
pub(crate) fn is_home_of_another(path: &[u8], home: impl Fn(&[u8]) -> Option<PathBuf>) -> bool {
    split_home(path).is_some_and(|(user, below)| !user.is_empty() && below.is_empty() && home(user).is_some())
}

/// Whose home a path that begins with `~` is in, and what follows, with its slash.
fn split_home(path: &[u8]) -> Option<(&[u8], &[u8])> {
    let behind = path.strip_prefix(b"~")?;
    let slash = behind.iter().position(|&b| b == b'/');
    Some(behind.split_at(slash.unwrap_or(behind.len())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn files_are_renamed_and_folders_are_not() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("folder")).unwrap();
        fs::write(dir.path().join("file"), "").unwrap();
        let settle_at = |name: &str, only_file| settle(&dir.path().join(name), only_file);
        let name = |name: &str| Some(EntryPath::new(name.as_bytes()).unwrap());
        for only_file in [true, false] {
            let base = settle_at("folder", only_file).unwrap();
            assert_eq!((base.folder, base.rename), (dir.path().join("folder"), None));
            let base = settle_at("new/", only_file).unwrap();
            assert_eq!((base.folder, base.rename), (dir.path().join("new/"), None));
            assert!(matches!(settle_at("file/", only_file), Err(CopyError::NotAFolder(_))));
        }
        assert!(matches!(settle(Path::new("/dev/null"), true), Err(CopyError::Special(_))));
        for (at, to) in [("new", "new"), ("file", "file"), ("folder/x", "x")] {
            assert_eq!(settle_at(at, true).unwrap().rename, name(to));
        }
        assert_eq!(settle_at("new", false).unwrap().rename, None);
        assert!(matches!(settle_at("file", false), Err(CopyError::NotAFolder(_))));
        assert_eq!(settle(Path::new("plain"), true).unwrap().folder, Path::new("."));
    }

    #[test]
    fn a_mistyped_home_is_no_destination() {
        let home = |user: &[u8]| (user == b"bob").then(|| PathBuf::from("/home/bob"));
        let user = |path: &'static str| unknown_user(path.as_bytes(), home);
        assert_eq!([user("~bobby/x"), user("~bobby")], [Some(&b"bobby"[..]); 2]);
        for path in ["~bob/x", "~/x", "x/~bobby", "./~bobby", "~$letter.docx"] {
            assert_eq!(user(path), None, "{path}");
        }
    }

    #[test]
    fn the_home_is_where_far_paths_start() {
        let home = |user: &[u8]| match user {
            b"" => Some(PathBuf::from("/home/u")),
            b"bob" => Some(PathBuf::from("/home/bob")),
            _ => None,
        };
        for (given, path) in [
            ("", "."),
            ("~", "/home/u/"),
            ("~/a b/", "/home/u/a b/"),
            ("~bob", "/home/bob/"),
            ("~bob/x/", "/home/bob/x/"),
            ("~bobby/x", "~bobby/x"),
            ("~$letter.docx", "~$letter.docx"),
            ("./~bob", "./~bob"),
            ("x", "x"),
            ("/x", "/x"),
        ] {
            assert_eq!(far_path(given.as_bytes(), home).as_os_str(), path, "{given}");
        }
        for (given, path) in [("~", "."), ("~/", "."), ("~/x", "x"), ("~bob/x", "~bob/x")] {
            assert_eq!(
                far_path(given.as_bytes(), |_| None).as_os_str(),
                path,
                "{given}, where nobody has one"
            );
        }
        let homes = ["~bob", "~bob/", "~", "~bobby", "bob"];
        let homes = homes.map(|path| is_home_of_another(path.as_bytes(), home));
        assert_eq!(homes, [true, false, false, false, false]);
    }
}
