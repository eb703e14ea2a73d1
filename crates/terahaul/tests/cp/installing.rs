//! `--install`, and far sides of other versions.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::rig::{Depot, Ran, assert_same, write_tree};
use crate::sshd::Sshd;

#[test]
fn the_program_is_installed_where_it_is_missing_and_found_there_the_next_time() {
    let ssh = Sshd::start();
    fs::write(ssh.path("a"), "aa").unwrap();
    let ran = Ran::of(ssh.bare(&["--install", "a", &ssh.far("b")]));
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(ran.stderr.contains("copied to ~/.local/bin on far"), "{}", ran.stderr);
    assert_eq!(fs::read_to_string(ssh.path("b")).unwrap(), "aa");
    let installed = fs::metadata(ssh.path("far-home/.local/bin/terahaul")).unwrap();
    assert_eq!(installed.permissions().mode() & 0o777, 0o755);
    let ran = Ran::of(ssh.bare(&["a", &ssh.far("c")]));
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(fs::read_to_string(ssh.path("c")).unwrap(), "aa");
}

/// One that was there before copies were takes `far` for a mistake.
#[test]
fn a_program_that_is_too_old_to_answer_is_replaced_and_without_the_flag_it_is_said_that_it_can_be() {
    let ssh = Sshd::start();
    let bin = ssh.path("far-home/.local/bin");
    fs::create_dir_all(&bin).unwrap();
    let old = "echo \"error: unrecognized subcommand '$1'\" >&2; exit 2";
    ssh.script("far-home/.local/bin/terahaul", old);
    fs::write(ssh.path("a"), "aa").unwrap();
    let ran = Ran::of(ssh.bare(&["a", &ssh.far("b")]));
    assert_eq!(ran.code, 3, "{}", ran.stderr);
    assert!(ran.stderr.contains("--install"), "{}", ran.stderr);
    let ran = Ran::of(ssh.bare(&["--install", "a", &ssh.far("b")]));
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(fs::read_to_string(ssh.path("b")).unwrap(), "aa");
    assert_eq!(fs::read_dir(&bin).unwrap().count(), 1);
}

/// ssh tells no end by a signal from a failure of its own, and so it was said not to reach the host.
#[test]
fn a_program_that_dies_at_once_is_replaced_and_without_the_flag_it_is_said_that_it_can_be() {
    let ssh = Sshd::start();
    fs::create_dir_all(ssh.path("far-home/.local/bin")).unwrap();
    ssh.script("far-home/.local/bin/terahaul", "kill -SEGV $$");
    fs::write(ssh.path("a"), "aa").unwrap();
    let ran = Ran::of(ssh.bare(&["a", &ssh.far("b")]));
    assert_eq!(ran.code, 3, "{}", ran.stderr);
    assert!(ran.stderr.contains("ended by a signal") && ran.stderr.contains("--install"), "{}", ran.stderr);
    let ran = Ran::of(ssh.bare(&["--install", "a", &ssh.far("b")]));
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(fs::read_to_string(ssh.path("b")).unwrap(), "aa");
}

#[test]
fn of_a_named_program_that_dies_at_once_it_is_not_said_that_it_can_be_replaced() {
    let ssh = Sshd::start();
    let named = ssh.script("named", "kill -SEGV $$");
    fs::write(ssh.path("a"), "aa").unwrap();
    let ran = Ran::of(ssh.bare(&["--far-command", &named, "a", &ssh.far("b")]));
    assert_eq!((ran.code, ran.stderr.contains("--install")), (3, false), "{}", ran.stderr);
    assert!(ran.stderr.contains("ended by a signal"), "{}", ran.stderr);
}

