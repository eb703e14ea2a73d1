//! Sweeping, compared with what the real rsync would delete.

use super::rules::Picks;
use super::*;
use std::collections::BTreeSet;
use std::os::unix::fs::symlink;
use std::process::Command;

use crate::decision::Rules;
use crate::sweep::{Cleared, InTheWay, clear};
use crate::{EntryTable, Keep, Rule, Sense, Survey, Sweep, Sweeping, Swept};

fn manifest(from: &Path, filter: &Filter) -> EntryTable {
    let mut table = EntryTable::new();
    for entry in Sender::with(&[from], filter, 0).entries() {
        table.push(&entry).unwrap();
    }
    table
}

/// What a sweep with these rules removes, as rsync writes it, in the order of names; and the sum.
fn swept(from: &Path, to: &Path, rules: &Sweep<'_>) -> (BTreeSet<String>, Sweeping) {
    let table = manifest(from, rules.filter);
    let mut removed = BTreeSet::new();
    let mut tell = |swept: Swept<'_>| match swept {
        Swept::Removed { path, folder } => {
            removed.insert(format!("{}{}", String::from_utf8_lossy(path), if folder { "/" } else { "" }));
        }
        Swept::Stays { .. } => {}
        Swept::Failed { path, error } => panic!("{}: {error}", path.escape_ascii()),
    };
    let root = std::fs::File::open(to).unwrap();
    let survey = Survey::open(to, Rules::default(), Keep::default(), 2).unwrap();
    let sweeping = match rules.dry_run {
        true => survey.sweep(&table, rules, &mut tell),
        false => crate::sweep::sweep(
            std::os::fd::AsFd::as_fd(&root),
            &table,
            rules,
            &survey.threads,
            &|_| false,
            &mut tell,
        ),
    };
    (removed, sweeping)
}

fn random_tree(dir: &Path, picks: &mut Picks) {
    std::fs::create_dir_all(dir).unwrap();
    for _ in 0..40 {
        let folders: Vec<_> = (0..picks.next(4)).map(|_| format!("d{}", picks.next(4))).collect();
        let folder = dir.join(folders.join("/"));
        std::fs::create_dir_all(&folder).unwrap();
        match picks.next(5) {
            0 => {
                let _ = symlink("../d1", folder.join(format!("l{}", picks.next(3))));
            }
            _ => std::fs::write(folder.join(format!("f{}", picks.next(5))), "").unwrap(),
        }
    }
}

/// What rsync deletes from a copy of `to`. A dry run of it names folders too that it would fail to remove.
fn rsync_deletes(from: &Path, to: &Path, rules: &[Rule]) -> BTreeSet<String> {
    let original = to;
    let to = &to.with_extension("rsync");
    assert!(Command::new("cp").arg("-a").args([original, to]).status().unwrap().success());
    let mut command = Command::new("rsync");
    command.args(["-rl", "--delete", "--out-format=", "--info=del1"]);
    for rule in rules {
        let flag = match rule.sense {
            Sense::Include => "--include",
            Sense::Exclude => "--exclude",
        };
        command.arg(format!("{flag}={}", String::from_utf8_lossy(&rule.pattern)));
    }
    let output = command.arg(from.join("")).arg(to.join("")).output().expect("rsync is installed");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).unwrap();
    lines.lines().filter_map(|line| line.strip_prefix("deleting ")).map(str::to_owned).collect()
}

#[test]
fn what_is_removed_is_what_rsync_removes() {
    const PATTERNS: [&str; 8] = ["f1", "d2", "/d1/f*", "d?/d3/", "l*", "d0/***", "d1/**", "*"];
    let dir = tempfile::tempdir().unwrap();
    let mut picks = Picks(11);
    for case in 0..40 {
        let (from, to) = (dir.path().join(format!("from{case}")), dir.path().join(format!("to{case}")));
        random_tree(&from, &mut picks);
        random_tree(&to, &mut picks);
        let rules: Vec<_> = (0..picks.next(4))
            .map(|_| Rule { sense: picks.sense(), pattern: picks.of(&PATTERNS).as_bytes().into() })
            .collect();
        let filter = Filter::ordered(&rules).unwrap();
        let sweep = Sweep { filter: &filter, top: true, most: None, dry_run: true };
        let theirs = rsync_deletes(&from, &to, &rules);
        let before = snapshot(&to);
        let (announced, _) = swept(&from.join(""), &to, &sweep);
        assert_eq!(announced, theirs, "case {case}: {rules:?}");
        assert_eq!(snapshot(&to), before, "a dry run removes nothing");
        let (removed, sum) = swept(&from.join(""), &to, &Sweep { dry_run: false, ..sweep });
        assert_eq!(removed, announced);
        assert_eq!(sum, Sweeping { removed: removed.len() as u64, failed: 0, limited: false });
        let gone = |path: &String| to.join(path.trim_end_matches('/')).symlink_metadata().is_err();
        assert!(removed.iter().all(gone));
        assert_eq!(snapshot(&to).len(), before.len() - removed.len());
    }
}

