//! What the user says about ssh.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use terahaul_copy::ssh::Ssh;

use super::plan::Reached;
use crate::cli::SshArgs;
use crate::exit::Failure;

/// ssh, as it is to be run.
pub fn ssh(args: &SshArgs) -> Result<Ssh, Failure> {
    let mut arguments = Vec::new();
    let mut flag = |name: &str, value: &OsStr| arguments.extend([name.into(), value.to_owned()]);
    args.config.iter().for_each(|file| flag("-F", file.as_os_str()));
    args.identity.iter().for_each(|file| flag("-i", file.as_os_str()));
    args.jump.iter().for_each(|hop| flag("-J", hop.as_ref()));
    args.port.iter().for_each(|port| flag("-p", port.to_string().as_ref()));
    args.option.iter().for_each(|option| flag("-o", option.as_ref()));
    args.login.iter().for_each(|user| flag("-l", user.as_ref()));
    for (asked, name) in [(args.ipv4, "-4"), (args.ipv6, "-6")] {
        if asked {
            arguments.push(name.into());
        }
    }
    // A script's variable that is not set: what comes next would be run in its place, and that is the host's name.
    let named = |program: &Option<String>| program.clone().filter(|program| !program.trim().is_empty());
    let rsh = named(&args.rsh).map(|command| {
        let unread = |error| Failure::usage(format!("-e {command} cannot be read, as {error}: close it"));
        command.parse().map_err(unread)
    });
    Ok(Ssh { rsh: rsh.transpose()?, arguments, far_command: named(&args.far_command) })
}

/// Refuses flags of ssh's that cannot be meant: rsync has other ones of their names, without a value, and then the value is something
/// that was to be copied. Those that mean the same to rsync (`-4`, `-6`, `-e`) are passed over where ssh is not used, as it does.
pub fn check(args: &SshArgs, reached: Reached) -> Result<(), Failure> {
    let SshArgs {
        rsh: _,
        config,
        identity,
        jump,
        port,
        option,
        login,
        ipv4: _,
        ipv6: _,
        far_command,
        install,
        ports,
        through_ssh,
    } = args;
    let given = [
        ("-F", config.is_some(), "ssh's (configuration file; rules are --include and --exclude here)"),
        ("-J", jump.is_some(), "ssh's (jump host)"),
        ("-i", !identity.is_empty(), "ssh's (key file; rsync's -i is --itemize-changes here)"),
        (
            "-P",
            port.is_some(),
            "ssh's (port; progress is always shown here, and what has arrived always kept)",
        ),
        ("-o", !option.is_empty(), "ssh's (options; rsync's -o is --owner here)"),
        ("-l", login.is_some(), "ssh's (user; links are always copied as links here)"),
        ("--far-command", far_command.is_some(), "for a host"),
        ("--install", *install, "for a host"),
        ("--ports", ports.is_some(), "for a host"),
        ("--through-ssh", *through_ssh, "for a host"),
    ];
    let why = match reached {
        Reached::Host => None,
        Reached::Depot => Some("a depot is reached without ssh"),
        Reached::Nothing => Some("nothing here is on another host"),
    };
    if let (Some(why), Some((flag, _, meaning))) = (why, given.into_iter().find(|(_, given, _)| *given)) {
        return Err(Failure::usage(format!("{why}, and {flag} is {meaning}: leave it out")));
    }
    if let Some(file) = identity.iter().find(|file| !may_be_key(file)) {
        return Err(Failure::usage(format!(
            "'{}' is no key, and -i is followed by ssh's key file: name one, or write --itemize-changes for rsync's -i",
            file.display()
        )));
    }
    if let Some(limit) = login.iter().find(|user| user.bytes().all(|byte| byte.is_ascii_digit())) {
        return Err(Failure::usage(format!(
            "-l is followed by ssh's user, and '{limit}' is a number: scp's limit is --limit {limit}kbit here; a user who is called so goes before the host, as in {limit}@host:"
        )));
    }
    match config.iter().find(|file| file.is_dir()) {
        Some(folder) => Err(Failure::usage(format!(
            "'{}' is a folder, and -F is followed by ssh's configuration file",
            folder.display()
        ))),
        None => Ok(()),
    }
}

