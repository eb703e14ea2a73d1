//! Disks that end in the middle of a copy. They need small file systems of their own, so a machine on which the test may
//! not mount any skips them, and says so.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use crate::resume::wait_until_durable;
use crate::rig::{Ran, assert_same, spawn, write_random};
use crate::sshd::{Sshd, staging_folders};

/// A file system in memory, unmounted when dropped.
struct Small(PathBuf);

impl Small {
    /// `None` where this test may not mount.
    fn mount(at: PathBuf, options: &str) -> Option<Self> {
        fs::create_dir_all(&at).unwrap();
        let mounted = mount(&["-t", "tmpfs", "-o", options, "tmpfs"], &at);
        if !mounted {
            eprintln!("SKIPPED: mounting a small file system needs root");
        }
        mounted.then_some(Self(at))
    }
}

/// An XFS, on which files can share bytes. `None` where this test may not make one.
fn mount_xfs(image: &Path, at: PathBuf) -> Option<Small> {
    fs::create_dir_all(&at).unwrap();
    // As small as it may be.
    fs::File::create(image).unwrap().set_len(320 << 20).unwrap();
    let made = Command::new("mkfs.xfs").args(["-q", "-m", "reflink=1"]).arg(image).output();
    let made = made.is_ok_and(|ran| ran.status.success());
    let mounted = made && mount(&["-o", "loop", &image.display().to_string()], &at);
    if !mounted {
        eprintln!("SKIPPED: making an XFS needs root, loop devices and mkfs.xfs");
    }
    mounted.then_some(Small(at))
}

