//! `--transport`.

use terahaul_net::client::Transport;

/// Reads `auto`, `tcp`, `udp` or `tcp+udp`.
pub fn parse_transport(text: &str) -> Result<Transport, String> {
    match text {
        "auto" => Ok(Transport::Auto),
        "tcp" => Ok(Transport::Tcp),
        "udp" => Ok(Transport::Udp),
        "tcp+udp" => Ok(Transport::Both),
        _ => Err("give auto, tcp, udp or tcp+udp".to_owned()),
    }
}
