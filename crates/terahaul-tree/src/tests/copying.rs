//! Copies into folders that have something already, compared with what the real rsync makes of the same.

use super::rules::Picks;
use super::sending::without_privileges;
use super::*;
use std::os::unix::fs::{PermissionsExt, lchown, symlink};
use std::process::Command;

use rustix::io::Errno;

use crate::PublishError;
use crate::decision::{Compare, Decision, MakeWay, Rules};
use crate::failpoint::{Lacking, crash_after, lack};
use crate::{Copying, Keep, Permissions, Published, Reading, Survey, Sweep, Swept, walk_reading};

pub(super) struct Copied {
    published: Published,
    /// Paths that did not arrive, and what they lack that did.
    pub(super) refused: Vec<String>,
    /// Why, as far as they were refused at the end.
    details: Vec<String>,
    shortfalls: Vec<String>,
    written: Vec<String>,
    /// What made way.
    removed: Vec<String>,
}

/// When something may happen to the receiving folder.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Moment {
    /// It is known what is to come.
    Decided,
    /// All is here, and nothing has its name.
    Staged,
}

fn removed(swept: Swept<'_>) -> String {
    match swept {
        Swept::Removed { path, .. } => String::from_utf8(path.to_vec()).unwrap(),
        other => panic!("{other:?}"),
    }
}

/// The whole way of `terahaul cp`, without a session.
pub(super) fn copy(
    from: &Path,
    to: &Path,
    rules: Rules,
    keep: Keep,
    filter: &Filter,
    delete: bool,
) -> Copied {
    copy_removing(from, to, rules, keep, filter, (delete, None))
}

fn copy_at_most(
    from: &Path,
    to: &Path,
    rules: Rules,
    keep: Keep,
    filter: &Filter,
    most: Option<u64>,
) -> Copied {
    copy_removing(from, to, rules, keep, filter, (false, most))
}

fn copy_removing(
    from: &Path,
    to: &Path,
    rules: Rules,
    keep: Keep,
    filter: &Filter,
    removing: (bool, Option<u64>),
) -> Copied {
    try_copy(from, to, rules, keep, filter, removing, |_| ()).unwrap()
}

pub(super) fn try_copy(
    from: &Path,
    to: &Path,
    rules: Rules,
    keep: Keep,
    filter: &Filter,
    (delete, most): (bool, Option<u64>),
    meanwhile: impl Fn(Moment),
) -> Result<Copied, PublishError> {
    let roots = Arc::new(Roots::open(&[from]).unwrap());
    let survey = Survey::open(to, rules, keep, 2).unwrap().sparing(filter.clone());
    let opened = TreeSink::open_copy(to, None, transfer(), keep);
    let (sink, journal) = opened.map_err(std::io::Error::other)?;
    let source = TreeSource::new(Arc::clone(&roots));
    let (mut layout, mut written, mut refused) = (Layout::new(), Vec::new(), Vec::new());
    walk_reading(&roots, filter, Reading { keep, ..Reading::default() }, 1, |batch| {
        assert_eq!(batch.skipped, []);
        source.append(&batch.found).unwrap();
        let decisions = survey.decide(&batch.found, survey.look(&batch.found));
        for (entry, decision) in batch.found.iter().zip(decisions) {
            layout.append(entry.file_size()).unwrap();
            let index = sink.append(entry).unwrap();
            let decision = decision.unwrap();
            if let Decision::Refuse(_) = decision {
                refused.push(entry.path.to_string());
            }
            if sink.carry_out(index, decision) {
                written.push(entry.path.to_string());
            }
        }
        ControlFlow::Continue(())
    });
    layout.seal();
    meanwhile(Moment::Decided);
    let sender = Sender { source, layout, skipped: Vec::new() };
    for shape in sender.shapes() {
        let (bytes, failures) = sender.read(&shape, 4096);
        assert_eq!(failures, []);
        write_block(&sink, &shape, &bytes).unwrap();
    }
    drop(journal);
    meanwhile(Moment::Staged);
    let copying = Copying { rules, filter, most };
    let mut gone = Vec::new();
    let published = sink.publish_copy(copying, &mut |swept| gone.push(removed(swept)))?;
    if delete {
        let top = from.as_os_str().as_bytes().ends_with(b"/");
        let sweep = Sweep { filter, top, most: None, dry_run: false };
        assert_eq!(sink.sweep(&survey, crate::EntryTable::new(), &sweep, &mut |_| {}).unwrap().failed, 0);
    }
    sink.conclude_copy(&rules)?;
    assert!(!staging(to).exists());
    let paths = |refusals: Vec<crate::Refusal>| {
        refusals.iter().map(|refusal| sink.entry(refusal.entry).unwrap().path.to_string()).collect()
    };
    refused.extend::<Vec<String>>(paths(sink.refusals()));
    let details = sink.refusals().into_iter().map(|refusal| refusal.detail).collect();
    Ok(Copied { published, refused, details, shortfalls: paths(sink.shortfalls()), written, removed: gone })
}

/// What `-aHX` keeps of a path: content and metadata, owner, attributes, and which names are one file.
type Whole = BTreeMap<Vec<u8>, (Seen, (u32, u32), Vec<(Vec<u8>, Vec<u8>)>, Vec<u8>)>;

