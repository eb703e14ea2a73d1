use super::*;
use crate::Lack;
use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;

use terahaul_core::FailureCause;

#[test]
fn a_folder_keeps_its_name_and_its_contents_do_not() {
    let dir = tempfile::tempdir().unwrap();
    plant(dir.path(), &[("src/b", b"x"), ("src/a/c", b"y"), ("one", b"z")]);
    assert_eq!(Sender::of(dir.path().join("src")).paths(), ["src", "src/b", "src/a", "src/a/c"]);
    assert_eq!(Sender::of(dir.path().join("src/")).paths(), ["b", "a", "a/c"]);
    assert_eq!(Sender::of(dir.path().join("src/.")).paths(), ["b", "a", "a/c"]);
    assert_eq!(Sender::of(dir.path().join("src/a/..")).paths(), ["b", "a", "a/c"]);
    assert_eq!(Sender::of(dir.path().join("one")).paths(), ["one"]);
    let both = [dir.path().join("one"), dir.path().join("src/")];
    let sender = Sender::with(&both, &Filter::default(), 1);
    assert_eq!(sender.paths(), ["one", "b", "a", "a/c"]);
    assert_eq!(sender.read(&sender.shapes()[0], 100).0, b"zxy");
}

#[test]
fn the_order_is_the_same_however_many_threads_walk() {
    let dir = tempfile::tempdir().unwrap();
    for folder in 0..60 {
        for file in 0..30 {
            plant(dir.path(), &[(&format!("t/{}/{}/f{file}", folder % 7, folder), b"")]);
        }
    }
    for file in 0..3000 {
        fs::write(dir.path().join(format!("t/{file}")), "").unwrap_or_default();
    }
    let alone = Sender::with(&[dir.path().join("t")], &Filter::default(), 0).paths();
    assert!(alone.len() > 4700);
    for helpers in 1..4 {
        assert_eq!(Sender::with(&[dir.path().join("t")], &Filter::default(), helpers).paths(), alone);
    }
}

#[test]
fn links_are_recorded_and_not_followed() {
    let dir = tempfile::tempdir().unwrap();
    plant(dir.path(), &[("outside/secret", b"x"), ("t/file", b"y")]);
    symlink("../outside", dir.path().join("t/folder")).unwrap();
    symlink("/etc/passwd", dir.path().join("t/passwd")).unwrap();
    symlink("t", dir.path().join("itself")).unwrap();
    assert_eq!(Sender::of(dir.path().join("t")).paths(), ["t", "t/file", "t/folder", "t/passwd"]);
    assert_eq!(Sender::of(dir.path().join("itself")).paths(), ["itself"]);
    assert_eq!(Sender::of(dir.path().join("itself/")).paths(), ["file", "folder", "passwd"]);
}

#[test]
fn what_cannot_be_sent_is_named_and_the_rest_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    plant(dir.path(), &[("t/a", b"x"), ("t/z", b"x")]);
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mkfifoat(rustix::fs::CWD, dir.path().join("t/fifo"), mode).unwrap();
    let _socket = UnixListener::bind(dir.path().join("t/socket")).unwrap();
    // Only root may make one; the device of memory's zeros stands in for those that must not be read.
    let made = rustix::fs::mknodat(
        rustix::fs::CWD,
        dir.path().join("t/device"),
        rustix::fs::FileType::CharacterDevice,
        mode,
        rustix::fs::makedev(1, 5),
    );
    let sender = Sender::of(dir.path().join("t"));
    assert_eq!(sender.paths(), ["t", "t/a", "t/z"]);
    assert_eq!(sender.skipped.len(), if made.is_ok() { 3 } else { 2 });
    assert!(sender.skipped.iter().all(|skipped| skipped.cause == FailureCause::Unsupported));
    assert!(sender.skipped.iter().all(|skipped| skipped.lack != Lack::Unknown));
    let fifo = sender.skipped.iter().find(|skipped| skipped.path == dir.path().join("t/fifo")).unwrap();
    assert_eq!(fifo.entry, Some(EntryPath::new(&b"t/fifo"[..]).unwrap()));
}

