//! Running the system's ssh, so that its configuration, agent, jump hosts and prompts are all the user's.

use std::ffi::OsString;
use std::fmt;
use std::net::IpAddr;
use std::process::{ExitStatus, Stdio};
use std::str::FromStr;

use tokio::io::AsyncReadExt;
use tokio::process::{ChildStdin, ChildStdout, Command};

use crate::error::CopyError;
use crate::leash::Leash;
use crate::operand::Host;
use crate::overheard::Overheard;

/// What the user says about ssh, as scp's and rsync's flags have it.
#[derive(Clone, Debug, Default)]
pub struct Ssh {
    /// `-e`: another program, with arguments.
    pub rsh: Option<Words>,
    /// Arguments for ssh, in order: `-F file`, `-i key`, `-J hop`, `-o option`, `-p port`, `-l user`, `-4`, `-6`.
    pub arguments: Vec<OsString>,
    /// `--far-command`: where `terahaul` is on the other host. Given to its shell as it is.
    pub far_command: Option<String>,
}

/// Finds a program that was installed for the user only, whose folder a shell without a terminal often does not know, before an older one
/// that is there for all. Where there is none this end says so, and the shell need not; a jail may have no /dev/null to keep it silent.
const FAR_COMMAND: &str =
    r#"sh -c 'PATH=$HOME/.local/bin:$PATH; found=$(command -v terahaul) || exit 127; exec terahaul far'"#;
/// A shell's exit code for a program that it does not find.
const NOT_FOUND: i32 = 127;
pub(crate) const NOT_EXECUTABLE: i32 = 126;
/// How much of what a command says is read: start-up files may print some before it. Whoever says more is not listened to, and ssh fails for that.
const LONGEST_SAID: u64 = 1 << 20;

/// The same as scp asks for: the connection is for this program alone. ssh takes an option as it is given first.
const OF_ITS_OWN: [&str; 5] =
    ["-x", "-oPermitLocalCommand=no", "-oClearAllForwardings=yes", "-oRemoteCommand=none", "-oRequestTTY=no"];
/// Whatever the configuration says; but the user may ask for the agent.
const UNLESS_ASKED: &str = "-oForwardAgent=no";

/// A running ssh.
pub(crate) struct Running {
    pub child: Leash,
    pub stdin: ChildStdin,
    pub stdout: ChildStdout,
}

impl Ssh {
    /// The program and its arguments, up to the command for the other host.
    pub(crate) fn command_line(&self, host: &Host) -> Vec<OsString> {
        let mut line = self.program();
        if self.rsh.is_none() {
            line.extend(OF_ITS_OWN.map(OsString::from));
        }
        // As scp has it: an address that has a port in it means that one, whatever holds for others.
        if let Some(port) = host.port {
            line.extend(["-p".into(), port.to_string().into()]);
        }
        line.extend(self.arguments.iter().cloned());
        match (&self.rsh, &host.user) {
            // As rsync has it: what is no ssh may read that.
            (Some(_), Some(user)) => {
                line.extend(["-l", user.as_str(), host.name.as_str()].map(OsString::from))
            }
            (Some(_), None) => line.push(host.destination().into()),
            (None, _) => line.extend([UNLESS_ASKED, "--", &host.destination()].map(OsString::from)),
        }
        line
    }

    /// What ssh connects to for this host by its configuration, where that is no name of `address` and there is nothing in between.
    pub(crate) async fn name_besides(&self, host: &Host, address: IpAddr) -> Option<String> {
        if self.rsh.is_some() {
            return None;
        }
        let line = self.command_line(host);
        let asked = Command::new(&line[0]).arg("-G").args(&line[1..]).stdin(Stdio::null()).output();
        let printed = asked.await.ok()?.stdout;
        let name = name_in(std::str::from_utf8(&printed).ok()?)?;
        let mut found = tokio::net::lookup_host((name, 0)).await.ok()?;
        (!found.any(|at| at.ip() == address)).then(|| name.to_owned())
    }

    /// Starts this program there. What ssh says and asks goes to the user.
    pub(crate) fn start(&self, host: &Host) -> Result<Running, CopyError> {
        let (child, stdin, stdout) = self.spawn(host, &self.far_command(), Stdio::piped())?;
        let stdin = stdin.ok_or_else(|| self.not_started(std::io::Error::other("it has no stdin")))?;
        Ok(Running { child, stdin, stdout })
    }

