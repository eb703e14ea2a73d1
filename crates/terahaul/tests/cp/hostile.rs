//! Hosts that are not what they should be.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use std::sync::atomic::{AtomicBool, Ordering};

use terahaul_copy::greeting::{Answer, Reason, Refusal};
use terahaul_copy::top::Top;
use terahaul_core::{BlockNumber, BlockRun, ByteCount, Entry, EntryIndex, EntryKind, EntryPath, Mtime};
use terahaul_net::server::Appended;
use terahaul_wire::{Batch, Cause, Failed};

use crate::false_far::{FalseFar, Script, answering, painted};
use crate::rig::{Ran, spawn, wait_for, write_tree};
use crate::sshd::{Sshd, staging_folders};

/// The other host runs the real far side, but of another request than ours: it sends what was not asked for.
#[test]
fn a_host_that_sends_what_was_not_asked_for_is_refused() {
    let ssh = Sshd::start();
    fs::create_dir(ssh.path("evil")).unwrap();
    fs::write(ssh.path("evil/.ssh"), "mine").unwrap();
    fs::write(ssh.path("asked"), "for").unwrap();
    // The request names the file 'asked'; what comes back is a folder's content.
    let program = env!("CARGO_BIN_EXE_terahaul");
    let rewrite = "$| = 1; while (sysread STDIN, $b, 65536) { $b =~ s,/asked,/evil/,; syswrite STDOUT, $b }";
    let far_command = ssh.script("script", &format!("perl -e '{rewrite}' | {program} far"));
    fs::create_dir(ssh.path("here")).unwrap();
    let ran = Ran::of(ssh.bare(&["--far-command", &far_command, &ssh.far("asked"), "here"]));
    assert_ne!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
    assert!(!ssh.path("here/.ssh").exists(), "{}", ran.stderr);
}

