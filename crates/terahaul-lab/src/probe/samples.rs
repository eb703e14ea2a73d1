//! What counters that were read now and then say about a transfer.

use super::Transferred;
use crate::work::Direction;

/// Everything that was read at one moment. Counters only ever grow.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Sample {
    /// Seconds since the transfer was begun.
    pub at: f64,
    /// Bytes that the engine has given to its sockets, or taken from them.
    pub moved: u64,
    /// Bytes in datagrams that arrived, where the data goes over UDP.
    pub over_udp: Option<u64>,
    /// Bytes that are durable at the other end; of sending only.
    pub durable: u64,
    /// Data channels.
    pub channels: usize,
    /// The kernel's counters, where it tells.
    pub tcp: Option<Tcp>,
    /// The processors' time, where the kernel tells.
    pub processors: Option<Processors>,
}

/// Counters of one TCP connection, or of several together, from when they were made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tcp {
    /// Bytes that the other end has said to have, in order or not.
    pub delivered: u64,
    /// Bytes that came from it.
    pub received: u64,
    /// Segments and bytes that are to be sent, or sent and not acknowledged, now; the sum says no more than whether there
    /// are any.
    pub outstanding: u64,
    /// Segments with data that went out, those sent again included.
    pub segments_out: u64,
    /// Those sent again.
    pub resent: u64,
    /// Segments with data that came.
    pub segments_in: u64,
    /// Those that came out of order.
    pub disordered: u64,
    /// Microseconds in which there was something to send or not yet acknowledged.
    pub busy: u64,
    /// Of them, those in which the other end's window was full.
    pub window_full: u64,
    /// Of them, those in which this end's buffer was.
    pub buffer_full: u64,
    /// Its congestion control.
    pub congestion_control: String,
}

impl Tcp {
    /// Adds another connection's.
    pub fn add(&mut self, other: &Self) {
        self.delivered += other.delivered;
        self.received += other.received;
        self.outstanding += other.outstanding;
        self.segments_out += other.segments_out;
        self.resent += other.resent;
        self.segments_in += other.segments_in;
        self.disordered += other.disordered;
        self.busy += other.busy;
        self.window_full += other.window_full;
        self.buffer_full += other.buffer_full;
        if self.congestion_control.is_empty() {
            self.congestion_control.clone_from(&other.congestion_control);
        }
    }
}

/// Time that all processors together have spent, in the kernel's ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Processors {
    /// Working.
    pub busy: u64,
    /// Waiting for work.
    pub idle: u64,
}

/// A transfer that moved for less than this, in seconds, tells a lower bound.
const SHORT: f64 = 1.0;
/// The same in round trips: connections double what they carry in each of their first.
const SHORT_ROUND_TRIPS: f64 = 12.0;

/// Opening takes less than this part of a transfer's bytes, and so do its last words.
const WORDS: u64 = 20;

