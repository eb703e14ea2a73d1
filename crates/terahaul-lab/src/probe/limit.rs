//! What keeps a transfer from being faster.

use serde::{Deserialize, Serialize};

use super::{Here, Measurements, Transferred};

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
    Buffers,
    /// Packets are lost, and TCP slows down for each of them.
    Loss,
    /// The line itself, the depot's processors, or other users of either: nothing here tells them apart.
    Line,
}

/// Busier than this, a machine has nothing left for a faster transfer.
const BUSY: f64 = 0.9;
/// Half of a buffer is bookkeeping; a connection that fills this share of the rest is held up by it.
const FULL: f64 = 0.7;
/// A disk this close to the network's rate is what the network waits for.
const CLOSE: f64 = 1.2;
/// Less durable than this when the measuring ended, and the depot's disk is behind.
const BEHIND: f64 = 0.6;
/// Loss below this is no hindrance even to CUBIC at a few milliseconds.
const SMALL_LOSS: f64 = 2e-4;

/// What limits sending (`sending`) or receiving at what `moved` says.
pub fn find_limit(measured: &Measurements, moved: &Transferred, sending: bool) -> Limit {
    let here = &measured.here;
    let disk = if sending { here.disk_read } else { here.disk_write };
    if moved.processors_busy.is_some_and(|busy| busy > BUSY) {
        return Limit::ProcessorsHere;
    }
    if disk.is_some_and(|disk| disk < moved.bytes_per_second * CLOSE) {
        return Limit::DiskHere;
    }
    let rtt = measured.rtt().unwrap_or(0.0);
    if sending && loss_limits(here, moved, rtt) {
        return Limit::Loss;
    }
    let buffer = if sending { here.send_buffer } else { here.receive_buffer };
    let most = buffer.map(|buffer| most_through(buffer, moved.channels, rtt));
    if most.is_some_and(|most| moved.bytes_per_second > FULL * most) {
        return Limit::Buffers;
    }
    if sending && moved.durable.is_some_and(|durable| durable < BEHIND) {
        return Limit::DiskThere;
    }
    Limit::Line
}

/// What buffers of this size let through: half of one is on the way at a time, the rest is bookkeeping.
pub(super) fn most_through(buffer: u64, channels: usize, rtt: f64) -> f64 {
    buffer as f64 / 2.0 * channels.max(1) as f64 / rtt.max(1e-6)
}

/// What a law that takes each loss for congestion carries: Mathis and others, 1997.
fn most_with_loss(loss: f64, channels: usize, rtt: f64) -> f64 {
    const SEGMENT: f64 = 1448.0;
    channels.max(1) as f64 * SEGMENT / rtt.max(1e-6) * 1.22 / loss.max(1e-9).sqrt()
}

/// A law that models the path is not slowed by loss alone until there is much of it.
fn loss_limits(here: &Here, moved: &Transferred, rtt: f64) -> bool {
    let Some(loss) = moved.resent.filter(|loss| *loss > SMALL_LOSS) else { return false };
    if here.congestion_control.starts_with("bbr") {
        return loss > 0.02;
    }
    // Where a queue stands, the line is full, and it is the transfer that makes the line lose packets.
    if moved.loaded_rtt.is_some_and(|loaded| loaded > 1.3 * rtt + 0.001) {
        return false;
    }
    // CUBIC does better than the formula on long paths, by two or three times.
    most_with_loss(loss, moved.channels, rtt) < 3.0 * moved.bytes_per_second
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(rtt: f64, here: Here) -> Measurements {
        Measurements { connects: vec![rtt * 1.1, rtt, rtt * 1.3], here, ..Measurements::default() }
    }

    fn here(congestion_control: &str) -> Here {
        Here {
            send_buffer: Some(4 << 20),
            receive_buffer: Some(6 << 20),
            congestion_control: congestion_control.into(),
            disk_read: Some(2e9),
            disk_write: Some(1e9),
            ..Here::default()
        }
    }

    fn moved(bytes_per_second: f64) -> Transferred {
        Transferred {
            bytes_per_second,
            channels: 8,
            processors_busy: Some(0.2),
            resent: Some(0.0),
            loaded_rtt: None,
            durable: Some(0.95),
        }
    }

    #[test]
    fn a_busy_machine_is_its_own_limit_whatever_else_there_is() {
        let busy = Transferred { processors_busy: Some(0.97), resent: Some(0.01), ..moved(1.1e9) };
        assert_eq!(find_limit(&measured(0.0003, here("cubic")), &busy, true), Limit::ProcessorsHere);
    }

    #[test]
    fn a_disk_that_is_hardly_faster_than_the_network_is_what_it_waits_for() {
        let slow = Here { disk_read: Some(115e6), disk_write: Some(60e6), ..here("cubic") };
        assert_eq!(find_limit(&measured(0.01, slow.clone()), &moved(110e6), true), Limit::DiskHere);
        assert_eq!(find_limit(&measured(0.01, slow), &moved(70e6), false), Limit::DiskHere);
    }

    #[test]
    fn loss_holds_up_cubic_and_not_bbr() {
        let lossy = Transferred { resent: Some(0.01), ..moved(2.1e6) };
        assert_eq!(find_limit(&measured(0.1, here("cubic")), &lossy, true), Limit::Loss);
        let lossy = Transferred { resent: Some(0.01), ..moved(95e6) };
        assert_eq!(find_limit(&measured(0.1, here("bbr")), &lossy, true), Limit::Line);
        let fast = Transferred { resent: Some(0.0005), ..moved(115e6) };
        assert_eq!(find_limit(&measured(0.001, here("cubic")), &fast, true), Limit::Line);
    }

    #[test]
    fn loss_in_a_queue_that_the_transfer_itself_fills_is_the_lines() {
        let full = Transferred { resent: Some(0.002), loaded_rtt: Some(0.015), ..moved(115e6) };
        assert_eq!(find_limit(&measured(0.003, here("cubic")), &full, true), Limit::Line);
        let empty = Transferred { loaded_rtt: Some(0.003), ..full };
        assert_eq!(find_limit(&measured(0.003, here("cubic")), &empty, true), Limit::Loss);
    }

    #[test]
    fn small_buffers_hold_up_a_long_path() {
        let few = Transferred { channels: 1, ..moved(19e6) };
        assert_eq!(find_limit(&measured(0.1, here("cubic")), &few, true), Limit::Buffers);
        assert_eq!(find_limit(&measured(0.1, here("cubic")), &moved(110e6), true), Limit::Line);
    }

    #[test]
    fn a_depot_that_syncs_late_has_a_slow_disk() {
        let behind = Transferred { durable: Some(0.3), ..moved(400e6) };
        assert_eq!(find_limit(&measured(0.002, here("cubic")), &behind, true), Limit::DiskThere);
    }

    #[test]
    fn without_any_measurement_the_line_is_to_blame() {
        let nothing = Transferred { bytes_per_second: 1e6, channels: 2, ..Transferred::default() };
        assert_eq!(find_limit(&Measurements::default(), &nothing, true), Limit::Line);
    }
}