#[test]
fn nothing_but_what_was_asked_for_is_swept() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    plant(&from, &[("src/a", b"1")]);
    plant(&to, &[("src/old", b"1"), ("beside", b"1"), ("outside/precious", b"1"), ("src/d/e/f", b"1")]);
    symlink("../outside", to.join("src/link")).unwrap();
    let filter = Filter::default();
    let sweep = Sweep { filter: &filter, top: false, most: None, dry_run: false };
    // The folder was named, so what is beside it is no business of the copy's.
    let (removed, _) = swept(&from.join("src"), &to, &Sweep { most: Some(2), ..sweep });
    assert_eq!(removed.len(), 2);
    let (rest, sum) = swept(&from.join("src"), &to, &sweep);
    assert!(!sum.limited);
    let all: BTreeSet<_> = removed.union(&rest).cloned().collect();
    assert_eq!(all, ["src/d/", "src/d/e/", "src/d/e/f", "src/link", "src/old"].map(String::from).into());
    assert!(to.join("outside/precious").exists() && to.join("beside").exists());
}

#[test]
fn a_limit_is_kept_and_said() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    plant(&from, &[("a", b"1")]);
    plant(&to, &[("1", b""), ("2", b""), ("d/3", b""), ("d/4", b"")]);
    let filter = Filter::default();
    for dry_run in [true, false] {
        let sweep = Sweep { filter: &filter, top: true, most: Some(3), dry_run };
        let (removed, sum) = swept(&from.join(""), &to, &sweep);
        assert_eq!((removed.len(), sum), (3, Sweeping { removed: 3, failed: 0, limited: true }));
    }
    assert_eq!(snapshot(&to).len(), 2);
}

#[test]
fn a_staging_folder_stays() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    plant(&from, &[("a", b"1")]);
    plant(&to, &[("stranger", b"1")]);
    let (sink, _journal) = receiver(&to, &[]);
    let filter = Filter::default();
    let sweep = Sweep { filter: &filter, top: true, most: None, dry_run: false };
    let survey = Survey::open(&to, Rules::default(), Keep::default(), 2).unwrap();
    assert_eq!(sink.sweep(&survey, EntryTable::new(), &sweep, &mut |_| {}).unwrap().removed, 1);
    assert!(staging(&to).exists());
    drop(sink);
    let _ = from;
}

/// Another copy's, into a folder of what is copied or into one that is not.
#[test]
fn staging_folders_stay_wherever_they_are() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    let staging = format!(".terahaul-{}", TransferId([8; 16]));
    std::fs::create_dir_all(from.join("known")).unwrap();
    for folder in ["", "known", "strange/deep", "gone"] {
        std::fs::create_dir_all(to.join(folder).join(&staging).join("tree")).unwrap();
    }
    std::fs::remove_dir_all(to.join("gone").join(&staging)).unwrap();
    std::fs::write(to.join("strange/file"), "").unwrap();
    let filter = Filter::default();
    let rules = Sweep { filter: &filter, top: true, most: None, dry_run: false };
    let (removed, _) = swept(&from.join(""), &to, &rules);
    assert_eq!(removed, ["gone/", "strange/file"].map(String::from).into());
    for folder in ["", "known", "strange/deep"] {
        assert!(to.join(folder).join(&staging).join("tree").is_dir(), "{folder}");
    }
}

