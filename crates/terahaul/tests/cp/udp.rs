//! Blocks over UDP, straight to the far side's port.

use std::fs;
use std::net::{TcpListener, UdpSocket};
use std::sync::atomic::{AtomicU16, Ordering};

use crate::rig::{Ran, assert_same, write_random, write_tree};
use crate::sshd::Sshd;

#[test]
fn over_udp_a_folder_goes_there_and_comes_back_as_it_was() {
    let ssh = Sshd::start();
    write_tree(&ssh.path("src"));
    write_random(&ssh.path("src/more.bin"), 40 << 20, 7);
    for (from, to) in [("src".to_owned(), ssh.far("there")), (ssh.far("there/src"), "back".to_owned())] {
        let ran = ssh.run(&["--transport", "udp", "--limit", "100MB", "--json", &from, &to]);
        assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
        assert_eq!(ran.event("done")["way"], "direct");
        assert_eq!(ran.event("done")["transport"], "udp");
    }
    assert_same(&ssh.path("src"), &ssh.path("back/src"));
}

#[test]
fn through_ssh_there_is_no_udp_and_whoever_insists_on_it_is_told() {
    let ssh = Sshd::start();
    fs::write(ssh.path("a"), "aa").unwrap();
    let done = ssh.copy(&["--transport", "auto", "--through-ssh", "a", &ssh.far("b")]);
    assert_eq!((&done["way"], &done["transport"]), (&"ssh".into(), &"tcp".into()));
    let ran = ssh.run(&["--transport", "udp", "--through-ssh", "a", &ssh.far("c")]);
    assert_eq!(ran.code, 2, "{}", ran.stderr);
    assert!(ran.stderr.contains("--through-ssh"), "{}", ran.stderr);
}

/// Three ports in a row of which the outer two are somebody else's for `taken`, and the middle one is free for both. Each test has others,
/// and none that the system gives to whoever asks for any.
pub fn three_ports<T>(taken: impl Fn(u16) -> Option<T>) -> (u16, [T; 2]) {
    static NEXT: AtomicU16 = AtomicU16::new(20_000);
    let next = std::iter::repeat_with(|| NEXT.fetch_add(3, Ordering::Relaxed));
    let ports = next.take_while(|port| *port < 32_000).find_map(|port| {
        drop((
            TcpListener::bind(("127.0.0.1", port + 1)).ok()?,
            UdpSocket::bind(("127.0.0.1", port + 1)).ok()?,
        ));
        Some((port, [taken(port)?, taken(port + 2)?]))
    });
    ports.unwrap()
}

#[test]
fn of_a_range_the_far_side_takes_a_port_that_is_free_for_udp_too() {
    let ssh = Sshd::start();
    fs::write(ssh.path("a"), "aa").unwrap();
    let (first, taken) = three_ports(|port| UdpSocket::bind(("127.0.0.1", port)).ok());
    let done =
        ssh.copy(&["--transport", "udp", "--ports", &format!("{first}-{}", first + 2), "a", &ssh.far("b")]);
    assert_eq!(done["transport"], "udp");
    let without = format!("{first}-{first}");
    let done = ssh.copy(&["--transport", "auto", "--ports", &without, "a", &ssh.far("c")]);
    assert_eq!((&done["way"], &done["transport"]), (&"direct".into(), &"tcp".into()));
    let ran: Ran = ssh.run(&["--transport", "udp", "--ports", &without, "a", &ssh.far("d")]);
    assert_eq!(ran.code, 3, "{}", ran.stderr);
    assert!(ran.stderr.contains("--transport tcp"), "{}", ran.stderr);
    drop(taken);
}

#[test]
fn over_udp_too_text_is_compressed_and_of_a_changed_file_only_the_change_is_sent() {
    let ssh = Sshd::start();
    let text = "one of many lines that are alike\n".repeat(400_000);
    fs::write(ssh.path("log"), &text).unwrap();
    write_random(&ssh.path("data"), 40_000_000, 3);
    for (from, to, old) in
        [("", ssh.far(""), "there"), ("there/", ssh.path("").display().to_string(), "back")]
    {
        let from = |name: &str| match from {
            "" => name.to_owned(),
            _ => ssh.far(&format!("{from}{name}")),
        };
        let done = ssh.copy(&["--transport", "udp", "-z1", &from("log"), &format!("{to}/{old}/")]);
        assert_eq!(done["transport"], "udp");
        assert!(done["moved_bytes"].as_u64().unwrap() < text.len() as u64 / 4, "{done}");
        ssh.copy(&["--transport", "udp", &from("data"), &format!("{to}/{old}/")]);
    }
    let mut changed = fs::read(ssh.path("data")).unwrap();
    changed.splice(9_000_000..9_000_000, *b"inserted");
    fs::write(ssh.path("data"), &changed).unwrap();
    for (from, to) in [("data".to_owned(), ssh.far("there/")), (ssh.far("there/data"), "back/".to_owned())] {
        let done = ssh.copy(&["--transport", "udp", &from, &to]);
        assert!(done["moved_bytes"].as_u64().unwrap() < 2_000_000, "{done}");
    }
    assert!(fs::read(ssh.path("back/data")).unwrap() == changed);
    assert!(fs::read(ssh.path("back/log")).unwrap() == text.as_bytes());
}
