//! On one machine.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::rig::{Ran, assert_same, terahaul, write_tree};
use crate::sshd::Sshd;
use crate::trees::date;

fn cp(home: &std::path::Path, args: &[&str]) -> Ran {
    let mut command = terahaul(home);
    command.arg("cp").args(args);
    Ran::of(command)
}

#[test]
fn a_folder_is_copied_as_it_is_and_again_at_no_cost() {
    let home = tempfile::tempdir().unwrap();
    write_tree(&home.path().join("src"));
    assert_eq!(cp(home.path(), &["src", "dst"]).code, 0);
    assert_same(&home.path().join("src"), &home.path().join("dst/src"));
    let done = cp(home.path(), &["--json", "src", "dst"]).event("done");
    assert_eq!((&done["moved_bytes"], &done["way"]), (&0.into(), &"local".into()));
    fs::remove_dir_all(home.path().join("dst/src/sub")).unwrap();
    assert_eq!(cp(home.path(), &["src/", "dst/src"]).code, 0);
    assert_same(&home.path().join("src"), &home.path().join("dst/src"));
}

/// As rsync has it, and as everybody types it who forgot one.
#[test]
fn flags_may_stand_anywhere() {
    let home = tempfile::tempdir().unwrap();
    write_tree(&home.path().join("src"));
    for (args, to) in [(["src", "-a", "a"], "a"), (["src", "b", "-a"], "b"), (["-a", "src", "c"], "c")] {
        let ran = cp(home.path(), &args);
        assert_eq!(ran.code, 0, "{args:?}: {}", ran.stderr);
        assert_same(&home.path().join("src"), &home.path().join(to).join("src"));
    }
    let ran = cp(home.path(), &["src"]);
    assert_eq!((ran.code, ran.stderr.contains("where to")), (2, true), "{}", ran.stderr);
}

#[test]
fn a_folder_is_not_copied_into_itself() {
    let home = tempfile::tempdir().unwrap();
    write_tree(&home.path().join("src"));
    for to in ["src", "src/sub", "src/new/folder"] {
        let ran = cp(home.path(), &["src", to]);
        assert_eq!(ran.code, 2, "{to}: {}", ran.stderr);
        assert!(ran.stderr.contains("into itself"), "{}", ran.stderr);
    }
    // A list names what is in the source, without the source's name.
    fs::write(home.path().join("list"), "sub\n").unwrap();
    let ran = cp(home.path(), &["-r", "--files-from=list", "src", "src/sub/new"]);
    assert_eq!((ran.code, ran.stderr.contains("into itself")), (2, true), "{}", ran.stderr);
    assert!(!home.path().join("src/new").exists() && !home.path().join("src/sub/new").exists());
    assert_eq!(cp(home.path(), &["src", "src-copy"]).code, 0, "a name that only begins alike");
    // A backup of everything into a part of it that is left out.
    for args in [
        &["src/", "src/backup/of", "--exclude=/backup"][..],
        &["src", "src/backup/of", "--exclude=/src/backup"],
        &["src/", "src/backup/of", "--files-from=list"],
    ] {
        std::fs::write(home.path().join("list"), "zero\n").unwrap();
        let ran = cp(home.path(), args);
        assert_eq!(ran.code, 0, "{args:?}: {}", ran.stderr);
        assert!(
            home.path().join("src/backup/of").is_dir() && !home.path().join("src/backup/of/backup").exists()
        );
        std::fs::remove_dir_all(home.path().join("src/backup")).unwrap();
    }
}

#[test]
fn rules_choose() {
    let home = tempfile::tempdir().unwrap();
    write_tree(&home.path().join("src"));
    assert_eq!(
        cp(home.path(), &["src/", "dst", "--exclude=many", "--include=*/", "--include=*.bin", "--exclude=*"])
            .code,
        0
    );
    assert!(home.path().join("dst/large.bin").exists() && home.path().join("dst/sub/exact.bin").exists());
    assert!(!home.path().join("dst/zero").exists() && !home.path().join("dst/sub/many").exists());
}

