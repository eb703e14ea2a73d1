//! Copies into folders with other file systems in them.

use terahaul_core::ByteCount;

use super::copying::{copy, is_root, try_copy};
use super::*;
use std::os::unix::fs::{PermissionsExt, lchown, symlink};

use crate::decision::Rules;
use crate::failpoint::crash_after;
use crate::{Keep, Permissions};

/// A file system of its own in a folder, unmounted when dropped.
struct Mounted(PathBuf);

impl Mounted {
    /// `None` where this test may not mount.
    fn at(folder: PathBuf, options: &std::ffi::CStr) -> Option<Self> {
        std::fs::create_dir_all(&folder).unwrap();
        let flags = rustix::mount::MountFlags::empty();
        rustix::mount::mount("tmpfs", &folder, "tmpfs", flags, options).ok().map(|()| Self(folder))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(&self.0, rustix::mount::UnmountFlags::DETACH);
    }
}

/// On Btrfs the first copy into a subvolume went well, and no later one; and what was in the way had gone before that was found out.
#[test]
fn what_is_in_the_way_makes_way_where_a_taken_name_is_said_before_that_a_rename_does_not_lead_there() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    plant(&from, &[("m/changed", b"new"), ("m/was-folder", b"1"), ("m/was-file/b", b"2"), ("z", b"new")]);
    let Some(mounted) = Mounted::at(to.join("m"), c"size=1m,mode=755") else { return };
    plant(&mounted.0, &[("changed", b"old"), ("was-folder/keep", b"theirs"), ("was-file", b"old")]);
    plant(&to, &[("z", b"old")]);
    crate::failpoint::lack(crate::failpoint::Lacking {
        one_device: true,
        ..crate::failpoint::Lacking::default()
    });
    let refused =
        |rules| copy(&from.join(""), &to, rules, Keep::default(), &Filter::default(), false).refused;
    let said = refused(Rules::default());
    assert!(matches!(&said[..], [one] if one.contains("was-folder")), "{said:?}");
    let all = Rules { make_way: crate::decision::MakeWay::Whole, ..Rules::default() };
    assert_eq!(refused(all), Vec::<String>::new());
    crate::failpoint::lack(crate::failpoint::Lacking::default());
    let (seen, sent) = (snapshot(&to), snapshot(&from));
    assert_eq!(seen, sent);
}

#[test]
fn what_is_in_the_way_of_a_folder_on_another_file_system_makes_way() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    plant(&from, &[("m/was-file/b", b"1"), ("m/was-link/s/b", b"2"), ("m/empty/", b""), ("c", b"3")]);
    let Some(mounted) = Mounted::at(to.join("m"), c"size=1m,mode=755") else { return };
    plant(&mounted.0, &[("was-file", b"old"), ("empty", b"old"), ("stays/x", b"theirs")]);
    symlink("stays", mounted.0.join("was-link")).unwrap();
    let copied = copy(&from.join(""), &to, Rules::default(), Keep::default(), &Filter::default(), false);
    assert_eq!(copied.refused, Vec::<String>::new());
    let (seen, sent) = (snapshot(&to), snapshot(&from));
    assert_eq!(seen[&b"m/stays/x"[..]].content, Content::File(b"theirs".to_vec()));
    sent.iter().for_each(|(path, sent)| assert_eq!(&seen[path], sent, "{}", path.escape_ascii()));
    assert!(!mounted.0.join("stays/s").exists(), "nothing goes through a link");
}

/// A share over the network may say of a file only when it is closed that there was no room for it.
#[test]
fn what_another_file_system_says_when_a_file_is_closed_is_heard_before_that_has_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    plant(&from, &[("m/a", b"new")]);
    let Some(mounted) = Mounted::at(to.join("m"), c"size=1m,mode=755") else { return };
    let closed = Some(rustix::io::Errno::NOSPC);
    crate::failpoint::lack(crate::failpoint::Lacking { closed, ..crate::failpoint::Lacking::default() });
    let (rules, keep) = (Rules::default(), Keep::default());
    let copied = try_copy(&from.join(""), &to, rules, keep, &Filter::default(), (false, None), |_| ());
    crate::failpoint::lack(crate::failpoint::Lacking::default());
    let Err(failed) = copied else { panic!("it was copied") };
    assert!(failed.to_string().contains("that m/a is on is full"), "{failed}");
    assert!(!mounted.0.join("a").exists());
}

