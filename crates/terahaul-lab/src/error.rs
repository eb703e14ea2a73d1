//! Why the lab cannot do what it was asked to: one sentence, with a remedy.

use std::io;
use std::path::PathBuf;

use rustix::io::Errno;

/// Why the lab cannot do what it was asked to.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// The path's description cannot be used.
    #[error(transparent)]
    Spec(#[from] crate::path::SpecError),
    /// Network namespaces need privileges that this process does not have.
    #[error(
        "this user may not make network namespaces ({0}): run as root, or allow unprivileged user namespaces (sysctl kernel.unprivileged_userns_clone=1, or kernel.apparmor_restrict_unprivileged_userns=0)"
    )]
    NotPermitted(io::Error),
    /// No TUN device can be made.
    #[error("there is no usable /dev/net/tun here ({0}): {remedy}", remedy = remedy_for_tun(.0))]
    NoTun(io::Error),
    /// A program that the lab needs is not installed.
    #[error("the lab needs the program '{program}': install the Debian package {package}")]
    MissingProgram {
        /// Its name.
        program: &'static str,
        /// What to install.
        package: &'static str,
    },
    /// This kernel does not have the congestion control that was asked for.
    #[error("this kernel does not offer the congestion control '{name}': it has {available}")]
    NoCongestionControl {
        /// What was asked for.
        name: String,
        /// What there is.
        available: String,
    },
    /// A step of setting up or running a path failed for a reason of its own.
    #[error("{step} failed ({source}): this is a fault of the lab or of this kernel, please report it")]
    System {
        /// What was being done.
        step: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// A folder cannot be written to or read from.
    #[error(
        "{path} cannot be measured ({source}): give a folder that exists, has room and may be written to"
    )]
    Folder {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A program that sets up a namespace refused.
    #[error(
        "'{command}' failed in the lab's namespace ({detail}): check that this kernel has TUN, IPv4 and network namespaces"
    )]
    Setup {
        /// The command.
        command: String,
        /// What it said.
        detail: String,
    },
}

impl LabError {
    /// For `map_err`: a failed step.
    pub fn system<E: Into<io::Error>>(step: &'static str) -> impl FnOnce(E) -> Self {
        move |source| Self::System { step, source: source.into() }
    }
}

fn remedy_for_tun(error: &io::Error) -> &'static str {
    // A container that was not given the device says EPERM.
    if Errno::from_io_error(error) == Some(Errno::ACCESS) {
        "run as root, or let this user open it (chmod 666 /dev/net/tun)"
    } else {
        "load the module with 'modprobe tun', or start the container with --device /dev/net/tun"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_may_not_open_the_device_is_not_told_to_load_its_module() {
        for (errno, remedy) in
            [(Errno::ACCESS, "chmod"), (Errno::NOENT, "modprobe"), (Errno::PERM, "--device")]
        {
            let refusal = LabError::NoTun(errno.into()).to_string();
            assert!(refusal.contains(remedy), "{refusal}");
        }
        assert!(!LabError::NoTun(Errno::ACCESS.into()).to_string().contains("modprobe"));
    }
}
