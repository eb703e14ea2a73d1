//! Folders that may not be written to, or not by others: they are open for no longer than they have to be.

use super::copying::try_copy;
use super::sending::without_privileges;
use super::*;
use std::os::unix::fs::PermissionsExt;

use crate::decision::Rules;
use crate::failpoint::crash_after;
use crate::{Keep, Permissions};

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// While things are placed in them, their owner may write.
#[test]
fn read_only_folders_are_closed_by_the_run_after_an_interrupted_one() {
    for points in 0.. {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        plant(&from, &[("t/closed/deep/a", b"a"), ("t/closed/b", b"b"), ("t/open/c", b"c")]);
        for closed in ["t/closed/deep", "t/closed"] {
            set_mode(&from.join(closed), 0o555);
        }
        let copy = || {
            let filter = Filter::default();
            try_copy(&from.join("t"), &to, Rules::default(), Keep::default(), &filter, (false, None), |_| ())
        };
        crash_after(Some(points));
        let first = copy();
        crash_after(None);
        copy().unwrap();
        let modes = |root: &Path| {
            snapshot(root).into_iter().map(|(path, seen)| (path, seen.mode)).collect::<Vec<_>>()
        };
        assert_eq!(modes(&to), modes(&from), "after {points}");
        if first.is_ok() {
            return;
        }
    }
}

/// They were as open as the folder had been until the very end, and after an interruption until a later run.
#[test]
fn what_comes_into_a_folder_that_was_closed_at_the_source_is_never_open_to_others() {
    let mode_of = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    for points in 0.. {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        plant(&from, &[("t/keys/new", b"secret"), ("t/other", b"")]);
        plant(&to, &[("t/keys/old", b"known")]);
        set_mode(&from.join("t/keys"), 0o700);
        set_mode(&to.join("t/keys"), 0o755);
        crash_after(Some(points));
        let rules = Rules { permissions: Permissions::Exact, ..Rules::default() };
        let keep = Keep { permissions: Permissions::Exact, ..Keep::default() };
        let copied = try_copy(&from.join("t"), &to, rules, keep, &Filter::default(), (false, None), |_| ());
        crash_after(None);
        if to.join("t/keys/new").exists() {
            assert_eq!(mode_of(&to.join("t/keys")), 0o700, "after {points}");
        }
        if copied.is_ok() {
            return;
        }
    }
}

/// Each later run took them for what the interrupted one had left.
#[test]
fn folders_that_were_closed_after_an_interrupted_run_are_their_owners_again() {
    for points in 0.. {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        plant(&from, &[("t/closed/a", b"a")]);
        set_mode(&from.join("t/closed"), 0o555);
        crash_after(Some(points));
        let filter = Filter::default();
        let first =
            try_copy(&from.join("t"), &to, Rules::default(), Keep::default(), &filter, (false, None), |_| ());
        crash_after(None);
        if first.is_ok() {
            return;
        }
        let closed = to.join("t/closed");
        if !closed.exists() {
            continue;
        }
        let open = || drop(TreeSink::open_copy(&to, None, transfer(), Keep::default()).unwrap());
        open();
        set_mode(&closed, 0o755);
        open();
        assert_eq!(closed.metadata().unwrap().permissions().mode() & 0o777, 0o755, "after {points}");
    }
}

/// It stayed open for ever where a run was killed before it could note that, or while it found out how names are treated there.
#[cfg(target_os = "linux")]
#[test]
fn a_read_only_receiving_folder_is_closed_again_after_a_killed_run() {
    without_privileges(|| {
        for apart in [false, true] {
            let mut killed = 0;
            for points in 0.. {
                let dir = tempfile::tempdir().unwrap();
                let (to, partial) = (dir.path().join("to"), dir.path().join("apart"));
                plant(&to, &[("file", b"")]);
                set_mode(&to, 0o555);
                let mode = || to.metadata().unwrap().permissions().mode() & 0o777;
                let open =
                    || TreeSink::open_copy(&to, apart.then_some(&*partial), transfer(), Keep::default());
                crash_after(Some(points));
                let first = open().map(drop);
                crash_after(None);
                assert!(apart || mode() == 0o555, "after {points} nothing says that it is open");
                let (sink, _journal) = open().unwrap();
                assert_eq!(mode(), 0o555, "after {points}");
                sink.discard().unwrap();
                assert_eq!((mode(), std::fs::read_dir(&to).unwrap().count()), (0o555, 1), "after {points}");
                set_mode(&to, 0o755);
                if first.is_ok() {
                    break;
                }
                killed += 1;
            }
            assert!(killed > 1);
        }
    });
}

/// It ended the whole copy, each time anew, as if the destination itself could not be written to.
#[test]
fn a_folder_that_cannot_be_opened_up_keeps_only_what_is_to_be_placed_in_it() {
    use rustix::fs::IFlags;
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    plant(&from, &[("t/frozen/new", b"a"), ("t/open/b", b"b"), ("t/z/c", b"c")]);
    plant(&to, &[("t/frozen/old", b""), ("t/open/old", b"")]);
    let frozen = std::fs::File::open(to.join("t/frozen")).unwrap();
    set_mode(&to.join("t/frozen"), 0o555);
    // Not every file system has that, and not everybody may.
    if rustix::fs::ioctl_setflags(&frozen, IFlags::APPEND).is_err() {
        return;
    }
    let copied = without_privileges(|| {
        let filter = Filter::default();
        try_copy(&from.join("t"), &to, Rules::default(), Keep::default(), &filter, (false, None), |_| ())
    });
    rustix::fs::ioctl_setflags(&frozen, IFlags::empty()).unwrap();
    let refused = copied.unwrap().refused;
    assert!(matches!(&refused[..], [one] if one.contains("t/frozen/new")), "{refused:?}");
    assert_eq!(std::fs::read(to.join("t/open/b")).unwrap(), b"b");
    assert_eq!(std::fs::read(to.join("t/z/c")).unwrap(), b"c");
}