    /// Runs `command`, for the other host's shell, there, with this for its stdin.
    pub(crate) async fn run(&self, host: &Host, command: &str, stdin: Stdio) -> Result<Ran, CopyError> {
        let (mut child, _, stdout) = self.spawn(host, &[command], stdin)?;
        let mut said = Vec::new();
        let failed = |error| self.not_started(error);
        stdout.take(LONGEST_SAID).read_to_end(&mut said).await.map_err(failed)?;
        Ok(Ran { status: child.wait().await.map_err(failed)?, said })
    }

    fn spawn(
        &self,
        host: &Host,
        command: &[&str],
        stdin: Stdio,
    ) -> Result<(Leash, Option<ChildStdin>, ChildStdout), CopyError> {
        let line = self.command_line(host);
        let mut ssh = Command::new(line.first().map(OsString::as_os_str).unwrap_or_default());
        ssh.args(&line[1..]).args(command).stdin(stdin).stdout(Stdio::piped());
        let mut child = ssh.spawn().map_err(|error| self.not_started(error))?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let child = Leash::new(child);
        let stdout = stdout.ok_or_else(|| self.not_started(std::io::Error::other("it has no stdout")))?;
        Ok((child, stdin, stdout))
    }

    fn not_started(&self, source: std::io::Error) -> CopyError {
        let program = self.program().into_iter().next().unwrap_or_default();
        CopyError::NoSsh { program: program.to_string_lossy().into_owned(), source }
    }

    /// ssh, or what is run in its place, with the arguments that belong to that.
    fn program(&self) -> Vec<OsString> {
        match &self.rsh {
            Some(rsh) => rsh.0.iter().map(OsString::from).collect(),
            None => vec!["ssh".into()],
        }
    }

    /// What the other host's shell runs, of words that ssh puts together. What is in ssh's place may have no shell.
    fn far_command(&self) -> Vec<&str> {
        match &self.far_command {
            Some(program) => vec![program, "far"],
            None => vec![FAR_COMMAND],
        }
    }
}

/// A command that has ended.
pub(crate) struct Ran {
    pub(crate) status: ExitStatus,
    /// The beginning of what it said.
    pub(crate) said: Vec<u8>,
}

impl Ran {
    /// Whether ssh has failed, and not because nobody listened to what came any more; or a signal has ended one of both.
    pub(crate) fn is_broken_off(&self) -> bool {
        let is_of_ssh = is_of_ssh(self.status) && (self.said.len() as u64) < LONGEST_SAID;
        is_of_ssh || self.status.code().is_none()
    }
}

/// The host that ssh connects to, in its configuration as `ssh -G` prints it; none where it goes through another one.
fn name_in(configuration: &str) -> Option<&str> {
    let value = |of: &str| configuration.lines().find_map(|line| line.strip_prefix(of)?.strip_prefix(' '));
    let goes_through = |of: &str| value(of).is_some_and(|through| through != "none");
    if goes_through("proxyjump") || goes_through("proxycommand") { None } else { value("hostname") }
}

/// Words as rsync takes them from `-e`: separated by spaces, where quotes hold some together, and hold a quote that is doubled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Words(Vec<String>);

impl fmt::Display for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(" "))
    }
}

/// Words with a quote that nothing closes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("its quote {0} is not closed")]
pub struct OpenQuote(char);

impl FromStr for Words {
    type Err = OpenQuote;

    fn from_str(text: &str) -> Result<Self, OpenQuote> {
        let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
        let mut rest = text.chars().peekable();
        while let Some(c) = rest.next() {
            match (c, quote) {
                (_, Some(open)) if c == open && rest.next_if_eq(&open).is_none() => quote = None,
                ('\'' | '"', None) => {
                    quote = Some(c);
                    word.get_or_insert_default();
                }
                (' ' | '\t', None) => words.extend(word.take()),
                _ => word.get_or_insert_default().push(c),
            }
        }
        words.extend(word);
        quote.map_or(Ok(Self(words)), |open| Err(OpenQuote(open)))
    }
}

/// Why there was no greeting, from how ssh ended and what came before that.
pub(crate) fn explain<R>(ssh: &Ssh, host: &Host, status: ExitStatus, heard: &Overheard<R>) -> CopyError {
    let name = host.destination();
    match status.code() {
        Some(NOT_FOUND | NOT_EXECUTABLE) => {
            CopyError::NotInstalled { host: name, named: ssh.far_command.clone() }
        }
        _ if is_of_ssh(status) => {
            let replaceable = ssh.far_command.is_none();
            CopyError::NotHeard { host: name, status: describe(status), replaceable }
        }
        // It was ended by something here.
        None => CopyError::SshFailed { host: name, status: describe(status) },
        Some(_) => {
            let detail = heard.after(&format!("it ended with {}", describe(status)));
            CopyError::NotTerahaul { host: name, detail }
        }
    }
}

