//! The Linux source tree from Debian's `linux-source` package, unpacked once.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;

use super::{WorkError, remove_leftovers};
use crate::peer::{kill, output_unless};

const SOURCES: &str = "/usr/src";
/// Before the number of the process that unpacks.
const PARTIAL: &str = ".partial-";

/// The unpacked tree, in the user's cache; unpacks it where that was not done yet, unless `stop` becomes true.
pub fn unpacked_source(stop: &AtomicBool) -> Result<PathBuf, WorkError> {
    let archive = newest_archive(Path::new(SOURCES))?;
    let name =
        archive.file_name().unwrap_or_default().to_string_lossy().trim_end_matches(".tar.xz").to_owned();
    let cache = cache_folder();
    remove_leftovers(&cache, |name| name.rsplit_once(PARTIAL)?.1.parse().ok());
    let tree = cache.join(&name);
    if tree.is_dir() {
        return Ok(tree);
    }
    fs::create_dir_all(&cache).map_err(WorkError::file("created", &cache))?;
    // Unpacked under another name first: a run that is stopped half-way leaves nothing that looks whole.
    let partial = cache.join(format!("{name}{PARTIAL}{}", std::process::id()));
    fs::create_dir_all(&partial).map_err(WorkError::file("created", &partial))?;
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
        super::remove_all(&partial);
        return Err(WorkError::Unpacking { archive, cache, said });
    }
    match fs::rename(&partial, &tree) {
        Ok(()) => Ok(tree),
        // Another run was faster.
        Err(_) if tree.is_dir() => {
            super::remove_all(&partial);
            Ok(tree)
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_the_package_its_name_is_said() {
        let empty = tempfile::tempdir().unwrap();
        let refusal = newest_archive(empty.path()).unwrap_err().to_string();
        assert!(refusal.contains("apt-get install linux-source"), "{refusal}");
    }
}
