//! Semantics beside those of the real rsync, over a real sshd: random trees, changed at random, end up the same.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::rig::{spawn, terahaul_through, wait_for, wait_while_it_runs, write_random};
use crate::sshd::Sshd;
use crate::trees::{date, seen, text, two_trees};

/// A generator good enough to pick, and the same on every machine.
struct Picks(u64);

impl Picks {
    fn next(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % below
    }
}

/// Makes, replaces, links, dates and permits things below `dir`.
fn mutate(dir: &Path, picks: &mut Picks, steps: usize) {
    fs::create_dir_all(dir).unwrap();
    for _ in 0..steps {
        let depth = picks.next(4);
        let folder =
            dir.join((0..depth).map(|_| format!("n{}", picks.next(3))).collect::<Vec<_>>().join("/"));
        let path = folder.join(format!("n{}", picks.next(4)));
        if fs::create_dir_all(&folder).is_err() {
            continue;
        }
        if picks.next(3) == 0 {
            let _ = match path.symlink_metadata() {
                Ok(meta) if meta.is_dir() => fs::remove_dir_all(&path),
                _ => fs::remove_file(&path),
            };
        }
        let exists = path.symlink_metadata().is_ok();
        match picks.next(8) {
            0 if !exists => symlink(["n0", "../n1", "none"][picks.next(3)], &path).unwrap(),
            1 if !exists => fs::create_dir(&path).unwrap(),
            2 if !exists => {
                let other = dir.join(format!("n{}", picks.next(4)));
                if other.symlink_metadata().is_ok_and(|meta| meta.is_file()) {
                    fs::hard_link(other, &path).unwrap();
                }
            }
            3 if !exists => fs::write(&path, vec![picks.next(200) as u8; 5_000_000]).unwrap(),
            _ if path.is_symlink() || path.is_dir() => {}
            _ => fs::write(&path, vec![picks.next(200) as u8; picks.next(4) * 777]).unwrap(),
        }
        if picks.next(3) == 0 && path.symlink_metadata().is_ok_and(|meta| !meta.is_symlink()) {
            let mode = [0o600, 0o755, 0o400, 0o711][picks.next(4)];
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        }
    }
    date_all(dir, picks);
}

/// Gives everything that was changed lately a time of its own.
fn date_all(dir: &Path, picks: &mut Picks) {
    for path in seen(dir).into_keys().map(|path| dir.join(std::ffi::OsStr::from_bytes(&path))) {
        let old = path.symlink_metadata().unwrap().mtime() < 1_700_000_000;
        if !old {
            date(&path, 1_500_000_000 + picks.next(100_000_000));
        }
    }
}

