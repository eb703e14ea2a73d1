//! Paths between real namespaces. Bounds are wide, because test machines are busy; what they catch is a link that does
//! not do what it says.
//!
//! They need root (or user namespaces, in which they can be run as a whole) and /dev/net/tun.

// A test that cannot go on says so by panicking.
#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::MetadataExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use terahaul_lab::path::{Loss, LossSpec, QueueSpec};
use terahaul_lab::{LabError, Path, PathSpec};

/// Starts a path, or says why it cannot be tested here.
fn start(spec: &PathSpec) -> Option<Path> {
    match Path::start(spec) {
        Ok(path) => Some(path),
        Err(error @ (LabError::NotPermitted(_) | LabError::NoTun(_) | LabError::MissingProgram { .. })) => {
            println!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn spec(rate: &str, rtt_ms: u64) -> PathSpec {
    PathSpec::clean(rate.parse().unwrap(), Duration::from_millis(rtt_ms))
}

/// One of a few attempts takes less than `limit`. Where the machine stands still any of them may take more; on a path that is slow itself each
/// does.
fn assert_takes_less(limit: Duration, mut attempt: impl FnMut() -> Duration) {
    let mut took = Vec::new();
    while took.iter().all(|took| *took >= limit) {
        assert!(took.len() < 5, "{took:?}");
        took.push(attempt());
    }
}

/// A listener at the far end and a connection to it from the near one.
fn connect(path: &Path) -> (TcpStream, TcpStream) {
    let address = path.far().address();
    let listener = path.far().enter(|| TcpListener::bind((address, 0))).unwrap().unwrap();
    let port = listener.local_addr().unwrap().port();
    let near = path.near().enter(|| TcpStream::connect((address, port))).unwrap().unwrap();
    (near, listener.accept().unwrap().0)
}

fn bytes(len: usize) -> Vec<u8> {
    (0..len as u64).map(|n| (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}

/// Sends all one way, and returns what arrived and how long it took.
fn send(mut from: TcpStream, mut to: TcpStream, content: &[u8]) -> (Vec<u8>, Duration) {
    let begun = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(move || from.write_all(content).unwrap());
        let mut arrived = Vec::new();
        to.read_to_end(&mut arrived).unwrap();
        (arrived, begun.elapsed())
    })
}

#[test]
fn a_round_trip_takes_what_the_path_says() {
    let spec = spec("1gbit", 20);
    let Some(path) = start(&spec) else { return };
    let (near_address, far_address) = (path.near().address(), path.far().address());
    let far = path.far().enter(|| UdpSocket::bind((far_address, 0))).unwrap().unwrap();
    let near = path.near().enter(|| UdpSocket::bind((near_address, 0))).unwrap().unwrap();
    near.connect(far.local_addr().unwrap()).unwrap();
    let measure = || -> Vec<Duration> {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut buffer = [0; 8];
                for _ in 0..50 {
                    let (len, from) = far.recv_from(&mut buffer).unwrap();
                    far.send_to(&buffer[..len], from).unwrap();
                }
            });
            (0..50)
                .map(|_| {
                    let begun = Instant::now();
                    near.send(b"question").unwrap();
                    near.recv(&mut [0; 8]).unwrap();
                    begun.elapsed()
                })
                .collect()
        })
    };
    assert_takes_less(spec.rtt + Duration::from_millis(5), || {
        let mut times = measure();
        times.sort_unstable();
        // Arrivals are set back by the usual lateness of waking up, so a single one may be a little early.
        assert!(times[0] > spec.rtt - Duration::from_millis(1), "{:?}", times[0]);
        // The median.
        times[25]
    });
}

#[test]
fn a_line_carries_its_rate_and_not_more() {
    let content = bytes(20_000_000);
    let ideal = 20e6 * 1500.0 / 1448.0 / 12.5e6;
    assert_takes_less(Duration::from_secs_f64(ideal * 2.0), || {
        let Some(path) = start(&spec("100mbit", 10)) else { return Duration::ZERO };
        let (near, far) = connect(&path);
        let (arrived, took) = send(near, far, &content);
        assert!(arrived == content);
        assert!(took.as_secs_f64() > ideal * 0.97, "{took:?}");
        let counters = path.stop().near_to_far;
        assert!(counters.delivered_bytes > 20_000_000);
        // No sample is above what the line carries in a tenth of a second.
        assert!(counters.samples.iter().all(|sample| *sample <= 1_252_000), "{:?}", counters.samples);
        took
    });
}

