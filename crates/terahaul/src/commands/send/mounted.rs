//! Whether the disks are there that an earlier run has read from.
//!
//! A disk that is not mounted looks like a folder in which everything was removed, or is gone. So nothing is read, and nothing fails, before
//! something of what was below each path of the command line was seen again. Of several folders that stand for their content nobody knows any more which
//! one held what is gone; if something is that the depot has not all of, none of them may be empty. A path that led to a file or a link may
//! lead nowhere once all of that is at the depot.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use terahaul_core::{EntryIndex, EntryKind, TransferId};
use terahaul_net::client::Stored;
use terahaul_tree::{RootError, Roots};

use super::root_failure;
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
    check_gone(roots, stored, &has_durable, transfer)?;
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
        return Err(is_mounted(&holds_nothing_of(root, below.absent), transfer));
    }
    match roots.contents().find(|root| nowhere > 0 && is_empty(root)) {
        Some(root) => Err(is_mounted(&holds_nothing_of(root, nowhere), transfer)),
        None => Ok(()),
    }
}

/// What an earlier run has found of one name at the top of the transfer.
#[derive(Default)]
struct Named {
    is_folder: bool,
    entries: u64,
    /// The depot has not all of it.
    is_unfinished: bool,
}

/// Fails where what is gone may come back, or was never there.
fn check_gone(
    roots: &Roots,
    stored: &Stored,
    has_durable: impl Fn(EntryIndex) -> bool,
    transfer: TransferId,
) -> Result<(), Failure> {
    if roots.gone().next().is_none() {
        return Ok(());
    }
    let mut all: HashMap<&[u8], Named> = HashMap::new();
    for (index, entry) in (0..).map(EntryIndex).zip(&stored.entries) {
        let mut components = entry.path.components();
        let named = all.entry(components.next().unwrap_or_default()).or_default();
        // What has failed is known, and says nothing of what is there now.
        if !stored.failed.contains(&index) {
            named.is_folder |= components.next().is_some() || entry.kind == EntryKind::Directory;
            named.entries += 1;
            named.is_unfinished |= !has_durable(index);
        }
    }
    for (root, name) in roots.gone() {
        let what = match all.get(name.as_bytes()) {
            None => return Err(root_failure(&RootError::Missing(root.into()))),
            // More may have been in it than what was found by then.
            Some(Named { is_folder: true, entries, .. }) => {
                format!("{} is gone, and {entries} entries of it are at the depot", root.display())
            }
            Some(Named { is_unfinished: true, .. }) => {
                format!("{} is gone, and the depot has not all of it", root.display())
            }
            Some(_) => continue,
        };
        return Err(is_mounted(&what, transfer));
    }
    Ok(())
}

fn is_empty(folder: &Path) -> bool {
    std::fs::read_dir(folder).is_ok_and(|mut names| names.next().is_none())
}

fn holds_nothing_of(root: &Path, absent: u64) -> String {
    match is_empty(root) {
        true => format!("{} is empty, and {absent} entries of it are at the depot", root.display()),
        false => format!("{} has none of the {absent} entries that the depot has of it", root.display()),
    }
}

fn is_mounted(what: &str, transfer: TransferId) -> Failure {
    let message = format!(
        "{what}: is its disk mounted? Run the same command again once it is; if what is gone is not wanted any more, 'terahaul remove {transfer}' and send again"
    );
    Failure::new(Exit::NotFound, message)
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
    fn of_what_is_gone_only_files_that_are_durable_are_believed_to_have_been_removed() {
        let folder = tempfile::tempdir().unwrap();
        let roots = Roots::open_some(&["a", "b"].map(|root| folder.path().join(root))).unwrap();
        let link = |path: &str| Entry { kind: EntryKind::Symlink { target: b"x"[..].into() }, ..entry(path) };
        let check = |entries: &[Entry], failed: &[u32], durable: &[u32]| {
            let failed = failed.iter().copied().map(EntryIndex).collect();
            let stored = Stored { entries: entries.to_vec(), failed };
            let is_durable = |entry: EntryIndex| durable.contains(&entry.0);
            let checked = check(&roots, &stored, is_durable, TransferId([0; 16]));
            checked.map_err(|failure| failure.message)
        };
        assert!(check(&[link("a"), link("b")], &[], &[0, 1]).is_ok());
        assert!(
            check(&[link("a"), link("b"), link("b")], &[1], &[0, 2]).is_ok(),
            "its newer version is there"
        );
        assert!(check(&[link("a"), link("b")], &[1], &[0]).is_ok(), "it has failed, which is said later");
        let said = check(&[link("a"), link("b")], &[], &[0]).unwrap_err();
        assert!(said.contains("b is gone, and the depot has not all of it"), "{said}");
        let said = check(&[link("a"), entry("b"), entry("b/c")], &[], &[0, 1, 2]).unwrap_err();
        assert!(said.contains("b is gone, and 2 entries"), "{said}");
        let said = check(&[link("a")], &[], &[0]).unwrap_err();
        assert!(said.contains("b does not exist"), "{said}");
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
