//! What to do, in plain words.

use serde::{Deserialize, Serialize};

use super::limit::most_through;
use super::{Limit, Measurements, Transferred, find_limit};

/// What to do about a path.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Advice {
    /// What limits sending and receiving, as sentences.
    pub findings: Vec<String>,
    /// What to do.
    pub recommendations: Vec<String>,
    /// Settings to put into `sysctl`, with what they do.
    pub sysctl: Vec<String>,
}

/// Slower than this, compressing beforehand with one processor keeps up with the path.
const COMPRESSIBLE: f64 = 100e6;
/// A buffer that a kernel should allow on any long path.
const LARGEST_BUFFER: u64 = 64 << 20;

/// What the measurements say, and what follows from it.
pub fn advise(measured: &Measurements) -> Advice {
    let mut advice = Advice::default();
    let directions = [("Sending", measured.up, true), ("Receiving", measured.down, false)];
    for (word, moved, sending) in directions {
        if let Some(moved) = moved {
            let limit = find_limit(measured, &moved, sending);
            advice.findings.push(finding(word, measured, &moved, sending, limit));
            recommend(&mut advice, measured, &moved, sending, limit);
        }
    }
    if measured.up.is_none() && measured.down.is_none() {
        without_rates(&mut advice, measured);
    }
    transport(&mut advice, measured);
    cipher(&mut advice, measured);
    compression(&mut advice, measured);
    advice.recommendations.dedup();
    advice.sysctl.sort();
    advice.sysctl.dedup();
    advice
}

fn finding(word: &str, measured: &Measurements, moved: &Transferred, sending: bool, limit: Limit) -> String {
    let rate = in_bits(moved.bytes_per_second);
    let why = match limit {
        Limit::ProcessorsHere => format!(
            "this machine's processors limit it: {:.0} % of them were busy",
            100.0 * moved.processors_busy.unwrap_or(1.0)
        ),
        Limit::DiskHere => {
            let here = &measured.here;
            let (disk, act) =
                if sending { (here.disk_read, "reads") } else { (here.disk_write, "writes and syncs") };
            format!("this machine's disk limits it: it {act} {}", in_bits(disk.unwrap_or(0.0)))
        }
        Limit::DiskThere => format!(
            "the depot's disk limits it: only {:.0} % of what was sent was durable at the end",
            100.0 * moved.durable.unwrap_or(0.0)
        ),
        Limit::Buffers => format!(
            "TCP's buffers limit it: {} channels cannot have more than {} under way at a round trip of {}",
            moved.channels,
            in_bits(most_through(
                buffer(measured, sending).unwrap_or(0),
                moved.channels,
                measured.rtt().unwrap_or(0.0)
            )),
            in_milliseconds(measured.rtt().unwrap_or(0.0))
        ),
        Limit::Loss => format!(
            "loss limits it: {:.2} % of the segments were sent again, and {} slows down for each",
            100.0 * moved.resent.unwrap_or(0.0),
            name_of(&measured.here.congestion_control)
        ),
        Limit::Line => "nothing on this machine limits it: it is the line, or the depot".to_owned(),
    };
    format!("{word} runs at {rate} over {} channels; {why}", moved.channels)
}

fn buffer(measured: &Measurements, sending: bool) -> Option<u64> {
    if sending { measured.here.send_buffer } else { measured.here.receive_buffer }
}

fn recommend(advice: &mut Advice, measured: &Measurements, moved: &Transferred, sending: bool, limit: Limit) {
    let mut say = |text: String| advice.recommendations.push(text);
    match limit {
        Limit::ProcessorsHere => {
            say("Leave the number of channels to Terahaul, and nothing else running: more channels need more processor time, not less".into());
        }
        Limit::DiskHere => {
            say("Use a faster disk here, or several: the network waits for it".into());
        }
        Limit::DiskThere => {
            say("Ask the depot's owner for a faster disk: its network waits for it".into());
        }
        Limit::Buffers => {
            let larger = (moved.channels * 2).clamp(8, 64);
            say(format!("Try --channels {larger}, or raise the kernel's buffers as below"));
            advice.sysctl.push(raise_buffer(sending));
        }
        Limit::Loss if measured.here.congestion_controls.iter().any(|name| name == "bbr") => {
            say("Use BBR on the side that sends: it measures the path, and does not take each loss for congestion".into());
            advice.sysctl.push("net.ipv4.tcp_congestion_control = bbr".into());
        }
        Limit::Loss => {
            say("Load BBR on the side that sends ('modprobe tcp_bbr'), or use more channels, such as --channels 32: each recovers by itself".into());
            advice.sysctl.push("net.ipv4.tcp_congestion_control = bbr".into());
        }
        Limit::Line => {
            say(format!("Leave --channels at auto: it found that {} are enough", moved.channels));
        }
    }
}

fn raise_buffer(sending: bool) -> String {
    match sending {
        true => format!("net.ipv4.tcp_wmem = 4096 65536 {LARGEST_BUFFER}"),
        false => format!("net.ipv4.tcp_rmem = 4096 131072 {LARGEST_BUFFER}"),
    }
}

