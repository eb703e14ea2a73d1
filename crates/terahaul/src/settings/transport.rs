//! `--transport`.

use terahaul_net::client::Transport;

/// Reads `auto`, `tcp` or `udp`.
pub fn parse_transport(text: &str) -> Result<Transport, String> {
    match text {
        "auto" => Ok(Transport::Auto),
        "tcp" => Ok(Transport::Tcp),
        "udp" => Ok(Transport::Udp),
        _ => Err("give auto, tcp or udp".to_owned()),
    }
}
