//! Files that changed: what the receiver has of them is not sent.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::Value;

use crate::rig::{Ran, spawn, wait_for, wait_until, wait_while_it_runs, write_random};
use crate::sshd::{Sshd, staging_folders};

const MIB: usize = 1 << 20;
const SIZE: usize = 40 * MIB + 12_345;
/// Chunks of a file of `SIZE`.
const CHUNK: u64 = 4096;

fn noise(len: usize, seed: u64) -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    write_random(&dir.path().join("noise"), len, seed);
    fs::read(dir.path().join("noise")).unwrap()
}

/// Copies `new` over `old` in both directions, and gives each copy's last words to `check`.
fn both_ways(old: &[u8], new: &[u8], flags: &[&str], check: impl Fn(&Value)) {
    let ssh = Sshd::start();
    for (from, to, at) in [
        ("new", ssh.far("there/file"), "there/file"),
        (&*ssh.far("new"), "here/file".to_owned(), "here/file"),
    ] {
        fs::create_dir_all(ssh.path(at).parent().unwrap()).unwrap();
        fs::write(ssh.path(at), old).unwrap();
        // Later by a second, whatever the file system keeps of a time.
        fs::write(ssh.path("new"), new).unwrap();
        let later = fs::metadata(ssh.path(at)).unwrap().modified().unwrap() + Duration::from_secs(1);
        fs::File::options().write(true).open(ssh.path("new")).unwrap().set_modified(later).unwrap();
        // What was changed a moment ago is not hashed while ssh connects.
        let changed = fs::metadata(ssh.path("new")).unwrap();
        let changed = UNIX_EPOCH + Duration::new(changed.ctime() as u64, changed.ctime_nsec() as u32);
        wait_until("a change has another time", || changed + Duration::from_millis(250) < SystemTime::now());
        let done = ssh.copy(&[flags, &[from, &to]].concat());
        assert!(fs::read(ssh.path(at)).unwrap() == new, "{done}");
        assert_eq!(staging_folders(ssh.path(at).parent().unwrap()), 0);
        assert_eq!(
            done["literal_bytes"].as_u64().unwrap() + done["matched_bytes"].as_u64().unwrap(),
            new.len() as u64,
            "{done}"
        );
        check(&done);
    }
}

fn sent_at_most(most: u64) -> impl Fn(&Value) {
    move |done| {
        let (literal, moved) =
            (done["literal_bytes"].as_u64().unwrap(), done["moved_bytes"].as_u64().unwrap());
        assert!(literal <= most && moved <= most + (64 << 10), "{most} at most: {done}");
    }
}

#[test]
fn what_changed_in_place_is_all_that_is_sent() {
    let old = noise(SIZE, 1);
    let mut new = old.clone();
    for at in [0, 3 * MIB + 100, 8 * MIB - 1, 20 * MIB, SIZE - 1] {
        new[at] ^= 1;
    }
    new[30 * MIB..31 * MIB].fill(7);
    // The last part of a chunk is sent in any case.
    both_ways(&old, &new, &[], sent_at_most(MIB as u64 + 7 * CHUNK));
}

#[test]
fn what_was_inserted_at_the_front_is_all_that_is_sent() {
    let old = noise(SIZE, 1);
    let new = [&noise(MIB + 1, 2)[..], &old].concat();
    both_ways(&old, &new, &["-z", "no"], sent_at_most(MIB as u64 + 2 * CHUNK + 1000));
}

#[test]
fn what_was_appended_is_all_that_is_sent() {
    let old = noise(SIZE, 1);
    let new = [&old[..], &noise(100_000, 2)].concat();
    both_ways(&old, &new, &[], sent_at_most(100_000 + 2 * CHUNK));
}

#[test]
fn a_file_that_became_shorter_costs_next_to_nothing() {
    let old = noise(SIZE, 1);
    both_ways(&old, &old[..SIZE / 2], &[], sent_at_most(2 * CHUNK));
    both_ways(&old, &old[9 * MIB + 5..], &[], sent_at_most(2 * CHUNK + 1000));
}

/// Edits, insertions and deletions anywhere, one after the other, by seed: what arrives is the new file, and not all of it was sent.
#[test]
fn whatever_was_done_to_a_file_it_arrives() {
    for seed in 0..4 {
        let mut random = noise(400, 100 + seed).into_iter().cycle();
        let mut number = |below: usize| {
            let bytes: [u8; 4] = std::array::from_fn(|_| random.next().unwrap_or_default());
            u32::from_le_bytes(bytes) as usize % below
        };
        let old = noise(20 * MIB + number(5 * MIB), seed);
        let mut new = old.clone();
        for step in 0..2 + number(6) {
            let len = 1 << number(22);
            let at = number(new.len() - len);
            let bytes = noise(len, 1_000 * seed + step as u64);
            match number(4) {
                0 => drop(new.splice(at..at, bytes)),
                1 => drop(new.drain(at..at + len)),
                2 => new.extend(bytes),
                _ => new[at..at + len].copy_from_slice(&bytes),
            }
        }
        both_ways(&old, &new, &[], |done| {
            assert!(done["matched_bytes"].as_u64() > Some(0), "{seed}: {done}")
        });
    }
}

#[test]
fn a_file_with_other_content_arrives_too() {
    both_ways(&noise(SIZE, 1), &noise(SIZE, 2), &[], |done| assert_eq!(done["matched_bytes"], 0));
}

