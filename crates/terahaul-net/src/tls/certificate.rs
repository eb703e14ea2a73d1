//! The depot's certificate: given by its owner, or made once and kept.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use rustls::{Error, InconsistentKeys};

use super::config::provider;
use super::pin::Fingerprint;

/// A chain and its key.
pub struct Certificate {
    /// Leaf first.
    pub chain: Vec<CertificateDer<'static>>,
    /// The leaf's key.
    pub key: PrivateKeyDer<'static>,
    /// Whether clients must pin it, because no authority signed it.
    pub self_signed: bool,
}

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// A file cannot be read or written.
    #[error(
        "the certificate file {path} cannot be used ({source}): check its path, and that the depot's user may read it"
    )]
    File {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file is not what it should be.
    #[error("{path} is not a PEM file with {expected}: {}", .origin.remedy())]
    Pem {
        /// Which file.
        path: PathBuf,
        /// What was looked for.
        expected: &'static str,
        /// Whose it is.
        origin: Origin,
    },
    /// Nobody could give a depot its key's passphrase.
    #[error(
        "{0} is a key that a passphrase protects, which a depot has nobody to ask for: write it without one, as 'openssl pkey -in KEY -out NEW' does, where only the depot's user can read it"
    )]
    Locked(PathBuf),
    /// The key is of a kind that TLS here does not have, or damaged.
    #[error(
        "{key} has no private key that can be used, as are RSA of 2048 to 4096 bits, ECDSA on P-256 or P-384, and Ed25519: {}", .origin.remedy()
    )]
    Kind {
        /// The key's file.
        key: PathBuf,
        /// Whose it is.
        origin: Origin,
    },
    /// What is in the place of the leaf is none.
    #[error("the first certificate in {chain} cannot be read ({source}): {}", .origin.remedy())]
    Leaf {
        /// The certificate's file.
        chain: PathBuf,
        /// Whose it is.
        origin: Origin,
        /// What rustls says.
        source: Error,
    },
    /// The certificate is there, and not at its place.
    #[error(
        "{key} is the key of another certificate in {chain} than the first: put that one first, and behind each the one that has signed it"
    )]
    Order {
        /// The certificate's file.
        chain: PathBuf,
        /// The key's.
        key: PathBuf,
    },
    /// A certificate and a key that are each as they should be, and do not belong together.
    #[error("{key} is not the key of the certificate in {chain}: {}", .origin.remedy())]
    NoPair {
        /// The certificate's file.
        chain: PathBuf,
        /// The key's.
        key: PathBuf,
        /// Whose they are.
        origin: Origin,
    },
    /// The kept certificate has lost its key. Another pair would have another fingerprint, which no link and no login knows.
    #[error(
        "{key} is missing, the key of the certificate beside it: put it back from a backup, or remove {chain} as well, and give everyone the depot's new address and new links"
    )]
    KeyLost {
        /// The certificate's file.
        chain: PathBuf,
        /// Where the key was.
        key: PathBuf,
    },
    /// Making one failed.
    #[error("a certificate could not be made: {0}")]
    Make(#[from] rcgen::Error),
}

/// Where a certificate and its key come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The depot's owner has named them.
    Given,
    /// The depot has made them.
    Kept,
}

impl Origin {
    fn remedy(self) -> &'static str {
        match self {
            Self::Given => "give the files of one pair with --tls-cert and --tls-key",
            Self::Kept => {
                "put tls-cert.pem and tls-key.pem back from one backup, or remove both, and give everyone the depot's new address and new links"
            }
        }
    }
}

impl Certificate {
    /// Reads PEM files that the owner supplies.
    pub fn load(chain_path: &Path, key_path: &Path) -> Result<Self, CertificateError> {
        let (chain, key) = read_pair(chain_path, key_path, Origin::Given)?;
        Ok(Self { chain, key, self_signed: false })
    }

    /// The certificate kept in `dir`; made on first use, so that its fingerprint never changes by itself.
    pub fn kept_in(dir: &Path) -> Result<Self, CertificateError> {
        let (chain_path, key_path) = (dir.join("tls-cert.pem"), dir.join("tls-key.pem"));
        match (chain_path.exists(), key_path.exists()) {
            (true, true) => {}
            // The key is written first, so no crash leaves this.
            (true, false) => return Err(CertificateError::KeyLost { chain: chain_path, key: key_path }),
            (false, _) => make_kept(&chain_path, &key_path)?,
        }
        let (chain, key) = read_pair(&chain_path, &key_path, Origin::Kept)?;
        Ok(Self { chain, key, self_signed: true })
    }

