//! What the same command is known by when it is run again.

use std::os::unix::ffi::OsStrExt;

use crate::job::Job;
use crate::operand::Host;
use crate::rules::Pattern;
use crate::ssh::Ssh;

impl Ssh {
    /// What tells a host from others in this command: the same name may be another machine's at another port or behind another
    /// hop, and another user's home.
    pub(crate) fn place(&self, host: &Host) -> Vec<u8> {
        const SAYS_WHERE: [&str; 4] = ["-F", "-J", "-l", "-p"];
        const OPTIONS: [&str; 5] = ["hostname", "port", "user", "proxyjump", "proxycommand"];
        let says_where = |option: &[u8]| {
            let name = option.split(|byte| b"= \t".contains(byte)).next().unwrap_or_default();
            OPTIONS.iter().any(|says_where| name.eq_ignore_ascii_case(says_where.as_bytes()))
        };
        let mut place = host.destination().into_bytes();
        let mut say = |flag: &str, value: &[u8]| place.extend([b"\0", flag.as_bytes(), b" ", value].concat());
        host.port.iter().for_each(|port| say("-p", port.to_string().as_bytes()));
        self.rsh.iter().for_each(|rsh| say("-e", rsh.to_string().as_bytes()));
        for [flag, value] in self.arguments.array_windows() {
            let Some(flag) = flag.to_str() else { continue };
            if SAYS_WHERE.contains(&flag) || flag == "-o" && says_where(value.as_bytes()) {
                say(flag, value.as_bytes());
            }
        }
        place
    }
}

/// The same for the same command, from which the staging folder has its name: a hash over what is copied from and to.
pub(crate) fn copy_key<'a>(
    job: &Job,
    sources: impl Iterator<Item = &'a [u8]>,
    from: &[u8],
    to: &[u8],
) -> [u8; 16] {
    let mut hasher = blake3::Hasher::new_derive_key("terahaul 1 copy key");
    let mut field = |kind: u8, bytes: &[u8]| {
        hasher.update(&[kind]).update(&(bytes.len() as u64).to_le_bytes()).update(bytes);
    };
    let machine = rustix::system::uname();
    field(b'm', machine.nodename().to_bytes());
    let here = std::env::current_dir().unwrap_or_default();
    field(b'h', here.as_os_str().as_bytes());
    field(b'f', from);
    sources.for_each(|source| field(b's', source));
    field(b't', to);
    for Pattern { include, pattern } in &job.selection.rules {
        field(if *include { b'i' } else { b'x' }, pattern);
    }
    job.selection.list.iter().flat_map(|list| &list.paths).for_each(|path| field(b'l', &path.0));
    let mut key = [0; 16];
    key.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_copy_from_one_machine_has_left_is_never_taken_for_anothers_of_the_same_name() {
        let host = |port| Host { user: None, name: "localhost".into(), port };
        let ssh = |arguments: &[&str]| Ssh {
            arguments: arguments.iter().map(Into::into).collect(),
            ..Ssh::default()
        };
        let plain = ssh(&[]).place(&host(None));
        assert_eq!(plain, b"localhost");
        let others = [
            ssh(&["-p", "2201"]).place(&host(None)),
            ssh(&["-p", "2202"]).place(&host(None)),
            ssh(&["-l", "other"]).place(&host(None)),
            ssh(&["-i", "key", "-J", "hop"]).place(&host(None)),
            ssh(&["-o", "Port=2203"]).place(&host(None)),
            ssh(&["-o", "user other"]).place(&host(None)),
            ssh(&[]).place(&host(Some(2204))),
            Ssh { rsh: Some("ssh -p 2205".parse().unwrap()), ..Ssh::default() }.place(&host(None)),
        ];
        for (at, place) in others.iter().enumerate() {
            assert!(*place != plain && !others[..at].contains(place), "{}", place.escape_ascii());
        }
        let same = ssh(&["-i", "key", "-o", "ServerAliveInterval=5", "-4"]).place(&host(None));
        assert_eq!(same, plain, "how it is reached does not matter");
    }
}
