//! What to do, in plain words.

use serde::{Deserialize, Serialize};

use super::limit::{loses_by_itself, loss, models_the_path, most_through, most_with_loss, queue};
use super::{Buffer, Limit, Measurements, Transferred, find_limit};
use crate::figures::{bits, bytes, milliseconds, percent, span};
use crate::work::Direction;

/// What to do about a path.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Advice {
    /// What limits sending and receiving, as sentences.
    pub findings: Vec<String>,
    /// What to do, as sentences.
    pub recommendations: Vec<String>,
    /// Settings for this machine's `sysctl`.
    pub sysctl_here: Vec<String>,
    /// Settings for the depot's.
    pub sysctl_there: Vec<String>,
}

/// What a processor compresses in a second with half of its time: zstd's third level takes 170 MB/s of source code.
const COMPRESSED: f64 = 85e6;
/// A buffer that a kernel should allow on any long path: what 10 Gbit/s over 50 ms has under way.
const LARGE_BUFFER: u64 = 64 << 20;
/// A line of 1 Gbit/s, which a single connection should be able to fill.
const ORDINARY_LINE: f64 = 125e6;
/// What other programs' one connection carries is worth a word when it is less than this share.
const MUCH_LESS: f64 = 0.6;

/// Less than this share of what UDP carries is not for the line's being full.
const CLEARLY_LESS: f64 = 0.8;

const BOTH: [Direction; 2] = [Direction::Put, Direction::Get];

/// What the measurements say, and what follows from it.
pub fn advise(measured: &Measurements) -> Advice {
    let mut advice = Advice::default();
    for direction in BOTH {
        for moved in measured.tcp.of(direction).into_iter().chain(measured.faster_udp(direction)) {
            let limit = find_limit(measured, moved, direction);
            advice.findings.push(finding(measured, moved, direction, limit));
            advice.recommend(measured, moved, direction, limit);
        }
    }
    if transfers(measured).next().is_some() {
        advice.channels_and_transport(measured);
    } else {
        advice.of_round_trips_alone(measured);
        if measured.udp_blocked {
            advice.say(transport(measured));
        }
    }
    advice.lost_connects(measured);
    advice.cipher(measured);
    advice.compression(measured);
    advice
}

fn finding(measured: &Measurements, moved: &Transferred, direction: Direction, limit: Limit) -> String {
    let rtt = measured.rtt().unwrap_or(0.0);
    let why = match limit {
        Limit::ProcessorsHere => {
            format!("this machine's processors, {} busy", percent(moved.processors_busy.unwrap_or(1.0)))
        }
        Limit::DiskHere => {
            let does = match direction {
                Direction::Put => "reads",
                Direction::Get => "writes and syncs",
            };
            let rate = bytes(measured.here.disk(direction).unwrap_or(0.0));
            format!("this machine's disk, which {does} {rate}")
        }
        Limit::DiskThere => format!(
            "the depot's disk, which needed {} more when everything had been received",
            span(moved.behind.unwrap_or(0.0))
        ),
        Limit::BuffersHere => {
            format!("TCP's buffers of this machine, too small for a round trip of {}", milliseconds(rtt))
        }
        Limit::BuffersThere => {
            format!("TCP's buffers of the depot, too small for a round trip of {}", milliseconds(rtt))
        }
        Limit::Depot => "the depot, whose processors take what comes no faster".into(),
        Limit::Loss => {
            let loss = percent(loss(moved, rtt).unwrap_or(0.0));
            match direction {
                Direction::Put if is_bbr(moved) => {
                    format!("loss: {loss} of the segments were sent again, which is more than BBR bears")
                }
                Direction::Put => {
                    let law =
                        moved.congestion_control.as_ref().map_or("TCP".into(), |law| law.to_uppercase());
                    format!("loss: {loss} of the segments were sent again, and {law} slows down for each")
                }
                Direction::Get => format!(
                    "loss: about {loss} of the segments do not arrive, and the depot's TCP slows down for each"
                ),
            }
        }
        Limit::Line => match queue(moved, rtt) {
            // A thin way back delays what is acknowledged, and TCP with it.
            Some(queue) if udp_clearly_faster(measured, moved, direction) => format!(
                "a queue of {} on the way out or back; the line itself carries more",
                milliseconds(queue)
            ),
            Some(queue) => {
                format!("the line, which is full: a queue of {} stands before it", milliseconds(queue))
            }
            None => "the line, its other users or the depot: nothing here is in the way".into(),
        },
    };
    let what = match direction {
        Direction::Put => "Sending",
        Direction::Get => "Receiving",
    };
    let over = match (moved.udp, measured.faster_udp(direction).is_some()) {
        (true, _) => " over UDP",
        (false, true) => " over TCP",
        (false, false) => "",
    };
    format!("{what}{over}: {why}")
}

