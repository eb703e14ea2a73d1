//! The Linux source tree from Debian's `linux-source` package, unpacked once.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;

use super::{HeldFolder, WorkError};
use crate::peer::{kill, output_unless};

const SOURCES: &str = "/usr/src";
/// What a mode lets others than the owner write.
const OTHERS_WRITE: u32 = 0o022;
/// The unpacked tree, in the user's cache; unpacks it where that was not done yet, unless `stop` becomes true.
pub fn unpacked_source(stop: &AtomicBool) -> Result<PathBuf, WorkError> {
    let archive = newest_archive(Path::new(SOURCES))?;
    let name =
        archive.file_name().unwrap_or_default().to_string_lossy().trim_end_matches(".tar.xz").to_owned();
    let cache = cache_folder();
    make_own(&cache)?;
    let tree = cache.join(&name);
    if tree.is_dir() {
        return Ok(tree);
    }
    // Unpacked under another name first: a run that is stopped half-way leaves nothing that looks whole.
    let held = HeldFolder::make(&cache, ".partial-").map_err(WorkError::file("created", &cache))?;
    let partial = held.path.join("tree");
    fs::create_dir(&partial).map_err(WorkError::file("created", &partial))?;
    let ran = Command::new("tar")
        .args(["--strip-components=1", "-xJf"])
        .arg(&archive)
        .arg("-C")
        .arg(&partial)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .and_then(|child| output_unless(stop, child, kill))
        .map_err(WorkError::file("unpacked", &archive))?;
    if !ran.status.success() {
        let said =
            String::from_utf8_lossy(&ran.stderr).lines().last().unwrap_or("tar gave no reason").to_owned();
        return Err(WorkError::Unpacking { archive, cache, said });
    }
    match fs::rename(&partial, &tree) {
        Ok(()) => Ok(tree),
        // Another run was faster.
        Err(_) if tree.is_dir() => Ok(tree),
        Err(error) => Err(WorkError::file("renamed", &partial)(error)),
    }
}

fn newest_archive(folder: &Path) -> Result<PathBuf, WorkError> {
    let missing = || WorkError::NoLinuxSource(folder.to_owned());
    let mut archives: Vec<PathBuf> = fs::read_dir(folder)
        .map_err(|_| missing())?
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with("linux-source-") && name.ends_with(".tar.xz")
        })
        .collect();
    archives.sort();
    archives.pop().ok_or_else(missing)
}

fn cache_folder() -> PathBuf {
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    let base =
        std::env::var_os("XDG_CACHE_HOME").filter(|dir| !dir.is_empty()).map(PathBuf::from).or_else(home);
    base.unwrap_or_else(std::env::temp_dir).join("terahaul-lab")
}

/// Makes a folder that nobody else may put anything into. One that is there may be another user's, above all where the cache is among everybody's
/// temporary files: what is in it would be taken for the source, and root would unpack where its links lead. Of a link both owners count.
fn make_own(folder: &Path) -> Result<(), WorkError> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .map_err(WorkError::file("created", folder))?;
    let looked = |found: std::io::Result<fs::Metadata>| found.map_err(WorkError::file("looked at", folder));
    let (named, there) = (looked(folder.symlink_metadata())?, looked(folder.metadata())?);
    let is_own = |owner| owner == 0 || owner == rustix::process::geteuid().as_raw();
    if is_own(named.uid()) && is_own(there.uid()) && there.mode() & OTHERS_WRITE == 0 {
        return Ok(());
    }
    Err(WorkError::NotOwn(folder.to_owned()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, lchown, symlink};

    use super::*;

    /// Another user could have made it first, and chose the tree.
    #[test]
    fn a_cache_that_others_may_write_is_not_used() {
        let dir = tempfile::tempdir().unwrap();
        let [cache, link] = ["base/terahaul-lab", "link"].map(|name| dir.path().join(name));
        let is_refused = |folder: &Path| match make_own(folder) {
            Ok(()) => false,
            Err(refusal) => {
                let said = refusal.to_string();
                assert!(said.contains(folder.to_str().unwrap()) && said.contains("XDG_CACHE_HOME"), "{said}");
                true
            }
        };
        symlink(&cache, &link).unwrap();
        assert!(!is_refused(&cache) && !is_refused(&link));
        for (mode, refused) in [(0o777, true), (0o1777, true), (0o770, true), (0o755, false)] {
            fs::set_permissions(&cache, PermissionsExt::from_mode(mode)).unwrap();
            assert_eq!((is_refused(&cache), is_refused(&link)), (refused, refused), "{mode:o}");
        }
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: only root can make what belongs to others");
            return;
        }
        lchown(&link, Some(12345), None).unwrap();
        assert!(!is_refused(&cache) && is_refused(&link));
        lchown(&cache, Some(12345), None).unwrap();
        assert!(is_refused(&cache));
    }

    #[test]
    fn without_the_package_its_name_is_said() {
        let empty = tempfile::tempdir().unwrap();
        let refusal = newest_archive(empty.path()).unwrap_err().to_string();
        assert!(refusal.contains("apt-get install linux-source"), "{refusal}");
    }
}