/// Refuses a private key that is the first of several things to be copied to another host: behind flags of rsync's, `-i` is not ssh's.
pub fn check_first(first: &Path) -> Result<(), Failure> {
    if !beginning(first).is_some_and(|beginning| is_private(&beginning)) {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "'{0}' is a private key, and behind flags of rsync's -i is --itemize-changes: write '-i {0}' by itself for ssh's; to copy it, name it last",
        first.display()
    )))
}

/// Whether ssh may take it for a key: a private one, or a public one whose other half an agent has.
fn may_be_key(file: &Path) -> bool {
    const PUBLIC: [&str; 3] = ["ssh-", "ecdsa-", "sk-"];
    if file.to_str().is_some_and(|name| name.starts_with('~')) {
        // ssh knows whose home that is.
        return true;
    }
    if !file.exists() || file.is_dir() {
        return false;
    }
    // What cannot be read, ssh says; a pipe of the shell's can be read once only.
    beginning(file)
        .is_none_or(|text| is_private(&text) || PUBLIC.iter().any(|kind| text.trim_start().starts_with(kind)))
}

/// In a file of such keys, text may come before one.
fn is_private(text: &str) -> bool {
    text.lines().any(|line| line.starts_with("-----BEGIN ") && line.ends_with("PRIVATE KEY-----"))
}

/// The first 4 KiB of a regular file.
fn beginning(path: &Path) -> Option<String> {
    let file = path.is_file().then(|| File::open(path).ok())??;
    let mut bytes = Vec::new();
    file.take(4096).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::Exit;

    #[test]
    fn no_program_in_place_of_ssh_is_ssh() {
        let of = |text: &str| ssh(&SshArgs { rsh: Some(text.into()), ..SshArgs::default() });
        let rsh = |text: &str| of(text).unwrap().rsh.map(|words| words.to_string());
        assert_eq!([rsh(""), rsh(" "), rsh("rsh -x")], [None, None, Some("rsh -x".into())]);
        let unread = of("ssh -i 'key").unwrap_err();
        assert_eq!((unread.exit, unread.message.contains("is not closed")), (Exit::Usage, true), "{unread}");
    }

    #[test]
    fn what_was_to_be_copied_is_not_taken_for_a_key_or_a_user() {
        let key = |path: &str| SshArgs { identity: vec![path.into()], ..SshArgs::default() };
        assert!(check(&key("/"), Reached::Host).unwrap_err().message.contains("--itemize-changes"));
        assert!(check(&key("/no/such/key"), Reached::Host).is_err());
        assert!(check(&key("Cargo.toml"), Reached::Host).is_err(), "a file that is no key");
        assert!(check(&key("~/.ssh/id"), Reached::Host).is_ok());
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("id");
        std::fs::write(&file, "-----BEGIN OPENSSH PRIVATE KEY-----\n").unwrap();
        assert!(check(&key(file.to_str().unwrap()), Reached::Host).is_ok());
        assert!(check_first(&file).is_err() && check_first(Path::new("Cargo.toml")).is_ok());
        let install = SshArgs { install: true, ..SshArgs::default() };
        assert!(check(&install, Reached::Nothing).is_err() && check(&install, Reached::Host).is_ok());
        let user = SshArgs { login: Some("source".into()), ..SshArgs::default() };
        assert!(check(&user, Reached::Nothing).unwrap_err().message.contains("-l is ssh's"));
        assert!(check(&user, Reached::Depot).unwrap_err().message.contains("a depot is reached without ssh"));
        assert!(check(&user, Reached::Host).is_ok());
        let limit = SshArgs { login: Some("8000".into()), ..SshArgs::default() };
        assert!(
            check(&limit, Reached::Host).unwrap_err().message.contains("--limit 8000kbit"),
            "as scp has it"
        );
    }
}