#[test]
fn nothing_is_written_through_a_link_that_lies_at_the_destination() {
    let ssh = Sshd::start();
    fs::create_dir_all(ssh.path("src/folder")).unwrap();
    fs::write(ssh.path("src/folder/file"), "new").unwrap();
    fs::create_dir_all(ssh.path("elsewhere")).unwrap();
    fs::create_dir_all(ssh.path("there/src")).unwrap();
    symlink(ssh.path("elsewhere"), ssh.path("there/src/folder")).unwrap();
    let ran = ssh.run(&["src", &ssh.far("there")]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(fs::read_dir(ssh.path("elsewhere")).unwrap().count(), 0);
    assert!(
        ssh.path("there/src/folder").symlink_metadata().unwrap().is_dir(),
        "the folder has replaced the link"
    );
}

fn run_against(ssh: &Sshd, far_command: &str, args: &[&str]) -> Ran {
    let mut child = spawn(ssh.bare(&[&["--far-command", far_command], args].concat()));
    // None of it may keep this side waiting.
    wait_for(&mut child);
    Ran::of_child(child)
}

fn assert_unpainted(ran: &Ran) {
    let is_harmless = |text: &str| text.chars().all(|c| c == '\n' || !c.is_control());
    assert!(is_harmless(&ran.stdout) && is_harmless(&ran.stderr), "{ran:?}");
}

/// What a host says of a batch.
type Lie = fn(&Batch) -> Appended;

/// There is no message by which a receiver could ask for a path. It can only lie about what was offered.
#[test]
fn a_receiving_host_that_speaks_of_what_was_not_offered_ends_the_copy() {
    let lies: [(&str, Lie); 5] = [
        ("accepts more", |batch| Appended { end: EntryIndex(batch.end().0 + 1), ..Appended::default() }),
        ("declines", |batch| Appended {
            end: batch.end(),
            declined: vec![batch.end()],
            ..Appended::default()
        }),
        ("declines the last", |batch| Appended {
            end: batch.end(),
            declined: vec![EntryIndex(u32::MAX)],
            ..Appended::default()
        }),
        ("fails", |batch| Appended {
            end: batch.end(),
            failed: vec![Failed { entry: batch.end().0, cause: Cause::Changed, detail: String::new() }],
            ..Appended::default()
        }),
        ("has blocks", |batch| Appended {
            end: batch.end(),
            durable: vec![BlockRun { first: BlockNumber(u32::MAX), count: 1 }],
            ..Appended::default()
        }),
    ];
    let lies = lies.map(|(what, lie)| (what, Script { appended: Some(lie), ..Script::default() }));
    let holds = ("holds", Script { holds: vec![EntryIndex(u32::MAX)], ..Script::default() });
    let ssh = Sshd::start();
    write_tree(&ssh.path("src"));
    for (what, script) in lies.into_iter().chain([holds]) {
        let far = FalseFar::start(&ssh, script);
        let ran = run_against(&ssh, &far.command, &["src", "far:there"]);
        assert!(![0, -1, 101].contains(&ran.code), "{what}: {ran:?}");
        assert!(!ran.stderr.contains("panicked"), "{what}: {ran:?}");
        let named = match what {
            "has blocks" => "it named blocks that the manifest does not have",
            _ => "it answered for entries that it was not offered",
        };
        assert!(ran.stderr.contains(&format!("broke the protocol: {named}")), "{what}: {ran:?}");
    }
}

#[test]
fn notes_and_last_words_that_cannot_be_read_are_no_success() {
    let ssh = Sshd::start();
    write_tree(&ssh.path("src"));
    for last_word in [&b""[..], b"{}", b"\xff\x00", b"{\"landed\":1}", &[b'['; 100_000]] {
        let notes = vec![
            vec![0xff; 40],
            Vec::new(),
            vec![0x82, 0, 0x81, 0x83, 0x1a, 0xff, 0xff, 0xff, 0xff, 0xf5, 0],
        ];
        let script = Script { last_word: last_word.into(), notes, ..Script::default() };
        let far = FalseFar::start(&ssh, script);
        let ran = run_against(&ssh, &far.command, &["-v", "src", "far:there"]);
        assert!(![0, -1, 101].contains(&ran.code), "{ran:?}");
        assert!(ran.stderr.contains("last word"), "{ran:?}");
    }
}

#[test]
fn words_of_another_host_do_not_paint_the_terminal() {
    let ssh = Sshd::start();
    write_tree(&ssh.path("src"));
    let far = FalseFar::start(&ssh, Script { refuses: Some(painted()), ..Script::default() });
    assert_unpainted(&run_against(&ssh, &far.command, &["src", "far:there"]));
    let message = painted().message;
    for reason in [Reason::Failed, Reason::Version, Reason::NotFound] {
        let refusal = Answer::Refused(Refusal { reason, message: message.clone() });
        let ran = run_against(&ssh, &answering(&ssh, &refusal), &["src", "far:there"]);
        assert!(ran.code > 0 && ran.stderr.contains("all is well"), "{ran:?}");
        assert_unpainted(&ran);
    }
    let failed = serde_json::json!([[message.as_bytes(), "refused", message]]);
    let last_word = serde_json::json!({ "landed": nothing_landed(), "failed": failed, "walk_errors": 0 });
    let script = Script { last_word: last_word.to_string().into_bytes(), ..Script::default() };
    let far = FalseFar::start(&ssh, script);
    let ran = run_against(&ssh, &far.command, &["src", "far:there"]);
    assert_eq!(ran.code, 7, "{ran:?}");
    assert_unpainted(&ran);
}

fn nothing_landed() -> serde_json::Value {
    serde_json::json!({
        "files": 0, "folders": 0, "links": 0, "bytes": 0, "unchanged": 0, "touched": 0, "removed": 0,
        "limited": false, "resumed": false
    })
}

fn entry(path: &str, kind: EntryKind) -> Entry {
    let path = EntryPath::new(path.as_bytes()).unwrap();
    Entry { path, kind, mtime: Mtime::default(), mode: 0o644, extra: None }
}

fn file(path: &str) -> Entry {
    entry(path, EntryKind::File { size: ByteCount(4) })
}

/// What a sending host could do to reach beyond the destination, or beside what was asked for.
#[test]
fn a_sending_host_reaches_nothing_but_what_was_asked_for() {
    let ssh = Sshd::start();
    let outside = ssh.path("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("secret"), "mine").unwrap();
    let link = |path: &str| {
        entry(path, EntryKind::Symlink { target: outside.display().to_string().into_bytes().into() })
    };
    let folder = |path: &str| entry(path, EntryKind::Directory);
    let cases: [(&str, Vec<Vec<Entry>>); 7] = [
        ("beside", vec![vec![folder("asked"), file("asked/a"), file(".bashrc")]]),
        ("a folder beside", vec![vec![folder("asked")], vec![folder(".ssh"), file(".ssh/authorized_keys")]]),
        ("through a link", vec![vec![link("asked"), file("asked/secret")]]),
        ("through a link, later", vec![vec![folder("asked"), link("asked/x")], vec![file("asked/x/secret")]]),
        (
            "a link in a folder's place",
            vec![vec![folder("asked"), folder("asked/x"), link("asked/x"), file("asked/x/secret")]],
        ),
        ("a folder in a link's place", vec![vec![link("asked"), folder("asked"), file("asked/secret")]]),
        ("a file as a folder", vec![vec![file("asked"), file("asked/secret")]]),
    ];
    for there_already in [false, true] {
        for (what, batches) in &cases {
            let _ = fs::remove_dir_all(ssh.path("here"));
            fs::create_dir(ssh.path("here")).unwrap();
            if there_already {
                symlink(&outside, ssh.path("here/asked")).unwrap();
            }
            let mut first = EntryIndex(0);
            let mut manifest = Vec::new();
            for entries in batches {
                let batch = Batch { first, entries: entries.clone(), seal: false };
                first = batch.end();
                manifest.push(batch);
            }
            manifest.push(Batch { first, entries: Vec::new(), seal: true });
            let far = FalseFar::start(&ssh, Script { manifest, ..Script::default() });
            let ran = run_against(&ssh, &far.command, &["-a", "--force", "far:asked", "here"]);
            assert!(![0, -1, 101].contains(&ran.code), "{what}: {ran:?}");
            assert_eq!(fs::read_to_string(outside.join("secret")).unwrap(), "mine", "{what}: {ran:?}");
            assert_eq!(fs::read_dir(&outside).unwrap().count(), 1, "{what}: {ran:?}");
            let names = fs::read_dir(ssh.path("here")).unwrap().map(|found| found.unwrap().file_name());
            let beside = names.filter(|name| name != "asked").count() - staging_folders(&ssh.path("here"));
            assert_eq!(beside, 0, "{what}: {ran:?}");
        }
    }
}

/// It says that what was asked for as a folder's content is a file, which would have a new name in the folder above the destination.
#[test]
fn a_sending_host_changes_nothing_of_the_folder_that_the_destination_is_in() {
    let ssh = Sshd::start();
    let above = ssh.path("above");
    fs::create_dir(&above).unwrap();
    fs::set_permissions(&above, fs::Permissions::from_mode(0o750)).unwrap();
    let top = Top { mode: 0o777, seconds: 1_000, nanos: 0, owner: None, xattrs: Vec::new() };
    let manifest = vec![Batch { first: EntryIndex(0), entries: Vec::new(), seal: true }];
    let last_word = serde_json::json!({ "landed": nothing_landed(), "failed": [], "walk_errors": 0 });
    let last_word = last_word.to_string().into_bytes();
    let script = Script { only_file: true, top: Some(top), manifest, last_word, ..Script::default() };
    let far = FalseFar::start(&ssh, script);
    let ran = run_against(&ssh, &far.command, &["-a", "far:src/", "above/new"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let found = fs::metadata(&above).unwrap();
    assert_eq!(found.mode() & 0o7777, 0o750, "{ran:?}");
    assert_ne!(found.mtime(), 1_000, "{ran:?}");
}

/// Its end would be behind the last number that there is.
#[test]
fn a_sending_host_whose_manifest_begins_where_none_reaches_ends_the_copy() {
    let ssh = Sshd::start();
    fs::create_dir(ssh.path("here")).unwrap();
    for seal in [false, true] {
        let entries = vec![file("asked"), file("asked-too")];
        let manifest = vec![Batch { first: EntryIndex(u32::MAX), entries, seal }];
        let far = FalseFar::start(&ssh, Script { manifest, ..Script::default() });
        let ran = run_against(&ssh, &far.command, &["far:asked", "here"]);
        assert!(ran.stderr.contains("broke the protocol: its manifest has a gap"), "{ran:?}");
    }
}

/// Its file got its name, with zeros in it: what had failed was forgotten by the time that it was offered.
#[test]
fn a_sending_host_that_speaks_of_what_it_has_not_offered_ends_the_copy() {
    let ssh = Sshd::start();
    fs::create_dir(ssh.path("here")).unwrap();
    let manifest = vec![Batch { first: EntryIndex(0), entries: vec![file("asked")], seal: true }];
    let failed = vec![Failed { entry: 0, cause: Cause::Unreadable, detail: String::new() }];
    let far = FalseFar::start(&ssh, Script { manifest, failed, ..Script::default() });
    let ran = run_against(&ssh, &far.command, &["far:asked", "here"]);
    let named = "broke the protocol: it says that something has failed which it has not offered";
    assert!(ran.stderr.contains(named), "{ran:?}");
    assert!(!ssh.path("here/asked").exists(), "{ran:?}");
}

/// The receiver says by declining that it has the same: of what lies behind a link it must not say that.
#[test]
fn contents_are_not_compared_through_links() {
    let ssh = Sshd::start();
    fs::create_dir_all(ssh.path("src/folder")).unwrap();
    fs::create_dir_all(ssh.path("there/src")).unwrap();
    fs::create_dir(ssh.path("outside")).unwrap();
    for file in ["src/guess", "src/folder/guess", "outside/guess"] {
        fs::write(ssh.path(file), "the secret").unwrap();
    }
    let done = |flags: &[&str]| {
        let _ = fs::remove_dir_all(ssh.path("there/src"));
        fs::create_dir(ssh.path("there/src")).unwrap();
        symlink(ssh.path("outside/guess"), ssh.path("there/src/guess")).unwrap();
        symlink(ssh.path("outside"), ssh.path("there/src/folder")).unwrap();
        ssh.copy(&[flags, &["src", &ssh.far("there")]].concat())
    };
    for flags in [&["--checksum"][..], &["--size-only"], &[]] {
        let done = done(flags);
        assert_eq!((&done["files"], &done["unchanged"]), (&2.into(), &0.into()), "{flags:?}: {done}");
        assert_eq!(fs::read_to_string(ssh.path("outside/guess")).unwrap(), "the secret");
    }
}

/// Says that something has ended, also where a failed assertion ends it.
struct SaysWhenItEnds<'a>(&'a AtomicBool);

impl Drop for SaysWhenItEnds<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Swaps a folder and a link to another for as long as `work` lasts.
fn while_swapped(folder: &std::path::Path, link_to: &std::path::Path, mut work: impl FnMut()) {
    let (aside, link) = (folder.with_extension("aside"), folder.with_extension("link"));
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _working = SaysWhenItEnds(&ended);
        scope.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                let _ = symlink(link_to, &link);
                if fs::rename(folder, &aside).is_ok() {
                    let _ = fs::rename(&link, folder);
                    let _ = fs::remove_file(folder);
                    let _ = fs::rename(&aside, folder);
                }
            }
        });
        work();
    });
}

