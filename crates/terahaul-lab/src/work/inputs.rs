//! The files of a work, made in the scratch folder.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use terahaul_core::ByteCount;

use super::{Content, Kind, TreeOrigin, WorkError, WorkSpec, unpacked_source};

/// The files that were made for a work. Removed when dropped.
#[derive(Debug)]
pub struct Inputs {
    /// The work.
    pub spec: WorkSpec,
    /// What is moved: a file or a folder.
    pub source: PathBuf,
    /// What the other end has before, where the work is an update.
    pub older: Option<PathBuf>,
    /// What must have arrived in the end.
    pub content: Content,
    folder: PathBuf,
}

/// One file in so many is changed by an update.
const CHANGED_ONE_IN: usize = 100;
const CHUNK: usize = 4 << 20;

impl Inputs {
    /// Makes the files of `spec` in `scratch`, which must exist. They are the same on every run.
    pub fn make(spec: &WorkSpec, scratch: &Path) -> Result<Self, WorkError> {
        let folder = scratch.join(spec.kind().name());
        remove_all(&folder);
        fs::create_dir_all(&folder).map_err(WorkError::file("created", &folder))?;
        let mut inputs = Self {
            spec: spec.clone(),
            source: folder.clone(),
            older: None,
            content: Content::default(),
            folder,
        };
        inputs.fill(scratch)?;
        Ok(inputs)
    }

    fn fill(&mut self, scratch: &Path) -> Result<(), WorkError> {
        // The name that arrives at the other end is in a folder of its own, so that the folder is what is compared.
        let home = self.folder.join("new");
        fs::create_dir_all(&home).map_err(WorkError::file("created", &home))?;
        match &self.spec {
            WorkSpec::File(size) => {
                room_for(&self.spec, size.0.saturating_mul(2), scratch)?;
                self.source = home.join("file");
                write_noise(&self.source, *size).map_err(WorkError::file("written", &self.source))?;
            }
            WorkSpec::Tree(origin) | WorkSpec::Tar(origin) | WorkSpec::Update(origin) => {
                let from = match origin {
                    TreeOrigin::LinuxSource(_) => unpacked_source()?,
                    TreeOrigin::Folder(folder) => folder.clone(),
                };
                let names = listing(&from)?;
                let most = match origin {
                    TreeOrigin::LinuxSource(Some(files)) => usize::try_from(*files).unwrap_or(usize::MAX),
                    _ => usize::MAX,
                };
                let chosen = &names[..names.len().min(most)];
                self.source = home.join("tree");
                copy(&from, chosen, &self.source)?;
            }
            WorkSpec::Meta(files) => {
                self.source = home.join("small");
                fs::create_dir_all(&self.source).map_err(WorkError::file("created", &self.source))?;
                for number in 0..*files {
                    let path = self.source.join(format!("{number:06}"));
                    fs::write(&path, format!("{number}\n")).map_err(WorkError::file("written", &path))?;
                }
            }
        }
        if self.spec.kind() == Kind::Update {
            self.change_a_little()?;
        }
        self.content = Content::of(&home)?;
        Ok(())
    }

    /// Keeps the tree as it is as the older one, and changes one file in a hundred of the newer.
    fn change_a_little(&mut self) -> Result<(), WorkError> {
        let older = self.folder.join("old").join("tree");
        let names = listing(&self.source)?;
        copy(&self.source, &names, &older)?;
        for name in names.iter().step_by(CHANGED_ONE_IN) {
            let path = self.source.join(name);
            if path.symlink_metadata().is_ok_and(|status| status.is_file()) {
                let append = || File::options().append(true).open(&path)?.write_all(b"/* changed */\n");
                append().map_err(WorkError::file("changed", &path))?;
            }
        }
        self.older = Some(older);
        Ok(())
    }

    /// The name under which the work arrives.
    pub fn name(&self) -> &Path {
        Path::new(self.source.file_name().unwrap_or_default())
    }

    /// Bytes that arrive.
    pub fn bytes(&self) -> u64 {
        self.content.bytes()
    }

    /// Files that arrive.
    pub fn files(&self) -> u64 {
        self.content.files.len() as u64
    }
}

impl Drop for Inputs {
    fn drop(&mut self) {
        remove_all(&self.folder);
    }
}

/// Removes a folder or file with all that is in it, if it is there. What cannot be removed is left for the next run.
pub(crate) fn remove_all(path: &Path) {
    let _ = match path.symlink_metadata() {
        Ok(status) if status.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(_) => Ok(()),
    };
}

