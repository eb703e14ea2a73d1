//! `--listen`.

use std::net::SocketAddr;

/// Reads an address and a port.
pub fn parse_listen(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        "give an address of this machine and a port, such as 0.0.0.0:8750, or [::]:8750 for IPv6 as well"
            .into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_port_and_is_no_name() {
        assert_eq!(parse_listen("0.0.0.0:8750"), Ok(SocketAddr::from(([0, 0, 0, 0], 8750))));
        assert!(parse_listen("[::1]:0").is_ok());
        for text in ["8750", ":8750", "localhost:8750", "127.0.0.1", "::1:8750"] {
            assert!(parse_listen(text).is_err_and(|said| said.contains("0.0.0.0:8750")), "{text}");
        }
    }
}