/// Whether UDP carries so much more than this that the line was not full of it.
fn udp_clearly_faster(measured: &Measurements, moved: &Transferred, direction: Direction) -> bool {
    let udp = measured.faster_udp(direction).filter(|_| !moved.udp);
    udp.is_some_and(|udp| moved.bytes_per_second < CLEARLY_LESS * udp.bytes_per_second)
}

/// Whether the data channels were sent by BBR, which only much loss holds up.
fn is_bbr(moved: &Transferred) -> bool {
    moved.congestion_control.as_ref().is_some_and(|law| law.starts_with("bbr"))
}

impl Advice {
    fn say(&mut self, text: impl Into<String>) {
        let text = text.into();
        if !self.recommendations.contains(&text) {
            self.recommendations.push(text);
        }
    }

    fn set(lines: &mut Vec<String>, line: String) {
        if !lines.contains(&line) {
            lines.push(line);
        }
    }

    fn recommend(
        &mut self,
        measured: &Measurements,
        moved: &Transferred,
        direction: Direction,
        limit: Limit,
    ) {
        let here = &measured.here;
        let meanwhile = match measured.faster_udp(direction) {
            Some(_) => "transfers go over UDP by themselves".to_owned(),
            None => format!("try --channels {}", more(moved)),
        };
        match limit {
            Limit::ProcessorsHere => {
                self.say("Let nothing else run here meanwhile; more channels would need more processor time, not less");
            }
            Limit::DiskHere => self.say("Use a faster disk here: the network waits for it"),
            Limit::DiskThere => self.say("Ask the depot's owner for a faster disk: the network waits for it"),
            Limit::Depot => {
                self.say("Ask the depot's owner for faster processors, or for a time when it has less to do")
            }
            Limit::BuffersHere => {
                self.say(format!(
                    "Allow larger buffers here, as below; until then, try --channels {}",
                    more(moved)
                ));
                let name = match direction {
                    Direction::Put => "wmem",
                    Direction::Get => "rmem",
                };
                Self::set(&mut self.sysctl_here, larger(name, here.buffer(direction)));
            }
            Limit::BuffersThere => {
                self.say(format!(
                    "Allow larger buffers at the depot, as below; until then, try --channels {}",
                    more(moved)
                ));
                Self::set(&mut self.sysctl_there, larger("rmem", None));
            }
            Limit::Loss if direction == Direction::Put && is_bbr(moved) => self.say(format!(
                "Look for what loses packets on the way: BBR is in use here already. Until then, {meanwhile}"
            )),
            Limit::Loss if direction == Direction::Put => {
                let load = match here.congestion_controls.iter().any(|name| name == "bbr") {
                    true => "",
                    false => " ('modprobe tcp_bbr' loads it)",
                };
                self.say(format!(
                    "Use BBR here{load}: it measures what the line carries, and does not take each loss for congestion. Until then, {meanwhile}"
                ));
                Self::set(&mut self.sysctl_here, BBR.into());
            }
            Limit::Loss => {
                self.say(format!(
                    "Use BBR at the depot, which is what sends then, unless it does so already; until then, {meanwhile}"
                ));
                Self::set(&mut self.sysctl_there, BBR.into());
            }
            Limit::Line => {}
        }
    }

