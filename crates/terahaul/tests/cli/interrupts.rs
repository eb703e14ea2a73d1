use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use crate::rig::{
    Depot, Ran, assert_same, send_signal, spawn, terahaul_through, wait_for, wait_until, write_random,
};

#[test]
fn ctrl_c_leaves_a_resumable_transfer_and_says_so() {
    let depot = Depot::start();
    write_random(&depot.path("src/a.bin"), 64 << 20, 1);
    let sender = spawn(depot.command(&["send", "src", "--limit", "6MB"]));
    depot.wait_for_durable(8 << 20);
    send_signal(sender.id(), "INT");
    let ran = Ran::of_child(sender);
    assert_eq!(ran.code, 130, "{}", ran.stderr);
    assert!(ran.stderr.contains("are kept; run the same command again to resume"), "{}", ran.stderr);
    let again = depot.run(&["send", "src", "--json"]);
    assert_eq!((again.code, &again.event("start")["resumed"]), (0, &true.into()));
    let link = again.event("done")["link"].as_str().unwrap().to_owned();
    let receiver = spawn(depot.command(&["receive", &link, "dst", "--limit", "6MB", "--json"]));
    wait_until("it receives", || depot.path("dst").exists());
    send_signal(receiver.id(), "TERM");
    let ran = Ran::of_child(receiver);
    assert_eq!(ran.code, 130, "{}", ran.stderr);
    assert_eq!(ran.event("error")["code"], "interrupted");
    assert_eq!(depot.run(&["receive", &link, "dst"]).code, 0);
    assert_same(&depot.path("src"), &depot.path("dst/src"));
}

#[test]
fn a_resumed_receive_counts_only_what_it_moved_itself() {
    const SIZE: usize = 64 << 20;
    let depot = Depot::start();
    write_random(&depot.path("a.bin"), SIZE, 1);
    let link = depot.send(&["a.bin"]);
    let mut receiver = spawn(depot.command(&["receive", &link, "dst", "--limit", "4MB", "--json"]));
    let mut said = BufReader::new(receiver.stdout.take().unwrap());
    let mut kept = 0;
    while kept < 8 << 20 {
        let mut line = String::new();
        assert!(said.read_line(&mut line).unwrap() > 0, "it ended before it was interrupted");
        let event: serde_json::Value = serde_json::from_str(&line).unwrap();
        kept = event["done_bytes"].as_u64().unwrap_or(0);
    }
    send_signal(receiver.id(), "KILL");
    receiver.wait().unwrap();
    // Where it tries to compress what cannot be, a block is a few bytes longer.
    let done = depot.run(&["receive", &link, "dst", "--json", "--compress", "no"]).event("done");
    let moved = done["moved_bytes"].as_u64().unwrap();
    assert!(moved > 0 && moved <= SIZE as u64 - kept, "{moved} moved, {kept} were kept");
}

#[test]
fn a_command_that_waits_for_its_stdin_ends_at_the_first_signal() {
    let home = tempfile::tempdir().unwrap();
    let commands = [
        &["receive", "-"][..],
        &["info", "-"],
        &["verify", "-", "."],
        &["cp", "--files-from=-", "a", "b"],
        &["login", "https://127.0.0.1:1/"],
        &["far"],
    ];
    // The tests may be run as what outlives its terminal, by nohup, and what they start would then, too.
    let within_a_terminal = ["env", "--default-signal=HUP"].map(str::to_owned);
    for (args, signal) in commands.iter().flat_map(|args| [(args, "TERM"), (args, "HUP")]) {
        let mut command = terahaul_through(home.path(), &within_a_terminal);
        command.args(*args).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        wait_until_it_hears_signals(child.id());
        send_signal(child.id(), signal);
        // Its stdin stays open until then.
        assert_eq!(wait_for(&mut child).code(), Some(130), "{args:?} {signal}");
    }
}

#[test]
fn a_command_that_is_to_outlive_its_terminal_does_so() {
    let home = tempfile::tempdir().unwrap();
    let nohup = ["sh", "-c", "trap '' HUP; exec \"$@\"", "sh"].map(str::to_owned);
    let mut command = terahaul_through(home.path(), &nohup);
    command.args(["receive", "-"]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    wait_until_it_hears_signals(child.id());
    assert_eq!(signals(child.id(), "SigCgt:") & HANG_UP, 0);
    send_signal(child.id(), "HUP");
    child.stdin.take().unwrap().write_all(b"no link\n").unwrap();
    assert_eq!(wait_for(&mut child).code(), Some(2));
}

/// Only a second signal ended most of them, and nothing but SIGKILL what waited for stdout on another thread.
#[test]
fn a_command_whose_output_nobody_reads_ends_at_the_first_signal() {
    let depot = Depot::start();
    for number in 0..2_000 {
        write_random(&depot.path(&format!("src/{number:0>100}")), 1, 1);
    }
    let link = depot.send(&["src"]);
    let commands = [
        &["send", "-n", "--json", "src"][..],
        &["receive", "-n", "--json", &link, "dst"],
        &["info", &link],
        &["cp", "-v", "src", "copy"],
        // The one before may have come to its end when it was interrupted, and there is nothing left to say of its destination.
        &["cp", "-n", "src", "other"],
    ];
    for args in commands {
        let mut child = spawn(depot.command(args));
        let output = child.stdout.take().unwrap();
        let waiting = || rustix::io::ioctl_fionread(&output).unwrap();
        wait_until("the pipe is full, or all is said", || {
            waiting() > 50_000 || child.try_wait().unwrap().is_some()
        });
        assert!(child.try_wait().unwrap().is_none(), "{args:?} says too little");
        send_signal(child.id(), "TERM");
        assert_eq!(wait_for(&mut child).code(), Some(130), "{args:?}");
    }
}

const HANG_UP: u64 = 1;
const TERMINATE: u64 = 1 << 14;

/// Before it does, a signal ends it as any program. This is the one that it hears last.
fn wait_until_it_hears_signals(process: u32) {
    wait_until("it hears signals", || signals(process, "SigCgt:") & TERMINATE != 0);
}

/// A set of signals, as the system shows it of a process.
fn signals(process: u32, which: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let mask = status.lines().find_map(|line| line.strip_prefix(which)).unwrap().trim();
    u64::from_str_radix(mask, 16).unwrap()
}