/// The whole copy was refused, as if both would arrive.
#[test]
fn what_does_not_arrive_from_two_folders_is_in_neithers_way() {
    let home = tempfile::tempdir().unwrap();
    let path = |name: &str| home.path().join(name);
    for (folder, own) in [("a", "p"), ("b", "q")] {
        fs::create_dir_all(path(folder).join(".git")).unwrap();
        fs::write(path(folder).join(own), folder).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, path(folder).join("pipe"), rustix::fs::Mode::RUSR).unwrap();
    }
    let ran = cp(home.path(), &["-a", "--no-specials", "a/", "b/", "dst"]);
    assert!(ran.code == 2 && ran.stderr.contains("'.git'") && !path("dst").exists(), "{}", ran.stderr);
    for (flag, code, pipes) in [("--no-specials", 0, 0), ("-a", 7, 2)] {
        let ran = cp(home.path(), &["-a", flag, "--exclude=.git", "a/", "b/", "dst"]);
        assert_eq!((ran.code, ran.stderr.matches("FIFO").count()), (code, pipes), "{}", ran.stderr);
        let mut arrived: Vec<_> =
            fs::read_dir(path("dst")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        arrived.sort();
        assert_eq!(arrived, ["p", "q"]);
    }
}

#[test]
fn a_dry_run_counts_as_touched_what_the_run_does() {
    let home = tempfile::tempdir().unwrap();
    write_tree(&home.path().join("src"));
    assert_eq!(cp(home.path(), &["-a", "src/", "dst"]).code, 0);
    date(&home.path().join("dst/sub"), 1_000_000);
    fs::set_permissions(home.path().join("src/large.bin"), fs::Permissions::from_mode(0o600)).unwrap();
    let touched =
        |flag| cp(home.path(), &["-a", "--json", flag, "src/", "dst"]).event("done")["touched"].clone();
    assert_eq!((touched("-n"), touched("-q")), (1.into(), 1.into()));
}

#[test]
fn a_limit_holds_here_too() {
    let home = tempfile::tempdir().unwrap();
    crate::rig::write_random(&home.path().join("big"), 3_000_000, 1);
    let began = std::time::Instant::now();
    assert_eq!(cp(home.path(), &["--limit", "2MB", "big", "copy"]).code, 0);
    assert!(began.elapsed() > std::time::Duration::from_secs(1), "3 MB at 2 MB a second");
    let read = |name: &str| fs::read(home.path().join(name)).unwrap();
    assert!(read("big") == read("copy"));
}

#[test]
fn a_link_that_leads_nowhere_is_no_folder_to_copy_into() {
    let home = tempfile::tempdir().unwrap();
    write_tree(&home.path().join("src"));
    std::os::unix::fs::symlink("nowhere", home.path().join("to")).unwrap();
    let ran = cp(home.path(), &["src/", "to"]);
    assert_eq!((ran.code, ran.stderr.contains("leads nowhere")), (2, true), "{}", ran.stderr);
    assert!(!home.path().join("nowhere").exists());
}

/// A copy of nothing but the link was all that came of it, without a word.
#[test]
fn who_names_a_link_is_told_that_it_is_copied_as_one() {
    let home = tempfile::tempdir().unwrap();
    let path = |name: &str| home.path().join(name);
    write_tree(&path("src"));
    fs::write(path("file"), "x").unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, path("pipe"), rustix::fs::Mode::RUSR).unwrap();
    for (target, said) in
        [("src", "to-src/ is what is in the folder"), ("file", "own path"), ("pipe", "to a file first")]
    {
        let link = format!("to-{target}");
        std::os::unix::fs::symlink(target, path(&link)).unwrap();
        let ran = cp(home.path(), &[&link, "dst/"]);
        assert_eq!((ran.code, ran.stderr.contains(said)), (0, true), "{}", ran.stderr);
        assert!(path("dst").join(&link).is_symlink());
    }
    for unsaid in [&["-q", "to-src", "other/"][..], &["to-src/", "other/"], &["src", "other/"]] {
        let ran = cp(home.path(), unsaid);
        assert_eq!((ran.code, &*ran.stderr), (0, ""), "{unsaid:?}");
    }
}

/// scp brings what it leads to.
#[test]
fn who_names_a_link_of_another_host_is_told_that_it_is_copied_as_one() {
    let ssh = Sshd::start();
    write_tree(&ssh.path("src"));
    fs::write(ssh.path("run42.tar"), "x").unwrap();
    std::os::unix::fs::symlink("run42.tar", ssh.path("latest")).unwrap();
    std::os::unix::fs::symlink("x", ssh.path("src/another")).unwrap();
    for (from, to) in [("latest", "dst/"), ("late*", "more/"), ("latest", "renamed"), ("la*t", "renamed-too")]
    {
        let ran = ssh.run(&[&ssh.far(from), to]);
        assert_eq!((ran.code, ran.stderr.contains("latest is a link and goes as one")), (0, true), "{ran:?}");
    }
    assert!(ssh.path("renamed").is_symlink());
    for from in ["src", "src/"] {
        let ran = ssh.run(&[&ssh.far(from), "other"]);
        assert_eq!((ran.code, &*ran.stderr), (0, ""), "{from}");
    }
}

