//! Two thousand connections that say nothing, or one byte a second, beside a transfer that works.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::{peak_memory, status_of};
use crate::rig::{Depot, assert_same, write_random};

/// Idle and dripping connections, made anew whenever the depot has had enough of one.
struct Crowd {
    over: Arc<AtomicBool>,
    open: Arc<AtomicUsize>,
    thread: Option<JoinHandle<()>>,
}

impl Crowd {
    fn gather(address: &str, count: usize) -> Self {
        let (over, open) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (is_over, now_open, address) = (Arc::clone(&over), Arc::clone(&open), address.to_owned());
        let thread = std::thread::spawn(move || {
            let mut members: Vec<Option<Member>> = (0..count).map(|_| None).collect();
            while !is_over.load(Ordering::Relaxed) {
                for (number, slot) in members.iter_mut().enumerate() {
                    if !slot.as_mut().is_some_and(Member::drip) {
                        *slot = Member::connect(&address, number);
                    }
                }
                now_open.store(members.iter().flatten().count(), Ordering::Relaxed);
                std::thread::sleep(Duration::from_secs(1));
            }
        });
        let crowd = Self { over, open, thread: Some(thread) };
        let deadline = Instant::now() + crate::rig::PATIENCE;
        while crowd.open.load(Ordering::Relaxed) < count * 9 / 10 {
            assert!(Instant::now() < deadline, "only {} came", crowd.open.load(Ordering::Relaxed));
            std::thread::sleep(Duration::from_millis(20));
        }
        crowd
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

struct Member {
    socket: TcpStream,
    /// What it says, a byte at a time; nothing when it is empty.
    text: &'static [u8],
    at: usize,
}

impl Member {
    fn connect(address: &str, number: usize) -> Option<Self> {
        const TEXTS: [&[u8]; 4] = [
            b"",
            b"GET /api/v1/health HTTP/1.1\r\nHost: x\r\nX-Slow: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
            // The start of a TLS greeting.
            &[22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7],
            b"PUT /api/v1/transfers/aaaaaaaaaaaaaaaaaaaaaaaaaa/bytes/0 HTTP/1.1\r\nContent-Length: 1000000\r\n",
        ];
        let socket = TcpStream::connect(address).ok()?;
        socket.set_nonblocking(true).ok()?;
        Some(Self { socket, text: TEXTS[number % TEXTS.len()], at: 0 })
    }

    /// One byte more; `false` when the depot has hung up.
    fn drip(&mut self) -> bool {
        let waits = |error: std::io::Error| error.kind() == ErrorKind::WouldBlock;
        let alive = match self.socket.read(&mut [0; 1024]) {
            Ok(read) => read > 0,
            Err(error) => waits(error),
        };
        let Some(byte) = self.text.get(self.at) else { return alive };
        self.at += 1;
        alive && self.socket.write(&[*byte]).map_or_else(waits, |_| true)
    }
}

/// A depot as a login shell would start it, and this test with room for the crowd.
fn depot_for_a_crowd() -> Depot {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum }).unwrap();
    Depot::start_in(tempfile::tempdir().unwrap(), &["prlimit", "--nofile=1024:", "--"], &[])
}

/// Sends `src` as a new transfer and returns how long it took.
fn send(depot: &Depot, number: u32) -> Duration {
    let began = Instant::now();
    let name = depot.path(&format!("link to {number}"));
    std::os::unix::fs::symlink("src", &name).unwrap();
    let ran = depot.run(&["send", &format!("link to {number}/"), "--json"]);
    let took = began.elapsed();
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
    took
}

#[test]
fn two_thousand_idle_connections_do_not_keep_a_transfer_from_completing() {
    let depot = depot_for_a_crowd();
    write_random(&depot.path("src/a.bin"), 40 << 20, 1);
    for number in 0..200 {
        write_random(&depot.path(&format!("src/small/{number}")), 3000, number);
    }
    send(&depot, 0);
    let (memory, threads) = (peak_memory(&depot), status_of(&depot, "Threads"));
    let crowd = Crowd::gather(&depot.listen, 2000);
    let link = depot.send(&["src"]);
    assert_eq!(depot.run(&["receive", &link, "dst"]).code, 0);
    drop(crowd);
    assert_same(&depot.path("src"), &depot.path("dst/src"));
    let grown = peak_memory(&depot).saturating_sub(memory);
    assert!(grown < 128, "the crowd costs {grown} MiB");
    let more = status_of(&depot, "Threads").saturating_sub(threads);
    assert!(more < 64, "the crowd costs {more} threads");
}

#[test]
#[ignore = "long: make soak"]
fn a_transfer_keeps_four_fifths_of_its_speed_beside_two_thousand_idle_connections() {
    let depot = depot_for_a_crowd();
    write_random(&depot.path("src/a.bin"), 1 << 30, 1);
    send(&depot, 0);
    let (mut alone, mut beside) = (Vec::new(), Vec::new());
    for round in 0..3 {
        alone.push(send(&depot, 10 + round));
        let crowd = Crowd::gather(&depot.listen, 2000);
        beside.push(send(&depot, 20 + round));
        drop(crowd);
        let listed = depot.run(&["list", "--json"]).events();
        for transfer in listed {
            assert_eq!(depot.run(&["remove", transfer["id"].as_str().unwrap()]).code, 0);
        }
    }
    alone.sort();
    beside.sort();
    let ratio = alone[1].as_secs_f64() / beside[1].as_secs_f64();
    println!("1 GiB alone {alone:?}, beside the crowd {beside:?}: it keeps {ratio:.2} of its speed");
    println!("the depot's peak is {} MiB", peak_memory(&depot));
    assert!(ratio >= 0.8, "{ratio:.2}");
}
