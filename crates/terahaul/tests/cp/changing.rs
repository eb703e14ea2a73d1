//! Folders that change while they are copied.

use std::fs;

use crate::resume::wait_until_staged;
use crate::rig::{Ran, assert_same, send_signal, spawn, write_random};
use crate::sshd::{Sshd, staging_folders};

/// Copies, and changes the source when it has been walked, while its last files have not been read.
fn copy_while(change: impl Fn(&Sshd)) -> (Sshd, Ran) {
    let ssh = Sshd::start();
    write_random(&ssh.path("src/a-large.bin"), 24 << 20, 1);
    for number in 0..20 {
        write_random(&ssh.path(&format!("src/z/{number}")), 3000, number);
    }
    // On one channel, so that it comes to them last.
    let limited = ["-z", "no", "--channels", "1", "--limit", "8MB", "src", &ssh.far("there")];
    let running = spawn(ssh.command(&limited));
    // Not until some of it is durable: a busy disk is done with that when all has been read.
    wait_until_staged(&ssh.path("there"), "tree/src/a-large.bin", 1 << 20);
    // However long the disk takes for the change, no more is read before it.
    send_signal(running.id(), "STOP");
    change(&ssh);
    send_signal(running.id(), "CONT");
    (ssh, Ran::of_child(running))
}

/// The rest has arrived, and the same command makes it whole.
fn assert_mends(ssh: &Sshd) {
    assert!(ssh.path("there/src/a-large.bin").exists() && ssh.path("there/src/z/19").exists());
    assert_eq!(staging_folders(&ssh.path("there")), 0);
    ssh.copy(&["--delete", "src", &ssh.far("there")]);
    assert_same(&ssh.path("src"), &ssh.path("there/src"));
}

#[test]
fn files_that_vanish_are_named_and_have_an_exit_code_of_their_own() {
    let (ssh, ran) = copy_while(|ssh| {
        fs::remove_file(ssh.path("src/z/3")).unwrap();
        fs::remove_file(ssh.path("src/z/4")).unwrap();
    });
    assert_eq!(ran.code, 24, "{}", ran.stderr);
    assert_eq!(ran.stderr.matches("vanished").count(), 2, "{}", ran.stderr);
    assert!(!ssh.path("there/src/z/3").exists());
    assert_mends(&ssh);
}

#[test]
fn files_that_change_are_named_and_not_given_their_names() {
    let (ssh, ran) = copy_while(|ssh| {
        write_random(&ssh.path("src/z/3"), 4000, 7);
        fs::remove_file(ssh.path("src/z/4")).unwrap();
    });
    assert_eq!(ran.code, 7, "{}", ran.stderr);
    assert!(ran.stderr.contains("z/3 changed") && ran.stderr.contains("z/4 vanished"), "{}", ran.stderr);
    assert!(!ssh.path("there/src/z/3").exists(), "half old, half new is neither");
    assert_mends(&ssh);
}

#[test]
fn a_folder_that_becomes_another_thing_fails_alone() {
    let (ssh, ran) = copy_while(|ssh| {
        fs::create_dir(ssh.path("src/y")).unwrap();
        fs::remove_file(ssh.path("src/z/5")).unwrap();
        fs::create_dir(ssh.path("src/z/5")).unwrap();
        fs::write(ssh.path("src/z/new"), "after the walk").unwrap();
    });
    assert_eq!(ran.code, 7, "{}", ran.stderr);
    assert!(ran.stderr.contains("z/5") && !ssh.path("there/src/z/5").exists(), "{}", ran.stderr);
    assert_mends(&ssh);
}
