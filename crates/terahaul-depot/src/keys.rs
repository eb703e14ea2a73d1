//! The depot's secrets: files that only its user can read, and what is derived from them.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use data_encoding::BASE64URL_NOPAD;
use subtle::ConstantTimeEq;
use terahaul_core::{SigningKey, TransferId};
use terahaul_store::make_private_folders;

use crate::DepotError;

/// Starts every token.
pub(crate) const TOKEN_PREFIX: &str = "tht_";
/// Starts every link secret.
pub(crate) const LINK_PREFIX: &str = "thl_";

/// What the depot alone knows.
pub(crate) struct Keys {
    secret: [u8; 32],
    /// Signs receipts.
    pub signing: SigningKey,
}

impl Keys {
    /// Reads the keys in `folder`, or makes them.
    pub fn open(folder: &Path) -> Result<Self, DepotError> {
        let shown = folder.display();
        make_private_folders(folder).map_err(DepotError::io(format!("making {shown}")))?;
        let secret = seed(&folder.join("depot.secret"))?;
        let signing = SigningKey::from_seed(&seed(&folder.join("signing.seed"))?);
        Ok(Self { secret, signing })
    }

    /// The secret in a transfer's link. Derived, so that it can be shown again and is stored nowhere.
    pub fn link_secret(&self, transfer: TransferId) -> String {
        let key = blake3::derive_key("terahaul depot 1 link secret", &self.secret);
        format!("{LINK_PREFIX}{}", BASE64URL_NOPAD.encode(blake3::keyed_hash(&key, &transfer.0).as_bytes()))
    }

    /// Whether `text` is the link secret of `transfer`.
    pub fn is_link_secret(&self, transfer: TransferId, text: &str) -> bool {
        self.link_secret(transfer).as_bytes().ct_eq(text.as_bytes()).into()
    }

    /// The depot owner's token of this generation. Of each generation it is another.
    pub fn owner_token(&self, generation: i64) -> String {
        let key = blake3::derive_key("terahaul depot 1 owner token", &self.secret);
        let hash = blake3::keyed_hash(&key, &generation.to_le_bytes());
        format!("{TOKEN_PREFIX}{}", BASE64URL_NOPAD.encode(hash.as_bytes()))
    }
}

fn seed(path: &Path) -> Result<[u8; 32], DepotError> {
    let shown = path.display();
    match File::open(path) {
        Ok(mut file) => {
            let mut bytes = [0; 32];
            file.read_exact(&mut bytes).map_err(DepotError::io(format!("reading {shown}")))?;
            Ok(bytes)
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let bytes = random::<32>()?;
            // Written aside and renamed: a crash in between must not leave a short key behind.
            let aside = path.with_extension("new");
            let write = || -> std::io::Result<()> {
                let mut file =
                    OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&aside)?;
                file.write_all(&bytes)?;
                file.sync_all()?;
                fs::rename(&aside, path)?;
                path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
            };
            write().map_err(DepotError::io(format!("writing {shown}")))?;
            Ok(bytes)
        }
        Err(error) => Err(DepotError::io(format!("reading {shown}"))(error)),
    }
}

/// Random bytes from the system.
pub(crate) fn random<const N: usize>() -> Result<[u8; N], DepotError> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)
        .map_err(|_| DepotError::io("drawing random bytes")(std::io::Error::other("the generator failed")))?;
    Ok(bytes)
}

/// A new random secret as text behind `prefix`.
pub(crate) fn random_secret(prefix: &str) -> Result<String, DepotError> {
    Ok(format!("{prefix}{}", BASE64URL_NOPAD.encode(&random::<32>()?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn keys_stay_the_same_and_only_their_owner_can_read_them() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys");
        let id = TransferId([3; 16]);
        let first = Keys::open(&path).unwrap();
        let again = Keys::open(&path).unwrap();
        assert_eq!(first.link_secret(id), again.link_secret(id));
        assert_eq!(first.signing.public_key(), again.signing.public_key());
        assert!(first.is_link_secret(id, &again.link_secret(id)));
        assert!(!first.is_link_secret(TransferId([4; 16]), &again.link_secret(id)));
        assert_ne!(first.owner_token(1), first.owner_token(2));
        assert_eq!(first.owner_token(1).len(), 47);
        for entry in fs::read_dir(&path).unwrap() {
            assert_eq!(entry.unwrap().metadata().unwrap().permissions().mode() & 0o777, 0o600);
        }
    }
}
