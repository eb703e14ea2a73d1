//! Who counts as one peer where something is counted by address.

use std::net::IpAddr;

/// The addresses that one peer is taken to have: an IPv4 address, or an IPv6 /64, all of which belongs to one customer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PeerNetwork {
    /// An IPv4 address, also where a listener for both kinds shows it as part of IPv6.
    V4([u8; 4]),
    /// An IPv6 network: the first half of its addresses.
    V6([u8; 8]),
}

impl PeerNetwork {
    /// The bytes that tell it from others.
    pub fn prefix(&self) -> &[u8] {
        match self {
            Self::V4(address) => address,
            Self::V6(prefix) => prefix,
        }
    }
}

impl From<IpAddr> for PeerNetwork {
    fn from(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self::V4(address.octets()),
            IpAddr::V6(address) => {
                let [a, b, c, d, e, f, g, h, ..] = address.octets();
                Self::V6([a, b, c, d, e, f, g, h])
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ipv4_address_is_one_peer_and_so_is_an_ipv6_64() {
        let network = |text: &str| PeerNetwork::from(text.parse::<IpAddr>().unwrap());
        assert_eq!(network("::ffff:192.0.2.1"), network("192.0.2.1"));
        assert_ne!(network("::ffff:192.0.2.1"), network("::ffff:192.0.2.2"));
        assert_eq!(network("2001:db8:0:7::1"), network("2001:db8:0:7:ffff::2"));
        assert_ne!(network("2001:db8:0:7::1"), network("2001:db8:0:8::1"));
    }
}
