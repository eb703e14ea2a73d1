//! What the kernel's own network stack carries, both ends on this machine.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::{Limit, Measured, repeat};
use crate::LabError;

const PIECE: usize = 256 << 10;
/// Bytes in one repetition over TCP.
const TCP_BYTES: u64 = 256 << 20;
/// What a datagram carries in a packet of 1500 bytes: without the headers of IPv6 and UDP.
const DATAGRAM: usize = 1452;
/// Datagrams in one repetition.
const DATAGRAMS: u64 = 50_000;
/// A receiver that hears nothing for so long has heard all.
const SILENCE: Duration = Duration::from_millis(50);

pub(super) fn measure(time: Duration, keep: &mut dyn FnMut(Limit)) -> Result<(), LabError> {
    let tcp = tcp(time).map_err(LabError::system("measuring TCP over loopback"))?;
    keep(Limit::new("tcp-loopback", "TCP over loopback, one connection, in the clear", 2, tcp));
    let (udp, lost) = udp(time).map_err(LabError::system("measuring UDP over loopback"))?;
    let udp = Limit::new("udp-loopback", "UDP over loopback, 1452-byte datagrams, as received", 2, udp);
    keep(Limit { lost: Some(lost), ..udp });
    Ok(())
}

fn tcp(time: Duration) -> io::Result<Measured> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    thread::scope(|scope| {
        let receiver = scope.spawn(move || -> io::Result<()> {
            let (mut socket, _) = listener.accept()?;
            let mut buffer = vec![0; 2 * PIECE];
            loop {
                let mut left = TCP_BYTES;
                while left > 0 {
                    match socket.read(&mut buffer)? {
                        0 => return Ok(()),
                        more => left = left.saturating_sub(more as u64),
                    }
                }
                // The sender's clock stops when all of a repetition has arrived.
                socket.write_all(&[1])?;
            }
        });
        let mut socket = TcpStream::connect(address)?;
        let piece = vec![0x5a; PIECE];
        let measured = repeat(time, || -> io::Result<u64> {
            for _ in 0..TCP_BYTES / PIECE as u64 {
                socket.write_all(&piece)?;
            }
            socket.read_exact(&mut [0])?;
            Ok(TCP_BYTES)
        });
        drop(socket);
        let received = receiver.join().unwrap_or_else(|_| Err(io::ErrorKind::Other.into()));
        let measured = measured?;
        received.map(|()| measured)
    })
}

/// The rate that arrives, and the share that does not.
fn udp(time: Duration) -> io::Result<(Measured, f64)> {
    let receiver = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    let sender = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    sender.connect(receiver.local_addr()?)?;
    receiver.connect(sender.local_addr()?)?;
    receiver.set_read_timeout(Some(SILENCE))?;
    // Warms up, as each part does.
    udp_burst(&sender, &receiver)?;
    let begun = Instant::now();
    let (mut rates, mut sent, mut arrived) = (Vec::new(), 0, 0);
    while rates.len() < 3 || begun.elapsed() < time {
        let burst = udp_burst(&sender, &receiver)?;
        sent += DATAGRAMS;
        arrived += burst.datagrams;
        rates.push((burst.datagrams * DATAGRAM as u64) as f64 / burst.time.as_secs_f64().max(1e-9));
    }
    Ok((Measured::of(&rates), 1.0 - arrived as f64 / sent as f64))
}

struct Burst {
    datagrams: u64,
    /// From the first that arrived to the last.
    time: Duration,
}

fn udp_burst(sender: &UdpSocket, receiver: &UdpSocket) -> io::Result<Burst> {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let receiving = scope.spawn(|| -> io::Result<Burst> {
            let mut buffer = vec![0; 2 * DATAGRAM];
            let (mut first, mut last, mut datagrams) = (None, None, 0);
            loop {
                match receiver.recv(&mut buffer) {
                    Ok(_) => {
                        datagrams += 1;
                        last = Some(Instant::now());
                        first = first.or(last);
                    }
                    Err(error)
                        if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) =>
                    {
                        if done.load(Ordering::Acquire) {
                            let time = last.zip(first).map_or(Duration::ZERO, |(last, first)| last - first);
                            return Ok(Burst { datagrams, time });
                        }
                    }
                    Err(error) => return Err(error),
                }
            }
        });
        let datagram = vec![0x5a; DATAGRAM];
        let sent = (0..DATAGRAMS).try_for_each(|_| sender.send(&datagram).map(drop));
        done.store(true, Ordering::Release);
        let burst = receiving.join().unwrap_or_else(|_| Err(io::ErrorKind::Other.into()));
        sent.and(burst)
    })
}
