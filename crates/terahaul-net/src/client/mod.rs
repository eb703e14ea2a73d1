//! A client's sessions: sending to a depot and receiving from one.

mod ahead;
mod channels;
mod connect;
mod dial;
mod error;
mod open_session;
mod paths;
mod persistence;
mod receive;
mod second_opinion;
mod send;
mod send_session;

pub use channels::Options;
pub use connect::Client;
pub use dial::{Connected, connect_any};
pub use error::{ClientError, ErrorKind};
pub use paths::PathProgress;
pub use receive::{Destination, DestinationError, Offer, ReceiveWatch, Received, Receiving, Taken};
pub use send::{
    Beginning, Begun, Concluded, NoteListener, Progress, ReadyToSend, SendRequest, Sending, Sent, Stored,
};
pub use send_session::MOST_UNACCEPTED;
pub use terahaul_core::{Transport, Way};