#[test]
fn a_source_that_its_own_copying_would_remove_is_refused() {
    let ssh = Sshd::start();
    for (path, text) in [("there/sub/x", "good"), ("there/sub/keep", ""), ("there/x/keep", "")] {
        fs::create_dir_all(ssh.path(path).parent().unwrap()).unwrap();
        fs::write(ssh.path(path), text).unwrap();
    }
    let ran = ssh.run(&["-a", "--delete", "--exclude", "keep", "there/sub/", "there"]);
    assert_eq!(ran.code, 2, "{}", ran.stderr);
    assert!(ran.stderr.contains("lies in a folder that is copied into"), "{}", ran.stderr);
    assert!(ssh.path("there/sub/x").exists());
    // What a rule keeps there is not removed, nor anything without --delete, or beside what is copied as a whole.
    for flags in [&["--delete", "--exclude", "/sub"][..], &[]] {
        let ran = ssh
            .run(&[&["-a"], flags, &["--exclude", "keep", "--exclude", "x", "there/sub/", "there"]].concat());
        assert_eq!((ran.code, ssh.path("there/sub/x").exists()), (0, true), "{}", ran.stderr);
    }
}

/// What an archive holds in a folder of the archive's name was lifted out of it, and what was left out of that was gone.
#[test]
fn a_source_in_the_folder_that_arrives_under_its_name_is_refused_where_that_is_swept() {
    let home = tempfile::tempdir().unwrap();
    let (to, path) = (home.path(), |path: &str| home.path().join(path));
    for file in ["foo/foo/a", "other/foo/b", "there/sub/c"] {
        fs::create_dir_all(path(file).parent().unwrap()).unwrap();
        fs::write(path(file), file).unwrap();
    }
    for sources in [
        &["--delete", "foo/foo"][..],
        &["--delete", "--existing", "foo/foo"],
        &["--delete", "foo/foo/a", "other/foo"],
        &["--delete", "foo/foo/", "other/"],
    ] {
        let ran = cp(to, &[sources, &["."]].concat());
        assert_eq!(ran.code, 2, "{sources:?}: {}", ran.stderr);
        assert!(ran.stderr.contains("where --delete removes"), "{sources:?}: {}", ran.stderr);
        assert!(path("foo/foo/a").exists(), "{sources:?}");
    }
    // What it holds goes elsewhere, stays in its place, or is left out of what is removed.
    for fine in [
        &["--delete", "foo/foo", "elsewhere"][..],
        &["--delete", "there/sub", "other/", "there"],
        &["--delete", "--exclude=/foo/foo", "foo/foo", "."],
        &["foo/foo", "."],
    ] {
        let ran = cp(to, fine);
        assert_eq!((ran.code, path("foo/foo/a").exists()), (0, true), "{fine:?}: {}", ran.stderr);
    }
    assert!(path("there/sub/c").exists());
}

/// As a file of more than four gigabytes on FAT: it ended the copy, each time anew, and nothing arrived.
#[test]
fn a_file_longer_than_the_file_system_takes_fails_alone() {
    let home = tempfile::tempdir().unwrap();
    fs::create_dir(home.path().join("src")).unwrap();
    fs::write(home.path().join("src/other"), "content").unwrap();
    let long = fs::File::create(home.path().join("src/long")).unwrap();
    long.set_len(17 << 20).unwrap();
    let mut command = std::process::Command::new("sh");
    // In units of 512 bytes. A signal that comes with it, and not with a file system's limit, ended the process.
    let limited = "ulimit -f 10240; exec \"$0\" cp src dst";
    command.current_dir(home.path()).args(["-c", limited, env!("CARGO_BIN_EXE_terahaul")]);
    let ran = Ran::of(command);
    assert_eq!(ran.code, 7, "{}", ran.stderr);
    assert_eq!(ran.stderr.matches("src/long cannot be placed there").count(), 1, "{}", ran.stderr);
    assert_eq!(fs::read_to_string(home.path().join("dst/src/other")).unwrap(), "content");
    assert_eq!(fs::read_dir(home.path().join("dst/src")).unwrap().count(), 1);
    assert_eq!(fs::read_dir(home.path().join("dst")).unwrap().count(), 1, "nothing is left of it");
}

