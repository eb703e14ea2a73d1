//! Second runs, in which most is at both ends already.

use std::fs;

use crate::resume::{LIMIT, SIZE, wait_until_durable, wait_until_gone};
use crate::rig::{send_signal, spawn, wait_for, write_random};
use crate::sshd::{Sshd, staging_folders};
use crate::trees::{date, seen};

const FILES: u64 = 200;

fn write_files(ssh: &Sshd) {
    for number in 0..FILES {
        write_random(&ssh.path(&format!("src/{}/{number}", number % 7)), 100, number);
    }
}

/// To another host and back, straight and through ssh: the numbers are the same as ever.
#[test]
fn what_has_changed_since_is_copied_and_the_rest_counts_as_unchanged() {
    let ssh = Sshd::start();
    write_files(&ssh);
    let there = ssh.far("there/");
    let back = ssh.far("there/src");
    let ways: [&[&str]; 3] =
        [&["-a", "src", &there], &["-a", "--through-ssh", "src", &there], &["-a", &back, "back/"]];
    for (round, args) in ways.into_iter().enumerate() {
        let first = ssh.copy(args);
        let changed = if round == 1 { 1 } else { FILES };
        assert_eq!(
            (&first["files"], &first["unchanged"]),
            (&changed.into(), &(FILES - changed).into()),
            "{first}"
        );
        let again = ssh.copy(args);
        assert_eq!((&again["files"], &again["unchanged"]), (&0.into(), &FILES.into()), "{again}");
        assert_eq!(again["moved_bytes"], 0, "{again}");
        write_random(&ssh.path("src/3/3"), 101 + round, 5);
    }
    // In the midst of what is the same: new, gone, of another kind, and in a folder that is new.
    fs::remove_file(ssh.path("src/3/10")).unwrap();
    fs::remove_dir_all(ssh.path("src/4")).unwrap();
    fs::write(ssh.path("src/4"), "a file now").unwrap();
    fs::create_dir_all(ssh.path("src/5/deep/er")).unwrap();
    fs::write(ssh.path("src/5/deep/er/new"), "new").unwrap();
    let refused = ssh.run(&["-a", "src", &there]);
    assert_eq!(refused.code, 7, "{}", refused.stderr);
    let done = ssh.copy(&["-a", "--force", "src", &there]);
    assert_eq!(done["files"], 1, "{done}");
    for path in ["3/3", "4", "5/deep/er/new"] {
        let [here, there] = ["src", "there/src"].map(|end| fs::read(ssh.path(end).join(path)).unwrap());
        assert!(here == there, "{path}");
    }
    assert!(ssh.path("there/src/3/10").exists(), "nothing is removed unasked");
}

/// What nobody declares is known to be at the source, and a folder that loses something keeps the source's time.
#[test]
fn what_the_source_has_not_is_removed_from_among_what_is_alike() {
    for dry_run in [true, false] {
        let ssh = Sshd::start();
        write_files(&ssh);
        let to = ssh.far("there/");
        ssh.copy(&["-a", "src", &to]);
        for stranger in ["3/other", "3/folder/deep", "folder/file"] {
            let path = ssh.path("there/src").join(stranger);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "not at the source").unwrap();
        }
        let dated = |path: &str| date(&ssh.path(path), 1_500_000_000);
        ["src/3", "there/src/3", "src", "there/src"].into_iter().for_each(dated);
        let flags = if dry_run { "-an" } else { "-a" };
        let done = ssh.copy(&[flags, "--delete", "src", &to]);
        assert_eq!((&done["removed"], &done["failed"]), (&5.into(), &0.into()), "{done}");
        assert_eq!(ssh.path("there/src/3/other").exists(), dry_run);
        if !dry_run {
            assert_eq!(done["unchanged"], FILES, "{done}");
            assert!(seen(&ssh.path("src")) == seen(&ssh.path("there/src")));
        }
    }
}

/// Whatever is placed in a folder changes its time; where its own entry is alike, it is declared to get that back.
#[test]
fn folders_above_what_has_changed_keep_the_senders_time_at_any_depth() {
    let ssh = Sshd::start();
    for file in ["same", "a/same", "a/b/c/changed", "a/b/other/same"] {
        write_random(&ssh.path("from/src").join(file), 100, 1);
    }
    let date_folders = || {
        for folder in ["a/b/other", "a/b/c", "a/b", "a", ""] {
            date(&ssh.path("from/src").join(folder), 1_500_000_000);
        }
    };
    let [from, to] = [ssh.path("from/src").display().to_string(), ssh.far("there/")];
    date_folders();
    ssh.copy(&["-a", &from, &to]);
    for file in ["changed", "new"] {
        write_random(&ssh.path("from/src/a/b/c").join(file), 101, 2);
    }
    date_folders();
    let done = ssh.copy(&["-a", &from, &to]);
    assert_eq!((&done["files"], &done["unchanged"]), (&2.into(), &3.into()), "{done}");
    assert_eq!(seen(&ssh.path("there")), seen(&ssh.path("from")));
}

/// What was interrupted has been taken back, and all that is left is there already: the source is not an empty one.
#[test]
fn where_all_that_is_left_is_there_the_source_does_not_look_empty() {
    let ssh = Sshd::start();
    write_files(&ssh);
    let to = ssh.far("there/");
    ssh.copy(&["src", &to]);
    write_random(&ssh.path("src/large"), SIZE, 1);
    let mut running = spawn(ssh.command(&["--limit", LIMIT, "src", &to]));
    wait_until_durable(&ssh.path("there"));
    send_signal(running.id(), "INT");
    wait_for(&mut running);
    wait_until_gone(&ssh);
    assert_eq!(staging_folders(&ssh.path("there")), 1);
    fs::remove_file(ssh.path("src/large")).unwrap();
    date(&ssh.path("src"), 1_500_000_000);
    let done = ssh.copy(&["src", &to]);
    assert_eq!((&done["files"], &done["unchanged"]), (&0.into(), &FILES.into()), "{done}");
    assert_eq!(staging_folders(&ssh.path("there")), 0);
}
