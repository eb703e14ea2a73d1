//! Names that a shell would take apart, and where things arrive.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;

use crate::rig::{Ran, assert_same, write_random};
use crate::sshd::Sshd;

const AWKWARD: [&str; 7] =
    ["a b", "it's", "\"quoted\"", "$(touch pwned)", "line\nfeed", "ünïcode", "-rf; touch pwned #"];

#[test]
fn no_shell_reads_a_name() {
    let ssh = Sshd::start();
    for name in AWKWARD {
        let folder = ssh.path("src").join(name);
        write_random(&folder.join(name), 5000, 1);
        let far = format!("{}/{name}", ssh.far("there"));
        ssh.copy(&[&format!("src/{name}"), &far]);
        assert_same(&folder, &ssh.path("there").join(name).join(name));
        ssh.copy(&[&format!("{far}/{name}"), &format!("back/{name}")]);
        assert_same(&folder, &ssh.path("back").join(name).join(name));
    }
    let pwned = fs::read_dir(ssh.path("far-home")).unwrap().count();
    assert_eq!(pwned, 0);
    assert!(!ssh.path("pwned").exists());
}

#[test]
fn names_that_are_not_utf_8_arrive_byte_for_byte() {
    let ssh = Sshd::start();
    let name = OsStr::from_bytes(b"x\xff\xfe.bin");
    fs::create_dir(ssh.path("src")).unwrap();
    fs::write(ssh.path("src").join(name), "12345").unwrap();
    let mut command = ssh.bare_without_settings(&["--far-command", env!("CARGO_BIN_EXE_terahaul"), "-F"]);
    command.arg(ssh.path("ssh_config")).arg("--json");
    command.arg(OsStr::from_bytes(&[b"src/".as_slice(), name.as_bytes()].concat())).arg(ssh.far("there/"));
    assert_eq!(Ran::of(command).code, 0);
    assert_eq!(fs::read(ssh.path("there").join(name)).unwrap(), b"12345");
}

#[test]
fn the_only_file_may_be_given_a_new_name_and_several_go_into_a_folder() {
    let ssh = Sshd::start();
    for (name, text) in [("a", "aa"), ("b", "bbb")] {
        fs::write(ssh.path(name), text).unwrap();
    }
    ssh.copy(&["a", &ssh.far("renamed")]);
    assert_eq!(fs::read_to_string(ssh.path("renamed")).unwrap(), "aa");
    ssh.copy(&["b", &ssh.far("renamed")]);
    assert_eq!(fs::read_to_string(ssh.path("renamed")).unwrap(), "bbb", "and replaces what is there");
    ssh.copy(&[&ssh.far("a"), "pulled"]);
    assert_eq!(fs::read_to_string(ssh.path("pulled")).unwrap(), "aa");
    ssh.copy(&["a", "b", &ssh.far("folder")]);
    assert_eq!(fs::read_to_string(ssh.path("folder/b")).unwrap(), "bbb");
    ssh.copy(&[&ssh.far("a"), &ssh.far("b"), "here"]);
    assert_eq!(fs::read_to_string(ssh.path("here/a")).unwrap(), "aa");
    let ran = ssh.run(&["a", "b", &ssh.far("renamed")]);
    assert_eq!(ran.code, 2, "{}", ran.stderr);
    assert!(ran.stderr.contains("is not a folder"), "{}", ran.stderr);
}

#[test]
fn a_relative_path_starts_at_the_home() {
    let ssh = Sshd::start();
    fs::write(ssh.path("a"), "aa").unwrap();
    ssh.copy(&["a", "far:~/under/"]);
    assert_eq!(fs::read_to_string(ssh.path("far-home/under/a")).unwrap(), "aa");
    ssh.copy(&["far:~/under/a", "back"]);
    assert_eq!(fs::read_to_string(ssh.path("back")).unwrap(), "aa");
}

