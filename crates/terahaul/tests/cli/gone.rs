//! What an earlier run has sent, and a later one does not find any more.

use std::fs;

use crate::rig::{Depot, Ran, assert_same, spawn, write_random, write_tree};
use crate::send::{send_as_user, set_mode};

/// Sends `src` and ends it once so many bytes are durable; what comes first by name is sent first.
fn interrupt_at(depot: &Depot, bytes: u64) {
    let mut sender = spawn(depot.command(&["send", "src", "--limit", "6MB", "--channels", "1"]));
    depot.wait_for_durable(bytes);
    sender.kill().unwrap();
    sender.wait().unwrap();
}

fn said_kept(ran: &Ran, count: u64) {
    assert_eq!(ran.event("done")["kept"], count, "{}", ran.stdout);
    let notices = ran.events_named("notice");
    let said = notices.iter().filter(|said| said["message"].as_str().unwrap().contains("gone here and kept"));
    assert_eq!(said.count(), 1, "{}", ran.stdout);
}

#[test]
fn what_the_receipt_of_a_partial_transfer_names_may_be_removed_before_the_next_run() {
    let depot = Depot::start();
    write_tree(&depot.path("src"));
    write_tree(&depot.path("copy/src"));
    for root in ["src", "copy/src"] {
        fs::write(depot.path(root).join("late"), "late").unwrap();
    }
    set_mode(&depot.path("src/late"), 0);
    let ran = send_as_user(&depot, &["src"]);
    assert_eq!(ran.code, 7, "{}", ran.stdout);
    for file in ["large.bin", "zero", "link"] {
        fs::remove_file(depot.path("src").join(file)).unwrap();
    }
    for folder in ["empty", "sub"] {
        fs::remove_dir_all(depot.path("src").join(folder)).unwrap();
    }
    set_mode(&depot.path("src/late"), 0o644);
    let ran = send_as_user(&depot, &["src"]);
    assert_eq!((ran.code, depot.only_transfer()["state"].as_str()), (0, Some("complete")), "{}", ran.stdout);
    said_kept(&ran, 3 + 2 + 2 + 51);
    let link = ran.event("done")["link"].as_str().unwrap().to_owned();
    let received = depot.run(&["receive", &link, "dst"]);
    assert_eq!(received.code, 0, "{}", received.stderr);
    for kept in ["large.bin", "zero", "link", "late", "sub/exact.bin", "sub/many/7.bin", "empty/folder"] {
        assert!(depot.path("dst/src").join(kept).symlink_metadata().is_ok(), "{kept}");
    }
    let [sent, kept] =
        ["dst/src/sub/many/7.bin", "copy/src/sub/many/7.bin"].map(|file| fs::read(depot.path(file)).unwrap());
    assert_eq!(sent, kept);
}