pub fn rsync(flags: &[&str], from: &Path, to: &Path) {
    let output = Command::new("rsync").args(flags).args([from, to]).output().expect("rsync is installed");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn assert_same(ours: &Path, theirs: &Path, said: &str) {
    let (ours, theirs) = (seen(ours), seen(theirs));
    for (path, seen) in &theirs {
        assert_eq!(ours.get(path), Some(seen), "{said}: {}", path.escape_ascii());
    }
    assert_eq!(ours.len(), theirs.len(), "{said}");
}

#[test]
fn a_mirror_is_what_rsync_makes_of_it() {
    let ssh = Sshd::start();
    for case in 0..12 {
        // Without hard links what both ends have alike is not declared, and stays all the same.
        let flags = if case < 6 { "-aH" } else { "-a" };
        let mut picks = Picks(case % 6);
        let [from, ours, theirs] = ["from", "ours", "theirs"].map(|name| ssh.path(&format!("{name}{case}")));
        mutate(&from, &mut picks, 50);
        mutate(&ours, &mut picks, 30);
        rsync(&["-aH"], &ours.join(""), &theirs.join(""));
        for round in 0..2 {
            let here = format!("from{case}/");
            let there = match case % 3 {
                0 => ssh.far(&format!("ours{case}")),
                1 => format!("ours{case}"),
                _ => ssh.path(&format!("ours{case}")).display().to_string(),
            };
            // To the other host, on this one, and from the other host.
            let from_there = ssh.far(&here);
            let source = if case % 3 == 2 { from_there.as_str() } else { here.as_str() };
            ssh.copy(&[flags, "--delete", source, &there]);
            rsync(&[flags, "--delete"], &from.join(""), &theirs.join(""));
            assert_same(&ours, &theirs, &format!("case {case}, round {round}"));
            let again = ssh.copy(&[flags, "--delete", source, &there]);
            let changed = ["files", "folders", "links", "touched", "removed", "failed", "moved_bytes"];
            assert!(changed.iter().all(|what| again[what] == 0), "case {case}: {again}");
            mutate(&from, &mut picks, 20);
        }
    }
}

/// It was taken for the folders that are in the folder, and its files were copied.
#[test]
fn a_folder_with_all_that_is_in_it_may_be_left_out_with_a_slash_behind() {
    let ssh = Sshd::start();
    for path in ["src/a/f", "src/a/b/f", "src/x/a/f", "src/x/a/b/f"] {
        let path = ssh.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "1").unwrap();
    }
    for (case, pattern) in ["/a/***/", "a/***/", "x/a/***/", "a/**/", "b***/"].iter().enumerate() {
        let (ours, theirs) = (ssh.path(&format!("ours{case}")), ssh.path(&format!("theirs{case}")));
        let rule = format!("--exclude={pattern}");
        ssh.copy(&["-a", &rule, "src/", &format!("ours{case}")]);
        rsync(&["-a", &rule], &ssh.path("src/"), &theirs);
        assert_same(&ours, &theirs, pattern);
    }
}

#[test]
fn flags_choose_what_is_replaced() {
    for (flags, older, new, grown) in [
        (&["-u"][..], "33x", Some("1"), "4444"),
        (&["--existing"], "333", None, "4444"),
        (&["--ignore-existing"], "33x", Some("1"), "4"),
        (&["--size-only"], "33x", Some("1"), "4444"),
        (&["-I", "--size-only"], "33x", Some("1"), "4444"),
        (&["--size-only", "--checksum"], "333", Some("1"), "4444"),
        (&[], "333", Some("1"), "4444"),
    ] {
        let ssh = Sshd::start();
        two_trees(&ssh);
        ssh.copy(&[flags, &["src/", &ssh.far("there")]].concat());
        let now = ["there/older", "there/new", "there/sub/grown"].map(|path| text(&ssh, path));
        let expected = [Some(older), new, Some(grown)].map(|text| text.map(str::to_owned));
        assert_eq!(now, expected, "{flags:?}");
    }
}

#[test]
fn what_is_edited_during_a_copy_by_content_does_not_get_the_senders_time() {
    let ssh = Sshd::start();
    for folder in ["src", "there"] {
        fs::create_dir(ssh.path(folder)).unwrap();
        fs::write(ssh.path(folder).join("x"), "as the sender has it").unwrap();
    }
    date(&ssh.path("src/x"), 1_500_000_000);
    write_random(&ssh.path("src/z.bin"), 40 << 20, 1);
    let mut command = terahaul_through(ssh.home.path(), &[]);
    command.args(["cp", "--checksum", "--limit", "16MB", "src/", "there"]);
    let mut copying = spawn(command);
    // The manifest has arrived, and all of it was looked at, before there is something to record.
    let is_recorded = || {
        let mut found = fs::read_dir(ssh.path("there")).unwrap().flatten();
        let staging = found.find(|entry| entry.file_name().to_string_lossy().starts_with(".terahaul-"));
        staging.is_some_and(|staging| {
            staging.path().join("journal").metadata().is_ok_and(|found| found.len() > 16)
        })
    };
    wait_while_it_runs(&mut copying, "something is recorded", is_recorded);
    fs::write(ssh.path("there/x"), "edited in this while").unwrap();
    assert!(wait_for(&mut copying).success());
    ssh.copy(&["src/", "there"]);
    assert_eq!(text(&ssh, "there/x").as_deref(), Some("as the sender has it"));
}

