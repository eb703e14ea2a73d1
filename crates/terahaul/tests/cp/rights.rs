//! What an ordinary user meets: files that cannot be read, folders that are somebody else's, attributes and lists.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::process::Command;

use rustix::fs::XattrFlags;

use crate::permissions::{READING, as_any_user, without};
use crate::resume::wait_until_staged;
use crate::rig::{Ran, spawn, terahaul_through, write_random};
use crate::sshd::Sshd;
use crate::trees::date;

/// Of root's rights, [`READING`] and those to change what is somebody else's.
const OWNING: &str = "-dac_override,-dac_read_search,-fowner,-chown,-fsetid";

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// `terahaul cp` without these rights at either end.
fn copy_without(ssh: &Sshd, rights: &str, args: &[&str]) -> Ran {
    let through = without(rights, is_root());
    let far_command = format!("{} {}", through.join(" "), env!("CARGO_BIN_EXE_terahaul")).trim().to_owned();
    let mut command = terahaul_through(ssh.home.path(), &through);
    command.arg("cp");
    if args.iter().any(|arg| arg.starts_with("far:")) {
        command.arg("-F").arg(ssh.path("ssh_config")).args(["--far-command", &far_command]);
    }
    command.args(args);
    Ran::of(command)
}

fn plant(ssh: &Sshd, files: &[(&str, &str)]) {
    for (path, content) in files {
        fs::create_dir_all(ssh.path(path).parent().unwrap()).unwrap();
        fs::write(ssh.path(path), content).unwrap();
    }
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn mode(path: &Path) -> u32 {
    path.symlink_metadata().unwrap().mode() & 0o7777
}

/// Whether the file system has such attributes.
fn set_attribute(path: &Path, name: &str, value: &[u8]) -> bool {
    rustix::fs::lsetxattr(path, name, value, XattrFlags::empty()).is_ok()
}

fn attribute(path: &Path, name: &str) -> Option<Vec<u8>> {
    let mut value = vec![0; 256];
    let len = rustix::fs::lgetxattr(path, name, &mut value[..]).ok()?;
    Some(value[..len].to_vec())
}

/// Those that the first run had staged were said to lack their attributes, and did.
#[test]
fn read_only_files_of_an_interrupted_copy_get_attributes_that_only_the_next_one_keeps() {
    let ssh = Sshd::start();
    fs::create_dir(ssh.path("src")).unwrap();
    let small: Vec<String> = (0..8).map(|number| format!("a{number}")).collect();
    for name in &small {
        let path = ssh.path("src").join(name);
        write_random(&path, 1 << 20, 1);
        if !set_attribute(&path, "user.a", b"1") {
            return;
        }
        set_mode(&path, 0o444);
    }
    write_random(&ssh.path("src/b"), 40 << 20, 2);
    let through = as_any_user(&ssh);
    let copy = |flags: &[&str]| {
        let mut command = terahaul_through(ssh.home.path(), &through);
        command.arg("cp").args(flags).args(["src", "there"]);
        command
    };
    let mut copying = spawn(copy(&["--limit", "8MB"]));
    // The files of a block are recorded together.
    wait_until_staged(&ssh.path("there"), "journal", 300);
    copying.kill().unwrap();
    copying.wait().unwrap();
    let ran = Ran::of(copy(&["-X"]));
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    for name in &small {
        let path = ssh.path("there/src").join(name);
        assert_eq!((attribute(&path, "user.a"), mode(&path)), (Some(b"1".to_vec()), 0o444));
    }
}

const LIST: &str = "system.posix_acl_access";

/// An access control list: its owner, user 1000, its group, a mask, and others.
fn list(owner: u16, named: u16, group: u16, mask: u16, others: u16) -> Vec<u8> {
    let entry = |tag: u16, bits: u16, id: u32| {
        [&tag.to_le_bytes()[..], &bits.to_le_bytes(), &id.to_le_bytes()].concat()
    };
    let nobody = u32::MAX;
    let entries = [
        entry(1, owner, nobody),
        entry(2, named, 1000),
        entry(4, group, nobody),
        entry(16, mask, nobody),
        entry(32, others, nobody),
    ];
    [2u32.to_le_bytes().to_vec(), entries.concat()].concat()
}

/// Absent at the source is removed at the destination; what cannot be read is not absent.
#[test]
fn attributes_that_cannot_be_read_are_named_and_not_removed_at_the_destination() {
    let ssh = Sshd::start();
    for folder in ["src", "a", "b", "c"] {
        plant(&ssh, &[(&format!("{folder}/f"), "same"), (&format!("{folder}/g"), "same")]);
        date(&ssh.path(folder).join("f"), 1_600_000_000);
        if !set_attribute(&ssh.path(folder).join("f"), "user.a", b"1") {
            return;
        }
    }
    plant(&ssh, &[("a/extra", "1"), ("b/extra", "1"), ("c/extra", "1")]);
    set_mode(&ssh.path("src/f"), 0);
    for (name, from, to) in [
        ("a", "src/".to_owned(), "a".to_owned()),
        ("b", "src/".into(), ssh.far("b")),
        ("c", ssh.far("src/"), "c".into()),
    ] {
        let ran = copy_without(&ssh, READING, &["-X", "--delete", &from, &to]);
        assert_eq!(ran.code, 7, "{}", ran.stderr);
        assert!(ran.stderr.contains("src/f could not be read"), "{}", ran.stderr);
        assert_eq!(attribute(&ssh.path(name).join("f"), "user.a").as_deref(), Some(&b"1"[..]), "{name}");
        assert!(ssh.path(name).join("g").exists() && ssh.path(name).join("extra").exists());
    }
}

/// As rsync has it. It was named, and kept those that it had.
#[test]
fn a_read_only_folder_that_is_there_gets_the_attributes_of_the_source() {
    let ssh = Sshd::start();
    plant(&ssh, &[("src/open/f", "1"), ("src/shut/f", "2")]);
    let folders = ["", "open", "shut"];
    for folder in folders {
        if !set_attribute(&ssh.path("src").join(folder), "user.a", b"1") {
            return;
        }
    }
    set_mode(&ssh.path("src/shut"), 0o555);
    for (name, flags, open) in [("a", "-aX", 0o755), ("b", "-rX", 0o555)] {
        plant(&ssh, &[(&format!("{name}/open/f"), "1"), (&format!("{name}/shut/f"), "2")]);
        for folder in folders.iter().rev() {
            assert!(set_attribute(&ssh.path(name).join(folder), "user.b", b"2"));
            set_mode(&ssh.path(name).join(folder), 0o555);
        }
        let to = if name == "a" { name.to_owned() } else { ssh.far(name) };
        let ran = copy_without(&ssh, READING, &[flags, "src/", &to]);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        for (folder, bits) in folders.iter().zip([open, open, 0o555]) {
            let there = ssh.path(name).join(folder);
            let attributes = ["user.a", "user.b"].map(|name| attribute(&there, name));
            assert_eq!((mode(&there), attributes), (bits, [Some(b"1".to_vec()), None]), "{name}/{folder}");
        }
    }
}

/// As rsync has it: each such `chmod` might take a bit away, or not be allowed.
#[test]
fn with_lists_kept_a_folder_that_is_the_same_is_left_alone() {
    if !is_root() {
        return;
    }
    let ssh = Sshd::start();
    for folder in ["src", "there"] {
        for (name, owner, bits) in [("shared", 1234, 0o777), ("grouped", 0, 0o2775)] {
            let path = ssh.path(folder).join(name);
            fs::create_dir_all(&path).unwrap();
            chown(&path, Some(owner), Some(4321)).unwrap();
            set_mode(&path, bits);
            date(&path, 1_600_000_000);
        }
    }
    plant(&ssh, &[("src/new", "1")]);
    let ran = copy_without(&ssh, OWNING, &["-aA", "src/", "there"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!([mode(&ssh.path("there/shared")), mode(&ssh.path("there/grouped"))], [0o777, 0o2775]);
}

/// Whoever has only changed the names of a file has not changed the file.
#[test]
fn a_file_whose_other_name_goes_in_the_same_run_gets_its_time() {
    for flag in ["--checksum", "--size-only"] {
        let ssh = Sshd::start();
        plant(
            &ssh,
            &[
                ("src/f", "same"),
                ("src/g", "new"),
                ("there/f", "same"),
                ("there/h", "hhhh"),
                ("src/h", "hhhh"),
            ],
        );
        // One name is removed, the other replaced.
        fs::hard_link(ssh.path("there/f"), ssh.path("there/extra")).unwrap();
        fs::hard_link(ssh.path("there/h"), ssh.path("there/g")).unwrap();
        for name in ["f", "h"] {
            date(&ssh.path("src").join(name), 1_700_000_003);
            date(&ssh.path("there").join(name), 1_700_000_000);
        }
        let ran = ssh.run(&["--delete", flag, "src/", "there"]);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        assert!(
            !ssh.path("there/extra").exists() && fs::read_to_string(ssh.path("there/g")).unwrap() == "new"
        );
        let times = ["f", "h"].map(|name| ssh.path("there").join(name).metadata().unwrap().mtime());
        assert_eq!(times, [1_700_000_003; 2], "{flag}");
    }
}

/// What nobody else may read at the source was anybody's to read after every other run, and no run was the last.
#[test]
fn names_that_are_one_file_here_alone_get_each_its_own_permissions_at_once() {
    let ssh = Sshd::start();
    let there = ssh.far("there");
    for (keep, to) in [("-aHAX", "there"), ("-aHAX", &*there), ("-a", "there"), ("-a", &*there)] {
        plant(&ssh, &[("src/open", "key"), ("src/private", "key"), ("there/open", "key")]);
        fs::hard_link(ssh.path("there/open"), ssh.path("there/private")).unwrap();
        for (name, bits) in [("src/open", 0o644), ("src/private", 0o600), ("there/open", 0o644)] {
            date(&ssh.path(name), 1_500_000_000);
            set_mode(&ssh.path(name), bits);
        }
        let (foretold, done) = (ssh.copy(&[keep, "-n", "src/", to]), ssh.copy(&[keep, "src/", to]));
        for (told, copied) in [(foretold, "entries"), (done, "files")] {
            assert_eq!((&told[copied], &told["unchanged"]), (&1.into(), &1.into()), "{keep} {to}: {told}");
        }
        assert_eq!(["open", "private"].map(|name| mode(&ssh.path("there").join(name))), [0o644, 0o600]);
        let again = ssh.copy(&[keep, "src/", to]);
        assert_eq!(
            (&again["files"], &again["touched"], &again["unchanged"]),
            (&0.into(), &0.into(), &2.into()),
            "{keep} {to}: {again}"
        );
        fs::remove_dir_all(ssh.path("there")).unwrap();
    }
}

/// Permission bits are part of a list: half of one would let others read for as long as it takes to copy again.
#[test]
fn lists_are_kept_with_the_permission_bits_that_they_belong_to() {
    let ssh = Sshd::start();
    plant(&ssh, &[("src/none", "1"), ("src/same", "2"), ("src/replaced", "new"), ("src/wide", "3")]);
    plant(&ssh, &[("there/none", "1"), ("there/same", "2"), ("there/replaced", "o"), ("there/wide", "3")]);
    for name in ["src/none", "there/none", "src/same", "there/same", "src/wide", "there/wide"] {
        date(&ssh.path(name), 1_600_000_000);
    }
    set_mode(&ssh.path("src/none"), 0o775);
    for name in ["none", "same", "replaced", "wide"] {
        set_mode(&ssh.path("there").join(name), 0o755);
    }
    let (narrow, wide) = (list(7, 4, 4, 4, 0), list(6, 6, 0, 7, 0));
    if !["same", "replaced"].iter().all(|name| set_attribute(&ssh.path("src").join(name), LIST, &narrow)) {
        return;
    }
    assert!(set_attribute(&ssh.path("src/wide"), LIST, &wide));
    assert!(set_attribute(&ssh.path("there/wide"), LIST, &narrow));
    let ran = ssh.run(&["-A", "src/", "there"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    for name in ["none", "same", "replaced", "wide"] {
        let [from, to] = ["src", "there"].map(|folder| ssh.path(folder).join(name));
        assert_eq!((mode(&to), attribute(&to, LIST)), (mode(&from), attribute(&from, LIST)), "{name}");
    }
    let ran = ssh.run(&["-A", "--itemize-changes", "src/", "there"]);
    assert_eq!(
        (ran.code, ran.stdout.lines().any(|line| line.starts_with('.'))),
        (0, false),
        "{}",
        ran.stdout
    );
}

/// As rsync has it, which makes them there.
#[test]
fn what_is_new_in_a_folder_that_hands_its_group_on_has_that_group_and_does_the_same() {
    let ssh = Sshd::start();
    plant(&ssh, &[("src/in/new/deeper/f", "1"), ("src/in/plain", "2"), ("src/own/new/f", "3")]);
    for there in ["ours", "theirs", "by-ssh"] {
        for name in ["in", "own"] {
            fs::create_dir_all(ssh.path(there).join(name)).unwrap();
        }
        if is_root() {
            chown(ssh.path(there).join("in"), None, Some(4321)).unwrap();
        }
        set_mode(&ssh.path(there).join("in"), 0o2755);
    }
    // The destination hands its group on, and one in it does not.
    for there in ["ours", "theirs", "by-ssh"] {
        set_mode(&ssh.path(there), 0o2755);
        set_mode(&ssh.path(there).join("own"), 0o755);
        assert!(
            Command::new("chmod").arg("g-s").arg(ssh.path(there).join("own")).status().unwrap().success()
        );
    }
    let ran = ssh.run(&["src/", "ours"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    ssh.copy(&["src/", &ssh.far("by-ssh")]);
    let rsync =
        Command::new("rsync").arg("-rlt").args([ssh.path("src/"), ssh.path("theirs")]).status().unwrap();
    assert!(rsync.success());
    for name in
        ["in", "in/new", "in/new/deeper", "in/new/deeper/f", "in/plain", "own", "own/new", "own/new/f"]
    {
        let seen = |there: &str| {
            let path = ssh.path(there).join(name);
            (mode(&path), path.metadata().unwrap().gid())
        };
        assert_eq!([seen("ours"), seen("by-ssh")], [seen("theirs"); 2], "{name}");
    }
}

#[test]
fn what_is_incomplete_may_lie_in_a_read_only_destination() {
    let ssh = Sshd::start();
    plant(&ssh, &[("src/f", "1")]);
    for content in ["first", "second"] {
        set_mode(&ssh.path("src"), 0o755);
        fs::write(ssh.path("src/f"), content).unwrap();
        set_mode(&ssh.path("src"), 0o555);
        let ran = copy_without(&ssh, READING, &["-a", "--partial-dir=part", "src/", "there"]);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        assert_eq!(fs::read_to_string(ssh.path("there/f")).unwrap(), content);
        assert_eq!(mode(&ssh.path("there")), 0o555);
        assert!(!ssh.path("there/part").exists());
    }
}

/// As rsync has it: what could not be read may be what the rest is worth nothing without.
#[test]
fn nothing_is_deleted_where_a_file_of_the_source_could_not_be_read() {
    let ssh = Sshd::start();
    plant(&ssh, &[("src/f", "1"), ("src/closed", "2")]);
    for (name, from, to) in [
        ("a", "src/".to_owned(), "a".to_owned()),
        ("b", "src/".into(), ssh.far("b")),
        ("c", ssh.far("src/"), "c".into()),
    ] {
        plant(&ssh, &[(&format!("{name}/extra"), "1")]);
        set_mode(&ssh.path("src/closed"), 0);
        let extra = ssh.path(name).join("extra");
        let ran = copy_without(&ssh, READING, &["--delete", &from, &to]);
        assert_eq!((ran.code, extra.exists()), (7, true), "{name}: {}", ran.stderr);
        assert!(ran.stderr.contains("--ignore-errors") && ran.stderr.contains("closed"), "{}", ran.stderr);
        let ran = copy_without(&ssh, READING, &["--delete", "--ignore-errors", &from, &to]);
        assert_eq!((ran.code, extra.exists()), (7, false), "{name}: {}", ran.stderr);
    }
}

/// As rsync has it. The first run named such a folder, and the next one, which found it opened by the first, removed what was in it.
#[test]
fn what_lies_in_a_folder_that_its_owner_may_not_read_is_removed_where_the_source_has_the_folder() {
    const CLOSED: [(&str, u32); 3] = [("blind/in", 0o300), ("blind", 0o600), ("shut", 0o000)];
    let ssh = Sshd::start();
    plant(&ssh, &[("src/blind/in/kept", "1"), ("src/shut/kept", "2")]);
    for (name, flags) in [("a", "-a"), ("b", "-r")] {
        for folder in ["blind/in", "blind", "shut"] {
            plant(
                &ssh,
                &[(&format!("{name}/{folder}/old"), "3"), (&format!("{name}/{folder}/older/f"), "4")],
            );
        }
        CLOSED.iter().for_each(|(folder, bits)| set_mode(&ssh.path(name).join(folder), *bits));
        let to = if name == "a" { name.to_owned() } else { ssh.far(name) };
        let ran = copy_without(&ssh, READING, &[flags, "--delete", "--json", "src/", &to]);
        assert_eq!((ran.code, &ran.event("done")["removed"]), (0, &9.into()), "{}", ran.stdout);
        let modes = CLOSED.map(|(folder, bits)| (mode(&ssh.path(name).join(folder)), bits));
        assert!(modes.iter().all(|(is, was)| *is == if flags == "-a" { 0o755 } else { *was }), "{modes:?}");
        for (folder, _) in CLOSED.iter().rev() {
            set_mode(&ssh.path(name).join(folder), 0o755);
        }
        for folder in ["blind/in", "blind", "shut"] {
            assert!(["old", "older"].iter().all(|old| !ssh.path(name).join(folder).join(old).exists()));
        }
        assert_eq!(fs::read_to_string(ssh.path(name).join("blind/in/kept")).unwrap(), "1");
    }
}

/// It gave a read-only folder write permission for a moment, for the sake of one in it that may not be looked into.
#[test]
fn a_dry_run_opens_no_read_only_folder_up() {
    let ssh = Sshd::start();
    plant(&ssh, &[("src/way", "1"), ("there/extra/shut/f", "2"), ("there/way/shut/f", "3")]);
    for folder in ["extra", "way"].map(|name| ssh.path("there").join(name)) {
        set_mode(&folder.join("shut"), 0o000);
        set_mode(&folder, 0o555);
    }
    let changed = || {
        let times = |name: &str| {
            ssh.path("there").join(name).metadata().map(|found| (found.ctime(), found.ctime_nsec()))
        };
        ["extra", "way"].map(|name| times(name).unwrap())
    };
    let before = changed();
    let ran = copy_without(&ssh, READING, &["-n", "--delete", "src/", "there"]);
    assert_eq!((ran.code, changed()), (7, before), "{}", ran.stderr);
    for folder in ["extra", "way"].map(|name| ssh.path("there").join(name)) {
        set_mode(&folder, 0o755);
        set_mode(&folder.join("shut"), 0o755);
    }
}

/// It was named, since nobody could tell whether it might go.
#[test]
fn a_folder_that_may_not_be_read_stays_where_all_that_is_there_does() {
    let ssh = Sshd::start();
    plant(&ssh, &[("src/f", "1"), ("src/g", "2"), ("there/f/x", "3")]);
    set_mode(&ssh.path("there/f"), 0o300);
    for to in ["there", &ssh.far("there")] {
        for more in [&["-v"][..], &["--delete"]] {
            let ran = copy_without(&ssh, READING, &[&["--ignore-existing"], more, &["src/", to]].concat());
            assert_eq!((ran.code, mode(&ssh.path("there/f"))), (0, 0o300), "{}", ran.stderr);
        }
    }
    set_mode(&ssh.path("there/f"), 0o755);
    assert!(ssh.path("there/f/x").exists() && ssh.path("there/g").exists());
}

#[test]
fn what_could_not_be_read_is_not_counted_as_copied() {
    let ssh = Sshd::start();
    plant(&ssh, &[("src/f", "content"), ("src/small", "closed"), ("src/sub/f", "more")]);
    fs::File::create(ssh.path("src/large")).unwrap().set_len(9 << 20).unwrap();
    ["src/small", "src/large"].iter().for_each(|closed| set_mode(&ssh.path(closed), 0));
    let ran = copy_without(&ssh, READING, &["src", "there", "--json"]);
    assert_eq!(ran.code, 7, "{}", ran.stderr);
    let done = ran.event("done");
    for counted in ["bytes", "literal_bytes", "moved_bytes"] {
        assert_eq!(done[counted], 11, "{counted}: {done}");
    }
}

/// Nothing is wrong with how it was typed.
#[test]
fn a_source_that_may_not_be_reached_is_no_mistake_of_the_command_line() {
    let ssh = Sshd::start();
    plant(&ssh, &[("closed/f", "1"), ("open", "2")]);
    set_mode(&ssh.path("closed"), 0);
    for (from, open) in [("closed/f".to_owned(), "open".to_owned()), (ssh.far("closed/f"), ssh.far("open"))] {
        let ran = copy_without(&ssh, READING, &[&from, "there"]);
        assert_eq!((ran.code, ssh.path("there").exists()), (1, false), "{}", ran.stderr);
        assert!(ran.stderr.contains("check its permissions"), "{}", ran.stderr);
        let ran = copy_without(&ssh, READING, &[&from, &open, "there"]);
        assert_eq!((ran.code, ssh.path("there/open").exists()), (7, true), "{}", ran.stderr);
        fs::remove_dir_all(ssh.path("there")).unwrap();
    }
    set_mode(&ssh.path("closed"), 0o755);
}