    /// Only the round trip is known: what one connection can carry at the most.
    fn of_round_trips_alone(&mut self, measured: &Measurements) {
        let (here, Some(rtt)) = (&measured.here, measured.rtt()) else { return };
        let Some(buffer) = here.send_buffer else { return };
        let most = most_through(buffer.most, 1, rtt);
        if most >= ORDINARY_LINE {
            self.findings.push(format!(
                "A round trip of {} is short enough for one connection: TCP's buffers here let {} through it",
                milliseconds(rtt),
                bits(most)
            ));
            return;
        }
        self.findings.push(format!(
            "A round trip of {} is long for one connection, such as scp's or rsync's: TCP's buffers here let {} through it at the most",
            milliseconds(rtt),
            bits(most)
        ));
        self.say("Use several connections, as Terahaul does, or allow larger buffers at both ends, as below");
        for (name, buffer) in [("wmem", here.send_buffer), ("rmem", here.receive_buffer)] {
            if buffer.is_some_and(|buffer| buffer.most < LARGE_BUFFER) {
                Self::set(&mut self.sysctl_here, larger(name, buffer));
            }
        }
    }

    fn channels_and_transport(&mut self, measured: &Measurements) {
        let rate = highest_rate(measured);
        let tcp = &measured.tcp;
        let ways = [(&tcp.up, Direction::Put), (&tcp.down, Direction::Get)];
        let ways = ways.into_iter().filter_map(|(moved, way)| Some((moved.as_ref()?, way)));
        let faster = ways.max_by(|(a, _), (b, _)| a.bytes_per_second.total_cmp(&b.bytes_per_second));
        let mut transport = transport(measured);
        if let Some(one) = faster.and_then(|(moved, way)| one_connection(measured, moved, way))
            && one < MUCH_LESS * rate
        {
            transport += &format!(
                "; one connection alone, such as scp's or rsync's, would carry about {} here",
                bits(one)
            );
        }
        self.recommendations.insert(0, transport);
        let loses = |text: &String| text.contains("--channels");
        if !self.recommendations.iter().any(loses) {
            let seen = transfers(measured).map(|moved| moved.channels).filter(|channels| *channels > 0);
            let seen: Vec<String> = seen.map(|channels| channels.to_string()).collect();
            let found = if transfers(measured).any(|moved| moved.udp) {
                ", over UDP more of them carry no more".to_owned()
            } else if seen.is_empty() {
                String::new()
            } else {
                format!(", which found {} enough", seen.join(" and "))
            };
            self.recommendations.insert(1, format!("Channels: leave them to Terahaul{found}"));
        }
    }

    fn lost_connects(&mut self, measured: &Measurements) {
        if let lost @ 1.. = measured.lost_connects() {
            self.findings.push(format!(
                "{lost} of {} connections were made at the second attempt only: packets are lost on this path",
                measured.connects.len()
            ));
        }
    }

    fn cipher(&mut self, measured: &Measurements) {
        let Some((aes, chacha)) = measured.here.aes.zip(measured.here.chacha) else { return };
        let (name, rate) = if aes >= chacha { ("AES-128-GCM", aes) } else { ("ChaCha20-Poly1305", chacha) };
        let share = highest_rate(measured) / rate;
        let cost = match share {
            0.0 => String::new(),
            _ => format!(", {} of it at this path's rate", percent(share)),
        };
        self.say(format!("Cipher: {name}; one processor here encrypts {} with it{cost}", bytes(rate)));
    }

    fn compression(&mut self, measured: &Measurements) {
        let Some(up) = measured.fastest(Direction::Put) else { return };
        self.say(if up.bytes_per_second < COMPRESSED * measured.here.processors.max(1) as f64 {
            "Compression: worth it for text, tables and source (-z auto does it by itself), which the processors here compress faster than this path carries them; not for images, videos or archives"
        } else {
            "Compression: none; this path carries data about as fast as the processors here compress it"
        });
    }
}

/// What a transfer would go by, in each direction.
fn transfers(measured: &Measurements) -> impl Iterator<Item = &Transferred> {
    BOTH.into_iter().filter_map(|direction| measured.fastest(direction))
}

