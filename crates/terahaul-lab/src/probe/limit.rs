//! What keeps a transfer from being faster.

use serde::{Deserialize, Serialize};

use super::{Measurements, Transferred};
use crate::work::Direction;

/// What limits one direction of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// The processors of this machine.
    ProcessorsHere,
    /// The disk of this machine.
    DiskHere,
    /// The depot's disk.
    DiskThere,
    /// The buffers that this kernel gives a connection, times the connections.
    BuffersHere,
    /// Those that the depot's does.
    BuffersThere,
    /// The depot itself takes what comes no faster.
    Depot,
    /// Packets are lost, and TCP slows down for each of them.
    Loss,
    /// The line itself, or what else it carries; for all that can be told from here, the depot.
    Line,
}

/// Busier than this, a machine has nothing left for a faster transfer.
const BUSY: f64 = 0.9;
/// A buffer that is full in this share of the time is what TCP waits for.
const OFTEN: f64 = 0.3;
/// Where the kernel does not say that: half of a buffer is bookkeeping; a connection that fills this share of the rest
/// is held up by it.
const FULL: f64 = 0.7;
/// On a path with shorter round trips than this no buffer is too small, in seconds.
const NEAR: f64 = 0.005;
/// A depot that has received everything syncs the rest and says so. If that takes longer, in seconds, its disk is slower
/// than the path.
const BEHIND: f64 = 1.0;
/// Loss below this is no hindrance even to CUBIC at a few milliseconds.
const SMALL_LOSS: f64 = 2e-4;
/// BBR takes up to this for chance.
const MUCH_LOSS: f64 = 0.03;
const SEGMENT: f64 = 1448.0;
/// With fewer segments under way, a lost one is not followed by the three whose acknowledgements give it away (RFC 5681).
const FEW: f64 = 4.0;

/// What limits this direction, of which `moved` tells.
pub fn find_limit(measured: &Measurements, moved: &Transferred, direction: Direction) -> Limit {
    let here = &measured.here;
    let rtt = measured.rtt().unwrap_or(0.0);
    let often = |share: Option<f64>| share.is_some_and(|share| share > OFTEN);
    let busy = moved.processors_busy.is_some_and(|busy| busy > BUSY);
    if here.disk(direction).is_some_and(|disk| disk < moved.bytes_per_second) {
        return Limit::DiskHere;
    }
    if moved.behind.is_some_and(|behind| behind > BEHIND + 2.0 * rtt) {
        return Limit::DiskThere;
    }
    // A busy machine answers late, which looks like a queue where round trips are short.
    if busy && rtt < NEAR {
        return Limit::ProcessorsHere;
    }
    // Before a queue everything else is faster than the line.
    if queue(moved, rtt).is_some() {
        return Limit::Line;
    }
    if loss_limits(measured, moved, rtt) {
        return Limit::Loss;
    }
    if often(moved.window_full) {
        return if rtt < NEAR { Limit::Depot } else { Limit::BuffersThere };
    }
    if often(moved.buffer_full) || moved.buffer_full.is_none() && fills_buffers(measured, moved, direction) {
        return Limit::BuffersHere;
    }
    if busy { Limit::ProcessorsHere } else { Limit::Line }
}

/// What buffers of this size let through: half of one is on the way at a time, the rest is bookkeeping.
pub(super) fn most_through(buffer: u64, channels: usize, rtt: f64) -> f64 {
    buffer as f64 / 2.0 * channels.max(1) as f64 / rtt.max(1e-6)
}

fn fills_buffers(measured: &Measurements, moved: &Transferred, direction: Direction) -> bool {
    let Some((buffer, rtt)) = measured.here.buffer(direction).zip(measured.rtt()) else { return false };
    !moved.udp
        && rtt >= NEAR
        && moved.bytes_per_second > FULL * most_through(buffer.most, moved.channels, rtt)
}

/// What a law that takes each loss for congestion carries: Mathis and others, 1997.
pub(super) fn most_with_loss(loss: f64, channels: usize, rtt: f64) -> f64 {
    channels.max(1) as f64 * SEGMENT / rtt.max(1e-6) * 1.22 / loss.max(1e-9).sqrt()
}

/// How many segments each connection has under way.
fn window(moved: &Transferred, rtt: f64) -> f64 {
    moved.bytes_per_second * rtt / moved.channels.max(1) as f64 / SEGMENT
}

/// The share of packets that are lost.
pub(super) fn loss(moved: &Transferred, rtt: f64) -> Option<f64> {
    moved.resent.or_else(|| {
        // What follows a lost packet comes out of order for a round trip, so each loss disorders about a window.
        moved.disordered.map(|disordered| disordered / window(moved, rtt).max(1.0))
    })
}

