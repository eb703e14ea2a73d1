//! Where what is not complete lies (`--partial-dir`).

use std::fs;

use crate::sshd::Sshd;
use crate::trees::{text, two_trees};

#[test]
fn what_is_only_for_what_is_not_complete_goes_with_it() {
    let ssh = Sshd::start();
    two_trees(&ssh);
    ssh.copy(&["--partial-dir=.part", "src/", &ssh.far("a")]);
    assert!(ssh.path("a/new").exists() && !ssh.path("a/.part").exists());
    fs::create_dir_all(ssh.path("b/.part")).unwrap();
    fs::write(ssh.path("b/.part/mine"), "").unwrap();
    ssh.copy(&["--partial-dir=.part", "src/", "b"]);
    assert!(ssh.path("b/new").exists() && ssh.path("b/.part/mine").exists());
}

#[test]
fn all_folders_that_were_made_for_what_is_not_complete_go_with_it() {
    let ssh = Sshd::start();
    two_trees(&ssh);
    fs::create_dir_all(ssh.path("b/mine")).unwrap();
    ssh.copy(&["--partial-dir=x/y/z", "src/", "a"]);
    ssh.copy(&["--partial-dir=mine/y/z", "src/", &ssh.far("b")]);
    assert!(!ssh.path("a/x").exists() && !ssh.path("b/mine/y").exists());
    assert!(ssh.path("a/new").exists() && ssh.path("b/mine").exists());
    let apart = ssh.path("apart/y").display().to_string();
    ssh.copy(&["--partial-dir", &apart, "src/", "c"]);
    assert!(ssh.path("c/new").exists() && !ssh.path("apart").exists());
}

#[test]
fn what_is_incomplete_lies_where_asked_and_is_no_part_of_the_copy() {
    let ssh = Sshd::start();
    two_trees(&ssh);
    fs::create_dir(ssh.path("there/.partial")).unwrap();
    let done = ssh.copy(&["--delete", "--partial-dir=.partial", "src/", &ssh.far("there")]);
    assert_eq!(done["failed"], 0);
    assert!(ssh.path("there/.partial").is_dir() && text(&ssh, "there/new").is_some());
    assert_eq!(fs::read_dir(ssh.path("there/.partial")).unwrap().count(), 0);
    assert_eq!(text(&ssh, "there/extra"), None);
}

/// Only a name below the destination was a rule: another way to write it had what is in it removed, what was just received with it.
#[test]
fn what_is_in_the_folder_for_what_is_incomplete_stays_however_that_is_written() {
    let ssh = Sshd::start();
    two_trees(&ssh);
    fs::create_dir(ssh.path("there/part")).unwrap();
    fs::write(ssh.path("there/part/mine"), "precious").unwrap();
    let part = ssh.path("there/part").display().to_string();
    let far = ssh.far("there");
    for to in ["there", &far] {
        ssh.copy(&["--delete", "--partial-dir", &part, "src/", to]);
        assert_eq!(text(&ssh, "there/part/mine").as_deref(), Some("precious"));
    }
    fs::write(ssh.path("src/part"), "a file").unwrap();
    fs::write(ssh.path("src/zzz"), "the rest").unwrap();
    let ran = ssh.run(&["--delete", "--partial-dir", &part, "src/", "there"]);
    assert_eq!(ran.code, 7, "{}", ran.stderr);
    assert_eq!(text(&ssh, "there/part/mine").as_deref(), Some("precious"));
    assert_eq!(text(&ssh, "there/zzz").as_deref(), Some("the rest"));
}

/// It was left out without a word.
#[test]
fn a_source_that_would_arrive_as_the_folder_for_what_is_not_complete_is_refused() {
    let ssh = Sshd::start();
    two_trees(&ssh);
    for arguments in
        [["src", "there"], [&ssh.path("src").display().to_string(), "there"], ["src", &ssh.far("there")]]
    {
        let ran = ssh.run(&[&["--partial-dir=./src/"][..], &arguments].concat());
        assert_eq!((ran.code, ran.stderr.contains("give that another name")), (2, true), "{}", ran.stderr);
    }
    ssh.copy(&["--partial-dir=src", "src/", "there"]);
    fs::write(ssh.path("file"), "content").unwrap();
    ssh.copy(&["--partial-dir=file", "file", "there/other"]);
    assert_eq!(text(&ssh, "there/other").as_deref(), Some("content"));
    assert!(text(&ssh, "there/new").is_some());
}
