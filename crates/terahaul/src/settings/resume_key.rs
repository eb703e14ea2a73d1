//! How a depot knows that the same command is run again.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::cli::FilterArgs;

/// A hash over this machine's name, the paths as they lead from the root, and the globs. The machine's name is in it
/// because `/data` here and `/data` there are two things, although one token may send both. Fails with the path that leads nowhere.
pub fn resume_key(paths: &[PathBuf], filter: &FilterArgs) -> Result<String, (PathBuf, io::Error)> {
    let machine = rustix::system::uname();
    key_for(machine.nodename().to_bytes(), paths, filter)
}

fn key_for(machine: &[u8], paths: &[PathBuf], filter: &FilterArgs) -> Result<String, (PathBuf, io::Error)> {
    let mut hasher = blake3::Hasher::new_derive_key("terahaul 1 resume key");
    let mut field = |kind: u8, bytes: &[u8]| {
        hasher.update(&[kind]).update(&(bytes.len() as u64).to_le_bytes()).update(bytes);
    };
    field(b'm', machine);
    for path in paths {
        let bytes = path.as_os_str().as_bytes();
        let contents = matches!(bytes.rsplit(|&b| b == b'/').next(), Some(b"" | b"." | b".."));
        let absolute = absolute(path, contents).map_err(|error| (path.clone(), error))?;
        field(if contents { b'c' } else { b'p' }, absolute.as_os_str().as_bytes());
    }
    filter.include.iter().for_each(|glob| field(b'i', glob.as_bytes()));
    filter.exclude.iter().for_each(|glob| field(b'x', glob.as_bytes()));
    Ok(hasher.finalize().to_hex().to_string())
}

/// A last component that is a link is what is sent, so it is not followed.
fn absolute(path: &Path, contents: bool) -> io::Result<PathBuf> {
    let (Some(name), false) = (path.file_name(), contents) else { return path.canonicalize() };
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    Ok(parent.canonicalize()?.join(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn the_same_command_has_the_same_key_and_no_other_has() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("a/b")).unwrap();
        std::os::unix::fs::symlink("a", dir.path().join("link")).unwrap();
        let key = |paths: &[&str], include: &[&str], exclude: &[&str]| {
            let paths: Vec<_> = paths.iter().map(|path| dir.path().join(path)).collect();
            let owned = |globs: &[&str]| globs.iter().map(ToString::to_string).collect();
            key_for(b"m", &paths, &FilterArgs { include: owned(include), exclude: owned(exclude) }).unwrap()
        };
        let plain = key(&["a"], &[], &[]);
        assert_eq!(plain, key(&["a/b/../../a"], &[], &[]));
        assert_eq!(key(&["a/b"], &[], &[]), key(&["link/b"], &[], &[]), "another way to the same folder");
        let others = [
            key(&["a/"], &[], &[]),
            key(&["link"], &[], &[]),
            key(&["a", "a/b"], &[], &[]),
            key(&["a"], &["x"], &[]),
            key(&["a"], &[], &["x"]),
        ];
        assert!(others.iter().all(|other| *other != plain));
        let here = FilterArgs::default();
        let paths = [dir.path().join("a")];
        assert_ne!(key_for(b"m", &paths, &here).unwrap(), key_for(b"n", &paths, &here).unwrap());
    }
}
