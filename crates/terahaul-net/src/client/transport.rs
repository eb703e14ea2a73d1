//! Which way blocks go: TCP, UDP, or both.
//!
//! With [`Transport::Auto`] a session starts on TCP at once and asks for UDP beside it:
//!
//! | phase | event | next |
//! |---|---|---|
//! | TCP | datagrams of the other end come | both |
//! | both, for [`JUDGE`] | UDP carried several times what TCP did | UDP: TCP's channels are cut, and their blocks go over UDP |
//! | both, for [`JUDGE`] | TCP carried several times what UDP did, or both no more than TCP alone before | TCP, for good |
//! | both, for [`JUDGE`] | else | both |
//! | both, UDP | the UDP channels ended: nothing came over them for a while | TCP, for good |
//!
//! Pure: time and counts are arguments.

use std::time::{Duration, Instant};

use super::error::ClientError;

/// What the user wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    /// TCP only.
    #[default]
    Tcp,
    /// UDP only; where it does not get through, the transfer fails.
    Udp,
    /// Whichever delivers more, or both.
    Auto,
}

/// What carries blocks now, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// `tcp`, `udp` or `tcp+udp`.
    pub by: &'static str,
    /// In a few words.
    pub why: &'static str,
}

impl Default for Way {
    fn default() -> Self {
        Self { by: "tcp", why: "asked for" }
    }
}

/// How long the other end's datagrams are waited for where there is no other way.
const PATIENCE: Duration = Duration::from_secs(15);
/// How long two ways are compared.
const JUDGE: Duration = Duration::from_secs(2);
/// Shorter says nothing of what TCP alone does.
const ALONE: Duration = Duration::from_millis(300);
/// So many times the other is worth leaving the other.
const FAR_MORE: f64 = 4.0;
/// So much more than TCP alone is worth the processor's time.
const WORTH: f64 = 1.1;

/// What is seen of a session's channels.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    /// Bytes that went over TCP.
    pub tcp: u64,
    /// Bytes that arrived over UDP, and whether anything was heard there; `None` without UDP.
    pub udp: Option<(u64, bool)>,
}

/// What to do about the channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    /// Cuts TCP's channels and opens no more.
    CutTcp,
    /// Ends the UDP channels.
    EndUdp,
    /// Opens TCP's channels again.
    ResumeTcp,
}

/// The law, for one session.
#[derive(Debug)]
pub(crate) struct Ways {
    transport: Transport,
    began: Instant,
    phase: Phase,
    way: Way,
    /// Bytes a second of TCP alone.
    alone: f64,
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    Waiting,
    Both { since: Instant, tcp: u64, udp: u64 },
    Udp,
    Tcp,
}

impl Ways {
    /// The session begins now.
    pub fn new(transport: Transport, now: Instant) -> Self {
        let way = match transport {
            Transport::Tcp => Way::default(),
            Transport::Udp => Way { by: "udp", why: "asked for" },
            Transport::Auto => Way { by: "tcp", why: "no datagram has come back yet" },
        };
        let phase = if transport == Transport::Tcp { Phase::Tcp } else { Phase::Waiting };
        Self { transport, began: now, phase, way, alone: 0.0 }
    }

    /// What is in use, and why.
    pub fn way(&self) -> Way {
        self.way
    }

    /// The UDP channels ended. An error where there is no other way in this session: another is opened then.
    pub fn handle_udp_ended(&self, problem: Option<String>, host: &str) -> Result<(), ClientError> {
        let detail = problem.unwrap_or_else(|| "the UDP channels were closed".to_owned());
        tracing::debug!("UDP ended: {detail}");
        if self.transport == Transport::Udp {
            return Err(ClientError::Unreachable { host: host.to_owned(), detail });
        }
        Ok(())
    }

    fn go(&mut self, phase: Phase, by: &'static str, why: &'static str) {
        self.phase = phase;
        self.way = Way { by, why };
    }