fn whole(dir: &Path) -> Whole {
    let mut first = BTreeMap::new();
    let mut all = BTreeMap::new();
    for (path, seen) in snapshot(dir) {
        let at = bytes_path(dir, &path);
        let meta = at.symlink_metadata().unwrap();
        let first = first.entry((meta.dev(), meta.ino())).or_insert_with(|| path.clone()).clone();
        let folder = std::fs::File::open(at.parent().unwrap()).unwrap();
        let name = path.rsplit(|&byte| byte == b'/').next().unwrap();
        let xattrs = crate::xattrs::read(std::os::fd::AsFd::as_fd(&folder), name, everything()).unwrap();
        let xattrs = xattrs.into_iter().map(|xattr| (xattr.name.into(), xattr.value.into())).collect();
        let name = if meta.is_dir() { path.clone() } else { first };
        all.insert(path, (seen, (meta.uid(), meta.gid()), xattrs, name));
    }
    all
}

fn everything() -> Keep {
    Keep {
        permissions: Permissions::Exact,
        owner: true,
        numeric_ids: false,
        hard_links: true,
        xattrs: true,
        acls: true,
    }
}

pub(super) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Changes a tree at random: makes, replaces, removes, links, dates, permits, gives away.
fn mutate(dir: &Path, picks: &mut Picks, steps: usize) {
    std::fs::create_dir_all(dir).unwrap();
    for _ in 0..steps {
        let depth = picks.next(4);
        let folder =
            dir.join((0..depth).map(|_| format!("n{}", picks.next(3))).collect::<Vec<_>>().join("/"));
        let path = folder.join(format!("n{}", picks.next(4)));
        if std::fs::create_dir_all(&folder).is_err() {
            continue;
        }
        if picks.next(3) == 0 {
            let _ = match path.symlink_metadata() {
                Ok(meta) if meta.is_dir() => std::fs::remove_dir_all(&path),
                _ => std::fs::remove_file(&path),
            };
        }
        let exists = path.symlink_metadata().is_ok();
        match picks.next(7) {
            0 if !exists => symlink(picks.of(&["n0", "../n1", "none", "/etc/passwd"]), &path).unwrap(),
            1 if !exists => std::fs::create_dir(&path).unwrap(),
            2 if !exists => {
                let other = dir.join(format!("n{}", picks.next(4)));
                if other.symlink_metadata().is_ok_and(|meta| meta.is_file()) {
                    std::fs::hard_link(other, &path).unwrap();
                }
            }
            _ if path.is_symlink() || path.is_dir() => {}
            _ => std::fs::write(&path, vec![picks.next(3) as u8; picks.next(4) * 10]).unwrap(),
        }
        let Ok(meta) = path.symlink_metadata() else { continue };
        if picks.next(2) == 0 {
            date(&path, 1_500_000_000 + picks.next(1_000_000) as i64);
        }
        if picks.next(3) == 0 && !meta.is_symlink() {
            let mode = [0o600, 0o755, 0o400, 0o2750, 0o711][picks.next(5)];
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        }
        if picks.next(5) == 0 && is_root() {
            lchown(&path, Some(picks.next(3) as u32), Some(4_000 + picks.next(2) as u32)).unwrap();
        }
        if picks.next(5) == 0 && !meta.is_symlink() {
            let value = [picks.next(3) as u8; 9];
            let flags = rustix::fs::XattrFlags::empty();
            // Not every file system has them; both sides of the comparison are on the same.
            let _ = rustix::fs::lsetxattr(&path, "user.n", &value, flags);
        }
    }
}

/// Dates whatever has today's date, each time otherwise: rsync compares whole seconds, and less than one has passed.
fn settle_dates(dir: &Path, clock: &mut i64) {
    for (path, seen) in snapshot(dir).into_iter().filter(|(_, seen)| seen.mtime.0 > 1_700_000_000) {
        *clock += 1;
        let _ = seen;
        date(&bytes_path(dir, &path), 1_600_000_000 + *clock);
    }
}

