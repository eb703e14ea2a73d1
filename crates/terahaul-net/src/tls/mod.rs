//! TLS: settings, pinning, the depot's certificate, and the record layer of data channels.

mod certificate;
mod config;
mod handshake;
mod pin;
mod records;

pub use certificate::{Certificate, CertificateError, Origin};
pub use config::{ClientTls, ServerTls, TlsConfigError};
pub use handshake::{Established, Handshake, HandshakeError, Progress};
pub use pin::{Fingerprint, FingerprintError};
pub use records::{HEADER_LEN, Opener, RECORD_LEN, Record, RecordError, Sealer, TAIL_LEN};
