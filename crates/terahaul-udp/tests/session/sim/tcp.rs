//! Other people's transfers: TCP under CUBIC (RFC 9438, with HyStart) and under BBR (version 1, as in
//! draft-cardwell-iccrg-bbr-congestion-control-00). Models of their windows, not of TCP: every packet is acknowledged alone,
//! and nothing is retransmitted, because only their share of the line matters here.

use std::collections::VecDeque;

use super::line::{MILLI, Nanos, SECOND};

pub const PACKET: usize = 1_472;

#[derive(Clone, Copy, Debug)]
struct Sent {
    seq: u64,
    at: Nanos,
    delivered: u64,
    delivered_at: Nanos,
    settled: bool,
}

/// A flow without end.
#[derive(Debug)]
pub struct TcpFlow {
    law: Law,
    /// Packets that its buffer holds.
    buffer: u64,
    /// It sends when there is room for so many packets.
    train: u64,
    next_seq: u64,
    under_way: VecDeque<Sent>,
    in_flight: u64,
    /// Packets that arrived.
    pub delivered: u64,
    delivered_at: Nanos,
    round_end: u64,
    round: u64,
    srtt: Nanos,
    next_send: Nanos,
    heard_at: Nanos,
    pub starts: Nanos,
}

#[derive(Debug)]
enum Law {
    Cubic(Cubic),
    Bbr(Bbr),
}

impl TcpFlow {
    pub fn cubic(starts: Nanos) -> Self {
        Self::new(Law::Cubic(Cubic::default()), starts)
    }

    pub fn bbr(starts: Nanos) -> Self {
        Self::new(Law::Bbr(Bbr::default()), starts)
    }

    /// CUBIC that its buffer keeps from ever losing: Linux gives a connection 4 MB at most, of which some 3.1 MB are its window. On a line of
    /// 1 Gbit/s and 20 ms it keeps 5 ms waiting for as long as it lasts, give or take the trains in which acknowledgements come.
    pub fn cubic_in_a_buffer(starts: Nanos) -> Self {
        Self { buffer: 2_080, train: 128, ..Self::cubic(starts) }
    }

    fn new(law: Law, starts: Nanos) -> Self {
        Self {
            law,
            buffer: u64::MAX,
            train: 1,
            next_seq: 0,
            under_way: VecDeque::new(),
            in_flight: 0,
            delivered: 0,
            delivered_at: starts,
            round_end: 0,
            round: 0,
            srtt: 0,
            next_send: starts,
            heard_at: starts,
            starts,
        }
    }

    fn window(&self) -> u64 {
        let window = match &self.law {
            Law::Cubic(cubic) => cubic.window as u64,
            Law::Bbr(bbr) => bbr.window(),
        };
        window.min(self.buffer)
    }

    /// Numbers of packets to send now.
    pub fn poll(&mut self, now: Nanos, emit: &mut dyn FnMut(u64)) {
        if now < self.starts {
            return;
        }
        if self.in_flight > 0 && now >= self.heard_at + self.timeout() {
            self.under_way.clear();
            self.in_flight = 0;
            self.heard_at = now;
            match &mut self.law {
                Law::Cubic(cubic) => cubic.handle_timeout(),
                Law::Bbr(_) => {}
            }
        }
        if now < self.next_send || !self.has_room() {
            return;
        }
        // As Linux does: what the pace allows in a millisecond goes out at once, 64 KiB at most.
        let quantum = now + MILLI;
        let mut burst = 0;
        while self.in_flight < self.window() && self.next_send < quantum && burst < 44 {
            burst += u32::from(matches!(self.law, Law::Bbr(_)));
            let sent = Sent {
                seq: self.next_seq,
                at: now,
                delivered: self.delivered,
                delivered_at: self.delivered_at,
                settled: false,
            };
            if self.in_flight == 0 {
                self.heard_at = now;
            }
            self.under_way.push_back(sent);
            self.in_flight += 1;
            emit(self.next_seq);
            self.next_seq += 1;
            if let Law::Bbr(bbr) = &self.law {
                let gap = 1e9 / bbr.pacing_rate();
                self.next_send = self.next_send.max(now.saturating_sub(MILLI)) + gap as Nanos;
            }
        }
    }

    /// A window too small for a train goes out as it is.
    fn has_room(&self) -> bool {
        self.in_flight + self.train.min(self.window() / 4).max(1) <= self.window()
    }

