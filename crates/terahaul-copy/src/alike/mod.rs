//! What both ends have alike is found out before it is declared, and then is not.
//!
//! Behind the greeting the far side opens a stream of its own through ssh, beside the relay's connections. Whichever side sends asks
//! on it about what it has found, folder by folder, in [fingerprints](terahaul_tree::Fingerprint); the other one looks through its
//! folders of the same names and says which of them it has. Only the rest is declared, with the folders above it. So of a tree in
//! which nothing has changed eight bytes a file travel, and neither end keeps anything about it.
//!
//! | | the sending side, [`ask`] | the receiving side, [`answer`] |
//! |---|---|---|
//! | first | one byte | one byte, or the end where nothing of it can be there |
//! | then | questions, while the walk goes on | to each an answer, in order |
//! | at the end | ends the stream | |
//!
//! A stream that ends early is no error: what is not answered is declared, and looked at then. It is ssh's, so where it is lost the
//! copy is, too, and nothing has to be asked twice.

mod answering;
mod asking;
mod found;

use minicbor::{Decode, Encode};
use terahaul_core::EntryPath;
use terahaul_tree::{Fingerprint, FolderPrints};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

pub(crate) use answering::answer;
pub(crate) use asking::ask;
pub(crate) use found::{Asker, Found};

use crate::error::CopyError;
use crate::job::Job;

/// The fingerprints' key, where a copy by these rules asks at all.
pub(crate) fn key(job: &Job) -> Result<Option<[u8; 32]>, CopyError> {
    if !job.rules.tell_alike() || job.selection.list.is_some() {
        return Ok(None);
    }
    let mut key = [0; 32];
    let failed = |_| CopyError::Local("the system gives no random numbers".into());
    getrandom::fill(&mut key).map_err(failed)?;
    Ok(Some(key))
}

/// What either side begins with.
const BEGIN: u8 = 1;

/// Whether both sides begin.
async fn begin<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut S) -> bool {
    stream.write_u8(BEGIN).await.is_ok()
        && stream.flush().await.is_ok()
        && stream.read_u8().await.ok() == Some(BEGIN)
}

/// A fingerprint's bytes in a question.
const PRINT: usize = 8;

/// What the sender has of some folders.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
struct Question {
    #[n(0)]
    folders: Vec<Asked>,
}

/// What it has of one of them.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
struct Asked {
    /// As [`FolderPrints`] has it.
    #[cbor(n(0), with = "minicbor::bytes")]
    path: Vec<u8>,
    /// Its own entry's fingerprint.
    #[n(1)]
    own: Option<u64>,
    /// Those of files and links in it, one behind the other.
    #[cbor(n(2), with = "minicbor::bytes")]
    found: Vec<u8>,
}

/// One bit a fingerprint of a question, in its order, the lowest of each byte first: whether that is at the receiver as it is at the
/// sender.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
struct Answer {
    #[cbor(n(0), with = "minicbor::bytes")]
    bits: Vec<u8>,
}

impl Asked {
    fn new(path: &[u8], own: Option<Fingerprint>) -> Self {
        Self { path: path.to_vec(), own: own.map(|print| print.0), found: Vec::new() }
    }

    fn push(&mut self, Fingerprint(print): Fingerprint) {
        self.found.extend_from_slice(&print.to_le_bytes());
    }

    /// `None` where it is not whole, or its path could be no entry's.
    fn read(self) -> Option<FolderPrints> {
        if !self.path.is_empty() && EntryPath::new(self.path.as_slice()).is_err() {
            return None;
        }
        let (prints, []) = self.found.as_chunks::<PRINT>() else { return None };
        let found = prints.iter().map(|bytes| Fingerprint(u64::from_le_bytes(*bytes))).collect();
        Some(FolderPrints { path: self.path.into(), own: self.own.map(Fingerprint), found })
    }
}

impl Answer {
    fn new(alike: impl IntoIterator<Item = bool>) -> Self {
        let mut bits = Vec::new();
        for (at, same) in alike.into_iter().enumerate() {
            if at % 8 == 0 {
                bits.push(0);
            }
            if let Some(last) = bits.last_mut() {
                *last |= u8::from(same) << (at % 8);
            }
        }
        Self { bits }
    }

    /// Bits beyond those that were said are none.
    fn is_alike(&self, at: usize) -> bool {
        self.bits.get(at / 8).is_some_and(|byte| byte >> (at % 8) & 1 == 1)
    }
}

#[cfg(test)]
mod tests;