fn rsync(flags: &[&str], from: &Path, to: &Path) {
    let output = Command::new("rsync").args(flags).args([from, to]).output().expect("rsync is installed");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_copy_is_what_rsync_makes_of_the_same_trees() {
    let dir = tempfile::tempdir().unwrap();
    let rules = Rules { permissions: Permissions::Exact, make_way: MakeWay::Whole, ..Rules::default() };
    // Without access control lists: rsync 3.5 stumbles over its own where a file makes way for a folder.
    let (filter, keep) = (Filter::default(), Keep { acls: false, ..everything() });
    for case in 0..25 {
        let mut picks = Picks(case);
        let [from, ours, theirs] =
            ["from", "ours", "theirs"].map(|name| dir.path().join(format!("{name}{case}")));
        let mut clock = 0;
        mutate(&from, &mut picks, 60);
        settle_dates(&from, &mut clock);
        for round in 0..3 {
            if round == 1 {
                mutate(&from, &mut picks, 25);
                settle_dates(&from, &mut clock);
            }
            copy(&from.join(""), &ours, rules, keep, &filter, true);
            rsync(&["-aHX", "--delete"], &from.join(""), &theirs.join(""));
            let (mine, other) = (whole(&ours), whole(&theirs));
            for (path, seen) in &other {
                assert_eq!(mine.get(path), Some(seen), "case {case}, round {round}: {}", path.escape_ascii());
            }
            assert_eq!(mine.len(), other.len(), "case {case}, round {round}");
            assert!(whole(&from) == mine, "case {case}, round {round}: not what was sent");
            if round == 1 {
                // What is there changes by itself too, so that there is something to replace and remove.
                mutate(&ours, &mut picks, 20);
                std::fs::remove_dir_all(&theirs).unwrap();
                rsync(&["-aHX"], &ours.join(""), &theirs.join(""));
            }
        }
        let again = copy(&from.join(""), &ours, rules, keep, &filter, true);
        assert_eq!((again.published, again.written), (Published::default(), vec![]), "case {case}");
    }
}

#[test]
fn a_full_folder_is_no_files_to_replace_unless_asked() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    plant(&from, &[("empty", b"1"), ("full", b"2"), ("other/x", b"3"), ("spared", b"4")]);
    plant(&to, &[("empty/", b""), ("full/precious", b"p"), ("other", b"a file"), ("spared/keep.log", b"k")]);
    let filter = Filter::default();
    let copied = copy(&from.join(""), &to, Rules::default(), Keep::default(), &filter, false);
    assert_eq!(copied.refused, ["full", "spared"]);
    let after = snapshot(&to);
    assert_eq!(after[&b"empty"[..]].content, Content::File(b"1".to_vec()));
    assert_eq!(after[&b"other/x"[..]].content, Content::File(b"3".to_vec()));
    assert_eq!(after[&b"full/precious"[..]].content, Content::File(b"p".to_vec()));
    // With leave to remove it, what the rules leave out is spared still.
    let rules = Rules { make_way: MakeWay::Whole, ..Rules::default() };
    let excluded = [crate::Rule { sense: crate::Sense::Exclude, pattern: (*b"*.log").into() }];
    let filter = Filter::ordered(&excluded).unwrap();
    let copied = copy(&from.join(""), &to, rules, Keep::default(), &filter, false);
    assert_eq!(copied.refused, ["spared"]);
    assert_eq!(snapshot(&to)[&b"full"[..]].content, Content::File(b"2".to_vec()));
    assert!(to.join("spared/keep.log").exists());
}

/// Folders that make way count among what may be removed, are told, and go whole or not at all.
#[test]
fn what_makes_way_is_bounded_and_told() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    plant(&from, &[("a", b"1"), ("b", b"2"), ("spared", b"3")]);
    let excluded = [crate::Rule { sense: crate::Sense::Exclude, pattern: (*b"*.log").into() }];
    let filter = Filter::ordered(&excluded).unwrap();
    let rules = Rules { make_way: MakeWay::Whole, ..Rules::default() };
    let all = ["a", "a/1", "b", "b/1", "b/2"];
    for (most, gone) in [(Some(0), &all[..0]), (Some(2), &all[..2]), (Some(5), &all[..]), (None, &all[..])] {
        plant(&to, &[("a/1", b""), ("b/1", b""), ("b/2", b""), ("spared/1", b""), ("spared/x.log", b"")]);
        let survey = Survey::open(&to, rules, Keep::default(), 1).unwrap().sparing(filter.clone());
        let entries = Sender::of(from.join("")).entries();
        survey.decide(&entries, survey.look(&entries));
        let mut dry = Vec::new();
        let (counted, given_up) = survey.clear(most, &mut |swept| dry.push(removed(swept)));
        let copied = copy_at_most(&from.join(""), &to, rules, Keep::default(), &filter, most);
        let mut told = copied.removed;
        assert_eq!((copied.published.cleared, &dry), (counted, &told), "the look and the deed agree");
        assert_eq!((counted.removed, counted.limited), (gone.len() as u64, gone.len() < all.len()));
        told.sort_unstable();
        assert_eq!(told, gone);
        let given_up = given_up.into_iter().map(|path| String::from_utf8(path.into()).unwrap());
        assert_eq!(copied.refused, ["spared".to_owned()].into_iter().chain(given_up).collect::<Vec<_>>());
        assert!(to.join("spared/1").exists(), "nothing of a folder goes that cannot go whole");
        assert_eq!(to.join("a").is_dir(), gone.is_empty());
        std::fs::remove_dir_all(&to).unwrap();
    }
}

/// The look went by whole paths, the deed by folders, and each spent what may be removed on other ones.
#[test]
fn where_not_all_may_make_way_a_look_names_what_then_does() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    let arrive = ["a/deep/f", "a/f", "b/f", "c", "x-y", "x/f", "z"];
    plant(&from, &arrive.map(|path| (path, &b"new"[..])));
    let others = ["a/e", "a/deep/a", "b/g"];
    for other in others {
        std::fs::hard_link(from.join("a/deep/f"), from.join(other)).unwrap();
    }
    let keep = Keep { hard_links: true, ..Keep::default() };
    let rules = Rules { make_way: MakeWay::Whole, ..Rules::default() };
    let filter = Filter::default();
    for most in 0..=2 * (arrive.len() + others.len()) as u64 {
        let inner: Vec<_> = arrive.iter().chain(&others).map(|path| format!("{path}/old")).collect();
        plant(&to, &inner.iter().map(|path| (path.as_str(), &b""[..])).collect::<Vec<_>>());
        let survey = Survey::open(&to, rules, keep, 1).unwrap();
        let mut entries = Vec::new();
        let roots = Arc::new(Roots::open(&[from.join("")]).unwrap());
        walk_reading(&roots, &filter, Reading { keep, ..Reading::default() }, 1, |batch| {
            entries.extend(batch.found);
            ControlFlow::Continue(())
        });
        survey.decide(&entries, survey.look(&entries));
        let mut dry = Vec::new();
        survey.clear(Some(most), &mut |swept| dry.push(removed(swept)));
        let copied = copy_at_most(&from.join(""), &to, rules, keep, &filter, Some(most));
        assert_eq!(copied.removed, dry, "at most {most}");
        std::fs::remove_dir_all(&to).unwrap();
    }
}