#[test]
fn the_way_back_has_a_rate_of_its_own() {
    let spec = PathSpec { return_rate: Some("20mbit".parse().unwrap()), ..spec("1gbit", 2) };
    let Some(path) = start(&spec) else { return };
    let (near, far) = connect(&path);
    let content = bytes(2_500_000);
    let (arrived, took) = send(far, near, &content);
    assert!(arrived == content);
    assert!(took > Duration::from_secs(1), "{took:?}");
}

#[test]
fn bytes_arrive_as_they_were_sent_however_segments_are_lost_and_joined() {
    for mtu in [1500, 9000] {
        let spec = PathSpec { loss: LossSpec::Uniform(0.003), mtu, ..spec("2gbit", 1) };
        let Some(path) = start(&spec) else { return };
        let content = bytes(30_000_000);
        let (near, far) = connect(&path);
        let (arrived, _) = send(near, far, &content);
        assert!(arrived == content);
        let counters = path.stop();
        assert!(counters.near_to_far.lost > 0);
        // Segments are counted, not what the kernel hands over at once.
        assert!(counters.near_to_far.sent >= 30_000_000 / u64::from(mtu));
    }
}

#[test]
fn the_seed_alone_decides_how_many_packets_are_lost() {
    let loss = LossSpec::Uniform(0.05);
    let spec = PathSpec { loss, seed: 42, queue: QueueSpec::Bytes(100_000_000), ..spec("1gbit", 2) };
    for _ in 0..2 {
        let Some(path) = start(&spec) else { return };
        let (near_address, far_address) = (path.near().address(), path.far().address());
        let near = path.near().enter(|| UdpSocket::bind((near_address, 0))).unwrap().unwrap();
        for _ in 0..5_000 {
            near.send_to(&[0; 1000], (far_address, 9)).unwrap();
        }
        let deadline = Instant::now() + Duration::from_secs(20);
        while path.counters().near_to_far.sent < 5_000 && Instant::now() < deadline {
            std::thread::yield_now();
        }
        let mut model = Loss::new(loss, 42, 0);
        let expected = (0..5_000).filter(|_| model.takes_next()).count() as u64;
        let counters = path.stop().near_to_far;
        assert_eq!((counters.sent, counters.lost), (5_000, expected));
        assert_eq!((counters.queue_dropped, counters.missed), (0, 0));
    }
}

#[test]
fn the_congestion_control_is_the_one_that_was_asked_for() {
    let available = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap();
    for name in available.split_whitespace() {
        let spec = PathSpec { cc: Some(name.to_owned()), ..spec("1gbit", 1) };
        let Some(path) = start(&spec) else { return };
        let (near, far) = connect(&path);
        for socket in [&near, &far] {
            assert_eq!(rustix::net::sockopt::tcp_congestion(socket).unwrap(), name);
        }
    }
    let spec = PathSpec { cc: Some("nosuch".to_owned()), ..spec("1gbit", 1) };
    if let Err(error) = Path::start(&spec) {
        println!("{error}");
        assert!(!matches!(error, LabError::System { .. } | LabError::Setup { .. }));
    } else {
        panic!("a congestion control that is not there was accepted");
    }
}

#[test]
fn addresses_exist_only_inside() {
    let Some(path) = start(&spec("1gbit", 1)) else { return };
    for end in [path.near(), path.far()] {
        assert!(TcpListener::bind((end.address(), 0)).is_err(), "{}", end.address());
        assert!(end.enter(|| TcpListener::bind((end.address(), 0)).is_ok()).unwrap());
        assert!(end.enter(|| TcpListener::bind(("127.0.0.1", 0)).is_ok()).unwrap(), "loopback is up");
    }
    let listener = path.far().enter(|| TcpListener::bind((path.far().address(), 0))).unwrap().unwrap();
    assert_eq!(path.far().listening().unwrap(), [listener.local_addr().unwrap().port()]);
    assert!(path.near().listening().unwrap().is_empty());
}

#[test]
fn a_command_runs_inside_with_its_own_environment_and_code() {
    let Some(path) = start(&spec("1gbit", 1)) else { return };
    let output = path
        .near()
        .command("sh")
        .args(["-c", "ip -o address; echo $WORD; exit 7"])
        .env("WORD", "here")
        .output();
    let output = output.unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("198.18.0.1") && text.contains("here"), "{text}");
    assert_eq!(output.status.code(), Some(7));
}

