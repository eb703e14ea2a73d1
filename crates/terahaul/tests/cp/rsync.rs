//! Semantics beside those of the real rsync, over a real sshd: random trees, changed at random, end up the same.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::rig::{PATIENCE, Ran, spawn, terahaul_through, wait_for, write_random};
use crate::sshd::Sshd;

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

/// Gives everything that was changed lately a time of its own: rsync compares whole seconds.
fn date_all(dir: &Path, picks: &mut Picks) {
    for path in seen(dir).into_keys().map(|path| dir.join(std::ffi::OsStr::from_bytes(&path))) {
        let old = path.symlink_metadata().unwrap().mtime() < 1_700_000_000;
        if !old {
            let at = format!("@{}", 1_500_000_000 + picks.next(100_000_000));
            assert!(Command::new("touch").arg("-hd").arg(at).arg(&path).status().unwrap().success());
        }
    }
}

/// Mode, time, link text or content, and by which name the same file was seen first.
type Seen = (u32, i64, Vec<u8>, Vec<u8>);

fn seen(dir: &Path) -> BTreeMap<Vec<u8>, Seen> {
    let (mut all, mut first) = (BTreeMap::new(), BTreeMap::new());
    let mut folders = vec![dir.to_path_buf()];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.symlink_metadata().unwrap().is_dir() {
                folders.push(path.clone());
            }
            found.push(path);
        }
    }
    found.sort();
    for path in found {
        let meta = path.symlink_metadata().unwrap();
        let name = path.strip_prefix(dir).unwrap().as_os_str().as_bytes().to_vec();
        let content = match meta.file_type() {
            kind if kind.is_dir() => b"folder".to_vec(),
            kind if kind.is_symlink() => fs::read_link(&path).unwrap().as_os_str().as_bytes().to_vec(),
            _ => blake3::hash(&fs::read(&path).unwrap()).as_bytes().to_vec(),
        };
        let first: &mut Vec<u8> = first.entry((meta.dev(), meta.ino())).or_insert_with(|| name.clone());
        all.insert(name, (meta.mode(), meta.mtime(), content, first.clone()));
    }
    all
}

fn rsync(flags: &[&str], from: &Path, to: &Path) {
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
    for case in 0..6 {
        let mut picks = Picks(case);
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
            ssh.copy(&["-aH", "--delete", source, &there]);
            rsync(&["-aH", "--delete"], &from.join(""), &theirs.join(""));
            assert_same(&ours, &theirs, &format!("case {case}, round {round}"));
            let again = ssh.copy(&["-aH", "--delete", source, &there]);
            let changed = ["files", "folders", "links", "touched", "removed", "failed", "moved_bytes"];
            assert!(changed.iter().all(|what| again[what] == 0), "case {case}: {again}");
            mutate(&from, &mut picks, 20);
        }
    }
}