/// As if that were what is copied, by its content, once the other source is mistyped.
#[test]
fn a_source_that_is_not_there_gives_another_ones_permissions_to_nobody() {
    let home = tempfile::tempdir().unwrap();
    let mode = |name: &str| fs::metadata(home.path().join(name)).unwrap().permissions().mode() & 0o7777;
    for (name, mode) in [("src", 0o700), ("dst", 0o755)] {
        fs::create_dir(home.path().join(name)).unwrap();
        fs::set_permissions(home.path().join(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    fs::write(home.path().join("src/file"), "").unwrap();
    let ran = cp(home.path(), &["-a", "notse.txt", "src/", "dst"]);
    assert_eq!((ran.code, mode("dst")), (7, 0o755), "{}", ran.stderr);
    assert!(home.path().join("dst/file").exists());
    assert_eq!(cp(home.path(), &["-a", "src/", "dst"]).code, 0);
    assert_eq!(mode("dst"), 0o700, "of the only source");
}

/// It counted as one that had vanished: an empty folder was made for it, or, with `--ignore-errors`, everything removed.
#[test]
fn a_working_folder_that_was_removed_is_no_source() {
    let home = tempfile::tempdir().unwrap();
    let path = |name: &str| home.path().join(name);
    fs::create_dir_all(path("dst")).unwrap();
    fs::write(path("dst/kept"), "content").unwrap();
    let removed = |args: &str| {
        fs::create_dir_all(path("gone/folder")).unwrap();
        let mut command = std::process::Command::new("sh");
        let within = format!("cd gone/folder && rm -r ../../gone && exec \"$0\" cp {args}");
        command.current_dir(home.path()).args(["-c", &within, env!("CARGO_BIN_EXE_terahaul")]);
        Ran::of(command)
    };
    let to = |name: &str| path(name).display().to_string();
    for source in [".", "./", "file"] {
        let ran = removed(&format!("{source} {}", to("made")));
        assert_eq!(ran.code, 5, "{source}: {}", ran.stderr);
        assert!(
            ran.stderr.contains(&format!("{source} does not exist: check the spelling")),
            "{}",
            ran.stderr
        );
        assert!(!path("made").exists(), "{source}");
    }
    let ran = removed(&format!("--delete --ignore-errors . {}", to("dst")));
    assert_eq!((ran.code, path("dst/kept").exists()), (5, true), "{}", ran.stderr);
}

/// It panicked, or hung, or called the destination a folder that cannot be opened.
#[test]
fn a_machine_that_gives_no_threads_is_named_and_how_to_have_more() {
    let home = tempfile::tempdir().unwrap();
    fs::set_permissions(home.path(), fs::Permissions::from_mode(0o777)).unwrap();
    fs::create_dir(home.path().join("src")).unwrap();
    fs::write(home.path().join("src/file"), "content").unwrap();
    // Nobody else is this user, of whom the system counts the threads. It counts none of root's.
    let as_nobody_else = ["setpriv", "--reuid=61234", "--clear-groups", "prlimit"];
    let is_root = rustix::process::geteuid().is_root();
    // Whoever is not root has processes besides this one, and can have no more.
    let limits = if is_root { 1..=12 } else { 1..=1 };
    for threads in limits {
        let through: Vec<_> =
            as_nobody_else.into_iter().skip(if is_root { 0 } else { 3 }).map(str::to_owned).collect();
        let through = [through, vec![format!("--nproc={threads}")]].concat();
        let mut command = crate::rig::terahaul_through(home.path(), &through);
        command.args(["cp", "src", "dst"]);
        let ran = Ran::of(command);
        if threads < 4 {
            assert_eq!(ran.code, 1, "{threads}: {}", ran.stderr);
        }
        let is_said =
            ran.stderr.contains("a thread could not be started") && ran.stderr.contains("ulimit -u");
        assert!(ran.code == 0 || is_said, "{threads}: {}: {}", ran.code, ran.stderr);
        assert!(!ran.stderr.contains("panicked"), "{threads}: {}", ran.stderr);
    }
}

/// A disk was to be checked, and permissions.
#[test]
fn who_has_too_many_files_open_is_told_so_and_that_nothing_is_wrong_with_a_disk() {
    let home = tempfile::tempdir().unwrap();
    fs::create_dir_all(home.path().join("src/folder")).unwrap();
    (0..50).for_each(|at| fs::write(home.path().join(format!("src/folder/{at}")), "content").unwrap());
    let mut short = 0;
    for files in 8..32 {
        let through = ["prlimit".to_owned(), format!("--nofile={files}")];
        let mut command = crate::rig::terahaul_through(home.path(), &through);
        command.args(["cp", "src", &format!("dst-{files}")]);
        let ran = Ran::of(command);
        if ran.code != 0 {
            assert!(ran.stderr.contains("ulimit -n"), "{files}: {}", ran.stderr);
            assert!(ran.code != 1 || !ran.stderr.contains("check"), "{files}: {}", ran.stderr);
            short += 1;
        }
    }
    assert!(short > 0);
}