/// The umask, which is nobody's wish, and a new owner take bits away.
#[test]
fn permissions_on_another_file_system_are_those_of_the_sender() {
    let dir = tempfile::tempdir().unwrap();
    let from = dir.path().join("from");
    plant(&from, &[("m/open/file", b"1"), ("m/program", b"2"), ("m/closed/x", b"3")]);
    for (name, mode) in
        [("m/open", 0o777), ("m/open/file", 0o666), ("m/program", 0o4755), ("m/closed", 0o555)]
    {
        if name == "m/program" && is_root() {
            lchown(from.join(name), Some(1), Some(4_000)).unwrap();
        }
        std::fs::set_permissions(from.join(name), std::fs::Permissions::from_mode(mode)).unwrap();
    }
    for permissions in [Permissions::Basic, Permissions::Exact] {
        let to = dir.path().join(format!("to-{permissions:?}"));
        let Some(_mounted) = Mounted::at(to.join("m"), c"size=1m,mode=755") else { return };
        let rules = Rules { permissions, ..Rules::default() };
        let keep = Keep { permissions, owner: true, ..Keep::default() };
        copy(&from.join(""), &to, rules, keep, &Filter::default(), false);
        let mode = |name: &str| to.join(name).symlink_metadata().unwrap().mode() & 0o7777;
        let program = if permissions == Permissions::Exact { 0o4755 } else { 0o755 };
        let modes = ["m/open", "m/open/file", "m/program", "m/closed"].map(mode);
        assert_eq!(modes, [0o777, 0o666, program, 0o555], "{permissions:?}");
    }
}

#[test]
fn a_full_file_system_keeps_nothing_half_written() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    plant(&from, &[("m/big", &[7; 1 << 20])]);
    let Some(mounted) = Mounted::at(to.join("m"), c"size=256k") else { return };
    let copied = std::panic::catch_unwind(|| {
        copy(&from.join(""), &to, Rules::default(), Keep::default(), &Filter::default(), false)
    });
    assert!(copied.is_err());
    assert_eq!(std::fs::read_dir(&mounted.0).unwrap().count(), 0);
}

#[test]
fn a_mount_point_in_the_receiving_folder_is_written_into() {
    let dir = tempfile::tempdir().unwrap();
    // Another file system, where there is one that anybody may write to.
    let Ok(other) = tempfile::tempdir_in("/dev/shm") else { return };
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    plant(&from, &[("m/a", b"new"), ("m/s/b", b"2"), ("m/big", &[7; 100_000]), ("c", b"3")]);
    symlink("a", from.join("m/link")).unwrap();
    plant(&to, &[("m/", b"")]);
    plant(other.path(), &[("a", b"old")]);
    let mounted = rustix::mount::mount_bind(other.path(), to.join("m"));
    if mounted.is_err() {
        return;
    }
    let copied = std::panic::catch_unwind(|| {
        copy(&from.join(""), &to, Rules::default(), Keep::default(), &Filter::default(), true)
    });
    let (seen, sent) = (snapshot(&to), snapshot(&from));
    rustix::mount::unmount(to.join("m"), rustix::mount::UnmountFlags::DETACH).unwrap();
    assert_eq!(copied.unwrap().refused, Vec::<String>::new());
    assert_eq!(seen, sent);
}

/// Half a file stayed for good where no later run had anything to place.
#[test]
fn what_an_interrupted_copy_leaves_on_another_file_system_is_removed_by_the_next_one() {
    let mut left = 0;
    for points in 0.. {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        plant(&from, &[("m/in/big", &[7; 100_000]), ("m/in/more", b"more"), ("m/top", b"1"), ("c", b"3")]);
        let Some(mounted) = Mounted::at(to.join("m"), c"size=1m,mode=755") else { return };
        let copy = |points| {
            let (rules, keep) = (Rules::default(), Keep::default());
            crash_after(points);
            let copied =
                try_copy(&from.join(""), &to, rules, keep, &Filter::default(), (false, None), |_| ());
            crash_after(None);
            copied.is_ok()
        };
        let is_done = copy(Some(points));
        let parts = || {
            let folders = [mounted.0.clone(), mounted.0.join("in")];
            let names = folders.iter().flat_map(|folder| std::fs::read_dir(folder).into_iter().flatten());
            names.filter(|name| name.as_ref().unwrap().file_name().as_bytes().ends_with(b".part")).count()
        };
        left += parts();
        // They are not to be placed any more.
        std::fs::remove_dir_all(from.join("m")).unwrap();
        assert!(copy(None), "{points}");
        assert_eq!(parts(), 0, "{points}");
        if is_done {
            break;
        }
    }
    assert!(left > 0, "no copy was interrupted while something waited there");
}

