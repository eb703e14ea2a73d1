//! `--install`: gives the other host the program that runs here, where both are of one kind.

use std::process::Stdio;

use tokio::io::AsyncReadExt;
use tokio::process::Command;

use crate::error::CopyError;
use crate::operand::Host;
use crate::ssh::{Ssh, describe};

/// Where it goes: a folder that is the user's own, and that [`Ssh`] looks into.
pub(crate) const INSTALLED: &str = "~/.local/bin/terahaul";
/// Reads the program, of so many bytes, from stdin, and runs it once: a system that lacks what it needs says so now.
fn command(len: u64) -> String {
    format!(
        "sh -c 'mkdir -p ~/.local/bin && cd ~/.local/bin && cat > .terahaul.new && test $(wc -c < .terahaul.new) -eq {len} && chmod 755 .terahaul.new && ./.terahaul.new --version && mv -f .terahaul.new terahaul'"
    )
}
/// What a command's answer may be long.
const LONGEST_ANSWER: u64 = 4096;

/// Copies the running program to the other host.
pub(crate) async fn install(ssh: &Ssh, host: &Host) -> Result<(), CopyError> {
    let failed = |detail: String| CopyError::InstallFailed { host: host.destination(), detail };
    let here = rustix::system::uname();
    let here = format!("{} {}", here.sysname().to_string_lossy(), here.machine().to_string_lossy());
    let there = run(ssh, host, "uname -sm", Stdio::null()).await?.map_err(failed)?;
    // A shell's greeting comes first.
    let there = there.lines().last().unwrap_or_default().trim();
    if there != here {
        return Err(failed(format!("it is {there}, and this program is for {here}")));
    }
    let program = std::env::current_exe().and_then(std::fs::File::open);
    let (program, len) =
        program.and_then(|file| file.metadata().map(|found| (file, found.len()))).map_err(|error| {
            CopyError::Local(format!("this program cannot be read ({error}): install it there by hand"))
        })?;
    run(ssh, host, &command(len), program.into()).await?.map_err(failed)?;
    Ok(())
}

/// Runs `command` on the other host: what it printed, or how it failed.
async fn run(
    ssh: &Ssh,
    host: &Host,
    command: &str,
    stdin: Stdio,
) -> Result<Result<String, String>, CopyError> {
    let line = ssh.command_line(host);
    let program = line.first().cloned().unwrap_or_default();
    let no_ssh = |source| CopyError::NoSsh { program: program.to_string_lossy().into_owned(), source };
    let mut child = Command::new(&program)
        .args(&line[1..])
        .arg(command)
        .stdin(stdin)
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(no_ssh)?;
    let mut answer = Vec::new();
    if let Some(stdout) = child.stdout.take() {
        stdout.take(LONGEST_ANSWER).read_to_end(&mut answer).await.map_err(no_ssh)?;
    }
    let status = child.wait().await.map_err(no_ssh)?;
    let answer = String::from_utf8_lossy(&answer).into_owned();
    Ok(if status.success() { Ok(answer) } else { Err(describe(status)) })
}
