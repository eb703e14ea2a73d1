//! What clients will have against a certificate, said to who starts a depot with it.

use std::time::SystemTime;

use rustls::RootCertStore;
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::pki_types::{ServerName, UnixTime};
use rustls::server::ParsedCertificate;

use super::certificate::Certificate;
use super::config::{provider, system_roots};

impl Certificate {
    /// Why clients that are led to `host` will not accept it, as far as that can be seen here.
    pub fn doubts(&self, host: &str) -> Vec<String> {
        let roots = system_roots().unwrap_or_else(|_| RootCertStore::empty());
        match SystemTime::now().duration_since(SystemTime::UNIX_EPOCH) {
            Ok(now) => self.doubts_at(UnixTime::since_unix_epoch(now), host, &roots),
            // Without the time there is no TLS, which says so.
            Err(_) => vec![],
        }
    }

    fn doubts_at(&self, now: UnixTime, host: &str, roots: &RootCertStore) -> Vec<String> {
        use rustls::CertificateError::{
            Expired, ExpiredContext, NotValidForNameContext, NotValidYet, NotValidYetContext,
        };
        use rustls::Error::InvalidCertificate;
        // One that is pinned may have any names and dates.
        let leaf = self.chain.first().filter(|_| !self.self_signed).map(ParsedCertificate::try_from);
        let Some(Ok(leaf)) = leaf else { return vec![] };
        let algorithms = provider().signature_verification_algorithms.all;
        let verify = |roots: &RootCertStore, above: &[_]| {
            verify_server_cert_signed_by_trust_anchor(&leaf, roots, above, now, algorithms)
        };
        // Its dates alone: clients may know what has signed a certificate above it by one that is newer.
        let of_issuer = match verify(&RootCertStore::empty(), &[]) {
            Err(InvalidCertificate(Expired | ExpiredContext { .. })) => Some(
                "the certificate has expired, by this machine's clock, and clients refuse it: renew it, or set the clock",
            ),
            Err(InvalidCertificate(NotValidYet | NotValidYetContext { .. })) => Some(
                "the certificate is not valid yet, by this machine's clock, and clients refuse it: see that the clock is right",
            ),
            _ if !roots.is_empty() && verify(roots, &self.chain[1..]).is_err() => Some(
                "no authority known to this machine has signed the certificate for a server, and clients refuse it that do not know one either: if an authority has signed it, give the intermediate certificates, too (fullchain.pem); one that signed itself is best left to the depot, without --tls-cert",
            ),
            _ => None,
        };
        let name = ServerName::try_from(host).ok();
        let of_name = name.and_then(|name| verify_server_name(&leaf, &name).err()).map(|error| {
            let presented = match error {
                InvalidCertificate(NotValidForNameContext { presented, .. }) => presented,
                _ => vec![],
            };
            let names = said_of_names(&presented);
            format!("the certificate is not for {host}{names}, and clients that are led there refuse it: give --url with a name that it is for, or a certificate that is for this one")
        });
        of_issuer.map(str::to_owned).into_iter().chain(of_name).collect()
    }
}

/// Names of a certificate that are repeated: those of a provider of web pages have hundreds.
const MOST_NAMES: usize = 5;

/// Behind what a certificate is not for: what it is for. The library calls names `DnsName("a")` and `IpAddress(192.0.2.1)`; others are no
/// hosts'.
pub(crate) fn said_of_names(presented: &[String]) -> String {
    let plain = |name: &String| {
        let inner = ["DnsName(", "IpAddress("].iter().find_map(|kind| name.strip_prefix(kind))?;
        Some(inner.trim_end_matches(')').trim_matches('"').to_owned())
    };
    let all: Vec<_> = presented.iter().filter_map(plain).collect();
    let named = &all[..all.len().min(MOST_NAMES)];
    match all.len() {
        0 => ", nor for any that clients look for (subjectAltName)".into(),
        1..=MOST_NAMES => format!(", but for {}", named.join(", ")),
        all => format!(", but for {} and {} others", named.join(", "), all - MOST_NAMES),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rustls::pki_types::PrivateKeyDer;

    use super::*;

    fn signed_by_authority() -> (Certificate, RootCertStore) {
        let key = || rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::new(vec![]).unwrap();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let authority = rcgen::CertifiedIssuer::self_signed(params, key()).unwrap();
        let names = ["depot.example", "192.0.2.1"].map(String::from);
        let mut params = rcgen::CertificateParams::new(names).unwrap();
        params.not_before = rcgen::date_time_ymd(2020, 1, 1);
        params.not_after = rcgen::date_time_ymd(2030, 1, 1);
        let own = key();
        let chain = vec![params.signed_by(&own, &authority).unwrap().der().clone()];
        let mut roots = RootCertStore::empty();
        roots.add(authority.der().clone()).unwrap();
        let key = PrivateKeyDer::try_from(own.serialize_der()).unwrap();
        (Certificate { chain, key, self_signed: false }, roots)
    }

    /// It was taken without a word, and no client came in.
    #[test]
    fn what_clients_will_have_against_a_certificate_is_known_at_the_start() {
        let (mut certificate, roots) = signed_by_authority();
        let [before, between, after] = [1_500_000_000, 1_700_000_000, 2_000_000_000]
            .map(|seconds| UnixTime::since_unix_epoch(Duration::from_secs(seconds)));
        let doubts = |certificate: &Certificate, now, host, roots| certificate.doubts_at(now, host, roots);
        for host in ["depot.example", "192.0.2.1"] {
            assert_eq!(doubts(&certificate, between, host, &roots), [""; 0]);
        }
        let none = RootCertStore::empty();
        let anothers = signed_by_authority().1;
        for (now, host, roots, said) in [
            (after, "depot.example", &roots, "has expired"),
            (after, "depot.example", &none, "has expired"),
            (before, "192.0.2.1", &roots, "not valid yet"),
            (between, "other.example", &none, "but for depot.example, 192.0.2.1,"),
            (between, "depot.example", &anothers, "fullchain.pem"),
        ] {
            let doubts = doubts(&certificate, now, host, roots);
            assert!(doubts.len() == 1 && doubts[0].contains(said), "{host}: {doubts:?}");
        }
        certificate.self_signed = true;
        assert_eq!(doubts(&certificate, after, "other.example", &anothers), [""; 0]);
    }

    #[test]
    fn of_many_names_some_are_said() {
        let many: Vec<_> = (0..7).map(|number| format!("DnsName(\"{number}.example\")")).collect();
        assert!(said_of_names(&many).ends_with("3.example, 4.example and 2 others"));
        let [mail, host] = ["Unsupported(0x01)", "DnsName(\"a\")"].map(String::from);
        assert_eq!(said_of_names(&[mail.clone(), host]), ", but for a");
        assert!(said_of_names(&[mail]).contains("subjectAltName"));
    }
}
