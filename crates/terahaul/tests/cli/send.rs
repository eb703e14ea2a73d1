use std::fs::{Permissions, set_permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Child;

use rustix::process::{Pid, Signal};

use crate::rig::{Depot, Ran, assert_same, spawn, terahaul_through, write_random, write_tree};

#[test]
fn a_tree_arrives_as_it_was_sent() {
    let depot = Depot::start();
    write_tree(&depot.path("src"));
    let link = depot.send(&["src"]);
    let ran = depot.run(&["receive", &link, "dst"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_same(&depot.path("src"), &depot.path("dst/src"));
}

#[test]
fn the_link_is_the_last_line_and_the_only_one_when_quiet() {
    let depot = Depot::start();
    write_tree(&depot.path("src"));
    let ran = depot.run(&["send", "src", "--quiet"]);
    assert_eq!(ran.stdout.lines().count(), 1);
    assert!(ran.last_line().starts_with("https://") && ran.last_line().contains("#thl_"));
    assert_eq!(ran.stderr, "");
}

#[test]
fn a_folder_with_a_slash_stands_for_what_is_in_it() {
    let depot = Depot::start();
    write_tree(&depot.path("src"));
    let link = depot.send(&["src/"]);
    assert_eq!(depot.run(&["receive", &link, "dst"]).code, 0);
    assert_same(&depot.path("src"), &depot.path("dst"));
}

#[test]
fn only_what_the_globs_leave_is_sent() {
    let depot = Depot::start();
    write_tree(&depot.path("src"));
    let link = depot.send(&["src", "--include", "sub/", "--exclude", "4?.bin"]);
    assert_eq!(depot.run(&["receive", &link, "dst"]).code, 0);
    assert!(depot.path("dst/src/sub/many/9.bin").exists() && depot.path("dst/src/sub/exact.bin").exists());
    assert!(!depot.path("dst/src/large.bin").exists() && !depot.path("dst/src/sub/many/41.bin").exists());
}

/// A glob that was mistyped made a transfer of nothing, and called it sent.
#[test]
fn globs_that_leave_nothing_are_refused_before_there_is_a_transfer() {
    let depot = Depot::start();
    write_tree(&depot.path("src"));
    for globs in [&["src", "--include", "nothing*"][..], &["src/", "--exclude", "*"]] {
        for more in [&[][..], &["--dry-run"]] {
            let ran = depot.run(&[&["send"], globs, more].concat());
            assert_eq!(ran.code, 2, "{globs:?} {more:?}: {}", ran.stdout);
            let named = format!("{} '{}'", globs[1], globs[2]);
            assert!(ran.stderr.contains(&named), "{named} in {}", ran.stderr);
        }
    }
    assert!(!depot.run(&["list", "--json"]).stdout.contains("\"id\""), "no transfer was made");
    std::fs::create_dir(depot.path("empty")).unwrap();
    for empty in [&["empty/"][..], &["empty/", "--exclude", "*.tmp"], &["empty", "--exclude", "*.tmp"]] {
        let link = depot.send(empty);
        assert_eq!(depot.run(&["receive", &link, "dst"]).code, 0, "{empty:?}");
    }
}

/// What was sent may be removed here before the same command is run again.
#[test]
fn globs_that_leave_nothing_any_more_go_on_with_what_was_begun() {
    let depot = Depot::start();
    write_random(&depot.path("src/a.bin"), 32 << 20, 1);
    let command = ["send", "src/", "--include", "*.bin"];
    let mut sender = spawn(depot.command(&[&command[..], &["--limit", "6MB"]].concat()));
    depot.wait_for_durable(8 << 20);
    sender.kill().unwrap();
    sender.wait().unwrap();
    std::fs::rename(depot.path("src/a.bin"), depot.path("src/other")).unwrap();
    for more in [&[][..], &["--dry-run"]] {
        let ran = depot.run(&[&command[..], more].concat());
        assert_ne!(ran.code, 2, "{}", ran.stderr);
        assert!(!ran.stderr.contains("--include"), "{}", ran.stderr);
    }
}

#[test]
fn what_is_compressed_on_the_way_arrives_as_it_was_and_is_proven() {
    let depot = Depot::start();
    let text = "one of many lines that are alike\n".repeat(200_000);
    std::fs::write(depot.path("log.txt"), &text).unwrap();
    let moved = |args: &[&str]| {
        let ran = depot.run(&[args, &["--json"]].concat());
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        let done = ran.event("done");
        assert_eq!(done["files_compared"], 1);
        (done["moved_bytes"].as_u64().unwrap(), done["link"].as_str().unwrap_or_default().to_owned())
    };
    let (sent, link) = moved(&["send", "-z", "yes", "log.txt"]);
    assert!(sent < text.len() as u64 / 4, "{sent}");
    let (received, _) = moved(&["receive", "-z1", &link, "packed"]);
    assert!(received < text.len() as u64 / 4, "{received}");
    let (received, _) = moved(&["receive", "-z", "no", &link, "plain"]);
    assert_eq!(received, text.len() as u64);
    for folder in ["packed", "plain"] {
        assert!(std::fs::read(depot.path(folder).join("log.txt")).unwrap() == text.as_bytes());
    }
}

#[test]
fn a_dry_run_sends_nothing_and_lists_everything() {
    let depot = Depot::start();
    write_tree(&depot.path("src"));
    let ran = depot.run(&["send", "src", "--dry-run", "--json"]);
    assert_eq!(ran.code, 0);
    let entries = ran.events_named("entry");
    assert_eq!(entries.len(), 1 + 50 + 8);
    assert!(entries.iter().all(|entry| entry["present"] == false));
    assert_eq!(ran.event("done")["present_bytes"], 0);
    assert!(depot.run(&["list", "--json"]).events_named("transfer").is_empty());
    let mut without = crate::rig::terahaul(depot.home.path());
    without.args(["send", "src", "--dry-run"]);
    let ran = crate::rig::Ran::of(without);
    assert_eq!(ran.code, 0, "a dry run needs no depot: {}", ran.stderr);
}

#[test]
fn of_two_sends_of_the_same_files_the_later_one_goes_on_and_the_earlier_one_says_so() {
    for transport in ["tcp", "udp"] {
        let depot = Depot::start();
        write_random(&depot.path("src/a.bin"), 60_000_000, 1);
        let send = ["send", "src", "--json", "--transport", transport];
        let mut slow = depot.command(&send);
        slow.args(["--limit", "5MB"]);
        let earlier = spawn(slow);
        depot.wait_for_durable(4_000_000);
        let later = depot.run(&send);
        assert_eq!(later.code, 0, "{}{}", later.stdout, later.stderr);
        let earlier = crate::rig::Ran::of_child(earlier);
        assert_ne!(earlier.code, 0, "{}", earlier.stdout);
        assert!(earlier.stdout.contains("has taken this transfer over"), "{}", earlier.stdout);
        let transfer = depot.only_transfer();
        assert_eq!((&transfer["state"], &transfer["bytes"]), (&"complete".into(), &60_000_000.into()));
    }
}

/// A sender of `src` that is stopped when something is durable, and loses its connection.
fn begun_and_cut_off(depot: &mut Depot) -> Child {
    let sender = spawn(depot.command(&["send", "src", "--json", "--limit", "2MB"]));
    depot.wait_for_durable(4 << 20);
    signal(&sender, Signal::STOP);
    depot.crash_and_restart();
    sender
}

/// It was told that the other end broke the protocol, and which program to upgrade.
#[test]
fn an_earlier_send_that_was_away_while_a_later_one_went_on_says_so() {
    let mut depot = Depot::start();
    write_random(&depot.path("src/a.bin"), 20_000_000, 1);
    let earlier = begun_and_cut_off(&mut depot);
    write_random(&depot.path("src/b.bin"), 1_000, 2);
    let later = depot.run(&["send", "src"]);
    assert_eq!(later.code, 0, "{}", later.stderr);
    signal(&earlier, Signal::CONT);
    let earlier = crate::rig::Ran::of_child(earlier);
    assert_ne!(earlier.code, 0, "{}", earlier.stdout);
    assert!(earlier.stdout.contains("has taken this transfer over"), "{}", earlier.stdout);
    assert_eq!(depot.only_transfer()["bytes"], 20_001_000);
}

/// Both were ended: the later one, as the earlier one came back, and that one, as it found what the later one had added.
#[test]
fn a_later_send_that_is_under_way_is_not_ended_by_an_earlier_one_that_comes_back() {
    let mut depot = Depot::start();
    write_random(&depot.path("src/a.bin"), 24_000_000, 1);
    let earlier = begun_and_cut_off(&mut depot);
    write_random(&depot.path("src/b.bin"), 1_000, 2);
    let later = spawn(depot.command(&["send", "src", "--json", "--limit", "4MB"]));
    depot.wait_for_durable(12 << 20);
    signal(&earlier, Signal::CONT);
    let [earlier, later] = [earlier, later].map(crate::rig::Ran::of_child);
    assert!(earlier.stdout.contains("has taken this transfer over"), "{}", earlier.stdout);
    assert_eq!(later.code, 0, "{}", later.stdout);
    assert_eq!(depot.only_transfer()["state"], "complete");
}

/// It said that the depot had signed something else than was sent, and that the link was not to be used.
#[test]
fn an_earlier_send_names_what_failed_in_a_later_one_while_it_was_away() {
    let mut depot = Depot::start();
    write_random(&depot.path("src/a.bin"), 20_000_000, 1);
    write_random(&depot.path("src/z.bin"), 1_000, 2);
    let earlier = begun_and_cut_off(&mut depot);
    // It would be an entry of its own otherwise.
    let folder = std::fs::File::open(depot.path("src")).unwrap();
    let modified = folder.metadata().unwrap().modified().unwrap();
    std::fs::remove_file(depot.path("src/z.bin")).unwrap();
    folder.set_modified(modified).unwrap();
    let later = depot.run(&["send", "src"]);
    signal(&earlier, Signal::CONT);
    let earlier = crate::rig::Ran::of_child(earlier);
    assert_eq!(earlier.code, later.code, "{}", earlier.stdout);
    assert!(earlier.stdout.contains("z.bin"), "{}", earlier.stdout);
}

fn signal(process: &Child, signal: Signal) {
    rustix::process::kill_process(Pid::from_child(process), signal).unwrap();
}

#[test]
fn a_killed_sender_resumes_and_sends_only_what_is_not_there() {
    let depot = Depot::start();
    write_random(&depot.path("src/a.bin"), 64 << 20, 1);
    write_tree(&depot.path("src/tree"));
    let mut sender = spawn(depot.command(&["send", "src", "--limit", "6MB"]));
    depot.wait_for_durable(8 << 20);
    sender.kill().unwrap();
    sender.wait().unwrap();
    let dry = depot.run(&["send", "src", "--dry-run", "--json"]).event("done");
    let total = dry["bytes"].as_u64().unwrap();
    let foretold = dry["present_bytes"].as_u64().unwrap();
    assert!(
        (8 << 20..total).contains(&foretold),
        "{foretold}: a part of a file that is there need not go again"
    );
    let durable = depot.only_transfer()["durable_bytes"].as_u64().unwrap();
    // Where it tries to compress what cannot be, a block is a few bytes longer.
    let ran = depot.run(&["send", "src", "--json", "--compress", "no"]);
    assert_eq!(ran.code, 0, "{}", ran.stdout);
    assert_eq!(ran.event("start")["resumed"], true);
    let moved = ran.event("done")["moved_bytes"].as_u64().unwrap();
    assert!(moved <= total - durable, "{moved} bytes were sent, {durable} of {total} were durable");
    assert_eq!(depot.only_transfer()["state"], "complete");
    let link = ran.event("done")["link"].as_str().unwrap().to_owned();
    assert_eq!(depot.run(&["receive", &link, "dst"]).code, 0);
    assert_same(&depot.path("src"), &depot.path("dst/src"));
}

/// The depot would have signed a file that never was: the first blocks of the one, the last of the other.
#[test]
fn a_file_that_another_of_its_size_and_time_has_replaced_since_the_interruption_is_sent_anew() {
    for is_replaced in [true, false] {
        let depot = Depot::start();
        let (file, new) = (depot.path("src/a.bin"), depot.path("new"));
        write_random(&file, 64 << 20, 1);
        let mut sender = spawn(depot.command(&["send", "src", "--limit", "6MB"]));
        depot.wait_for_durable(8 << 20);
        sender.kill().unwrap();
        sender.wait().unwrap();
        let at = file.metadata().unwrap().modified().unwrap();
        if is_replaced {
            write_random(&new, 64 << 20, 2);
        } else {
            std::fs::copy(&file, &new).unwrap();
        }
        std::fs::File::options().append(true).open(&new).unwrap().set_modified(at).unwrap();
        std::fs::rename(&new, &file).unwrap();
        let durable = depot.only_transfer()["durable_bytes"].as_u64().unwrap();
        let ran = depot.run(&["send", "src", "--json", "--compress", "no"]);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        assert!(ran.stdout.contains("comparing what the depot has of 1 file"), "{}", ran.stdout);
        let sent_anew = ran.stdout.contains("src/a.bin changed since the interrupted run");
        assert_eq!(sent_anew, is_replaced, "{}", ran.stdout);
        // Nothing of what is not to be the file goes on being sent while it is compared.
        let moved = ran.event("done")["moved_bytes"].as_u64().unwrap();
        assert!(
            moved <= (64 << 20) - if is_replaced { 0 } else { durable },
            "{moved} bytes, {durable} were there"
        );
        let link = ran.event("done")["link"].as_str().unwrap().to_owned();
        assert_eq!(depot.run(&["receive", &link, "dst"]).code, 0);
        assert_same(&depot.path("src"), &depot.path("dst/src"));
    }
}

#[test]
fn a_sender_outlives_a_depot_that_crashes() {
    let mut depot = Depot::start();
    write_random(&depot.path("src/a.bin"), 64 << 20, 1);
    let sender = spawn(depot.command(&["send", "src", "--limit", "25MB", "--json"]));
    depot.wait_for_durable(8 << 20);
    depot.crash_and_restart();
    let ran = crate::rig::Ran::of_child(sender);
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
    let link = ran.event("done")["link"].as_str().unwrap().to_owned();
    assert_eq!(depot.run(&["receive", &link, "dst"]).code, 0);
    assert_same(&depot.path("src"), &depot.path("dst/src"));
}

/// It went on for ever, at all of what it had to send.
#[test]
fn a_send_whose_depot_is_put_back_to_an_older_copy_ends_and_the_next_sends_what_that_lacks() {
    let mut depot = Depot::start();
    write_random(&depot.path("src/a.bin"), 60_000_000, 1);
    let sender = spawn(depot.command(&["send", "src", "--limit", "6MB"]));
    depot.wait_for_durable(8 << 20);
    depot.replace_data(|data, kept| assert!(copy_whole(data, kept)));
    depot.wait_for_durable(24 << 20);
    depot.replace_data(|data, kept| {
        std::fs::remove_dir_all(data).unwrap();
        std::fs::rename(kept, data).unwrap();
    });
    let ran = Ran::of_child(sender);
    assert_eq!((ran.code, ran.stderr.contains("has lost some of what it had")), (1, true), "{}", ran.stderr);
    let link = depot.send(&["src"]);
    assert_eq!(depot.run(&["receive", &link, "dst"]).code, 0);
    assert_same(&depot.path("src"), &depot.path("dst/src"));
}

fn copy_whole(from: &std::path::Path, to: &std::path::Path) -> bool {
    std::process::Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap().success()
}

#[test]
fn what_changed_vanished_or_came_since_the_interruption_is_named() {
    let depot = Depot::start();
    write_random(&depot.path("src/a.bin"), 64 << 20, 1);
    for name in ["changes", "stays", "vanishes"] {
        std::fs::write(depot.path("src").join(name), name).unwrap();
    }
    let mut sender = spawn(depot.command(&["send", "src", "--limit", "6MB"]));
    depot.wait_for_durable(8 << 20);
    sender.kill().unwrap();
    sender.wait().unwrap();
    std::fs::write(depot.path("src/changes"), "something else").unwrap();
    std::fs::remove_file(depot.path("src/vanishes")).unwrap();
    std::fs::write(depot.path("src/new"), "new").unwrap();
    let ran = depot.run(&["send", "src"]);
    assert_eq!(ran.code, 7, "{}", ran.stderr);
    assert!(
        !ran.stderr.contains("src changed"),
        "that names came and went is nothing to be told: {}",
        ran.stderr
    );
    assert!(ran.stderr.contains("src/vanishes vanished"), "{}", ran.stderr);
    assert!(ran.stderr.contains("src/changes changed since the interrupted run"), "{}", ran.stderr);
    assert!(!ran.stderr.contains("src/stays"), "{}", ran.stderr);
    let link = ran.last_line().to_owned();
    let received = depot.run(&["receive", &link, "dst"]);
    assert!(received.stderr.contains("src/vanishes was not sent"), "{}", received.stderr);
    assert!(!received.stderr.contains("src/changes"), "its newer version arrived: {}", received.stderr);
    let shown = depot.run(&["info", &link, "--json"]);
    let failures = shown.events_named("failure");
    assert_eq!(failures.len(), 1, "of what arrived in the end nothing failed: {}", shown.stdout);
    assert_eq!(failures[0]["path"], "src/vanishes");
    let foretold = depot.run(&["receive", &link, "elsewhere", "--dry-run"]);
    assert_eq!(foretold.code, received.code);
    assert!(foretold.stderr.contains("src/vanishes was not sent"), "{}", foretold.stderr);
    assert_same(&depot.path("src"), &depot.path("dst/src"));
}

/// What had arrived of the folder failed, what had not failed too, and nothing that the user could do ended that.
#[test]
fn a_folder_that_became_a_file_since_the_interruption_takes_nothing_along() {
    let depot = Depot::start();
    write_random(&depot.path("src/d/first"), 8 << 20, 1);
    write_random(&depot.path("src/d/second"), 24 << 20, 2);
    write_random(&depot.path("src/z"), 40 << 20, 3);
    let mut sender = spawn(depot.command(&["send", "src", "--limit", "6MB", "--channels", "1"]));
    depot.wait_for_durable(12 << 20);
    sender.kill().unwrap();
    sender.wait().unwrap();
    std::fs::remove_dir_all(depot.path("src/d")).unwrap();
    std::fs::write(depot.path("src/d"), "a file now").unwrap();
    let ran = depot.run(&["send", "src"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(depot.only_transfer()["state"], "complete");
    let link = ran.last_line().to_owned();
    let received = depot.run(&["receive", &link, "dst"]);
    assert_eq!(received.code, 0, "{}", received.stderr);
    assert_same(&depot.path("src"), &depot.path("dst/src"));
}

#[test]
fn what_is_no_file_is_named_as_the_transfer_would_have_it_and_all_else_is_sent() {
    let depot = Depot::start();
    write_tree(&depot.path("at/src"));
    let made = std::process::Command::new("mkfifo").arg(depot.path("at/src/pipe")).status().unwrap();
    assert!(made.success());
    for more in [&["--dry-run"][..], &[]] {
        let ran = depot.run(&[&["send", "at/src", "--json"], more].concat());
        assert_eq!(ran.code, 7);
        let failure = ran.event("failure");
        assert_eq!(
            (failure["path"].as_str(), failure["cause"].as_str()),
            (Some("src/pipe"), Some("unsupported"))
        );
        assert_eq!(ran.event("done")["failed"], 1);
    }
    assert_eq!(depot.only_transfer()["state"], "complete", "no later run could send more of it");
}

/// Sends as somebody whom permission bits bind, whoever runs the tests.
pub fn send_as_user(depot: &Depot, what: &[&str]) -> Ran {
    let not_root = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-all", "--"];
    let as_root = rustix::process::geteuid().is_root();
    let through: Vec<String> = not_root.iter().filter(|_| as_root).map(ToString::to_string).collect();
    let mut command = terahaul_through(depot.home.path(), &through);
    command.env("TERAHAUL_URL", &depot.url).env("TERAHAUL_TOKEN", &depot.token);
    command.args(["send", "--json"]).args(what);
    Ran::of(command)
}

pub fn set_mode(path: &Path, mode: u32) {
    set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

#[test]
fn what_cannot_be_read_fails_alone_and_a_later_run_completes_the_same_transfer() {
    for (path, mode) in [("src/sub/exact.bin", 0), ("src/sub", 0), ("src/sub", 0o444)] {
        let depot = Depot::start();
        write_tree(&depot.path("src"));
        let usual = depot.path(path).metadata().unwrap().permissions();
        set_mode(&depot.path(path), mode);
        for _ in 0..2 {
            let ran = send_as_user(&depot, &["src"]);
            assert_eq!(ran.code, 7, "{}", ran.stdout);
            let failures = ran.events_named("failure");
            assert!(failures.iter().all(|failure| failure["cause"] == "unreadable"), "{failures:?}");
            assert_eq!(ran.event("done")["failed"], failures.len());
            assert_eq!(depot.only_transfer()["state"], "partial");
        }
        set_permissions(depot.path(path), usual).unwrap();
        let ran = send_as_user(&depot, &["src"]);
        assert_eq!(
            (ran.code, depot.only_transfer()["state"].as_str()),
            (0, Some("complete")),
            "{}",
            ran.stdout
        );
        let link = ran.event("done")["link"].as_str().unwrap().to_owned();
        let ran = depot.run(&["receive", &link, "dst"]);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        assert_same(&depot.path("src"), &depot.path("dst/src"));
    }
}

/// Sends twice while a folder cannot be read and once afterwards; returns the link, which stays the same.
fn send_around_a_locked_folder(depot: &Depot, locked: &str, what: &[&str]) -> String {
    let locked = depot.path(locked);
    set_mode(&locked, 0);
    let mut links = Vec::new();
    for (mode, code, state) in [(0, 7, "partial"), (0o755, 7, "partial"), (0o755, 0, "complete")] {
        let ran = send_as_user(depot, what);
        assert_eq!(ran.code, code, "{what:?}: {}", ran.stdout);
        assert!(!ran.stdout.contains("vanished"), "{what:?}: {}", ran.stdout);
        assert_eq!(ran.events_named("failure").len(), usize::from(code != 0), "{what:?}: {}", ran.stdout);
        assert_eq!(depot.only_transfer()["state"], state, "{what:?}");
        links.push(ran.event("done")["link"].as_str().unwrap().to_owned());
        set_mode(&locked, mode);
    }
    assert!(links.iter().all(|link| *link == links[0]), "{links:?}");
    links.remove(0)
}

#[test]
fn an_unreadable_folder_keeps_its_transfer_open_however_the_path_is_typed() {
    for typed in ["./src", "src/", "./src/.", "../HOME/src"] {
        let depot = Depot::start();
        write_tree(&depot.path("src"));
        let home = depot.home.path().file_name().unwrap().to_str().unwrap();
        let typed = typed.replace("HOME", home);
        let link = send_around_a_locked_folder(&depot, "src/sub", &[&typed]);
        assert_eq!(depot.run(&["receive", &link, "dst"]).code, 0);
        let arrived = if typed.ends_with("/src") { "dst/src" } else { "dst" };
        assert_same(&depot.path("src"), &depot.path(arrived));
    }
}

#[test]
fn an_unreadable_folder_of_which_globs_send_a_part_keeps_its_transfer_open() {
    for (typed, arrived) in [("src/", "dst"), ("src", "dst/src")] {
        let depot = Depot::start();
        write_tree(&depot.path("src"));
        let link = send_around_a_locked_folder(&depot, "src/sub", &[typed, "--include", "exact.bin"]);
        let received = depot.run(&["receive", &link, "dst"]);
        assert_eq!(received.code, 0, "{}", received.stderr);
        let arrived = depot.path(arrived);
        assert!(arrived.join("sub/exact.bin").exists() && !arrived.join("large.bin").exists());
    }
}

#[test]
fn when_the_folder_whose_content_is_sent_cannot_be_read_nothing_is_lost() {
    let depot = Depot::start();
    write_random(&depot.path("src/a.bin"), 4 << 20, 1);
    write_random(&depot.path("src/b.bin"), 48 << 20, 2);
    let mut sender = spawn(depot.command(&["send", "src/", "--limit", "6MB", "--channels", "1"]));
    depot.wait_for_durable(8 << 20);
    sender.kill().unwrap();
    sender.wait().unwrap();
    set_mode(&depot.path("src"), 0);
    for more in [&[][..], &["--dry-run"]] {
        let ran = send_as_user(&depot, &[&["src/"], more].concat());
        assert_eq!(ran.code, 2, "{}", ran.stdout);
        let said = ran.event("error")["message"].as_str().unwrap().to_owned();
        assert!(said.contains("src/") && said.contains("permissions"), "{said}");
    }
    set_mode(&depot.path("src"), 0o755);
    let ran = send_as_user(&depot, &["src/"]);
    assert_eq!(ran.code, 0, "{}", ran.stdout);
    assert!(ran.event("done")["moved_bytes"].as_u64() < Some(48 << 20), "{}", ran.stdout);
    assert_eq!(depot.only_transfer()["state"], "complete");
}

#[test]
fn what_is_durable_of_a_folder_that_cannot_be_read_for_a_while_is_kept() {
    const FIRST: u64 = 4 << 20;
    let depot = Depot::start();
    write_random(&depot.path("src/folder/a.bin"), FIRST as usize, 1);
    write_random(&depot.path("src/folder/b.bin"), 48 << 20, 2);
    let mut sender = spawn(depot.command(&["send", "src", "--limit", "6MB", "--channels", "1"]));
    depot.wait_for_durable(2 * FIRST);
    sender.kill().unwrap();
    sender.wait().unwrap();
    set_mode(&depot.path("src/folder"), 0);
    let ran = send_as_user(&depot, &["src"]);
    assert_eq!(ran.code, 7, "{}", ran.stdout);
    assert!(!ran.stdout.contains("vanished") && !ran.stdout.contains("a.bin"), "{}", ran.stdout);
    let link = ran.event("done")["link"].as_str().unwrap().to_owned();
    let received = depot.run(&["receive", &link, "part"]);
    assert_eq!(
        (received.code, depot.path("part/src/folder/a.bin").exists()),
        (7, true),
        "{}",
        received.stderr
    );
    set_mode(&depot.path("src/folder"), 0o755);
    let ran = send_as_user(&depot, &["src", "--compress", "no"]);
    assert_eq!(ran.code, 0, "{}", ran.stdout);
    assert_eq!(ran.event("done")["moved_bytes"], 48 << 20);
    assert_eq!(
        (depot.only_transfer()["state"].as_str(), ran.event("done")["link"].as_str()),
        (Some("complete"), Some(&*link))
    );
    assert_eq!(depot.run(&["receive", &link, "dst"]).code, 0);
    assert_same(&depot.path("src"), &depot.path("dst/src"));
}

/// A transfer that an earlier run has left unfinished.
fn interrupted(depot: &Depot, more: &[&str]) {
    write_random(&depot.path("src/a.bin"), 32 << 20, 1);
    write_random(&depot.path("src/read by the later run alone"), 5_000_000, 2);
    // Slow enough that it has not ended by the time that it is seen to be half-way.
    let mut sender = spawn(depot.command(&[&["send", "src", "--limit", "4MB"], more].concat()));
    depot.wait_for_durable(8 << 20);
    sender.kill().unwrap();
    sender.wait().unwrap();
}

#[test]
fn the_link_is_said_also_when_the_receipt_cannot_be_fetched() {
    let depot = Depot::start();
    interrupted(&depot, &[]);
    let mut command = depot.command(&["send", "src"]);
    command.env("TMPDIR", depot.path("no-such-folder"));
    let ran = Ran::of(command);
    assert_ne!(ran.code, 0);
    assert!(
        ran.stderr.contains("durable at the depot; its receipt could not be fetched or kept"),
        "{}",
        ran.stderr
    );
    assert_eq!(depot.only_transfer()["state"], "complete");
    assert_eq!(depot.run(&["receive", ran.last_line(), "dst"]).code, 0);
    assert_same(&depot.path("src"), &depot.path("dst/src"));
}

#[test]
fn a_resumed_transfer_says_that_it_keeps_its_name_and_its_expiry() {
    let depot = Depot::start();
    interrupted(&depot, &["--name", "first", "--expire-days", "9"]);
    let ran = depot.run(&["send", "src", "--json", "--name", "second", "--expire-days", "3"]);
    assert_eq!(ran.code, 0, "{}", ran.stdout);
    assert_eq!(ran.event("start")["name"], "first");
    let notices = ran.events_named("notice");
    for said in ["'first'", "is kept until"] {
        let is_said = |notice: &serde_json::Value| notice["message"].as_str().unwrap().contains(said);
        assert!(notices.iter().any(is_said), "{notices:?}");
    }
}

/// It was sent as no bytes, without a word.
#[test]
fn who_names_a_link_or_a_stream_is_told_what_to_send_instead() {
    let depot = Depot::start();
    write_tree(&depot.path("src"));
    std::os::unix::fs::symlink("src", depot.path("latest")).unwrap();
    for (typed, code, said) in
        [("latest", 0, "latest/ is what is in the folder"), ("-", 5, "write the stream to a file first")]
    {
        let ran = depot.run(&["send", typed]);
        assert_eq!((ran.code, ran.stderr.contains(said)), (code, true), "{}", ran.stderr);
    }
}

#[test]
fn a_receipt_that_cannot_be_kept_is_refused_before_anything_is_sent() {
    let depot = Depot::start();
    write_tree(&depot.path("src"));
    std::os::unix::fs::symlink("elsewhere", depot.path("link")).unwrap();
    let long = "x".repeat(300);
    for place in ["no/such/folder/r.json", "src", "link", "/dev/null", "new/", "src/.", "..", "", &long] {
        let ran = depot.run(&["send", "src", "--receipt", place]);
        assert_eq!(ran.code, 2, "{}", ran.stderr);
        assert!(ran.stderr.contains(place), "{}", ran.stderr);
    }
    assert!(depot.path("link").is_symlink(), "nothing takes its place");
    assert!(depot.run(&["list", "--json"]).events_named("transfer").is_empty());
}

/// It replaced the only copy of what was sent.
#[test]
fn a_receipt_in_the_place_of_what_is_sent_is_refused_before_anything_is_sent() {
    let depot = Depot::start();
    write_tree(&depot.path("src"));
    std::fs::write(depot.path("data.json"), "mine").unwrap();
    std::os::unix::fs::symlink("src", depot.path("way")).unwrap();
    for (typed, place) in [
        (&["src"][..], "src/zero"),
        (&["src/"], "way/sub/many/7.bin"),
        (&["src", "data.json"], "./data.json"),
        (&["."], "data.json"),
    ] {
        let before = std::fs::read(depot.path(place)).unwrap();
        let ran = depot.run(&[&["send", "--receipt", place], typed].concat());
        assert_eq!(ran.code, 2, "{typed:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(place) && ran.stderr.contains("another --receipt"), "{}", ran.stderr);
        assert_eq!(std::fs::read(depot.path(place)).unwrap(), before);
    }
    assert!(depot.run(&["list", "--json"]).events_named("transfer").is_empty());
    for place in ["src/zero", "src/new.json", "data.json"] {
        let ran = depot.run(&["send", "src", "--exclude", "zero", "--receipt", place]);
        assert_eq!(ran.code, 0, "{place} is not sent: {}", ran.stderr);
    }
}
