//! Trees to copy, and what is seen of them.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

use crate::sshd::Sshd;

/// A tree at the source, and another where it goes.
pub fn two_trees(ssh: &Sshd) {
    for (path, content) in [
        ("src/new", "1"),
        ("src/same", "22"),
        ("src/older", "333"),
        ("src/sub/grown", "4444"),
        ("src/sub/skip.o", "5"),
        ("there/same", "22"),
        ("there/older", "33x"),
        ("there/sub/grown", "4"),
        ("there/extra", "6"),
        ("there/gone/x.o", "7"),
        ("there/gone/y", "8"),
    ] {
        let path = ssh.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    ["src/new", "src/same", "src/older", "src/sub/grown", "src/sub/skip.o", "there/same", "there/sub/grown"]
        .iter()
        .for_each(|path| date(&ssh.path(path), 1_500_000_000));
    date(&ssh.path("there/older"), 1_600_000_000);
}

/// Gives what is there, be it a link, a time of whole seconds, which is all that rsync compares.
pub fn date(path: &Path, seconds: usize) {
    let touched = Command::new("touch").arg("-hd").arg(format!("@{seconds}")).arg(path).status().unwrap();
    assert!(touched.success());
}

/// What is in a file, if it is there.
pub fn text(ssh: &Sshd, path: &str) -> Option<String> {
    fs::read_to_string(ssh.path(path)).ok()
}

/// Mode, time, link text or content, and by which name the same file was seen first.
pub type Seen = (u32, i64, Vec<u8>, Vec<u8>);

/// Everything below a folder.
pub fn seen(dir: &Path) -> BTreeMap<Vec<u8>, Seen> {
    let (mut all, mut first) = (BTreeMap::new(), BTreeMap::new());
    let mut folders = vec![dir.to_path_buf()];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.symlink_metadata().unwrap().is_dir() {
                folders.push(path.clone());
            }
            found.push(path);
        }
    }
    found.sort();
    for path in found {
        let meta = path.symlink_metadata().unwrap();
        let name = path.strip_prefix(dir).unwrap().as_os_str().as_bytes().to_vec();
        let content = match meta.file_type() {
            kind if kind.is_dir() => b"folder".to_vec(),
            kind if kind.is_symlink() => fs::read_link(&path).unwrap().as_os_str().as_bytes().to_vec(),
            _ => blake3::hash(&fs::read(&path).unwrap()).as_bytes().to_vec(),
        };
        let first: &mut Vec<u8> = first.entry((meta.dev(), meta.ino())).or_insert_with(|| name.clone());
        all.insert(name, (meta.mode(), meta.mtime(), content, first.clone()));
    }
    all
}