/// What stays at the first name is not the sender's file, and never arrives under another name of it.
#[test]
fn another_name_is_never_linked_to_what_is_not_the_senders() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    plant(&from, &[("a", b"new")]);
    std::fs::hard_link(from.join("a"), from.join("b")).unwrap();
    date(&from.join("a"), 1_000);
    let keep = Keep { hard_links: true, ..Keep::default() };
    let keeping = |rules: Rules, there: &[(&str, &[u8])]| {
        let _ = std::fs::remove_dir_all(&to);
        plant(&to, there);
        copy(&from.join(""), &to, rules, keep, &Filter::default(), false)
    };
    let content = |name: &str| std::fs::read(to.join(name)).ok();
    let update = Rules { update: true, ..Rules::default() };
    let only_new = Rules { only_new: true, ..Rules::default() };
    let only_existing = Rules { only_existing: true, ..Rules::default() };
    for rules in [update, only_new] {
        let copied = keeping(rules, &[("a", b"theirs")]);
        assert_eq!((content("a"), content("b")), (Some(b"theirs".to_vec()), None));
        assert_eq!(copied.refused, ["b"]);
    }
    let copied = keeping(only_existing, &[("b", b"theirs")]);
    assert_eq!((content("a"), content("b")), (None, Some(b"theirs".to_vec())));
    assert_eq!(copied.refused, ["b"]);
    let copied = keeping(Rules::default(), &[("a/precious", b"p"), ("b", b"theirs")]);
    assert_eq!((content("a/precious"), content("b")), (Some(b"p".to_vec()), Some(b"theirs".to_vec())));
    assert_eq!(copied.refused, ["a", "b"]);
    // Where both stay as they are, nothing is to be refused.
    assert_eq!(keeping(update, &[("a", b"1"), ("b", b"2")]).refused, Vec::<String>::new());
}

/// Every run ended with that it was refused, with nothing that anybody could do.
#[test]
fn another_name_that_is_as_the_sender_has_it_needs_no_first_one() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    plant(&from, &[("a", b"sent")]);
    std::fs::hard_link(from.join("a"), from.join("b")).unwrap();
    date(&from.join("a"), 1_000);
    plant(&to, &[("b", b"sent")]);
    date(&to.join("b"), 1_000);
    let keep = Keep { hard_links: true, ..Keep::default() };
    let only_existing = Rules { only_existing: true, ..Rules::default() };
    let copied = copy(&from.join(""), &to, only_existing, keep, &Filter::default(), false);
    assert_eq!(copied.refused, Vec::<String>::new());
    assert!(!to.join("a").exists());
}

#[test]
fn where_only_new_things_are_wanted_a_new_name_is_linked_to_a_file_that_is_the_senders_already() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    plant(&from, &[("a", b"sent")]);
    plant(&to, &[("a", b"sent")]);
    std::fs::hard_link(from.join("a"), from.join("b")).unwrap();
    for at in [&from, &to] {
        date(&at.join("a"), 1_000);
    }
    let keep = Keep { hard_links: true, ..Keep::default() };
    let only_new = Rules { only_new: true, ..Rules::default() };
    let copied = copy(&from.join(""), &to, only_new, keep, &Filter::default(), false);
    assert_eq!(copied.refused, Vec::<String>::new());
    let inode = |name: &str| to.join(name).metadata().unwrap().ino();
    assert_eq!(inode("a"), inode("b"));
}

/// The file was copied, and then the copy ended as if the disk were broken.
#[test]
fn another_name_on_a_file_system_without_links_is_refused_and_the_file_arrives() {
    for errno in [Errno::PERM, Errno::NOTSUP, Errno::NOSYS, Errno::MLINK] {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        plant(&from, &[("a", b"content")]);
        std::fs::hard_link(from.join("a"), from.join("b")).unwrap();
        let keep = Keep { hard_links: true, ..Keep::default() };
        lack(Lacking { links: Some(errno), ..Lacking::default() });
        let filter = Filter::default();
        let copied = try_copy(&from.join(""), &to, Rules::default(), keep, &filter, (false, None), |_| ());
        lack(Lacking::default());
        let Copied { refused, details, .. } = copied.unwrap();
        assert_eq!(refused, ["b"]);
        assert!(details[0].contains("hard links of a") && details[0].contains("without -H"), "{details:?}");
        assert_eq!(std::fs::read(to.join("a")).unwrap(), b"content");
    }
}

