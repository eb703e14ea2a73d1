//! What a path is like: the meaning of `--rate`, `--rtt`, `--loss` and the rest.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use terahaul_core::{ByteCount, Rate};

use super::text::{self, SpecError};
use crate::figures::exact_bits;

/// A path between two hosts. Delay, jitter, reordering and loss are the same in both directions.
///
/// Serialized, each value is the text that its flag takes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PathSpec {
    /// The bottleneck, from the near end to the far end, IP headers counted.
    #[serde(with = "text::rate")]
    pub rate: Rate,
    /// The bottleneck on the way back; `None` is the same rate.
    #[serde(with = "text::optional_rate", default, skip_serializing_if = "Option::is_none")]
    pub return_rate: Option<Rate>,
    /// Round trip without waiting: half of it each way.
    #[serde(with = "text::duration")]
    pub rtt: Duration,
    /// Which packets are lost besides those that the queue drops.
    #[serde(with = "text::shown")]
    pub loss: LossSpec,
    /// Whether that loss falls before the bottleneck. After it, a lost packet has used the line.
    pub loss_before_bottleneck: bool,
    /// What waits at the bottleneck, each way.
    #[serde(with = "text::shown")]
    pub queue: QueueSpec,
    /// Largest IP packet.
    pub mtu: u16,
    /// Each packet is held back up to this much longer, evenly spread. Order is kept.
    #[serde(with = "text::duration")]
    pub jitter: Duration,
    /// Packets that are overtaken.
    #[serde(with = "text::shown")]
    pub reorder: ReorderSpec,
    /// TCP's congestion control at both ends; `None` leaves the kernel's.
    pub cc: Option<String>,
    /// Programs cannot choose another, as on a host that has no other.
    #[serde(default)]
    pub cc_only: bool,
    /// Decides which packets are lost, held back and overtaken.
    pub seed: u64,
    /// So many such paths lie side by side, each with an address of its own at the near end: 4 at most.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub paths: u8,
}

fn one() -> u8 {
    1
}

// Serde passes a reference.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_one(paths: &u8) -> bool {
    *paths == 1
}

impl PathSpec {
    /// A clean path: one bandwidth-delay product of queue, no loss, MTU 1500.
    pub const fn clean(rate: Rate, rtt: Duration) -> Self {
        Self {
            rate,
            return_rate: None,
            rtt,
            loss: LossSpec::None,
            loss_before_bottleneck: false,
            queue: QueueSpec::Bdp(1.0),
            mtu: 1500,
            jitter: Duration::ZERO,
            reorder: ReorderSpec::NONE,
            cc: None,
            cc_only: false,
            seed: 1,
            paths: 1,
        }
    }

    /// The rate on the way back.
    pub fn return_rate(&self) -> Rate {
        self.return_rate.unwrap_or(self.rate)
    }

    /// What TCP's payload can reach on the way out, over all paths: the rate without IP and TCP headers (with time stamps).
    pub fn payload_rate(&self) -> Rate {
        const HEADERS: u64 = 52;
        let mtu = u64::from(self.mtu);
        let payload = self.rate.bytes_per_second().saturating_mul(mtu.saturating_sub(HEADERS)) / mtu.max(1);
        Rate::per_second(payload.saturating_mul(u64::from(self.paths))).unwrap_or(self.rate)
    }

    /// Whether this can be emulated.
    pub fn check(&self) -> Result<(), SpecError> {
        if self.mtu < MIN_MTU {
            return Err(SpecError::Mtu(self.mtu));
        }
        if !(1..=MOST_PATHS).contains(&self.paths) {
            return Err(SpecError::Paths(self.paths));
        }
        if self.rtt > MAX_RTT || self.jitter > MAX_RTT {
            return Err(SpecError::TooLong);
        }
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        match &self.cc {
            Some(name) if name.is_empty() || name.len() > 15 || !name.chars().all(plain) => {
                Err(SpecError::CongestionControl(name.clone()))
            }
            None if self.cc_only => Err(SpecError::NoCongestionControl),
            _ => Ok(()),
        }
    }
}