/// Bytes a second, in the faster direction.
fn highest_rate(measured: &Measurements) -> f64 {
    transfers(measured).map(|moved| moved.bytes_per_second).fold(0.0, f64::max)
}

/// Which way blocks should go.
fn transport(measured: &Measurements) -> String {
    let faster = |direction| {
        let udp = measured.faster_udp(direction)?;
        let what = match direction {
            Direction::Put => "sending",
            Direction::Get => "receiving",
        };
        let beside = measured
            .tcp
            .of(direction)
            .map_or(String::new(), |tcp| format!(" and {} over TCP", bits(tcp.bytes_per_second)));
        Some(format!("{what} {} over UDP{beside}", bits(udp.bytes_per_second)))
    };
    let faster: Vec<String> = BOTH.into_iter().filter_map(faster).collect();
    if !faster.is_empty() {
        return format!(
            "Transport: leave it to Terahaul, which goes by what carries more: {}",
            faster.join(", ")
        );
    }
    if measured.udp.measured().next().is_some() {
        return "Transport: leave it to Terahaul, which tries both; UDP carries no more than TCP here".into();
    }
    if measured.udp_blocked {
        return "Transport: TCP; UDP does not get through. Have the depot's port number opened for UDP, too: where packets are lost, or others share the line, it may carry far more".into();
    }
    "Transport: TCP, as measured here; on paths of 10 ms and longer transfers try UDP beside it".into()
}

const BBR: &str = "net.ipv4.tcp_congestion_control = bbr";

/// Twice as many channels, and enough to matter.
fn more(moved: &Transferred) -> usize {
    (moved.channels * 2).clamp(16, 64)
}

/// A line for sysctl(8), as tcp(7) describes it.
fn larger(name: &str, buffer: Option<Buffer>) -> String {
    let usual = if name == "wmem" { 65_536 } else { 131_072 };
    let Buffer { least, usual, most } = buffer.unwrap_or(Buffer { least: 4096, usual, most: 0 });
    let most = if most < LARGE_BUFFER { LARGE_BUFFER } else { most * 2 };
    format!("net.ipv4.tcp_{name} = {least} {usual} {most}")
}