/// scp's users measure how fast a host is so, and root's `/dev/null` would be a file from then on.
#[test]
fn a_destination_that_is_no_file_is_not_replaced() {
    let ssh = Sshd::start();
    fs::write(ssh.path("a"), "aa").unwrap();
    let pipe = ssh.path("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR).unwrap();
    std::os::unix::fs::symlink("pipe", ssh.path("link")).unwrap();
    for to in ["pipe", "link"] {
        for (from, to) in [("a".into(), to.into()), (ssh.far("a"), to.into()), ("a".into(), ssh.far(to))] {
            let ran = ssh.run(&[&from, &to]);
            assert_eq!(ran.code, 2, "{from} {to}: {}", ran.stderr);
            assert!(ran.stderr.contains("neither a file nor a folder"), "{}", ran.stderr);
        }
    }
    assert!(
        !fs::metadata(pipe).unwrap().is_file()
            && fs::symlink_metadata(ssh.path("link")).unwrap().is_symlink()
    );
}

#[test]
fn another_users_home_is_where_the_system_says_and_its_content_is_named_as_such() {
    let ssh = Sshd::start();
    // Every system has that one.
    let user = "root";
    let ran = ssh.run(&[&format!("far:~{user}"), "b"]);
    assert_eq!(ran.code, 2, "{}", ran.stderr);
    assert!(ran.stderr.contains(&format!("write '~{user}/' for what is in it")), "{}", ran.stderr);
    let ran = ssh.run(&[&format!("far:~{user}/no such file"), "b"]);
    assert!(ran.code == 5 && !ran.stderr.contains('~'), "{}", ran.stderr);
}

/// `--delete` once took its being the last part of a path for a home whose content is copied, and emptied the destination.
#[test]
fn what_is_called_as_a_home_is_copied_as_anything_else_and_only_a_home_is_copied_by_its_content() {
    let ssh = Sshd::start();
    fs::create_dir(ssh.path("src")).unwrap();
    fs::write(ssh.path("src/~"), "tilde").unwrap();
    let far = ssh.far("src/~");
    for (from, to) in [("src/~", "local"), (&far, "pulled"), ("src/~", "pushed")] {
        fs::create_dir(ssh.path(to)).unwrap();
        fs::write(ssh.path(to).join("precious"), "").unwrap();
        let there = if to == "pushed" { ssh.far(to) } else { to.to_owned() };
        ssh.copy(&["--delete", from, &there]);
        assert_eq!(fs::read_to_string(ssh.path(to).join("~")).unwrap(), "tilde");
        assert!(ssh.path(to).join("precious").exists(), "{to}");
        // One file takes a name that is not taken.
        let there = if to == "pushed" { ssh.far("named pushed") } else { format!("named {to}") };
        ssh.copy(&[from, &there]);
        assert_eq!(fs::read_to_string(ssh.path(&format!("named {to}"))).unwrap(), "tilde");
    }
    fs::write(ssh.path("far-home/mine"), "").unwrap();
    fs::create_dir(ssh.path("home")).unwrap();
    fs::write(ssh.path("home/old"), "").unwrap();
    let ran = ssh.run(&["--delete", "far:~", "home"]);
    assert_eq!(ran.code, 2, "{}", ran.stderr);
    assert!(ran.stderr.contains("write '~/' for what is in it"), "{}", ran.stderr);
    ssh.copy(&["-r", "--delete", "far:~/", "home"]);
    assert!(ssh.path("home/mine").exists() && !ssh.path("home/old").exists());
}

#[test]
fn a_folder_in_the_way_is_named_and_the_rest_is_copied() {
    let ssh = Sshd::start();
    fs::create_dir_all(ssh.path("src")).unwrap();
    fs::write(ssh.path("src/x"), "file").unwrap();
    fs::write(ssh.path("src/y"), "file").unwrap();
    fs::create_dir_all(ssh.path("there/src/x/full")).unwrap();
    let ran = ssh.run(&["src", &ssh.far("there")]);
    assert_eq!(ran.code, 7, "{}", ran.stderr);
    assert!(ran.stderr.contains("src/x exists already as a folder"), "{}", ran.stderr);
    assert_eq!(fs::read_to_string(ssh.path("there/src/y")).unwrap(), "file");
    let there = ssh.path("there").display().to_string();
    for (from, to) in [("src", there.as_str()), (&*ssh.far("src"), there.as_str())] {
        assert_eq!(ssh.run(&[from, to]).code, 7, "the same from {from}");
    }
}

#[test]
fn what_is_too_much_to_be_named_is_counted() {
    let ssh = Sshd::start();
    fs::create_dir(ssh.path("src")).unwrap();
    let pipes = 1500;
    for number in 0..pipes {
        let pipe = ssh.path("src").join(format!("{number:0>100}"));
        rustix::fs::mkfifoat(rustix::fs::CWD, pipe, rustix::fs::Mode::RUSR).unwrap();
    }
    let ran = ssh.run(&[&ssh.far("src"), "there", "--json"]);
    assert_eq!((ran.code, &ran.event("done")["failed"]), (7, &pipes.into()));
    let named = ran.events().iter().filter(|event| event["event"] == "failure").count();
    assert!(named < pipes, "{named}");
    let ran = ssh.run(&[&ssh.far("src"), "there", "--stats"]);
    assert!(ran.stdout.contains("not copied  1500\n"), "{}", ran.stdout);
}
