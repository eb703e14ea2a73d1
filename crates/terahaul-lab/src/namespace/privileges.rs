//! Making namespaces as root, or as an ordinary user where the kernel allows it.

use std::os::unix::process::CommandExt;
use std::process::Command;

use nix::sched::{CloneFlags, unshare};

use crate::LabError;

/// Set once this program runs again in a user namespace, so that it does not try for ever.
const INSIDE: &str = "TERAHAUL_LAB_USER_NAMESPACE";

/// Whether this process may make network namespaces.
pub fn may_make_namespaces() -> bool {
    super::on_a_thread(|| unshare(CloneFlags::CLONE_NEWNET)).is_ok()
}

/// Whether this process is root of a user namespace alone, as the next one makes it: nobody in there may change the groups of
/// a process, which servers that log users in do.
pub fn in_a_user_namespace() -> bool {
    std::fs::read_to_string("/proc/self/setgroups").is_ok_and(|may| may.trim() == "deny")
}

/// Starts this program again, with the same arguments and the same process identifier, as root of a user namespace of
/// its own, where it may make network namespaces. Returns only if that cannot be done. To be called before anything else
/// was begun.
pub fn become_root_of_a_user_namespace() -> LabError {
    let refused = || LabError::NotPermitted(std::io::ErrorKind::PermissionDenied.into());
    if std::env::var_os(INSIDE).is_some() || !user_namespaces_work() {
        return refused();
    }
    let Ok(program) = std::env::current_exe() else { return refused() };
    let error = Command::new("unshare")
        .args(["--user", "--map-root-user", "--"])
        .arg(program)
        .args(std::env::args_os().skip(1))
        .env(INSIDE, "1")
        .exec();
    match error.kind() {
        std::io::ErrorKind::NotFound => {
            LabError::MissingProgram { program: "unshare", package: "util-linux" }
        }
        _ => LabError::NotPermitted(error),
    }
}

/// Tries it with a program that does nothing: once this one is replaced, it could not say why it failed.
fn user_namespaces_work() -> bool {
    let tried = Command::new("unshare").args(["--user", "--map-root-user", "--net", "--", "true"]).output();
    match tried {
        Ok(output) => output.status.success(),
        // To be reported by the attempt itself.
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    }
}