/// What one connection carries at the most this way, by what this kernel gives it and by the law that is known of, if any is.
fn one_connection(measured: &Measurements, moved: &Transferred, way: Direction) -> Option<f64> {
    let rtt = measured.rtt()?;
    let through = most_through(measured.here.buffer(way)?.most, 1, rtt);
    let takes_loss_for_congestion = !models_the_path(measured, moved) && !loses_by_itself(moved, rtt);
    let despite_loss = loss(moved, rtt)
        .filter(|loss| takes_loss_for_congestion && *loss > 1e-4)
        .map(|loss| most_with_loss(loss, 1, rtt));
    Some(despite_loss.map_or(through, |despite| through.min(despite)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::{Directions, Here};

    fn long_path() -> Measurements {
        let buffer = |most| Some(Buffer { least: 4096, usual: 65_536, most });
        Measurements {
            connects: vec![0.1, 0.101, 0.1],
            tcp: Directions {
                up: Some(Transferred {
                    bytes_per_second: 2.1e6,
                    channels: 8,
                    congestion_control: Some("cubic".into()),
                    processors_busy: Some(0.05),
                    resent: Some(0.011),
                    window_full: Some(0.0),
                    buffer_full: Some(0.0),
                    loaded_rtt: Some(0.101),
                    behind: Some(0.2),
                    ..Transferred::default()
                }),
                down: None,
            },
            here: Here {
                send_buffer: buffer(4 << 20),
                receive_buffer: buffer(6 << 20),
                congestion_control: "cubic".into(),
                congestion_controls: vec!["reno".into(), "cubic".into(), "bbr".into()],
                aes: Some(5e9),
                chacha: Some(1.8e9),
                ..Here::default()
            },
            ..Measurements::default()
        }
    }

    #[test]
    fn a_lossy_path_under_cubic_gets_bbr_and_the_sysctl_for_it() {
        let advice = advise(&long_path());
        assert_eq!(
            advice.findings,
            ["Sending: loss: 1.1 % of the segments were sent again, and CUBIC slows down for each"]
        );
        assert_eq!((advice.sysctl_here, advice.sysctl_there), (vec![BBR.to_owned()], vec![]));
        let text = advice.recommendations.join("\n");
        for part in ["Use BBR here:", "--channels 16", "scp's", "AES-128-GCM", "-z auto"] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert!(text.contains("would carry about 1.35 Mbit/s"), "{text}");
        let mut route = long_path();
        route.here.congestion_control = "bbr".into();
        assert!(advise(&route).recommendations.join("\n").contains("about 1.35 Mbit/s"), "{route:?}");
        let mut without = long_path();
        without.here.congestion_controls.pop();
        assert!(advise(&without).recommendations.join("\n").contains("modprobe tcp_bbr"));
    }

    /// Which law the depot sends by is not known here.
    #[test]
    fn a_depot_is_not_said_to_be_without_bbr() {
        let mut down = long_path();
        let received = Transferred { resent: None, disordered: Some(0.15), ..down.tcp.up.take().unwrap() };
        down.tcp.down = Some(Transferred { congestion_control: None, ..received });
        let advice = advise(&down);
        assert!(advice.recommendations.join("\n").contains("unless it does so already"), "{advice:?}");
        // Nor is it this kernel's.
        let text = |path: &Measurements| advise(path).recommendations.join("\n");
        let alone = |path: &Measurements| {
            text(path).split("would carry about ").nth(1).map(|text| text[..9].to_owned())
        };
        let cubic = alone(&down);
        down.here.congestion_control = "bbr".into();
        assert!(cubic.is_some() && alone(&down) == cubic, "{cubic:?}");
        assert_eq!((advice.sysctl_here, advice.sysctl_there), (vec![], vec![BBR.to_owned()]));
    }

    #[test]
    fn a_path_that_loses_too_much_for_bbr_is_not_given_bbr() {
        let mut lossy = long_path();
        lossy.here.congestion_control = "bbr".into();
        let up = lossy.tcp.up.as_mut().unwrap();
        (up.congestion_control, up.resent) = (Some("bbr".into()), Some(0.1));
        let advice = advise(&lossy);
        assert_eq!(
            advice.findings,
            ["Sending: loss: 10 % of the segments were sent again, which is more than BBR bears"]
        );
        let text = advice.recommendations.join("\n");
        assert!(!text.contains("Use BBR") && text.contains("try --channels 16"), "{text}");
        assert!(advice.sysctl_here.is_empty(), "{advice:?}");
    }

    #[test]
    fn without_aes_in_the_processor_the_other_cipher_is_named() {
        let mut slow = long_path();
        slow.here.aes = Some(0.3e9);
        assert!(advise(&slow).recommendations.join("\n").contains("ChaCha20-Poly1305"));
    }

    #[test]
    fn a_fast_path_is_left_alone() {
        let mut fast = long_path();
        fast.connects = vec![0.0003];
        let up = fast.tcp.up.as_mut().unwrap();
        (up.bytes_per_second, up.resent, up.loaded_rtt) = (0.2e9, Some(0.0), None);
        let advice = advise(&fast);
        assert!(advice.findings[0].contains("nothing here is in the way"), "{advice:?}");
        assert!(advice.sysctl_here.is_empty() && advice.sysctl_there.is_empty(), "{advice:?}");
        assert_eq!(advice.recommendations.len(), 4, "{advice:?}");
        assert!(advice.recommendations[1].contains("found 8 enough"), "{advice:?}");
        assert!(advice.recommendations[3].contains("none"), "{advice:?}");
    }

    #[test]
    fn nothing_is_said_of_channels_where_none_was_seen() {
        let mut short = long_path();
        let up = short.tcp.up.as_mut().unwrap();
        (up.bytes_per_second, up.resent, up.loaded_rtt, up.channels) = (0.2e9, Some(0.0), None, 0);
        assert_eq!(advise(&short).recommendations[1], "Channels: leave them to Terahaul");
    }

    #[test]
    fn small_buffers_get_larger_ones_where_they_are() {
        let mut here = long_path();
        let up = here.tcp.up.as_mut().unwrap();
        (up.resent, up.buffer_full) = (Some(0.0), Some(0.8));
        assert_eq!(advise(&here).sysctl_here, ["net.ipv4.tcp_wmem = 4096 65536 67108864"]);
        let mut there = here.clone();
        let up = there.tcp.up.as_mut().unwrap();
        (up.buffer_full, up.window_full) = (Some(0.0), Some(0.8));
        let advice = advise(&there);
        assert_eq!(
            (advice.sysctl_here.len(), &*advice.sysctl_there),
            (0, &["net.ipv4.tcp_rmem = 4096 131072 67108864".to_owned()][..])
        );
        let large = Buffer { least: 4096, usual: 65_536, most: 128 << 20 };
        assert!(larger("wmem", Some(large)).ends_with(&format!(" {}", 256 << 20)));
    }

    #[test]
    fn a_host_without_a_depot_gets_what_its_round_trip_tells() {
        let host = Measurements { tcp: Directions::default(), ..long_path() };
        let advice = advise(&host);
        assert!(advice.findings[0].contains("168 Mbit/s"), "{advice:?}");
        assert_eq!(advice.sysctl_here.len(), 2, "{advice:?}");
        let near = Measurements { connects: vec![0.001], ..host };
        assert!(advise(&near).sysctl_here.is_empty());
        assert_eq!(advise(&Measurements::default()), Advice::default());
    }

    fn over_udp(bytes_per_second: f64) -> Measurements {
        let up = Transferred { bytes_per_second, udp: true, channels: 2, ..Transferred::default() };
        Measurements { udp: Directions { up: Some(up), down: None }, ..long_path() }
    }

    #[test]
    fn where_udp_carries_more_a_transfer_is_said_to_go_over_it() {
        let advice = advise(&over_udp(117e6));
        assert_eq!(
            advice.findings,
            [
                "Sending over TCP: loss: 1.1 % of the segments were sent again, and CUBIC slows down for each",
                "Sending over UDP: the line, its other users or the depot: nothing here is in the way",
            ]
        );
        let text = advice.recommendations.join("\n");
        for part in [
            "sending 936 Mbit/s over UDP and 16.8 Mbit/s over TCP",
            "Until then, transfers go over UDP by themselves",
            "over UDP more of them carry no more",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }

    #[test]
    fn a_line_that_carries_clearly_more_over_udp_is_not_said_to_be_full() {
        let full = |udp| {
            let mut measured = over_udp(udp);
            let up = measured.tcp.up.as_mut().unwrap();
            (up.bytes_per_second, up.loaded_rtt) = (15e6, Some(0.222));
            advise(&measured).findings[0].clone()
        };
        assert_eq!(
            full(23e6),
            "Sending over TCP: a queue of 122 ms on the way out or back; the line itself carries more"
        );
        assert!(full(16e6).contains("the line, which is full"), "{}", full(16e6));
    }

    #[test]
    fn where_udp_carries_less_or_nothing_tcp_is_what_counts() {
        let less = advise(&over_udp(1e6));
        assert_eq!(less.findings, advise(&long_path()).findings);
        assert!(less.recommendations[0].contains("no more than TCP"), "{less:?}");
        let blocked = advise(&Measurements { udp_blocked: true, ..long_path() });
        assert!(blocked.recommendations[0].contains("opened for UDP"), "{blocked:?}");
    }

    /// Only where TCP was measured beside it was it said what to open.
    #[test]
    fn where_udp_alone_was_to_be_measured_and_is_blocked_it_is_said_what_to_open() {
        let alone = Measurements { tcp: Directions::default(), udp_blocked: true, ..long_path() };
        assert!(advise(&alone).recommendations.iter().any(|text| text.contains("opened for UDP")));
    }

    #[test]
    fn connections_that_needed_a_second_attempt_tell_of_loss() {
        let mut lossy = long_path();
        lossy.connects.push(1.1);
        assert!(advise(&lossy).findings.iter().any(|text| text.starts_with("1 of 4 connections")));
    }
}
