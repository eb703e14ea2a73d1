//! Ends of processes at any moment: what has arrived is kept, and the same command goes on.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use crate::rig::{assert_same, send_signal, spawn, wait_for, wait_until, write_random};
use crate::sshd::{Sshd, staging_folders};
use crate::trees::date;

pub const SIZE: usize = 48 << 20;
/// Small files beside it, in one block, which may be all that is durable when it is ended.
const MANY: u64 = 400;
const SMALL: usize = 3000;
/// Slow enough that a copy of `SIZE` is still under way when it is ended, also where the disk takes seconds to make its first block durable.
pub const LIMIT: &str = "6MB";

fn write_source(ssh: &Sshd) {
    write_random(&ssh.path("src/large.bin"), SIZE, 1);
    for number in 0..MANY {
        write_random(&ssh.path(&format!("src/many/{number}")), SMALL, number);
    }
}

/// Waits until the journal below `folder` has recorded something.
pub fn wait_until_durable(folder: &Path) {
    wait_until_staged(folder, "journal", 60);
}

/// Waits until a file in the staging folder below `folder` is longer than `len`.
pub fn wait_until_staged(folder: &Path, file: &str, len: u64) {
    wait_until(&format!("{file} is longer than {len}"), || {
        let staging = fs::read_dir(folder).into_iter().flatten();
        let mut found = staging.map(|entry| entry.unwrap().path().join(file));
        found.any(|file| fs::metadata(file).is_ok_and(|found| found.len() > len))
    });
}

/// Processes whose parent this is.
pub fn children_of(process: u32) -> Vec<u32> {
    let listed = Command::new("pgrep").args(["-P", &process.to_string()]).output().unwrap().stdout;
    String::from_utf8(listed).unwrap().lines().map(|line| line.parse().unwrap()).collect()
}

pub fn far_sides(ssh: &Sshd) -> Vec<u32> {
    let home = ssh.path("far-home").display().to_string();
    let is_ours = |process: &u32| {
        let read = |name: &str| fs::read(format!("/proc/{process}/{name}")).unwrap_or_default();
        let environment = String::from_utf8_lossy(&read("environ")).into_owned();
        read("cmdline").ends_with(b"\0far\0") && environment.contains(&home)
    };
    let numbers =
        fs::read_dir("/proc").unwrap().filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok());
    numbers.filter(is_ours).collect()
}

pub fn wait_until_gone(ssh: &Sshd) {
    wait_until("the far side is gone", || far_sides(ssh).is_empty());
}

/// Copies, ends it by `end` when something is durable, copies again: the second time moves less than all.
fn interrupt_and_resume(
    args: impl Fn(&Sshd) -> [String; 2],
    into: &str,
    flags: &[&str],
    end: impl Fn(&Sshd, &mut Child),
) {
    let ssh = Sshd::start();
    write_source(&ssh);
    let [from, to] = args(&ssh);
    let mut running = spawn(ssh.command(&[flags, &["--limit", LIMIT, &from, &to]].concat()));
    let folder: PathBuf = ssh.path(into);
    wait_until_durable(&folder);
    end(&ssh, &mut running);
    let status = wait_for(&mut running);
    assert_ne!(status.code(), Some(0));
    wait_until_gone(&ssh);
    assert!(!folder.join("src").exists(), "nothing has its name before all of it is there");
    let done = ssh.copy(&[flags, &[&from, &to]].concat());
    assert_eq!(done["resumed"], true, "{done}");
    assert!(done["moved_bytes"].as_u64().unwrap() < SIZE as u64 + MANY * SMALL as u64, "{done}");
    assert_same(&ssh.path("src"), &folder.join("src"));
    assert_eq!(staging_folders(&folder), 0);
}

/// Begins to copy to `there`, and kills the near side when something is durable.
fn kill_once_durable(ssh: &Sshd, args: &[&str]) {
    let mut running = spawn(ssh.command(&[&["--limit", LIMIT], args].concat()));
    wait_until_durable(&ssh.path("there"));
    running.kill().unwrap();
    wait_for(&mut running);
    wait_until_gone(ssh);
}

/// As after a reboot, before the instrument's disk is mounted.
#[test]
fn a_source_that_has_become_empty_costs_nothing_of_what_an_interrupted_copy_has_left() {
    let ssh = Sshd::start();
    write_source(&ssh);
    let to = ssh.far("there");
    kill_once_durable(&ssh, &["src", &to]);
    fs::rename(ssh.path("src"), ssh.path("unmounted")).unwrap();
    fs::create_dir(ssh.path("src")).unwrap();
    let ran = ssh.run(&["src", &to]);
    assert_eq!(ran.code, 5, "{}", ran.stderr);
    assert!(ran.stderr.contains("mounted"), "{}", ran.stderr);
    fs::remove_dir(ssh.path("src")).unwrap();
    fs::rename(ssh.path("unmounted"), ssh.path("src")).unwrap();
    let done = ssh.copy(&["src", &to]);
    assert_eq!(done["resumed"], true, "{done}");
    assert_same(&ssh.path("src"), &ssh.path("there/src"));
    assert_eq!(staging_folders(&ssh.path("there")), 0);
}