    /// A certificate that is kept nowhere.
    pub fn for_one_session() -> Result<Self, CertificateError> {
        let (certificate, key) = make("Terahaul copy")?;
        let key =
            PrivateKeyDer::try_from(key.serialize_der()).map_err(|_| rcgen::Error::CouldNotParseKeyPair)?;
        Ok(Self { chain: vec![certificate.der().clone()], key, self_signed: true })
    }

    /// The leaf's fingerprint.
    pub fn fingerprint(&self) -> Fingerprint {
        self.chain.first().map_or(Fingerprint([0; 32]), Fingerprint::of)
    }
}

fn read_pair(
    chain_path: &Path,
    key_path: &Path,
    origin: Origin,
) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), CertificateError> {
    let read =
        |path: &Path| fs::read(path).map_err(|source| CertificateError::File { path: path.into(), source });
    let pem = |path: &Path, expected| CertificateError::Pem { path: path.into(), expected, origin };
    let chain: Vec<_> = CertificateDer::pem_slice_iter(&read(chain_path)?)
        .collect::<Result<_, _>>()
        .map_err(|_| pem(chain_path, "certificates"))?;
    if chain.is_empty() {
        return Err(pem(chain_path, "certificates"));
    }
    let key_file = read(key_path)?;
    let key = PrivateKeyDer::from_pem_slice(&key_file).map_err(|_| match is_locked(&key_file) {
        true => CertificateError::Locked(key_path.into()),
        false => pem(key_path, "a private key"),
    })?;
    let signing = provider().key_provider.load_private_key(key.clone_key());
    let signing = signing.map_err(|_| CertificateError::Kind { key: key_path.into(), origin })?;
    let is_of = |leaf: &CertificateDer<'static>| {
        CertifiedKey::new(vec![leaf.clone()], Arc::clone(&signing)).keys_match()
    };
    match is_of(&chain[0]) {
        // What cannot be told is no mistake.
        Ok(()) | Err(Error::InconsistentKeys(InconsistentKeys::Unknown)) => Ok((chain, key)),
        Err(Error::InconsistentKeys(_)) => {
            let (of, key) = (chain_path.into(), key_path.into());
            Err(match chain.iter().any(|other| is_of(other).is_ok()) {
                true => CertificateError::Order { chain: of, key },
                false => CertificateError::NoPair { chain: of, key, origin },
            })
        }
        Err(source) => Err(CertificateError::Leaf { chain: chain_path.into(), origin, source }),
    }
}

/// Both kinds of PEM say so in words: in the section's name, or in a header.
fn is_locked(key_file: &[u8]) -> bool {
    key_file.windows(9).any(|word| word == b"ENCRYPTED")
}

fn make(name: &str) -> Result<(rcgen::Certificate, rcgen::KeyPair), rcgen::Error> {
    let key = rcgen::KeyPair::generate()?;
    let mut params = rcgen::CertificateParams::new(vec!["localhost".to_owned()])?;
    params.distinguished_name.push(rcgen::DnType::CommonName, name);
    params.not_after = rcgen::date_time_ymd(2099, 12, 31);
    params.subject_alt_names.push(rcgen::SanType::IpAddress([127, 0, 0, 1].into()));
    Ok((params.self_signed(&key)?, key))
}

fn make_kept(chain_path: &Path, key_path: &Path) -> Result<(), CertificateError> {
    let (certificate, key) = make("Terahaul depot")?;
    // Its certificate may turn up in a backup.
    if key_path.exists() {
        let kept = key_path.with_extension("pem.old");
        fs::rename(key_path, &kept)
            .map_err(|source| CertificateError::File { path: kept.clone(), source })?;
        tracing::warn!(
            "the key {} was there without its certificate: it is kept as {}",
            key_path.display(),
            kept.display()
        );
    }
    // The key first: a certificate without its key would be kept, and be of no use.
    write_private(key_path, key.serialize_pem().as_bytes())?;
    write_private(chain_path, certificate.pem().as_bytes())
}

