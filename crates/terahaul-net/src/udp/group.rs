//! Several sockets at one port, so that as many threads take in what comes: each channel's packets always come to the same one, in
//! their order.
//!
//! Linux asks a program of three steps which socket of a port is to have a datagram (`SO_ATTACH_REUSEPORT_CBPF`, socket(7)). Dealing by
//! addresses, as it does without one, would put two channels of a session on one socket as often as not. Other systems do not deal
//! datagrams, and get one socket.

use std::io;
use std::net::SocketAddr;

use super::socket::Socket;

/// Most sockets: so many threads take in more than today's lines carry.
const MOST: usize = 8;

/// How many threads of this machine are to take in datagrams: the other half of its processors hashes and writes. Where there are two of
/// them, a second thread that takes in made transfers 6 % slower.
pub(crate) fn intakes() -> usize {
    (std::thread::available_parallelism().map_or(1, usize::from) / 2).clamp(1, MOST)
}

/// Opens the sockets of a port. The packets of a channel come to the one at its number, modulo how many there are.
pub(super) fn open(address: SocketAddr) -> io::Result<Vec<Socket>> {
    open_some(address, if cfg!(target_os = "linux") { intakes() } else { 1 })
}

fn open_some(address: SocketAddr, wanted: usize) -> io::Result<Vec<Socket>> {
    if wanted < 2 {
        return Socket::bind(address).map(|only| vec![only]);
    }
    let first = Socket::bind_shared(address)?;
    let address = first.address()?;
    let mut sockets = vec![first];
    while sockets.len() < wanted {
        sockets.push(Socket::bind_shared(address)?);
    }
    // Without the program datagrams are dealt by addresses, which is slower for some and right for all.
    if let Err(error) = deal_by_channel(&sockets[0], wanted) {
        tracing::debug!("datagrams are dealt by addresses: {error}");
    }
    Ok(sockets)
}

/// Has the datagrams of the port that `any` of its sockets is bound to dealt `among` so many of them.
#[cfg(target_os = "linux")]
fn deal_by_channel(any: &Socket, among: usize) -> io::Result<()> {
    use nix::libc::{
        BPF_A, BPF_ABS, BPF_ALU, BPF_B, BPF_K, BPF_LD, BPF_MOD, BPF_RET, sock_filter, sock_fprog,
    };
    use nix::sys::socket::{SetSockOpt, sockopt::AttachReusePortCbpf};
    use terahaul_wire::packet::PacketHeader;

    let step = |code: u32, k: u32| sock_filter { code: code as u16, jt: 0, jf: 0, k };
    let mut steps = [
        step(BPF_LD | BPF_B | BPF_ABS, PacketHeader::CHANNEL_AT as u32),
        step(BPF_ALU | BPF_MOD | BPF_K, among as u32),
        step(BPF_RET | BPF_A, 0),
    ];
    let program = sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
    // The program is that of all sockets at the port; Linux copies it.
    AttachReusePortCbpf.set(any.inner(), &program).map_err(io::Error::from)
}

#[cfg(not(target_os = "linux"))]
fn deal_by_channel(_: &Socket, _: usize) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use terahaul_wire::packet::{ChannelNumber, ConnectionId, PacketHeader, PacketNumber};

    use super::super::socket::Batch;
    use super::*;

    fn packet(channel: u8) -> Vec<u8> {
        let header = PacketHeader {
            channel: ChannelNumber(channel),
            number: PacketNumber(0),
            connection: ConnectionId([7; 8]),
        };
        header.encode().to_vec()
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn each_channel_comes_to_its_own_socket_whoever_sends() {
        let sockets = open_some(([127, 0, 0, 1], 0).into(), 3).unwrap();
        let to = sockets[0].address().unwrap();
        let senders = [(); 4].map(|()| Socket::towards(to, None).unwrap());
        let mut batch = Batch::new();
        for channel in 0..16 {
            let packet = packet(channel);
            for sender in &senders {
                sender.send(&packet, packet.len(), to, None, false);
            }
            let mut came = 0;
            while came < senders.len() {
                let own = &sockets[usize::from(channel) % sockets.len()];
                let before = came;
                own.receive(&mut batch, Duration::from_secs(10), &mut |bytes, _, _| {
                    assert_eq!(bytes, packet);
                    came += 1;
                })
                .unwrap();
                assert!(came > before, "a packet of channel {channel} came to another socket");
            }
        }
    }

    #[test]
    fn a_port_that_is_taken_by_another_program_is_refused() {
        let taken = std::net::UdpSocket::bind(("127.0.0.1", 0)).unwrap();
        for wanted in [1, 3] {
            assert!(open_some(taken.local_addr().unwrap(), wanted).is_err());
        }
    }
}
