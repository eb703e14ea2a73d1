//! A simulated network: a path, transfers of our own and of others over it, and things that happen to it. All chance comes
//! from a seed; time is simulated.

pub mod chance;
pub mod figures;
pub mod laws;
pub mod line;
pub mod paths;
pub mod scenes;
pub mod shares;
pub mod tcp;
pub mod transfer;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

pub use laws::Law;
pub use line::{Line, MILLI, Nanos, SECOND};
pub use paths::PathSpec;
pub use shares::Shares;
pub use tcp::TcpFlow;
pub use transfer::{Clock, Datagram, End, Transfer, TransferSpec};

/// Something that happens at a time.
type Happening = Box<dyn FnOnce(&mut World)>;

/// A network with transfers in it.
pub struct World {
    pub now: Nanos,
    pub out: Line,
    pub back: Line,
    /// Further paths between the same two ends, out and back.
    pub beside: Vec<[Line; 2]>,
    pub transfers: Vec<Transfer>,
    pub others: Vec<TcpFlow>,
    calls: Vec<[Nanos; 2]>,
    other_calls: Vec<Nanos>,
    /// By time and then by order of sending.
    under_way: BinaryHeap<Reverse<(Nanos, u64)>>,
    cargo: Vec<Option<Cargo>>,
    free: Vec<usize>,
    order: u64,
    happenings: Vec<(Nanos, Happening)>,
    seed: u64,
}

/// What is under way.
enum Cargo {
    Ours(usize, Datagram, bool),
    /// Another's packet, and its acknowledgement.
    Packet(usize, u64),
    Ack(usize, u64),
}

const END: [End; 2] = [End::Sender, End::Receiver];

impl World {
    pub fn new(path: PathSpec, seed: u64) -> Self {
        Self {
            now: 0,
            out: Line::new(path.out, seed, 0),
            back: Line::new(path.back, seed, 1),
            beside: Vec::new(),
            transfers: Vec::new(),
            others: Vec::new(),
            calls: Vec::new(),
            other_calls: Vec::new(),
            under_way: BinaryHeap::new(),
            cargo: Vec::new(),
            free: Vec::new(),
            order: 0,
            happenings: Vec::new(),
            seed,
        }
    }

    /// Another path beside those that there are.
    pub fn add_path(&mut self, path: PathSpec) {
        let stream = 2 * (self.beside.len() as u64 + 1);
        self.beside
            .push([Line::new(path.out, self.seed, stream), Line::new(path.back, self.seed, stream + 1)]);
    }

    /// A path's two directions.
    pub fn path(&mut self, number: usize) -> [&mut Line; 2] {
        match number.checked_sub(1).and_then(|at| self.beside.get_mut(at)) {
            Some([out, back]) => [out, back],
            None => [&mut self.out, &mut self.back],
        }
    }

    /// What a transfer over this path is like unless a test says otherwise.
    pub fn spec(&self, bytes: u64, law: Law) -> TransferSpec {
        TransferSpec {
            bytes,
            channels: 1 + self.beside.len(),
            paths: 1 + self.beside.len(),
            max_blocks: 32,
            law,
            max_rate: None,
            rtt: self.out.spec.delay + self.back.spec.delay,
            interface_mtu: self.out.spec.mtu,
            receiver_clock: Clock { offset: 1_000_000_000_000, ppm: 0.0 },
            disk: f64::INFINITY,
            receiver_greets: false,
            starts: 0,
            accepted_after: self.out.spec.delay + self.back.spec.delay,
        }
    }

    pub fn add(&mut self, spec: TransferSpec) -> usize {
        self.calls.push([spec.starts, spec.starts]);
        self.transfers.push(Transfer::new(spec));
        self.transfers.len() - 1
    }

    /// Somebody else's transfer.
    pub fn add_other(&mut self, flow: TcpFlow) -> usize {
        self.other_calls.push(flow.starts);
        self.others.push(flow);
        self.others.len() - 1
    }

    /// `happening` takes place at `at`.
    pub fn at(&mut self, at: Nanos, happening: impl FnOnce(&mut World) + 'static) {
        self.happenings.push((at, Box::new(happening)));
        self.happenings.sort_by_key(|(at, _)| Reverse(*at));
    }

    /// Runs until `until`, or until `done`.
    pub fn run(&mut self, until: Nanos, done: impl Fn(&World) -> bool) {
        while !done(self) {
            let packet = self.under_way.peek().map_or(Nanos::MAX, |Reverse((due, _))| *due);
            let calls = self.calls.iter().flatten().chain(&self.other_calls);
            let call = calls.copied().min().unwrap_or(Nanos::MAX);
            let happening = self.happenings.last().map_or(Nanos::MAX, |(at, _)| *at);
            let next = packet.min(call).min(happening);
            if next > until {
                self.now = until;
                return;
            }
            assert!(next >= self.now, "time goes back (seed {})", self.seed);
            self.now = next;
            if happening <= next {
                if let Some((_, happening)) = self.happenings.pop() {
                    happening(self);
                    // Whoever it was about may have something to do.
                    self.calls.iter_mut().for_each(|calls| *calls = [next, next]);
                }
            } else if packet <= call {
                self.deliver();
            } else {
                self.call(next);
            }
        }
    }

