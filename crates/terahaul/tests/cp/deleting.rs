//! What a copy removes, what it spares, and what makes way.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::permissions::as_any_user;
use crate::rig::{Ran, terahaul_through};
use crate::sshd::Sshd;
use crate::trees::{text, two_trees};

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

/// It was taken for a file, which the rules leave out without a word, and its copy for one of a folder that the source has not.
#[test]
fn nothing_is_deleted_where_rules_take_folders_and_one_cannot_be_looked_at() {
    let ssh = Sshd::start();
    let mount = ssh.path("src/closed/mount");
    fs::create_dir_all(&mount).unwrap();
    fs::write(mount.join("x.fastq"), "1").unwrap();
    let through = as_any_user(&ssh);
    let copy = || {
        let mut command = terahaul_through(ssh.home.path(), &through);
        command.args(["cp", "--delete", "--include=*/", "--include=*.fastq", "--exclude=*", "src/", "dst"]);
        Ran::of(command)
    };
    assert_eq!(copy().code, 0);
    fs::set_permissions(ssh.path("src/closed"), fs::Permissions::from_mode(0o644)).unwrap();
    let ran = copy();
    assert_eq!(ran.code, 7, "{}", ran.stderr);
    assert!(ran.stderr.contains("closed/mount"), "{}", ran.stderr);
    assert!(text(&ssh, "dst/closed/mount/x.fastq").is_some());
}

#[test]
fn nothing_is_deleted_where_the_source_could_not_be_read() {
    let ssh = Sshd::start();
    two_trees(&ssh);
    fs::create_dir(ssh.path("src/closed")).unwrap();
    fs::set_permissions(ssh.path("src/closed"), fs::Permissions::from_mode(0o000)).unwrap();
    let program = env!("CARGO_BIN_EXE_terahaul");
    let through = as_any_user(&ssh);
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
        // Nobody misses them: a job that runs every night would never end well.
        let ran = ssh.run(&["--delete", "-a", "--no-D", from, to]);
        assert_eq!((ran.code, &*ran.stderr), (0, ""));
        assert_eq!(text("pipe/data").as_deref(), Some("precious"), "{}", ran.stdout);
    }
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

/// It was removed from under the run that was about to give it its name.
#[test]
fn a_part_that_another_run_has_not_named_yet_is_not_deleted() {
    let ssh = Sshd::start();
    two_trees(&ssh);
    let part = ".terahaul-okniwyzza66erh54fmrcgmj3xq.part";
    for folder in ["there", "there/sub", "there/gone"] {
        fs::write(ssh.path(folder).join(part), "half").unwrap();
    }
    for more in [&["-n"][..], &[]] {
        let ran = ssh.run(&[more, &["-v", "--delete", "src/", &ssh.far("there")]].concat());
        assert_eq!((ran.code, ran.stdout.contains(part)), (0, false), "{ran:?}");
        assert!(ran.stdout.contains("deleting extra"), "{ran:?}");
    }
    assert_eq!((text(&ssh, "there/extra"), text(&ssh, "there/gone/y")), (None, None));
    for folder in ["there", "there/sub", "there/gone"] {
        assert_eq!(fs::read(ssh.path(folder).join(part)).unwrap(), b"half", "{folder}");
    }
}
