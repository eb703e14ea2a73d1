//! Sockets, TLS and threads: drives the pure crates over parallel encrypted TCP.
//!
//! A session is one control channel (CBOR messages over TLS, asynchronous) and N data channels (blocks over TLS,
//! one blocking thread each). The depot accepts both on one port, where ALPN tells them from browsers.

pub mod accept;
pub mod channel;
pub mod client;
pub mod control;
mod descriptors;
mod echo;
pub mod endpoint;
pub mod failures;
mod listener;
mod local;
mod peer;
mod rewind;
pub mod server;
pub mod session;
pub mod tls;
pub mod udp;
mod unread;

pub use descriptors::raise_descriptor_limit;
pub use listener::Listener;
pub use local::{LocalAddressError, LocalAddresses};
pub use peer::PeerNetwork;
pub use rewind::Rewind;
