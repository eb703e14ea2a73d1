//! What can go wrong for a client, and who can mend it.

use std::io;
use std::time::Duration;

use terahaul_core::LayoutError;
use terahaul_store::remedy_of_too_many_files;
use terahaul_wire::{ErrorCode, WireError};
use tokio::task::JoinError;

use super::receive::DestinationError;
use crate::control::ControlError;
use crate::endpoint::EndpointError;
use crate::local::LocalAddressError;
use crate::tls::{HandshakeError, TlsConfigError, named_roots, said_of_names};

/// What kind of error, for exit codes and scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The address or a setting is wrong.
    Usage,
    /// The depot cannot be reached, or was lost for good.
    Unreachable,
    /// Its certificate is not the expected one.
    Certificate,
    /// The token or link does not allow this.
    Denied,
    /// There is no such transfer.
    NotFound,
    /// A quota, a disk or a limit is used up.
    NoRoom,
    /// The two ends do not understand each other.
    Protocol,
    /// The transfer's state or content does not allow this.
    Conflict,
    /// This end failed: its disk, its threads.
    Local,
    /// This end has no more sockets or threads just now, and others may give some back.
    Lacking,
    /// The depot failed.
    Depot,
    /// The caller stopped it.
    Interrupted,
}

/// Why a client's session ended.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The address cannot be used.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// The addresses to leave from cannot be.
    #[error(transparent)]
    LocalAddress(#[from] LocalAddressError),
    /// TLS cannot be set up here.
    #[error(transparent)]
    TlsConfig(#[from] TlsConfigError),
    /// Nobody answers.
    #[error(
        "{host} cannot be reached ({detail}): check the address and that the depot is running; what has arrived is kept, the same command resumes"
    )]
    Unreachable {
        /// Host and port.
        host: String,
        /// The system's words.
        detail: String,
    },
    /// UDP was asked for, and the other end has none.
    #[error(
        "{host} has no UDP: use --transport tcp; a depot's log says what keeps that port from it, and older versions have none; what has arrived is kept, the same command resumes"
    )]
    WithoutUdp {
        /// Host and port.
        host: String,
    },
    /// UDP was asked for, and this machine gives no sockets for it.
    #[error(
        "UDP cannot be used on this machine ({0}): use --transport tcp, or, where too many files are open, fewer --channels; what has arrived is kept, the same command resumes"
    )]
    UdpHere(std::io::Error),
    /// UDP was asked for and does not get through.
    #[error(
        "{host} cannot be reached over UDP ({detail}): use --transport tcp, or open the same port number for UDP; what has arrived is kept, the same command resumes"
    )]
    NoUdp {
        /// Host and port.
        host: String,
        /// What is in the way.
        detail: String,
    },
    /// Somebody else answers, or the certificate was renewed.
    #[error(
        "{host} shows another certificate than the one that its address or link pins, or does not hold the key of that one: if the depot was given a new certificate, use what it prints now; otherwise somebody is in between"
    )]
    Certificate {
        /// Host and port.
        host: String,
    },
    /// The certificate is the right one, at another time: nobody is in between, but a clock or a date is wrong.
    #[error(
        "the certificate of {host} has expired, or is not valid yet, by this machine's clock: check that with 'date'; if it is right, the depot needs a new certificate"
    )]
    CertificateDates {
        /// Host and port.
        host: String,
    },
    /// Nobody who is trusted here says whose it is: its address has lost its fingerprint, the authority's own certificates are missing on
    /// either side, or somebody else answers.
    #[error(
        "{host} shows a certificate that no authority known to this machine has signed for a server{detail}: if its address has a '#sha256=…', or the link a '&fp=…', give it whole, in quotes; if the depot has its certificate from an authority, it has to send the intermediate ones, too (fullchain.pem), and the authority has to be known here ({roots}); otherwise somebody is in between"
    )]
    CertificateIssuer {
        /// Host and port.
        host: String,
        /// Where authorities are known from.
        roots: String,
        /// What the library says, where that is more.
        detail: String,
    },
    /// It is another name's.
    #[error(
        "{host} shows a certificate that is not for this name{}: use the name that it is for in the address, or give the depot a certificate that is for this one", said_of_names(.names)
    )]
    CertificateName {
        /// Host and port.
        host: String,
        /// What it is for, as the library says it.
        names: Vec<String>,
    },
    /// TLS failed otherwise.
    #[error("the TLS handshake with {host} failed ({detail}): check that the address is a Terahaul depot's")]
    Tls {
        /// Host and port.
        host: String,
        /// What failed.
        detail: String,
    },
    /// TLS is spoken there, and not what follows it.
    #[error(
        "{host} speaks TLS and not Terahaul's own protocol: check that the address is a Terahaul depot's; if it is, something in between ends TLS, as an HTTP proxy does, and has to forward TCP instead (see 'Behind a reverse proxy' in the guide to operations)"
    )]
    NotNative {
        /// Host and port.
        host: String,
    },
    /// The depot said so.
    #[error("{}", .0.message)]
    Depot(WireError),
    /// What it said that it keeps it does not have any more: its disk is another one, or one of earlier.
    #[error(
        "{host} has lost some of what it had, as after an older backup of it was restored: run the same command again, which sends that once more"
    )]
    Forgotten {
        /// Host and port.
        host: String,
    },
    /// It has more entries than this run has told of, or ends where this one went on: somebody else sends into the same transfer, or finishes it.
    #[error(
        "another 'terahaul send' of the same files, or a program or page that uses the depot's API, has taken this transfer over: let that one finish ('terahaul list' shows how far it is), or stop it and run this one again"
    )]
    TakenOver,
    /// It was there before.
    #[error(
        "the transfer was removed at the depot, or has expired, while it was sent: run the same command again, which sends all of it anew"
    )]
    Removed,
    /// The manifest is too large.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// The other end sent something that does not fit.
    #[error(transparent)]
    Violation(WireError),
    /// What is received into refuses what is offered.
    #[error(transparent)]
    Destination(DestinationError),
    /// This end cannot go on.
    #[error("{0}")]
    Local(String),
    /// This machine has no more sockets or threads just now, and others may give some back; tried again by the driver.
    #[error("{0}")]
    Lacking(String),
    /// A thread of this program panicked, or was not let begin as the program ends.
    #[error("a thread of this program failed ({0}): report this, and run the same command again")]
    Thread(#[from] JoinError),
    /// The same of what drives the session.
    #[error("a thread of this program panicked: report this, and run the same command again")]
    Panicked,
    /// This end's disk is full.
    #[error("{0}")]
    NoRoom(String),
    /// What this end had received did not become durable; tried again by the driver.
    #[error("{0}; what is durable is kept")]
    Lost(String),
    /// The caller stopped it.
    #[error("interrupted: what has arrived is kept, run the same command again to resume")]
    Interrupted,
    /// The control connection failed; tried again by the driver.
    #[error("{0}{remedy}", remedy = control_remedy(.0))]
    Control(#[from] ControlError),
}

fn control_remedy(error: &ControlError) -> &'static str {
    match error {
        // It has its own.
        ControlError::Decode(_) => "",
        _ => "; what has arrived is kept, the same command resumes",
    }
}

