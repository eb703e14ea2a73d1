//! Random trees of files.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::random::Random;
use crate::rig::write_random;

const BLOCK: u64 = 4 << 20;

/// What was put under a folder.
#[derive(Clone, Copy, Debug, Default)]
pub struct Planted {
    pub entries: u64,
    pub bytes: u64,
}

impl Planted {
    fn file(&mut self, path: &Path, len: u64, random: &mut Random) {
        write_random(path, len as usize, random.next());
        self.entries += 1;
        self.bytes += len;
    }

    fn folder(&mut self, path: &Path) {
        fs::create_dir_all(path).unwrap();
        self.entries += 1;
    }
}

/// Many files of a few kilobytes, in nested folders, with links, empty folders and odd modes.
pub fn small_files(root: &Path, random: &mut Random) -> Planted {
    let mut planted = Planted::default();
    planted.folder(root);
    let mut folders: Vec<PathBuf> = vec![root.to_owned()];
    for number in 0..10 + random.below(30) {
        let path = random.pick(&folders).join(format!("folder {number}"));
        planted.folder(&path);
        folders.push(path);
    }
    for number in 0..600 + random.below(1800) {
        let path = random.pick(&folders).join(format!("{number}.bin"));
        let len = match random.below(20) {
            0 => 0,
            1 => 1,
            2 => random.below(300_000),
            _ => random.below(12_000),
        };
        planted.file(&path, len, random);
        if random.one_in(10) {
            fs::set_permissions(&path, Permissions::from_mode(*random.pick(&[0o600, 0o755, 0o444]))).unwrap();
        }
    }
    for number in 0..random.below(5) {
        let path = random.pick(&folders).join(format!("link {number}"));
        std::os::unix::fs::symlink(format!("{number}.bin"), path).unwrap();
        planted.entries += 1;
    }
    planted
}

/// A few files of some blocks each, their ends on, just before or just after a block's end.
pub fn large_files(root: &Path, random: &mut Random) -> Planted {
    let mut planted = Planted::default();
    planted.folder(root);
    for number in 0..2 + random.below(4) {
        let blocks = 1 + random.below(5);
        let len = match random.below(4) {
            0 => blocks * BLOCK,
            1 => blocks * BLOCK - 1,
            2 => blocks * BLOCK + 1,
            _ => blocks * BLOCK + random.below(BLOCK),
        };
        planted.file(&root.join(format!("large {number}.bin")), len, random);
    }
    planted.file(&root.join("beside.txt"), 1 + random.below(5000), random);
    planted
}