/// It got what was in the first one's place before.
#[test]
fn another_name_is_never_linked_to_what_is_in_a_folder_that_was_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    plant(&from, &[("q/first", b"new"), ("r/", b"")]);
    std::fs::hard_link(from.join("q/first"), from.join("r/second")).unwrap();
    plant(&to, &[("q/first", b"of before"), ("r/", b"")]);
    let keep = Keep { hard_links: true, ..Keep::default() };
    let refuse = |now| {
        if now == Moment::Staged {
            lack(Lacking { byte: Some((b'q', Errno::INVAL)), ..Lacking::default() });
        }
    };
    let (rules, filter) = (Rules::default(), Filter::default());
    let copied = try_copy(&from.join(""), &to, rules, keep, &filter, (false, None), refuse);
    lack(Lacking::default());
    assert_eq!(copied.unwrap().refused, ["q", "r/second"]);
    assert_eq!(snapshot(&to)[&b"q/first"[..]].content, Content::File(b"of before".to_vec()));
    assert!(!to.join("r/second").exists());
}

#[test]
fn permissions_are_kept_as_asked() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    plant(&from, &[("new", b"1"), ("there", b"2"), ("folder/x", b"3"), ("special", b"4")]);
    let set = |dir: &Path, name: &str, mode: u32| {
        std::fs::set_permissions(dir.join(name), std::fs::Permissions::from_mode(mode)).unwrap();
    };
    for (name, mode) in [("new", 0o666), ("there", 0o640), ("folder", 0o777), ("special", 0o4755)] {
        set(&from, name, mode);
    }
    let modes = |permissions| {
        let _ = std::fs::remove_dir_all(&to);
        plant(&to, &[("there", b"old"), ("folder/", b"")]);
        set(&to, "there", 0o604);
        set(&to, "folder", 0o700);
        let keep = Keep { permissions, ..Keep::default() };
        let rules = Rules { permissions, ..Rules::default() };
        copy(&from.join(""), &to, rules, keep, &Filter::default(), false);
        let after = snapshot(&to);
        ["new", "there", "folder", "special"].map(|name| after[name.as_bytes()].mode)
    };
    assert_eq!(modes(Permissions::Basic), [0o666, 0o604, 0o700, 0o755]);
    assert_eq!(modes(Permissions::Exact), [0o666, 0o640, 0o777, 0o4755]);
}

/// An access control list of these entries, each a tag, permissions and a user.
pub(super) fn list_of(entries: &[(u16, u16, u32)]) -> Vec<u8> {
    let entry = |&(tag, perm, id): &(u16, u16, u32)| {
        [&tag.to_le_bytes()[..], &perm.to_le_bytes(), &id.to_le_bytes()].concat()
    };
    let entries: Vec<_> = entries.iter().map(entry).collect();
    // Version 2.
    [&2_u32.to_le_bytes()[..], &entries.concat()].concat()
}

/// Owner rw, this user rw, group nothing, mask rw, others nothing.
fn list_for(user: u32) -> Vec<u8> {
    let none = u32::MAX;
    list_of(&[(1, 6, none), (2, 6, user), (4, 0, none), (16, 6, none), (32, 0, none)])
}

fn list_for_another() -> Vec<u8> {
    list_for(77)
}

/// A list shows in the bits of the group what it gives anybody: taken for those, they let the group in.
#[test]
fn a_file_that_is_replaced_keeps_its_access_control_list() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    plant(&from, &[("file", b"new")]);
    plant(&to, &[("file", b"of before")]);
    let list = list_for_another();
    let folder = std::fs::File::open(&to).unwrap();
    let folder = std::os::fd::AsFd::as_fd(&folder);
    if crate::xattrs::set_access_list(folder, b"file", &list).is_err() {
        return;
    }
    copy(&from.join(""), &to, Rules::default(), Keep::default(), &Filter::default(), false);
    assert_eq!(snapshot(&to)[&b"file"[..]].content, Content::File(b"new".to_vec()));
    assert_eq!(crate::xattrs::access_list(folder, b"file").unwrap(), Some(list));
}

/// It got the one that what is new there gets, and user 77 read what had been closed to everybody.
#[test]
fn a_file_that_is_replaced_and_has_no_access_control_list_gets_none() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    plant(&from, &[("closed", b"new"), ("open", b"new"), ("added", b"new")]);
    plant(&to, &[("closed", b"old"), ("open", b"old")]);
    for (file, mode) in [("closed", 0o600), ("open", 0o660)] {
        std::fs::set_permissions(to.join(file), std::fs::Permissions::from_mode(mode)).unwrap();
    }
    let folder = std::fs::File::open(&to).unwrap();
    let folder = std::os::fd::AsFd::as_fd(&folder);
    if crate::xattrs::set_default_list(folder, Some(&list_for_another())).is_err() {
        return;
    }
    copy(&from.join(""), &to, Rules::default(), Keep::default(), &Filter::default(), false);
    let list = |file: &str| crate::xattrs::access_list(folder, file.as_bytes()).unwrap();
    assert_eq!([list("closed"), list("open")], [None, None]);
    assert!(list("added").is_some());
    let seen = snapshot(&to);
    assert_eq!([&b"closed"[..], b"open"].map(|file| seen[file].mode), [0o600, 0o660]);
    assert_eq!(seen[&b"open"[..]].content, Content::File(b"new".to_vec()));
}