#[test]
fn globs_choose_and_folders_without_chosen_files_stay_out() {
    let dir = tempfile::tempdir().unwrap();
    plant(
        dir.path(),
        &[("t/a/x.txt", b""), ("t/a/x.o", b""), ("t/b/c/y.o", b""), ("t/d/", b""), ("t/z.txt", b"")],
    );
    let with = |include: &[&str], exclude: &[&str]| {
        Sender::with(&[dir.path().join("t")], &Filter::new(include, exclude).unwrap(), 2).paths()
    };
    assert_eq!(with(&["*.txt"], &[]), ["t", "t/z.txt", "t/a", "t/a/x.txt"]);
    assert_eq!(with(&["*.o"], &["b/"]), ["t", "t/a", "t/a/x.o"]);
    assert_eq!(with(&[], &["*.o"]), ["t", "t/z.txt", "t/a", "t/a/x.txt", "t/b", "t/b/c", "t/d"]);
    assert_eq!(with(&["/t/b/c/"], &[]), ["t", "t/b", "t/b/c", "t/b/c/y.o"]);
}

#[test]
fn a_walk_can_be_stopped() {
    let dir = tempfile::tempdir().unwrap();
    for file in 0..5000 {
        fs::write(dir.path().join(file.to_string()), "").unwrap();
    }
    let roots = Roots::open(&[dir.path().join("")]).unwrap();
    let mut batches = 0;
    let whole = walk(&roots, &Filter::default(), 2, |_| {
        batches += 1;
        ControlFlow::Break(())
    });
    assert!(!whole);
    assert_eq!(batches, 1);
}

#[test]
fn what_another_transfer_has_not_completed_is_named_once_and_not_sent() {
    let dir = tempfile::tempdir().unwrap();
    let staging = format!("t/d/.terahaul-{}", transfer());
    for at in 0..50 {
        plant(dir.path(), &[("t/a", b"x"), (&format!("{staging}/tree/{at}"), b"x")]);
    }
    let sender = Sender::of(dir.path().join("t"));
    assert_eq!(sender.paths(), ["t", "t/a", "t/d"]);
    let [skipped] = sender.skipped.as_slice() else { panic!("{:?}", sender.skipped) };
    assert_eq!((&skipped.path, skipped.lack), (&dir.path().join(staging), Lack::Nothing));
    let leaving_out = Filter::new(&[], &[".terahaul-*"]).unwrap();
    assert!(Sender::with(&[dir.path().join("t")], &leaving_out, 1).skipped.is_empty());
}

/// Were the list looked through for every thousand names of it, this would take minutes.
#[test]
fn a_list_may_name_very_many_things_in_one_folder() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("7"), "").unwrap();
    let names = 0..1_000_000;
    let filter =
        Filter::default().with_list(names.map(|name| name.to_string().into_bytes().into()).collect(), false);
    let begun = std::time::Instant::now();
    let sender = Sender::with(&[dir.path().join("")], &filter, 0);
    assert_eq!((sender.paths().len(), sender.skipped.len()), (1, 999_999));
    assert!(begun.elapsed().as_secs() < 60, "{:?}", begun.elapsed());
}

/// They were sent as the empty files that they say they are, and nobody was told.
#[cfg(target_os = "linux")]
#[test]
fn what_says_that_it_is_empty_and_is_not_is_named_and_not_sent() {
    let sender = Sender::of("/proc/self/status");
    assert_eq!(sender.paths(), [""; 0]);
    let [skipped] = sender.skipped.as_slice() else { panic!("{:?}", sender.skipped) };
    assert_eq!((skipped.cause, skipped.lack), (FailureCause::Unsupported, Lack::Itself));
    assert!(skipped.message().contains("has content") && skipped.message().contains("cat"), "{skipped:?}");
    assert_eq!(skipped.entry, Some(EntryPath::new(&b"status"[..]).unwrap()));
    // In a folder, too, of which the rest is sent.
    let only = Filter::new(&["cpuinfo", "self"], &["/proc/[0-9]*", "/proc/*/"]).unwrap();
    let sender = Sender::with(&["/proc"], &only, 2);
    assert_eq!((sender.paths(), sender.skipped.len()), (vec!["proc".into(), "proc/self".into()], 1));
}

#[cfg(target_os = "linux")]
#[test]
fn what_is_empty_is_sent_on_any_file_system() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("empty"), "").unwrap();
    // A thread of the kernel's has no command line; this process has one.
    let none = ["/proc/2/cmdline", "/proc/2/environ"];
    let none = none.into_iter().find(|path| fs::read(path).is_ok_and(|read| read.is_empty()));
    for path in [dir.path().join("empty")].into_iter().chain(none.map(PathBuf::from)) {
        let sender = Sender::of(&path);
        assert_eq!((sender.entries().len(), &sender.skipped[..]), (1, &[][..]), "{}", path.display());
    }
}
