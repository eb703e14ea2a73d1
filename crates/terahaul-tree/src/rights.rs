//! Whose rights a program is given: neither those of somebody who has not got it, nor somebody's where a file that stays has content that is
//! another's.
//!
//! That its size and time are the sender's does not tell what is in it, and whoever has it may write to it until it is given away.

use rustix::fs::Stat;
use terahaul_core::Xattr;

use crate::listing::mode_of;
use crate::owners::Ids;
use crate::publish::SET_GROUP;

const SET_USER: u32 = 0o4000;
/// The permission bits that lend rights.
pub(crate) const LENDING: u32 = SET_USER | SET_GROUP;
/// What lets a program do more than whoever starts it.
const CAPABILITIES: &[u8] = b"security.capability";

/// Whether these attributes have capabilities among them.
pub(crate) fn has_capabilities(xattrs: &[Xattr]) -> bool {
    xattrs.iter().any(|xattr| &*xattr.name == CAPABILITIES)
}

/// Whether it is what this user has put there.
pub(crate) fn is_own(stat: &Stat) -> bool {
    stat.st_uid == rustix::process::geteuid().as_raw()
}

/// Whether a file with this status, which is to be `wanted`'s and to get this mode, and capabilities or not, would run with rights that its
/// owner cannot give it. What this user has put there may have them.
pub(crate) fn lends(mode: u32, capabilities: bool, wanted: Ids, stat: &Stat) -> bool {
    if is_own(stat) {
        return false;
    }
    let (keeps_user, keeps_group) = (!wanted.change_user(stat), !wanted.change_group(stat));
    // Its group may be that of the folder it is in, and its owner not be in that.
    let has_group = mode_of(stat) & SET_GROUP != 0 && keeps_user && keeps_group;
    capabilities || mode & SET_USER != 0 && !keeps_user || mode & SET_GROUP != 0 && !has_group
}

/// What something with this status, which is to be `wanted`'s, gets of these permission bits: none that would lend the rights of an owner, or
/// of a group, whose it was not to be.
pub(crate) fn given(mode: u32, wanted: Ids, stat: &Stat) -> u32 {
    let user = if wanted.change_user(stat) { SET_USER } else { 0 };
    let group = if wanted.change_group(stat) { SET_GROUP } else { 0 };
    mode & !(user | group)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_are_lent_to_what_is_anothers_where_its_owner_could_not_give_them() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let own = rustix::fs::stat(file.path()).unwrap();
        let (user, group) = (own.st_uid + 1, own.st_gid + 1);
        let theirs = |mode: u32| {
            let mut stat = own;
            (stat.st_uid, stat.st_gid, stat.st_mode) = (user, group, 0o100_000 | mode);
            stat
        };
        let ids = |user, group| Ids { user: Some(user), group: Some(group) };
        let (same, other) = (ids(user, group), ids(user, group + 1));
        for (mode, capabilities, wanted, found, lent) in [
            (0o4755, false, ids(0, 0), theirs(0o755), true),
            // Bits that it has are taken when it is given away, and given again.
            (0o4755, false, ids(0, 0), theirs(0o4755), true),
            (0o4755, false, same, theirs(0o755), false),
            (0o4755, false, Ids::default(), theirs(0o755), false),
            (0o2755, false, other, theirs(0o2755), true),
            (0o2755, false, same, theirs(0o755), true),
            (0o2755, false, same, theirs(0o2755), false),
            (0o755, true, Ids::default(), theirs(0o755), true),
            (0o755, false, ids(0, 0), theirs(0o4755), false),
            (0o6755, true, ids(user, group), own, false),
        ] {
            assert_eq!(lends(mode, capabilities, wanted, &found), lent, "{mode:o} {wanted:?}");
        }
    }

    #[test]
    fn what_is_not_whose_it_was_to_be_gets_no_bit_that_lends_rights() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let is = rustix::fs::stat(file.path()).unwrap();
        let (user, group) = (Some(is.st_uid), Some(is.st_gid));
        let (other_user, other_group) = (Some(is.st_uid + 1), Some(is.st_gid + 1));
        for (user, group, expected) in [
            (user, group, 0o7755),
            (None, None, 0o7755),
            (other_user, group, 0o3755),
            (other_user, None, 0o3755),
            (user, other_group, 0o5755),
            (None, other_group, 0o5755),
            (other_user, other_group, 0o1755),
        ] {
            assert_eq!(given(0o7755, Ids { user, group }, &is), expected, "{user:?} {group:?}");
        }
    }
}
