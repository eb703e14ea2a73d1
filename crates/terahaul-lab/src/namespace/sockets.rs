//! Which ports are listened on. Runs on a thread that is inside.

use std::io;

/// TCP ports with a listening socket, over IPv4 and IPv6.
pub(super) fn listening() -> io::Result<Vec<u16>> {
    let mut ports = Vec::new();
    for table in ["tcp", "tcp6"] {
        match std::fs::read_to_string(format!("/proc/thread-self/net/{table}")) {
            Ok(text) => ports.extend(text.lines().filter_map(listening_port)),
            // A kernel without IPv6.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    ports.sort_unstable();
    ports.dedup();
    Ok(ports)
}

/// The port of a line such as `0: 00000000:1451 00000000:0000 0A …`, if its state is LISTEN.
fn listening_port(line: &str) -> Option<u16> {
    let mut fields = line.split_whitespace();
    let local = fields.nth(1)?;
    let state = fields.nth(1)?;
    if state != "0A" {
        return None;
    }
    u16::from_str_radix(local.rsplit(':').next()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listening_sockets_are_found_in_the_kernels_table() {
        let line =
            "   0: 00000000:1451 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1";
        assert_eq!(listening_port(line), Some(5201));
        assert_eq!(listening_port(&line.replace(" 0A ", " 01 ")), None);
        assert_eq!(listening_port("  sl  local_address rem_address   st tx_queue rx_queue"), None);
    }
}