    /// Looks at what the channels did. An error where there is no other way.
    pub fn handle(&mut self, now: Instant, seen: Seen, host: &str) -> Result<Option<Act>, ClientError> {
        match (self.phase, seen.udp) {
            (Phase::Waiting, Some((_, true))) if self.transport == Transport::Udp => {
                self.phase = Phase::Udp;
            }
            (Phase::Waiting, Some((udp, true))) => {
                let spent = now.saturating_duration_since(self.began);
                if spent >= ALONE {
                    self.alone = seen.tcp as f64 / spent.as_secs_f64();
                }
                let phase = Phase::Both { since: now, tcp: seen.tcp, udp };
                self.go(phase, "tcp+udp", "they are being compared");
            }
            (Phase::Waiting, Some(_)) if self.transport == Transport::Udp && now >= self.began + PATIENCE => {
                return Err(ClientError::NoUdp {
                    host: host.to_owned(),
                    detail: "no datagram came back in fifteen seconds: a firewall drops them".to_owned(),
                });
            }
            (Phase::Waiting, None) if self.transport == Transport::Auto => {
                self.go(Phase::Tcp, "tcp", "the other end has no UDP");
            }
            (Phase::Both { .. }, None) => self.go(Phase::Tcp, "tcp", "nothing comes over UDP any more"),
            (Phase::Udp, None) if self.transport == Transport::Auto => {
                self.go(Phase::Tcp, "tcp", "nothing comes over UDP any more");
                return Ok(Some(Act::ResumeTcp));
            }
            (Phase::Both { since, tcp, udp }, Some((udp_now, _))) if now >= since + JUDGE => {
                let seconds = now.saturating_duration_since(since).as_secs_f64();
                let over_tcp = seen.tcp.saturating_sub(tcp) as f64 / seconds;
                let over_udp = udp_now.saturating_sub(udp) as f64 / seconds;
                return Ok(self.judge(now, seen.tcp, udp_now, over_tcp, over_udp));
            }
            _ => {}
        }
        Ok(None)
    }

    fn judge(&mut self, now: Instant, tcp: u64, udp: u64, over_tcp: f64, over_udp: f64) -> Option<Act> {
        if over_udp > FAR_MORE * over_tcp {
            self.go(Phase::Udp, "udp", "it carries far more than TCP here");
            return Some(Act::CutTcp);
        }
        // Without anything to send, neither is judged.
        let idle = over_tcp + over_udp < 1e5;
        if !idle && over_tcp > FAR_MORE * over_udp {
            self.go(Phase::Tcp, "tcp", "it carries far more than UDP here");
            return Some(Act::EndUdp);
        }
        if !idle && over_tcp + over_udp < WORTH * self.alone {
            self.go(Phase::Tcp, "tcp", "UDP beside it carries no more");
            return Some(Act::EndUdp);
        }
        self.go(Phase::Both { since: now, tcp, udp }, "tcp+udp", "together they carry more");
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a session in which TCP carries `tcp` and UDP `udp` bytes a second, UDP from `heard` until `lost` seconds on,
    /// and returns what was done and in what way it ends.
    fn session(tcp: u64, udp: u64, heard: u64, lost: u64) -> (Vec<Act>, &'static str) {
        let began = Instant::now();
        let mut ways = Ways::new(Transport::Auto, began);
        let (mut acts, mut seen) = (Vec::new(), Seen { tcp: 0, udp: Some((0, false)) });
        for tick in 1..200u64 {
            let by_tcp = !acts.contains(&Act::CutTcp) || acts.contains(&Act::ResumeTcp);
            seen.tcp += if by_tcp { tcp / 10 } else { 0 };
            seen.udp = match seen.udp {
                Some(_) if tick >= lost * 10 || acts.contains(&Act::EndUdp) => None,
                Some((bytes, _)) if tick >= heard * 10 => Some((bytes + udp / 10, true)),
                other => other,
            };
            let now = began + Duration::from_millis(100 * tick);
            acts.extend(ways.handle(now, seen, "host").unwrap());
        }
        (acts, ways.way().by)
    }

    #[test]
    fn blocks_go_where_more_arrives_and_back_when_udp_is_lost() {
        const MB: u64 = 1_000_000;
        assert_eq!(session(MB, 100 * MB, 1, 999), (vec![Act::CutTcp], "udp"));
        assert_eq!(session(MB, 100 * MB, 1, 10), (vec![Act::CutTcp, Act::ResumeTcp], "tcp"));
        assert_eq!(session(100 * MB, MB, 1, 999), (vec![Act::EndUdp], "tcp"));
        assert_eq!(session(50 * MB, 60 * MB, 1, 999), (vec![], "tcp+udp"));
        assert_eq!(session(50 * MB, 60 * MB, 1, 10), (vec![], "tcp"));
        assert_eq!(session(50 * MB, 60 * MB, 99, 999), (vec![], "tcp"), "filtered from the start");
    }

    #[test]
    fn who_asks_for_udp_and_has_none_is_told() {
        let began = Instant::now();
        let mut ways = Ways::new(Transport::Udp, began);
        let seen = Seen { tcp: 0, udp: Some((0, false)) };
        assert!(ways.handle(began + Duration::from_secs(14), seen, "host").is_ok());
        let error = ways.handle(began + Duration::from_secs(16), seen, "host").unwrap_err();
        assert!(error.to_string().contains("--transport tcp"));
    }
}
