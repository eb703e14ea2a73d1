//! Whether the disks are there that an earlier run has read from.
//!
//! A disk that is not mounted looks like a folder in which everything was removed. So nothing is read, and nothing fails, before something
//! of what was below each path of the command line was seen again. Of several folders that stand for their content nobody knows any more which
//! one held what is gone; if something is that the depot has not all of, none of them may be empty.

use std::collections::BTreeMap;
use std::path::Path;

use terahaul_core::{EntryIndex, TransferId};
use terahaul_net::client::Stored;
use terahaul_tree::Roots;

use crate::exit::{Exit, Failure};

/// What an earlier run has found below one path.
#[derive(Clone, Copy, Debug, Default)]
struct Below {
    /// Some of it is there, or cannot be looked at.
    is_there: bool,
    absent: u64,
    /// Those of which the depot has not all.
    unfinished: u64,
}

/// Fails where a disk may be missing. Others may be there in place of what was sent and removed, if all of that has arrived.
pub fn check(
    roots: &Roots,
    stored: &Stored,
    has_durable: impl Fn(EntryIndex) -> bool,
    transfer: TransferId,
) -> Result<(), Failure> {
    let mut below: BTreeMap<&Path, Below> = BTreeMap::new();
    let mut nowhere = 0;
    for (index, entry) in (0..).map(EntryIndex).zip(&stored.entries) {
        if roots.is_nowhere(&entry.path) && !stored.failed.contains(&index) && !has_durable(index) {
            nowhere += 1;
        }
        let Some(root) = roots.root_above(&entry.path) else { continue };
        let below = below.entry(root).or_default();
        if below.is_there || stored.failed.contains(&index) {
            continue;
        }
        if roots.has(&entry.path) {
            below.is_there = true;
            continue;
        }
        below.absent += 1;
        below.unfinished += u64::from(!has_durable(index));
    }
    let missing = |root: &Path, below: &Below| {
        !below.is_there && below.absent > 0 && (below.unfinished > 0 || is_empty(root))
    };
    if let Some((root, below)) = below.iter().find(|(root, below)| missing(root, below)) {
        return Err(is_mounted(root, below.absent, transfer));
    }
    match roots.contents().find(|root| nowhere > 0 && is_empty(root)) {
        Some(root) => Err(is_mounted(root, nowhere, transfer)),
        None => Ok(()),
    }
}

fn is_empty(folder: &Path) -> bool {
    std::fs::read_dir(folder).is_ok_and(|mut names| names.next().is_none())
}

fn is_mounted(root: &Path, absent: u64, transfer: TransferId) -> Failure {
    let what = match is_empty(root) {
        true => format!("{} is empty, and {absent} entries of it are at the depot", root.display()),
        false => format!("{} has none of the {absent} entries that the depot has of it", root.display()),
    };
    Failure::new(
        Exit::NotFound,
        format!(
            "{what}: is its disk mounted? Run the same command again once it is; if they are not wanted any more, 'terahaul remove {transfer}'"
        ),
    )
}

#[cfg(test)]
mod tests {
    use terahaul_core::{Entry, EntryKind, EntryPath, Mtime};

    use super::*;

    fn entry(path: &str) -> Entry {
        let (kind, mtime) = (EntryKind::Directory, Mtime { seconds: 0, nanos: 0 });
        Entry { path: EntryPath::new(path.as_bytes()).unwrap(), kind, mtime, mode: 0o755, extra: None }
    }

    #[test]
    fn a_folder_without_anything_of_what_was_in_it_is_not_believed_to_have_been_emptied() {
        let folder = tempfile::tempdir().unwrap();
        for path in ["a/x", "b", "c/new"] {
            std::fs::create_dir_all(folder.path().join(path)).unwrap();
        }
        let roots = Roots::open(&["a", "b", "c"].map(|root| folder.path().join(root))).unwrap();
        let check = |found: &[&str], failed: &[u32], are_durable: bool| {
            let entries = found.iter().map(|path| entry(path)).collect();
            let stored = Stored { entries, failed: failed.iter().copied().map(EntryIndex).collect() };
            let checked = check(&roots, &stored, |_| are_durable, TransferId([0; 16]));
            checked.map_err(|failure| failure.message)
        };
        assert!(check(&["a", "b", "c"], &[], false).is_ok(), "nothing was in them");
        assert!(check(&["a", "a/gone", "a/x"], &[], false).is_ok(), "some of it is there");
        assert!(check(&["b", "b/gone"], &[1], false).is_ok(), "it has failed");
        let said = check(&["b", "b/gone", "b/too"], &[], true).unwrap_err();
        assert!(said.contains("b is empty, and 2 entries"), "{said}");
        assert!(check(&["c", "c/gone"], &[], true).is_ok(), "sent, and cleared away");
        let said = check(&["c", "c/gone"], &[], false).unwrap_err();
        assert!(said.contains("c has none of the 1 entries"), "{said}");
    }

    #[test]
    fn one_of_several_folders_that_stand_for_their_content_is_not_believed_to_have_been_emptied_either() {
        let folder = tempfile::tempdir().unwrap();
        for path in ["c/x", "d"] {
            std::fs::create_dir_all(folder.path().join(path)).unwrap();
        }
        let check = |failed: &[u32], is_durable: bool| {
            let roots = Roots::open(&["c/", "d/"].map(|root| folder.path().join(root))).unwrap();
            let entries = ["x", "gone", "gone/too"].map(entry).into();
            let stored = Stored { entries, failed: failed.iter().copied().map(EntryIndex).collect() };
            let checked = check(&roots, &stored, |entry| is_durable || entry.0 == 0, TransferId([0; 16]));
            checked.map_err(|failure| failure.message)
        };
        let said = check(&[], false).unwrap_err();
        assert!(said.contains("d/ is empty, and 2 entries"), "{said}");
        assert!(check(&[], true).is_ok(), "sent, and cleared away");
        assert!(check(&[1, 2], false).is_ok(), "they have failed");
        std::fs::create_dir(folder.path().join("d/new")).unwrap();
        assert!(check(&[], false).is_ok(), "there is something in each");
    }
}