/// A later run gave it to what was new by then, or had the sender's permission bits.
#[test]
fn the_list_of_a_file_that_a_killed_run_was_to_replace_does_not_stay_with_what_it_had_staged() {
    for (permissions, handed_on) in
        [(Permissions::Basic, false), (Permissions::Exact, false), (Permissions::Basic, true)]
    {
        let mut came_to_it = 0;
        for points in 0.. {
            let dir = tempfile::tempdir().unwrap();
            let [from, to, fresh] = ["from", "to", "fresh"].map(|name| dir.path().join(name));
            plant(&from, &[("file", &vec![7; terahaul_core::BLOCK_SIZE as usize + 1])]);
            plant(&to, &[("file", b"of before")]);
            std::fs::create_dir(&fresh).unwrap();
            let [opened, opened_fresh] = [&to, &fresh].map(|folder| std::fs::File::open(folder).unwrap());
            let [there, new] = [&opened, &opened_fresh].map(std::os::fd::AsFd::as_fd);
            if crate::xattrs::set_access_list(there, b"file", &list_for_another()).is_err() {
                return;
            }
            if handed_on {
                for folder in [there, new] {
                    crate::xattrs::set_default_list(folder, Some(&list_for(88))).unwrap();
                }
            }
            let filter = Filter::default();
            let stop = |now| {
                if now == Moment::Staged {
                    crash_after(Some(points));
                }
            };
            let (rules, keep) = (Rules::default(), Keep::default());
            let copied = try_copy(&from.join(""), &to, rules, keep, &filter, (false, None), stop);
            crash_after(None);
            if copied.is_ok() {
                break;
            }
            let tree = std::fs::File::open(staging(&to).join("tree")).unwrap();
            let staged = crate::xattrs::access_list(std::os::fd::AsFd::as_fd(&tree), b"file");
            came_to_it += usize::from(staged.is_ok_and(|list| list == Some(list_for_another())));
            std::fs::remove_file(to.join("file")).unwrap();
            let rules = Rules { permissions, ..Rules::default() };
            let keep = Keep { permissions, ..Keep::default() };
            for to in [&to, &fresh] {
                copy(&from.join(""), to, rules, keep, &filter, false);
            }
            let lists = [there, new].map(|folder| crate::xattrs::access_list(folder, b"file").unwrap());
            assert_eq!(lists[0], lists[1], "{permissions:?}, {handed_on}, after {points}");
            assert_eq!(snapshot(&to), snapshot(&fresh));
        }
        assert!(came_to_it > 0);
    }
}

/// Only who may write a file may set its attributes.
#[cfg(target_os = "linux")]
#[test]
fn attributes_are_kept_in_a_folder_that_hands_on_no_right_to_write() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    let large = vec![7; terahaul_core::BLOCK_SIZE as usize + 1];
    let files: [(&str, &[u8]); 4] = [("empty", b""), ("large", &large), ("read-only", b"1"), ("small", b"2")];
    plant(&from, &files);
    for (file, _) in files {
        let set = rustix::fs::lsetxattr(from.join(file), "user.n", b"1", rustix::fs::XattrFlags::empty());
        if set.is_err() {
            return;
        }
    }
    std::fs::set_permissions(from.join("read-only"), std::fs::Permissions::from_mode(0o444)).unwrap();
    std::fs::create_dir(&to).unwrap();
    let opened = std::fs::File::open(&to).unwrap();
    let list = list_of(&[(1, 5, u32::MAX), (4, 5, u32::MAX), (32, 5, u32::MAX)]);
    if crate::xattrs::set_default_list(std::os::fd::AsFd::as_fd(&opened), Some(&list)).is_err() {
        return;
    }
    let keep = Keep { xattrs: true, ..Keep::default() };
    let copied =
        without_privileges(|| copy(&from.join(""), &to, Rules::default(), keep, &Filter::default(), false));
    assert_eq!(copied.shortfalls, Vec::<String>::new());
    let kept = |dir: &Path| -> Vec<_> {
        whole(dir).into_iter().map(|(path, (seen, _, xattrs, _))| (path, seen, xattrs)).collect()
    };
    assert!(kept(&to) == kept(&from));
}

/// What is in the folder `from`, staged in the folder `apart`.
fn copy_by_way_of(apart: &Path, from: &Path, to: &Path) {
    let (rules, keep, filter) = (Rules::default(), Keep::default(), Filter::default());
    let survey = Survey::open(to, rules, keep, 1).unwrap();
    let (sink, _journal) = TreeSink::open_copy(to, Some(apart), transfer(), keep).unwrap();
    let sender = Sender::of(from.join(""));
    let entries = sender.entries();
    for (entry, decision) in entries.iter().zip(survey.decide(&entries, survey.look(&entries))) {
        let index = sink.append(entry).unwrap();
        sink.carry_out(index, decision.unwrap());
    }
    for shape in sender.shapes() {
        write_block(&sink, &shape, &sender.read(&shape, 4096).0).unwrap();
    }
    let copying = Copying { rules, filter: &filter, most: None };
    sink.publish_copy(copying, &mut |_| {}).unwrap();
    sink.conclude_copy(&rules).unwrap();
}

/// It had the group of the user, and those who share the folder were locked out of what came into it.
#[test]
fn what_was_staged_elsewhere_gets_what_its_folder_hands_on() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to, apart) = (dir.path().join("from"), dir.path().join("to"), dir.path().join("apart"));
    plant(&from, &[("file", b"1"), ("folder/file", b"2")]);
    std::fs::create_dir(&to).unwrap();
    if std::os::unix::fs::chown(&to, None, Some(4242)).is_err() {
        return;
    }
    std::fs::set_permissions(&to, std::fs::Permissions::from_mode(0o2775)).unwrap();
    let opened = std::fs::File::open(&to).unwrap();
    let has_lists =
        crate::xattrs::set_default_list(std::os::fd::AsFd::as_fd(&opened), Some(&list_for_another())).is_ok();
    copy_by_way_of(&apart, &from, &to);
    let stat = |path: &str| to.join(path).metadata().unwrap();
    assert_eq!(["file", "folder", "folder/file"].map(|path| stat(path).gid()), [4242; 3]);
    assert_eq!(stat("folder").mode() & 0o7000, 0o2000);
    let folder = std::fs::File::open(to.join("folder")).unwrap();
    let list = crate::xattrs::default_list(std::os::fd::AsFd::as_fd(&folder)).unwrap();
    assert_eq!(list, has_lists.then(list_for_another));
}