/// A tree at the source, and another where it goes.
fn two_trees(ssh: &Sshd) {
    for (path, content) in [
        ("src/new", "1"),
        ("src/same", "22"),
        ("src/older", "333"),
        ("src/sub/grown", "4444"),
        ("src/sub/skip.o", "5"),
        ("there/same", "22"),
        ("there/older", "33x"),
        ("there/sub/grown", "4"),
        ("there/extra", "6"),
        ("there/gone/x.o", "7"),
        ("there/gone/y", "8"),
    ] {
        let path = ssh.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    let date = |path: &str, at: &str| {
        assert!(Command::new("touch").arg("-hd").arg(at).arg(ssh.path(path)).status().unwrap().success());
    };
    ["src/new", "src/same", "src/older", "src/sub/grown", "src/sub/skip.o", "there/same", "there/sub/grown"]
        .iter()
        .for_each(|path| date(path, "@1500000000"));
    date("there/older", "@1600000000");
}

fn text(ssh: &Sshd, path: &str) -> Option<String> {
    fs::read_to_string(ssh.path(path)).ok()
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
fn what_is_deleted_is_announced_limited_and_spared_where_rules_leave_it_out() {
    let ssh = Sshd::start();
    two_trees(&ssh);
    let far = ssh.far("there");
    let flags = ["--delete", "--exclude=*.o"];
    let ran = ssh.run(&[&["-n", "--json"], &flags[..], &["src/", &far]].concat());
    let removed: Vec<_> = ran
        .events_named("item")
        .iter()
        .filter(|item| item["change"] == "delete")
        .map(|item| item["path"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(
        (ran.code, removed.as_slice()),
        (0, &["extra".to_owned(), "gone/y".to_owned()][..]),
        "{}",
        ran.stdout
    );
    assert!(text(&ssh, "there/extra").is_some() && text(&ssh, "there/new").is_none());
    let ran = ssh.run(&[&flags[..], &["--max-delete=1", "src/", &far]].concat());
    assert_eq!(ran.code, 7, "{}", ran.stderr);
    let done = ssh.copy(&[&flags[..], &["src/", &far]].concat());
    assert_eq!(done["removed"], 1);
    assert_eq!((text(&ssh, "there/extra"), text(&ssh, "there/gone/y")), (None, None));
    assert!(text(&ssh, "there/gone/x.o").is_some(), "what is excluded is spared");
    assert!(text(&ssh, "there/sub/skip.o").is_none());
    let done = ssh.copy(&["--delete", "src/", &far]);
    assert_eq!((done["removed"].as_u64(), ssh.path("there/gone").exists()), (Some(2), false));
}

/// What runs a program without these of root's rights; nothing where there are none to give away.
fn without(rights: &str, as_root: bool) -> Vec<String> {
    let bounding = format!("--bounding-set={rights}");
    let through = ["setpriv", &bounding, "--inh-caps=-all", "--"];
    through.iter().filter(|_| as_root).map(ToString::to_string).collect()
}

#[test]
fn nothing_is_deleted_where_the_source_could_not_be_read() {
    let ssh = Sshd::start();
    two_trees(&ssh);
    fs::create_dir(ssh.path("src/closed")).unwrap();
    fs::set_permissions(ssh.path("src/closed"), fs::Permissions::from_mode(0o000)).unwrap();
    let program = env!("CARGO_BIN_EXE_terahaul");
    // Root reads everything, unless it gives that right away.
    let as_root = fs::read_dir(ssh.path("src/closed")).is_ok();
    let through = without("-dac_override,-dac_read_search", as_root);
    let far_command = format!("{} {program}", through.join(" ")).trim().to_owned();
    for (from, to) in [("src/", &*ssh.far("there")), (&*ssh.far("src/"), "there")] {
        let mut command = terahaul_through(ssh.home.path(), &through);
        command.arg("cp").arg("-F").arg(ssh.path("ssh_config"));
        command.args(["--far-command", &far_command, "--delete", from, to]);
        let ran = Ran::of(command);
        assert_eq!(ran.code, 7, "{}", ran.stderr);
        assert!(ran.stderr.contains("--ignore-errors") && ran.stderr.contains("closed"), "{}", ran.stderr);
        assert!(text(&ssh, "there/extra").is_some());
    }
    let mut command = terahaul_through(ssh.home.path(), &through);
    command.args(["cp", "--delete", "--ignore-errors", "src/", "there"]);
    assert_eq!(Ran::of(command).code, 7);
    assert!(text(&ssh, "there/extra").is_none());
    fs::set_permissions(ssh.path("src/closed"), fs::Permissions::from_mode(0o755)).unwrap();
}

/// Many a home folder has a socket in it. What has its name at the destination is not the sender's to remove.
#[test]
fn what_is_never_copied_keeps_its_name_and_nothing_else_from_being_deleted() {
    let ssh = Sshd::start();
    two_trees(&ssh);
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    for pipe in ["src/pipe", "src/sub/pipe"] {
        rustix::fs::mkfifoat(rustix::fs::CWD, ssh.path(pipe), mode).unwrap();
    }
    let ways =
        [("src/".to_owned(), "a".to_owned()), ("src/".into(), ssh.far("b")), (ssh.far("src/"), "c".into())];
    for (name, (from, to)) in ["a", "b", "c"].iter().zip(&ways) {
        for (path, content) in
            [("pipe/data", "precious"), ("sub/pipe", "keep"), ("sub/extra", "1"), ("extra", "2")]
        {
            let path = ssh.path(name).join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        let ran = ssh.run(&["-v", "--delete", from, to]);
        assert_eq!(ran.code, 7, "{}", ran.stderr);
        assert!(ran.stderr.contains("FIFO"), "{}", ran.stderr);
        let text = |path: &str| text(&ssh, &format!("{name}/{path}"));
        assert_eq!([text("extra"), text("sub/extra")], [None, None], "{}", ran.stdout);
        assert_eq!(text("pipe/data").as_deref(), Some("precious"), "{}", ran.stdout);
        assert_eq!(text("sub/pipe").as_deref(), Some("keep"), "{}", ran.stdout);
    }
}

/// The folder whose content is copied is as private at the other end as it was, and as old.
#[test]
fn a_folder_whose_content_is_copied_gives_what_it_is() {
    let ssh = Sshd::start();
    let write = |name: &str| {
        fs::create_dir_all(ssh.path(name).parent().unwrap()).unwrap();
        fs::write(ssh.path(name), "key").unwrap();
    };
    write("private/key");
    fs::set_permissions(ssh.path("private"), fs::Permissions::from_mode(0o700)).unwrap();
    let owned = std::os::unix::fs::chown(ssh.path("private"), Some(1234), Some(4321)).is_ok();
    assert!(Command::new("touch").arg("-d@1500000000").arg(ssh.path("private")).status().unwrap().success());
    let seen = |name: &str| {
        let meta = fs::metadata(ssh.path(name)).unwrap();
        (meta.permissions().mode() & 0o7777, (meta.uid(), meta.gid()), meta.mtime())
    };
    let (sent, me) = (seen("private"), seen("private/key").1);
    let (there, here) = (ssh.far("pushed"), "pulled".to_owned());
    for (at, (from, to)) in
        [("private/", "local/deep"), ("private/", &*there), (&*ssh.far("private/"), &*here)]
            .into_iter()
            .enumerate()
    {
        let name = ["local/deep", "pushed", "pulled"][at];
        ssh.copy(&["-a", from, to]);
        assert_eq!(seen(name), sent, "{name}");
        // One that is there keeps its bits unless they are asked for.
        fs::set_permissions(ssh.path(name), fs::Permissions::from_mode(0o750)).unwrap();
        ssh.copy(&[from, to]);
        assert_eq!(seen(name), (0o750, sent.1, sent.2), "{name}");
        ssh.copy(&["-a", from, to]);
        assert_eq!(seen(name), sent, "{name}");
        fs::remove_dir_all(ssh.path(name)).unwrap();
        ssh.copy(&[from, to]);
        assert_eq!(seen(name), (0o700, me, sent.2), "{name}");
    }
    assert!(owned || sent.1 == me);
    // What has a name of its own leaves the destination as it is.
    fs::create_dir(ssh.path("into")).unwrap();
    let before = seen("into").0;
    ssh.copy(&["-a", "private", "into"]);
    assert_eq!((seen("into").0, seen("into/private")), (before, sent));
    // A folder of somebody else's that lets everybody write gets the files, and nothing is wrong with that.
    if owned {
        write("src/x");
        fs::create_dir(ssh.path("shared")).unwrap();
        fs::set_permissions(ssh.path("shared"), fs::Permissions::from_mode(0o777)).unwrap();
        std::os::unix::fs::chown(ssh.path("shared"), Some(1234), Some(4321)).unwrap();
        let through = without("-fowner,-chown,-dac_override", true);
        for (flags, code) in [(&[][..], 0), (&["-a"], 7)] {
            let mut command = terahaul_through(ssh.home.path(), &through);
            command.arg("cp").args(flags).args(["src/", "shared"]);
            let ran = Ran::of(command);
            assert_eq!((ran.code, ssh.path("shared/x").exists()), (code, true), "{}", ran.stderr);
        }
    }
}

/// As a user has them who is not root: copies of read-only folders are brought up to date like others, and stay as they are.
#[test]
fn what_is_in_read_only_folders_is_replaced_and_removed() {
    let ssh = Sshd::start();
    let write = |name: &str, text: &str| {
        fs::create_dir_all(ssh.path(name).parent().unwrap()).unwrap();
        fs::write(ssh.path(name), text).unwrap();
    };
    let close = |name: &str| fs::set_permissions(ssh.path(name), fs::Permissions::from_mode(0o555)).unwrap();
    let mode = |name: &str| fs::metadata(ssh.path(name)).unwrap().permissions().mode() & 0o7777;
    write("src/in/deep/f", "new content");
    write("src/in/g", "the other's");
    write("probe/x", "");
    close("probe");
    let through = without("-dac_override,-dac_read_search", fs::write(ssh.path("probe/y"), "").is_ok());
    for flags in [&[][..], &["-a"], &["--delete"], &["-a", "--delete"], &["--delete", "--force"]] {
        let _ = Command::new("chmod").args(["-R", "u+w"]).arg(ssh.path("there")).output();
        let _ = fs::remove_dir_all(ssh.path("there"));
        write("there/in/deep/f", "old");
        write("there/in/gone/x", "extra");
        write("there/in/gone/y", "extra");
        for folder in ["there/in/gone", "there/in/deep", "there/in"] {
            close(folder);
        }
        let mut command = terahaul_through(ssh.home.path(), &through);
        command.arg("cp").args(flags).args(["src/", "there"]);
        let ran = Ran::of(command);
        assert_eq!(ran.code, 0, "{flags:?}: {}", ran.stderr);
        assert_eq!(text(&ssh, "there/in/deep/f").as_deref(), Some("new content"), "{flags:?}");
        assert_eq!(ssh.path("there/in/gone").exists(), !flags.contains(&"--delete"), "{flags:?}");
        let kept = if flags.contains(&"-a") { mode("src/in") } else { 0o555 };
        assert_eq!((mode("there/in"), mode("there/in/deep")), (kept, kept), "{flags:?}");
    }
    let _ = Command::new("chmod").args(["-R", "u+w"]).arg(ssh.path(".")).output();
}

/// It lets its user write for a moment, whoever ends the copy.
#[test]
fn a_read_only_destination_stays_so_whatever_ends_the_copy() {
    let ssh = Sshd::start();
    for folder in ["src", "there", "probe"] {
        fs::create_dir(ssh.path(folder)).unwrap();
    }
    write_random(&ssh.path("src/a.bin"), 40 << 20, 1);
    let set_mode = |name: &str, mode| {
        fs::set_permissions(ssh.path(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    let mode = || fs::metadata(ssh.path("there")).unwrap().permissions().mode() & 0o777;
    set_mode("probe", 0o555);
    let through = without("-dac_override,-dac_read_search", fs::write(ssh.path("probe/y"), "").is_ok());
    let copy = |flags: &[&str]| {
        let mut command = terahaul_through(ssh.home.path(), &through);
        command.arg("cp").args(flags).args(["src/", "there"]);
        command
    };
    set_mode("there", 0o555);
    let mut copying = spawn(copy(&["--limit", "8MB"]));
    let deadline = Instant::now() + PATIENCE;
    while fs::read_dir(ssh.path("there")).unwrap().count() == 0 || mode() != 0o555 {
        assert!(copying.try_wait().unwrap().is_none() && Instant::now() < deadline, "{:o}", mode());
        std::thread::sleep(Duration::from_millis(5));
    }
    copying.kill().unwrap();
    copying.wait().unwrap();
    assert_eq!(mode(), 0o555);
    for _ in 0..2 {
        let ran = Ran::of(copy(&[]));
        assert_eq!((ran.code, mode()), (0, 0o555), "{}", ran.stderr);
    }
    assert_eq!(fs::read_dir(ssh.path("there")).unwrap().count(), 1);
    set_mode("there", 0o755);
}

/// Neither is a reason for rsync to leave a file as it is.
#[test]
fn what_its_user_may_not_read_or_enter_is_replaced_at_once() {
    let ssh = Sshd::start();
    let write = |name: &str, text: &str| {
        fs::create_dir_all(ssh.path(name).parent().unwrap()).unwrap();
        fs::write(ssh.path(name), text).unwrap();
    };
    let set_mode = |name: &str, mode| {
        fs::set_permissions(ssh.path(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    write("src/d/b", "new");
    write("probe/x", "");
    set_mode("probe", 0o555);
    let through = without("-dac_override,-dac_read_search", fs::write(ssh.path("probe/y"), "").is_ok());
    for (path, mode) in [("there/d/b", 0o000), ("there/d", 0o600), ("there/d", 0o000)] {
        let _ = fs::remove_dir_all(ssh.path("there"));
        write("there/d/b", "old");
        set_mode(path, mode);
        let mut command = terahaul_through(ssh.home.path(), &through);
        command.args(["cp", "-a", "--checksum", "src/", "there"]);
        let ran = Ran::of(command);
        assert_eq!((ran.code, text(&ssh, "there/d/b").as_deref()), (0, Some("new")), "{path} {}", ran.stderr);
    }
}

/// Folders into which their users may put things without seeing what is there.
#[test]
fn a_drop_box_takes_what_is_copied_into_it() {
    let ssh = Sshd::start();
    for folder in ["box", "src", "probe"] {
        fs::create_dir(ssh.path(folder)).unwrap();
    }
    fs::write(ssh.path("src/a"), "a").unwrap();
    let set_mode = |name: &str, mode| {
        fs::set_permissions(ssh.path(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    set_mode("probe", 0o555);
    let through = without("-dac_override,-dac_read_search", fs::write(ssh.path("probe/y"), "").is_ok());
    set_mode("box", 0o300);
    for (args, path) in
        [(&["src/a", "box"][..], "box/a"), (&["src", "box"], "box/src/a"), (&["src/", "box"], "box/a")]
    {
        let mut command = terahaul_through(ssh.home.path(), &through);
        command.arg("cp").args(args);
        let ran = Ran::of(command);
        assert_eq!((ran.code, text(&ssh, path).as_deref()), (0, Some("a")), "{args:?} {}", ran.stderr);
    }
    set_mode("box", 0o700);
    assert_eq!(fs::read_dir(ssh.path("box")).unwrap().count(), 2);
}

#[test]
fn what_is_edited_during_a_copy_by_content_does_not_get_the_senders_time() {
    let ssh = Sshd::start();
    for folder in ["src", "there"] {
        fs::create_dir(ssh.path(folder)).unwrap();
        fs::write(ssh.path(folder).join("x"), "as the sender has it").unwrap();
    }
    assert!(Command::new("touch").arg("-d@1500000000").arg(ssh.path("src/x")).status().unwrap().success());
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
    let deadline = Instant::now() + PATIENCE;
    while !is_recorded() {
        assert!(copying.try_wait().unwrap().is_none() && Instant::now() < deadline);
        std::thread::sleep(Duration::from_millis(5));
    }
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
    assert!(
        Command::new("touch").arg("-d@1500000000").arg(ssh.path("there/same")).status().unwrap().success()
    );
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
fn a_list_and_rules_choose_what_is_copied() {
    let ssh = Sshd::start();
    two_trees(&ssh);
    fs::write(ssh.path("list"), "sub/grown\0new\0").unwrap();
    ssh.copy(&["--files-from=list", "-0", "src", &ssh.far("a")]);
    fs::write(ssh.path("rules"), "- *.o\n+ /sub/\n+ /sub/**\n- *\n").unwrap();
    ssh.copy(&["--exclude-from=rules", &ssh.far("src/"), "b"]);
    let names = |dir: &str| {
        seen(&ssh.path(dir)).into_keys().map(|name| String::from_utf8(name).unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(names("a"), ["new", "sub", "sub/grown"]);
    assert_eq!(names("b"), ["sub", "sub/grown"]);
    let ran = ssh.run(&["--files-from=list", "-0", &ssh.far("src"), &ssh.far("a")]);
    assert_eq!(ran.code, 2);
}

/// Rules are for what a list names, and not for the folders on the way to it.
#[test]
fn a_list_and_rules_choose_what_they_choose_with_rsync() {
    let ssh = Sshd::start();
    for path in ["x/r.fastq", "x/n", "foo/b", "foo/sub/c", "foo/other", "top.fastq"] {
        let path = ssh.path("src").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "1").unwrap();
    }
    for (case, (flags, list)) in [
        (&["--include=*.fastq", "--exclude=*"][..], "x/r.fastq\nx/n\ntop.fastq\n"),
        (&["--exclude=foo"], "foo/b\ntop.fastq\n"),
        (&["--exclude=foo"], "foo\nfoo/b\n"),
        (&["--exclude=b"], "foo/b\nfoo/sub/c\n"),
        (&["--exclude=sub", "-r"], "foo\n"),
        (&["--exclude=sub", "-r"], "foo\nfoo/sub/c\n"),
        (&["--exclude=/foo", "-r"], "x\nfoo\n"),
    ]
    .iter()
    .enumerate()
    {
        fs::write(ssh.path("list"), list).unwrap();
        let (ours, theirs) = (format!("ours{case}"), format!("theirs{case}"));
        for made in [&ours, &theirs] {
            fs::create_dir(ssh.path(made)).unwrap();
        }
        ssh.copy(&[*flags, &["-a", "--files-from=list", "src", &ours]].concat());
        let list = format!("--files-from={}", ssh.path("list").display());
        rsync(&[*flags, &[list.as_str()]].concat(), &ssh.path("src"), &ssh.path(&theirs));
        let names = |dir: &str| seen(&ssh.path(dir)).into_keys().collect::<Vec<_>>();
        assert_eq!(names(&ours), names(&theirs), "{flags:?} {list}");
    }
}

#[test]
fn a_folder_that_may_not_be_made_in_the_place_of_a_file_is_named() {
    let ssh = Sshd::start();
    for path in ["src/f/in", "src/g", "there/f"] {
        let path = ssh.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "1").unwrap();
    }
    let ran = ssh.run(&["--ignore-existing", "src/", "there"]);
    assert_eq!((ran.code, text(&ssh, "there/g").as_deref()), (7, Some("1")), "{}", ran.stderr);
    assert!(ran.stderr.contains("--ignore-existing"), "{}", ran.stderr);
    // A list chooses what is copied, and not what may make way for it.
    fs::create_dir_all(ssh.path("there/g2")).unwrap();
    fs::write(ssh.path("there/g2/in"), "1").unwrap();
    fs::write(ssh.path("src/g2"), "2").unwrap();
    fs::write(ssh.path("list"), "g2\n").unwrap();
    ssh.copy(&["--force", "--files-from=list", "src", "there"]);
    assert_eq!(text(&ssh, "there/g2").as_deref(), Some("2"));
}

/// It is looked at by backups.
#[test]
fn a_copy_in_which_nothing_has_changed_leaves_the_destinations_time() {
    let ssh = Sshd::start();
    two_trees(&ssh);
    ssh.copy(&["src", "there"]);
    let dated = || ssh.path("there").metadata().unwrap().mtime();
    assert!(
        Command::new("touch").args(["-d", "@1400000000"]).arg(ssh.path("there")).status().unwrap().success()
    );
    ssh.copy(&["src", "there"]);
    ssh.copy(&["src", &ssh.far("there")]);
    assert_eq!(dated(), 1_400_000_000);
    fs::write(ssh.path("src/more"), "").unwrap();
    ssh.copy(&["src/more", "there"]);
    assert!(dated() > 1_400_000_000);
}

/// A name that was mistyped is no file that vanished.
#[test]
fn what_a_list_names_and_is_not_there_is_named() {
    let ssh = Sshd::start();
    two_trees(&ssh);
    fs::write(ssh.path("list"), "new\nnope\nsame/below\nsub/nope/deep\n").unwrap();
    for (at, (from, to)) in [
        ("src".to_owned(), "a".to_owned()),
        ("src".to_owned(), ssh.far("b")),
        (ssh.far("src"), "c".to_owned()),
    ]
    .iter()
    .enumerate()
    {
        let ran = ssh.run(&["--files-from=list", from, to]);
        assert_eq!(ran.code, 7, "{}", ran.stderr);
        for (name, why) in [("nope", "not there"), ("same", "no folder"), ("sub/nope", "not there")] {
            let named =
                ran.stderr.lines().any(|line| line.contains(&format!("/{name} ")) && line.contains(why));
            assert!(named, "{name}: {}", ran.stderr);
        }
        assert!(ssh.path(["a/new", "b/new", "c/new"][at]).exists());
    }
    // Also where it lies in what comes whole, or is that.
    for (list, name) in
        [("sub\nsub/nope\n", "sub/nope"), ("./\nnope\n", "nope"), ("same\nsame/below\n", "same")]
    {
        fs::write(ssh.path("list"), list).unwrap();
        let ran = ssh.run(&["-r", "--files-from=list", "src", "d"]);
        assert!(ran.code == 7 && ran.stderr.contains(&format!("/{name} ")), "{list}: {}", ran.stderr);
    }
}

/// As with scp and rsync: the others are copied, and the exit code says that not all were. Nothing is removed then.
#[test]
fn one_source_of_several_that_is_not_there_is_named_and_the_rest_is_copied() {
    let ssh = Sshd::start();
    two_trees(&ssh);
    fs::create_dir_all(ssh.path("d/src/kept")).unwrap();
    for to in ["d".to_owned(), ssh.far("d")] {
        let ran = ssh.run(&["--delete", "nope", "src", &to]);
        assert_eq!(ran.code, 7, "{}", ran.stderr);
        assert!(ran.stderr.contains("nope does not exist: check the spelling"), "{}", ran.stderr);
        assert!(ssh.path("d/src/new").exists() && ssh.path("d/src/kept").exists());
        fs::remove_file(ssh.path("d/src/new")).unwrap();
    }
    let ran = ssh.run(&["src/same/", "src", "g"]);
    assert_eq!((ran.code, ssh.path("g/src/new").exists()), (7, true), "{}", ran.stderr);
    assert!(ran.stderr.contains("src/same/ is not a folder"), "{}", ran.stderr);
    let (nope, src) = (ssh.far("nope"), ssh.far("src"));
    let ran = ssh.run(&[&nope, &src, "e"]);
    assert_eq!((ran.code, ssh.path("e/src/new").exists()), (7, true), "{}", ran.stderr);
    let ran = ssh.run(&["nope", "neither", "f"]);
    assert_eq!((ran.code, ssh.path("f").exists()), (5, false), "{}", ran.stderr);
}

/// As scp and rsync have it, and no shell reads the pattern.
#[test]
fn patterns_are_expanded_on_the_other_host() {
    let ssh = Sshd::start();
    let write = |name: &str| {
        fs::create_dir_all(ssh.path(name).parent().unwrap()).unwrap();
        fs::write(ssh.path(name), name).unwrap();
    };
    for name in
        ["src/a.fq", "src/b c.fq", "src/d.txt", "src/.hidden.fq", "src/in.fq/deep", "src/x$(touch oops)y"]
    {
        write(name);
    }
    let done = ssh.copy(&[&ssh.far("src/*.fq"), "to/"]);
    assert_eq!(done["files"], 3);
    for name in ["a.fq", "b c.fq", "in.fq/deep"] {
        assert_eq!(text(&ssh, &format!("to/{name}")).as_deref(), Some(&*format!("src/{name}")));
    }
    assert!(!ssh.path("to/.hidden.fq").exists());
    ssh.copy(&[&ssh.far("s?c/x$(touch*"), "other"]);
    assert!(text(&ssh, "other").is_some() && !ssh.path("oops").exists());
    ssh.copy(&[&ssh.far("src/*.txt"), "renamed"]);
    assert_eq!(text(&ssh, "renamed").as_deref(), Some("src/d.txt"), "one file is one file");
    let ran = ssh.run(&[&ssh.far("src/*.none"), "g"]);
    assert!(ran.code == 5 && ran.stderr.contains("*.none does not exist"), "{}", ran.stderr);
}

#[test]
fn what_removes_counts_what_makes_way() {
    let ssh = Sshd::start();
    let far = ssh.far("there");
    let write = |name: &str| {
        fs::create_dir_all(ssh.path(name).parent().unwrap()).unwrap();
        fs::write(ssh.path(name), name).unwrap();
    };
    write("src/x");
    write("there/x/1");
    write("there/x/2");
    for args in [
        &["-n", "--itemize-changes", "--delete", "src/", &far][..],
        &["-n", "-v", "--delete", "src/", "there"],
    ] {
        let ran = ssh.run(args);
        assert!(["x/1", "x/2"].iter().all(|name| ran.stdout.contains(name)), "{ran:?}");
        assert!(ran.stdout.contains("remove 3") && ssh.path("there/x/1").exists(), "{ran:?}");
    }
    for more in [&["-n"][..], &[]] {
        let ran = ssh.run(&[more, &["--delete", "--max-delete=2", "src/", &far]].concat());
        assert_eq!(ran.code, 7, "{ran:?}");
        assert!(ran.stderr.contains("than may be removed") && ssh.path("there/x/2").exists(), "{ran:?}");
    }
    let done = ssh.copy(&["--delete", "--max-delete=3", "src/", &far]);
    assert_eq!((done["removed"].as_u64(), text(&ssh, "there/x").as_deref()), (Some(3), Some("src/x")));
}

#[test]
fn what_is_only_for_what_is_not_complete_goes_with_it() {
    let ssh = Sshd::start();
    two_trees(&ssh);
    ssh.copy(&["--partial-dir=.part", "src/", &ssh.far("a")]);
    assert!(ssh.path("a/new").exists() && !ssh.path("a/.part").exists());
    fs::create_dir_all(ssh.path("b/.part")).unwrap();
    fs::write(ssh.path("b/.part/mine"), "").unwrap();
    ssh.copy(&["--partial-dir=.part", "src/", "b"]);
    assert!(ssh.path("b/new").exists() && ssh.path("b/.part/mine").exists());
}

#[test]
fn what_is_incomplete_lies_where_asked_and_is_no_part_of_the_copy() {
    let ssh = Sshd::start();
    two_trees(&ssh);
    fs::create_dir(ssh.path("there/.partial")).unwrap();
    let done = ssh.copy(&["--delete", "--partial-dir=.partial", "src/", &ssh.far("there")]);
    assert_eq!(done["failed"], 0);
    assert!(ssh.path("there/.partial").is_dir() && text(&ssh, "there/new").is_some());
    assert_eq!(fs::read_dir(ssh.path("there/.partial")).unwrap().count(), 0);
    assert_eq!(text(&ssh, "there/extra"), None);
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
}
