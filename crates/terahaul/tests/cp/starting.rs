//! What can go wrong before anything is copied.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::rig::Ran;
use crate::sshd::Sshd;

/// A program for the other host that is a shell script.
fn script(ssh: &Sshd, text: &str) -> String {
    let path = ssh.path("script");
    fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path.display().to_string()
}

fn run_with(ssh: &Sshd, far_command: &str) -> Ran {
    fs::write(ssh.path("a"), "aa").unwrap();
    Ran::of(ssh.bare(&["--far-command", far_command, "a", &ssh.far("b")]))
}

#[test]
fn a_host_without_terahaul_is_said_so_with_the_remedy() {
    let ssh = Sshd::start();
    let ran = run_with(&ssh, "/nowhere/terahaul");
    assert_eq!(ran.code, 3, "{}", ran.stderr);
    assert!(ran.stderr.contains("has no 'terahaul'") && ran.stderr.contains("--install"), "{}", ran.stderr);
}

#[test]
fn something_else_that_answers_is_named_as_such() {
    let ssh = Sshd::start();
    for text in ["exit 3", "head -c 200000 /dev/zero; sleep 1", "echo hello"] {
        let ran = run_with(&ssh, &script(&ssh, text));
        assert_eq!(ran.code, 3, "{text}: {}", ran.stderr);
        assert!(ran.stderr.contains("not 'terahaul far'"), "{text}: {}", ran.stderr);
    }
}

#[test]
fn a_shell_that_greets_disturbs_nothing() {
    let ssh = Sshd::start();
    let program = env!("CARGO_BIN_EXE_terahaul");
    let ran = run_with(&ssh, &script(&ssh, &format!("echo 'Welcome to this host!'; exec {program} far #")));
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(fs::read_to_string(ssh.path("b")).unwrap(), "aa");
}

#[test]
fn a_host_that_ssh_does_not_reach_is_a_sentence() {
    let ssh = Sshd::start();
    fs::write(ssh.path("a"), "aa").unwrap();
    let ran = Ran::of(ssh.bare(&["-P", "1", "a", "far:b"]));
    assert_eq!(ran.code, 3, "{}", ran.stderr);
    assert!(ran.stderr.contains("ssh did not reach far"), "{}", ran.stderr);
    let ran = Ran::of(ssh.bare(&["-e", "/nowhere/ssh", "a", "far:b"]));
    assert_eq!(ran.code, 3, "{}", ran.stderr);
    assert!(ran.stderr.contains("could not be started"), "{}", ran.stderr);
}

#[test]
fn sources_that_are_not_there_are_named_at_either_end() {
    let ssh = Sshd::start();
    for args in [["none".to_owned(), ssh.far("b")], [ssh.far("none"), "b".to_owned()]] {
        let ran = ssh.run(&[&args[0], &args[1]]);
        assert_eq!(ran.code, 5, "{}", ran.stderr);
        assert!(ran.stderr.contains("none does not exist"), "{}", ran.stderr);
    }
    assert!(!ssh.path("b").exists());
}