fn room_for(spec: &WorkSpec, needed: u64, scratch: &Path) -> Result<(), WorkError> {
    let status =
        rustix::fs::statvfs(scratch).map_err(|error| WorkError::file("looked at", scratch)(error.into()))?;
    let free = status.f_bavail.saturating_mul(status.f_frsize);
    if free < needed {
        return Err(WorkError::NoRoom {
            work: spec.to_string(),
            needed: ByteCount(needed),
            free: ByteCount(free),
            folder: scratch.to_owned(),
        });
    }
    Ok(())
}

/// Bytes that no link, file system or protocol can compress; the same on every machine.
fn write_noise(path: &Path, size: ByteCount) -> io::Result<()> {
    let mut noise =
        blake3::Hasher::new_derive_key("terahaul lab: a file that cannot be compressed").finalize_xof();
    let mut file = File::create(path)?;
    let mut buffer = vec![0; CHUNK];
    let mut left = size.0;
    while left > 0 {
        let now = left.min(CHUNK as u64) as usize;
        noise.fill(&mut buffer[..now]);
        file.write_all(&buffer[..now])?;
        left -= now as u64;
    }
    Ok(())
}

/// Every file and link below `folder`, in the order of their names.
fn listing(folder: &Path) -> Result<Vec<PathBuf>, WorkError> {
    let mut names = Vec::new();
    let mut waiting = vec![folder.to_owned()];
    while let Some(current) = waiting.pop() {
        for entry in fs::read_dir(&current).map_err(WorkError::file("listed", &current))? {
            let entry = entry.map_err(WorkError::file("listed", &current))?;
            let path = entry.path();
            match entry.file_type().map_err(WorkError::file("looked at", &path))? {
                kind if kind.is_dir() => waiting.push(path),
                _ => names.push(path.strip_prefix(folder).unwrap_or(&path).to_owned()),
            }
        }
    }
    names.sort();
    Ok(names)
}

/// Copies the named files and links with their times and modes.
fn copy(from: &Path, names: &[PathBuf], to: &Path) -> Result<(), WorkError> {
    fs::create_dir_all(to).map_err(WorkError::file("created", to))?;
    let mut last = PathBuf::new();
    for name in names {
        let (old, new) = (from.join(name), to.join(name));
        let above = new.parent().unwrap_or(to);
        if above != last {
            fs::create_dir_all(above).map_err(WorkError::file("created", above))?;
            last = above.to_owned();
        }
        copy_one(&old, &new).map_err(WorkError::file("copied", &old))?;
    }
    Ok(())
}

fn copy_one(old: &Path, new: &Path) -> io::Result<()> {
    let status = old.symlink_metadata()?;
    if status.is_symlink() {
        return std::os::unix::fs::symlink(fs::read_link(old)?, new);
    }
    fs::copy(old, new)?;
    File::options().write(true).open(new)?.set_modified(status.modified()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_the_same_on_every_run_and_goes_with_its_work() {
        let scratch = tempfile::tempdir().unwrap();
        let spec = WorkSpec::File(ByteCount(5_000_000));
        let first = Inputs::make(&spec, scratch.path()).unwrap();
        assert_eq!((first.bytes(), first.files(), first.name()), (5_000_000, 1, Path::new("file")));
        let content = first.content.clone();
        drop(first);
        assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 0);
        assert_eq!(Inputs::make(&spec, scratch.path()).unwrap().content, content);
    }

    #[test]
    fn an_update_changes_one_file_in_a_hundred() {
        let scratch = tempfile::tempdir().unwrap();
        let mine = tempfile::tempdir().unwrap();
        for number in 0..250 {
            fs::write(mine.path().join(format!("{number:03}")), "text\n").unwrap();
        }
        let spec = WorkSpec::Update(TreeOrigin::Folder(mine.path().to_owned()));
        let inputs = Inputs::make(&spec, scratch.path()).unwrap();
        let older = Content::of(inputs.older.as_ref().unwrap().parent().unwrap()).unwrap();
        let difference = older.compare(&inputs.content).unwrap();
        assert_eq!(difference.to_string(), "3 with other bytes, first tree/000");
    }

    #[test]
    fn work_that_does_not_fit_is_refused_before_a_byte_is_written() {
        let scratch = tempfile::tempdir().unwrap();
        let refusal =
            Inputs::make(&WorkSpec::File(ByteCount(1 << 60)), scratch.path()).unwrap_err().to_string();
        assert!(refusal.contains("--scratch"), "{refusal}");
    }
}
