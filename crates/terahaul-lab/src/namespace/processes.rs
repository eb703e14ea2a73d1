//! Finding and ending what runs in a namespace.

use std::fs::File;
use std::io;
use std::path::Path;

use rustix::fs::{fstat, stat};
use rustix::process::{Pid, Signal, kill_process};

/// Ends every process inside. Looks again until there is none, because processes make others while it looks.
pub(super) fn kill_inside(namespace: &File) -> io::Result<()> {
    let identity = fstat(namespace)?;
    for _ in 0..1_000 {
        let mut found = false;
        for pid in pids()? {
            // What has ended meanwhile, or belongs to somebody else, is not inside.
            let inside = stat(Path::new(&format!("/proc/{}/ns/net", pid.as_raw_nonzero())))
                .is_ok_and(|stat| stat.st_ino == identity.st_ino && stat.st_dev == identity.st_dev);
            if inside {
                found = true;
                let _ = kill_process(pid, Signal::KILL);
            }
        }
        if !found {
            return Ok(());
        }
        std::thread::yield_now();
    }
    Err(io::Error::new(io::ErrorKind::TimedOut, "processes in the namespace do not end"))
}

fn pids() -> io::Result<Vec<Pid>> {
    let entries = std::fs::read_dir("/proc")?;
    Ok(entries.filter_map(|entry| Pid::from_raw(entry.ok()?.file_name().to_str()?.parse().ok()?)).collect())
}
