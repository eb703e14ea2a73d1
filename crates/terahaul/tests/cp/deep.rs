//! Folders within folders, and file systems within file systems.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use rustix::fs::{AtFlags, Mode, OFlags, openat};

use crate::rig::{Ran, terahaul_through};
use crate::sshd::{Sshd, staging_folders};

/// Folders in each other, each with a file; deeper than any path that the system takes at once.
fn dig(root: &Path, name: &str, depth: usize) {
    fs::create_dir_all(root).unwrap();
    let mut folder: OwnedFd = fs::File::open(root).unwrap().into();
    for _ in 0..depth {
        rustix::fs::mkdirat(&folder, name, Mode::from_raw_mode(0o755)).unwrap();
        folder = openat(&folder, name, OFlags::DIRECTORY | OFlags::RDONLY, Mode::empty()).unwrap();
        openat(&folder, "file", OFlags::CREATE | OFlags::WRONLY, Mode::from_raw_mode(0o644)).unwrap();
    }
}

/// How deep it goes.
fn depth(root: &Path, name: &str) -> usize {
    let mut folder: OwnedFd = fs::File::open(root).unwrap().into();
    for depth in 0.. {
        let Ok(next) = openat(&folder, name, OFlags::DIRECTORY | OFlags::RDONLY, Mode::empty()) else {
            return depth;
        };
        assert!(rustix::fs::statat(&next, "file", AtFlags::empty()).is_ok(), "at {depth}");
        folder = next;
    }
    0
}