#[test]
fn contents_decide_where_asked() {
    let ssh = Sshd::start();
    two_trees(&ssh);
    fs::write(ssh.path("there/same"), "2x").unwrap();
    date(&ssh.path("there/same"), 1_500_000_000);
    for (from, to) in [("src/".to_owned(), ssh.far("there")), (ssh.far("src/"), "there".to_owned())] {
        ssh.copy(&[&from, &to]);
        assert_eq!(text(&ssh, "there/same").as_deref(), Some("2x"), "size and time are the same");
    }
    let ran = ssh.run(&["-n", "--itemize-changes", "--checksum", "src/", &ssh.far("there")]);
    assert!(ran.stdout.contains("<fc........ same"), "{}", ran.stdout);
    let done = ssh.copy(&["--checksum", &ssh.far("src/"), "there"]);
    assert_eq!((done["files"].as_u64(), text(&ssh, "there/same").as_deref()), (Some(1), Some("22")));
}

#[test]
fn what_differs_has_rsyncs_letters() {
    let ssh = Sshd::start();
    two_trees(&ssh);
    for (path, content, time) in [
        ("src/content", "new", 1_500_000_000),
        ("there/content", "old", 1_500_000_000),
        ("src/dated", "same", 1_500_000_000),
        ("there/dated", "same", 1_400_000_000),
    ] {
        fs::write(ssh.path(path), content).unwrap();
        date(&ssh.path(path), time);
    }
    for (link, target) in
        [("src/link", "new"), ("there/link", "old"), ("src/moved", "x"), ("there/moved", "x")]
    {
        symlink(target, ssh.path(link)).unwrap();
        date(&ssh.path(link), 1_500_000_000);
    }
    date(&ssh.path("there/moved"), 1_400_000_000);
    for folder in ["src/sub", "there/sub", "src"] {
        date(&ssh.path(folder), 1_500_000_000);
    }
    fs::set_permissions(ssh.path("src"), fs::Permissions::from_mode(0o711)).unwrap();
    for flags in [&[][..], &["--checksum"], &["-I"], &["--size-only"], &["--checksum", "--size-only"]] {
        let dry = [&["-a", "-n", "--itemize-changes"], flags].concat();
        let said =
            Command::new("rsync").args(&dry).args(["src/", "there"]).current_dir(ssh.path("")).output();
        let theirs = String::from_utf8(said.expect("rsync is installed").stdout).unwrap();
        // Where a link leads to is no letter.
        let mut theirs: Vec<_> = theirs.lines().map(|line| line.split(" -> ").next().unwrap()).collect();
        for (from, to) in [("src/", "there"), (&ssh.far("src/"), "there")] {
            let ran = ssh.run(&[&dry[..], &[from, to]].concat());
            let mut ours: Vec<_> =
                ran.stdout.lines().filter(|line| !line.starts_with("would copy")).collect();
            theirs.sort_unstable();
            ours.sort_unstable();
            assert_eq!(ours, theirs, "{flags:?} {from}");
        }
    }
}