/// The smallest MTU that IPv4 hosts must accept.
const MIN_MTU: u16 = 576;
/// As many as anybody has ways out of one machine.
const MOST_PATHS: u8 = 4;
/// A minute each way is past Mars's nearest.
const MAX_RTT: Duration = Duration::from_secs(120);

impl fmt::Display for PathSpec {
    /// `1 Gbit/s, 100 ms, loss 0.1% after the bottleneck, queue 1bdp (12.5 MB), MTU 1500`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", exact_bits(self.rate))?;
        if let Some(rate) = self.return_rate {
            write!(f, " ({} back)", exact_bits(rate))?;
        }
        write!(f, ", round trip {}", text::DurationText(self.rtt))?;
        if self.loss == LossSpec::None {
            write!(f, ", no loss")?;
        } else {
            let place = if self.loss_before_bottleneck { "before" } else { "after" };
            write!(f, ", loss {} {place} the bottleneck", self.loss)?;
        }
        match self.queue {
            QueueSpec::None => write!(f, ", no queue (policed)")?,
            QueueSpec::Bytes(_) => write!(f, ", queue {}", self.queue)?,
            queue => {
                let bytes = ByteCount(queue.bytes(self.rate, self.rtt, self.mtu));
                write!(f, ", queue {queue} ({bytes})")?;
            }
        }
        write!(f, ", MTU {}", self.mtu)?;
        if !self.jitter.is_zero() {
            write!(f, ", jitter {}", text::DurationText(self.jitter))?;
        }
        if self.reorder != ReorderSpec::NONE {
            write!(f, ", reordering {}", self.reorder)?;
        }
        if let Some(cc) = &self.cc {
            write!(f, ", {cc}{}", if self.cc_only { " only" } else { "" })?;
        }
        write!(f, ", seed {}", self.seed)?;
        if self.paths > 1 {
            write!(f, ", {} such paths side by side", self.paths)?;
        }
        Ok(())
    }
}

/// Which packets are lost besides those that the queue drops.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LossSpec {
    /// None.
    None,
    /// Each packet with this probability, independent of the others: `0.1%`.
    Uniform(f64),
    /// Gilbert and Elliott's two states, `burst:ENTER:LEAVE:LOSS`: in the bad one, packets are lost with
    /// probability `loss`.
    GilbertElliott {
        /// Probability, at each packet, to enter the bad state.
        enter: f64,
        /// Probability, at each packet, to leave it.
        leave: f64,
        /// Loss while in it.
        loss: f64,
    },
}

impl LossSpec {
    /// The share of packets that are lost in the long run.
    pub fn mean(&self) -> f64 {
        match *self {
            Self::None => 0.0,
            Self::Uniform(share) => share,
            Self::GilbertElliott { enter, leave, loss } if enter + leave > 0.0 => {
                loss * enter / (enter + leave)
            }
            Self::GilbertElliott { .. } => 0.0,
        }
    }
}

impl fmt::Display for LossSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use text::ShareText as Share;
        match *self {
            Self::None => f.write_str("none"),
            Self::Uniform(share) => write!(f, "{}", Share(share)),
            Self::GilbertElliott { enter, leave, loss } => {
                write!(f, "burst:{}:{}:{}", Share(enter), Share(leave), Share(loss))
            }
        }
    }
}

impl FromStr for LossSpec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let unreadable = || SpecError::Loss(text.to_owned());
        let share = |text: &str| text::parse_share(text).ok_or_else(unreadable);
        match text.split(':').collect::<Vec<_>>()[..] {
            ["none" | "0"] => Ok(Self::None),
            [one] => Ok(match share(one)? {
                0.0 => Self::None,
                share => Self::Uniform(share),
            }),
            ["burst", enter, leave, loss] => {
                Ok(Self::GilbertElliott { enter: share(enter)?, leave: share(leave)?, loss: share(loss)? })
            }
            _ => Err(unreadable()),
        }
    }
}

/// What waits at the bottleneck when packets come faster than they leave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum QueueSpec {
    /// So many bandwidth-delay products: `1bdp`.
    Bdp(f64),
    /// So many bytes: `64kB`.
    Bytes(u64),
    /// As many bytes as leave in this time: `4s`.
    Time(Duration),
    /// Nothing waits: a policer. What exceeds the rate by more than the bucket is dropped at once: `none`.
    None,
}

