//! `--install`: gives the other host the program that runs here, where both are of one kind.

use std::process::{ExitStatus, Stdio};

use crate::error::CopyError;
use crate::operand::Host;
use crate::overheard::said_before;
use crate::ssh::{NOT_EXECUTABLE, Ssh, describe, is_of_ssh};

/// Where it goes: a folder that is the user's own, and that [`Ssh`] looks into.
pub(crate) const INSTALLED: &str = "~/.local/bin/terahaul";
/// Reads the program, of so many bytes, from stdin, and runs it once: a system that lacks what it needs says so now. What has not come
/// so far is removed again, and two that do this at once have a file each.
fn command(len: u64) -> String {
    format!(
        r#"sh -c 'mkdir -p ~/.local/bin && cd ~/.local/bin || exit; new=.terahaul.$$; trap "rm -f $new" EXIT; cat > $new && test $(wc -c < $new) -eq {len} && chmod 755 $new && ./$new --version && if test -d terahaul; then echo "~/.local/bin/terahaul is a folder" >&2; false; else mv -f $new terahaul; fi'"#
    )
}

/// Whether the running program is for the other host, which is asked.
pub(crate) async fn check(ssh: &Ssh, host: &Host) -> Result<(), CopyError> {
    let here = rustix::system::uname();
    let here = format!("{} {}", here.sysname().to_string_lossy(), here.machine().to_string_lossy());
    let (status, said) = ssh.run(host, "uname -sm", Stdio::null()).await?;
    if is_of_ssh(status) {
        return Err(CopyError::SshFailed { host: host.destination(), status: describe(status) });
    }
    if !status.success() {
        return Err(failed(host, said_before(&describe(status), &said)));
    }
    // A shell's greeting comes first.
    let said = String::from_utf8_lossy(&said);
    let there = said.lines().last().unwrap_or_default().trim();
    match there == here {
        true => Ok(()),
        false => Err(failed(host, format!("it is {there}, and this program is for {here}"))),
    }
}

/// Copies the running program to the other host.
pub(crate) async fn install(ssh: &Ssh, host: &Host) -> Result<(), CopyError> {
    let program = std::env::current_exe().and_then(std::fs::File::open);
    let (program, len) =
        program.and_then(|file| file.metadata().map(|found| (file, found.len()))).map_err(|error| {
            CopyError::Local(format!("this program cannot be read ({error}): install it there by hand"))
        })?;
    match ssh.run(host, &command(len), program.into()).await? {
        (status, _) if status.success() => Ok(()),
        (status, _) => Err(failed(host, why_not(status))),
    }
}

fn failed(host: &Host, detail: String) -> CopyError {
    CopyError::InstallFailed { host: host.destination(), detail }
}

/// Why what was copied is not installed. What the other host's shell says of it goes to the user.
fn why_not(status: ExitStatus) -> String {
    match status.code() {
        Some(NOT_EXECUTABLE) => "what lies in ~/.local/bin may not be run there, as where a disk is mounted with noexec; --far-command names a program in another place".into(),
        _ => describe(status),
    }
}
