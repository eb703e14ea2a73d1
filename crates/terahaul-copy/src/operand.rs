//! What can be named on the command line: local paths, `[user@]host:path`, `ssh://` URLs, depots.
//!
//! scp's rule tells the first two apart: a colon before any slash ends a host's name.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

/// A source or a destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operand {
    /// A path on this machine.
    Local(PathBuf),
    /// A path on another one.
    Remote(Remote),
    /// A depot's address or a link: what `send` and `receive` take.
    Depot(String),
}

/// A path on another machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remote {
    /// Where.
    pub host: Host,
    /// The path there; a relative one starts at the user's home.
    pub path: Vec<u8>,
}

/// Another machine, as ssh is told of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// The user there, where it is not ssh's choice.
    pub user: Option<String>,
    /// A name that ssh knows, or an address without brackets.
    pub name: String,
    /// The port of an `ssh://` URL.
    pub port: Option<u16>,
}

/// Why an operand cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OperandError {
    /// An empty argument.
    #[error("an empty path names nothing: check the command's quotes")]
    Empty,
    /// Not `ssh://[user@]host[:port]/path`.
    #[error("'{0}' is not an address: it looks like ssh://user@host:22/path")]
    Url(String),
    /// An address of something else, which would pass for a host's.
    #[error(
        "'{0}' is not spoken here: give host:path or ssh://host/path, which need 'terahaul' on the other host, or a depot's https://… address"
    )]
    Spoken(String),
    /// A host's or user's name that ssh or a shell could take for something else.
    #[error("'{0}' cannot be a host's or user's name: check the command's quotes")]
    Name(String),
}

impl Operand {
    /// Reads an argument.
    pub fn parse(text: &OsStr) -> Result<Self, OperandError> {
        let bytes = text.as_bytes();
        if bytes.is_empty() {
            return Err(OperandError::Empty);
        }
        if bytes.starts_with(b"https://") || bytes.starts_with(b"http://") {
            let url = || OperandError::Url("https://…".into());
            return Ok(Self::Depot(text.to_str().ok_or_else(url)?.to_owned()));
        }
        if let Some(rest) = bytes.strip_prefix(b"ssh://") {
            return parse_url(rest).map(Self::Remote);
        }
        match split_host(bytes) {
            Some((host, path)) if is_elsewhere(host, path) => {
                Err(OperandError::Spoken(text.to_string_lossy().escape_debug().to_string()))
            }
            Some((host, path)) => {
                Ok(Self::Remote(Remote { host: parse_host(host, None)?, path: path.to_vec() }))
            }
            None => Ok(Self::Local(PathBuf::from(text))),
        }
    }
}

/// Whether it is a daemon of rsync's (`host::module`) or another scheme's URL.
fn is_elsewhere(host: &[u8], path: &[u8]) -> bool {
    // Not each word: a script that joins a host and an absolute path has two slashes.
    const SCHEMES: &str =
        "rsync ftp ftps sftp scp file s3 smb nfs webdav dav davs gsiftp sshftp srm gs az bbcp bbftp hdfs";
    let is_scheme = || SCHEMES.split(' ').any(|scheme| scheme.as_bytes() == host);
    path.starts_with(b":") || path.starts_with(b"//") && is_scheme()
}

/// The host part and the path, if a colon comes before any slash. In brackets, colons are an IPv6 address's.
fn split_host(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut in_brackets = false;
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            b'[' if at == 0 || bytes[at - 1] == b'@' => in_brackets = true,
            b']' => in_brackets = false,
            b'/' => return None,
            b':' if !in_brackets => {
                return (at > 0).then(|| (&bytes[..at], &bytes[at + 1..]));
            }
            _ => {}
        }
    }
    None
}