impl QueueSpec {
    /// How many bytes may wait, or, for a policer, how many its bucket holds.
    pub fn bytes(&self, rate: Rate, rtt: Duration, mtu: u16) -> u64 {
        let in_time = |time: Duration| (rate.bytes_per_second() as f64 * time.as_secs_f64()) as u64;
        match *self {
            Self::Bdp(products) => {
                ((in_time(rtt) as f64 * products) as u64).max(SMALLEST_QUEUE_PACKETS * u64::from(mtu))
            }
            Self::Bytes(bytes) => bytes.max(u64::from(mtu)),
            Self::Time(time) => in_time(time).max(u64::from(mtu)),
            Self::None => in_time(BUCKET).max(SMALLEST_QUEUE_PACKETS * u64::from(mtu)),
        }
    }
}

/// A short path's bandwidth-delay product can be less than one burst of a network card.
const SMALLEST_QUEUE_PACKETS: u64 = 64;
/// What a policer's bucket holds: the burst that makers of routers recommend lies between 5 and 10 ms of the rate.
const BUCKET: Duration = Duration::from_millis(10);

impl fmt::Display for QueueSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Bdp(products) => write!(f, "{products}bdp"),
            Self::Bytes(bytes) => f.write_str(&ByteCount(bytes).exact()),
            Self::Time(time) => write!(f, "{}", text::DurationText(time)),
            Self::None => f.write_str("none"),
        }
    }
}

impl FromStr for QueueSpec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let unreadable = || SpecError::Queue(text.to_owned());
        if text == "none" {
            return Ok(Self::None);
        }
        if let Some(products) = text.strip_suffix("bdp") {
            let products: f64 = products.trim().parse().map_err(|_| unreadable())?;
            return if products > 0.0 && products <= 1000.0 {
                Ok(Self::Bdp(products))
            } else {
                Err(unreadable())
            };
        }
        match (text.parse(), text::parse_duration(text)) {
            (Ok(ByteCount(bytes)), _) if bytes > 0 => Ok(Self::Bytes(bytes)),
            (Err(_), Some(time)) if !time.is_zero() && time <= MAX_RTT => Ok(Self::Time(time)),
            _ => Err(unreadable()),
        }
    }
}

/// Packets that are overtaken: each with probability `share` is held back by `by`. `0.1%` or `0.1%:2ms`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReorderSpec {
    /// Which part of the packets.
    pub share: f64,
    /// For how long they are held back.
    pub by: Duration,
}

impl ReorderSpec {
    /// Order is kept.
    pub const NONE: Self = Self { share: 0.0, by: Duration::ZERO };
    const USUAL: Duration = Duration::from_millis(1);
}

impl fmt::Display for ReorderSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::NONE {
            return f.write_str("none");
        }
        write!(f, "{}:{}", text::ShareText(self.share), text::DurationText(self.by))
    }
}

