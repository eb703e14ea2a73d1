use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use crate::rig::{Depot, assert_same};

#[test]
fn every_name_that_a_file_system_takes_arrives_as_it_is() {
    let depot = Depot::start();
    let root = depot.path("src");
    std::fs::create_dir(&root).unwrap();
    let long = [b'n'; 255];
    let names: [&[u8]; 16] = [
        b"a\nb",
        b"back\\slash",
        b"\xff\xfe\x80",
        b"CON",
        b"nul.txt",
        b"...",
        b" ",
        b"-rf",
        b"*?<>|\":",
        "caf\u{e9}".as_bytes(),
        "cafe\u{301}".as_bytes(),
        b"case",
        b"CASE",
        b"\x1b[2J",
        b"%2e%2e",
        &long,
    ];
    for name in names {
        std::fs::write(root.join(OsStr::from_bytes(name)), name).unwrap();
    }
    let mut deep = root.join("deep");
    for _ in 0..200 {
        deep.push("d");
    }
    std::fs::create_dir_all(&deep).unwrap();
    std::fs::write(deep.join("end"), "x").unwrap();
    std::os::unix::fs::symlink("/etc/passwd", root.join("out")).unwrap();
    std::os::unix::fs::symlink(OsStr::from_bytes(b"\xff/../.."), root.join("dangling")).unwrap();
    let link = depot.send(&["src", "--receipt", "r.json"]);
    let ran = depot.run(&["receive", &link, "dst"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_same(&root, &depot.path("dst/src"));
    let ran = depot.run(&["verify", "r.json", "dst", "--extra"]);
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
    let listed = depot.run(&["info", &link]);
    assert!(!listed.stdout.contains('\u{1b}'), "a name cannot move a cursor");
}

#[test]
fn a_folder_whose_name_no_transfer_can_have_is_sent_all_the_same() {
    let depot = Depot::start();
    std::fs::create_dir_all(depot.path("src/a\nb\u{1b}")).unwrap();
    assert_eq!(depot.run(&["send", "src/a\nb\u{1b}"]).code, 0);
    assert_eq!(depot.only_transfer()["name"], "a_b_");
    let ran = depot.run(&["send", "src", "--name", "a\nb"]);
    assert_eq!((ran.code, ran.stderr.contains("--name")), (2, true), "{}", ran.stderr);
}