#[test]
fn of_an_interrupted_transfer_a_file_that_is_durable_is_kept_when_it_is_gone_and_another_fails() {
    let depot = Depot::start();
    write_random(&depot.path("src/a.bin"), 4 << 20, 1);
    write_random(&depot.path("src/b.bin"), 48 << 20, 2);
    write_random(&depot.path("src/c.bin"), 4 << 20, 3);
    interrupt_at(&depot, 8 << 20);
    for file in ["a.bin", "b.bin"] {
        fs::remove_file(depot.path("src").join(file)).unwrap();
    }
    let [dry, ran] = [&["--dry-run"][..], &[]].map(|more| {
        let ran = depot.run(&[&["send", "src", "--json"], more].concat());
        assert_eq!(ran.code, 7, "{}", ran.stdout);
        said_kept(&ran, 1);
        ran
    });
    // A channel may read the file before the walk knows that it is gone, and says then what the system said.
    let says = |ran: &Ran| {
        let failure = ran.event("failure");
        let remedy = failure["message"].as_str().unwrap().split(" (").next().unwrap().to_owned();
        (failure["path"].clone(), failure["cause"].clone(), remedy)
    };
    let remedy = "vanished before it was read: if it was moved, send it from its new place";
    assert_eq!(says(&ran), ("src/b.bin".into(), "vanished".into(), remedy.to_owned()));
    assert_eq!(says(&dry), says(&ran), "a dry run foretells it");
    let link = ran.event("done")["link"].as_str().unwrap().to_owned();
    assert_eq!(depot.run(&["receive", &link, "dst"]).code, 7);
    write_random(&depot.path("src/a.bin"), 4 << 20, 1);
    let names = |folder: &str| {
        let names = fs::read_dir(depot.path(folder)).unwrap();
        let mut names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    assert_eq!(names("src"), names("dst/src"));
    assert_eq!(fs::read(depot.path("src/a.bin")).unwrap(), fs::read(depot.path("dst/src/a.bin")).unwrap());
}

#[test]
fn a_run_before_the_disk_is_mounted_ends_with_an_error_and_the_next_one_goes_on() {
    for (typed, arrived) in [("src", "dst/src"), ("src/", "dst")] {
        let depot = Depot::start();
        write_random(&depot.path("src/a.bin"), 4 << 20, 1);
        write_random(&depot.path("src/b.bin"), 48 << 20, 2);
        let mut sender = spawn(depot.command(&["send", typed, "--limit", "6MB", "--channels", "1"]));
        depot.wait_for_durable(8 << 20);
        sender.kill().unwrap();
        sender.wait().unwrap();
        fs::rename(depot.path("src"), depot.path("disk")).unwrap();
        fs::create_dir(depot.path("src")).unwrap();
        let before = depot.only_transfer();
        for file in [None, Some("lost+found")] {
            if let Some(file) = file {
                fs::write(depot.path("src").join(file), "of the disk below").unwrap();
            }
            let [dry, ran] = [&["-n"][..], &[]].map(|more| {
                let ran = depot.run(&[&["send", typed, "--json"], more].concat());
                (ran.code, ran.event("error"))
            });
            assert_eq!(dry, ran, "a dry run foretells it");
            assert_eq!(ran.0, 5, "{}", ran.1);
            let said = ran.1["message"].as_str().unwrap().to_owned();
            let id = before["id"].as_str().unwrap();
            assert!(said.contains("2 entries") && said.contains("mounted") && said.contains(id), "{said}");
            assert_eq!(depot.only_transfer()["state"], "open");
        }
        fs::remove_dir_all(depot.path("src")).unwrap();
        fs::rename(depot.path("disk"), depot.path("src")).unwrap();
        let ran = depot.run(&["send", typed, "--json", "--compress", "no"]);
        assert_eq!(ran.code, 0, "{}", ran.stdout);
        assert!(ran.event("done")["moved_bytes"].as_u64() < Some(45 << 20), "{}", ran.stdout);
        let link = ran.event("done")["link"].as_str().unwrap().to_owned();
        assert_eq!(depot.run(&["receive", &link, "dst"]).code, 0);
        assert_same(&depot.path("src"), &depot.path(arrived));
    }
}

#[test]
fn a_run_before_one_of_several_disks_is_mounted_ends_with_an_error_and_the_next_one_goes_on() {
    let depot = Depot::start();
    write_random(&depot.path("c/a.bin"), 4 << 20, 1);
    write_random(&depot.path("d/b.bin"), 48 << 20, 2);
    let args = ["send", "c/", "d/"];
    let mut sender = spawn(depot.command(&[&args[..], &["--limit", "6MB", "--channels", "1"]].concat()));
    depot.wait_for_durable(8 << 20);
    sender.kill().unwrap();
    sender.wait().unwrap();
    fs::rename(depot.path("d"), depot.path("disk")).unwrap();
    fs::create_dir(depot.path("d")).unwrap();
    let ran = depot.run(&[&args[..], &["--json"]].concat());
    assert_eq!(ran.code, 5, "{}", ran.stdout);
    let said = ran.event("error")["message"].as_str().unwrap().to_owned();
    assert!(
        said.contains("d/ is empty, and the depot has 0 of 1 entry") && said.contains("mounted"),
        "{said}"
    );
    assert_eq!(depot.only_transfer()["state"], "open");
    fs::remove_dir(depot.path("d")).unwrap();
    fs::rename(depot.path("disk"), depot.path("d")).unwrap();
    let ran = depot.run(&[&args[..], &["--json"]].concat());
    assert_eq!(ran.code, 0, "{}", ran.stdout);
}

/// The next run said that it does not exist, and nothing made it go on.
#[test]
fn a_path_of_the_command_line_that_is_durable_may_be_removed_before_the_next_run() {
    let depot = Depot::start();
    write_random(&depot.path("a.bin"), 4 << 20, 1);
    write_random(&depot.path("b.bin"), 48 << 20, 2);
    let paths = ["a.bin", "b.bin"];
    let send = |more: &[&str]| depot.run(&[&["send", "--json"], more, &paths].concat());
    let slowly = ["--limit", "6MB", "--channels", "1"];
    let mut sender = spawn(depot.command(&[&["send"], &slowly[..], &paths].concat()));
    depot.wait_for_durable(4 << 20);
    sender.kill().unwrap();
    sender.wait().unwrap();
    fs::rename(depot.path("a.bin"), depot.path("sent")).unwrap();
    fs::rename(depot.path("b.bin"), depot.path("disk")).unwrap();
    let ran = send(&[]);
    assert_eq!(ran.code, 5, "{}", ran.stdout);
    let said = ran.event("error")["message"].as_str().unwrap().to_owned();
    let id = depot.only_transfer()["id"].as_str().unwrap().to_owned();
    assert!(said.contains("b.bin") && said.contains("mounted") && said.contains(&id), "{said}");
    fs::rename(depot.path("disk"), depot.path("b.bin")).unwrap();
    let foretold = send(&["--dry-run"]);
    assert_eq!(foretold.code, 0, "{}", foretold.stdout);
    let other = depot.run(&["send", "--json", "a.bin"]);
    assert_eq!(
        (other.code, &other.event("error")["code"]),
        (5, &"not_found".into()),
        "the depot has no such"
    );
    let ran = send(&[]);
    assert_eq!(ran.code, 0, "{}", ran.stdout);
    said_kept(&ran, 1);
    assert_eq!(depot.only_transfer()["state"], "complete");
    let link = ran.event("done")["link"].as_str().unwrap().to_owned();
    assert_eq!(depot.run(&["receive", &link, "dst"]).code, 0);
    for (sent, arrived) in [("sent", "dst/a.bin"), ("b.bin", "dst/b.bin")] {
        assert!(fs::read(depot.path(sent)).unwrap() == fs::read(depot.path(arrived)).unwrap(), "{arrived}");
    }
}

/// It was said to have changed and to be sent anew, which it was not, and its receiver was told that it had changed while it was being sent.
#[test]
fn a_file_of_which_a_part_was_sent_and_that_cannot_be_read_any_more_fails_as_such() {
    for locked in ["src/folder/a.bin", "src/folder"] {
        let depot = Depot::start();
        let file = depot.path("src/folder/a.bin");
        write_random(&file, 48 << 20, 1);
        interrupt_at(&depot, 8 << 20);
        let usual = depot.path(locked).metadata().unwrap().permissions();
        set_mode(&depot.path(locked), 0);
        let ran = send_as_user(&depot, &["src"]);
        assert_eq!(ran.code, 7, "{}", ran.stdout);
        assert!(!ran.stdout.contains("sent anew"), "{}", ran.stdout);
        let link = ran.event("done")["link"].as_str().unwrap().to_owned();
        let received = depot.run(&["receive", &link, "part", "--json"]);
        let [named, missing] = [&ran, &received].map(|ended| ended.events_named("failure"));
        assert!(named.iter().all(|failure| failure["cause"] == "unreadable"), "{named:?}");
        assert!(named.iter().any(|failure| failure["path"] == "src/folder/a.bin"), "{named:?}");
        let of_file = missing.iter().find(|failure| failure["path"] == "src/folder/a.bin").unwrap();
        assert!(of_file["message"].as_str().unwrap().contains("could not read it"), "{missing:?}");
        fs::set_permissions(depot.path(locked), usual).unwrap();
        let ran = send_as_user(&depot, &["src"]);
        assert_eq!(ran.code, 0, "{}", ran.stdout);
        assert_eq!(depot.run(&["receive", &link, "dst"]).code, 0);
        assert_same(&depot.path("src"), &depot.path("dst/src"));
    }
}

#[test]
fn what_was_sent_may_be_cleared_away_for_what_is_new() {
    let depot = Depot::start();
    for file in ["first", "late"] {
        write_random(&depot.path("src").join(file), 100_000, 1);
    }
    set_mode(&depot.path("src/late"), 0);
    assert_eq!(send_as_user(&depot, &["src"]).code, 7);
    fs::remove_dir_all(depot.path("src")).unwrap();
    write_random(&depot.path("src/second"), 100_000, 2);
    let [dry, ran] = [&["-n"][..], &[]].map(|more| {
        let ran = depot.run(&[&["send", "src", "--json"], more].concat());
        assert_eq!(ran.code, 7, "'late' never arrived: {}", ran.stdout);
        said_kept(&ran, 1);
        ran
    });
    assert_eq!(dry.event("failure"), ran.event("failure"), "a dry run foretells it");
    let link = ran.event("done")["link"].as_str().unwrap().to_owned();
    assert_eq!(depot.run(&["receive", &link, "dst"]).code, 7);
    assert!(["first", "second"].iter().all(|file| depot.path("dst/src").join(file).exists()));
}

#[test]
fn a_run_that_the_quota_refuses_leaves_the_link_and_the_receipt_as_they_are() {
    let depot = Depot::start_with(&["--quota", "10MB"]);
    write_random(&depot.path("src/a.bin"), 6_000_000, 1);
    fs::write(depot.path("src/late"), "late").unwrap();
    set_mode(&depot.path("src/late"), 0);
    let ran = send_as_user(&depot, &["src"]);
    assert_eq!(ran.code, 7, "{}", ran.stdout);
    let (link, root) =
        (ran.event("done")["link"].as_str().unwrap().to_owned(), ran.event("done")["root"].clone());
    write_random(&depot.path("copy/a.bin"), 6_000_000, 1);
    // The first file grows, then another comes.
    for (file, len) in [("a.bin", 7_000_000), ("new.bin", 9_000_000)] {
        write_random(&depot.path("src").join(file), len, 2);
        let ran = send_as_user(&depot, &["src"]);
        assert_eq!(ran.code, 6, "{}", ran.stdout);
        assert_eq!(depot.only_transfer()["state"], "partial");
        let folder = format!("with-{file}");
        let received = depot.run(&["receive", &link, &folder, "--json"]);
        assert_eq!(received.code, 7, "{}", received.stdout);
        assert_eq!(received.event("done")["root"], root);
        let [sent, arrived] =
            ["copy".into(), format!("{folder}/src")].map(|place| depot.path(&place).join("a.bin"));
        assert_eq!(fs::read(sent).unwrap(), fs::read(arrived).unwrap());
        fs::rename(depot.path("src").join(file), depot.path("away")).unwrap();
    }
}

#[test]
fn what_a_dry_run_says_to_be_present_is_of_files_that_are_as_they_were() {
    let depot = Depot::start();
    write_random(&depot.path("src/a.bin"), 64 << 20, 1);
    interrupt_at(&depot, 8 << 20);
    let foretold = || {
        let done = depot.run(&["send", "src", "--dry-run", "--json"]).event("done");
        done["present_bytes"].as_u64().unwrap()
    };
    assert!(((8 << 20)..(64 << 20)).contains(&foretold()));
    write_random(&depot.path("src/a.bin"), 72 << 20, 2);
    assert_eq!(foretold(), 0, "all of its old version goes");
}

#[test]
fn what_a_dry_run_says_to_be_present_is_not_of_files_that_have_failed() {
    let depot = Depot::start();
    for (file, len) in [("changes", 3_000_000), ("stays", 900_000), ("locked", 9)] {
        write_random(&depot.path("src").join(file), len, 1);
    }
    set_mode(&depot.path("src/locked"), 0);
    assert_eq!(send_as_user(&depot, &["src"]).code, 7);
    write_random(&depot.path("src/changes"), 3_100_000, 2);
    assert_eq!(send_as_user(&depot, &["src"]).code, 7);
    write_random(&depot.path("src/new"), 2_000_000, 3);
    let done = send_as_user(&depot, &["src", "--dry-run"]).event("done");
    assert_eq!(done["present_bytes"], 4_000_000);
    assert!(
        depot.only_transfer()["durable_bytes"].as_u64() > Some(6_900_000),
        "the old version shares a block"
    );
}

#[test]
fn a_list_shows_of_a_transfer_that_has_ended_what_arrived() {
    let depot = Depot::start();
    write_random(&depot.path("src/a.bin"), 6_000_000, 1);
    fs::write(depot.path("src/late"), "late").unwrap();
    set_mode(&depot.path("src/late"), 0);
    assert_eq!(send_as_user(&depot, &["src"]).code, 7);
    write_random(&depot.path("src/a.bin"), 7_000_000, 2);
    assert_eq!(send_as_user(&depot, &["src"]).code, 7);
    let transfer = depot.only_transfer();
    assert_eq!((&transfer["arrived_entries"], &transfer["arrived_bytes"]), (&2.into(), &7_000_000.into()));
    assert_eq!(transfer["durable_bytes"], 7_000_000, "{transfer}");
    let listed = depot.run(&["list"]).stdout;
    assert!(listed.contains("7.0 MB") && listed.contains(" 2  "), "{listed}");
}

/// It was said that 'a path' could not be followed, of a receipt's files that all were missing.
#[test]
fn a_working_folder_that_was_removed_is_not_there() {
    let depot = Depot::start();
    write_tree(&depot.path("src"));
    depot.send(&["src", "--receipt", "r.json"]);
    let receipt = depot.path("r.json").display().to_string();
    for args in [&["send", "."][..], &["send", "file"], &["verify", &receipt, "."]] {
        fs::create_dir_all(depot.path("gone")).unwrap();
        let program = depot.command(args);
        let mut command = std::process::Command::new("sh");
        command.args(["-c", "cd gone && rmdir ../gone && exec \"$0\" \"$@\""]).arg(program.get_program());
        command.args(program.get_args()).current_dir(depot.home.path());
        command.envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let ran = Ran::of(command);
        assert_eq!(ran.code, 5, "{args:?}: {}{}", ran.stdout, ran.stderr);
        let said = format!("{} ", args.last().unwrap());
        assert!(ran.stderr.contains(&said) && ran.stderr.contains("check the spelling"), "{}", ran.stderr);
    }
}
