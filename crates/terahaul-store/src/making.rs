//! Making folders that may be there already.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

/// Makes a folder and what it lies in, each for its owner alone. Those that are there stay as they are.
pub fn make_private_folders(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path).or_else(|error| unless_there(path, error))
}

/// No error where making a folder has failed because it is there. That something has its name says little: one whose mount has died cannot
/// be looked at, and is no file for that.
pub fn unless_there(path: &Path, failed: io::Error) -> io::Result<()> {
    match path.metadata() {
        Ok(found) if found.is_dir() => Ok(()),
        Err(error)
            if failed.kind() == io::ErrorKind::AlreadyExists && error.kind() != io::ErrorKind::NotFound =>
        {
            Err(error)
        }
        Ok(_) | Err(_) => Err(failed),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use rustix::io::Errno;

    use super::*;

    /// Whoever had a destination whose mount had died was told to give a folder, as this is a file.
    #[test]
    fn a_folder_that_cannot_be_looked_at_is_not_called_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        symlink("itself", at("itself")).unwrap();
        symlink("nowhere", at("dangling")).unwrap();
        std::fs::write(at("file"), "").unwrap();
        let said = |name: &str| {
            let error = make_private_folders(&at(name)).unwrap_err();
            Errno::from_io_error(&error).unwrap()
        };
        assert_eq!(said("itself"), Errno::LOOP);
        assert_eq!(said("dangling"), Errno::EXIST);
        assert_eq!(said("file"), Errno::EXIST);
        assert_eq!(said("file/in"), Errno::NOTDIR);
        make_private_folders(&at("new/inner")).unwrap();
        make_private_folders(&at("new/inner")).unwrap();
    }
}