/// As where the system has no more memory: the ssh connection was said to have ended, which nothing was wrong with.
#[test]
fn a_far_side_that_is_killed_is_named_and_not_ssh() {
    let ssh = Sshd::start();
    crate::rig::write_random(&ssh.path("a"), 60 << 20, 1);
    let program = env!("CARGO_BIN_EXE_terahaul");
    // A shell is left over, whose exit code says how it ended.
    let killed = ssh.script("killed", &format!("timeout -s KILL 4 {program} \"$@\"\nexit $?"));
    let ran = Ran::of(ssh.bare(&["--far-command", &killed, "--limit", "2MB", "a", &ssh.far("b")]));
    assert_eq!(ran.code, 3, "{}", ran.stderr);
    assert!(ran.stderr.contains("'terahaul' ended on far") && ran.stderr.contains("137"), "{}", ran.stderr);
}

#[test]
fn an_ssh_that_is_killed_is_not_taken_for_the_far_side() {
    let ssh = Sshd::start();
    crate::rig::write_random(&ssh.path("a"), 60 << 20, 1);
    // What runs in the place of ssh, and on the other host.
    let far = format!("{} far", env!("CARGO_BIN_EXE_terahaul"));
    let rsh = ssh.script("killed", &format!("timeout 4 sh -c 'exec {far}'\nkill -KILL $$"));
    let ran = Ran::of(ssh.bare_without_settings(&["-e", &rsh, "--limit", "2MB", "a", &ssh.far("b")]));
    assert_eq!(ran.code, 3, "{}", ran.stderr);
    assert!(ran.stderr.contains("the ssh connection to far ended (signal: 9"), "{}", ran.stderr);
}

#[test]
fn of_a_named_program_that_is_not_there_it_is_said_that_the_name_is_wrong() {
    let ssh = Sshd::start();
    fs::write(ssh.path("a"), "aa").unwrap();
    let ran = Ran::of(ssh.bare(&["--far-command", "/no/such", "a", &ssh.far("b")]));
    assert_eq!((ran.code, ran.stderr.contains("--install")), (3, false), "{}", ran.stderr);
    assert!(ran.stderr.contains("no program '/no/such'"), "{}", ran.stderr);
}

/// A jail had none, and what was installed in it was said to be missing.
#[test]
fn the_program_is_found_where_there_is_no_null_device() {
    let ssh = Sshd::start();
    fs::create_dir_all(ssh.path("far-home/.local/bin")).unwrap();
    let program = env!("CARGO_BIN_EXE_terahaul");
    std::os::unix::fs::symlink(program, ssh.path("far-home/.local/bin/terahaul")).unwrap();
    fs::write(ssh.path("a"), "aa").unwrap();
    // As ssh does, but for the device.
    let run = "for command; do :; done; exec unshare -m sh -c 'mount -t tmpfs none /dev && exec sh -c \"$0\"' \"$command\"";
    let home = format!("export HOME={}; {run}", ssh.path("far-home").display());
    let rsh = ssh.script("jail", &home);
    if !std::process::Command::new("unshare").args(["-m", "true"]).status().is_ok_and(|ran| ran.success()) {
        return;
    }
    let ran = Ran::of(ssh.bare_without_settings(&["-e", &rsh, "a", &ssh.far("b")]));
    assert_eq!(ran.code, 0, "{}", ran.stderr);
}

#[test]
fn nothing_is_said_to_be_installed_where_ssh_is_at_fault() {
    let ssh = Sshd::start();
    fs::write(ssh.path("a"), "aa").unwrap();
    let rsh = ssh.script("no-ssh", &format!("echo asked >> {}; exit 255", ssh.path("asked").display()));
    let ran = Ran::of(ssh.bare_without_settings(&["-e", &rsh, "--install", "a", &ssh.far("b")]));
    assert_eq!((ran.code, ran.stderr.lines().count()), (3, 1), "{}", ran.stderr);
    assert!(ran.stderr.contains("ssh did not reach far (exit code 255)"), "{}", ran.stderr);
    assert_eq!(fs::read_to_string(ssh.path("asked")).unwrap().lines().count(), 2, "once more");
}