    /// Runs until all transfers are finished; fails when that takes longer than `limit`.
    pub fn finish(&mut self, limit: Nanos) {
        self.run(limit, |world| world.transfers.iter().all(|transfer| transfer.finished_at.is_some()));
        for (number, transfer) in self.transfers.iter().enumerate() {
            assert!(
                transfer.finished_at.is_some(),
                "transfer {number} has {} of {} bytes after {} s (seed {}): {:?}",
                transfer.arrived_bytes,
                transfer.bytes,
                self.now as f64 / 1e9,
                self.seed,
                transfer.sender.status().collect::<Vec<_>>(),
            );
        }
    }

    fn call(&mut self, now: Nanos) {
        for number in 0..self.transfers.len() {
            for (at, end) in END.into_iter().enumerate() {
                if self.calls[number][at] <= now {
                    self.pump(number, end);
                }
            }
        }
        for number in 0..self.others.len() {
            if self.other_calls[number] <= now {
                self.pump_other(number);
            }
        }
    }

    fn pump_other(&mut self, number: usize) {
        let mut sent = Vec::new();
        self.others[number].poll(self.now, &mut |seq| sent.push(seq));
        for seq in sent {
            if let Some((due, _, _)) = self.out.pass(self.now, tcp::PACKET, false) {
                self.put(due, Cargo::Packet(number, seq));
            }
        }
        self.other_calls[number] = self.others[number].next_call(self.now);
    }

    fn pump(&mut self, number: usize, end: End) {
        let mut sent = Vec::new();
        self.transfers[number].pump(self.now, end, &mut |datagram| sent.push(datagram));
        for datagram in sent {
            self.send(number, datagram);
        }
        let at = usize::from(end == End::Receiver);
        let next = self.transfers[number].next_call(self.now, end);
        let transfer = &self.transfers[number];
        assert!(
            next > self.now,
            "an end asks to be called at once, for ever (seed {}, {:?} {:?})",
            self.seed,
            transfer.sender.poll_timeout(),
            transfer.receiver.poll_timeout(),
        );
        self.calls[number][at] = next;
    }

    fn send(&mut self, number: usize, datagram: Datagram) {
        let now = self.now;
        let path = self.transfers[number].path_of(datagram.channel);
        let [out, back] = self.path(path);
        let line = if datagram.to == End::Receiver { out } else { back };
        let Some((due, again, marked)) = line.pass(now, datagram.bytes.len(), datagram.ecn) else { return };
        if let Some(again) = again {
            let copy = Datagram { bytes: datagram.bytes.clone(), ..datagram };
            self.put(again, Cargo::Ours(number, copy, marked));
        }
        self.put(due, Cargo::Ours(number, datagram, marked));
    }

    fn put(&mut self, due: Nanos, cargo: Cargo) {
        // The slot's number is in the low bits: packets due together come out in the order in which they were sent.
        let slot = self.free.pop().unwrap_or_else(|| {
            self.cargo.push(None);
            self.cargo.len() - 1
        });
        self.cargo[slot] = Some(cargo);
        self.order += 1;
        self.under_way.push(Reverse((due, self.order << 24 | slot as u64)));
    }

    fn deliver(&mut self) {
        let Some(Reverse((_, key))) = self.under_way.pop() else { return };
        let slot = (key & 0xff_ffff) as usize;
        let Some(cargo) = self.cargo[slot].take() else { return };
        self.free.push(slot);
        let (number, datagram, marked) = match cargo {
            Cargo::Ours(number, datagram, marked) => (number, datagram, marked),
            Cargo::Packet(number, seq) => {
                if let Some((due, _, _)) = self.back.pass(self.now, 12, false) {
                    self.put(due, Cargo::Ack(number, seq));
                }
                return;
            }
            Cargo::Ack(number, seq) => {
                self.others[number].handle_ack(self.now, seq);
                return self.pump_other(number);
            }
        };
        let end = datagram.to;
        self.transfers[number].handle(self.now, datagram, marked);
        let at = usize::from(end == End::Receiver);
        match end {
            // A report may have opened the window.
            End::Sender => self.pump(number, end),
            End::Receiver => {
                let transfer = &mut self.transfers[number];
                self.calls[number][at] = transfer.next_call(self.now, end).min(self.calls[number][at]);
                if transfer.has_arrived() || self.calls[number][at] <= self.now {
                    self.pump(number, end);
                }
            }
        }
    }
}
