//! Taking datagrams from a socket, with what the system says of them: when they came, to which address, whether it has put several of them
//! together, and whether routers may mark them, or have.
//!
//! On Linux this does what `quinn-udp` does elsewhere, which has room for 96 bytes of that: all of it takes 112, and 120 over IPv6. What
//! was cut off were the marks, of all that was put together, which is nearly all that a fast line brings.
//!
//! Sandboxes may have the call for one and not that for many.

use std::io;
use std::net::UdpSocket;

use quinn_udp::{RecvMeta, UdpSocketState};

/// Fills `buffers` from the first on, as far as datagrams have come, and `metas` with what is said of each. Returns how many.
#[cfg(not(target_os = "linux"))]
pub(super) fn receive(
    socket: &UdpSocket,
    state: &UdpSocketState,
    buffers: &mut [Vec<u8>],
    metas: &mut [RecvMeta],
) -> io::Result<usize> {
    let mut slices: Vec<io::IoSliceMut<'_>> =
        buffers.iter_mut().map(|buffer| io::IoSliceMut::new(buffer)).collect();
    state.recv(socket.into(), &mut slices, metas)
}

#[cfg(target_os = "linux")]
pub(super) use linux::receive;

#[cfg(target_os = "linux")]
mod linux {
    use std::io::IoSliceMut;
    use std::net::{SocketAddr, SocketAddrV4, SocketAddrV6};
    use std::os::fd::AsRawFd;
    use std::time::Duration;

    use nix::cmsg_space;
    use nix::errno::Errno;
    use nix::libc;
    use nix::sys::socket::{
        ControlMessageOwned, MsgFlags, MultiHeaders, RecvMsg, SockaddrStorage, recvmmsg, recvmsg,
    };
    use nix::sys::time::TimeSpec;
    use quinn_udp::EcnCodepoint;

    use super::*;

    const FLAGS: MsgFlags = MsgFlags::MSG_DONTWAIT;

    /// Fills `buffers` from the first on, as far as datagrams have come, and `metas` with what is said of each. Returns how many.
    pub fn receive(
        socket: &UdpSocket,
        _: &UdpSocketState,
        buffers: &mut [Vec<u8>],
        metas: &mut [RecvMeta],
    ) -> io::Result<usize> {
        match many(socket, buffers, metas) {
            // No system call, or one that is not allowed.
            Err(Errno::ENOSYS | Errno::EPERM) => Ok(one_by_one(socket, buffers, metas)?),
            came => Ok(came?),
        }
    }

    /// What a system takes to say all that it has to say of a datagram.
    fn room() -> Vec<u8> {
        cmsg_space!(TimeSpec, libc::c_int, libc::in6_pktinfo, libc::c_int)
    }

