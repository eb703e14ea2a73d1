//! What is kept of a folder whose content is copied, as it travels.

use std::sync::Arc;

use minicbor::{Decode, Encode};
use terahaul_core::{Extra, Mtime, Owner, Xattr};

use crate::error::CopyError;
use crate::greeting::Name;

/// A folder that is no entry.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Top {
    /// Its permission bits.
    #[n(0)]
    pub mode: u32,
    /// When it was last modified: seconds since 1970, and nanoseconds.
    #[n(1)]
    pub seconds: i64,
    /// 0 to 999,999,999.
    #[n(2)]
    pub nanos: u32,
    /// Whose it is.
    #[n(3)]
    pub owner: Option<TopOwner>,
    /// Extended attributes, sorted by name.
    #[n(4)]
    pub xattrs: Vec<(Name, Name)>,
}

/// Numbers and names of a user and a group.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct TopOwner {
    /// The user's number.
    #[n(0)]
    pub user: u32,
    /// The group's number.
    #[n(1)]
    pub group: u32,
    /// The user's name.
    #[n(2)]
    pub user_name: Option<Name>,
    /// The group's name.
    #[n(3)]
    pub group_name: Option<Name>,
}

impl From<&terahaul_tree::Top> for Top {
    fn from(top: &terahaul_tree::Top) -> Self {
        let name = |bytes: &[u8]| Name(bytes.to_vec());
        let extra = top.extra.as_deref();
        let owner = extra.and_then(|extra| extra.owner.as_ref()).map(|owner| TopOwner {
            user: owner.user,
            group: owner.group,
            user_name: owner.user_name.as_deref().map(name),
            group_name: owner.group_name.as_deref().map(name),
        });
        let xattrs = extra.map_or(&[][..], |extra| &extra.xattrs);
        let xattrs = xattrs.iter().map(|xattr| (name(&xattr.name), name(&xattr.value))).collect();
        Self { mode: top.mode, seconds: top.mtime.seconds, nanos: top.mtime.nanos, owner, xattrs }
    }
}

impl Top {
    /// As the tree has it; an error where the limits of entries are not kept.
    pub(crate) fn checked(self) -> Result<terahaul_tree::Top, CopyError> {
        let Self { mode, seconds, nanos, owner, xattrs } = self;
        let bytes = |name: Name| name.0.into_boxed_slice();
        let owner = owner.map(|owner| {
            Arc::new(Owner {
                user: owner.user,
                group: owner.group,
                user_name: owner.user_name.map(bytes),
                group_name: owner.group_name.map(bytes),
            })
        });
        let xattrs = xattrs
            .into_iter()
            .map(|(name, value)| Xattr { name: bytes(name), value: bytes(value) })
            .collect();
        let extra = Extra { owner, xattrs, ..Extra::default() };
        extra.check().map_err(|error| CopyError::Local(format!("the source's folder: {error}")))?;
        Ok(terahaul_tree::Top { mode, mtime: Mtime { seconds, nanos }, extra: extra.into_option() })
    }
}