fn parse_url(rest: &[u8]) -> Result<Remote, OperandError> {
    let bad = || OperandError::Url(format!("ssh://{}", String::from_utf8_lossy(rest)));
    let slash = rest.iter().position(|&b| b == b'/').ok_or_else(bad)?;
    let (authority, path) = rest.split_at(slash);
    let after_user = authority.iter().rposition(|&b| b == b'@').map_or(0, |at| at + 1);
    let after_brackets = authority.iter().rposition(|&b| b == b']').unwrap_or(after_user);
    let colon = authority[after_brackets..].iter().position(|&b| b == b':').map(|at| after_brackets + at);
    let (host, port) = match colon {
        Some(at) => {
            let port = str::from_utf8(&authority[at + 1..]).ok().and_then(|port| port.parse().ok());
            (&authority[after_user..at], Some(port.ok_or_else(bad)?))
        }
        None => (&authority[after_user..], None),
    };
    let user = decode(&authority[..after_user]).ok_or_else(bad)?;
    let host = [&user, &*without_escaped_zone(host)].concat();
    let path = decode(path).ok_or_else(bad)?;
    // As git has it: `/~/x` is below the home, `/~user/x` below that user's, everything else absolute.
    let path = match path.strip_prefix(b"/") {
        Some(below) if below.starts_with(b"~") => below.strip_prefix(b"~/").unwrap_or(below).to_vec(),
        _ => path,
    };
    Ok(Remote { host: parse_host(&host, port)?, path })
}

/// A zone of IPv6 has a percent sign of its own, which is written as it is or escaped (RFC 6874).
fn without_escaped_zone(host: &[u8]) -> Cow<'_, [u8]> {
    match host.windows(3).position(|three| three == b"%25") {
        // The number 25 is a zone, too.
        Some(at) if host.starts_with(b"[") && host.get(at + 3) != Some(&b']') => {
            Cow::Owned([&host[..=at], &host[at + 3..]].concat())
        }
        _ => Cow::Borrowed(host),
    }
}

fn decode(path: &[u8]) -> Option<Vec<u8>> {
    let mut decoded = Vec::with_capacity(path.len());
    let mut rest = path;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'%' {
            decoded.push(byte);
            continue;
        }
        let (digits, after) = rest.split_first_chunk::<2>()?;
        let digits = str::from_utf8(digits).ok()?;
        decoded.push(u8::from_str_radix(digits, 16).ok().filter(|byte| *byte != 0)?);
        rest = after;
    }
    Some(decoded)
}

fn parse_host(bytes: &[u8], port: Option<u16>) -> Result<Host, OperandError> {
    let bad = || OperandError::Name(String::from_utf8_lossy(bytes).into_owned());
    let text = str::from_utf8(bytes).map_err(|_| bad())?;
    let (user, name) = match text.rsplit_once('@') {
        Some((user, name)) => (Some(user), name),
        None => (None, text),
    };
    let name = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    if !is_harmless(name) || user.is_some_and(|user| !is_harmless_user(user)) {
        return Err(bad());
    }
    Ok(Host { user: user.map(str::to_owned), name: name.to_owned(), port })
}

/// ssh hands these names on to its settings' commands, and an option is no name.
fn is_harmless(name: &str) -> bool {
    const NEVER: &str = "'`\"$\\;&<>|(){}*?!#";
    let fits = |c: char| !c.is_control() && !c.is_whitespace() && !NEVER.contains(c);
    !name.is_empty() && !name.starts_with('-') && name.chars().all(fits)
}

/// As ssh has it, a backslash may stand between a domain and a user's name, but not at the end.
fn is_harmless_user(user: &str) -> bool {
    !user.ends_with('\\') && is_harmless(&user.replace('\\', ""))
}

impl Host {
    /// What ssh calls its destination.
    pub fn destination(&self) -> String {
        match &self.user {
            Some(user) => format!("{user}@{}", self.name),
            None => self.name.clone(),
        }
    }
}

