//! A session over UDP data channels: blocks of a transfer's address space from one end to the other, over as many
//! channels (socket pairs) and network paths as there are.
//!
//! Pure: no I/O, no clock, no randomness, no order that depends on a hash. Time, keys, addresses and identifiers are
//! arguments, so that every state can be reached in a simulated network, by seed. [`Sender`] and [`Receiver`] are the two
//! ends; what travels is `terahaul_wire::packet`'s.
//!
//! # The driver's contract
//!
//! A driver has sockets, a clock and keys; it owns an end and makes it move:
//!
//! | what happens | the driver calls | and then |
//! |---|---|---|
//! | a datagram comes on a channel | [`Gate::open`] (each channel's thread its own, without a lock), and with what that opened `handle_packet(datagram, …)`, which says whether the path is known to carry both ways: where it carries one, the driver gives the session up | below |
//! | the time that `poll_timeout` named has come | the sender's `handle_timeout(now)` | below |
//! | always, after any call | `poll_transmit(now, keys, buffer)` until `None`, sending what it wrote and sealed; `poll_event()` until `None`; `poll_timeout()` for when to come again, and why | waits |
//! | the sender's [`Sender::wants_block`] is true | claims a block of the transfer's queue, reads and hashes it, and hands it in: [`Sender::handle_block`]. The queue is empty: [`Sender::handle_last`] | below |
//! | [`SenderEvent::Delivered`], [`SenderEvent::Declined`] | takes the buffer for another block; a declined block goes back to the queue | |
//! | [`ReceiverEvent::Arrived`] | restores, verifies and writes the block, elsewhere; then [`Receiver::handle_taken`] with its buffer | below |
//! | an error of `handle_packet` | the session is over: [`Sender::unfinished`] goes back to the queue | |
//!
//! 1. `now` never goes back, and all calls of one end use one clock. The two ends' clocks need not agree on anything.
//! 2. A datagram that [`Gate::open`] discards is answered by nothing, and moves nothing.
//! 3. Everything `poll_transmit` writes is sent, in order, or lost as a network would lose it, and may be marked by routers only where
//!    [`Transmit::ecn`] says so. Its buffer holds one datagram of the configured size at least; 64 KiB let a system send a burst in one call.
//! 4. Calling early, late or more often than asked is harmless; `poll_timeout` is never in the past once
//!    `handle_timeout` and `poll_transmit` were called.
//! 5. Delivered is not durable: what the receiver keeps for good comes over the control channel, as with TCP channels. Both
//!    kinds claim their blocks from one queue, so one transfer may use both.
//!
//! Memory is bounded by the configured number of blocks at each end, half as much again for the receiver's repairs of them, and by the window of packets under way, which has a ceiling whatever the other end says.

// A list with one run in it is meant.
#![cfg_attr(test, allow(clippy::single_range_in_vec_init))]

mod content;
mod numbered;
pub mod path;
mod ranges;
pub mod rate;
mod receiver;
pub mod repair;
mod replay;
mod seal;
mod sender;
mod session;
mod time;

pub use numbered::PathIndex;
pub use ranges::Ranges;
pub use receiver::{ArrivedBlock, Receiver, ReceiverConfig, ReceiverEvent, Verdict};
pub use replay::ReplayWindow;
pub use seal::{Discard, Gate, OVERHEAD, Open, Opened, Seal};
pub use sender::{
    ChallengeKey, ChannelConfig, ChannelState, PathConfig, PathStatus, Sender, SenderConfig, SenderEvent,
};
pub use session::{Datagram, SessionError, Transmit, Wake};
pub use time::Time;
