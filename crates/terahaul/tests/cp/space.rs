//! Disks that end in the middle of a copy. They need small file systems of their own, so a machine on which the test may
//! not mount any skips them, and says so.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

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
    let running = spawn(ssh.command(&["-z", "no", "--limit", "8MB", "src", &ssh.far("small")]));
    wait_until_durable(&disk.0);
    let filler = ssh.path("small/filler");
    // As much as there is.
    let _ = fs::write(&filler, vec![0; 32 << 20]);
    let ran = Ran::of_child(running);
    assert_eq!(ran.code, 6, "{}", ran.stderr);
    assert!(ran.stderr.contains("full: free some space"), "{}", ran.stderr);
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
    assert!(mount(&["-o", "remount,nr_inodes=2000"], &disk.0));
    ssh.copy(&["src", &ssh.far("small")]);
    assert_same(&ssh.path("src"), &ssh.path("small/src"));
}
