//! The depot's secrets: files that only its user can read, and what is derived from them.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use data_encoding::BASE64URL_NOPAD;
use subtle::ConstantTimeEq;
use terahaul_core::{SigningKey, TransferId};
use terahaul_store::make_private_folders;

use crate::DepotError;
use crate::private::keep_folder_private;

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
    /// Reads the keys in `folder`, or makes them. Where a depot is `known` to have had them, one that is gone is named.
    pub fn open(folder: &Path, known: bool) -> Result<Self, DepotError> {
        let shown = folder.display();
        make_private_folders(folder).map_err(DepotError::io(format!("making {shown}")))?;
        keep_folder_private(folder);
        let secret = SECRET.read_or_make(folder, known)?;
        let signing = SigningKey::from_seed(&SIGNING.read_or_make(folder, known)?);
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

/// A file of 32 random bytes.
struct Seed {
    name: &'static str,
    /// What another one in its place brings about.
    lost: &'static str,
}

const SECRET: Seed = Seed { name: "depot.secret", lost: "links and the owner's token of before do not work" };
const SIGNING: Seed =
    Seed { name: "signing.seed", lost: "new receipts carry another key than those of before" };

impl Seed {
    fn read_or_make(&self, folder: &Path, known: bool) -> Result<[u8; 32], DepotError> {
        let path = folder.join(self.name);
        match File::open(&path) {
            Ok(file) => self.read(file, path),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let made = make(&path)?;
                if known {
                    tracing::warn!(
                        "{} was missing and is made anew: {}; to have it back, stop the depot, put keys/ back from a backup and start it again",
                        path.display(),
                        self.lost
                    );
                }
                Ok(made)
            }
            Err(error) => Err(reading(&path)(error)),
        }
    }

    fn read(&self, mut file: File, path: PathBuf) -> Result<[u8; 32], DepotError> {
        let mut bytes = [0; 32];
        match file.read_exact(&mut bytes) {
            Ok(()) => Ok(bytes),
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                Err(DepotError::ShortKey { path, lost: self.lost })
            }
            Err(error) => Err(reading(&path)(error)),
        }
    }
}

fn reading(path: &Path) -> impl FnOnce(std::io::Error) -> DepotError {
    DepotError::io(format!("reading {}", path.display()))
}

fn make(path: &Path) -> Result<[u8; 32], DepotError> {
    let bytes = random::<32>()?;
    // Written aside and renamed: a crash in between must not leave a short key behind.
    let aside = path.with_extension("new");
    let write = || -> std::io::Result<()> {
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&aside)?;
        file.write_all(&bytes)?;
        file.sync_all()?;
        fs::rename(&aside, path)?;
        path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
    };
    write().map_err(DepotError::io(format!("writing {}", path.display())))?;
    Ok(bytes)
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
    use std::os::unix::fs::PermissionsExt;

    use tracing::Level;

    use super::*;
    use crate::logged::Logged;

    #[test]
    fn keys_stay_the_same_and_only_their_owner_can_read_them() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys");
        let id = TransferId([3; 16]);
        let first = Keys::open(&path, false).unwrap();
        let again = Keys::open(&path, true).unwrap();
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

    /// Nothing was said of it, and the owner found out from those whose links had stopped working.
    #[test]
    fn a_key_that_a_depot_had_and_is_gone_is_named_with_what_it_takes_along() {
        let (logged, folder) = (Logged::here(), tempfile::tempdir().unwrap());
        Keys::open(folder.path(), false).unwrap();
        Keys::open(folder.path(), true).unwrap();
        assert_eq!(logged.at(Level::WARN), [""; 0]);
        for (name, lost) in [("depot.secret", "the owner's token"), ("signing.seed", "receipts")] {
            fs::remove_file(folder.path().join(name)).unwrap();
            Keys::open(folder.path(), true).unwrap();
            let said = logged.at(Level::WARN).pop().unwrap();
            for part in [name, lost, "from a backup"] {
                assert!(said.contains(part), "{said}");
            }
        }
        assert_eq!(logged.at(Level::WARN).len(), 2);
    }

    /// It was told to check the disk and the permissions.
    #[test]
    fn a_key_that_is_cut_short_is_to_be_put_back_from_a_backup() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["signing.seed", "depot.secret"] {
            fs::write(folder.path().join(name), [1; 31]).unwrap();
            let refused = Keys::open(folder.path(), true).err().unwrap();
            let said = refused.to_string();
            assert!(said.contains(name) && said.contains("from a backup"), "{said}");
            assert!(matches!(refused, DepotError::ShortKey { .. }));
        }
    }
}
