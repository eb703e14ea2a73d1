//! What outlives the lab when it is killed: a shell that waits for the lab's end and then ends what is left.
//!
//! Namespaces and devices need nobody: the kernel removes them with the last descriptor and process. But servers that
//! run inside would go on, and a signal at the parent's death reaches neither their children nor those that went to the
//! background. So every process is found by its namespace.

use std::process::{Child, Command, Stdio};

use super::Namespace;
use crate::LabError;

/// The shell. It ends when this is dropped, without having ended anything: the lab does so itself then.
#[derive(Debug)]
pub(crate) struct Keeper(Child);

/// Arguments: where the namespaces are found. `-ef` compares what links lead to; no other program is needed. A line
/// means that all is well; the end of the input that the lab is gone.
const SCRIPT: &str = r#"
trap '' HUP INT QUIT TERM PIPE
exec 3<"$1" 4<"$2" || exit 1
echo ready
read -r _ && exit 0
round=0
while [ $round -lt 1000 ]; do
    round=$((round + 1))
    found=
    for process in /proc/[0-9]*; do
        if [ "$process/ns/net" -ef /proc/self/fd/3 ] || [ "$process/ns/net" -ef /proc/self/fd/4 ]; then
            kill -KILL "${process#/proc/}" 2>/dev/null
            found=1
        fi
    done
    [ -n "$found" ] || exit 0
done
"#;

impl Keeper {
    /// Starts it, and returns when it watches.
    pub(crate) fn start(near: &Namespace, far: &Namespace) -> Result<Self, LabError> {
        use std::io::Read;
        use std::os::unix::process::CommandExt;
        let mut child = Command::new("/bin/sh")
            .args(["-c", SCRIPT, "terahaul-lab-keeper", &near.reference(), &far.reference()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .current_dir("/")
            // A group of its own: Ctrl-C is for the lab.
            .process_group(0)
            .spawn()
            .map_err(LabError::system("starting the keeper"))?;
        let mut ready = [0; 6];
        let said = child.stdout.take().map(|mut stdout| stdout.read_exact(&mut ready));
        let keeper = Self(child);
        match said {
            Some(Ok(())) => Ok(keeper),
            Some(Err(source)) => Err(LabError::System { step: "starting the keeper", source }),
            None => Err(LabError::System {
                step: "starting the keeper",
                source: std::io::ErrorKind::BrokenPipe.into(),
            }),
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        use std::io::Write;
        if let Some(mut stdin) = self.0.stdin.take() {
            // If it was killed there is nothing to tell.
            let _ = stdin.write_all(b"done\n");
        }
        let _ = self.0.wait();
    }
}
