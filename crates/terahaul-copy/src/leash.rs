//! A process that does not outlive whoever needs it.

use std::process::ExitStatus;

use tokio::process::Child;

/// A process that ends when this is dropped, unless it was [let go](Self::let_go).
///
/// It is asked to, and killed only if it does not heed that: ssh that waits for a password gives the terminal its echo back, and one
/// that others share removes its socket.
pub(crate) struct Leash(Option<Child>);

impl Leash {
    pub(crate) fn new(child: Child) -> Self {
        Self(Some(child))
    }

    /// Waits for its end.
    pub(crate) async fn wait(&mut self) -> std::io::Result<ExitStatus> {
        match &mut self.0 {
            Some(child) => child.wait().await,
            None => Err(std::io::ErrorKind::NotFound.into()),
        }
    }

    /// It ends by itself, and nobody waits for that.
    pub(crate) fn let_go(mut self) {
        self.0 = None;
    }
}

impl Drop for Leash {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0
            && !asked::to_end(child)
        {
            // Otherwise it has ended.
            let _ = child.start_kill();
        }
    }
}

#[cfg(target_os = "linux")]
mod asked {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
    use tokio::process::Child;

    /// What ssh needs for that is milliseconds.
    const PATIENCE: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

    /// Whether it has ended. Blocks for a moment: should this process end first, the other would not be let touch the terminal any more.
    pub(super) fn to_end(child: &Child) -> bool {
        // Its number is its own until it was waited for, and then it has none here.
        let Some(number) = child.id() else { return true };
        let Some(number) = i32::try_from(number).ok().and_then(Pid::from_raw) else { return false };
        let Ok(process) = pidfd_open(number, PidfdFlags::empty()) else { return false };
        // Otherwise it has ended.
        let _ = kill_process(number, Signal::TERM);
        let mut end = [PollFd::new(&process, PollFlags::IN)];
        rustix::io::retry_on_intr(|| poll(&mut end, Some(&PATIENCE))).is_ok_and(|ended| ended > 0)
    }
}

#[cfg(not(target_os = "linux"))]
mod asked {
    pub(super) fn to_end(_: &tokio::process::Child) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::Stdio;

    use tokio::io::AsyncReadExt;
    use tokio::process::Command;

    use super::*;

    /// A shell that does this when it is asked to end; it heeds that from when this returns.
    async fn shell(folder: &Path, trap: &str) -> Child {
        let script = format!("trap '{trap}' TERM; echo; while :; do read nothing || exit; done");
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", &script]).current_dir(folder).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut shell = shell.spawn().unwrap();
        shell.stdout.as_mut().unwrap().read_u8().await.unwrap();
        shell
    }

    #[tokio::test]
    async fn a_process_puts_things_in_order_before_it_ends_and_ends_in_any_case() {
        let folder = tempfile::tempdir().unwrap();
        let child = shell(folder.path(), "echo done > order; exit").await;
        drop(Leash::new(child));
        assert_eq!(std::fs::read_to_string(folder.path().join("order")).unwrap(), "done\n");
        let mut child = shell(folder.path(), "").await;
        let mut stdout = child.stdout.take().unwrap();
        let _stdin = child.stdin.take();
        drop(Leash::new(child));
        assert_eq!(stdout.read(&mut [0]).await.unwrap(), 0, "it is killed");
    }

    #[tokio::test]
    async fn what_has_ended_or_was_let_go_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let mut leash = Leash::new(Command::new("true").spawn().unwrap());
        assert!(leash.wait().await.unwrap().success());
        drop(leash);
        let mut child = shell(folder.path(), "echo asked > order; exit").await;
        let (stdin, mut stdout) = (child.stdin.take(), child.stdout.take().unwrap());
        Leash::new(child).let_go();
        drop(stdin);
        assert_eq!(stdout.read(&mut [0]).await.unwrap(), 0);
        assert!(!folder.path().join("order").exists());
    }
}