#[test]
fn whole_files_are_sent_where_that_is_asked_for() {
    let old = noise(5 * MIB, 1);
    for flags in [&["-W"][..], &["--no-whole-file", "--whole-file"]] {
        both_ways(&old, &old, flags, |done| assert_eq!(done["matched_bytes"], 0));
    }
    both_ways(&old, &old, &["-W", "--no-whole-file"], sent_at_most(2 * CHUNK));
}

#[test]
fn what_is_sent_of_a_changed_file_is_compressed_as_any_other() {
    let old = noise(SIZE, 1);
    let text = "one of many lines that are alike\n".repeat(100_000);
    let new = [&old[..20 * MIB], text.as_bytes(), &old[20 * MIB..]].concat();
    both_ways(&old, &new, &["-z1"], |done| {
        let (literal, moved) =
            (done["literal_bytes"].as_u64().unwrap(), done["moved_bytes"].as_u64().unwrap());
        assert!(literal >= text.len() as u64 && moved < literal / 4, "{done}");
    });
}

#[test]
fn several_changed_files_are_copied_at_once_with_new_ones() {
    let ssh = Sshd::start();
    for number in 0..6 {
        write_random(&ssh.path(&format!("src/{number}")), 5 * MIB + number * 1000, number as u64);
    }
    ssh.copy(&["src", &ssh.far("there")]);
    for number in 0..4 {
        overwrite(&ssh.path(&format!("src/{number}")), 2 * MIB as u64, b"changed");
    }
    write_random(&ssh.path("src/new"), 6 * MIB, 9);
    let done = ssh.copy(&["src", &ssh.far("there")]);
    crate::rig::assert_same(&ssh.path("src"), &ssh.path("there/src"));
    let literal = done["literal_bytes"].as_u64().unwrap();
    assert!(literal <= 6 * MIB as u64 + 4 * 2 * CHUNK && done["unchanged"] == 2, "{done}");
}

fn overwrite(path: &Path, at: u64, bytes: &[u8]) {
    OpenOptions::new().write(true).open(path).unwrap().write_all_at(bytes, at).unwrap();
}

/// The old file is changed by somebody else while what it has is copied: what was counted on there is sent instead. On a busy machine
/// that may come too late, when all of it was copied; then it is done once more.
fn changed_meanwhile(change: impl Fn(&Path), from_here: bool) {
    let in_time = |done: &Value| done["matched_bytes"].as_u64().unwrap() <= 30 * MIB as u64 - CHUNK;
    let tries: Vec<_> =
        (0..3).map(|_| copy_and_change(&change, from_here)).take_while(|done| !in_time(done)).collect();
    assert!(tries.len() < 3, "{tries:?}");
}

/// What the copy said at its end.
fn copy_and_change(change: &impl Fn(&Path), from_here: bool) -> Value {
    let ssh = Sshd::start();
    let old = noise(40 * MIB, 1);
    // Every block has something new, so that each waits until the old file is known, and is then sent so slowly that the
    // change comes before what is counted on is copied.
    let mut new = old.clone();
    new.chunks_mut(4 * MIB).for_each(|block| block[..MIB].copy_from_slice(&noise(MIB, 2)));
    fs::write(ssh.path("new"), &new).unwrap();
    fs::create_dir(ssh.path("there")).unwrap();
    fs::write(ssh.path("there/file"), &old).unwrap();
    let (from, to) = match from_here {
        true => ("new".to_owned(), ssh.far("there/file")),
        false => (ssh.far("new"), "there/file".to_owned()),
    };
    let command = ssh.command(&["--json", "--channels", "1", "--limit", "8MB", &from, &to]);
    let mut running = spawn(command);
    let staged =
        |entry: fs::DirEntry| entry.path().join("tree/file").metadata().is_ok_and(|file| file.len() > 0);
    let begun = || fs::read_dir(ssh.path("there")).unwrap().any(|entry| staged(entry.unwrap()));
    wait_while_it_runs(&mut running, "something arrives", begun);
    change(&ssh.path("there/file"));
    let status = wait_for(&mut running);
    let ran = Ran::of_child(running);
    assert!(status.success(), "{}{}", ran.stdout, ran.stderr);
    assert!(fs::read(ssh.path("there/file")).unwrap() == new);
    ran.event("done")
}

#[test]
fn an_old_file_that_is_changed_meanwhile_harms_nobody() {
    changed_meanwhile(|old| overwrite(old, 30 * MIB as u64, b"changed"), true);
    changed_meanwhile(|old| overwrite(old, 30 * MIB as u64, b"changed"), false);
}

#[test]
fn an_old_file_that_is_cut_meanwhile_harms_nobody() {
    let cut =
        |old: &Path| OpenOptions::new().write(true).open(old).unwrap().set_len(25 * MIB as u64).unwrap();
    changed_meanwhile(cut, true);
    changed_meanwhile(cut, false);
}

#[test]
fn what_lies_behind_a_link_is_no_old_file() {
    let ssh = Sshd::start();
    write_random(&ssh.path("src"), 5 * MIB, 1);
    fs::copy(ssh.path("src"), ssh.path("secret")).unwrap();
    fs::create_dir(ssh.path("there")).unwrap();
    std::os::unix::fs::symlink(ssh.path("secret"), ssh.path("there/src")).unwrap();
    let done = ssh.copy(&["src", &ssh.far("there/")]);
    assert_eq!(done["matched_bytes"], 0);
    assert!(ssh.path("there/src").symlink_metadata().unwrap().is_file());
}
