//! `--bind`.

use std::net::IpAddr;

/// Reads one address.
pub fn parse_address(text: &str) -> Result<IpAddr, String> {
    text.trim()
        .parse()
        .map_err(|_| "give addresses of this machine, such as 192.0.2.7, with commas between them".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_number_and_not_a_name() {
        assert_eq!(parse_address(" 192.0.2.7"), Ok(IpAddr::from([192, 0, 2, 7])));
        assert!(parse_address("2001:db8::1").is_ok());
        for text in ["", "eth0", "192.0.2.7:80", "[2001:db8::1]", "localhost"] {
            assert!(parse_address(text).is_err(), "{text}");
        }
    }
}
