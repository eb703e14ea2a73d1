//! One end of a path: a network namespace in which programs run.

mod device;
mod keeper;
mod privileges;
mod processes;
mod sockets;

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsFd, AsRawFd};
use std::process::Command;

use nix::sched::{CloneFlags, unshare};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

pub use device::check_congestion_control;
pub use privileges::{become_root_of_a_user_namespace, in_a_user_namespace, may_make_namespaces};

pub(crate) use device::Tun;
pub(crate) use keeper::Keeper;

use crate::LabError;
use crate::path::PathSpec;

/// A network namespace. Nothing names it: it is gone when the lab's descriptor and the processes in it are.
#[derive(Debug)]
pub struct Namespace {
    /// This end's addresses: one for each path at the near end, the same for all at the far one.
    addresses: Vec<Ipv4Addr>,
    descriptor: File,
}

impl Namespace {
    /// A new one, with its loopback device and a TUN device for each path: from the first address to the second.
    pub(crate) fn make(
        spec: &PathSpec,
        paths: &[(Ipv4Addr, Ipv4Addr)],
    ) -> Result<(Self, Vec<Tun>), LabError> {
        // A thread of its own, which ends here, because it cannot go back.
        let work = || {
            unshare(CloneFlags::CLONE_NEWNET).map_err(|errno| LabError::NotPermitted(errno.into()))?;
            let descriptor =
                File::open("/proc/thread-self/ns/net").map_err(LabError::system("opening a namespace"))?;
            let devices = device::make(spec, paths)?;
            let mut addresses: Vec<_> = paths.iter().map(|(here, _)| *here).collect();
            addresses.dedup();
            Ok((Self { addresses, descriptor }, devices))
        };
        on_a_thread(work)
    }

    /// The address of this end, which only the other end can reach.
    pub fn address(&self) -> IpAddr {
        self.addresses()[0]
    }

    /// All of its addresses: at the near end one for each path, of which a program chooses one by binding to it.
    pub fn addresses(&self) -> Vec<IpAddr> {
        self.addresses.iter().map(|address| IpAddr::V4(*address)).collect()
    }

    /// A command that will run inside. Its environment, folder and streams are set as usual; its process identifier
    /// is the program's own. A program that is not there ends with code 127 instead of failing to spawn.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={}", self.reference())).arg("--").arg(program);
        command
    }

    /// Runs `work` on a thread of its own inside, and returns what it returns. Sockets and processes that it makes stay
    /// inside.
    pub fn enter<T: Send>(&self, work: impl FnOnce() -> T + Send) -> io::Result<T> {
        on_a_thread(|| {
            move_into_link_name_space(self.descriptor.as_fd(), Some(LinkNameSpaceType::Network))?;
            Ok(work())
        })
    }

    /// Ends every process inside, at once, however deep: children of children, and those that went to the background.
    pub fn kill_all(&self) -> io::Result<()> {
        processes::kill_inside(&self.descriptor)
    }

    /// The TCP ports on which something listens inside.
    pub fn listening(&self) -> io::Result<Vec<u16>> {
        self.enter(sockets::listening)?
    }

    /// Packets that the kernel dropped before the lab could read them.
    pub(crate) fn dropped_by_device(&self) -> u64 {
        self.enter(device::dropped).ok().flatten().unwrap_or(0)
    }

    /// Where another process finds the namespace as long as this one lives.
    pub(crate) fn reference(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.descriptor.as_raw_fd())
    }
}

fn on_a_thread<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| match scope.spawn(work).join() {
        Ok(value) => value,
        Err(panic) => std::panic::resume_unwind(panic),
    })
}
