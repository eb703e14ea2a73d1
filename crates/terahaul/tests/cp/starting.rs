//! What can go wrong before anything is copied.

use std::fs;

use crate::rig::Ran;
use crate::sshd::Sshd;

fn run_with(ssh: &Sshd, far_command: &str) -> Ran {
    fs::write(ssh.path("a"), "aa").unwrap();
    Ran::of(ssh.bare(&["--far-command", far_command, "a", &ssh.far("b")]))
}

#[test]
fn a_host_without_terahaul_is_said_so_with_the_remedy() {
    let ssh = Sshd::start();
    fs::write(ssh.path("a"), "aa").unwrap();
    let ran = Ran::of(ssh.bare(&["a", &ssh.far("b")]));
    assert_eq!(ran.code, 3, "{}", ran.stderr);
    assert!(ran.stderr.contains("has no 'terahaul'") && ran.stderr.contains("--install"), "{}", ran.stderr);
}

#[test]
fn something_else_that_answers_is_named_as_such() {
    let ssh = Sshd::start();
    for text in ["exit 3", "head -c 200000 /dev/zero; sleep 1", "echo hello"] {
        let ran = run_with(&ssh, &ssh.script("script", text));
        assert_eq!(ran.code, 3, "{text}: {}", ran.stderr);
        assert!(ran.stderr.contains("not 'terahaul far'"), "{text}: {}", ran.stderr);
    }
}

#[test]
fn what_an_account_that_may_run_nothing_says_is_in_the_message() {
    let ssh = Sshd::start();
    let ran = run_with(&ssh, &ssh.script("script", "echo; echo 'This account is not available.'; exit 1"));
    assert_eq!(ran.code, 3, "{}", ran.stderr);
    let said = "(it ended with exit code 1, and said 'This account is not available.')";
    assert!(ran.stderr.contains(said), "{}", ran.stderr);
}

#[test]
fn a_shell_that_greets_disturbs_nothing() {
    let ssh = Sshd::start();
    let program = env!("CARGO_BIN_EXE_terahaul");
    let ran =
        run_with(&ssh, &ssh.script("script", &format!("echo 'Welcome to this host!'; exec {program} far #")));
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

#[test]
fn a_list_that_is_longer_than_the_other_host_takes_is_said_so_with_the_remedy() {
    let ssh = Sshd::start();
    fs::create_dir(ssh.path("src")).unwrap();
    let names: String = (0..350_000).map(|number| format!("{number:0200}\n")).collect();
    fs::write(ssh.path("list"), names).unwrap();
    for (from, to) in [("src/".to_owned(), ssh.far("there")), (ssh.far("src/"), "here".into())] {
        let ran = ssh.run(&["--files-from", "list", &from, &to]);
        assert_eq!(ran.code, 2, "{}", ran.stderr);
        assert!(ran.stderr.contains("split the list"), "{}", ran.stderr);
    }
}

#[test]
fn a_long_list_of_paths_is_copied() {
    let ssh = Sshd::start();
    // Most of it is one name, spelled out at length: 10 MB.
    let path = vec!["a".repeat(100); 30].join("/");
    fs::create_dir_all(ssh.path("src").join(&path)).unwrap();
    fs::write(ssh.path("src").join(&path).join("file"), "here").unwrap();
    fs::write(ssh.path("list"), format!("{path}/file\n").repeat(3500)).unwrap();
    for (from, to, arrived) in
        [("src/".to_owned(), ssh.far("there"), "there"), (ssh.far("src/"), "here".into(), "here")]
    {
        let ran = ssh.run(&["--files-from", "list", &from, &to]);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        assert_eq!(fs::read_to_string(ssh.path(arrived).join(&path).join("file")).unwrap(), "here");
    }
}

#[test]
fn a_far_side_of_another_version_is_the_other_hosts_fault() {
    let ssh = Sshd::start();
    // As one answers that knows no version of this one's.
    let refusal = "\\0terahaul copy\\n\\0\\015\\0\\0\\0\\202\\001\\201\\202\\002gupgrade";
    let ran = run_with(&ssh, &ssh.script("script", &format!("printf '{refusal}'; sleep 1")));
    assert_eq!(ran.code, 3, "{}", ran.stderr);
    assert!(ran.stderr.contains("upgrade"), "{}", ran.stderr);
}