/// A folder of the same file system has the same number as what it is mounted in.
#[cfg(target_os = "linux")]
#[test]
fn what_is_mounted_in_a_strange_folder_stays_with_all_that_is_in_it() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to, home) = (dir.path().join("from"), dir.path().join("to"), dir.path().join("home"));
    plant(&from, &[("a", b"1")]);
    plant(&to, &[("jail/home/", b""), ("jail/old", b"1")]);
    plant(&home, &[("precious", b"1"), ("d/precious", b"1")]);
    if rustix::mount::mount_bind(&home, to.join("jail/home")).is_err() {
        eprintln!("SKIPPED: mounting needs root");
        return;
    }
    let filter = Filter::default();
    let rules = Sweep { filter: &filter, top: true, most: None, dry_run: false };
    let sweeping = std::panic::catch_unwind(|| swept(&from.join(""), &to, &rules));
    let root = std::fs::File::open(&to).unwrap();
    let in_the_way = InTheWay { above: std::os::fd::AsFd::as_fd(&root), name: b"jail", path: b"jail" };
    // What is asked where the kernel does not say it of the folder.
    let mounts = ["jail/home", "jail"].map(|path| {
        let folder = std::fs::File::open(to.join(path)).unwrap();
        crate::sweep::mount_of(std::os::fd::AsFd::as_fd(&folder)).unwrap()
    });
    let cleared = clear(in_the_way, &rules, &mut |_| {});
    // A process that another test starts has what is open here open as well, until it runs its program.
    rustix::mount::unmount(to.join("jail/home"), rustix::mount::UnmountFlags::DETACH).unwrap();
    assert_eq!(sweeping.unwrap().0, ["jail/old".to_owned()].into());
    assert_eq!(cleared.unwrap(), Cleared::Stays, "nor does it make way");
    assert_ne!(mounts[0], mounts[1]);
    assert!(home.join("precious").exists() && home.join("d/precious").exists());
}

/// As `Photo.jpg` leads to `PHOTO.JPG` on a stick, a thread's number in `/proc` leads to what is not listed by it.
#[cfg(target_os = "linux")]
#[test]
fn nothing_is_removed_where_an_entry_is_found_under_another_name() {
    let (said, hears) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        said.send(rustix::thread::gettid().as_raw_nonzero().to_string()).unwrap();
        std::thread::park();
    });
    let hidden = hears.recv().unwrap();
    let path = EntryPath::new(hidden.as_bytes()).unwrap();
    let mut table = EntryTable::new();
    let kind = EntryKind::Directory;
    table.push(&Entry { path, kind, mtime: Mtime::default(), mode: 0o755, extra: None }).unwrap();
    let filter = Filter::default();
    let rules = Sweep { filter: &filter, top: true, most: None, dry_run: true };
    let survey = Survey::open(Path::new("/proc"), Rules::default(), Keep::default(), 1).unwrap();
    let mut told = Vec::new();
    let sum = survey.sweep(&table, &rules, &mut |swept| told.push(format!("{swept:?}")));
    thread.thread().unpark();
    thread.join().unwrap();
    assert_eq!(sum, Sweeping { removed: 0, failed: 1, limited: false }, "{told:?}");
    assert!(told.len() == 1 && told[0].contains("different names for the same one"), "{told:?}");
}

#[test]
fn strangers_go_although_entries_of_their_folder_are_not_there() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    plant(&from, &[("d/a", b"1"), ("d/b", b"1"), ("c", b"1")]);
    plant(&to, &[("d/a", b"1"), ("d/B", b"1"), ("C", b"1")]);
    let filter = Filter::default();
    let rules = Sweep { filter: &filter, top: true, most: None, dry_run: false };
    let (removed, _) = swept(&from.join(""), &to, &rules);
    assert_eq!(removed, ["C", "d/B"].map(String::from).into());
}

/// Each of them is open while what is in it is removed, by a function that calls itself: anybody who may write to the destination could
/// have ended every run there.
#[test]
fn folders_that_lie_too_deep_in_each_other_stay_and_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    std::fs::create_dir(&from).unwrap();
    std::fs::create_dir_all(to.join(["d"; 600].join("/"))).unwrap();
    std::fs::write(to.join("shallow"), "").unwrap();
    let table = manifest(&from, &Filter::default());
    let rules = Sweep { filter: &Filter::default(), top: true, most: None, dry_run: false };
    let root = std::fs::File::open(&to).unwrap();
    let (mut removed, mut failed) = (Vec::new(), Vec::new());
    let threads = &Survey::open(&to, Rules::default(), Keep::default(), 2).unwrap().threads;
    crate::sweep::sweep(std::os::fd::AsFd::as_fd(&root), &table, &rules, threads, &|_| false, &mut |swept| {
        match swept {
            Swept::Removed { path, .. } => removed.push(path.to_vec()),
            Swept::Failed { error, .. } => failed.push(error.to_string()),
            Swept::Stays { .. } => {}
        }
    });
    assert_eq!(removed, [b"shallow"]);
    assert!(failed.len() == 1 && failed[0].contains("512"), "{failed:?}");
}

