//! Hosts that are not what they should be.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use crate::rig::Ran;
use crate::sshd::Sshd;

/// The other host runs the real far side, but of another request than ours: it sends what was not asked for.
#[test]
fn a_host_that_sends_what_was_not_asked_for_is_refused() {
    let ssh = Sshd::start();
    fs::create_dir(ssh.path("evil")).unwrap();
    fs::write(ssh.path("evil/.ssh"), "mine").unwrap();
    fs::write(ssh.path("asked"), "for").unwrap();
    // The request names the file 'asked'; what comes back is a folder's content.
    let path = ssh.path("script");
    let program = env!("CARGO_BIN_EXE_terahaul");
    let rewrite = "$| = 1; while (sysread STDIN, $b, 65536) { $b =~ s,/asked,/evil/,; syswrite STDOUT, $b }";
    let script = format!("#!/bin/sh\nperl -e '{rewrite}' | {program} far\n");
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    fs::create_dir(ssh.path("here")).unwrap();
    let far_command = path.display().to_string();
    let ran = Ran::of(ssh.bare(&["--far-command", &far_command, &ssh.far("asked"), "here"]));
    assert_ne!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
    assert!(!ssh.path("here/.ssh").exists(), "{}", ran.stderr);
}

#[test]
fn nothing_is_written_through_a_link_that_lies_at_the_destination() {
    let ssh = Sshd::start();
    fs::create_dir_all(ssh.path("src/folder")).unwrap();
    fs::write(ssh.path("src/folder/file"), "new").unwrap();
    fs::create_dir_all(ssh.path("elsewhere")).unwrap();
    fs::create_dir_all(ssh.path("there/src")).unwrap();
    symlink(ssh.path("elsewhere"), ssh.path("there/src/folder")).unwrap();
    let ran = ssh.run(&["src", &ssh.far("there")]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(fs::read_dir(ssh.path("elsewhere")).unwrap().count(), 0);
    assert!(
        ssh.path("there/src/folder").symlink_metadata().unwrap().is_dir(),
        "the folder has replaced the link"
    );
}
