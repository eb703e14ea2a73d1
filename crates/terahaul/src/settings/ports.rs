//! `--ports`.

/// Reads `50000-50100` or one port.
pub fn parse_ports(text: &str) -> Result<(u16, u16), String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    match (first.trim().parse(), last.trim().parse()) {
        (Ok(first), Ok(last)) if 0 < first && first <= last => Ok((first, last)),
        _ => Err("give a range of ports such as 50000-50100".into()),
    }
}

/// One port, of ssh on another host.
pub fn parse_port(text: &str) -> Result<u16, String> {
    let port = text.parse().ok().filter(|port| *port > 0);
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    port.ok_or_else(|| match is_number {
        true => "a port is a number from 1 to 65535".into(),
        false => "it is followed by ssh's port, as in scp; progress is always shown here, and what has arrived always kept".into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_a_range_or_one() {
        assert_eq!(parse_ports("5000-5010"), Ok((5000, 5010)));
        assert_eq!(parse_ports("5000"), Ok((5000, 5000)));
        for text in ["", "0-1", "9-8", "1-70000", "a", "1-2-3"] {
            assert!(parse_ports(text).is_err(), "{text}");
        }
    }
}
