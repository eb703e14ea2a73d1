//! Paths: what is taken never leads out of the folder it is joined to, and prints without control characters.
#![no_main]

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};

use libfuzzer_sys::fuzz_target;
use terahaul_core::{EntryPath, MAX_COMPONENT, MAX_DEPTH, MAX_PATH};

fuzz_target!(|bytes: &[u8]| {
    let Ok(path) = EntryPath::new(bytes) else { return };
    assert_eq!(path.as_bytes(), bytes);
    assert!(bytes.len() <= MAX_PATH && path.components().count() <= MAX_DEPTH);
    assert!(path.components().all(|name| (1..=MAX_COMPONENT).contains(&name.len())));
    // The standard library's own idea of the path agrees.
    let components: Vec<_> = Path::new(OsStr::from_bytes(bytes)).components().collect();
    assert!(components.iter().all(|component| matches!(component, Component::Normal(_))));
    assert_eq!(components.len(), path.components().count());
    assert!(!path.to_string().chars().any(char::is_control));
    let (folder, name) = path.split();
    assert_eq!(folder.map_or(0, |folder| folder.len() + 1) + name.len(), bytes.len());
});
