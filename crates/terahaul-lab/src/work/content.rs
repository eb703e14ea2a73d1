//! What a folder holds, by hash: what was to arrive, and what did.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use super::{WorkError, heed};

/// The regular files below a folder with their BLAKE3 hashes, and its symbolic links.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Content {
    /// Paths relative to the folder, each with its length and hash.
    pub files: BTreeMap<PathBuf, (u64, blake3::Hash)>,
    /// Links, each with what it leads to.
    pub links: BTreeMap<PathBuf, PathBuf>,
}

/// In what two contents differ; the first few paths stand for the rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    missing: Vec<PathBuf>,
    changed: Vec<PathBuf>,
    unexpected: Vec<PathBuf>,
}

const BUFFER: usize = 1 << 20;

impl Content {
    /// Reads and hashes everything below `folder`, unless `stop` becomes true.
    pub fn of(folder: &Path, stop: &AtomicBool) -> Result<Self, WorkError> {
        let mut content = Self::default();
        let mut buffer = vec![0; BUFFER];
        let mut waiting = vec![folder.to_owned()];
        while let Some(current) = waiting.pop() {
            for entry in fs::read_dir(&current).map_err(WorkError::file("listed", &current))? {
                let entry = entry.map_err(WorkError::file("listed", &current))?;
                let path = entry.path();
                let name = path.strip_prefix(folder).unwrap_or(&path).to_owned();
                let kind = entry.file_type().map_err(WorkError::file("looked at", &path))?;
                if kind.is_dir() {
                    waiting.push(path);
                } else if kind.is_symlink() {
                    let target = fs::read_link(&path).map_err(WorkError::file("read", &path))?;
                    content.links.insert(name, target);
                } else {
                    let hashed = hash_of(&path, &mut buffer, stop).map_err(WorkError::file("read", &path))?;
                    content.files.insert(name, hashed);
                }
            }
        }
        Ok(content)
    }

    /// Bytes of all files together.
    pub fn bytes(&self) -> u64 {
        self.files.values().map(|(size, _)| size).sum()
    }

    /// How `arrived` differs from this. Every regular file has to be there, byte for byte, and nothing else.
    ///
    /// Some protocols cannot carry links: they follow or drop them. What is at or below a link's path does not count
    /// therefore, and the reports say how many links were kept.
    pub fn compare(&self, arrived: &Self) -> Option<Difference> {
        let below_link = |path: &Path| path.ancestors().any(|above| self.links.contains_key(above));
        let missing = self.files.keys().filter(|path| !arrived.files.contains_key(*path));
        let changed = self
            .files
            .iter()
            .filter(|(path, hashed)| arrived.files.get(*path).is_some_and(|other| other != *hashed));
        let unexpected =
            arrived.files.keys().filter(|path| !self.files.contains_key(*path) && !below_link(path));
        let difference = Difference {
            missing: missing.cloned().collect(),
            changed: changed.map(|(path, _)| path.clone()).collect(),
            unexpected: unexpected.cloned().collect(),
        };
        let same =
            [&difference.missing, &difference.changed, &difference.unexpected].iter().all(|v| v.is_empty());
        (!same).then_some(difference)
    }

    /// How many of this content's links arrived as links that lead to the same.
    pub fn links_kept(&self, arrived: &Self) -> usize {
        self.links.iter().filter(|(path, target)| arrived.links.get(*path) == Some(*target)).count()
    }
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let parts = [
            ("missing", &self.missing),
            ("with other bytes", &self.changed),
            ("unexpected", &self.unexpected),
        ];
        let said: Vec<String> = parts
            .iter()
            .filter(|(_, paths)| !paths.is_empty())
            .map(|(what, paths)| format!("{} {what}, first {}", paths.len(), paths[0].display()))
            .collect();
        f.write_str(&said.join("; "))
    }
}

fn hash_of(path: &Path, buffer: &mut [u8], stop: &AtomicBool) -> io::Result<(u64, blake3::Hash)> {
    let mut file = File::open(path)?;
    let mut hasher = blake3::Hasher::new();
    let mut size = 0;
    loop {
        heed(stop)?;
        let read = file.read(buffer)?;
        if read == 0 {
            return Ok((size, hasher.finalize()));
        }
        hasher.update(&buffer[..read]);
        size += read as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        folder
    }

    fn content_of(folder: &Path) -> Content {
        Content::of(folder, &AtomicBool::new(false)).unwrap()
    }

    #[test]
    fn one_byte_makes_a_difference() {
        let source = content_of(folder(&[("a", "one"), ("b/c", "two")]).path());
        assert_eq!(source.compare(&source), None);
        assert_eq!(source.bytes(), 6);
        let flipped = content_of(folder(&[("a", "one"), ("b/c", "twO")]).path());
        assert_eq!(source.compare(&flipped).unwrap().to_string(), "1 with other bytes, first b/c");
        let other = content_of(folder(&[("a", "one"), ("d", "two")]).path());
        assert_eq!(
            source.compare(&other).unwrap().to_string(),
            "1 missing, first b/c; 1 unexpected, first d"
        );
    }

    #[test]
    fn a_link_may_be_followed_but_is_counted() {
        let source = folder(&[("real/a", "one")]);
        std::os::unix::fs::symlink("real", source.path().join("link")).unwrap();
        let wanted = content_of(source.path());
        let followed = content_of(folder(&[("real/a", "one"), ("link/a", "one")]).path());
        assert_eq!(wanted.compare(&followed), None);
        assert_eq!((wanted.links_kept(&followed), wanted.links_kept(&wanted)), (0, 1));
    }
}
