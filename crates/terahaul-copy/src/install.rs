//! `--install`: gives the other host the program that runs here, where both are of one kind.

use std::process::{ExitStatus, Stdio};

use crate::error::CopyError;
use crate::operand::Host;
use crate::overheard::said_before;
use crate::ssh::{NOT_EXECUTABLE, Ran, Ssh, describe};

/// Runs what was installed, in a folder that is the user's own and that [`Ssh`] looks into, with the arguments that follow. A restricted
/// shell runs nothing by its path.
pub(crate) const RUN_INSTALLED: &str = r#"sh -c 'exec ~/.local/bin/terahaul "$@"' terahaul"#;
/// Asks what system and processor it is. Start-up files may print before the answer, and behind it.
const ASK_KIND: &str = "sh -c 'echo; echo terahaul:$(uname -sm):'";
/// Reads the program, of so many bytes, from stdin, and runs it once: a system that lacks what it needs says so now. What has not come
/// so far is removed again, also where a signal ends the shell, which then ends as ssh tells such an end, and two that do this at once have a
/// file each.
fn command(len: u64) -> String {
    format!(
        r#"sh -c 'mkdir -p ~/.local/bin && cd ~/.local/bin || exit; new=.terahaul.$$; trap "rm -f $new" EXIT; trap "exit 255" HUP INT TERM; cat > $new && test $(wc -c < $new) -eq {len} && chmod 755 $new && ./$new --version && if test -d terahaul; then echo "~/.local/bin/terahaul is a folder" >&2; false; else mv -f $new terahaul; fi'"#
    )
}

/// Whether the running program is for the other host, which is asked.
pub(crate) async fn check(ssh: &Ssh, host: &Host) -> Result<(), CopyError> {
    let here = rustix::system::uname();
    let here = format!("{} {}", here.sysname().to_string_lossy(), here.machine().to_string_lossy());
    let ran = ssh.run(host, ASK_KIND, Stdio::null()).await?;
    let Ran { status, said } = &ran;
    if ran.is_broken_off() {
        return Err(CopyError::SshFailed { host: host.destination(), status: describe(*status) });
    }
    if !status.success() {
        return Err(failed(host, said_before(&describe(*status), said)));
    }
    match kind_in(&String::from_utf8_lossy(said)) {
        Some(there) if there == here => Ok(()),
        Some(there) => Err(failed(host, format!("it is {there}, and this program is for {here}"))),
        None => {
            let what =
                "it does not say what system it is: your account there may not be allowed to run programs";
            Err(failed(host, said_before(what, said)))
        }
    }
}

/// What [`ASK_KIND`] was answered.
fn kind_in(said: &str) -> Option<&str> {
    said.lines().find_map(|line| line.strip_prefix("terahaul:")?.split_once(':')).map(|(kind, _)| kind)
}

/// Copies the running program to the other host.
pub(crate) async fn install(ssh: &Ssh, host: &Host) -> Result<(), CopyError> {
    let program = std::env::current_exe().and_then(std::fs::File::open);
    let (program, len) =
        program.and_then(|file| file.metadata().map(|found| (file, found.len()))).map_err(|error| {
            CopyError::Local(format!("this program cannot be read ({error}): install it there by hand"))
        })?;
    let ran = ssh.run(host, &command(len), program.into()).await?;
    let status = ran.status;
    match status.success() {
        true => Ok(()),
        false if ran.is_broken_off() => {
            Err(CopyError::InstallBrokenOff { host: host.destination(), status: describe(status) })
        }
        false => Err(failed(host, why_not(status))),
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

#[cfg(test)]
mod tests {
    use super::*;

    /// It was 'nonlLinux x86_64' to a host whose start-up files print without an end of the line.
    #[test]
    fn what_start_up_files_print_is_no_part_of_the_answer() {
        for said in [
            "\nterahaul:Linux x86_64:\n",
            "Welcome\n\nterahaul:Linux x86_64:\nbye\n",
            "nonl\nterahaul:Linux x86_64:bye",
        ] {
            assert_eq!(kind_in(said), Some("Linux x86_64"), "{said}");
        }
        assert_eq!(kind_in("forced\n"), None);
    }
}