/// How long what is sent now waits before the line, in seconds, where a queue stands there: then the line is full, and
/// it is the transfer that makes it lose packets.
pub(super) fn queue(moved: &Transferred, rtt: f64) -> Option<f64> {
    moved.loaded_rtt.map(|loaded| loaded - rtt).filter(|queue| *queue > 0.2 * rtt + 0.003)
}

/// Whether it is the transfer that makes the line lose packets: in a queue that stands there, or in one that connections
/// overrun as they get going.
pub(super) fn loses_by_itself(moved: &Transferred, rtt: f64) -> bool {
    moved.at_least || queue(moved, rtt).is_some()
}

/// Whether it is sent by a law that does, as far as is known here: of receiving, only the depot knows which it sends by.
pub(super) fn models_the_path(measured: &Measurements, moved: &Transferred) -> bool {
    // A route may have another law than the rest.
    let law = moved.congestion_control.as_deref();
    let law = law.or(moved.resent.map(|_| &*measured.here.congestion_control));
    law.is_some_and(|law| law.starts_with("bbr"))
}

/// A law that models the path is not slowed by loss alone until there is much of it.
fn loss_limits(measured: &Measurements, moved: &Transferred, rtt: f64) -> bool {
    if loses_by_itself(moved, rtt) {
        return false;
    }
    let Some(loss) = loss(moved, rtt).filter(|loss| *loss > SMALL_LOSS) else { return false };
    if models_the_path(measured, moved) {
        return loss > MUCH_LOSS;
    }
    // Connections wait for their timers then, of which the formula knows nothing.
    if window(moved, rtt) < FEW {
        return true;
    }
    // CUBIC does better than the formula on long paths, by two or three times.
    let most = most_with_loss(loss, moved.channels, rtt);
    most * 3.0 > moved.bytes_per_second && most < 3.0 * moved.bytes_per_second
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::{Buffer, Here};

    fn measured(rtt: f64, here: Here) -> Measurements {
        Measurements { connects: vec![rtt * 1.1, rtt, rtt * 1.3], here, ..Measurements::default() }
    }

    fn here(congestion_control: &str) -> Here {
        let buffer = |most| Some(Buffer { least: 4096, usual: 65_536, most });
        Here {
            send_buffer: buffer(4 << 20),
            receive_buffer: buffer(6 << 20),
            congestion_control: congestion_control.into(),
            disk_read: Some(2e9),
            disk_write: Some(1e9),
            ..Here::default()
        }
    }

    fn sent(bytes_per_second: f64) -> Transferred {
        Transferred {
            bytes_per_second,
            channels: 8,
            processors_busy: Some(0.2),
            resent: Some(0.0),
            window_full: Some(0.02),
            buffer_full: Some(0.0),
            behind: Some(0.3),
            ..Transferred::default()
        }
    }

    fn limit(rtt: f64, law: &str, moved: &Transferred) -> Limit {
        find_limit(&measured(rtt, here(law)), moved, Direction::Put)
    }

    #[test]
    fn a_busy_machine_is_its_own_limit_unless_the_line_is_full() {
        let busy = Transferred { processors_busy: Some(0.97), loaded_rtt: Some(0.007), ..sent(0.9e9) };
        assert_eq!(limit(0.0003, "cubic", &busy), Limit::ProcessorsHere);
        let long = Transferred { loaded_rtt: Some(0.101), ..busy.clone() };
        assert_eq!(limit(0.1, "cubic", &long), Limit::ProcessorsHere);
        assert_eq!(limit(0.1, "cubic", &Transferred { loaded_rtt: Some(0.18), ..busy }), Limit::Line);
    }

    #[test]
    fn a_disk_that_is_slower_than_the_network_is_what_it_waits_for() {
        let slow = Here { disk_read: Some(105e6), disk_write: Some(60e6), ..here("cubic") };
        assert_eq!(find_limit(&measured(0.01, slow.clone()), &sent(110e6), Direction::Put), Limit::DiskHere);
        assert_eq!(find_limit(&measured(0.01, slow), &sent(70e6), Direction::Get), Limit::DiskHere);
    }

    #[test]
    fn loss_holds_up_cubic_and_not_bbr() {
        let lossy = Transferred { resent: Some(0.01), ..sent(2.1e6) };
        assert_eq!(limit(0.1, "cubic", &lossy), Limit::Loss);
        // Three segments under way on each of many connections.
        let starved = Transferred { channels: 16, resent: Some(0.0166), ..sent(672e3) };
        assert_eq!(limit(0.1, "cubic", &starved), Limit::Loss);
        let own = Transferred { congestion_control: Some("bbr".into()), resent: Some(0.01), ..sent(95e6) };
        assert_eq!(limit(0.1, "cubic", &own), Limit::Line, "the connection's own law counts");
        let fast = Transferred { resent: Some(0.0005), ..sent(115e6) };
        assert_eq!(limit(0.001, "cubic", &fast), Limit::Line);
    }

    #[test]
    fn loss_on_the_way_here_shows_in_the_order_of_what_comes() {
        // Windows of 18 segments, one lost in a hundred.
        let received = Transferred {
            resent: None,
            disordered: Some(0.15),
            window_full: None,
            buffer_full: None,
            behind: None,
            ..sent(2.1e6)
        };
        assert_eq!(find_limit(&measured(0.1, here("bbr")), &received, Direction::Get), Limit::Loss);
        // Hardly a segment under way on each of many connections: they live by their timers.
        let starved =
            Transferred { bytes_per_second: 172e3, channels: 16, disordered: Some(0.18), ..received.clone() };
        assert_eq!(find_limit(&measured(0.1, here("bbr")), &starved, Direction::Get), Limit::Loss);
        // Nearly everything comes out of order, and fast: a depot that uses BBR.
        let fast = Transferred { bytes_per_second: 95e6, disordered: Some(0.95), ..received.clone() };
        assert_eq!(find_limit(&measured(0.1, here("bbr")), &fast, Direction::Get), Limit::Line);
        let clean = Transferred { disordered: Some(0.0), ..received };
        assert_eq!(find_limit(&measured(0.1, here("bbr")), &clean, Direction::Get), Limit::Line);
    }

    #[test]
    fn loss_in_a_queue_that_the_transfer_itself_fills_is_the_lines() {
        let full = Transferred { resent: Some(0.1), loaded_rtt: Some(0.19), ..sent(115e6) };
        assert_eq!(limit(0.1, "bbr", &full), Limit::Line);
        let empty = Transferred { loaded_rtt: Some(0.101), ..full };
        assert_eq!(limit(0.1, "bbr", &empty), Limit::Loss);
    }

    /// Little was sent on a thin way out and came back at once on a wide one, whose queue was overrun.
    #[test]
    fn connections_that_have_not_got_going_are_not_said_to_be_slowed_by_loss() {
        let going = Transferred {
            resent: None,
            disordered: Some(0.05),
            window_full: None,
            buffer_full: None,
            behind: None,
            loaded_rtt: Some(0.031),
            ..sent(8.3e6)
        };
        let limit = |moved: &Transferred| find_limit(&measured(0.03, here("bbr")), moved, Direction::Get);
        assert_eq!(limit(&going), Limit::Loss);
        assert_eq!(limit(&Transferred { at_least: true, ..going }), Limit::Line);
    }

    #[test]
    fn full_buffers_are_what_the_kernel_says_they_are() {
        assert_eq!(
            limit(0.1, "cubic", &Transferred { buffer_full: Some(0.6), ..sent(19e6) }),
            Limit::BuffersHere
        );
        assert_eq!(
            limit(0.1, "cubic", &Transferred { window_full: Some(0.6), ..sent(19e6) }),
            Limit::BuffersThere
        );
        assert_eq!(
            limit(0.0003, "cubic", &Transferred { window_full: Some(0.6), ..sent(1e9) }),
            Limit::Depot
        );
    }

    #[test]
    fn where_the_kernel_does_not_say_the_round_trip_tells() {
        let silent = Transferred { window_full: None, buffer_full: None, ..sent(110e6) };
        assert_eq!(limit(0.1, "cubic", &silent), Limit::Line);
        let one = Transferred { channels: 1, ..silent };
        assert_eq!(limit(0.1, "cubic", &one), Limit::BuffersHere);
        assert_eq!(limit(0.1, "cubic", &Transferred { udp: true, ..one }), Limit::Line, "they are TCP's");
    }

    #[test]
    fn a_depot_that_syncs_late_has_a_slow_disk() {
        assert_eq!(
            limit(0.002, "cubic", &Transferred { behind: Some(2.0), ..sent(400e6) }),
            Limit::DiskThere
        );
        assert_eq!(limit(0.6, "cubic", &Transferred { behind: Some(2.0), ..sent(6e6) }), Limit::Line);
    }

    #[test]
    fn without_any_measurement_the_line_is_to_blame() {
        let nothing = Transferred { bytes_per_second: 1e6, channels: 2, ..Transferred::default() };
        assert_eq!(find_limit(&Measurements::default(), &nothing, Direction::Put), Limit::Line);
    }
}