fn write_private(path: &Path, bytes: &[u8]) -> Result<(), CertificateError> {
    let write = || {
        let partial = path.with_extension("partial");
        let mut file =
            fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&partial)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&partial, path)?;
        // What was given out with the certificate's fingerprint holds after a power cut, too.
        path.parent().map_or(Ok(()), |folder| fs::File::open(folder)?.sync_all())
    };
    write().map_err(|source| CertificateError::File { path: path.into(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kept_certificate_stays_the_same_and_without_its_key_no_other_takes_its_place() {
        let dir = tempfile::tempdir().unwrap();
        let made = Certificate::kept_in(dir.path()).unwrap().fingerprint();
        assert_eq!(Certificate::kept_in(dir.path()).unwrap().fingerprint(), made);
        fs::remove_file(dir.path().join("tls-key.pem")).unwrap();
        let refused = Certificate::kept_in(dir.path()).err().unwrap().to_string();
        assert!(refused.contains("tls-key.pem is missing") && refused.contains("backup"), "{refused}");
        assert!(!dir.path().join("tls-key.pem").exists());
    }

    #[test]
    fn a_lost_certificate_does_not_take_its_key_along() {
        let dir = tempfile::tempdir().unwrap();
        let made = Certificate::kept_in(dir.path()).unwrap().fingerprint();
        let key = fs::read(dir.path().join("tls-key.pem")).unwrap();
        fs::remove_file(dir.path().join("tls-cert.pem")).unwrap();
        assert_ne!(Certificate::kept_in(dir.path()).unwrap().fingerprint(), made);
        assert_eq!(fs::read(dir.path().join("tls-key.pem.old")).unwrap(), key);
    }

    #[test]
    fn a_certificate_and_the_key_of_another_are_refused_by_their_names() {
        let [one, other] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        for dir in [&one, &other] {
            Certificate::kept_in(dir.path()).unwrap();
        }
        let (chain, key) = (one.path().join("tls-cert.pem"), other.path().join("tls-key.pem"));
        assert!(Certificate::load(&chain, &one.path().join("tls-key.pem")).is_ok());
        let refused = Certificate::load(&chain, &key).err().unwrap().to_string();
        assert!(refused.contains(key.to_str().unwrap()) && refused.contains("--tls-key"), "{refused}");
    }

    /// The first two were no PEM files, and the rest of another pair.
    #[test]
    fn what_is_wrong_with_a_key_or_a_chain_is_said_with_its_remedy() {
        let [one, other] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        for dir in [&one, &other] {
            Certificate::kept_in(dir.path()).unwrap();
        }
        let (chain, key) = (one.path().join("tls-cert.pem"), one.path().join("tls-key.pem"));
        let refused = || Certificate::load(&chain, &key).err().unwrap().to_string();
        let good = fs::read(&key).unwrap();
        for (text, said) in [
            (
                "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIGj\n-----END ENCRYPTED PRIVATE KEY-----\n",
                "openssl pkey",
            ),
            (
                "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,0A\n\nMIGj\n-----END RSA PRIVATE KEY-----\n",
                "openssl pkey",
            ),
            (ED448, "P-256 or P-384"),
        ] {
            fs::write(&key, text).unwrap();
            assert!(refused().contains(said), "{}", refused());
        }
        fs::write(&key, good).unwrap();
        let [leaf, issuer] = [&one, &other].map(|dir| fs::read(dir.path().join("tls-cert.pem")).unwrap());
        fs::write(&chain, [issuer, leaf].concat()).unwrap();
        assert!(refused().contains("put that one first"), "{}", refused());
        fs::write(&chain, "-----BEGIN CERTIFICATE-----\nMIGj\n-----END CERTIFICATE-----\n").unwrap();
        assert!(refused().contains("cannot be read"), "{}", refused());
    }

    const ED448: &str = "-----BEGIN PRIVATE KEY-----
MEcCAQAwBQYDK2VxBDsEOfpZL+5j66w1ZyQafqjBbX2+Kv4VyXJdQZFYYPwtuTaP
ZBpqCFB7pKN3rI5GqudsB9DX+nAG3YbCTA==
-----END PRIVATE KEY-----
";

    /// Of the one no file was named, of the other flags that nobody had given.
    #[test]
    fn a_kept_key_that_is_anothers_or_empty_is_named_and_to_be_put_back() {
        let [one, other] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        for dir in [&one, &other] {
            Certificate::kept_in(dir.path()).unwrap();
        }
        let key = one.path().join("tls-key.pem");
        for content in [fs::read(other.path().join("tls-key.pem")).unwrap(), vec![]] {
            fs::write(&key, content).unwrap();
            let refused = Certificate::kept_in(one.path()).err().unwrap().to_string();
            assert!(refused.contains(key.to_str().unwrap()) && refused.contains("backup"), "{refused}");
            assert!(!refused.contains("--tls"), "{refused}");
        }
    }
}