/// It may be somebody's home, and a dry run said nothing of it.
#[test]
fn a_destination_that_becomes_what_the_source_is_is_named_as_rsync_names_it() {
    let ssh = Sshd::start();
    fs::create_dir(ssh.path("src")).unwrap();
    fs::write(ssh.path("src/file"), "1").unwrap();
    fs::set_permissions(ssh.path("src"), fs::Permissions::from_mode(0o711)).unwrap();
    date(&ssh.path("src"), 1_500_000_000);
    let (there, far) = (ssh.path("there"), ssh.far("there"));
    for (from, to) in [("src/", "there"), ("src/", far.as_str()), (&ssh.far("src/"), "there")] {
        let said = |flags: &[&str]| {
            let ran = ssh.run(&[&["-a", "--itemize-changes"], flags, &[from, to]].concat());
            assert_eq!(ran.code, 0, "{}", ran.stderr);
            ran.stdout.lines().find(|line| line.ends_with(" ./")).map(str::to_owned)
        };
        let counted = |flags: &[&str]| ssh.copy(&[flags, &["-a", from, to]].concat());
        assert_eq!(said(&["-n"]).as_deref(), Some("cd+++++++++ ./"), "{from} {to}");
        let planned = counted(&["-n"]);
        assert_eq!(said(&[]).as_deref(), Some("cd+++++++++ ./"), "{from} {to}");
        assert_eq!(said(&["-n"]), None, "{from} {to}: it is the same by now");
        fs::remove_dir_all(&there).unwrap();
        let done = counted(&[]);
        assert_eq!(
            (&planned["entries"], &done["files"], &done["folders"]),
            (&2.into(), &1.into(), &1.into())
        );
        for flags in [&["-n"][..], &[]] {
            fs::set_permissions(&there, fs::Permissions::from_mode(0o755)).unwrap();
            date(&there, 1_400_000_000);
            assert_eq!(said(flags).as_deref(), Some(".d..tp..... ./"), "{from} {to} {flags:?}");
        }
        assert_eq!(there.metadata().unwrap().permissions().mode() & 0o777, 0o711);
        fs::remove_dir_all(&there).unwrap();
    }
}

/// It is looked at by backups.
#[test]
fn a_copy_in_which_nothing_has_changed_leaves_the_destinations_time() {
    let ssh = Sshd::start();
    two_trees(&ssh);
    ssh.copy(&["src", "there"]);
    let dated = || ssh.path("there").metadata().unwrap().mtime();
    date(&ssh.path("there"), 1_400_000_000);
    ssh.copy(&["src", "there"]);
    ssh.copy(&["src", &ssh.far("there")]);
    assert_eq!(dated(), 1_400_000_000);
    fs::write(ssh.path("src/more"), "").unwrap();
    ssh.copy(&["src/more", "there"]);
    assert!(dated() > 1_400_000_000);
}

#[test]
fn flags_may_be_typed_as_for_rsync() {
    let ssh = Sshd::start();
    two_trees(&ssh);
    for flags in [&["-avz", "--progress"][..], &["-rtpz"], &["-z", "auto", "--partial"], &["-az9"]] {
        ssh.copy(&[flags, &["src/", &ssh.far("there")]].concat());
    }
    assert_eq!(text(&ssh, "there/new").as_deref(), Some("1"));
}

#[test]
fn figures_and_names_are_printed_when_asked_for() {
    let ssh = Sshd::start();
    two_trees(&ssh);
    let ran = ssh.run(&["-v", "--stats", "--delete", "src/", &ssh.far("there")]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let lines: Vec<_> = ran.stdout.lines().map(str::trim).collect();
    for line in ["new", "older", "sub/grown", "deleting extra", "deleting gone/", "files written  4"] {
        assert!(lines.contains(&line), "{line}: {}", ran.stdout);
    }
    assert!(!lines.contains(&"same"));
    let planned = ssh.run(&["-n", "--stats", "src/", "other"]);
    assert!(planned.stdout.contains("not copied  0\nwould copy "), "{}", planned.stdout);
}

/// After hours, and then all at once, or never, where a full disk ended the copy.
#[test]
fn names_are_printed_while_a_copy_runs_whichever_way_it_goes() {
    let ssh = Sshd::start();
    fs::create_dir(ssh.path("src")).unwrap();
    fs::write(ssh.path("src/large"), vec![1; 60_000_000]).unwrap();
    for (to, from) in
        [(ssh.far("a"), "src".to_owned()), ("b".into(), ssh.far("src")), ("c".into(), "src".into())]
    {
        let mut command = ssh.command(&["-v", "--limit", "1MB", "-z", "no", &from, &to]);
        let mut copying = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(copying.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap() == "src/large"), "{from}");
        assert!(copying.try_wait().unwrap().is_none(), "{from}: it has ended");
        copying.kill().unwrap();
        copying.wait().unwrap();
    }
}