/// As when a password was mistyped, or a connection dropped: an older program took the place of a newer one.
#[test]
fn a_program_that_is_there_is_not_replaced_where_ssh_has_failed_only_once() {
    let ssh = Sshd::start();
    fs::create_dir_all(ssh.path("far-home/.local/bin")).unwrap();
    let there = format!("exec {} \"$@\"", env!("CARGO_BIN_EXE_terahaul"));
    let there = ssh.script("far-home/.local/bin/terahaul", &there);
    let before = fs::read(&there).unwrap();
    fs::write(ssh.path("a"), "aa").unwrap();
    let failed = ssh.path("failed").display().to_string();
    let flaky = format!("test -e {failed} || {{ : > {failed}; exit 255; }}; shift; exec sh -c \"$*\"");
    let rsh = format!("env HOME={} {}", ssh.path("far-home").display(), ssh.script("flaky", &flaky));
    let ran = Ran::of(ssh.bare_without_settings(&["-e", &rsh, "--install", "a", &ssh.far("b")]));
    assert_eq!((ran.code, ran.stderr.contains("copied to")), (0, false), "{}", ran.stderr);
    assert_eq!(fs::read_to_string(ssh.path("b")).unwrap(), "aa");
    assert!(fs::read(&there).unwrap() == before, "it was replaced");
}

/// Nobody listened to all of it, ssh failed for that, and was said not to reach the host.
#[test]
fn start_up_files_that_say_too_much_are_named_and_not_ssh() {
    let ssh = Sshd::start();
    fs::write(ssh.path("a"), "aa").unwrap();
    for most in ["70000", "3000000"] {
        // As ssh has it where it cannot write what the other host says.
        let prints = format!("head -c {most} /dev/zero | tr '\\0' x || exit 255; shift; exec sh -c \"$*\"");
        let shell = ssh.script("shell", &prints);
        let rsh = format!("env HOME={} {}", ssh.path("far-home").display(), shell);
        let ran = Ran::of(ssh.bare_without_settings(&["-e", &rsh, "--install", "a", &ssh.far("b")]));
        assert_eq!(ran.code, 3, "{}", ran.stderr);
        assert!(ran.stderr.contains("and said 'xxx"), "{}", ran.stderr);
    }
}

/// It was advised to install it by hand.
#[test]
fn an_ssh_that_ends_during_an_installation_is_named() {
    let ssh = Sshd::start();
    fs::write(ssh.path("a"), "aa").unwrap();
    let killed = "case \"$*\" in *wc*) kill -KILL $$;; esac; shift; exec sh -c \"$*\"";
    let rsh = format!("env HOME={} {}", ssh.path("far-home").display(), ssh.script("killed", killed));
    let ran = Ran::of(ssh.bare_without_settings(&["-e", &rsh, "--install", "a", &ssh.far("b")]));
    assert_eq!(ran.code, 3, "{}", ran.stderr);
    let said = ["ssh connection to far ended", "run the same command again"];
    assert!(said.iter().all(|said| ran.stderr.contains(said)), "{}", ran.stderr);
}

#[test]
fn a_shell_that_a_signal_ends_during_an_installation_leaves_nothing_behind() {
    let ssh = Sshd::start();
    fs::write(ssh.path("a"), "aa").unwrap();
    let ended = "shift; case \"$*\" in *wc*) ;; *) exec sh -c \"$*\";; esac; exec 3<&0
eval \"exec $*\" <&3 & until test -e ~/.local/bin/.terahaul.$!; do :; done; kill -TERM $!; pkill -P $!; wait $!";
    let rsh = format!("env HOME={} {}", ssh.path("far-home").display(), ssh.script("ended", ended));
    let ran = Ran::of(ssh.bare_without_settings(&["-e", &rsh, "--install", "a", &ssh.far("b")]));
    assert!(ran.code == 3 && ran.stderr.contains("run the same command again"), "{}", ran.stderr);
    assert_eq!(fs::read_dir(ssh.path("far-home/.local/bin")).unwrap().count(), 0);
}