/// What the samples up to `until` say about the rate, and all of them about what became durable. `None` where nothing
/// moved. The second half counts: by then connections have got going, and their number has been found.
pub(super) fn summarise(
    samples: &[Sample],
    direction: Direction,
    rtt: f64,
    until: f64,
) -> Option<Transferred> {
    let all = samples.last()?;
    // Datagrams have headers. Of what was handed over more than has arrived, nothing is known of them.
    let content = all.over_udp.map(|arrived| (all.moved as f64 / arrived.max(1) as f64).min(1.0));
    let counted = |sample: &Sample| {
        let over_tcp = sample.tcp.as_ref().map(|tcp| match direction {
            Direction::Put => tcp.delivered,
            Direction::Get => tcp.received,
        });
        over_tcp.or(sample.over_udp.zip(content).map(|(arrived, content)| (arrived as f64 * content) as u64))
    };
    // What was given to a socket may never have left its buffer.
    let arrived = |sample: &Sample| match direction {
        Direction::Put => sample.durable,
        Direction::Get => sample.moved,
    };
    // A connection that came and went between two readings is in what arrived alone.
    let unseen = counted(all).is_some_and(|counted| counted < arrived(all) / 2);
    let bytes = |sample: &Sample| match counted(sample) {
        Some(_) if unseen => arrived(sample),
        Some(counted) => counted,
        None => sample.moved,
    };
    // The engine counts whole blocks: the kernel may have had most of a short transfer by then. What it counts before
    // is what opening took.
    let moves = |sample: &Sample| sample.moved > 0 || bytes(sample) > bytes(all) / WORDS;
    let begun = samples.iter().position(moves)?.saturating_sub(1);
    let moving = samples.get(begun..)?;
    let first = moving.first()?;
    // What came too late for that tells more than nothing.
    let last = moving.iter().find(|sample| sample.at >= until && bytes(sample) > bytes(first)).unwrap_or(all);
    let middle = moving.iter().find(|sample| sample.at >= (first.at + last.at) / 2.0)?;
    // What was over by then but for its last words has no second half, nor has what becomes durable at once.
    let since = |sample: &Sample| bytes(last).saturating_sub(bytes(sample));
    let from = if !unseen && since(middle) > since(first) / WORDS { middle } else { first };
    let seconds = last.at - from.at;
    if seconds <= 0.0 || bytes(last) <= bytes(from) {
        return None;
    }
    let tcp = last.tcp.as_ref().zip(from.tcp.as_ref());
    let tcp_share = |part: fn(&Tcp) -> u64, whole: fn(&Tcp) -> u64| {
        let (last, from) = tcp?;
        let grown = |count: fn(&Tcp) -> u64| count(last).saturating_sub(count(from)) as f64;
        (grown(whole) > 0.0).then(|| grown(part) / grown(whole))
    };
    let processors = last.processors.zip(from.processors).and_then(|(last, from)| {
        let busy = last.busy.saturating_sub(from.busy) as f64;
        let all = busy + last.idle.saturating_sub(from.idle) as f64;
        (all > 0.0).then(|| busy / all)
    });
    let only = |of: Direction, share: Option<f64>| share.filter(|_| direction == of);
    let sent_by = tcp.filter(|_| direction == Direction::Put);
    let rate = (bytes(last) - bytes(from)) as f64 / seconds;
    Some(Transferred {
        bytes_per_second: rate,
        delay: (from.at - bytes(from) as f64 / rate).max(0.0),
        at_least: unseen || last.at - first.at < SHORT.max(SHORT_ROUND_TRIPS * rtt),
        // There are none yet in the first, and perhaps none any more in the last.
        channels: samples.iter().map(|sample| sample.channels).max().unwrap_or(0),
        udp: last.over_udp.is_some(),
        congestion_control: sent_by.map(|(last, _)| last.congestion_control.clone()),
        processors_busy: processors,
        resent: only(Direction::Put, tcp_share(|tcp| tcp.resent, |tcp| tcp.segments_out)),
        disordered: only(Direction::Get, tcp_share(|tcp| tcp.disordered, |tcp| tcp.segments_in)),
        window_full: only(Direction::Put, tcp_share(|tcp| tcp.window_full, |tcp| tcp.busy)),
        buffer_full: only(Direction::Put, tcp_share(|tcp| tcp.buffer_full, |tcp| tcp.busy)),
        behind: only(Direction::Put, behind(samples)),
        ..Transferred::default()
    })
}

