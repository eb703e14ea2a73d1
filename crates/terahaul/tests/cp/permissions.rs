//! What may be read and written to, at either end, and what stays of that.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::process::Command;

use crate::rig::{Ran, spawn, terahaul_through, wait_while_it_runs, write_random};
use crate::sshd::Sshd;
use crate::trees::{date, text};

/// Of root's rights, those to read and write what permission bits forbid.
pub const READING: &str = "-dac_override,-dac_read_search";

/// What runs a program without these of root's rights; nothing where there are none to give away.
pub fn without(rights: &str, as_root: bool) -> Vec<String> {
    let bounding = format!("--bounding-set={rights}");
    let through = ["setpriv", &bounding, "--inh-caps=-all", "--"];
    through.iter().filter(|_| as_root).map(ToString::to_string).collect()
}

/// What runs a program so that permission bits mean something to it, as they do to any user but root.
pub fn as_any_user(ssh: &Sshd) -> Vec<String> {
    let probe = ssh.path("probe");
    fs::create_dir(&probe).unwrap();
    fs::set_permissions(&probe, fs::Permissions::from_mode(0o555)).unwrap();
    without(READING, fs::write(probe.join("x"), "").is_ok())
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
    date(&ssh.path("private"), 1_500_000_000);
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
    let through = as_any_user(&ssh);
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
    for folder in ["src", "there"] {
        fs::create_dir(ssh.path(folder)).unwrap();
    }
    write_random(&ssh.path("src/a.bin"), 40 << 20, 1);
    let set_mode = |name: &str, mode| {
        fs::set_permissions(ssh.path(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    let mode = || fs::metadata(ssh.path("there")).unwrap().permissions().mode() & 0o777;
    let through = as_any_user(&ssh);
    let copy = |flags: &[&str]| {
        let mut command = terahaul_through(ssh.home.path(), &through);
        command.arg("cp").args(flags).args(["src/", "there"]);
        command
    };
    set_mode("there", 0o555);
    let mut copying = spawn(copy(&["--limit", "8MB"]));
    wait_while_it_runs(&mut copying, "something is staged and the folder read-only again", || {
        fs::read_dir(ssh.path("there")).unwrap().count() > 0 && mode() == 0o555
    });
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
    let through = as_any_user(&ssh);
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
    for folder in ["box", "src"] {
        fs::create_dir(ssh.path(folder)).unwrap();
    }
    fs::write(ssh.path("src/a"), "a").unwrap();
    let set_mode = |name: &str, mode| {
        fs::set_permissions(ssh.path(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    let through = as_any_user(&ssh);
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

/// It listed all that it would copy, and ended with 0.
#[test]
fn a_dry_run_into_a_folder_that_may_not_be_written_to_ends_as_a_run_does() {
    let ssh = Sshd::start();
    let as_user = as_any_user(&ssh);
    fs::write(ssh.path("a"), "a").unwrap();
    fs::create_dir(ssh.path("closed")).unwrap();
    if std::os::unix::fs::chown(ssh.path("closed"), Some(1234), Some(1234)).is_err() {
        return;
    }
    let apart = ["--partial-dir", &ssh.path("apart").display().to_string(), "a", "closed/new/"];
    for args in [&["a", "closed"][..], &["a", "closed/new/"], &["a", "closed/new/deep/"], &apart] {
        let [dry, ran] = [&["-n"][..], &[]].map(|more| {
            let mut command = terahaul_through(ssh.home.path(), &as_user);
            command.arg("cp").args(more).args(args);
            Ran::of(command)
        });
        assert_eq!((dry.code, dry.stderr), (ran.code, ran.stderr), "{args:?}");
        assert_eq!(dry.code, 2, "{args:?}");
    }
    let mut command = terahaul_through(ssh.home.path(), &as_user);
    command.args(["cp", "-n", "--partial-dir", &ssh.path("apart").display().to_string(), "a", "closed"]);
    assert_eq!(Ran::of(command).code, 0, "nothing is staged there");
}

/// They made a staging folder that its owner could not enter, and it stayed.
#[test]
fn a_umask_and_a_default_list_that_take_from_the_owner_keep_nothing_from_being_copied() {
    /// `u::rw-,g::r--,o::r--`, as the kernel takes it: a version, and a tag, bits and no number for each.
    const LIST: &[u8] = &[
        2, 0, 0, 0, 1, 0, 6, 0, 255, 255, 255, 255, 4, 0, 4, 0, 255, 255, 255, 255, 32, 0, 4, 0, 255, 255,
        255, 255,
    ];
    let ssh = Sshd::start();
    fs::create_dir_all(ssh.path("src/in")).unwrap();
    fs::write(ssh.path("src/in/f"), "content").unwrap();
    let as_user = as_any_user(&ssh);
    let program = env!("CARGO_BIN_EXE_terahaul");
    for (umask, list) in [("0177", false), ("0777", false), ("0022", true)] {
        let far = format!("umask {umask}; exec {} {program} \"$@\"", as_user.join(" "));
        let far = ssh.script("far-user", &far);
        let within = ["sh", "-c", &format!("umask {umask}; exec \"$@\""), "sh"].map(str::to_owned);
        let through = [&within[..], &as_user].concat();
        let there = ssh.far("there");
        let config = ssh.path("ssh_config").display().to_string();
        for args in [
            &["src/", "there"][..],
            &["src/in/f", "there/in/"],
            &["--partial-dir", "waiting/here", "src/", "there"],
            &["-F", &config, "--far-command", &far, "src/", &there],
        ] {
            let _ = fs::remove_dir_all(ssh.path("there"));
            if list {
                fs::create_dir(ssh.path("there")).unwrap();
                let flags = rustix::fs::XattrFlags::empty();
                if rustix::fs::setxattr(ssh.path("there"), "system.posix_acl_default", LIST, flags).is_err() {
                    return;
                }
            }
            let mut command = terahaul_through(ssh.home.path(), &through);
            command.arg("cp").args(args);
            let ran = Ran::of(command);
            assert_eq!(ran.code, 0, "{umask} {args:?}: {}", ran.stderr);
            assert_eq!(text(&ssh, "there/in/f").as_deref(), Some("content"), "{umask} {args:?}");
            assert_eq!(fs::read_dir(ssh.path("there")).unwrap().count(), 1, "{umask} {args:?}");
        }
    }
}

/// As an earlier version has left it, or its user's own hand.
#[test]
fn a_staging_folder_that_was_left_closed_to_its_owner_is_gone_on_with() {
    let ssh = Sshd::start();
    for folder in ["src", "there"] {
        fs::create_dir(ssh.path(folder)).unwrap();
    }
    write_random(&ssh.path("src/a.bin"), 40 << 20, 1);
    let through = as_any_user(&ssh);
    let copy = |flags: &[&str]| {
        let mut command = terahaul_through(ssh.home.path(), &through);
        command.arg("cp").args(flags).args(["src/", "there"]);
        command
    };
    let staging = || fs::read_dir(ssh.path("there")).unwrap().next().map(|found| found.unwrap().path());
    for mode in [0o600, 0o500, 0o000] {
        let mut copying = spawn(copy(&["--limit", "8MB"]));
        wait_while_it_runs(&mut copying, "something is staged", || {
            staging().is_some_and(|staging| staging.join("tree").exists())
        });
        copying.kill().unwrap();
        copying.wait().unwrap();
        fs::set_permissions(staging().unwrap(), fs::Permissions::from_mode(mode)).unwrap();
        let ran = Ran::of(copy(&[]));
        assert_eq!(ran.code, 0, "{mode:o}: {}", ran.stderr);
        assert_eq!(staging(), Some(ssh.path("there/a.bin")), "{mode:o}");
        fs::remove_file(ssh.path("there/a.bin")).unwrap();
    }
}

/// `terahaul cp -a` to `to` by root without these of its rights.
fn copy_all_without(ssh: &Sshd, rights: &str, flags: &[&str], to: &str) -> Ran {
    let mut command = terahaul_through(ssh.home.path(), &without(rights, true));
    command.args(["cp", "-a"]).args(flags).args(["src/", to]);
    Ran::of(command)
}

/// A mode, a user and a group.
type Rights = (u32, u32, u32);

fn rights(path: &Path) -> Rights {
    let meta = path.symlink_metadata().unwrap();
    (meta.mode() & 0o7777, meta.uid(), meta.gid())
}

fn give(path: &Path, (mode, user, group): Rights) {
    chown(path, Some(user), Some(group)).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Somebody's program became root's that anybody runs with root's rights.
#[test]
fn what_could_not_get_its_owner_or_its_group_gets_no_rights_of_the_one_that_it_has() {
    const SENT: [(&str, Rights, u32); 9] = [
        ("small", (0o4755, 1234, 1234), 0o755),
        ("large", (0o6755, 1234, 1234), 0o755),
        ("empty", (0o4711, 1234, 0), 0o711),
        ("group", (0o6755, 0, 1234), 0o4755),
        ("mine", (0o6755, 0, 0), 0o6755),
        ("touched", (0o4755, 1234, 1234), 0o755),
        ("healed", (0o4755, 1234, 1234), 0o755),
        ("folder", (0o3775, 1234, 1234), 0o1775),
        ("", (0o2775, 1234, 1234), 0o775),
    ];
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let ssh = Sshd::start();
    let apart = tempfile::tempdir_in("/dev/shm").ok();
    let elsewhere = apart.as_ref().map(|dir| format!("--partial-dir={}", dir.path().display()));
    let shell = format!("{} {}", without("-chown", true).join(" "), env!("CARGO_BIN_EXE_terahaul"));
    let config = ssh.path("ssh_config").display().to_string();
    let by_ssh = ["-F", &config, "--far-command", &shell];
    let ways = [("here", "here".to_owned(), vec![]), ("far", ssh.far("far"), by_ssh.to_vec())];
    let ways =
        ways.into_iter().chain(elsewhere.as_deref().map(|flag| ("across", "across".to_owned(), vec![flag])));
    fs::create_dir_all(ssh.path("src/folder")).unwrap();
    for (name, given, _) in SENT.iter().filter(|(_, (mode, ..), _)| mode & 0o1000 == 0).rev() {
        let path = ssh.path("src").join(name);
        match *name {
            "" => {}
            "empty" => fs::write(&path, "").unwrap(),
            "large" => write_random(&path, 5 << 20, 1),
            _ => fs::write(&path, "content").unwrap(),
        }
        give(&path, *given);
        date(&path, 1_600_000_000);
    }
    give(&ssh.path("src/folder"), SENT[7].1);
    give(&ssh.path("src"), SENT[8].1);
    for (name, to, flags) in ways {
        let there = ssh.path(name);
        fs::create_dir(&there).unwrap();
        for (name, mode) in [("touched", 0o755), ("healed", 0o4755)] {
            fs::write(there.join(name), "content").unwrap();
            date(&there.join(name), 1_600_000_000);
            give(&there.join(name), (mode, 0, 0));
        }
        for more in [&[][..], &[], &["-n"], &["-I"]] {
            let ran = copy_all_without(&ssh, "-chown", &[&flags, more].concat(), &to);
            assert_eq!(ran.code, if more == ["-n"] { 0 } else { 7 }, "{name} {more:?}: {}", ran.stderr);
            for (entry, _, mode) in SENT {
                assert_eq!(rights(&there.join(entry)), (mode, 0, 0), "{name} {more:?}: {entry}");
            }
        }
        // Whoever may give them away does.
        ssh.copy(&["-a", "src/", name]);
        for (entry, sent, _) in SENT {
            assert_eq!(rights(&there.join(entry)), sent, "{name}: {entry}");
        }
    }
}

/// A file of somebody else's ended the whole copy, and a folder could not be moved to its place.
#[test]
fn what_root_may_give_away_and_not_change_after_that_is_copied_with_all_that_it_has() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let ssh = Sshd::start();
    fs::create_dir_all(ssh.path("src/folder/in")).unwrap();
    for name in ["0", "a", "empty", "folder/f", "folder/in/f", "open", "stays", "folder/void"] {
        let is_empty = ["empty", "folder/void"].contains(&name);
        fs::write(ssh.path("src").join(name), if is_empty { "" } else { name }).unwrap();
    }
    fs::create_dir(ssh.path("src/closed")).unwrap();
    write_random(&ssh.path("src/large"), 5 << 20, 1);
    std::os::unix::fs::symlink("a", ssh.path("src/link")).unwrap();
    let sent = [
        "a",
        "closed",
        "empty",
        "folder/f",
        "folder/void",
        "large",
        "open",
        "stays",
        "folder/in",
        "folder",
        "link",
    ];
    for name in sent {
        let path = ssh.path("src").join(name);
        if name == "link" {
            std::os::unix::fs::lchown(&path, Some(77), Some(78)).unwrap();
        } else {
            let mode = match name {
                "closed" => 0o555,
                // More than a new file gets by itself.
                "open" | "folder/void" => 0o666,
                "stays" => 0o600,
                _ if path.is_dir() => 0o755,
                _ => 0o640,
            };
            give(&path, (mode, 77, 78));
        }
        date(&path, 1_600_000_000);
    }
    let apart = tempfile::tempdir_in("/dev/shm").ok();
    let elsewhere = apart.as_ref().map(|dir| format!("--partial-dir={}", dir.path().display()));
    let ways = [("here", "-fowner,-dac_override", None), ("across", "-fowner", elsewhere.as_deref())];
    for (to, lacking, flag) in ways.into_iter().filter(|(to, _, flag)| *to == "here" || flag.is_some()) {
        let copy = |more: &[&str]| {
            let flags: Vec<_> = flag.into_iter().chain(more.iter().copied()).collect();
            copy_all_without(&ssh, lacking, &flags, to)
        };
        // It was left open to all once it was given away.
        fs::create_dir(ssh.path(to)).unwrap();
        fs::write(ssh.path(to).join("stays"), "stays").unwrap();
        fs::set_permissions(ssh.path(to).join("stays"), fs::Permissions::from_mode(0o644)).unwrap();
        date(&ssh.path(to).join("stays"), 1_600_000_000);
        let ran = copy(&[]);
        assert_eq!(ran.code, 0, "{to}: {}", ran.stderr);
        let seen = |there: &str, name: &str| {
            let path = ssh.path(there).join(name);
            (rights(&path), path.symlink_metadata().unwrap().mtime())
        };
        for name in sent {
            assert_eq!(seen(to, name), seen("src", name), "{to}/{name}");
        }
        let ran = copy(&["-v"]);
        assert_eq!(
            (ran.code, ran.stdout.contains("folder")),
            (0, false),
            "{to}: {}{}",
            ran.stdout,
            ran.stderr
        );
        // The set-user-id bit comes after the owner, who alone may set it then.
        fs::set_permissions(ssh.path("src/a"), fs::Permissions::from_mode(0o4750)).unwrap();
        fs::remove_file(ssh.path(to).join("a")).unwrap();
        let ran = copy(&[]);
        assert_eq!((ran.code, rights(&ssh.path(to).join("a"))), (7, (0o750, 77, 78)), "{to}: {}", ran.stderr);
        assert!(ran.stderr.contains("a was copied, but its permissions could not be set"), "{}", ran.stderr);
        give(&ssh.path("src/a"), (0o640, 77, 78));
        date(&ssh.path("src/a"), 1_600_000_000);
    }
}