impl Drop for Small {
    fn drop(&mut self) {
        // Lazily: what a failed test leaves running may still use it.
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

fn mount(args: &[&str], at: &Path) -> bool {
    Command::new("mount").args(args).arg(at).output().is_ok_and(|ran| ran.status.success())
}

#[test]
fn what_does_not_fit_is_refused_in_every_direction_and_nothing_of_it_stays() {
    let ssh = Sshd::start();
    let Some(_disk) = Small::mount(ssh.path("small"), "size=8m") else { return };
    for name in ["src/a", "src/b"] {
        write_random(&ssh.path(name), 6 << 20, 1);
    }
    for (from, to) in [
        ("src".to_owned(), ssh.far("small")),
        (ssh.far("src"), "small".into()),
        ("src".into(), "small".into()),
    ] {
        let ran = ssh.run(&[&from, &to]);
        assert_eq!(ran.code, 6, "{from}: {}", ran.stderr);
        assert!(ran.stderr.contains("free some space"), "{from}: {}", ran.stderr);
        assert_eq!(fs::read_dir(ssh.path("small")).unwrap().count(), 0, "{from}");
    }
}

/// Somebody else fills the disk, and makes room again: enough for what is missing, not for all of it once more.
#[test]
fn a_disk_that_fills_up_half_way_needs_no_room_again_for_what_has_arrived() {
    const SIZE: u64 = 24 << 20;
    let ssh = Sshd::start();
    let Some(disk) = Small::mount(ssh.path("small"), "size=32m") else { return };
    write_random(&ssh.path("src/large.bin"), SIZE as usize, 1);
    // On one channel, so that a block is whole long before all of them are.
    let slowly = ["-z", "no", "--channels", "1", "--limit", "8MB", "src", &ssh.far("small")];
    let running = spawn(ssh.command(&slowly));
    wait_until_durable(&disk.0);
    let filler = ssh.path("small/filler");
    // As much as there is.
    let _ = fs::write(&filler, vec![0; 32 << 20]);
    let ran = Ran::of_child(running);
    assert_eq!(ran.code, 6, "{}", ran.stderr);
    assert!(ran.stderr.contains("is full") && ran.stderr.contains("free some space"), "{}", ran.stderr);
    assert!(!ssh.path("small/src").exists());
    assert_eq!(staging_folders(&disk.0), 1, "what has arrived is kept");
    fs::remove_file(filler).unwrap();
    fs::write(ssh.path("small/less"), vec![0; 6 << 20]).unwrap();
    let done = ssh.copy(&["src", &ssh.far("small")]);
    assert_eq!(done["resumed"], true);
    assert!(done["moved_bytes"].as_u64().unwrap() < SIZE, "{done}");
    assert_same(&ssh.path("src"), &ssh.path("small/src"));
}

#[test]
fn names_that_run_out_end_it_and_the_same_command_goes_on() {
    let ssh = Sshd::start();
    let Some(disk) = Small::mount(ssh.path("small"), "size=8m,nr_inodes=100") else { return };
    for number in 0..300 {
        write_random(&ssh.path(&format!("src/{number}")), 10, number);
    }
    let ran = ssh.run(&["src", &ssh.far("small")]);
    assert_eq!(ran.code, 6, "{}", ran.stderr);
    // The far side cannot even begin any more.
    let ran = ssh.run(&["src/1", &ssh.far("small/other/")]);
    assert_eq!(ran.code, 6, "{}", ran.stderr);
    assert!(!ran.stderr.contains("permissions"), "{}", ran.stderr);
    assert!(mount(&["-o", "remount,nr_inodes=2000"], &disk.0));
    ssh.copy(&["src", &ssh.far("small")]);
    assert_same(&ssh.path("src"), &ssh.path("small/src"));
}

/// What it shares with the one that it replaces takes no room.
#[test]
fn a_file_that_has_hardly_changed_needs_room_for_its_changes_only_where_files_can_share() {
    let ssh = Sshd::start();
    let Some(_disk) = mount_xfs(&ssh.path("image"), ssh.path("xfs")) else { return };
    let (old, new) = (ssh.path("xfs/disk.img"), ssh.path("disk.img"));
    write_random(&new, 160 << 20, 1);
    fs::copy(&new, &old).unwrap();
    let changed = fs::File::options().write(true).open(&new).unwrap();
    changed.write_at(b"changed", 100 << 20).unwrap();
    changed.set_modified(SystemTime::now() + Duration::from_secs(9)).unwrap();
    let free = || {
        let said = Command::new("df").args(["--output=avail", "-B1"]).arg(ssh.path("xfs")).output().unwrap();
        String::from_utf8(said.stdout).unwrap().lines().last().unwrap().trim().parse::<u64>().unwrap()
    };
    assert!(free() < 160 << 20);
    let whole = ssh.run(&["-W", "disk.img", &ssh.far("xfs")]);
    assert_eq!(whole.code, 6, "{}", whole.stderr);
    let done = ssh.copy(&["disk.img", &ssh.far("xfs")]);
    assert!(done["literal_bytes"].as_u64().unwrap() < 8 << 20, "{done}");
    assert!(fs::read(new).unwrap() == fs::read(old).unwrap());
}

/// What is not complete waits on one, and goes to the other.
#[test]
fn a_partial_dir_on_another_file_system_is_asked_for_room_and_so_is_the_destination() {
    let ssh = Sshd::start();
    let Some(_disk) = Small::mount(ssh.path("small"), "size=8m") else { return };
    for name in ["src/a", "src/b"] {
        write_random(&ssh.path(name), 6 << 20, 1);
    }
    let small = ssh.path("small/partial").display().to_string();
    let large = ssh.path("partial").display().to_string();
    for (partial, to) in [(&small, "there"), (&large, "small/there")] {
        let ran = ssh.run(&["--partial-dir", partial, "src", &ssh.far(to)]);
        assert_eq!(ran.code, 6, "{}", ran.stderr);
        assert!(ran.stderr.contains(&*ssh.path("small").to_string_lossy()), "{}", ran.stderr);
        assert!(!ssh.path(to).join("src").exists());
    }
    ssh.copy(&["--partial-dir", &small, "src/a", &ssh.far("there/")]);
}

/// As on NFS, where a file that is open keeps a name until it is closed.
#[test]
fn a_copy_whose_staging_folder_cannot_be_removed_has_succeeded_all_the_same() {
    let ssh = Sshd::start();
    write_random(&ssh.path("src/large.bin"), 12 << 20, 1);
    let there = ssh.path("there");
    let slowly = ["-z", "no", "--channels", "1", "--limit", "4MB", "src", &ssh.far("there")];
    let running = spawn(ssh.command(&slowly));
    wait_until_durable(&there);
    let staging = fs::read_dir(&there).unwrap().next().unwrap().unwrap().path();
    let busy = Small::mount(staging.join("busy"), "size=1m");
    let ran = Ran::of_child(running);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_same(&ssh.path("src"), &there.join("src"));
    drop(busy);
    ssh.copy(&["src", &ssh.far("there")]);
    assert_eq!(staging_folders(&there), 0);
}

#[test]
fn a_full_file_system_below_the_destination_is_named_by_what_was_to_be_there() {
    let ssh = Sshd::start();
    for folder in ["src/d", "there/d"] {
        fs::create_dir_all(ssh.path(folder)).unwrap();
    }
    write_random(&ssh.path("src/d/large"), 8 << 20, 1);
    let Some(_small) = Small::mount(ssh.path("there/d"), "size=1m") else { return };
    for to in ["there".to_owned(), ssh.far("there")] {
        let ran = ssh.run(&["src/", &to]);
        assert_eq!(ran.code, 6, "{}", ran.stderr);
        assert!(ran.stderr.contains("the file system that d/large is on is full"), "{}", ran.stderr);
    }
}