/// From when the other end had received everything until all of it was durable.
fn behind(samples: &[Sample]) -> Option<f64> {
    let all = samples.last()?;
    let durable = samples.iter().find(|sample| sample.durable >= all.moved)?;
    let received = |sample: &&Sample| {
        sample.moved == all.moved
            && sample.tcp.as_ref().is_none_or(|tcp| tcp.outstanding == 0)
            && sample.over_udp.is_none_or(|arrived| arrived >= all.moved)
    };
    let received = samples.iter().find(received).map_or(durable.at, |sample| sample.at);
    Some((durable.at - received).max(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Six seconds, read each 0.1 s, of a transfer at 10 MB/s that begins after 0.5 s and is given nothing more after four.
    /// What was delivered is durable `late` seconds after that.
    fn samples(late: f64) -> Vec<Sample> {
        let delivered = |at: f64| ((at.min(4.0) - 0.5).max(0.0) * 10e6) as u64;
        let read = |number: u32| {
            let at = f64::from(number) / 10.0;
            let now = delivered(at);
            let tcp = Tcp {
                delivered: now,
                outstanding: u64::from(now < delivered(4.0)),
                segments_out: now / 1000,
                resent: now / 100_000,
                busy: now,
                buffer_full: now / 2,
                congestion_control: "bbr".into(),
                ..Tcp::default()
            };
            let processors = Processors { busy: u64::from(number), idle: 3 * u64::from(number) };
            Sample {
                at,
                // The sockets' buffers take a megabyte at once.
                moved: if at < 0.5 { 0 } else { (now + 1_000_000).min(delivered(4.0)) },
                durable: delivered(at - late),
                channels: 8,
                over_udp: None,
                tcp: Some(tcp),
                processors: Some(processors),
            }
        };
        (0..=60).map(read).collect()
    }

    #[test]
    fn the_rate_is_what_the_other_end_says_to_have() {
        let sent = summarise(&samples(0.1), Direction::Put, 0.1, 4.0).unwrap();
        assert!((sent.bytes_per_second - 10e6).abs() < 1e3, "{sent:?}");
        assert!((sent.delay - 0.5).abs() < 1e-3, "{sent:?}");
        assert_eq!((sent.channels, sent.at_least, sent.processors_busy), (8, false, Some(0.25)));
        assert_eq!(sent.congestion_control.as_deref(), Some("bbr"));
        assert!((sent.resent.unwrap() - 0.01).abs() < 1e-4 && sent.buffer_full == Some(0.5), "{sent:?}");
    }

    /// A short measurement was said to have gone over none.
    #[test]
    fn channels_are_the_most_that_were_seen() {
        let mut samples = samples(0.1);
        samples.iter_mut().filter(|sample| sample.at > 3.0).for_each(|sample| sample.channels = 0);
        samples[0].channels = 0;
        assert_eq!(summarise(&samples, Direction::Put, 0.1, 4.0).unwrap().channels, 8);
    }

    #[test]
    fn last_words_are_no_second_half() {
        let read = |(at, received): (f64, u64)| {
            let tcp = Some(Tcp { received, ..Tcp::default() });
            Sample { at, moved: received, tcp, ..Sample::default() }
        };
        let samples = [(0.0, 0), (0.05, 19_000_000), (0.1, 20_000_000), (0.2, 20_000_037)].map(read);
        let received = summarise(&samples, Direction::Get, 0.0001, 20.0).unwrap();
        assert!(received.bytes_per_second > 50e6, "{received:?}");
    }

    #[test]
    fn a_depot_that_syncs_late_is_behind() {
        // A lost segment is on its way once more for half a second.
        let mut lost = samples(0.7);
        lost.iter_mut()
            .filter(|sample| sample.at < 4.45)
            .filter_map(|sample| sample.tcp.as_mut())
            .for_each(|tcp| tcp.outstanding = 1);
        let late = summarise(&lost, Direction::Put, 0.1, 4.0).unwrap().behind.unwrap();
        assert!((0.1..0.35).contains(&late), "{late}");
        let behind = |late| summarise(&samples(late), Direction::Put, 0.1, 4.0).unwrap().behind;
        assert!((0.1..0.25).contains(&behind(0.1).unwrap()) && (1.5..1.65).contains(&behind(1.5).unwrap()));
        assert_eq!(behind(3.0), None, "not all of it became durable");
    }

    #[test]
    fn what_the_kernel_had_before_the_engine_counted_a_block_is_not_lost() {
        let read = |at, moved, received| Sample {
            at,
            moved,
            tcp: Some(Tcp { received, ..Tcp::default() }),
            ..Sample::default()
        };
        let samples = [
            Sample::default(),
            read(0.001, 0, 2_277),
            read(0.031, 0, 20_032_385),
            read(0.056, 20_000_000, 20_032_385),
        ];
        let received = summarise(&samples, Direction::Get, 0.0, 0.04).unwrap();
        assert!(received.bytes_per_second > 100e6 && received.at_least, "{received:?}");
    }

    #[test]
    fn without_the_kernels_counters_the_engines_are_taken() {
        let mut samples = samples(0.1);
        samples.iter_mut().for_each(|sample| (sample.tcp, sample.processors) = (None, None));
        let sent = summarise(&samples, Direction::Put, 0.1, 3.8).unwrap();
        assert!((sent.bytes_per_second - 10e6).abs() < 1e3, "{sent:?}");
        assert_eq!((sent.resent, sent.processors_busy, sent.congestion_control), (None, None, None));
    }

    /// The engine hands a session blocks ahead of what has arrived.
    #[test]
    fn over_udp_what_arrived_counts_without_its_headers() {
        for (ahead, headers) in [(5_000_000, 1.0), (0, 1.02)] {
            let mut samples = samples(0.1);
            for sample in &mut samples {
                sample.over_udp = sample.tcp.take().map(|tcp| (tcp.delivered as f64 * headers) as u64);
                sample.moved += ahead;
            }
            let sent = summarise(&samples, Direction::Put, 0.1, 4.0).unwrap();
            assert!((sent.bytes_per_second - 10e6).abs() < 1e3 && sent.resent.is_none(), "{sent:?}");
            assert!(sent.udp, "{sent:?}");
        }
    }

    /// A quota ends it when the sockets' buffers have taken far more than the line has carried.
    #[test]
    fn what_ends_early_tells_what_arrived_and_not_what_buffers_took() {
        let read = |number: u32| {
            let at = f64::from(number) / 40.0;
            let delivered = ((at - 0.1).max(0.0) * 2.5e6) as u64;
            let tcp = Some(Tcp { delivered, ..Tcp::default() });
            Sample { at, moved: if at < 0.1 { 0 } else { 5_000_000 }, tcp, ..Sample::default() }
        };
        let mut samples: Vec<Sample> = (0..=24).map(read).collect();
        let sent = summarise(&samples, Direction::Put, 0.02, 0.6).unwrap();
        assert!(sent.at_least && (2.4e6..2.6e6).contains(&sent.bytes_per_second), "{sent:?}");
        samples.iter_mut().for_each(|sample| sample.over_udp = sample.tcp.take().map(|tcp| tcp.delivered));
        let sent = summarise(&samples, Direction::Put, 0.02, 0.6).unwrap();
        assert!((2.4e6..2.6e6).contains(&sent.bytes_per_second), "{sent:?}");
    }

    #[test]
    fn connections_that_came_and_went_unseen_count_with_what_was_durable_by_then() {
        let read = |(at, moved, durable)| Sample {
            at,
            moved,
            durable,
            tcp: Some(Tcp::default()),
            ..Sample::default()
        };
        let samples =
            [(0.0, 0, 0), (0.02, 1_000_000, 0), (0.045, 1_000_000, 0), (0.07, 1_000_000, 1_000_000)]
                .map(read);
        let sent = summarise(&samples, Direction::Put, 0.0, 0.02).unwrap();
        assert!(sent.at_least && (sent.bytes_per_second - 1e6 / 0.07).abs() < 1.0, "{sent:?}");
    }

    #[test]
    fn what_was_over_at_once_is_a_lower_bound_and_nothing_is_nothing() {
        assert!(summarise(&samples(0.1), Direction::Put, 0.1, 1.2).unwrap().at_least);
        assert!(summarise(&samples(0.1), Direction::Put, 0.6, 4.0).unwrap().at_least, "a few round trips");
        let all = Sample { at: 0.02, moved: 1000, ..Sample::default() };
        let later = Sample { at: 0.05, ..all.clone() };
        let at_once = summarise(&[Sample::default(), all, later], Direction::Get, 0.0, 0.1).unwrap();
        assert!(at_once.at_least && at_once.bytes_per_second == 20_000.0, "{at_once:?}");
        assert!(summarise(&samples(0.1), Direction::Put, 0.1, 0.3).unwrap().at_least);
        assert_eq!(summarise(&[], Direction::Get, 0.1, 1.0), None);
    }
}
