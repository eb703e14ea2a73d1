//! What came in on one channel, as reports tell it.

use std::net::SocketAddr;

use terahaul_wire::packet::{ChannelNumber, ChannelReport, MAX_ARRIVALS, MAX_REPORT_RUNS, PacketNumber};

use crate::path::Allowance;
use crate::{Datagram, Opened, Ranges, Time};

/// One channel's packets.
#[derive(Debug, Default)]
pub(crate) struct Incoming {
    received: Ranges,
    bytes: u64,
    congested: u64,
    /// Arrivals since the last report.
    arrivals: Vec<(u64, Time)>,
    largest: Option<(u64, Time)>,
    /// Where the newest packet came from.
    remote: Option<SocketAddr>,
    /// What may still go there. This end has little to send, so nothing is proven.
    allowance: Allowance,
}

/// Arrivals that are kept between two reports.
const MAX_KEPT: usize = 512;

impl Incoming {
    /// `remote` is where this end was told that the other is, if it is to speak first.
    pub(crate) fn new(remote: Option<SocketAddr>) -> Self {
        let allowance = if remote.is_some() { Allowance::ANY } else { Allowance::default() };
        Self { remote, allowance, ..Self::default() }
    }

    /// Where the other end is, and how many bytes may go there now.
    pub(crate) fn remote(&self) -> Option<(SocketAddr, u64)> {
        Some((self.remote?, self.allowance.left()))
    }

    /// A datagram went there.
    pub(crate) fn handle_sent(&mut self, len: usize) {
        self.allowance.handle_sent(len as u64);
    }

    /// A packet came, for the first time.
    pub(crate) fn handle_packet(&mut self, datagram: &Datagram, packet: &Opened<'_>) {
        let Datagram { arrived, from, congested, .. } = *datagram;
        let (number, len) = (packet.number.0, packet.len as u64);
        self.received.insert(number..number + 1);
        self.received.keep_highest(MAX_REPORT_RUNS);
        self.bytes += len;
        self.congested += u64::from(congested);
        if self.arrivals.len() == MAX_KEPT {
            self.arrivals.pop();
        }
        self.arrivals.push((number, arrived));
        if self.largest.is_none_or(|(largest, _)| number > largest) {
            self.largest = Some((number, arrived));
            // An old packet may have been kept back by somebody and sent from elsewhere.
            if self.remote != Some(from) {
                (self.remote, self.allowance) = (Some(from), Allowance::default());
            }
        }
        if self.remote == Some(from) {
            self.allowance.handle_heard(len);
        }
    }

    /// Whether anything came at all.
    pub(crate) fn has_heard(&self) -> bool {
        self.largest.is_some()
    }

    /// Bytes of all packets.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// When the newest packet came.
    pub(crate) fn heard_at(&self) -> Option<Time> {
        self.largest.map(|(_, at)| at)
    }

    /// The sender knows of all packets below this.
    pub(crate) fn handle_floor(&mut self, floor: PacketNumber) {
        // The newest run stays, or the next report would have nothing to say.
        let keep = self.largest.map_or(0, |(largest, _)| largest);
        self.received.remove_below(floor.0.min(keep));
    }

    /// A report on this channel, with so many runs and arrivals at most. `None` when nothing came.
    pub(crate) fn report(
        &self,
        channel: ChannelNumber,
        runs: usize,
        arrivals: usize,
    ) -> Option<ChannelReport> {
        let (largest, at) = self.largest?;
        let mut told = vec![(PacketNumber(largest), at.micros())];
        let most = arrivals.clamp(1, MAX_ARRIVALS) - 1;
        let step = self.arrivals.len().div_ceil(most.max(1)).max(1);
        let spread = self.arrivals.iter().step_by(step).filter(|(number, _)| *number != largest);
        told.extend(spread.take(most).map(|(number, at)| (PacketNumber(*number), at.micros())));
        Some(ChannelReport {
            channel,
            bytes: self.bytes,
            congested: self.congested,
            runs: self.received.iter().rev().take(runs.clamp(1, MAX_REPORT_RUNS)).cloned().collect(),
            arrivals: told,
        })
    }

    /// A report was sent: the next one tells of later arrivals.
    pub(crate) fn handle_reported(&mut self) {
        self.arrivals.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(port: u16) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, 1], port))
    }

    /// A packet of `len` bytes comes from there, as many microseconds after the origin as its number.
    fn come(incoming: &mut Incoming, number: u64, len: usize, from: SocketAddr) {
        let arrived = Time::from_nanos(number * 1_000);
        let datagram = Datagram { arrived, channel: ChannelNumber(3), from, congested: number == 3 };
        incoming.handle_packet(&datagram, &Opened { number: PacketNumber(number), len, payload: &[] });
    }

    fn heard(numbers: impl IntoIterator<Item = u64>) -> Incoming {
        let mut incoming = Incoming::default();
        numbers.into_iter().for_each(|number| come(&mut incoming, number, 100, address(1)));
        incoming
    }

    #[test]
    fn a_report_tells_what_came_newest_first_and_when() {
        let mut incoming = heard((0..50).chain(60..100));
        let report = incoming.report(ChannelNumber(3), 10, 5).unwrap();
        assert_eq!(report.runs, [60..100, 0..50]);
        assert_eq!((report.bytes, report.congested), (9_000, 1));
        assert_eq!(report.arrivals[0], (PacketNumber(99), 99));
        assert_eq!(report.arrivals.len(), 5);
        incoming.handle_reported();
        incoming.handle_floor(PacketNumber(70));
        let later = incoming.report(ChannelNumber(3), 10, 5).unwrap();
        assert_eq!((later.runs, later.bytes), (vec![70..100], 9_000));
        assert_eq!(later.arrivals, [(PacketNumber(99), 99)]);
        incoming.handle_floor(PacketNumber(1_000));
        assert_eq!(incoming.report(ChannelNumber(3), 10, 5).unwrap().runs, [99..100]);
    }

    #[test]
    fn only_the_newest_packet_says_where_the_other_end_is() {
        let mut incoming = heard(0..5);
        come(&mut incoming, 7, 100, address(2));
        come(&mut incoming, 6, 100, address(3));
        assert_eq!(incoming.remote, Some(address(2)));
    }

    #[test]
    fn an_address_gets_no_more_than_thrice_what_came_from_it() {
        let mut incoming = heard(0..5);
        assert_eq!(incoming.remote(), Some((address(1), 1_500)));
        incoming.handle_sent(1_200);
        assert_eq!(incoming.remote(), Some((address(1), 300)));
        come(&mut incoming, 5, 50, address(2));
        assert_eq!(incoming.remote(), Some((address(2), 150)), "what came from elsewhere counts for nothing");
        let told = Incoming::new(Some(address(3)));
        assert_eq!(told.remote(), Some((address(3), u64::MAX)), "this end chose it");
    }

    #[test]
    fn memory_is_bounded_whatever_comes() {
        let incoming = heard((0..100_000).map(|number| number * 2));
        assert!(incoming.received.len() <= MAX_REPORT_RUNS);
        assert!(incoming.arrivals.len() <= MAX_KEPT);
        assert_eq!(incoming.report(ChannelNumber(0), usize::MAX, 8).unwrap().runs.len(), MAX_REPORT_RUNS);
    }
}
