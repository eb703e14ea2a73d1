//! A namespace's TUN devices, their addresses, routes and settings. Runs on a thread that is inside.

use std::io::{self, Write};
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, BorrowedFd};
use std::process::{Command, Stdio};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use tun_rs::{DeviceBuilder, SyncDevice};

use crate::LabError;
use crate::path::PathSpec;

/// What a device's name begins with: its path's number follows.
const NAME: &str = "path";
/// Routes of the paths beside the first, by the address that a packet comes from, are in tables from here on.
const TABLE: usize = 100;
/// Reads of up to 64 KiB that may wait for the lab. At the usual 500 a burst of UDP would be lost unseen.
const WAITING_READS: u32 = 10_000;

/// A TUN device, which does not wait. What is read from it and written to it has a `virtio_net_hdr` in front, as a packet may be of
/// many segments.
pub(crate) struct Tun(SyncDevice);

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Makes a device for each pair of this end's address and the other's, and brings everything up.
pub(super) fn make(spec: &PathSpec, paths: &[(Ipv4Addr, Ipv4Addr)]) -> Result<Vec<Tun>, LabError> {
    let congestion_control = match &spec.cc {
        Some(name) => congestion_control(name, spec.cc_only)?,
        None => String::new(),
    };
    let mut batch = "link set lo up\n".to_owned();
    let mut devices = Vec::new();
    for (number, (address, peer)) in paths.iter().enumerate() {
        let (name, mtu) = (format!("{NAME}{number}"), spec.mtu);
        devices.push(device(&name)?);
        batch += &format!("link set {name} mtu {mtu} txqueuelen {WAITING_READS} up\n");
        if !paths[..number].iter().any(|(before, _)| before == address) {
            batch += &format!("address add {address}/32 dev {name}\n");
        }
        // Where the same peer is reached by another path already, the address that a packet comes from decides.
        let mut table = String::new();
        if paths[..number].iter().any(|(_, before)| before == peer) {
            table = format!(" table {}", TABLE + number);
            batch += &format!("rule add from {address}{table}\n");
        }
        batch += &format!("route add {peer}/32 dev {name} src {address}{congestion_control}{table}\n");
    }
    ip(&batch)?;
    Ok(devices)
}

fn device(name: &str) -> Result<Tun, LabError> {
    // The library would make the file where there is none, and it would stay.
    std::fs::metadata("/dev/net/tun").map_err(LabError::NoTun)?;
    // Down until IPv6 is off.
    let builder = DeviceBuilder::new().name(name).offload(true).enable(false);
    let device = builder.build_sync().map_err(LabError::NoTun)?;
    let flags = fcntl_getfl(&device).map_err(LabError::system("reading the device's flags"))?;
    fcntl_setfl(&device, flags | OFlags::NONBLOCK).map_err(LabError::system("setting the device's flags"))?;
    // Neighbour discovery and the like would count as packets of the path.
    set(&format!("net/ipv6/conf/{name}/disable_ipv6"), "1");
    Ok(Tun(device))
}

/// Packets that found no room in the devices, which the lab reads.
pub(super) fn dropped() -> Option<u64> {
    let table = std::fs::read_to_string("/proc/thread-self/net/dev").ok()?;
    let devices = table.lines().filter_map(|line| line.trim_start().strip_prefix(NAME)?.split_once(':'));
    // Eight columns for what was received, then bytes, packets, errors and drops of what was sent.
    devices.map(|(_, columns)| columns.split_whitespace().nth(11)?.parse::<u64>().ok()).sum()
}

/// Fails where this kernel does not have that congestion control, in whichever namespace.
pub fn check_congestion_control(name: &str) -> Result<(), LabError> {
    let available =
        std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap_or_default();
    if available.split_whitespace().any(|known| known == name) {
        return Ok(());
    }
    Err(LabError::NoCongestionControl { name: name.to_owned(), available: available.trim().to_owned() })
}

/// Sets TCP's congestion control for the namespace. Returns what the route has to say besides.
fn congestion_control(name: &str, only: bool) -> Result<String, LabError> {
    check_congestion_control(name)?;
    if only {
        return Ok(format!(" congctl lock {name}"));
    }
    // Kernels let a namespace choose only among those that any user may use. A route has no such limit, but it also
    // overrides what a program chose before it connected; so it is the second choice.
    Ok(if set("net/ipv4/tcp_congestion_control", name) { String::new() } else { format!(" congctl {name}") })
}

/// Writes a setting of this thread's namespace. False if the kernel refuses it or does not have it.
fn set(setting: &str, value: &str) -> bool {
    std::fs::write(format!("/proc/sys/{setting}"), value).is_ok()
}

/// Runs `ip` inside: a child has the namespace of the thread that makes it.
fn ip(batch: &str) -> Result<(), LabError> {
    let child = Command::new("ip")
        .args(["-batch", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = match child {
        Ok(child) => child,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(LabError::MissingProgram { program: "ip", package: "iproute2" });
        }
        Err(error) => return Err(LabError::System { step: "starting 'ip'", source: error }),
    };
    if let Some(mut stdin) = child.stdin.take() {
        // If it ended already, its status says why.
        let _ = stdin.write_all(batch.as_bytes());
    }
    let output = child.wait_with_output().map_err(LabError::system("waiting for 'ip'"))?;
    if output.status.success() {
        return Ok(());
    }
    let detail = String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ");
    Err(LabError::Setup { command: "ip -batch".to_owned(), detail })
}