    fn many(socket: &UdpSocket, buffers: &mut [Vec<u8>], metas: &mut [RecvMeta]) -> nix::Result<usize> {
        // The system writes into it how much of the room it has used, so that it serves once.
        let room = room();
        let mut headers = MultiHeaders::<SockaddrStorage>::preallocate(buffers.len(), Some(room));
        let mut slices: Vec<[IoSliceMut<'_>; 1]> =
            buffers.iter_mut().map(|buffer| [IoSliceMut::new(buffer)]).collect();
        let came = recvmmsg(socket.as_raw_fd(), &mut headers, slices.iter_mut(), FLAGS, None)?;
        Ok(came.zip(metas).map(|(message, meta)| *meta = told(&message)).count())
    }

    /// As many as there are: who gets fewer than there is room for takes the socket for empty.
    fn one_by_one(socket: &UdpSocket, buffers: &mut [Vec<u8>], metas: &mut [RecvMeta]) -> nix::Result<usize> {
        let mut came = 0;
        for (buffer, meta) in buffers.iter_mut().zip(metas) {
            *meta = match one(socket, buffer) {
                Ok(meta) => meta,
                Err(error) if came == 0 => return Err(error),
                // What is wrong besides shows at the next call.
                Err(_) => break,
            };
            came += 1;
        }
        Ok(came)
    }

    fn one(socket: &UdpSocket, buffer: &mut [u8]) -> nix::Result<RecvMeta> {
        let (mut slice, mut room) = ([IoSliceMut::new(buffer)], room());
        let message = recvmsg::<SockaddrStorage>(socket.as_raw_fd(), &mut slice, Some(&mut room), FLAGS)?;
        Ok(told(&message))
    }

    fn told(message: &RecvMsg<'_, '_, SockaddrStorage>) -> RecvMeta {
        let mut meta = RecvMeta::default();
        (meta.len, meta.stride) = (message.bytes, message.bytes);
        if let Some(from) = message.address.as_ref().and_then(address) {
            meta.addr = from;
        }
        for told in message.cmsgs().into_iter().flatten() {
            match told {
                ControlMessageOwned::ScmTimestampns(stamp) => meta.timestamp = Some(Duration::from(stamp)),
                ControlMessageOwned::UdpGroSegments(len) => meta.stride = len.try_into().unwrap_or(meta.len),
                ControlMessageOwned::Ipv4PacketInfo(info) => {
                    meta.dst_ip = Some(info.ipi_addr.s_addr.to_ne_bytes().into());
                }
                ControlMessageOwned::Ipv6PacketInfo(info) => {
                    meta.dst_ip = Some(info.ipi6_addr.s6_addr.into());
                }
                ControlMessageOwned::Ipv4Tos(bits) => meta.ecn = EcnCodepoint::from_bits(bits),
                ControlMessageOwned::Ipv6TClass(bits) => meta.ecn = EcnCodepoint::from_bits(bits as u8),
                _ => {}
            }
        }
        meta
    }

    fn address(storage: &SockaddrStorage) -> Option<SocketAddr> {
        let v4 = storage.as_sockaddr_in().map(|from| SocketAddrV4::from(*from).into());
        v4.or_else(|| storage.as_sockaddr_in6().map(|from| SocketAddrV6::from(*from).into()))
    }

    #[cfg(test)]
    mod tests {
        use quinn_udp::Transmit;

        use super::*;

        #[test]
        fn one_at_a_time_is_told_of_as_many_at_once_are() {
            let [from, other, to] = [(); 3].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
            let [sender, _put_together] =
                [&from, &to].map(|socket| UdpSocketState::new(socket.into()).unwrap());
            let transmit = Transmit {
                destination: to.local_addr().unwrap(),
                ecn: Some(EcnCodepoint::Ect0),
                contents: &[7; 2_500],
                segment_size: (sender.max_gso_segments() > 1).then_some(1_200),
                src_ip: None,
            };
            type Way = fn(&UdpSocket, &mut [Vec<u8>], &mut [RecvMeta]) -> nix::Result<usize>;
            let [many, one] = [many as Way, one_by_one].map(|way| {
                assert_eq!(
                    way(&to, &mut [vec![0; 64 << 10]], &mut [RecvMeta::default()]),
                    Err(Errno::EAGAIN)
                );
                sender.try_send((&from).into(), &transmit).unwrap();
                other.send_to(b"behind it", transmit.destination).unwrap();
                let mut buffers = [(); 3].map(|()| vec![0; 64 << 10]);
                let mut metas = [RecvMeta::default(); 3];
                assert_eq!(way(&to, &mut buffers, &mut metas), Ok(2), "all that there is");
                let [meta, behind, _] = metas;
                assert_eq!(&buffers[1][..behind.len], b"behind it");
                assert!(meta.timestamp.is_some());
                (buffers[0][..meta.len].to_vec(), meta.stride, meta.addr, meta.ecn, meta.dst_ip)
            });
            assert_eq!(one, many);
            assert_eq!(one.0, vec![7; 2_500], "what was put together comes together");
        }
    }
}