impl Remote {
    /// As the user would write it.
    pub fn display(&self) -> OsString {
        let mut text = self.host.destination().into_bytes();
        text.push(b':');
        text.extend_from_slice(&self.path);
        OsString::from_vec(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(text: &str) -> Operand {
        Operand::parse(OsStr::new(text)).unwrap()
    }

    fn remote(text: &str) -> (Option<String>, String, Option<u16>, String) {
        match parse(text) {
            Operand::Remote(Remote { host, path }) => {
                (host.user, host.name, host.port, String::from_utf8(path).unwrap())
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_colon_before_any_slash_ends_a_host() {
        let host = |name: &str, path: &str| (None, name.to_owned(), None, path.to_owned());
        assert_eq!(remote("h:p"), host("h", "p"));
        assert_eq!(remote("h:"), host("h", ""));
        assert_eq!(remote("h:/a:b/c d'\n"), host("h", "/a:b/c d'\n"));
        assert_eq!(remote("[::1]:/x"), host("::1", "/x"));
        assert_eq!(remote("u@[fe80::1%eth0]:x").0.as_deref(), Some("u"));
        assert_eq!(remote("a@b@h:p").0.as_deref(), Some("a@b"), "a user's name may hold an @");
        assert_eq!(remote("CORP\\u@h:p").0.as_deref(), Some("CORP\\u"), "and its domain before it");
        for local in ["./h:p", "/h:p", "a/h:p", ":p", "plain", "[x", "a[1]"] {
            assert!(matches!(parse(local), Operand::Local(_)), "{local}");
        }
    }

    #[test]
    fn urls_are_read_as_git_reads_them() {
        let url = |text: &str| remote(text);
        assert_eq!(url("ssh://u@h:2222/a%20b"), (Some("u".into()), "h".into(), Some(2222), "/a b".into()));
        assert_eq!(url("ssh://[::1]:7/x"), (None, "::1".into(), Some(7), "/x".into()));
        for (zone, meant) in [("%eth0", "%eth0"), ("%25eth0", "%eth0"), ("%25", "%25")] {
            let with_zone = url(&format!("ssh://[fe80::1{zone}]/x"));
            assert_eq!(with_zone, (None, format!("fe80::1{meant}"), None, "/x".into()));
        }
        assert_eq!(url("ssh://a%40b@h/x").0.as_deref(), Some("a@b"));
        for (path, below) in [("/~/x", "x"), ("/~bob/x", "~bob/x"), ("/~", "~"), ("/a/~/x", "/a/~/x")] {
            assert_eq!(url(&format!("ssh://h{path}")), (None, "h".into(), None, below.into()));
        }
        for bad in ["ssh://h", "ssh://h:x/p", "ssh://h/%zz", "ssh://h/%00"] {
            assert!(matches!(Operand::parse(OsStr::new(bad)), Err(OperandError::Url(_))), "{bad}");
        }
        assert!(matches!(parse("https://depot:1/#sha256=x"), Operand::Depot(_)));
    }

    #[test]
    fn what_is_another_tools_address_is_no_hosts() {
        for other in ["rsync://h/m", "h::m", "u@h::m/x", "ftp://h/x", "file:///x"] {
            assert!(matches!(Operand::parse(OsStr::new(other)), Err(OperandError::Spoken(_))), "{other}");
        }
        assert_eq!(remote("h:./:x").3, "./:x");
    }

    #[test]
    fn a_name_that_ssh_or_a_shell_could_take_for_something_else_is_refused() {
        for bad in [
            "-oProxyCommand=x:p",
            "h;x:p",
            "h\\x:p",
            "u\\@h:p",
            "\\-x@h:p",
            "u@-x:p",
            "$(x):p",
            "a b:p",
            "@h:p",
            "u@:p",
        ] {
            assert!(matches!(Operand::parse(OsStr::new(bad)), Err(OperandError::Name(_))), "{bad}");
        }
        assert_eq!(Operand::parse(OsStr::new("")), Err(OperandError::Empty));
    }

    proptest! {
        #[test]
        fn any_argument_is_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let text = OsString::from_vec(bytes);
            if let Ok(Operand::Remote(remote)) = Operand::parse(&text) {
                prop_assert!(!remote.host.name.starts_with('-') && !remote.host.destination().starts_with('-'));
            }
        }
    }
}
