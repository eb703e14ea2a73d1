//! `--transport`.

use terahaul_net::client::Transport;

/// Reads `tcp` or `udp`.
pub fn parse_transport(text: &str) -> Result<Transport, String> {
    match text {
        "tcp" => Ok(Transport::Tcp),
        "udp" => Ok(Transport::Udp),
        _ => Err("give tcp or udp".to_owned()),
    }
}
