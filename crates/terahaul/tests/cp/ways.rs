//! There and back, straight and through ssh.

use std::fs;
use std::net::TcpListener;

use crate::rig::{Ran, assert_same, write_tree};
use crate::sshd::{Sshd, staging_folders};
use crate::udp::three_ports;

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
fn what_is_compressed_on_the_way_is_fewer_bytes_there_and_back() {
    let ssh = Sshd::start();
    let text = "one of many lines that are alike\n".repeat(200_000);
    fs::write(ssh.path("log"), &text).unwrap();
    let far = ssh.far("there/");
    for (args, copy) in [(["log", &*far], "there/log"), ([&*ssh.far("there/log"), "back/"], "back/log")] {
        let done = ssh.copy(&[&["-z1"], &args[..]].concat());
        assert!(done["moved_bytes"].as_u64().unwrap() < text.len() as u64 / 4, "{done}");
        assert!(fs::read(ssh.path(copy)).unwrap() == text.as_bytes());
    }
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
        let listed: Vec<_> = ran.events_named("item").iter().map(|item| item["path"].clone()).collect();
        assert!(
            listed.contains(&"src/new".into()) && !listed.contains(&"src/large.bin".into()),
            "{listed:?}"
        );
    }
    fs::write(ssh.path("there/src/newer"), "1234567").unwrap();
    let ran = ssh.run(&["-n", "--json", &ssh.far("there/src/"), "src"]);
    let listed: Vec<_> = ran.events_named("item").iter().map(|item| item["path"].clone()).collect();
    assert_eq!(listed, ["newer", "."], "and the destination gets the source's time");
    assert!(!ssh.path("there/src/new").exists() && !ssh.path("src/newer").exists());
    assert_eq!(staging_folders(&ssh.path("there")) + staging_folders(&ssh.path("src")), 0);
}

/// A program in ssh's place that runs the far side here, in a network of its own, as if ssh had reached it at an address
/// that this side cannot connect to. What runs that is `through`.
fn behind_a_firewall(ssh: &Sshd, through: &str) -> String {
    let script = format!(
        "export SSH_CONNECTION='127.0.0.1 1 127.0.0.2 22'\nshift\nexec unshare -n sh -c \"ip link set lo up; exec {through} $*\""
    );
    ssh.script("rsh", &script)
}

#[test]
fn a_port_that_is_blocked_is_gone_round_and_named() {
    let ssh = Sshd::start();
    write_tree(&ssh.path("src"));
    let rsh = behind_a_firewall(&ssh, "");
    let program = env!("CARGO_BIN_EXE_terahaul");
    let cp = |args: &[&str]| {
        Ran::of(
            ssh.bare_without_settings(&[&["-e", &rsh, "--far-command", program, "--json"], args].concat()),
        )
    };
    for (from, to, arrived) in
        [("src", ssh.far("there"), "there/src"), (&*ssh.far("there/src"), "back".into(), "back/src")]
    {
        let ran = cp(&[from, &to]);
        assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
        assert_eq!(ran.event("done")["way"], "ssh");
        let notices = ran.events_named("notice");
        assert!(
            notices.iter().any(|notice| notice["message"].as_str().unwrap().contains("is blocked")),
            "{notices:?}"
        );
        assert_same(&ssh.path("src"), &ssh.path(arrived));
    }
    // Datagrams have no other way.
    let ran = cp(&["--transport", "udp", "src", &ssh.far("nowhere")]);
    let error = ran.event("error");
    assert_eq!((ran.code, &error["code"]), (3, &"unreachable".into()), "{error}");
    assert!(error["message"].as_str().unwrap().contains("no port that can be reached"), "{error}");
}

#[test]
fn ports_that_are_only_roots_are_passed_over() {
    let ssh = Sshd::start();
    fs::write(ssh.path("a"), "aa").unwrap();
    let rsh = behind_a_firewall(&ssh, "setpriv --bounding-set=-net_bind_service --inh-caps=-all --");
    let program = env!("CARGO_BIN_EXE_terahaul");
    let far = ssh.far("b");
    let args = ["-e", &rsh, "--far-command", program, "--json", "--ports", "1020-1030", "a", &far];
    let ran = Ran::of(ssh.bare_without_settings(&args));
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
    let notice = ran.event("notice");
    assert!(
        notice["message"].as_str().unwrap().starts_with("port 1024 of the other host is blocked"),
        "{notice}"
    );
}

#[test]
fn the_far_side_listens_within_the_range_that_it_is_given() {
    let ssh = Sshd::start();
    fs::write(ssh.path("a"), "aa").unwrap();
    let (first, taken) = three_ports(|port| TcpListener::bind(("127.0.0.1", port)).ok());
    let done = ssh.copy(&["--ports", &format!("{first}-{}", first + 2), "a", &ssh.far("b")]);
    assert_eq!(done["way"], "direct");
    let ran = ssh.run(&["--json", "--ports", &format!("{first}-{first}"), "a", &ssh.far("c")]);
    assert_eq!(ran.event("done")["way"], "ssh");
    assert!(ran.event("notice")["message"].as_str().unwrap().contains("no free port"), "{}", ran.stdout);
    drop(taken);
}