/// Whether ssh has failed; or what it ran there was ended by a signal, which it tells by no other code.
pub(crate) fn is_of_ssh(status: ExitStatus) -> bool {
    status.code() == Some(255)
}

pub(crate) fn describe(status: ExitStatus) -> String {
    match status.code() {
        Some(code) => format!("exit code {code}"),
        None => status.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host() -> Host {
        Host { user: Some("u".into()), name: "h".into(), port: Some(22) }
    }

    #[test]
    fn a_host_that_is_reached_through_another_one_has_no_address_here() {
        let printed = "user u\nhostname lab.example\nport 22\n";
        assert_eq!(name_in(printed), Some("lab.example"));
        assert_eq!(name_in(&format!("{printed}proxycommand none\n")), Some("lab.example"));
        for through in ["proxyjump hop", "proxycommand nc %h %p"] {
            assert_eq!(name_in(&format!("{printed}{through}\n")), None, "{through}");
        }
        assert_eq!(name_in("hostnames a\n"), None);
    }

    #[test]
    fn what_the_user_says_comes_before_the_host_and_the_host_is_no_option() {
        let ssh = Ssh { arguments: vec!["-i".into(), "a key".into()], ..Ssh::default() };
        let line = ssh.command_line(&host());
        let tail: Vec<_> = line.iter().rev().take(7).rev().map(|word| word.to_str().unwrap()).collect();
        assert_eq!(line[0], "ssh");
        assert_eq!(tail, ["-p", "22", "-i", "a key", "-oForwardAgent=no", "--", "u@h"]);
        let ssh = Ssh { rsh: Some("docker exec -i 'a b'".parse().unwrap()), ..Ssh::default() };
        assert_eq!(
            ssh.command_line(&Host { port: None, ..host() }),
            ["docker", "exec", "-i", "a b", "-l", "u", "h"]
        );
    }

    #[test]
    fn what_is_in_the_place_of_ssh_needs_no_shell_for_a_program_that_is_named() {
        let named = Ssh { far_command: Some("/opt/terahaul".into()), ..Ssh::default() };
        assert_eq!(named.far_command(), ["/opt/terahaul", "far"]);
        assert_eq!(Ssh::default().far_command(), [FAR_COMMAND]);
    }

    #[test]
    fn an_agent_that_is_asked_for_is_forwarded_and_no_terminal_is_asked_for() {
        let asked = ["-o", "ForwardAgent=yes", "-o", "RequestTTY=force"].map(OsString::from);
        let line = Ssh { arguments: asked.into(), ..Ssh::default() }.command_line(&host());
        let at = |wanted: &str| line.iter().position(|word| word == wanted).unwrap();
        assert!(at("ForwardAgent=yes") < at("-oForwardAgent=no"));
        assert!(at("-oRequestTTY=no") < at("RequestTTY=force"));
    }

    #[test]
    fn a_host_without_terahaul_says_so_by_its_exit_code_alone() {
        let folder = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/bin/sh", folder.path().join("sh")).unwrap();
        let mut shell = std::process::Command::new("/bin/sh");
        shell.args(["-c", FAR_COMMAND]).env("PATH", folder.path()).env("HOME", folder.path());
        let ran = shell.output().unwrap();
        assert_eq!((ran.status.code(), ran.stderr.as_slice()), (Some(NOT_FOUND), &b""[..]));
    }

    #[test]
    fn words_are_split_as_rsync_splits_them() {
        let split = |text: &str| text.parse::<Words>().map(|words| words.0);
        let words = |words: &[&str]| Ok(words.iter().map(ToString::to_string).collect());
        assert_eq!(split(" ssh  -o 'A B' -F\"x y\" '' "), words(&["ssh", "-o", "A B", "-Fx y", ""]));
        assert_eq!(split("a 'b''c' \"d\"\"e'\" 'f''\"'"), words(&["a", "b'c", "d\"e'", "f'\""]));
        assert_eq!(split("ssh -i 'key file"), Err(OpenQuote('\'')));
    }
}