    fn timeout(&self) -> Nanos {
        (self.srtt * 3).max(SECOND)
    }

    pub fn next_call(&self, now: Nanos) -> Nanos {
        if now < self.starts {
            return self.starts;
        }
        let timeout = if self.in_flight > 0 { self.heard_at + self.timeout() } else { Nanos::MAX };
        if self.has_room() { timeout.min(self.next_send.max(now + 1)) } else { timeout }
    }

    /// The acknowledgement of a packet comes.
    pub fn handle_ack(&mut self, now: Nanos, seq: u64) {
        self.heard_at = now;
        let Some(first) = self.under_way.front().map(|sent| sent.seq) else { return };
        let Some(at) = seq.checked_sub(first).map(|at| at as usize) else { return };
        let Some(sent) = self.under_way.get_mut(at).filter(|sent| !sent.settled) else { return };
        sent.settled = true;
        let sent = *sent;
        self.in_flight -= 1;
        self.delivered += 1;
        self.delivered_at = now;
        let rtt = now - sent.at;
        self.srtt = if self.srtt == 0 { rtt } else { (self.srtt * 7 + rtt) / 8 };
        let mut lost = 0;
        for earlier in self.under_way.iter_mut().take(at.saturating_sub(2)).filter(|earlier| !earlier.settled)
        {
            earlier.settled = true;
            lost += 1;
        }
        self.in_flight -= lost;
        while self.under_way.front().is_some_and(|sent| sent.settled) {
            self.under_way.pop_front();
        }
        if sent.delivered >= self.round_end {
            self.round += 1;
            self.round_end = self.delivered;
        }
        let rate = (self.delivered - sent.delivered) as f64 / ((now - sent.delivered_at).max(1) as f64 / 1e9);
        match &mut self.law {
            Law::Cubic(cubic) => cubic.handle_ack(now, rtt, seq, self.next_seq, lost),
            Law::Bbr(bbr) => bbr.handle_ack(now, rtt, rate, self.round, self.in_flight),
        }
    }
}

#[derive(Debug)]
struct Cubic {
    window: f64,
    threshold: f64,
    most: f64,
    epoch: Option<Nanos>,
    k: f64,
    reno: f64,
    recovery_until: u64,
    min_rtt: Nanos,
}

impl Default for Cubic {
    fn default() -> Self {
        Self {
            window: 10.0,
            threshold: f64::INFINITY,
            most: 0.0,
            epoch: None,
            k: 0.0,
            reno: 0.0,
            recovery_until: 0,
            min_rtt: Nanos::MAX,
        }
    }
}

impl Cubic {
    const C: f64 = 0.4;
    const BETA: f64 = 0.7;

    fn handle_ack(&mut self, now: Nanos, rtt: Nanos, seq: u64, next_seq: u64, lost: u64) {
        self.min_rtt = self.min_rtt.min(rtt);
        if lost > 0 && seq >= self.recovery_until {
            self.recovery_until = next_seq;
            self.most =
                if self.window < self.most { self.window * (1.0 + Self::BETA) / 2.0 } else { self.window };
            self.window = (self.window * Self::BETA).max(2.0);
            self.threshold = self.window;
            self.epoch = None;
            return;
        }
        if seq < self.recovery_until {
            return;
        }
        if self.window < self.threshold {
            self.window += 1.0;
            // HyStart: something waits.
            if rtt > self.min_rtt + (self.min_rtt / 8).clamp(4 * MILLI, 16 * MILLI) {
                self.threshold = self.window;
            }
            return;
        }
        let epoch = *self.epoch.get_or_insert_with(|| {
            self.most = self.most.max(self.window);
            self.k = ((self.most - self.window).max(0.0) / Self::C).cbrt();
            self.reno = self.window;
            now
        });
        let t = (now - epoch + rtt) as f64 / 1e9;
        let target = (Self::C * (t - self.k).powi(3) + self.most).clamp(self.window, 1.5 * self.window);
        self.reno += 3.0 * (1.0 - Self::BETA) / (1.0 + Self::BETA) / self.window;
        self.window += (target - self.window) / self.window;
        self.window = self.window.max(self.reno);
    }

