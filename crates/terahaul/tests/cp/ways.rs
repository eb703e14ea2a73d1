//! There and back, straight and through ssh.

use std::fs;

use crate::rig::{assert_same, write_tree};
use crate::sshd::{Sshd, staging_folders};

#[test]
fn a_folder_goes_there_and_comes_back_as_it_was() {
    let ssh = Sshd::start();
    write_tree(&ssh.path("src"));
    let done = ssh.copy(&["src", &ssh.far("there")]);
    assert_eq!(done["way"], "direct");
    assert_same(&ssh.path("src"), &ssh.path("there/src"));
    let done = ssh.copy(&[&ssh.far("there/src"), "back"]);
    assert_eq!(done["way"], "direct");
    assert_same(&ssh.path("src"), &ssh.path("back/src"));
    for folder in ["there", "back"] {
        assert_eq!(staging_folders(&ssh.path(folder)), 0, "nothing is left behind");
    }
}

#[test]
fn everything_goes_through_ssh_where_it_is_asked_to() {
    let ssh = Sshd::start();
    write_tree(&ssh.path("src"));
    let done = ssh.copy(&["--through-ssh", "src/", &ssh.far("there")]);
    assert_eq!(done["way"], "ssh");
    assert_same(&ssh.path("src"), &ssh.path("there"));
    let done = ssh.copy(&["--through-ssh", &ssh.far("there/"), "back/"]);
    assert_eq!(done["way"], "ssh");
    assert_same(&ssh.path("src"), &ssh.path("back"));
}

#[test]
fn a_second_run_moves_nothing_and_a_changed_file_alone_is_moved() {
    let ssh = Sshd::start();
    write_tree(&ssh.path("src"));
    ssh.copy(&["src", &ssh.far("there")]);
    let done = ssh.copy(&["src", &ssh.far("there")]);
    assert_eq!((&done["moved_bytes"], &done["files"]), (&0.into(), &0.into()), "{done}");
    fs::write(ssh.path("src/sub/many/7.bin"), "changed").unwrap();
    for (from, to) in [("src", ssh.far("there")), (&*ssh.far("there/src"), "back".to_owned())] {
        ssh.copy(&[from, &to]);
    }
    fs::write(ssh.path("src/sub/many/8.bin"), "changed, too").unwrap();
    let done = ssh.copy(&["src", &ssh.far("there")]);
    assert_eq!((&done["moved_bytes"], &done["files"]), (&12.into(), &1.into()), "{done}");
    let done = ssh.copy(&[&ssh.far("there/src"), "back"]);
    assert_eq!((&done["moved_bytes"], &done["files"]), (&12.into(), &1.into()), "{done}");
    assert_same(&ssh.path("src"), &ssh.path("back/src"));
}

#[test]
fn a_dry_run_lists_what_would_be_copied_and_writes_nothing() {
    let ssh = Sshd::start();
    write_tree(&ssh.path("src"));
    ssh.copy(&["src", &ssh.far("there")]);
    fs::write(ssh.path("src/new"), "12345").unwrap();
    for args in
        [["src".to_owned(), ssh.far("there")], ["src".to_owned(), ssh.path("there").display().to_string()]]
    {
        let ran = ssh.run(&["-n", "--json", &args[0], &args[1]]);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        let listed: Vec<_> = ran.events_named("entry").iter().map(|entry| entry["path"].clone()).collect();
        assert!(
            listed.contains(&"src/new".into()) && !listed.contains(&"src/large.bin".into()),
            "{listed:?}"
        );
    }
    fs::write(ssh.path("there/src/newer"), "1234567").unwrap();
    let ran = ssh.run(&["-n", "--json", &ssh.far("there/src/"), "src"]);
    let listed: Vec<_> = ran.events_named("entry").iter().map(|entry| entry["path"].clone()).collect();
    assert_eq!(listed, ["newer"]);
    assert!(!ssh.path("there/src/new").exists() && !ssh.path("src/newer").exists());
    assert_eq!(staging_folders(&ssh.path("there")) + staging_folders(&ssh.path("src")), 0);
}

#[test]
fn a_port_that_is_blocked_is_gone_round_and_named() {
    // An address that nobody here has: the far side cannot listen on it, and a path to it leads nowhere.
    let ssh = Sshd::start_with("SetEnv SSH_CONNECTION=blocked");
    write_tree(&ssh.path("src"));
    let done = ssh.copy(&["src", &ssh.far("there")]);
    assert!(matches!(done["way"].as_str(), Some("ssh" | "direct")), "{done}");
    assert_same(&ssh.path("src"), &ssh.path("there/src"));
}
