//! The handshake of a data channel, without I/O: rustls's unbuffered connection, driven to its end, then its keys.
//!
//! | state of the connection | here |
//! |---|---|
//! | has handshake bytes to send | they are appended to `outgoing` |
//! | needs more from the peer | [`Progress::NeedsInput`] |
//! | application data came early (with the peer's last flight) | kept in `early` |
//! | ready for application data | [`Progress::Done`] |

use std::sync::Arc;

use rustls::client::UnbufferedClientConnection;
use rustls::pki_types::ServerName;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, InsufficientSizeError, UnbufferedStatus};
use rustls::{ClientConfig, ServerConfig};

use super::records::{Opener, Sealer};

/// Why a handshake failed.
#[derive(Debug, thiserror::Error)]
pub enum HandshakeError {
    /// rustls refused: a certificate, a version, a broken peer.
    #[error(transparent)]
    Tls(#[from] rustls::Error),
    /// The peer closed before the handshake ended.
    #[error("the other end closed the connection during the TLS handshake")]
    Closed,
    /// The connection failed otherwise, or there never was one.
    #[error("the connection failed as it was opened ({0})")]
    Failed(std::io::Error),
    /// There was nobody to shake hands with yet: this machine gives no socket.
    #[error("no connection can be opened on this machine ({0})")]
    NoSocket(std::io::Error),
    /// The negotiated cipher cannot be driven here.
    #[error("the other end chose a cipher that data channels do not support")]
    Cipher,
}

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Send `outgoing`, then read more.
    NeedsInput,
    /// Send `outgoing`; application data may flow.
    Done,
}

enum Connection {
    Client(UnbufferedClientConnection),
    Server(UnbufferedServerConnection),
}

/// A handshake in progress.
pub struct Handshake {
    connection: Connection,
    early: Vec<u8>,
}

/// What a finished handshake leaves.
pub struct Established {
    /// Encrypts what this end sends.
    pub sealer: Sealer,
    /// Decrypts what it receives.
    pub opener: Opener,
    /// Plaintext that came with the handshake's last flight.
    pub early: Vec<u8>,
}

impl Handshake {
    /// A client's handshake with `name`. `config` must allow secret extraction.
    pub fn client(config: Arc<ClientConfig>, name: ServerName<'static>) -> Result<Self, HandshakeError> {
        let connection = Connection::Client(UnbufferedClientConnection::new(config, name)?);
        Ok(Self { connection, early: Vec::new() })
    }

    /// A server's handshake. `config` must allow secret extraction and send no tickets.
    pub fn server(config: Arc<ServerConfig>) -> Result<Self, HandshakeError> {
        let connection = Connection::Server(UnbufferedServerConnection::new(config)?);
        Ok(Self { connection, early: Vec::new() })
    }

    /// Takes what it can from the front of `incoming` and appends what must be sent to `outgoing`.
    pub fn advance(
        &mut self,
        incoming: &mut Vec<u8>,
        outgoing: &mut Vec<u8>,
    ) -> Result<Progress, HandshakeError> {
        loop {
            let (discard, step) = match &mut self.connection {
                Connection::Client(connection) => {
                    take_step(connection.process_tls_records(incoming), outgoing, &mut self.early)
                }
                Connection::Server(connection) => {
                    take_step(connection.process_tls_records(incoming), outgoing, &mut self.early)
                }
            };
            incoming.drain(..discard.min(incoming.len()));
            if let Some(progress) = step? {
                return Ok(progress);
            }
        }
    }

    /// The keys, once [`Progress::Done`].
    pub fn finish(self) -> Result<Established, HandshakeError> {
        let secrets = match self.connection {
            Connection::Client(connection) => connection.dangerous_into_kernel_connection()?.0,
            Connection::Server(connection) => connection.dangerous_into_kernel_connection()?.0,
        };
        let sealer = Sealer::new(secrets.tx.0, &secrets.tx.1).ok_or(HandshakeError::Cipher)?;
        let opener = Opener::new(secrets.rx.0, &secrets.rx.1).ok_or(HandshakeError::Cipher)?;
        Ok(Established { sealer, opener, early: self.early })
    }
}

/// One state of the connection: bytes to discard, and the progress when nothing more can be done without I/O.
fn take_step<Data>(
    status: UnbufferedStatus<'_, '_, Data>,
    outgoing: &mut Vec<u8>,
    early: &mut Vec<u8>,
) -> (usize, Result<Option<Progress>, HandshakeError>) {
    let UnbufferedStatus { mut discard, state } = status;
    let step = match state {
        Err(error) => Err(error.into()),
        Ok(ConnectionState::EncodeTlsData(mut encode)) => {
            let mut room = vec![0; 4096];
            let written = match encode.encode(&mut room) {
                Err(EncodeError::InsufficientSize(InsufficientSizeError { required_size })) => {
                    room.resize(required_size, 0);
                    encode.encode(&mut room)
                }
                other => other,
            };
            match written {
                Ok(written) => {
                    outgoing.extend_from_slice(&room[..written]);
                    Ok(None)
                }
                Err(error) => Err(rustls::Error::General(error.to_string()).into()),
            }
        }
        Ok(ConnectionState::TransmitTlsData(transmit)) => {
            // The caller sends `outgoing` before it reads again, whatever comes next.
            transmit.done();
            Ok(None)
        }
        Ok(ConnectionState::ReadTraffic(mut traffic)) => {
            let mut result = Ok(None);
            while let Some(record) = traffic.next_record() {
                match record {
                    Ok(record) => {
                        early.extend_from_slice(record.payload);
                        discard += record.discard;
                    }
                    Err(error) => {
                        result = Err(error.into());
                        break;
                    }
                }
            }
            result
        }
        Ok(ConnectionState::BlockedHandshake) => Ok(Some(Progress::NeedsInput)),
        Ok(ConnectionState::WriteTraffic(_)) => Ok(Some(Progress::Done)),
        Ok(ConnectionState::PeerClosed | ConnectionState::Closed) => Err(HandshakeError::Closed),
        Ok(_) => Err(rustls::Error::General("an unexpected TLS state".into()).into()),
    };
    (discard, step)
}