    fn handle_timeout(&mut self) {
        self.threshold = (self.window / 2.0).max(2.0);
        self.window = 1.0;
        self.epoch = None;
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum BbrState {
    Startup,
    Drain,
    ProbeBw,
    ProbeRtt,
}

#[derive(Debug)]
struct Bbr {
    state: BbrState,
    /// Packets a second, by round.
    rates: VecDeque<(u64, f64)>,
    min_rtt: Nanos,
    min_rtt_at: Nanos,
    full: f64,
    full_rounds: u32,
    full_round: u64,
    cycle: usize,
    cycle_at: Nanos,
    probe_until: Nanos,
    /// Packets of rounds before this were sent by a window that was small on purpose.
    limited_until: u64,
}

impl Default for Bbr {
    fn default() -> Self {
        Self {
            state: BbrState::Startup,
            rates: VecDeque::new(),
            min_rtt: Nanos::MAX,
            min_rtt_at: 0,
            full: 0.0,
            full_rounds: 0,
            full_round: 0,
            cycle: 2,
            cycle_at: 0,
            probe_until: 0,
            limited_until: 0,
        }
    }
}

impl Bbr {
    const HIGH: f64 = 2.885;
    const GAINS: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];

    fn bandwidth(&self) -> f64 {
        self.rates.iter().map(|(_, rate)| *rate).fold(0.0, f64::max)
    }

    fn bdp(&self) -> f64 {
        self.bandwidth() * self.min_rtt as f64 / 1e9
    }

    fn pacing_rate(&self) -> f64 {
        let gain = match self.state {
            BbrState::Startup => Self::HIGH,
            BbrState::Drain => 1.0 / Self::HIGH,
            BbrState::ProbeBw => Self::GAINS[self.cycle],
            BbrState::ProbeRtt => 1.0,
        };
        if self.rates.is_empty() { 10_000.0 } else { (gain * self.bandwidth()).max(100.0) }
    }

    fn window(&self) -> u64 {
        if self.rates.is_empty() {
            return 10;
        }
        match self.state {
            BbrState::Startup | BbrState::Drain => (Self::HIGH * self.bdp()).max(10.0) as u64,
            BbrState::ProbeBw => (2.0 * self.bdp()).max(4.0) as u64,
            BbrState::ProbeRtt => 4,
        }
    }

    fn handle_ack(&mut self, now: Nanos, rtt: Nanos, rate: f64, round: u64, in_flight: u64) {
        // What four packets achieve says nothing of the line.
        if self.state == BbrState::ProbeRtt {
            self.limited_until = round + 2;
        }
        if round >= self.limited_until || rate > self.bandwidth() {
            while self.rates.front().is_some_and(|(then, _)| then + 10 <= round) {
                self.rates.pop_front();
            }
            while self.rates.back().is_some_and(|(_, less)| *less <= rate) {
                self.rates.pop_back();
            }
            self.rates.push_back((round, rate));
        }
        let expired = now > self.min_rtt_at + 10 * SECOND;
        if rtt <= self.min_rtt || expired {
            self.min_rtt = rtt;
            self.min_rtt_at = now;
        }
        if expired && self.state != BbrState::ProbeRtt {
            self.state = BbrState::ProbeRtt;
            self.probe_until = 0;
        }
        match self.state {
            BbrState::Startup if round > self.full_round => {
                self.full_round = round;
                if self.bandwidth() >= self.full * 1.25 {
                    self.full = self.bandwidth();
                    self.full_rounds = 0;
                } else {
                    self.full_rounds += 1;
                    if self.full_rounds >= 3 {
                        self.state = BbrState::Drain;
                    }
                }
            }
            BbrState::Drain if (in_flight as f64) <= self.bdp() => {
                self.state = BbrState::ProbeBw;
                self.cycle_at = now;
            }
            BbrState::ProbeBw => {
                let over = now - self.cycle_at > self.min_rtt;
                let drained = self.cycle == 1 && in_flight as f64 <= self.bdp();
                if over || drained {
                    self.cycle = (self.cycle + 1) % 8;
                    self.cycle_at = now;
                }
            }
            BbrState::ProbeRtt => {
                if self.probe_until == 0 && in_flight <= 4 {
                    self.probe_until = now + 200 * MILLI;
                }
                if self.probe_until > 0 && now >= self.probe_until {
                    self.state = if self.full_rounds >= 3 { BbrState::ProbeBw } else { BbrState::Startup };
                    self.min_rtt_at = now;
                    self.cycle = 2;
                    self.cycle_at = now;
                }
            }
            _ => {}
        }
    }
}