#[test]
fn a_start_up_file_that_says_much_does_not_keep_the_program_from_being_installed() {
    let ssh = Sshd::start();
    let shell = ssh.script("shell", "head -c 30000 /dev/zero | tr '\\0' x; echo; shift; exec sh -c \"$*\"");
    fs::write(ssh.path("a"), "aa").unwrap();
    let rsh = format!("env HOME={} {}", ssh.path("far-home").display(), shell);
    let ran = Ran::of(ssh.bare_without_settings(&["-e", &rsh, "--install", "a", &ssh.far("b")]));
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(fs::read_to_string(ssh.path("b")).unwrap(), "aa");
}

#[test]
fn a_home_from_which_nothing_may_be_run_is_said_so_and_is_left_as_it_was() {
    let ssh = Sshd::start();
    let home = ssh.path("far-home");
    let probe =
        std::process::Command::new("mount").args(["-t", "tmpfs", "-o", "noexec", "none"]).arg(&home).output();
    if !probe.is_ok_and(|ran| ran.status.success()) {
        eprintln!("SKIPPED: mounting a file system needs root");
        return;
    }
    fs::write(ssh.path("a"), "aa").unwrap();
    let ran = Ran::of(ssh.bare(&["--install", "a", &ssh.far("b")]));
    let left = fs::read_dir(home.join(".local/bin")).unwrap().count();
    let _ = std::process::Command::new("umount").arg("-l").arg(&home).status();
    assert_eq!((ran.code, left), (3, 0), "{}", ran.stderr);
    assert!(ran.stderr.contains("noexec"), "{}", ran.stderr);
}

#[test]
fn nothing_is_installed_on_a_host_of_another_kind() {
    let ssh = Sshd::start();
    fs::create_dir_all(ssh.path("far-home/bin")).unwrap();
    ssh.script("far-home/bin/uname", "echo Linux riscv64");
    let ssh_shell = ssh.script("shell", "shift; export PATH=$HOME/bin:$PATH; exec sh -c \"$@\"");
    fs::write(ssh.path("a"), "aa").unwrap();
    // A program in ssh's place that runs the command here, with another `uname`.
    let rsh = format!("env HOME={} {}", ssh.path("far-home").display(), ssh_shell);
    let ran = Ran::of(ssh.bare_without_settings(&["-e", &rsh, "--install", "a", &ssh.far("b")]));
    assert_eq!(ran.code, 3, "{}", ran.stderr);
    assert!(ran.stderr.contains("Linux riscv64"), "{}", ran.stderr);
    assert!(!ssh.path("far-home/.local").exists());
}

#[test]
fn a_depot_may_be_named_on_either_side() {
    let depot = Depot::start();
    write_tree(&depot.path("src"));
    let mut send = depot.command(&["cp", "src", &depot.url]);
    send.env("TERAHAUL_TOKEN", &depot.token);
    let sent = Ran::of(send);
    assert_eq!(sent.code, 0, "{}", sent.stderr);
    let received = depot.run(&["cp", sent.last_line(), "dst"]);
    assert_eq!(received.code, 0, "{}", received.stderr);
    assert_same(&depot.path("src"), &depot.path("dst/src"));
}

/// It was moved into the folder, again with each run, and called installed.
#[test]
fn a_folder_in_the_place_of_the_program_is_said_so_and_is_left_as_it_was() {
    let ssh = Sshd::start();
    fs::create_dir_all(ssh.path("far-home/.local/bin/terahaul")).unwrap();
    fs::write(ssh.path("a"), "aa").unwrap();
    let ran = Ran::of(ssh.bare(&["--install", "a", &ssh.far("b")]));
    assert_eq!((ran.code, ran.stderr.contains("terahaul is a folder")), (3, true), "{}", ran.stderr);
    let left = |path: &str| fs::read_dir(ssh.path(path)).unwrap().count();
    assert_eq!((left("far-home/.local/bin"), left("far-home/.local/bin/terahaul")), (1, 0));
}
