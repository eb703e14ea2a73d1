//! What goes out before the first block: bursts of padding, that measure the line.
//!
//! A block can only go once the receiver has the manifest, a round trip after the session has begun; a client does not even wait for
//! the answer to its request. A long path would lie idle for that time, and the first blocks would then find a line of which nothing is known. So a few bursts go ahead of them:
//! their reports come just before and after the first block can go, and say how long the path is and how fast the line
//! ([`crate::path::Capacity`]). They cost what the first round trip of data would have been, are paced as that, and count as
//! that does.

use std::time::Duration;

use terahaul_wire::packet::{ChannelNumber, PacketFrame};

use super::Sender;
use super::flight::Load;
use crate::path::{FAR, LONG};
use crate::seal::Burst;
use crate::{OVERHEAD, PathIndex, Time, Transmit};

/// Bursts that go ahead of the first block: what the first window holds.
const BURSTS: u32 = 4;

/// How many bursts are worth it on a path of this length: over shorter ones the blocks themselves tell as much soon enough.
pub(super) fn bursts(round_trip: Duration) -> u32 {
    if round_trip >= LONG { BURSTS } else { 0 }
}

impl Sender {
    /// Whether the next burst may go out on `path`, as soon as it is time for it.
    pub(super) fn opens(&self, path: PathIndex) -> bool {
        let route = &self.routes[path];
        // Nobody who has not asked for it gets more than an answer.
        let proven = || self.channels.iter().any(|channel| channel.path == path && channel.is_proven());
        route.openings > 0 && route.capacity.rate().is_none() && self.outgoing.next_serial() == 0 && proven()
    }

    /// A burst on the channel `at`.
    pub(super) fn poll_opening(
        &mut self,
        now: Time,
        path: PathIndex,
        at: ChannelNumber,
        burst: &mut Burst<'_>,
    ) -> Option<Transmit> {
        let route = &mut self.routes[path];
        route.openings -= 1;
        let full = route.mtu.current() as usize;
        let most = (route.quota(now) as usize).min(burst.most());
        let to = self.channels[at].remote_for(most as u64)?;
        let mut frames = std::mem::take(&mut self.frames);
        frames.clear();
        PacketFrame::Sync(self.sync(path)).encode(&mut frames);
        // Told of alone and at once: a report has room for few arrivals.
        PacketFrame::Ping.encode(&mut frames);
        while burst.len() + full <= most {
            frames.resize(full - OVERHEAD, 0);
            if self.write_frames(now, at, &frames, Load::Signal, burst).is_none() {
                break;
            }
            frames.clear();
        }
        self.frames = frames;
        let len = burst.len();
        if len > 0 {
            self.handle_sync_sent(now, path);
        }
        let route = &mut self.routes[path];
        // The third tells what the line is, and a far line should not wait for it: spread over a round trip as the first window is, it
        // would come a fifth of one later.
        let closer = if route.round_trip.smoothed() >= FAR { 4 } else { 1 };
        route.pacer.handle_sent(now, len as u64 / closer, route.rate());
        (len > 0).then_some(Transmit { channel: at, to, len, segment: full, ecn: false })
    }
}
