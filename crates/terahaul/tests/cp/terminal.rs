//! What somebody sees at a terminal, of which ssh has its part.

use std::fs;
use std::io::Read;
use std::process::Command;

use crate::rig::{Ran, Terminal, send_signal, wait_for, wait_until};
use crate::sshd::Sshd;

#[test]
fn the_progress_bar_leaves_the_line_to_ssh_while_that_asks() {
    let ssh = Sshd::start();
    fs::write(ssh.path("a"), "aa").unwrap();
    // Longer than a bar would leave it alone.
    let rsh = ssh.script(
        "rsh",
        "printf 'password: ' >/dev/tty; sleep 1; printf 'typed\\n' >/dev/tty; shift; exec sh -c \"$*\"",
    );
    let program = env!("CARGO_BIN_EXE_terahaul");
    let line = format!("{program} cp -e {rsh} --far-command {program} a far:{}", ssh.path("b").display());
    let seen = Terminal::start(ssh.home.path(), &line).read_to_end();
    assert!(seen.contains("password: typed"), "{seen:?}");
    assert!(seen.contains("copied 1 file"), "{seen:?}");
    assert_eq!(fs::read_to_string(ssh.path("b")).unwrap(), "aa");
}

/// ssh, which has the same stderr, sets it not to block: as soon as the pipe was full, the rest was lost and the copy had failed.
#[test]
fn who_reads_stdout_and_stderr_from_one_pipe_late_reads_all_of_it() {
    const FILES: usize = 1_500;
    let ssh = Sshd::start();
    fs::create_dir(ssh.path("src")).unwrap();
    (0..FILES).for_each(|at| fs::write(ssh.path(&format!("src/{at:060}")), "1").unwrap());
    let (mut reader, writer) = std::io::pipe().unwrap();
    let mut command = ssh.command(&["-v", "src", &ssh.far("dst")]);
    command.stdout(writer.try_clone().unwrap()).stderr(writer);
    let mut child = command.spawn().unwrap();
    drop(command);
    let mut last = 0;
    wait_until("the pipe is full", || {
        let before = std::mem::replace(&mut last, rustix::io::ioctl_fionread(&reader).unwrap());
        last > 60_000 && last == before
    });
    let mut seen = String::new();
    reader.read_to_string(&mut seen).unwrap();
    let ended = wait_for(&mut child);
    assert!(ended.success(), "{ended}");
    assert!(seen.lines().filter(|line| line.contains("src/0")).count() == FILES, "{seen}");
}

/// A terminal's Ctrl-C is ssh's as well, which may be the first to end.
#[test]
fn what_ctrl_c_has_ended_was_interrupted_whoever_ends_first() {
    let ssh = Sshd::start();
    fs::write(ssh.path("a"), "aa").unwrap();
    let rsh = ssh.script("rsh", "kill -INT $PPID; exit 255");
    for _ in 0..10 {
        let ran = Ran::of(ssh.bare_without_settings(&["-e", &rsh, "a", "far:b"]));
        assert_eq!(ran.code, 130, "{}", ran.stderr);
        assert!(ran.stderr.contains("interrupted"), "{}", ran.stderr);
    }
}

#[test]
fn a_terminal_echoes_again_once_a_copy_was_ended_while_ssh_asked() {
    let ssh = Sshd::start();
    fs::write(ssh.path("a"), "aa").unwrap();
    let key = ssh.path("user").display().to_string();
    let locked = Command::new("ssh-keygen").args(["-q", "-p", "-N", "secret", "-f", &key]).output().unwrap();
    assert!(locked.status.success());
    let line = format!(
        "sh -c 'echo pid=$$.; exec {} cp -F ssh_config -o BatchMode=no a far:b'; stty -a",
        env!("CARGO_BIN_EXE_terahaul")
    );
    let mut terminal = Terminal::start(ssh.home.path(), &line);
    terminal.read_until("Enter passphrase for key");
    let process = terminal.seen.split_once("pid=").and_then(|(_, rest)| rest.split_once('.')).unwrap().0;
    send_signal(process.parse().unwrap(), "TERM");
    let seen = terminal.read_to_end();
    assert!(seen.contains("interrupted"), "{seen:?}");
    assert!(seen.contains(" echo ") && !seen.contains("-echo "), "{seen:?}");
}
