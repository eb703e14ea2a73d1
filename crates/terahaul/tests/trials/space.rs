//! Disks and quotas that end in the middle. They need small file systems of their own, so a machine on which the test
//! may not mount any skips them, and says so.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::ordinary::ordinary;
use crate::rig::{Depot, Ran, assert_same, spawn, terahaul, wait_until, write_random};

/// A file system in memory, unmounted when dropped.
struct Small(PathBuf);

impl Small {
    /// `None` where this test may not mount.
    fn mount(at: &Path, size: &str) -> Option<Self> {
        std::fs::create_dir_all(at).unwrap();
        let mounted = mount(&["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"], at);
        if !mounted {
            eprintln!("SKIPPED: mounting a small file system needs root");
        }
        mounted.then(|| Self(at.to_owned()))
    }

    fn remount(&self, options: &str) {
        assert!(mount(&["-o", &format!("remount,{options}")], &self.0), "remount,{options}");
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        // Lazily: what a failed test leaves running may still use it.
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

fn mount(args: &[&str], at: &Path) -> bool {
    let ran = Command::new("mount").args(args).arg(at).output();
    ran.is_ok_and(|ran| ran.status.success())
}

/// A depot whose data is on a small file system.
fn cramped(size: &str, flags: &[&str]) -> Option<(Small, Depot)> {
    let home = tempfile::tempdir().unwrap();
    let disk = Small::mount(&home.path().join("depot"), size)?;
    Some((disk, Depot::start_in(home, &[], flags)))
}

/// One sentence for people, with what to do.
fn assert_says(ran: &Ran, code: i32, words: &[&str]) {
    assert_eq!(ran.code, code, "{}{}", ran.stdout, ran.stderr);
    for word in words {
        assert!(ran.stderr.contains(word), "'{word}' is not in: {}", ran.stderr);
    }
    let last = ran.stderr.lines().last().unwrap();
    assert!(last.starts_with("terahaul: ") && last.contains([':', ';', ',']), "{last}");
}

/// Sends again, receives, compares.
fn assert_completes(depot: &Depot) {
    let link = depot.send(&["src"]);
    let ran = depot.run(&["receive", &link, "dst"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_same(&depot.path("src"), &depot.path("dst/src"));
}

#[test]
fn what_does_not_fit_the_depots_disk_is_refused_before_a_byte_and_fits_when_there_is_room() {
    let Some((disk, depot)) = cramped("24m", &[]) else { return };
    write_random(&depot.path("src/a"), 40 << 20, 1);
    assert_says(&depot.run(&["send", "src"]), 6, &["disk", "free"]);
    wait_until("nothing of it is kept", || depot.run(&["list"]).stdout.is_empty());
    disk.remount("size=128m");
    assert_completes(&depot);
}

#[test]
fn a_depots_disk_that_fills_up_half_way_says_so_and_goes_on_when_there_is_room() {
    let Some((disk, depot)) = cramped("24m", &["--overcommit"]) else { return };
    for number in 0..10 {
        write_random(&depot.path(&format!("src/{number}")), (4 << 20) + number, number as u64);
    }
    assert_says(&depot.run(&["send", "src"]), 6, &["disk"]);
    disk.remount("size=128m");
    assert_completes(&depot);
}

#[test]
fn somebody_else_fills_the_depots_disk_half_way() {
    let Some((disk, depot)) = cramped("48m", &["--overcommit"]) else { return };
    write_random(&depot.path("src/a"), 24 << 20, 1);
    let sender = spawn(depot.command(&["send", "src", "--limit", "6MB"]));
    depot.wait_for_durable(2 << 20);
    let mut filler = std::fs::File::create(depot.path("depot/filler")).unwrap();
    // Until nothing more fits.
    assert!(std::io::copy(&mut std::io::repeat(1), &mut filler).is_err());
    let ran = Ran::of_child(sender);
    assert!(ran.code == 6 || ran.code == 0, "{}", ran.stderr);
    if ran.code == 6 {
        assert_says(&ran, 6, &["disk"]);
    }
    std::fs::remove_file(depot.path("depot/filler")).unwrap();
    disk.remount("size=128m");
    assert_completes(&depot);
}

#[test]
fn a_receivers_disk_that_is_full_shows_nothing_and_goes_on_when_there_is_room() {
    let depot = Depot::start();
    let Some(disk) = Small::mount(&depot.path("dst"), "24m") else { return };
    for number in 0..10 {
        write_random(&depot.path(&format!("src/{number}")), (4 << 20) + number, number as u64);
    }
    let link = depot.send(&["src"]);
    assert_says(&depot.run(&["receive", &link, "dst"]), 6, &["dst"]);
    let visible = std::fs::read_dir(depot.path("dst")).unwrap();
    let visible = visible.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert!(visible.into_iter().all(|name| name.starts_with(".terahaul-")));
    disk.remount("size=128m");
    assert_completes(&depot);
}

#[test]
fn a_data_folder_that_becomes_read_only_ends_the_send_and_a_later_run_completes() {
    let through = ordinary();
    let through: Vec<&str> = through.iter().map(String::as_str).collect();
    let depot = Depot::start_in(tempfile::tempdir().unwrap(), &through, &[]);
    write_random(&depot.path("src/a"), 24 << 20, 1);
    let sender = spawn(depot.command(&["send", "src", "--limit", "6MB"]));
    depot.wait_for_durable(2 << 20);
    let allow = |mode| {
        for folder in ["incoming", "published"] {
            let path = depot.path("depot/store").join(folder);
            std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        }
    };
    allow(0o500);
    assert_says(&Ran::of_child(sender), 1, &["Permission denied", "depot"]);
    allow(0o700);
    assert_completes(&depot);
}

#[test]
fn a_depot_does_not_start_on_a_read_only_folder_and_names_it() {
    let home = tempfile::tempdir().unwrap();
    let Some(disk) = Small::mount(&home.path().join("depot"), "8m") else { return };
    disk.remount("ro");
    let mut command = terahaul(home.path());
    command.args(["serve", "--data", "depot", "--listen", "127.0.0.1:0"]);
    assert_says(&Ran::of(command), 2, &["depot", "Read-only"]);
}

#[test]
fn a_tokens_quota_is_named_and_room_can_be_made() {
    let depot = Depot::start();
    let made = depot.run(&["token", "create", "--label", "x", "--scope", "send", "--quota", "10MB"]);
    let token = made.last_line().to_owned();
    let run = |args: &[&str]| {
        let mut command = depot.command(args);
        command.env("TERAHAUL_TOKEN", &token);
        Ran::of(command)
    };
    write_random(&depot.path("first"), 8_000_000, 1);
    write_random(&depot.path("src/second"), 8_000_000, 2);
    assert_eq!(run(&["send", "first"]).code, 0);
    assert_says(&run(&["send", "src"]), 6, &["the token's quota of 10", "8.0 MB are in use"]);
    let listed = run(&["list", "--json"]).events();
    let first = listed.iter().find(|transfer| transfer["state"] == "complete").unwrap();
    assert_eq!(run(&["remove", first["id"].as_str().unwrap()]).code, 0);
    let ran = run(&["send", "src"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let received = depot.run(&["receive", ran.last_line(), "dst"]);
    assert_eq!(received.code, 0, "{}", received.stderr);
    assert_same(&depot.path("src"), &depot.path("dst/src"));
}

#[test]
fn a_depots_quota_is_named_and_room_can_be_made() {
    let depot = Depot::start_with(&["--quota", "10MB"]);
    write_random(&depot.path("first"), 8_000_000, 1);
    write_random(&depot.path("src/second"), 8_000_000, 2);
    depot.send(&["first"]);
    let first = depot.only_transfer()["id"].as_str().unwrap().to_owned();
    assert_says(&depot.run(&["send", "src"]), 6, &["the depot's quota of 10"]);
    assert_eq!(depot.run(&["remove", &first]).code, 0);
    assert_completes(&depot);
}