impl ClientError {
    /// What kind it is.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Endpoint(EndpointError::Unknown(_))
            | Self::Unreachable { .. }
            | Self::NoUdp { .. }
            | Self::WithoutUdp { .. }
            // Somebody answers, and it is no depot: the API's callers are told the same.
            | Self::Tls { .. }
            | Self::NotNative { .. }
            | Self::Control(_) => ErrorKind::Unreachable,
            Self::Endpoint(_) | Self::LocalAddress(_) | Self::TlsConfig(_) => ErrorKind::Usage,
            Self::Certificate { .. }
            | Self::CertificateDates { .. }
            | Self::CertificateIssuer { .. }
            | Self::CertificateName { .. } => ErrorKind::Certificate,
            Self::Violation(_) => ErrorKind::Protocol,
            Self::Layout(_) | Self::NoRoom(_) => ErrorKind::NoRoom,
            Self::Destination(_) | Self::Local(_) | Self::Thread(_) | Self::Panicked | Self::Lost(_) | Self::UdpHere(_) => {
                ErrorKind::Local
            }
            Self::Lacking(_) => ErrorKind::Lacking,
            Self::Interrupted => ErrorKind::Interrupted,
            Self::Forgotten { .. } => ErrorKind::Depot,
            Self::TakenOver => ErrorKind::Conflict,
            Self::Removed => ErrorKind::NotFound,
            Self::Depot(error) => match error.code {
                ErrorCode::Denied => ErrorKind::Denied,
                ErrorCode::NotFound => ErrorKind::NotFound,
                ErrorCode::QuotaExceeded | ErrorCode::DiskFull | ErrorCode::LimitExceeded => {
                    ErrorKind::NoRoom
                }
                ErrorCode::Violation | ErrorCode::Version => ErrorKind::Protocol,
                ErrorCode::ManifestConflict | ErrorCode::WrongState | ErrorCode::Conflict => {
                    ErrorKind::Conflict
                }
                ErrorCode::Internal | ErrorCode::Unavailable => ErrorKind::Depot,
            },
        }
    }

    /// Whether the driver should connect again.
    pub(crate) fn is_passing(&self) -> bool {
        match self {
            Self::Control(ControlError::Decode(_)) => false,
            Self::Control(_) | Self::Unreachable { .. } | Self::Lost(_) | Self::Lacking(_) => true,
            // Without a network no name is known, and it was known once.
            Self::Endpoint(EndpointError::Unknown(_)) => true,
            // Its interface may come back.
            Self::LocalAddress(LocalAddressError::NotHere(_)) => true,
            Self::Depot(error) => error.retry,
            _ => false,
        }
    }

    /// A disk, at either end, has lost what had arrived on it, or keeps no record of it, in a session that `lasted`. A depot that could not
    /// open one may have a database that fails: nothing was sent to be lost.
    pub(crate) fn is_loss(&self, lasted: Option<Duration>) -> bool {
        let of_disk = match self {
            Self::Lost(_) => true,
            Self::Depot(error) => error.retry && error.code == ErrorCode::Internal,
            _ => false,
        };
        of_disk && lasted.is_some()
    }

    /// The depot's certificate was refused, for this reason.
    pub fn from_certificate(host: String, why: &rustls::CertificateError) -> Self {
        use rustls::CertificateError::{
            ApplicationVerificationFailure, Expired, ExpiredContext, NotValidForName, NotValidForNameContext,
            NotValidYet, NotValidYetContext, UnknownIssuer,
        };
        match why {
            // Who pins one looks at nothing else in it.
            ApplicationVerificationFailure => Self::Certificate { host },
            Expired | ExpiredContext { .. } | NotValidYet | NotValidYetContext { .. } => {
                Self::CertificateDates { host }
            }
            NotValidForNameContext { presented, .. } => {
                Self::CertificateName { host, names: presented.clone() }
            }
            NotValidForName => Self::CertificateName { host, names: vec![] },
            other => {
                let detail = if *other == UnknownIssuer { String::new() } else { format!(" ({other})") };
                Self::CertificateIssuer { host, roots: said_of_roots(), detail }
            }
        }
    }

    /// TLS with the depot failed.
    pub fn from_tls(host: String, error: &rustls::Error) -> Self {
        match error {
            rustls::Error::InvalidCertificate(why) => Self::from_certificate(host, why),
            error if is_of_another_protocol(error) => Self::NotNative { host },
            other => Self::Tls { host, detail: other.to_string() },
        }
    }

    /// No connection was opened for this, if it is a limit on open files.
    pub fn from_limit(error: &io::Error) -> Option<Self> {
        let remedy = remedy_of_too_many_files(error)?;
        Some(Self::Lacking(format!("no connection can be opened ({error}): {remedy}")))
    }

    pub(crate) fn from_handshake(host: String, error: &HandshakeError) -> Self {
        match error {
            HandshakeError::Tls(error) => Self::from_tls(host, error),
            HandshakeError::Closed | HandshakeError::Failed(_) => {
                Self::Unreachable { host, detail: error.to_string() }
            }
            other => Self::Tls { host, detail: other.to_string() },
        }
    }
}