/// All that had arrived of it was removed, and it was sent once more.
#[test]
fn a_source_that_is_missing_beside_another_costs_nothing_of_what_an_interrupted_copy_has_left() {
    let ssh = Sshd::start();
    write_source(&ssh);
    fs::create_dir(ssh.path("other")).unwrap();
    fs::write(ssh.path("other/file"), "1").unwrap();
    let to = ssh.far("there");
    kill_once_durable(&ssh, &["other", "src", &to]);
    fs::rename(ssh.path("src"), ssh.path("unmounted")).unwrap();
    for mount_point in [false, true] {
        if mount_point {
            fs::create_dir(ssh.path("src")).unwrap();
        }
        let ran = ssh.run(&["other", "src", &to]);
        assert_eq!(ran.code, 5, "{}", ran.stderr);
        assert!(ran.stderr.contains("mounted") && ran.stderr.contains("tree/src"), "{}", ran.stderr);
    }
    fs::remove_dir(ssh.path("src")).unwrap();
    fs::rename(ssh.path("unmounted"), ssh.path("src")).unwrap();
    let done = ssh.copy(&["other", "src", &to]);
    assert!(done["moved_bytes"].as_u64().unwrap() < SIZE as u64 + MANY * SMALL as u64, "{done}");
    assert_same(&ssh.path("src"), &ssh.path("there/src"));
    assert_eq!(staging_folders(&ssh.path("there")), 0);
}

/// All else of the source is there already, and so nothing of it is sent: it was said not to be seen.
#[test]
fn what_an_interrupted_copy_has_left_of_a_file_that_is_gone_holds_nothing_up() {
    let ssh = Sshd::start();
    fs::create_dir(ssh.path("src")).unwrap();
    fs::write(ssh.path("src/file"), "1").unwrap();
    let to = ssh.far("there");
    fs::create_dir(ssh.path("there")).unwrap();
    assert_eq!(ssh.run(&["src", &to]).code, 0);
    write_random(&ssh.path("src/large"), SIZE, 1);
    kill_once_durable(&ssh, &["src", &to]);
    fs::remove_file(ssh.path("src/large")).unwrap();
    let ran = ssh.run(&["src", &to]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(staging_folders(&ssh.path("there")), 0);
}

fn push(ssh: &Sshd) -> [String; 2] {
    ["src".into(), ssh.far("there")]
}

fn pull(ssh: &Sshd) -> [String; 2] {
    [ssh.far("src"), "here".into()]
}

#[test]
fn the_near_side_is_killed_while_it_sends() {
    interrupt_and_resume(push, "there", &[], |_, running| running.kill().unwrap());
}

#[test]
fn the_near_side_is_killed_while_it_receives() {
    interrupt_and_resume(pull, "here", &[], |_, running| running.kill().unwrap());
}

#[test]
fn the_far_side_is_killed_while_it_receives() {
    interrupt_and_resume(push, "there", &[], |ssh, _| {
        far_sides(ssh).iter().for_each(|process| send_signal(*process, "KILL"));
    });
}

#[test]
fn ssh_is_killed_while_it_carries_everything() {
    interrupt_and_resume(push, "there", &["--through-ssh"], |_, running| {
        children_of(running.id()).iter().for_each(|process| send_signal(*process, "KILL"));
    });
}

#[test]
fn ssh_is_killed_while_the_data_goes_beside_it() {
    interrupt_and_resume(push, "there", &[], |_, running| {
        children_of(running.id()).iter().for_each(|process| send_signal(*process, "KILL"));
    });
}

#[test]
fn the_user_stops_it() {
    interrupt_and_resume(pull, "here", &["--through-ssh"], |_, running| send_signal(running.id(), "INT"));
}

#[test]
fn what_changes_between_two_runs_arrives_as_it_is() {
    let ssh = Sshd::start();
    write_source(&ssh);
    kill_once_durable(&ssh, &["src", &ssh.far("there")]);
    // Shorter, longer, gone, new, and another kind.
    write_random(&ssh.path("src/large.bin"), SIZE / 3, 2);
    write_random(&ssh.path("src/many/1"), 5000, 3);
    fs::remove_file(ssh.path("src/many/2")).unwrap();
    write_random(&ssh.path("src/a-new-one"), 9000, 4);
    fs::remove_file(ssh.path("src/many/3")).unwrap();
    write_random(&ssh.path("src/many/3/inside"), 100, 5);
    ssh.copy(&["src", &ssh.far("there")]);
    assert_same(&ssh.path("src"), &ssh.path("there/src"));
    assert_eq!(staging_folders(&ssh.path("there")), 0);
}

/// A file that never was arrived, half of it of the one and half of the other, and no later copy mended it: whoever builds things again
/// with the same times has such files.
#[test]
fn what_has_arrived_of_a_file_is_no_part_of_another_of_its_size_and_time() {
    for far in [false, true] {
        let ssh = Sshd::start();
        let source = ssh.path("src/image");
        write_random(&source, SIZE, 1);
        date(&source, 1_500_000_000);
        let to = if far { ssh.far("dst") } else { ssh.path("dst").display().to_string() };
        let mut running = spawn(ssh.command(&["--limit", LIMIT, "src/", &to]));
        wait_until_durable(&ssh.path("dst"));
        send_signal(running.id(), "INT");
        assert_ne!(wait_for(&mut running).code(), Some(0));
        wait_until_gone(&ssh);
        write_random(&ssh.path("new"), SIZE, 2);
        date(&ssh.path("new"), 1_500_000_000);
        fs::rename(ssh.path("new"), &source).unwrap();
        ssh.copy(&["src/", &to]);
        assert_same(&ssh.path("src"), &ssh.path("dst"));
    }
}
