//! What is to be copied, what is seen of it meanwhile, and what came of it.

use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use terahaul_core::{ByteCount, EntryPath};
use terahaul_net::LocalAddresses;
use terahaul_net::client::{Options, PathProgress, Progress};

use crate::failures::Failures;
use crate::near::Way;
use crate::notes::Item;
use crate::operand::Host;
use crate::rules::{Pattern, Rules, Selection};
use crate::ssh::Ssh;

/// How to copy.
#[derive(Clone, Debug, Default)]
pub struct Job {
    /// Which entries.
    pub selection: Selection,
    /// What is done with what is there.
    pub rules: Rules,
    /// Channels and limit.
    pub options: Options,
    /// Addresses of this machine that the data leaves from, or arrives at.
    pub local: LocalAddresses,
    /// Ports that the far side may listen on.
    pub ports: Option<(u16, u16)>,
    /// The data goes through ssh even where the port can be reached.
    pub through_ssh: bool,
    /// Where the other host lacks the program, or has another version, it is given this one.
    pub install: bool,
}

/// What a copy came to.
#[derive(Clone, Debug, Default)]
pub struct Copied {
    /// What the receiver made of it.
    pub landed: Landed,
    /// Bytes that went over data channels.
    pub moved: ByteCount,
    /// What was not copied.
    pub failures: Failures,
    /// Which way the bytes went.
    pub way: Way,
    /// What each path carried, where addresses to leave from were named.
    pub paths: Vec<PathProgress>,
    /// What they travelled by at the end.
    pub transport: terahaul_net::client::Way,
}

/// What a receiver made of what it was offered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Landed {
    /// Files that have their names now and had not before.
    pub files: u64,
    /// Folders that were made.
    pub folders: u64,
    /// Symbolic links that were made.
    pub links: u64,
    /// Bytes of the files.
    pub bytes: u64,
    /// Files and links that were there already, and those that were to be left.
    pub unchanged: u64,
    /// Files and links that only got metadata.
    pub touched: u64,
    /// What the source has not, and was removed.
    pub removed: u64,
    /// More was there to remove than was allowed.
    pub limited: bool,
    /// Files, or parts of them, that an interrupted run had left.
    pub resumed: bool,
    /// Bytes of files that were sent.
    #[serde(default)]
    pub literal: u64,
    /// Bytes that were not sent, but copied out of the files that were replaced.
    #[serde(default)]
    pub matched: u64,
}

/// Hears what a copy has to say while it runs.
pub trait Report: Send + Sync {
    /// The bytes begin to go this way.
    fn started(&self, way: Way);
    /// Nothing has come from there for long.
    fn unanswered(&self, host: &str);
    /// The other host is given the program.
    fn installing(&self, host: &str);
    /// What was named there is a link, and is copied as one: its name.
    fn named_link(&self, name: &EntryPath);
    /// This is changed, or in a dry run would be. Told where [`Rules::itemise`] asks for it.
    fn item(&self, item: Item<'_>);
}

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

/// A look at a copy while it runs.
#[derive(Clone, Default)]
pub struct Looks(Arc<Mutex<Option<Look>>>);

/// How far a copy is, and whether its totals may still grow.
pub(crate) type Look = Box<dyn Fn() -> (Progress, bool) + Send>;

impl Looks {
    pub(crate) fn set(&self, look: Look) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(look);
    }

    /// How far it is, and whether the totals may still grow. `None` as long as the other host has not answered: until then ssh may have
    /// something to ask, at the terminal.
    pub fn progress(&self) -> Option<(Progress, bool)> {
        let look = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        look.as_ref().map(|look| look())
    }
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
