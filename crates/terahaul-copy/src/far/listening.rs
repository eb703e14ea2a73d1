//! The far side's ports.

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::net::IpAddr;
use std::os::unix::ffi::OsStrExt;

use terahaul_net::udp::Port;
use tokio::net::TcpListener;

use super::failed;
use crate::greeting::Refusal;
use crate::through_ssh::listen_on_loopback;

/// The address at which the near side's ssh has reached this host.
pub(super) fn reached_at() -> Option<IpAddr> {
    let connection = std::env::var_os("SSH_CONNECTION")?;
    let third = connection.as_bytes().split(|&b| b == b' ').nth(2)?;
    OsStr::from_bytes(third).to_str()?.parse().ok()
}

/// Where the near side can reach this one, or on loopback only, where the relay can.
pub(super) struct Listening {
    pub listener: TcpListener,
    /// Of the same number, where it was free.
    pub udp: Option<Port>,
    /// Where the near side can reach both.
    pub reached: Option<IpAddr>,
}

impl Listening {
    /// On the first port of the range that is free for both TCP and UDP, or else on the first that is free for TCP.
    pub async fn start(reached: Option<IpAddr>, ports: Option<(u16, u16)>) -> Result<Self, Refusal> {
        /// Where any port will do, one that is free for TCP is nearly always free for UDP, too.
        const ATTEMPTS: usize = 4;
        let candidates = match ports {
            Some((first, last)) => (first..=last).collect(),
            None => vec![0; ATTEMPTS],
        };
        let mut without_udp = None;
        for port in candidates {
            let Some(address) = reached else { break };
            let listener = match TcpListener::bind((address, port)).await {
                Ok(listener) => listener,
                // Those below 1024 are often root's, and the range may go on behind them.
                Err(error) if matches!(error.kind(), ErrorKind::AddrInUse | ErrorKind::PermissionDenied) => {
                    continue;
                }
                // Not an address of this system: behind some address translations that is so.
                Err(_) => break,
            };
            match Port::open(listener.local_addr().map_err(failed)?) {
                Ok(udp) => return Ok(Self { listener, udp: Some(udp), reached }),
                Err(error) => tracing::debug!("no UDP beside {listener:?}: {error}"),
            }
            without_udp.get_or_insert(listener);
        }
        if let Some(listener) = without_udp {
            return Ok(Self { listener, udp: None, reached });
        }
        let listener = listen_on_loopback().await.map_err(|error| {
            failed(format!("no port of its own can be opened on the far host ({error}), which a copy needs also where its data goes through ssh: see what keeps programs there from the network"))
        })?;
        Ok(Self { listener, udp: None, reached: None })
    }
}