fn said_of_roots() -> String {
    match named_roots() {
        Some(named) => format!("{named}, and no other place is looked at"),
        None => "by update-ca-certificates, or SSL_CERT_FILE".into(),
    }
}

/// Whether the other end speaks TLS, and neither the version nor the protocol that depots do.
fn is_of_another_protocol(error: &rustls::Error) -> bool {
    use rustls::{AlertDescription, Error, PeerMisbehaved};
    matches!(
        error,
        Error::NoApplicationProtocol
            | Error::AlertReceived(
                AlertDescription::NoApplicationProtocol | AlertDescription::ProtocolVersion
            )
            | Error::PeerMisbehaved(PeerMisbehaved::SelectedUnofferedApplicationProtocol)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_speaks_no_tls_is_no_depot_that_was_reached() {
        let garbled = HandshakeError::Tls(rustls::InvalidMessage::InvalidContentType.into());
        let error = ClientError::from_handshake("host:1".into(), &garbled);
        assert_eq!(error.kind(), ErrorKind::Unreachable);
        assert!(error.to_string().contains("is a Terahaul depot's") && !error.is_passing());
    }

    #[test]
    fn a_certificate_that_is_out_of_date_is_not_called_somebody_elses() {
        use rustls::CertificateError::{Expired, NotValidYet, UnknownIssuer};
        let said = |why| ClientError::from_certificate("host:1".into(), &why).to_string();
        for dated in [Expired, NotValidYet] {
            assert!(said(dated).contains("'date'"));
        }
        assert!(said(UnknownIssuer).contains("somebody is in between"));
    }

    /// All were called certificates that the address did not pin.
    #[test]
    fn what_is_wrong_with_a_certificate_is_said_with_its_own_remedy() {
        use rustls::CertificateError::{
            ApplicationVerificationFailure, NotValidForNameContext, UnknownIssuer,
        };
        let said = |why| ClientError::from_certificate("h:1".into(), &why);
        let pinned = said(ApplicationVerificationFailure).to_string();
        assert!(pinned.contains("pins") && !pinned.contains("authority"), "{pinned}");
        let unknown = said(UnknownIssuer).to_string();
        assert!(unknown.contains("fullchain.pem") && unknown.contains("SSL_CERT_FILE"), "{unknown}");
        let presented = ["DnsName(\"*.b.example\")", "IpAddress(192.0.2.1)"].map(String::from).to_vec();
        let named = said(NotValidForNameContext { expected: "h".try_into().unwrap(), presented });
        assert_eq!(named.kind(), ErrorKind::Certificate);
        let named = named.to_string();
        assert!(named.contains("but for *.b.example, 192.0.2.1: use"), "{named}");
        assert!(!named.contains("in between"), "{named}");
    }
}
