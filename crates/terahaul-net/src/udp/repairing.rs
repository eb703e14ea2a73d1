//! The tables of the code that repairs blocks: 8 MiB that take tens of milliseconds to compute, once for a process.

use std::sync::Once;
use std::time::Duration;

use terahaul_udp::path::LONG;

/// Has them ready at the end of a session on a path of this length, which would have to wait for them.
pub(super) fn prepare(round_trip: Duration) {
    static ONCE: Once = Once::new();
    let prepare = || {
        // Without a thread the end waits.
        let thread = std::thread::Builder::new().name("repair-tables".into());
        let _ = thread.spawn(terahaul_udp::repair::prepare);
    };
    if round_trip >= LONG {
        ONCE.call_once(prepare);
    }
}
