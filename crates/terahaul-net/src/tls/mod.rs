//! TLS: settings, pinning, the depot's certificate, and the record layer of data channels.

mod certificate;
mod config;
mod doubts;
mod handshake;
mod pin;
mod records;

pub use certificate::{Certificate, CertificateError, Origin};
pub(crate) use config::named_roots;
pub use config::{ClientTls, ServerTls, TlsConfigError};
pub(crate) use doubts::said_of_names;
pub use handshake::{Established, Handshake, HandshakeError, Progress};
pub use pin::{Fingerprint, FingerprintError};
pub use records::{HEADER_LEN, Opener, RECORD_LEN, Record, RecordError, Sealer, TAIL_LEN};
