//! What an entry may carry beyond what every manifest has: its owner, that it is another name of an earlier file, extended
//! attributes.
//!
//! Two hosts that copy from one to the other exchange it when both said that they can. A depot never has it, and it is
//! part of no receipt.

use std::sync::Arc;

use crate::{EntryPath, Hash, Mtime};

/// Most extended attributes of one entry.
pub const MAX_XATTRS: usize = 256;
/// Most bytes of one entry's extended attributes, names and values together.
pub const MAX_XATTR_BYTES: usize = 64 << 10;
/// Longest name of an extended attribute, a user or a group, in bytes.
pub const MAX_NAME: usize = 255;

/// What an entry carries beyond its path, kind, time and mode. The default carries nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Extra {
    /// Whose it is. Entries of one owner share it.
    pub owner: Option<Arc<Owner>>,
    /// An earlier file of this manifest that this entry is another name of. Its own size is 0: the bytes are those of
    /// the other.
    pub same_as: Option<EntryPath>,
    /// Extended attributes, access control lists among them, sorted by name.
    pub xattrs: Vec<Xattr>,
    /// BLAKE3 of the file's content, where the receiver is to compare its own by content.
    pub content: Option<Hash>,
    /// Said of files of a block or more: what has arrived of one is not gone on with where it was changed since, though size and modification
    /// time be the same.
    pub changed: Option<Changed>,
}

/// Which state of a sender's file it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Changed {
    /// When it was last changed in any way, which nobody can set there (ctime).
    pub at: Mtime,
    /// The numbers of its device and inode. Nobody else is told.
    pub file: Option<(u64, u64)>,
}

/// Whose an entry is, in the numbers and the names of the sender's system.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Owner {
    /// The user's number.
    pub user: u32,
    /// The group's number.
    pub group: u32,
    /// The user's name, where the sender knows one: [`MAX_NAME`] bytes at most.
    pub user_name: Option<Box<[u8]>>,
    /// The group's name.
    pub group_name: Option<Box<[u8]>>,
}

/// An extended attribute.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Xattr {
    /// Its name with its namespace, as in `user.origin`: 1 to [`MAX_NAME`] bytes without NUL.
    pub name: Box<[u8]>,
    /// Its value.
    pub value: Box<[u8]>,
}

/// Why an [`Extra`] cannot be part of a manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExtraError {
    /// More than [`MAX_XATTRS`], or more bytes than [`MAX_XATTR_BYTES`].
    #[error(
        "its extended attributes are more than {MAX_XATTRS}, or longer than {MAX_XATTR_BYTES} bytes together"
    )]
    TooMany,
    /// A name is empty, too long, holds NUL, or is not behind the one before it.
    #[error("the names of its extended attributes are not in order, or one of them cannot be a name")]
    BadName,
    /// A user's or a group's name is empty, too long or holds NUL.
    #[error("the name of its owner cannot be a name")]
    BadOwner,
}

impl Extra {
    /// `None` where it carries nothing, which is how an [`Entry`](crate::Entry) says so.
    pub fn into_option(self) -> Option<Box<Self>> {
        (self != Self::default()).then(|| Box::new(self))
    }

    /// Checks the limits.
    pub fn check(&self) -> Result<(), ExtraError> {
        let bytes: usize = self.xattrs.iter().map(|xattr| xattr.name.len() + xattr.value.len()).sum();
        if self.xattrs.len() > MAX_XATTRS || bytes > MAX_XATTR_BYTES {
            return Err(ExtraError::TooMany);
        }
        let in_order = self.xattrs.windows(2).all(|pair| pair[0].name < pair[1].name);
        if !in_order || !self.xattrs.iter().all(|xattr| is_name(&xattr.name)) {
            return Err(ExtraError::BadName);
        }
        let names = self.owner.iter().flat_map(|owner| [&owner.user_name, &owner.group_name]).flatten();
        if names.into_iter().all(|name| is_name(name)) { Ok(()) } else { Err(ExtraError::BadOwner) }
    }
}

fn is_name(name: &[u8]) -> bool {
    (1..=MAX_NAME).contains(&name.len()) && !name.contains(&0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn xattr(name: &str, len: usize) -> Xattr {
        Xattr { name: name.as_bytes().into(), value: vec![0; len].into() }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let of = |xattrs| Extra { xattrs, ..Extra::default() }.check();
        assert_eq!(of(vec![xattr("user.a", MAX_XATTR_BYTES - 6)]), Ok(()));
        assert_eq!(of(vec![xattr("user.a", MAX_XATTR_BYTES - 5)]), Err(ExtraError::TooMany));
        assert_eq!(of((0..300).map(|at| xattr(&format!("{at:03}"), 0)).collect()), Err(ExtraError::TooMany));
        assert_eq!(of(vec![xattr("b", 0), xattr("a", 0)]), Err(ExtraError::BadName));
        assert_eq!(of(vec![xattr("a", 0), xattr("a", 0)]), Err(ExtraError::BadName));
        for name in ["", "a\0b", &"n".repeat(256)] {
            assert_eq!(of(vec![xattr(name, 0)]), Err(ExtraError::BadName));
        }
        let owner = |name: &[u8]| Owner { user: 1, group: 2, user_name: Some(name.into()), group_name: None };
        let owned = |name: &[u8]| Extra { owner: Some(Arc::new(owner(name))), ..Extra::default() }.check();
        assert_eq!((owned(b"ada"), owned(b"")), (Ok(()), Err(ExtraError::BadOwner)));
    }

    #[test]
    fn an_entry_that_carries_nothing_says_so() {
        assert_eq!(Extra::default().into_option(), None);
        assert!(Extra { xattrs: vec![xattr("user.a", 0)], ..Extra::default() }.into_option().is_some());
    }
}