/// It had the list of what is made in the folder apart, or none.
#[test]
fn what_was_staged_elsewhere_for_a_folder_with_a_group_gets_that_folders_list() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to, apart) = (dir.path().join("from"), dir.path().join("to"), dir.path().join("apart"));
    plant(&from, &[("shared/file", b"1")]);
    std::fs::create_dir(&to).unwrap();
    let opened = std::fs::File::open(&to).unwrap();
    let opened = std::os::fd::AsFd::as_fd(&opened);
    if crate::xattrs::set_default_list(opened, Some(&list_for_another())).is_err() {
        return;
    }
    std::fs::create_dir(to.join("shared")).unwrap();
    if std::os::unix::fs::chown(to.join("shared"), None, Some(4242)).is_err() {
        return;
    }
    std::fs::set_permissions(to.join("shared"), std::fs::Permissions::from_mode(0o2775)).unwrap();
    copy_by_way_of(&apart, &from, &to);
    assert_eq!(to.join("shared/file").metadata().unwrap().gid(), 4242);
    assert!(crate::xattrs::access_list(opened, b"shared/file").unwrap().is_some());
}

/// Each run that had nothing to do gave it another one.
#[test]
fn a_folder_into_which_nothing_is_copied_keeps_its_time_though_what_is_staged_is_in_it() {
    for made in [&["apart"][..], &["apart/deep", "apart"]] {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        plant(&from, &[("file", b"1")]);
        let time = || to.metadata().unwrap().modified().unwrap();
        let copy = || {
            copy_by_way_of(&to.join(made[0]), &from, &to);
            made.iter().for_each(|made| crate::remove_opening_up(&to.join(made)).unwrap());
        };
        copy();
        assert!(to.join("file").exists() && !to.join("apart").exists());
        date(&to, 1_200_000_000);
        let before = time();
        copy();
        assert_eq!(time(), before, "{made:?}");
        std::fs::write(from.join("more"), "2").unwrap();
        copy();
        assert!(time() > before, "{made:?}");
    }
}

/// The part of a killed run stayed beside it for ever, as one more name of the user's file.
#[test]
fn nothing_stays_of_another_name_that_a_killed_run_was_making() {
    let keep = Keep { hard_links: true, ..Keep::default() };
    let mut came_to_it = 0;
    for points in 0.. {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        plant(&from, &[("a/first", b"content"), ("b/", b"")]);
        std::fs::hard_link(from.join("a/first"), from.join("b/second")).unwrap();
        plant(&to, &[("b/second", b"of before")]);
        let (rules, filter) = (Rules::default(), Filter::default());
        let stop = |now| {
            if now == Moment::Staged {
                crash_after(Some(points));
            }
        };
        let copied = try_copy(&from.join(""), &to, rules, keep, &filter, (false, None), stop);
        crash_after(None);
        if copied.is_ok() {
            break;
        }
        if staging(&to).join("beside").exists() {
            came_to_it += 1;
            // What a process leaves that is killed between the link and its renaming.
            let part = format!("{}.part", staging(&to).file_name().unwrap().to_str().unwrap());
            std::fs::hard_link(to.join("a/first"), to.join("b").join(part)).unwrap();
        }
        std::fs::remove_file(from.join("b/second")).unwrap();
        copy(&from.join(""), &to, rules, Keep::default(), &filter, false);
        let names: Vec<_> = snapshot(&to).into_keys().collect();
        assert_eq!(names, [&b"a"[..], b"a/first", b"b", b"b/second"], "after {points}");
    }
    assert!(came_to_it > 0);
}