impl FromStr for ReorderSpec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        if text == "none" {
            return Ok(Self::NONE);
        }
        let unreadable = || SpecError::Reorder(text.to_owned());
        let (share, by) = match text.split_once(':') {
            Some((share, by)) => (share, text::parse_duration(by).ok_or_else(unreadable)?),
            None => (text, Self::USUAL),
        };
        let share = text::parse_share(share).ok_or_else(unreadable)?;
        Ok(if share == 0.0 { Self::NONE } else { Self { share, by } })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn values_read_as_people_write_them() {
        assert_eq!("0.1%".parse(), Ok(LossSpec::Uniform(0.001)));
        assert_eq!("0".parse(), Ok(LossSpec::None));
        assert_eq!("0%".parse(), Ok(LossSpec::None));
        assert_eq!(
            "burst:0.05%:10%:50%".parse(),
            Ok(LossSpec::GilbertElliott { enter: 0.0005, leave: 0.1, loss: 0.5 })
        );
        assert_eq!("1bdp".parse(), Ok(QueueSpec::Bdp(1.0)));
        assert_eq!("64kB".parse(), Ok(QueueSpec::Bytes(64_000)));
        assert_eq!("4s".parse(), Ok(QueueSpec::Time(Duration::from_secs(4))));
        assert_eq!("none".parse(), Ok(QueueSpec::None));
        assert_eq!("0.5%:3ms".parse(), Ok(ReorderSpec { share: 0.005, by: Duration::from_millis(3) }));
    }

    /// `--warm 64kb` was read, and `--queue 64KB` refused.
    #[test]
    fn a_queue_is_as_large_as_sizes_say_anywhere_else() {
        for (text, bytes) in
            [("64KB", 64_000), ("64kb", 64_000), ("1.5 mib", 3 << 19), ("2TB", 2 * 10u64.pow(12))]
        {
            assert_eq!(text.parse(), Ok(QueueSpec::Bytes(bytes)), "{text}");
        }
        let written = |bytes| QueueSpec::Bytes(bytes).to_string();
        assert_eq!([64_000, 1_500_000, 65_536, 7].map(written), ["64kB", "1.5MB", "64KiB", "7B"]);
    }

    #[test]
    fn nonsense_is_refused_with_an_example() {
        for text in ["", "101%", "-1%", "x", "0.5", "burst:1%:2%", "NaN%"] {
            let error = text.parse::<LossSpec>().unwrap_err();
            assert!(error.to_string().contains("0.1%"), "{error}");
        }
        for text in ["", "0bdp", "-1bdp", "inf bdp", "NaNbdp", "0B", "12", "4h"] {
            assert!(text.parse::<QueueSpec>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_path_is_described_in_one_line() {
        let mut spec = PathSpec::clean("1gbit".parse().unwrap(), Duration::from_millis(100));
        spec.loss = LossSpec::Uniform(0.001);
        assert_eq!(
            spec.to_string(),
            "1 Gbit/s, round trip 100ms, loss 0.1% after the bottleneck, queue 1bdp (12.5 MB), MTU 1500, seed 1"
        );
    }

    #[test]
    fn a_name_of_a_congestion_control_cannot_be_more_than_a_name() {
        let mut spec = PathSpec::clean("1gbit".parse().unwrap(), Duration::ZERO);
        for name in ["", "cubic mtu 9", "../x", "cubic\n", "0123456789abcdef"] {
            spec.cc = Some(name.to_owned());
            assert!(spec.check().is_err(), "{name:?}");
        }
        spec.cc = Some("cubic".to_owned());
        assert_eq!(spec.check(), Ok(()));
    }

    proptest! {
        #[test]
        fn a_spec_survives_being_written_and_read(
            (rate, back) in (1u64..1 << 40, proptest::option::of(1u64..1 << 40)),
            (rtt_us, jitter_us) in (0u64..10_000_000, 0u64..1_000_000),
            share in 0u32..=1_000_000,
            queue in prop_oneof![
                (1u32..1000).prop_map(|n| QueueSpec::Bdp(f64::from(n) / 8.0)),
                (1u64..1 << 40).prop_map(QueueSpec::Bytes),
                (1u64..100_000_000).prop_map(|us| QueueSpec::Time(Duration::from_micros(us))),
                Just(QueueSpec::None),
            ],
            before in any::<bool>(),
        ) {
            let share = f64::from(share) / 1e6;
            let mut spec = PathSpec::clean(Rate::per_second(rate).unwrap(), Duration::from_micros(rtt_us));
            spec.return_rate = back.and_then(Rate::per_second);
            spec.jitter = Duration::from_micros(jitter_us);
            spec.loss = if share == 0.0 { LossSpec::None } else { LossSpec::Uniform(share) };
            spec.loss_before_bottleneck = before;
            spec.queue = queue;
            let text = serde_json::to_string(&spec).unwrap();
            let read: PathSpec = serde_json::from_str(&text).unwrap();
            prop_assert!((read.loss.mean() - spec.loss.mean()).abs() < 1e-12);
            prop_assert_eq!(PathSpec { loss: spec.loss, ..read }, spec);
        }
    }
}
