//! What the user says about ssh.

use std::ffi::OsStr;

use terahaul_copy::ssh::Ssh;

use crate::cli::SshArgs;
use crate::exit::Failure;

/// ssh, as it is to be run.
pub fn ssh(args: &SshArgs) -> Ssh {
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
    Ssh { rsh: args.rsh.clone(), arguments, far_command: args.far_command.clone() }
}

/// Refuses flags of ssh's that cannot be meant: rsync has other ones of their names, without a value, and then the value is something
/// that was to be copied. `uses_ssh`: one end is on another host.
pub fn check(args: &SshArgs, uses_ssh: bool) -> Result<(), Failure> {
    let given = [
        ("-i", !args.identity.is_empty(), "key file; rsync's -i is --itemize-changes here"),
        ("-P", args.port.is_some(), "port; progress is always shown here, and what has arrived always kept"),
        ("-o", !args.option.is_empty(), "options; rsync's -o is --owner here"),
        ("-l", args.login.is_some(), "user; links are always copied as links here"),
    ];
    if let Some((flag, _, meaning)) = given.into_iter().find(|(_, given, _)| *given && !uses_ssh) {
        return Err(Failure::usage(format!(
            "nothing here is on another host, and {flag} is ssh's ({meaning}): leave it out"
        )));
    }
    match args.identity.iter().find(|file| !file.exists() || file.is_dir()) {
        Some(file) => Err(Failure::usage(format!(
            "'{}' is no file, and -i is followed by ssh's key file: name one, or write --itemize-changes for rsync's -i",
            file.display()
        ))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_to_be_copied_is_not_taken_for_a_key_or_a_user() {
        let key = |path: &str| SshArgs { identity: vec![path.into()], ..SshArgs::default() };
        assert!(check(&key("/"), true).unwrap_err().message.contains("--itemize-changes"));
        assert!(check(&key("/no/such/key"), true).is_err());
        assert!(check(&key("Cargo.toml"), true).is_ok());
        let user = SshArgs { login: Some("source".into()), ..SshArgs::default() };
        assert!(check(&user, false).unwrap_err().message.contains("-l is ssh's"));
        assert!(check(&user, true).is_ok());
    }
}
