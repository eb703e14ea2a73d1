//! Entries in millions: what they cost at either end does not grow beyond what was designed.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::resume::far_sides;
use crate::rig::{Ran, spawn};
use crate::sshd::Sshd;

const IN_A_FOLDER: usize = 1000;

/// So many files of a few bytes. Names of one file of the source each, which cost the test less than files.
fn plant(root: &Path, files: usize) {
    for folder in 0..files / IN_A_FOLDER {
        let folder = root.join(format!("a-folder-of-many/{folder:05}"));
        fs::create_dir_all(&folder).unwrap();
        let first = folder.join("file-00000.fits");
        fs::write(&first, "some").unwrap();
        for number in 1..IN_A_FOLDER {
            fs::hard_link(&first, folder.join(format!("file-{number:05}.fits"))).unwrap();
        }
    }
}

/// The most memory that a process has had, in MiB; 0 once it has ended.
fn peak(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.map_or(0, |line| line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1024)
}

/// Copies, and wants it to succeed: what it says at the end, and the most that either end has needed.
fn copy(ssh: &Sshd, args: &[&str]) -> (serde_json::Value, [u64; 2]) {
    let child = spawn(ssh.command(&[args, &["--json"]].concat()));
    let near = child.id();
    // Read meanwhile: what it says of its progress would fill the pipe.
    let running = std::thread::spawn(move || Ran::of_child(child));
    let mut peaks = [0, 0];
    let mut far = None;
    while !running.is_finished() {
        far = far.or_else(|| far_sides(ssh).first().copied());
        peaks = [peaks[0].max(peak(near)), peaks[1].max(far.map_or(0, peak))];
        std::thread::sleep(Duration::from_millis(20));
    }
    let ran = running.join().unwrap();
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
    (ran.event("done"), peaks)
}

/// There, there again, and back again, where nothing has changed.
fn there_and_back(files: usize, most: u64) {
    let ssh = Sshd::start();
    plant(&ssh.path("src"), files);
    let (to, from) = (ssh.far("there"), ssh.far("there/"));
    for (args, written) in [(["src/", &to], files), (["src/", &to], 0), ([&from, "src"], 0)] {
        let begun = Instant::now();
        let (done, peaks) = copy(&ssh, &args);
        let took = begun.elapsed().as_secs();
        println!(
            "{files} files, {written} of them written, in {took} s: near {} MiB, far {} MiB",
            peaks[0], peaks[1]
        );
        assert_eq!((&done["files"], &done["failed"]), (&written.into(), &0.into()), "{done}");
        assert_eq!(done["unchanged"], files - written, "{done}");
        assert!(peaks.iter().all(|peak| (1..=most).contains(peak)), "{args:?}: {peaks:?} MiB");
    }
}

#[test]
fn a_hundred_thousand_entries_cost_little_memory_at_either_end() {
    // Some 100 MiB of it are buffers and what the allocator keeps, of which there is no more with more entries.
    there_and_back(100_000, 192);
}

#[test]
#[ignore = "some minutes, and four million names on the disk; 'make soak' runs it"]
fn two_million_entries_stay_below_512_mib_at_either_end() {
    there_and_back(2_000_000, 512);
}
