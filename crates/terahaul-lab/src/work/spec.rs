//! What was asked for, as `file:1GB` or `tree:500`.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use terahaul_core::ByteCount;

use super::WorkError;

/// Which way the bytes go, seen from the near end, where the client is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// From the client to the server.
    Put,
    /// From the server to the client.
    Get,
}

impl Direction {
    /// As tables have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Put => "put",
            Self::Get => "get",
        }
    }
}

impl FromStr for Direction {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "put" => Ok(Self::Put),
            "get" => Ok(Self::Get),
            _ => Err(format!("'{text}' is not a direction: give put, get or put,get")),
        }
    }
}

/// What kind of work it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// One file that cannot be compressed.
    File,
    /// A source tree: many small files.
    Tree,
    /// The tree packed, moved as one file, and unpacked, all of which counts.
    Tar,
    /// The tree again after one file in a hundred changed; the other end has the older one.
    Update,
    /// The tree again when nothing has changed.
    Again,
    /// Small files, moved together.
    Small,
    /// A few large files, moved together.
    Batch,
    /// A file of which a hundredth changed in its place; the other end has the older one.
    Edited,
    /// A file with something inserted at its front; the other end has the older one.
    Inserted,
    /// Small files created, listed and removed one by one.
    Meta,
}

impl Kind {
    /// As the command line has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Tree => "tree",
            Self::Tar => "tar",
            Self::Update => "update",
            Self::Again => "again",
            Self::Small => "small",
            Self::Batch => "batch",
            Self::Edited => "edited",
            Self::Inserted => "inserted",
            Self::Meta => "meta",
        }
    }

    /// Whether one file is moved and not a folder.
    pub fn is_one_file(self) -> bool {
        matches!(self, Self::File | Self::Edited | Self::Inserted)
    }
}

/// Where a tree comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TreeOrigin {
    /// Debian's Linux source, whole or its first so many files.
    LinuxSource(Option<u64>),
    /// A folder of the user's.
    Folder(PathBuf),
}

/// What was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkSpec {
    /// A file of so many bytes.
    File(ByteCount),
    /// A tree, to be moved as it is.
    Tree(TreeOrigin),
    /// A tree, packed.
    Tar(TreeOrigin),
    /// A tree, changed a little.
    Update(TreeOrigin),
    /// A tree that is there already.
    Again(TreeOrigin),
    /// So many files of a kilobyte.
    Small(u64),
    /// So many files of so many bytes.
    Batch(u64, ByteCount),
    /// A file of so many bytes, changed in places.
    Edited(ByteCount),
    /// A file of so many bytes, with more at its front.
    Inserted(ByteCount),
    /// So many small files.
    Meta(u64),
}

/// A file's size where none was given: CESNET's.
const FILE_DEFAULT: ByteCount = ByteCount(10_000_000_000);
/// Files of `small` where no number was given.
const SMALL_DEFAULT: u64 = 100_000;
/// Files of `batch` where nothing was given: what an instrument leaves.
const BATCH_DEFAULT: (u64, ByteCount) = (16, ByteCount(1_000_000_000));
/// Files of `meta` where no number was given.
const META_DEFAULT: u64 = 5_000;

impl WorkSpec {
    /// What kind of work it is.
    pub fn kind(&self) -> Kind {
        match self {
            Self::File(_) => Kind::File,
            Self::Tree(_) => Kind::Tree,
            Self::Tar(_) => Kind::Tar,
            Self::Update(_) => Kind::Update,
            Self::Again(_) => Kind::Again,
            Self::Small(_) => Kind::Small,
            Self::Batch(..) => Kind::Batch,
            Self::Edited(_) => Kind::Edited,
            Self::Inserted(_) => Kind::Inserted,
            Self::Meta(_) => Kind::Meta,
        }
    }

    /// The directions in which it makes sense: small files are created at the far end only.
    pub fn directions(&self) -> &'static [Direction] {
        match self.kind() {
            Kind::Meta => &[Direction::Put],
            _ => &[Direction::Put, Direction::Get],
        }
    }
}