#[test]
fn what_lies_deeper_than_any_path_is_named_and_the_rest_is_copied() {
    let ssh = Sshd::start();
    let name = "d".repeat(100);
    dig(&ssh.path("src"), &name, 60);
    for (from, to) in [("src".to_owned(), ssh.far("there")), (ssh.far("src"), "here".into())] {
        let ran = ssh.run(&[&from, &to]);
        assert_eq!(ran.code, 7, "{}", ran.stderr);
        assert!(ran.stderr.lines().count() <= 3, "{}", ran.stderr);
    }
    // A path has 4,096 bytes at most.
    for folder in ["there", "here"] {
        assert_eq!(depth(&ssh.path(folder).join("src"), &name), (4096 - "src/".len()) / (name.len() + 1));
        assert_eq!(staging_folders(&ssh.path(folder)), 0);
    }
    let ran = ssh.run(&["--delete", "--exclude=*", "src/", &ssh.far("there/src/")]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
}

/// It came by something that takes longer paths.
#[test]
fn a_copy_of_what_lies_deeper_than_any_path_is_not_deleted() {
    let ssh = Sshd::start();
    let name = "d".repeat(100);
    for folder in ["src", "there/src", "here/src"] {
        dig(&ssh.path(folder), &name, 60);
    }
    for (from, to) in [("src".to_owned(), ssh.far("there")), (ssh.far("src"), "here".into())] {
        let ran = ssh.run(&["--delete", &from, &to]);
        assert_eq!(ran.code, 7, "{}", ran.stderr);
        assert!(
            ran.stderr.contains("is longer than") && ran.stderr.contains("--ignore-errors"),
            "{}",
            ran.stderr
        );
    }
    for folder in ["there/src", "here/src"] {
        assert_eq!(depth(&ssh.path(folder), &name), 60);
    }
}

#[test]
fn folders_as_deep_as_paths_allow_are_removed() {
    let ssh = Sshd::start();
    dig(&ssh.path("there"), "d", 500);
    fs::create_dir(ssh.path("src")).unwrap();
    let done = ssh.copy(&["--delete", "src/", &ssh.far("there")]);
    assert_eq!(done["removed"], 1000, "{done}");
    assert_eq!(fs::read_dir(ssh.path("there")).unwrap().count(), 0);
}

#[test]
fn what_is_mounted_in_a_folder_that_goes_stays_also_if_it_is_of_the_same_file_system() {
    let home = tempfile::tempdir().unwrap();
    let script = "mkdir -p src dst/jail/home home/d; echo kept > home/d/precious; echo old > dst/jail/old; \
                  echo file > src/x; mkdir -p dst/x/home; mount --bind home dst/jail/home; \
                  mount --bind home dst/x/home; \"$0\" cp --delete src/ dst || echo code $?; \
                  test ! -e dst/jail/old; rm src/x; \"$0\" cp --delete src/ dst; test -d dst/x; echo whole";
    let Some(ran) = in_a_namespace(home.path(), script) else { return };
    assert_eq!((ran.code, ran.last_line()), (0, "whole"), "{ran:?}");
    assert_eq!(fs::read_to_string(home.path().join("home/d/precious")).unwrap(), "kept\n");
}

/// Each run found the folder of its own that is for what has not arrived, took it for another's, and ended with 7.
#[test]
fn a_source_that_is_mounted_at_its_destination_is_not_copied_into_itself() {
    let home = tempfile::tempdir().unwrap();
    let script = "mkdir -p src/inner alias; echo 1 > src/file; mount --bind src alias; \
                  for to in alias alias/inner; do for from in src src/; do \
                  code=0; \"$0\" cp --delete $from $to || code=$?; test $code = 2; \
                  done; done; find src | wc -l";
    let Some(ran) = in_a_namespace(home.path(), script) else { return };
    assert_eq!((ran.code, ran.last_line()), (0, "3"), "{ran:?}");
}

/// As it is done to copy what lies under mounts.
#[test]
fn a_source_is_not_refused_for_what_is_mounted_in_it_elsewhere() {
    let home = tempfile::tempdir().unwrap();
    let script = "mkdir -p root/backup plain; echo 1 > root/file; mount --bind root plain; \
                  mount -t tmpfs tmpfs root/backup; \"$0\" cp plain/ root/backup/new; \
                  cat root/backup/new/file; ls root/backup/new/backup | wc -l";
    let Some(ran) = in_a_namespace(home.path(), script) else { return };
    assert_eq!((ran.code, ran.last_line()), (0, "0"), "{ran:?}");
}

const MOUNTS: usize = 40;

/// Runs a shell script in a namespace of its own in which what it mounts is gone with it; `None` where that may not be.
fn in_a_namespace(home: &Path, script: &str) -> Option<Ran> {
    let may = Command::new("unshare").args(["-m", "true"]).output().is_ok_and(|ran| ran.status.success());
    if !may {
        eprintln!("SKIPPED: mounting needs root");
        return None;
    }
    // The program is its `$0`.
    let through = ["unshare", "-m", "sh", "-eu", "-c", script].map(str::to_owned);
    Some(Ran::of(terahaul_through(home, &through)))
}

#[test]
fn a_destination_and_a_source_of_forty_file_systems_in_each_other() {
    let home = tempfile::tempdir().unwrap();
    let deepest = (0..MOUNTS).map(|level| format!("m{level}")).collect::<Vec<_>>();
    let mut mounts = String::new();
    for level in 1..=MOUNTS {
        for side in ["src", "dst"] {
            let path = format!("{side}/{}", deepest[..level].join("/"));
            mounts += &format!("mkdir -p {path}; mount -t tmpfs tmpfs {path}; ");
        }
        mounts += &format!("echo {level} > src/{}/file; ", deepest[..level].join("/"));
    }
    let rsh = home.path().join("rsh");
    fs::write(&rsh, "#!/bin/sh\nshift\nexec sh -c \"$*\"\n").unwrap();
    fs::set_permissions(&rsh, fs::Permissions::from_mode(0o755)).unwrap();
    let check = "diff -r src dst; test ! -e \"$(find dst -name '.terahaul-*' | head -1)\"; ";
    let script = format!(
        "{mounts} \"$0\" cp -a src/ dst; {check} rm dst/m0/m1/file; echo more >> src/m0/m1/m2/file; \
         \"$0\" cp -a -e \"$PWD/rsh\" --far-command \"$0\" src/ far:\"$PWD\"/dst; {check} echo whole"
    );
    let Some(ran) = in_a_namespace(home.path(), &script) else { return };
    assert_eq!((ran.code, ran.last_line()), (0, "whole"), "{ran:?}");
    assert!(!home.path().join("dst/m0/m1").exists(), "the mounts are gone");
}