/// It was taken for a folder with nothing in it, and a copy with --delete was emptied.
#[test]
fn what_was_unmounted_before_it_was_listed_is_not_taken_for_an_empty_folder() {
    let options = c"size=1m,mode=755";
    for kind in ["of its own", "over another", "bound"] {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().join("t/m");
        for file in 0..1100 {
            plant(dir.path(), &[(&format!("t/a/{file}"), b"")]);
        }
        plant(dir.path(), &[("elsewhere/file", b"content")]);
        let below = if kind == "over another" { Mounted::at(at.clone(), options) } else { None };
        let mounted = if kind == "bound" {
            std::fs::create_dir(&at).unwrap();
            rustix::mount::mount_bind(dir.path().join("elsewhere"), &at).ok().map(|()| Mounted(at.clone()))
        } else {
            Mounted::at(at.clone(), options)
        };
        let Some(mounted) = mounted else { return };
        plant(&mounted.0, &[("file", b"content")]);
        let roots = Roots::open(&[dir.path().join("t")]).unwrap();
        let (mut mounted, mut skipped) = (Some(mounted), Vec::new());
        // Without helpers nothing is listed before its turn, and the first batch is full of what is in `a`.
        let whole = walk(&roots, &Filter::default(), 0, |batch| {
            drop(mounted.take());
            skipped.extend(batch.skipped.into_iter().map(|skipped| (skipped.path, skipped.lack)));
            ControlFlow::Continue(())
        });
        drop(below);
        assert!(whole);
        assert_eq!(skipped, [(at, crate::Lack::Unknown)], "{kind}");
    }
}

/// Whoever has the other file system may have put something else there meanwhile.
#[test]
fn what_is_removed_on_another_file_system_is_not_looked_for_behind_a_link() {
    let dir = tempfile::tempdir().unwrap();
    let (to, outside) = (dir.path().join("to"), dir.path().join("outside"));
    std::fs::create_dir(&to).unwrap();
    let open = || TreeSink::open_copy(&to, None, transfer(), Keep::default()).unwrap().0;
    let sink = open();
    let part = bytes_path(Path::new(""), &sink.part_name());
    plant(&outside.join("in").join(&part), &[("part", b"theirs")]);
    plant(&to.join("x").join(&part), &[("part", b"half"), ("other", b"theirs")]);
    symlink("../outside", to.join("m")).unwrap();
    symlink(outside.join("in").join(&part), to.join(&part)).unwrap();
    let note = |noted: &[u8]| {
        let staged = sink.staging.path.join(crate::staging::BESIDE);
        std::fs::write(staged, noted).unwrap();
        sink.clear_left_beside().unwrap();
    };
    for noted in [&b"/m/in"[..], b"/m", b"/../outside/in", b"/", b""] {
        note(noted);
        assert!(outside.join("in").join(&part).join("part").exists(), "{}", noted.escape_ascii());
    }
    assert!(to.join(&part).symlink_metadata().is_err());
    note(b"/x");
    let others: Vec<_> = std::fs::read_dir(to.join("x").join(&part)).unwrap().collect();
    assert_eq!(others.len(), 1, "what is not this program's stays");
}

/// It was received whole and half of it got its names before that was found out, and again each time.
#[test]
fn what_is_bound_into_a_receiving_folder_from_the_same_file_system_is_elsewhere() {
    use crate::{Existing, ExistingFolder};
    let dir = tempfile::tempdir().unwrap();
    plant(
        dir.path(),
        &[("other/f", b"1"), ("file", b"2"), ("to/m/", b""), ("to/bound", b"2"), ("to/own/f", b"1")],
    );
    let bound = |from: &str, to: &str| {
        let (from, to) = (dir.path().join(from), dir.path().join(to));
        rustix::mount::mount_bind(from, &to).ok().map(|()| Mounted(to))
    };
    let Some(_folder) = bound("other", "to/m") else { return };
    let Some(_file) = bound("file", "to/bound") else { return };
    let to = ExistingFolder::open(&dir.path().join("to")).unwrap();
    let existing = |path: &str, kind| {
        let (path, mtime) = (EntryPath::new(path.as_bytes()).unwrap(), Mtime { seconds: 1, nanos: 0 });
        to.existing(&Entry { path, kind, mtime, mode: 0o644, extra: None }).unwrap()
    };
    let file = || EntryKind::File { size: ByteCount(1) };
    assert_eq!(existing("m", EntryKind::Directory), Existing::Same);
    assert_eq!(existing("m/new", file()), Existing::Elsewhere { same: false });
    assert_eq!(existing("bound", file()), Existing::Mounted { same: false });
    assert_eq!(existing("own/f", file()), Existing::Other("a file"));
    assert_eq!(existing("own/new", file()), Existing::Absent);
}