/// Whoever can write to the source shows nobody what is beside it.
#[test]
fn a_folder_that_becomes_a_link_while_it_is_read_shows_nothing_from_elsewhere() {
    let ssh = Sshd::start();
    for number in 0..40 {
        crate::rig::write_random(&ssh.path(&format!("src/folder/{number}")), 10, number);
        crate::rig::write_random(&ssh.path(&format!("outside/{number}")), 3000, number);
    }
    while_swapped(&ssh.path("src/folder"), &ssh.path("outside"), || {
        for round in 0..12 {
            let to = ssh.path(&format!("there{round}"));
            let ran = ssh.run(&["--exclude=*.link", "--exclude=*.aside", "src/", &to.display().to_string()]);
            assert!([0, 7, 24].contains(&ran.code), "{ran:?}");
            // What was a link when it was looked at is copied as one.
            if to.join("folder").is_symlink() {
                continue;
            }
            let found = fs::read_dir(to.join("folder")).into_iter().flatten();
            for entry in found.map(Result::unwrap) {
                assert_eq!(entry.metadata().unwrap().len(), 10, "{:?}", entry.path());
            }
        }
    });
}

/// Whoever can write to the destination has nothing placed or removed elsewhere.
#[test]
fn a_folder_that_becomes_a_link_while_it_is_written_to_changes_nothing_elsewhere() {
    let ssh = Sshd::start();
    for number in 0..40 {
        crate::rig::write_random(&ssh.path(&format!("src/folder/{number}")), 3000, number);
        crate::rig::write_random(&ssh.path(&format!("outside/{number}")), 10, number);
    }
    crate::rig::write_random(&ssh.path("outside/only-here"), 10, 1);
    fs::create_dir_all(ssh.path("there/folder")).unwrap();
    let before = crate::rig::describe(&ssh.path("outside"));
    while_swapped(&ssh.path("there/folder"), &ssh.path("outside"), || {
        for round in 0..12 {
            for number in 0..40 {
                crate::rig::write_random(&ssh.path(&format!("src/folder/{number}")), 3000 + round, number);
            }
            // How it ends depends on who was faster.
            let ran = ssh.run(&["-a", "--delete", "src/", &ssh.far("there")]);
            assert!(ran.code >= 0 && !ran.stderr.contains("panicked"), "{ran:?}");
        }
    });
    assert_eq!(crate::rig::describe(&ssh.path("outside")), before);
}

#[test]
fn a_host_that_is_a_flag_reaches_no_ssh() {
    let ssh = Sshd::start();
    let trap = ssh.path("trapped");
    let flag = format!("-oProxyCommand=touch${{IFS}}{}", trap.display());
    for operand in
        [format!("{flag}:x"), format!("ssh://{flag}/x"), format!("{flag}@far:x"), format!("far@{flag}:x")]
    {
        let ran = Ran::of(ssh.bare(&["--", &operand, "here"]));
        assert!(ran.code > 0, "{operand}: {ran:?}");
        assert!(!trap.exists(), "{operand}");
    }
}