/// Starts processes in the background of both ends, as servers do, and returns their identifiers.
fn leave_processes(path: &Path) -> Vec<u32> {
    [path.near(), path.far()]
        .into_iter()
        .map(|end| {
            let script = "setsid sleep 1000 >/dev/null 2>&1 & echo $!";
            let output = end.command("sh").args(["-c", script]).output().unwrap();
            String::from_utf8(output.stdout).unwrap().trim().parse().unwrap()
        })
        .collect()
}

/// A process that has ended but was not yet waited for does not run.
fn runs(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

fn wait_until(what: &str, done: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !done() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::yield_now();
    }
}

#[test]
fn dropping_a_path_ends_what_runs_in_it() {
    let Some(path) = start(&spec("1gbit", 1)) else { return };
    let left = leave_processes(&path);
    assert!(left.iter().all(|pid| runs(*pid)));
    drop(path);
    wait_until("processes go on", || !left.iter().any(|pid| runs(*pid)));
}

#[test]
fn nothing_is_left_after_the_lab_is_killed() {
    let mut lab = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "holds_a_path_until_it_is_killed", "--ignored", "--nocapture"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(lab.stdout.take().unwrap()).lines().map_while(Result::ok);
    let line = lines.find(|line| line.starts_with("left ") || line.starts_with("skipped"));
    lab.kill().unwrap();
    lab.wait().unwrap();
    let Some(line) = line.as_deref().and_then(|line| line.strip_prefix("left ")) else {
        println!("skipped, as the other tests");
        return;
    };
    let numbers: Vec<u64> = line.split(' ').map(|number| number.parse().unwrap()).collect();
    let (processes, namespaces) = numbers.split_at(2);
    wait_until("processes go on", || !processes.iter().any(|pid| runs(*pid as u32)));
    // The kernel removes namespaces and devices with the last that refers to them.
    wait_until("a namespace is still used", || {
        let entries = std::fs::read_dir("/proc").unwrap().flatten();
        let used = entries.filter_map(|entry| std::fs::metadata(entry.path().join("ns/net")).ok());
        let used: Vec<u64> = used.map(|metadata| metadata.ino()).collect();
        !namespaces.iter().any(|namespace| used.contains(namespace))
    });
}

#[test]
#[ignore = "is killed by another test"]
fn holds_a_path_until_it_is_killed() {
    let Some(path) = start(&spec("1gbit", 1)) else { return };
    let inode = || std::fs::metadata("/proc/thread-self/ns/net").unwrap().ino();
    let processes = leave_processes(&path);
    let namespaces = [path.near().enter(inode).unwrap(), path.far().enter(inode).unwrap()];
    // On a line of its own: the test runner has begun one.
    println!("\nleft {} {} {} {}", processes[0], processes[1], namespaces[0], namespaces[1]);
    let _ = std::io::stdin().read(&mut [0]);
}

#[test]
fn paths_side_by_side_each_carry_their_rate_for_an_address_of_their_own() {
    // One path alone would take 0.8 s for what both are given.
    const PACKETS: usize = 50;
    let spec = PathSpec { queue: QueueSpec::Bytes(1 << 20), paths: 2, ..spec("1mbit", 10) };
    let Some(path) = start(&spec) else { return };
    let far = path.far().enter(|| UdpSocket::bind((path.far().address(), 0))).unwrap().unwrap();
    far.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let (to, addresses) = (far.local_addr().unwrap(), path.near().addresses());
    assert_eq!(addresses.len(), 2);
    let near: Vec<_> = addresses
        .iter()
        .map(|address| path.near().enter(|| UdpSocket::bind((*address, 0))).unwrap().unwrap())
        .collect();
    let mut attempts = 0;
    assert_takes_less(Duration::from_millis(700), || {
        attempts += 1;
        let begun = Instant::now();
        for _ in 0..PACKETS {
            near.iter().for_each(|socket| assert_eq!(socket.send_to(&[0; 972], to).unwrap(), 972));
        }
        let mut from: Vec<_> = (0..2 * PACKETS).map(|_| far.recv_from(&mut [0; 1500]).unwrap().1).collect();
        let took = begun.elapsed();
        from.sort_unstable();
        from.dedup();
        assert_eq!(from.iter().map(std::net::SocketAddr::ip).collect::<Vec<_>>(), addresses);
        assert!(took >= Duration::from_millis(380), "{took:?}");
        took
    });
    // The way back is that of the address too.
    for socket in &near {
        far.send_to(b"answer", socket.local_addr().unwrap()).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        assert_eq!(socket.recv(&mut [0; 8]).unwrap(), 6);
    }
    let counters = path.counters();
    assert_eq!((counters.near_to_far.delivered, counters.far_to_near.delivered), (attempts * 100, 2));
}