/// Nobody but the receiving user could enter it, then or after another run.
#[test]
fn a_folder_that_is_removed_during_the_copy_comes_back_as_it_was() {
    let both = [Permissions::Basic, Permissions::Exact];
    let moments = [Moment::Decided, Moment::Staged];
    for (moment, permissions) in moments.into_iter().flat_map(|moment| both.map(|both| (moment, both))) {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        plant(&from, &[("s/deep/a", b"a")]);
        plant(&to, &[("s/deep/", b"")]);
        for folder in [from.join("s"), from.join("s/deep"), to.join("s"), to.join("s/deep")] {
            std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        let rules = Rules { permissions, ..Rules::default() };
        let (keep, filter) = (Keep { permissions, ..Keep::default() }, Filter::default());
        let remove = |now| {
            if now == moment {
                std::fs::remove_dir_all(to.join("s")).unwrap();
            }
        };
        let copied = try_copy(&from.join(""), &to, rules, keep, &filter, (false, None), remove).unwrap();
        assert_eq!(copied.shortfalls, Vec::<String>::new(), "{permissions:?}");
        let seen = snapshot(&to);
        assert_eq!((seen[&b"s"[..]].mode, seen[&b"s/deep"[..]].mode), (0o755, 0o755));
        assert_eq!(seen[&b"s/deep/a"[..]].content, Content::File(b"a".to_vec()));
    }
}

/// What comes into a shared folder stays shared: `rsync -rt` does the same.
#[test]
fn a_set_group_id_folder_hands_that_on() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    std::fs::create_dir_all(at("src/a/b")).unwrap();
    std::fs::write(at("src/a/b/file"), "content").unwrap();
    let modes = |to: &str, keep: Keep| {
        std::fs::create_dir(at(to)).unwrap();
        std::fs::set_permissions(at(to), std::fs::Permissions::from_mode(0o2775)).unwrap();
        copy(&at("src"), &at(to), Rules::default(), keep, &Filter::default(), false);
        ["src", "src/a", "src/a/b", "src/a/b/file"]
            .map(|path| at(to).join(path).metadata().unwrap().mode() & 0o7777)
    };
    assert_eq!(modes("shared", Keep::default()), [0o2755, 0o2755, 0o2755, 0o644]);
    let exact = Keep { permissions: Permissions::Exact, ..Keep::default() };
    assert_eq!(modes("exact", exact), [0o755, 0o755, 0o755, 0o644]);
}

#[test]
fn metadata_alone_is_set_where_the_content_stays() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    plant(&from, &[("a", b"same"), ("s/b", b"same")]);
    symlink("x", from.join("link")).unwrap();
    let rules = Rules { permissions: Permissions::Exact, ..Rules::default() };
    copy(&from.join(""), &to, rules, everything(), &Filter::default(), false);
    let inode = |name: &str| to.join(name).symlink_metadata().unwrap().ino();
    let before = (inode("a"), inode("s/b"), inode("link"));
    std::fs::set_permissions(from.join("a"), std::fs::Permissions::from_mode(0o600)).unwrap();
    std::fs::set_permissions(from.join("s"), std::fs::Permissions::from_mode(0o711)).unwrap();
    date(&from.join("link"), 5);
    date(&from.join("s"), 6);
    let copied = copy(&from.join(""), &to, rules, everything(), &Filter::default(), false);
    assert_eq!((copied.written, copied.shortfalls), (vec![], vec![]));
    assert_eq!(whole(&to), whole(&from));
    assert_eq!((inode("a"), inode("s/b"), inode("link")), before, "nothing was written anew");
}

#[test]
fn small_files_of_several_owners_in_one_folder_get_theirs() {
    if !is_root() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    // What is made in this folder gets another group than elsewhere.
    std::fs::create_dir(&to).unwrap();
    lchown(&to, None, Some(4_000)).unwrap();
    std::fs::set_permissions(&to, std::fs::Permissions::from_mode(0o2755)).unwrap();
    let names: Vec<String> = (0..40).map(|number| format!("f{}/{number:02}", number / 30)).collect();
    let files: Vec<_> = names.iter().map(|name| (name.as_str(), &b"x"[..])).collect();
    plant(&from, &files);
    let mut picks = Picks(1);
    for name in &names {
        let (user, group) = (picks.next(2) as u32, [0, 4_000, 4_001][picks.next(3)]);
        lchown(from.join(name), Some(user), Some(group)).unwrap();
    }
    let keep = Keep { owner: true, ..Keep::default() };
    copy(&from.join(""), &to, Rules::default(), keep, &Filter::default(), false);
    for name in &names {
        let owner = |dir: &Path| dir.join(name).metadata().map(|meta| (meta.uid(), meta.gid())).unwrap();
        assert_eq!(owner(&to), owner(&from), "{name}");
    }
}

/// A clock that is ahead is enough. The name that this run gives it looks like an edit, and so does its time.
#[test]
fn a_file_with_a_time_that_is_still_to_come_gets_what_it_lacks_though_it_gets_a_name_too() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    plant(&from, &[("a", b"same")]);
    plant(&to, &[("a", b"same")]);
    std::fs::hard_link(from.join("a"), from.join("b")).unwrap();
    date(&from.join("a"), 5);
    date(&to.join("a"), 32_503_680_000);
    let keep = Keep { hard_links: true, ..Keep::default() };
    let rules = Rules { compare: Compare::Size, ..Rules::default() };
    copy(&from.join(""), &to, rules, keep, &Filter::default(), false);
    for name in [&b"a"[..], b"b"] {
        assert_eq!(snapshot(&to)[name].mtime, snapshot(&from)[name].mtime);
    }
}

/// The next run would have taken it for the sender's.
#[test]
fn a_file_of_several_names_that_was_edited_meanwhile_does_not_get_the_senders_time() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    plant(&from, &[("a", b"same")]);
    plant(&to, &[("a", b"same")]);
    std::fs::hard_link(to.join("a"), to.join("b")).unwrap();
    date(&from.join("a"), 5);
    date(&to.join("a"), 6);
    let rules = Rules { compare: Compare::Size, ..Rules::default() };
    let edit = |moment| {
        if moment == Moment::Staged {
            std::fs::write(to.join("a"), b"mine").unwrap();
        }
    };
    let filter = Filter::default();
    try_copy(&from.join(""), &to, rules, Keep::default(), &filter, (false, None), edit).unwrap();
    assert_ne!(snapshot(&to)[&b"a"[..]].mtime, snapshot(&from)[&b"a"[..]].mtime);
}
