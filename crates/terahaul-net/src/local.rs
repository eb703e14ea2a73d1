//! Addresses of this machine that a client's connections leave from, where the user names some: each is a network path of its
//! own.
//!
//! Which interface a packet takes is the system's routing to decide: binding says what address it comes from, and rules by
//! source address send it the right way.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;

/// Most of them: as many as UDP channels.
const MOST: usize = 16;

/// Addresses of this machine, in the user's order. None: the system chooses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LocalAddresses(Arc<[IpAddr]>);

/// Why addresses cannot be left from.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LocalAddressError {
    /// No interface has it.
    #[error("{0} is not an address of this machine: `ip addr` lists them")]
    NotHere(IpAddr),
    /// It is on every interface, and does not say which.
    #[error("{0} is link-local, and leads nowhere without an interface: name another address of it")]
    LinkLocal(IpAddr),
    /// The same one again.
    #[error("{0} is named twice: each path needs an address of its own")]
    Twice(IpAddr),
    /// More than there are channels.
    #[error("{0} addresses are more than can be used at once: name at most {MOST}")]
    TooMany(usize),
    /// IPv4 and IPv6 do not reach each other.
    #[error(
        "the other end has the address {0}, and none of those to leave from is of its kind: name one that is"
    )]
    OtherKind(IpAddr),
}

impl LocalAddresses {
    /// Of these addresses, each of which this machine has.
    pub fn new(addresses: Vec<IpAddr>) -> Result<Self, LocalAddressError> {
        if addresses.len() > MOST {
            return Err(LocalAddressError::TooMany(addresses.len()));
        }
        for (at, address) in addresses.iter().enumerate() {
            if addresses[..at].contains(address) {
                return Err(LocalAddressError::Twice(*address));
            }
            if is_link_local(*address) {
                return Err(LocalAddressError::LinkLocal(*address));
            }
            if !is_here(*address) {
                return Err(LocalAddressError::NotHere(*address));
            }
        }
        Ok(Self(addresses.into()))
    }

    /// How `there` is reached. Addresses that this machine has lost meanwhile are left out.
    pub(crate) fn towards(&self, there: SocketAddr) -> Result<Reach, LocalAddressError> {
        let of_its_kind = || self.0.iter().filter(|address| address.is_ipv4() == there.is_ipv4());
        let from: Vec<IpAddr> = of_its_kind().copied().filter(|address| is_here(*address)).collect();
        match of_its_kind().next() {
            _ if self.0.is_empty() || !from.is_empty() => Ok(Reach { there, from }),
            Some(lost) => Err(LocalAddressError::NotHere(*lost)),
            None => Err(LocalAddressError::OtherKind(there.ip())),
        }
    }
}

/// What else keeps a socket from being bound, as a limit on open files, says nothing of the address.
fn is_here(address: IpAddr) -> bool {
    let is_absent = |error: io::Error| error.kind() == io::ErrorKind::AddrNotAvailable;
    let has_none = address.is_unspecified() || address.is_multicast();
    !has_none && !UdpSocket::bind((address, 0)).is_err_and(is_absent)
}

fn is_link_local(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.is_unicast_link_local())
}

/// Where the other end is, and the addresses of this machine that lead there; none where the system chooses.
#[derive(Clone, Debug)]
pub(crate) struct Reach {
    pub there: SocketAddr,
    pub from: Vec<IpAddr>,
}

impl Reach {
    /// Where a channel leaves from: they take the addresses in turn.
    pub fn local(&self, channel: usize) -> Option<IpAddr> {
        self.from.get(channel.checked_rem(self.from.len())?).copied()
    }
}

/// Connects to `there` from `local`, if that is given.
pub(crate) fn connect(
    there: SocketAddr,
    local: Option<IpAddr>,
    patience: std::time::Duration,
) -> io::Result<std::net::TcpStream> {
    use socket2::{Domain, Socket, Type};
    let Some(local) = local else { return std::net::TcpStream::connect_timeout(&there, patience) };
    let socket = Socket::new(Domain::for_address(there), Type::STREAM, None)?;
    socket.bind(&SocketAddr::new(local, 0).into())?;
    socket.connect_timeout(&there.into(), patience)?;
    Ok(socket.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(texts: &[&str]) -> Result<LocalAddresses, LocalAddressError> {
        LocalAddresses::new(texts.iter().map(|text| text.parse().unwrap()).collect())
    }

    /// It was said not to be an address of this machine, whose list has it.
    #[test]
    fn a_link_local_address_is_no_address_to_leave_from() {
        let error = addresses(&["fe80::1"]).unwrap_err();
        assert!(error.to_string().contains("without an interface"), "{error}");
    }

    #[test]
    fn an_address_that_this_machine_has_not_is_named() {
        // TEST-NET-1 (RFC 5737): nobody has it.
        let error = addresses(&["127.0.0.1", "192.0.2.1"]).unwrap_err();
        assert_eq!(error.to_string(), "192.0.2.1 is not an address of this machine: `ip addr` lists them");
        assert!(addresses(&["0.0.0.0"]).is_err() && addresses(&["224.0.0.1"]).is_err());
        assert_eq!(
            addresses(&["127.0.0.1", "127.0.0.1"]),
            Err(LocalAddressError::Twice("127.0.0.1".parse().unwrap()))
        );
    }

    #[test]
    fn channels_take_the_addresses_of_the_other_ends_kind_in_turn() {
        let there: SocketAddr = "127.0.0.1:443".parse().unwrap();
        let reach = addresses(&["127.0.0.1", "127.0.0.2"]).unwrap().towards(there).unwrap();
        let local = |channel| reach.local(channel).unwrap().to_string();
        assert_eq!([local(0), local(1), local(2)], ["127.0.0.1", "127.0.0.2", "127.0.0.1"]);
        let any = LocalAddresses::default().towards(there).unwrap();
        assert_eq!(any.local(3), None);
        let other = addresses(&["127.0.0.1"]).unwrap().towards("[::1]:443".parse().unwrap()).unwrap_err();
        assert_eq!(other, LocalAddressError::OtherKind("::1".parse().unwrap()));
    }
}