/// Only the round trip is known: what one connection can carry at the most.
fn without_rates(advice: &mut Advice, measured: &Measurements) {
    let Some((rtt, buffer)) = measured.rtt().zip(measured.here.send_buffer) else { return };
    advice.findings.push(format!(
        "Only the round trip was measured, because this is no depot that a token was given for. One connection carries {} at most over {}, which this machine's buffers allow",
        in_bits(most_through(buffer, 1, rtt)),
        in_milliseconds(rtt)
    ));
    // Below a gigabit a second, one connection of scp or rsync would be held up.
    if most_through(buffer, 1, rtt) < 125e6 {
        advice.sysctl.push(raise_buffer(true));
        advice.sysctl.push(raise_buffer(false));
        advice
            .recommendations
            .push("Use several connections (Terahaul does), or raise the kernel's buffers".into());
    }
}

fn transport(advice: &mut Advice, measured: &Measurements) {
    let (Some(rtt), Some(usual)) = (measured.rtt(), measured.usual_rtt()) else { return };
    if usual > 2.0 * rtt + 0.005 {
        advice.findings.push(format!(
            "Round trips vary: {} at best and {} usually, so queues fill up on the way",
            in_milliseconds(rtt),
            in_milliseconds(usual)
        ));
        advice
            .recommendations
            .push("Give --limit a little below the rate when others share this line".into());
    }
    if measured.up.is_some() || measured.down.is_some() {
        let text = "Transport: 'terahaul send' and 'receive', which use parallel TCP; the page in a browser costs a few per cent more";
        advice.recommendations.push(text.into());
    }
}

fn cipher(advice: &mut Advice, measured: &Measurements) {
    let Some((aes, chacha)) = measured.here.aes.zip(measured.here.chacha) else { return };
    let (name, rate) = if aes >= chacha { ("AES-128-GCM", aes) } else { ("ChaCha20-Poly1305", chacha) };
    let busiest = [measured.up, measured.down].into_iter().flatten().map(|moved| moved.bytes_per_second);
    let share = busiest.fold(0.0, f64::max) / rate;
    let cost = if share > 0.0 {
        format!(", {:.0} % of one of them at this path's rate", 100.0 * share)
    } else {
        String::new()
    };
    advice
        .recommendations
        .push(format!("Cipher: {name}, which one processor here does at {}{cost}", in_bits(rate)));
}

fn compression(advice: &mut Advice, measured: &Measurements) {
    let Some(up) = measured.up else { return };
    advice.recommendations.push(if up.bytes_per_second < COMPRESSIBLE {
        "Compress what can be compressed before sending, such as with 'zstd -T0': a processor does that faster than this path carries; not images, videos or archives".into()
    } else {
        "Do not compress: this path is faster than one processor compresses".into()
    });
}

fn name_of(congestion_control: &str) -> String {
    match congestion_control {
        "" => "TCP".into(),
        name => name.to_uppercase(),
    }
}

fn in_bits(bytes_per_second: f64) -> String {
    match bytes_per_second * 8.0 {
        bits if bits >= 1e9 => format!("{:.2} Gbit/s", bits / 1e9),
        bits if bits >= 1e6 => format!("{:.1} Mbit/s", bits / 1e6),
        bits => format!("{:.0} kbit/s", bits / 1e3),
    }
}

fn in_milliseconds(seconds: f64) -> String {
    if seconds < 0.01 { format!("{:.2} ms", seconds * 1e3) } else { format!("{:.0} ms", seconds * 1e3) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::Here;

    fn long_path() -> Measurements {
        Measurements {
            connects: vec![0.1, 0.101, 0.1],
            up: Some(Transferred {
                bytes_per_second: 2.1e6,
                channels: 8,
                processors_busy: Some(0.05),
                resent: Some(0.011),
                loaded_rtt: Some(0.101),
                durable: Some(0.9),
            }),
            here: Here {
                send_buffer: Some(4 << 20),
                receive_buffer: Some(6 << 20),
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
        assert!(
            advice.findings[0].contains("16.8 Mbit/s") && advice.findings[0].contains("1.10 %"),
            "{advice:?}"
        );
        assert!(advice.findings[0].contains("CUBIC"), "{advice:?}");
        assert_eq!(advice.sysctl, ["net.ipv4.tcp_congestion_control = bbr"]);
        let text = advice.recommendations.join("\n");
        assert!(text.contains("BBR") && text.contains("AES-128-GCM") && text.contains("zstd"), "{text}");
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
        fast.up = fast.up.map(|up| Transferred { bytes_per_second: 1e9, resent: Some(0.0), ..up });
        let advice = advise(&fast);
        assert!(advice.findings[0].contains("it is the line"), "{advice:?}");
        assert!(advice.sysctl.is_empty(), "{advice:?}");
        assert!(advice.recommendations.iter().any(|text| text.contains("Do not compress")), "{advice:?}");
    }

    #[test]
    fn a_host_without_a_depot_gets_what_its_round_trip_tells() {
        let host = Measurements { up: None, ..long_path() };
        let advice = advise(&host);
        assert!(advice.findings[0].contains("167.8 Mbit/s"), "{advice:?}");
        assert_eq!(advice.sysctl.len(), 2, "{advice:?}");
        assert_eq!(advise(&Measurements::default()), Advice::default());
    }

    #[test]
    fn round_trips_that_vary_tell_of_queues() {
        let mut bloated = long_path();
        bloated.connects = vec![0.02, 0.4, 0.5];
        assert!(advise(&bloated).findings.iter().any(|text| text.contains("queues")));
    }
}