#[test]
fn many_folders_are_swept_in_the_order_of_their_paths() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    let mut strangers = Vec::new();
    for at in 0..700 {
        let folder = format!("d{at:03}/e/f");
        for end in [&from, &to] {
            std::fs::create_dir_all(end.join(&folder)).unwrap();
            std::fs::write(end.join(&folder).join("file"), "").unwrap();
        }
        if at % 7 == 0 {
            strangers.push(format!("{folder}/stranger"));
            std::fs::write(to.join(&folder).join("stranger"), "").unwrap();
        }
    }
    let filter = Filter::default();
    let table = manifest(&from.join(""), &filter);
    let survey = Survey::open(&to, Rules::default(), Keep::default(), 4).unwrap();
    let rules = Sweep { filter: &filter, top: true, most: None, dry_run: true };
    let mut told = Vec::new();
    survey.sweep(&table, &rules, &mut |swept| match swept {
        Swept::Removed { path, .. } => told.push(String::from_utf8(path.to_vec()).unwrap()),
        other => panic!("{other:?}"),
    });
    assert_eq!(told, strangers);
    assert_eq!(swept(&from.join(""), &to, &Sweep { dry_run: false, ..rules }).0.len(), strangers.len());
    assert!(
        strangers.iter().all(|stranger| !to.join(stranger).exists()) && to.join("d000/e/f/file").exists()
    );
}

#[test]
fn what_a_folder_holds_stays_that_went_from_the_source_before_it_was_listed() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("from/t"), dir.path().join("to"));
    std::fs::create_dir_all(from.join("a")).unwrap();
    for file in 0..1100 {
        std::fs::write(from.join("a").join(file.to_string()), "").unwrap();
    }
    plant(&dir.path().join("from"), &[("t/z/old", b"")]);
    plant(&to, &[("t/z/old", b""), ("t/stranger", b"")]);
    let (mut table, mut kept) = (EntryTable::new(), Vec::new());
    let roots = Roots::open(&[&from]).unwrap();
    // Without helpers nothing is listed before its turn.
    let whole = walk(&roots, &Filter::default(), 0, |batch| {
        // The first batch is full of what is in `a`.
        let _ = std::fs::rename(from.join("z"), from.join("a/z"));
        for entry in &batch.found {
            table.push(entry).unwrap();
        }
        let itself = batch.skipped.into_iter().filter(|skipped| skipped.lack == crate::Lack::Itself);
        kept.extend(itself.filter_map(|skipped| skipped.entry));
        ControlFlow::Continue(())
    });
    assert!(whole && kept.len() == 1);
    let filter = Filter::default().keeping(&kept);
    let rules = Sweep { filter: &filter, top: false, most: None, dry_run: false };
    let survey = Survey::open(&to, Rules::default(), Keep::default(), 2).unwrap();
    let mut removed = Vec::new();
    survey.sweep(&table, &rules, &mut |swept| {
        if let Swept::Removed { path, .. } = swept {
            removed.push(path.to_vec());
        }
    });
    assert_eq!(removed, [b"t/stranger".to_vec()]);
}

/// A run that was placing files below a mount point lost the one that was about to get its name, and failed.
#[test]
fn parts_that_wait_beside_their_names_stay_wherever_they_are() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    plant(&from, &[("known/a", b"1")]);
    let part = format!(".terahaul-{}.part", TransferId([8; 16]));
    let parts = ["", "known/", "strange/deep/"].map(|folder| format!("{folder}{part}"));
    for part in &parts {
        plant(&to, &[(part, b"half")]);
    }
    plant(&to, &[("strange/deep/file", b""), ("known/.terahaul-mine.part", b"")]);
    let filter = Filter::default();
    for dry_run in [true, false] {
        let rules = Sweep { filter: &filter, top: true, most: None, dry_run };
        let (removed, _) = swept(&from.join(""), &to, &rules);
        assert_eq!(removed, ["known/.terahaul-mine.part", "strange/deep/file"].map(String::from).into());
    }
    assert!(parts.iter().all(|part| to.join(part).exists()));
    // What is to have a folder's place was asked for with force.
    let root = std::fs::File::open(&to).unwrap();
    let in_the_way = InTheWay { above: std::os::fd::AsFd::as_fd(&root), name: b"strange", path: b"strange" };
    let rules = Sweep { filter: &filter, top: true, most: None, dry_run: false };
    assert_eq!(clear(in_the_way, &rules, &mut |_| {}).unwrap(), Cleared::Gone(3));
}