impl fmt::Display for WorkSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.kind().name();
        // Sizes exactly: works of different sizes have different names.
        match self {
            Self::File(size) | Self::Edited(size) | Self::Inserted(size) => {
                write!(f, "{name}:{}", size.exact())
            }
            Self::Batch(files, size) => write!(f, "{name}:{files}x{}", size.exact()),
            Self::Tree(origin) | Self::Tar(origin) | Self::Update(origin) | Self::Again(origin) => {
                match origin {
                    TreeOrigin::LinuxSource(None) => f.write_str(name),
                    TreeOrigin::LinuxSource(Some(files)) => write!(f, "{name}:{files}"),
                    TreeOrigin::Folder(folder) => write!(f, "{name}:{}", folder.display()),
                }
            }
            Self::Small(files) | Self::Meta(files) => write!(f, "{name}:{files}"),
        }
    }
}

impl FromStr for WorkSpec {
    type Err = WorkError;

    fn from_str(text: &str) -> Result<Self, WorkError> {
        let unreadable = || WorkError::Unreadable(text.to_owned());
        let (name, detail) = match text.split_once(':') {
            Some((name, detail)) => (name, Some(detail)),
            None => (text, None),
        };
        let origin = || match detail {
            None => Ok(TreeOrigin::LinuxSource(None)),
            Some(path) if path.contains('/') => Ok(TreeOrigin::Folder(path.into())),
            Some(files) => match files.parse() {
                Ok(files) if files > 0 => Ok(TreeOrigin::LinuxSource(Some(files))),
                _ => Err(unreadable()),
            },
        };
        let bytes = |text: &str| text.parse().ok().filter(|size| *size > ByteCount(0)).ok_or_else(unreadable);
        let size = || detail.map_or(Ok(FILE_DEFAULT), bytes);
        let count = |text: &str| text.parse().ok().filter(|files| *files > 0).ok_or_else(unreadable);
        match name {
            "file" => Ok(Self::File(size()?)),
            "edited" => Ok(Self::Edited(size()?)),
            "inserted" => Ok(Self::Inserted(size()?)),
            "small" => Ok(Self::Small(detail.map_or(Ok(SMALL_DEFAULT), count)?)),
            "batch" => {
                let Some(detail) = detail else { return Ok(Self::Batch(BATCH_DEFAULT.0, BATCH_DEFAULT.1)) };
                let (files, size) = detail.split_once('x').ok_or_else(unreadable)?;
                Ok(Self::Batch(count(files)?, bytes(size)?))
            }
            "tree" => Ok(Self::Tree(origin()?)),
            "tar" => Ok(Self::Tar(origin()?)),
            "update" => Ok(Self::Update(origin()?)),
            "again" => Ok(Self::Again(origin()?)),
            "meta" => Ok(Self::Meta(detail.map_or(Ok(META_DEFAULT), count)?)),
            _ => Err(unreadable()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_read_as_it_is_written() {
        for text in [
            "file:1GB",
            "file:256MB",
            "file:1.5GB",
            "file:1GiB",
            "file:1.025kB",
            "file:123456.789kB",
            "tree",
            "tree:500",
            "tar",
            "update:200",
            "again",
            "small:1000",
            "batch:16x1GB",
            "edited:2GB",
            "inserted:2GB",
            "meta:5000",
        ] {
            assert_eq!(text.parse::<WorkSpec>().unwrap().to_string(), text);
        }
        assert_eq!("file".parse::<WorkSpec>().unwrap().to_string(), "file:10GB");
        assert_eq!("meta".parse::<WorkSpec>().unwrap(), WorkSpec::Meta(5_000));
        let folder = "tree:/usr/include".parse::<WorkSpec>().unwrap();
        assert_eq!(folder, WorkSpec::Tree(TreeOrigin::Folder("/usr/include".into())));
    }

    #[test]
    fn what_names_no_work_is_refused_with_what_would() {
        for text in [
            "",
            "files",
            "file:",
            "file:10",
            "file:0B",
            "tree:0",
            "tree:many",
            "meta:-1",
            "small:0",
            "batch:16",
            "batch:0x1GB",
        ] {
            let refusal = text.parse::<WorkSpec>().unwrap_err().to_string();
            assert!(refusal.contains("file[:SIZE]"), "{text}: {refusal}");
        }
    }
}
