//! The files of a work, made in the scratch folder.

use std::fs::{self, File};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime};

use terahaul_core::ByteCount;

use super::copied::copy;
use super::{Content, Kind, TreeOrigin, WorkError, WorkSpec, heed, unpacked_source};

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
/// In how many places a file is edited, a hundredth of it in all.
const EDITS: u64 = 100;
/// Bytes inserted at a file's front.
const INSERTED: u64 = 1_000_000;
const CHUNK: usize = 4 << 20;
/// What files in memory take at least.
const PAGE: u64 = 4096;

impl Inputs {
    /// Makes the files of `spec` in `scratch`, which must exist, unless `stop` becomes true. They are the same on every run.
    pub fn make(spec: &WorkSpec, scratch: &Path, stop: &AtomicBool) -> Result<Self, WorkError> {
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
        inputs.fill(scratch, stop)?;
        Ok(inputs)
    }

    fn fill(&mut self, scratch: &Path, stop: &AtomicBool) -> Result<(), WorkError> {
        // The name that arrives at the other end is in a folder of its own, so that the folder is what is compared.
        let home = self.folder.join("new");
        fs::create_dir_all(&home).map_err(WorkError::file("created", &home))?;
        match &self.spec {
            WorkSpec::File(size) => {
                room_for(&self.spec, size.0.saturating_mul(2), scratch)?;
                self.source = home.join("file");
                write_noise(&self.source, 0, *size, stop)
                    .map_err(WorkError::file("written", &self.source))?;
            }
            WorkSpec::Edited(size) | WorkSpec::Inserted(size) => {
                // Both files, the older one where it is replaced, and what replaces it.
                room_for(&self.spec, size.0.saturating_mul(4), scratch)?;
                self.source = home.join("file");
                let older = self.folder.join("old").join("file");
                edited(&self.source, &older, *size, self.spec.kind() == Kind::Inserted, stop)?;
                self.older = Some(older);
            }
            WorkSpec::Batch(files, size) => {
                room_for(&self.spec, size.0.saturating_mul(*files).saturating_mul(2), scratch)?;
                self.source = home.join("batch");
                fs::create_dir_all(&self.source).map_err(WorkError::file("created", &self.source))?;
                for number in 0..*files {
                    let path = self.source.join(format!("{number:06}"));
                    write_noise(&path, number, *size, stop).map_err(WorkError::file("written", &path))?;
                }
            }
            WorkSpec::Small(files) => {
                // A file of a kilobyte takes a page of memory, and as much again for its name and node.
                room_for(&self.spec, files.saturating_mul(2 * 2 * PAGE), scratch)?;
                self.source = home.join("small");
                write_small(&self.source, *files, stop)?;
            }
            WorkSpec::Tree(origin)
            | WorkSpec::Tar(origin)
            | WorkSpec::Update(origin)
            | WorkSpec::Again(origin) => {
                let from = match origin {
                    TreeOrigin::LinuxSource(_) => unpacked_source(stop)?,
                    TreeOrigin::Folder(folder) => folder.clone(),
                };
                let mut names = listing(&from)?;
                if let TreeOrigin::LinuxSource(Some(files)) = origin {
                    keep_part(&from, &mut names, *files);
                }
                let copies = match self.spec.kind() {
                    // Packed and unpacked, at both ends.
                    Kind::Tar => 4,
                    Kind::Update | Kind::Again => 3,
                    _ => 2,
                };
                room_for(&self.spec, room_of(&from, &names)?.saturating_mul(copies), scratch)?;
                self.source = home.join("tree");
                copy(&from, &names, &self.source, stop)?;
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
        if matches!(self.spec.kind(), Kind::Update | Kind::Again) {
            let older = self.folder.join("old").join("tree");
            copy(&self.source, &listing(&self.source)?, &older, stop)?;
            self.older = Some(older);
        }
        if self.spec.kind() == Kind::Update {
            self.change_a_little()?;
        }
        self.content = Content::of(&home, stop)?;
        Ok(())
    }

    /// Changes one file in a hundred.
    fn change_a_little(&self) -> Result<(), WorkError> {
        for name in listing(&self.source)?.iter().step_by(CHANGED_ONE_IN) {
            let path = self.source.join(name);
            if path.symlink_metadata().is_ok_and(|status| status.is_file()) {
                let append = || File::options().append(true).open(&path)?.write_all(b"/* changed */\n");
                append().map_err(WorkError::file("changed", &path))?;
            }
        }
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

/// What the named files take in memory: whole pages, and one for the name and node.
fn room_of(folder: &Path, names: &[PathBuf]) -> Result<u64, WorkError> {
    let room = |name| {
        let path = folder.join(name);
        let status = path.symlink_metadata().map_err(WorkError::file("looked at", &path))?;
        Ok((status.len().div_ceil(PAGE) + 1) * PAGE)
    };
    names.iter().map(room).sum()
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

/// Noise is made by a seed.
fn noise(seed: u64) -> blake3::OutputReader {
    let mut hasher = blake3::Hasher::new_derive_key("terahaul lab: a file that cannot be compressed");
    // The first has none, so that a file is the same as in earlier versions.
    if seed > 0 {
        hasher.update(&seed.to_le_bytes());
    }
    hasher.finalize_xof()
}

/// Writes `size` bytes of `noise` at where `file` is.
fn write_some(
    file: &mut File,
    noise: &mut blake3::OutputReader,
    size: u64,
    stop: &AtomicBool,
) -> io::Result<()> {
    let mut buffer = vec![0; CHUNK.min(usize::try_from(size).unwrap_or(CHUNK))];
    let mut left = size;
    while left > 0 {
        heed(stop)?;
        let now = left.min(CHUNK as u64) as usize;
        noise.fill(&mut buffer[..now]);
        file.write_all(&buffer[..now])?;
        left -= now as u64;
    }
    Ok(())
}

/// Bytes that no link, file system or protocol can compress; the same on every machine.
fn write_noise(path: &Path, seed: u64, size: ByteCount, stop: &AtomicBool) -> io::Result<()> {
    write_some(&mut File::create(path)?, &mut noise(seed), size.0, stop)
}

/// A file and the older one that the other end has: with a hundredth of it changed in so many places, or with so much
/// inserted at its front.
fn edited(
    newer: &Path,
    older: &Path,
    size: ByteCount,
    inserted: bool,
    stop: &AtomicBool,
) -> Result<(), WorkError> {
    let above = older.parent().unwrap_or(older);
    fs::create_dir_all(above).map_err(WorkError::file("created", above))?;
    write_noise(older, 0, size, stop).map_err(WorkError::file("written", older))?;
    // Times tell that it changed; what is as long may have been changed within the same moment otherwise.
    let yesterday = SystemTime::now() - Duration::from_secs(86_400);
    let date = || File::options().write(true).open(older)?.set_modified(yesterday);
    date().map_err(WorkError::file("dated", older))?;
    let write = || {
        let mut file = File::create(newer)?;
        if inserted {
            write_some(&mut file, &mut noise(2), INSERTED, stop)?;
        }
        io::copy(&mut File::open(older)?, &mut file)?;
        if !inserted {
            let (gap, length) = (size.0 / EDITS, size.0 / EDITS / CHANGED_ONE_IN as u64);
            let mut changes = noise(2);
            for place in 0..EDITS {
                file.seek(SeekFrom::Start(place * gap + gap / 3))?;
                write_some(&mut file, &mut changes, length, stop)?;
            }
        }
        Ok(())
    };
    write().map_err(WorkError::file("written", newer))
}

/// So many files of a kilobyte, a thousand to a folder.
fn write_small(folder: &Path, files: u64, stop: &AtomicBool) -> Result<(), WorkError> {
    let mut noise = noise(0);
    let mut content = [0; 1_000];
    let mut below = folder.to_owned();
    for number in 0..files {
        if number % 1_000 == 0 {
            heed(stop).map_err(WorkError::file("written", folder))?;
            below = folder.join(format!("{:04}", number / 1_000));
            fs::create_dir_all(&below).map_err(WorkError::file("created", &below))?;
        }
        let path = below.join(format!("{number:07}"));
        noise.fill(&mut content);
        fs::write(&path, content).map_err(WorkError::file("written", &path))?;
    }
    Ok(())
}

/// Every file and link below `folder`, in the order of their names.
pub(crate) fn listing(folder: &Path) -> Result<Vec<PathBuf>, WorkError> {
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

/// Keeps the first `files` of the names. Links are left out: what they lead to may not be in the part, and scp and smbclient
/// stop at one that leads nowhere.
fn keep_part(folder: &Path, names: &mut Vec<PathBuf>, files: u64) {
    names.retain(|name| !folder.join(name).is_symlink());
    names.truncate(usize::try_from(files).unwrap_or(usize::MAX));
}

#[cfg(test)]
mod tests {
    use super::*;

    static GOES_ON: AtomicBool = AtomicBool::new(false);

    fn make(spec: &WorkSpec, scratch: &Path) -> Result<Inputs, WorkError> {
        Inputs::make(spec, scratch, &GOES_ON)
    }

    #[test]
    fn a_file_is_the_same_on_every_run_and_goes_with_its_work() {
        let scratch = tempfile::tempdir().unwrap();
        let spec = WorkSpec::File(ByteCount(5_000_000));
        let first = make(&spec, scratch.path()).unwrap();
        assert_eq!((first.bytes(), first.files(), first.name()), (5_000_000, 1, Path::new("file")));
        let content = first.content.clone();
        drop(first);
        assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 0);
        assert_eq!(make(&spec, scratch.path()).unwrap().content, content);
    }

    #[test]
    fn a_part_of_a_tree_has_no_link_that_leads_out_of_it() {
        let mine = tempfile::tempdir().unwrap();
        for number in 0..4 {
            fs::write(mine.path().join(format!("{number}")), "text\n").unwrap();
        }
        std::os::unix::fs::symlink("3", mine.path().join("0-link")).unwrap();
        let mut names = listing(mine.path()).unwrap();
        assert_eq!(names.len(), 5);
        keep_part(mine.path(), &mut names, 3);
        assert_eq!(names, ["0", "1", "2"].map(PathBuf::from));
    }

    #[test]
    fn an_update_changes_one_file_in_a_hundred() {
        let scratch = tempfile::tempdir().unwrap();
        let mine = tempfile::tempdir().unwrap();
        for number in 0..250 {
            fs::write(mine.path().join(format!("{number:03}")), "text\n").unwrap();
        }
        let spec = WorkSpec::Update(TreeOrigin::Folder(mine.path().to_owned()));
        let inputs = make(&spec, scratch.path()).unwrap();
        let older = Content::of(inputs.older.as_ref().unwrap().parent().unwrap(), &GOES_ON).unwrap();
        let difference = older.compare(&inputs.content).unwrap();
        assert_eq!(difference.to_string(), "3 with other bytes, first tree/000");
    }

    #[test]
    fn the_older_file_differs_by_what_its_work_says() {
        let scratch = tempfile::tempdir().unwrap();
        let both = |spec| {
            let inputs = make(&spec, scratch.path()).unwrap();
            let older = inputs.older.as_ref().unwrap();
            assert!(
                older.metadata().unwrap().modified().unwrap()
                    < inputs.source.metadata().unwrap().modified().unwrap()
            );
            (fs::read(older).unwrap(), fs::read(&inputs.source).unwrap())
        };
        let (older, newer) = both(WorkSpec::Edited(ByteCount(1_000_000)));
        let changed = older.iter().zip(&newer).filter(|(old, new)| old != new).count();
        // A changed byte is by chance what it was once in 256 times.
        assert!((9_900..=10_000).contains(&changed) && older.len() == newer.len(), "{changed}");
        let (older, newer) = both(WorkSpec::Inserted(ByteCount(1_000_000)));
        assert_eq!(newer[1_000_000..], older);
    }

    #[test]
    fn where_nothing_has_changed_links_and_folders_have_their_times_too() {
        let scratch = tempfile::tempdir().unwrap();
        let mine = tempfile::tempdir().unwrap();
        fs::create_dir_all(mine.path().join("a/b")).unwrap();
        fs::write(mine.path().join("a/b/file"), "text\n").unwrap();
        std::os::unix::fs::symlink("b/file", mine.path().join("a/link")).unwrap();
        let again =
            make(&WorkSpec::Again(TreeOrigin::Folder(mine.path().to_owned())), scratch.path()).unwrap();
        let older = again.older.as_ref().unwrap();
        for path in ["", "a", "a/b", "a/b/file", "a/link"] {
            let [here, there] = [&again.source, older]
                .map(|end| end.join(path).symlink_metadata().unwrap().modified().unwrap());
            assert_eq!(here, there, "{path}");
        }
    }

    #[test]
    fn files_together_are_as_many_and_as_large_as_asked_for() {
        let scratch = tempfile::tempdir().unwrap();
        let small = make(&WorkSpec::Small(2_345), scratch.path()).unwrap();
        assert_eq!((small.files(), small.bytes()), (2_345, 2_345_000));
        let batch = make(&WorkSpec::Batch(3, ByteCount(100_000)), scratch.path()).unwrap();
        assert_eq!((batch.files(), batch.bytes()), (3, 300_000));
        let first = &batch.content.files[Path::new("batch/000000")];
        assert_ne!(first, &batch.content.files[Path::new("batch/000001")]);
    }

    #[test]
    fn who_wants_to_stop_is_heard_while_files_are_made_and_finds_none() {
        let scratch = tempfile::tempdir().unwrap();
        let mine = tempfile::tempdir().unwrap();
        fs::write(mine.path().join("a"), "text\n").unwrap();
        let tree = WorkSpec::Tree(TreeOrigin::Folder(mine.path().to_owned()));
        for spec in [WorkSpec::File(ByteCount(1_000)), WorkSpec::Small(10), tree] {
            assert!(Inputs::make(&spec, scratch.path(), &AtomicBool::new(true)).is_err(), "{spec}");
            assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 0);
        }
    }

    #[test]
    fn work_that_does_not_fit_is_refused_before_a_byte_is_written() {
        let scratch = tempfile::tempdir().unwrap();
        let refusal = make(&WorkSpec::File(ByteCount(1 << 60)), scratch.path()).unwrap_err().to_string();
        assert!(refusal.contains("--scratch"), "{refusal}");
    }
}