/// Sweeps `to` of all but the folder `known`, and does something as soon as `first` is removed, which is the first thing to go. Returns
/// what was removed, and what could not be and why.
fn swept_meanwhile(to: &Path, first: &str, meanwhile: &dyn Fn()) -> (Vec<String>, Vec<(String, String)>) {
    let mut table = EntryTable::new();
    let folder = Entry { kind: EntryKind::Directory, ..file_entry(b"known", 0) };
    table.push(&folder).unwrap();
    let rules = Sweep { filter: &Filter::default(), top: true, most: None, dry_run: false };
    let root = std::fs::File::open(to).unwrap();
    let threads = &Survey::open(to, Rules::default(), Keep::default(), 2).unwrap().threads;
    let text = |path: &[u8]| String::from_utf8(path.to_vec()).unwrap();
    let (mut removed, mut failed) = (Vec::new(), Vec::new());
    let mut tell = |swept: Swept<'_>| match swept {
        Swept::Removed { path, .. } => {
            removed.push(text(path));
            if removed == [first] {
                meanwhile();
            }
        }
        Swept::Stays { .. } => {}
        Swept::Failed { path, error } => failed.push((text(path), error.to_string())),
    };
    crate::sweep::sweep(std::os::fd::AsFd::as_fd(&root), &table, &rules, threads, &|_| false, &mut tell);
    (removed, failed)
}

/// Two runs that removed the same folders both failed, with all of them gone.
#[test]
fn what_somebody_else_removes_meanwhile_is_no_failure() {
    let to = tempfile::tempdir().unwrap();
    let to = to.path();
    plant(to, &[("a", b""), ("b/deep/file", b""), ("c", b""), ("known/stranger", b""), ("z", b"")]);
    let remove = || {
        std::fs::remove_dir_all(to.join("b")).unwrap();
        std::fs::remove_file(to.join("c")).unwrap();
        std::fs::remove_dir_all(to.join("known")).unwrap();
    };
    assert_eq!(swept_meanwhile(to, "a", &remove), (vec!["a".to_owned(), "z".into()], Vec::new()));
    // While it is removed itself.
    plant(to, &[("b/1", b""), ("b/2/file", b""), ("b/3", b"")]);
    let remove = || std::fs::remove_dir_all(to.join("b")).unwrap();
    assert_eq!(swept_meanwhile(to, "b/1", &remove), (vec!["b/1".to_owned()], Vec::new()));
}

/// It was said what the system had said alone.
#[test]
fn what_comes_meanwhile_is_named_with_what_helps() {
    let dir = tempfile::tempdir().unwrap();
    let (to, outside) = (dir.path().join("to"), dir.path().join("outside"));
    plant(&outside, &[("precious", b"1")]);
    let names = ["b-a-file", "b-a-link", "b-deep", "b-with-more"];
    plant(&to, &[("a", b""), ("b-a-link/file", b""), ("b-a-file/file", b""), ("b-deep", b"")]);
    plant(&to, &[("b-with-more/file", b"")]);
    let change = || {
        std::fs::remove_dir_all(to.join("b-a-link")).unwrap();
        symlink(&outside, to.join("b-a-link")).unwrap();
        std::fs::remove_dir_all(to.join("b-a-file")).unwrap();
        std::fs::remove_file(to.join("b-deep")).unwrap();
        plant(&to, &[("b-a-file", b""), ("b-deep/file", b"")]);
    };
    let (_, failed) = swept_meanwhile(&to, "a", &change);
    let (paths, said): (Vec<_>, Vec<_>) = failed.into_iter().unzip();
    assert_eq!(paths, names[..3]);
    assert!(said.iter().all(|said| said.contains("run the same command again")), "{said:?}");
    plant(&to, &[("b-with-more/file", b"")]);
    assert_eq!(swept_meanwhile(&to, "b-a-file", &|| ()).1, [], "it did help");
    plant(&to, &[("b-with-more/file", b"")]);
    let add = || plant(&to, &[("b-with-more/new", b"")]);
    let (_, failed) = swept_meanwhile(&to, "b-with-more/file", &add);
    assert!(failed.len() == 1 && failed[0].0 == names[3], "{failed:?}");
    assert!(failed[0].1.contains("run the same command again"), "{failed:?}");
    assert!(outside.join("precious").exists());
}
