use std::path::Path;

use crate::rig::{
    Depot, Ran, assert_same, describe, send_signal, spawn, terahaul_through, wait_until, write_random,
    write_tree,
};

/// Waits until the staging folder's journal has recorded a block.
fn wait_for_journal(dir: &Path) {
    let recorded = || {
        let found = std::fs::read_dir(dir).ok()?.filter_map(Result::ok);
        let staging =
            found.map(|entry| entry.path()).find(|path| path.to_string_lossy().contains(".terahaul-"))?;
        Some(staging.join("journal").metadata().ok()?.len() > 64)
    };
    wait_until("something was received", || recorded() == Some(true));
}

#[test]
fn a_killed_receiver_resumes_and_nothing_half_written_is_seen() {
    let depot = Depot::start();
    write_random(&depot.path("src/a.bin"), 64 << 20, 1);
    write_tree(&depot.path("src/tree"));
    let link = depot.send(&["src"]);
    let mut receiver = spawn(depot.command(&["receive", &link, "dst", "--limit", "6MB"]));
    wait_for_journal(&depot.path("dst"));
    receiver.kill().unwrap();
    receiver.wait().unwrap();
    let seen: Vec<_> =
        std::fs::read_dir(depot.path("dst")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(seen.len(), 1, "only the staging folder: {seen:?}");
    let ran = depot.run(&["receive", &link, "dst", "--json"]);
    assert_eq!(ran.code, 0, "{}", ran.stdout);
    assert_eq!(ran.event("start")["resumed"], true);
    assert_same(&depot.path("src"), &depot.path("dst/src"));
    let left = describe(&depot.path("dst"));
    assert!(left.iter().all(|(path, _)| path.starts_with("src")), "the staging folder is gone");
}

#[test]
fn a_receiver_outlives_a_depot_that_crashes() {
    let mut depot = Depot::start();
    write_random(&depot.path("src/a.bin"), 64 << 20, 1);
    let link = depot.send(&["src"]);
    let receiver = spawn(depot.command(&["receive", &link, "dst", "--limit", "25MB"]));
    wait_for_journal(&depot.path("dst"));
    depot.crash_and_restart();
    let ran = crate::rig::Ran::of_child(receiver);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_same(&depot.path("src"), &depot.path("dst/src"));
}

/// Sends `src` in two runs, with a large file and one of this name that is gone before it was read: the transfer.
fn send_without(depot: &Depot, name: &str) -> String {
    write_random(&depot.path("src/a.bin"), 64 << 20, 1);
    let lost = depot.path("src").join(name);
    std::fs::write(&lost, name).unwrap();
    let mut sender = spawn(depot.command(&["send", "src", "--limit", "6MB"]));
    depot.wait_for_durable(8 << 20);
    sender.kill().unwrap();
    sender.wait().unwrap();
    std::fs::remove_file(lost).unwrap();
    assert_eq!(depot.run(&["send", "src"]).code, 7);
    depot.only_transfer()["id"].as_str().unwrap().to_owned()
}

/// A session begins with all that has failed. In a second one the depot's disk was blamed for it.
#[test]
fn what_its_sender_could_not_send_is_named_so_in_a_later_session_too() {
    let mut depot = Depot::start();
    let id = send_without(&depot, "vanishes");
    let receiver = spawn(depot.command(&["receive", &id, "dst", "--limit", "25MB"]));
    wait_for_journal(&depot.path("dst"));
    depot.crash_and_restart();
    let ran = Ran::of_child(receiver);
    assert_eq!(ran.code, 7, "{}", ran.stderr);
    assert!(ran.stderr.contains("src/vanishes was not sent"), "{}", ran.stderr);
}

#[test]
fn a_receiver_of_a_transfer_that_is_removed_meanwhile_hears_that_and_of_no_failed_file() {
    let depot = Depot::start();
    write_random(&depot.path("src/a.bin"), 64 << 20, 1);
    let link = depot.send(&["src"]);
    let id = depot.only_transfer()["id"].as_str().unwrap().to_owned();
    let receiver = spawn(depot.command(&["receive", &link, "dst", "--limit", "10MB", "--json"]));
    wait_for_journal(&depot.path("dst"));
    assert_eq!(depot.run(&["remove", &id]).code, 0);
    let ran = Ran::of_child(receiver);
    assert_ne!(ran.code, 0);
    assert!(ran.stdout.contains("was removed or reopened while it was received"), "{}", ran.stdout);
    // Nothing else would ever remove it.
    let left = format!("dst/.terahaul-{id}, which you may remove");
    assert!(ran.stdout.contains(&left), "{}", ran.stdout);
    let again = depot.run(&["receive", &link, "dst"]);
    assert!(again.code == 5 && again.stderr.contains(&left), "{}", again.stderr);
    assert!(!depot.path("dst/src/a.bin").exists());
}

#[test]
fn a_link_is_read_from_stdin_and_needs_no_settings() {
    let depot = Depot::start();
    write_tree(&depot.path("src"));
    let link = depot.send(&["src"]);
    let mut command = crate::rig::terahaul(depot.home.path());
    command.args(["receive", "-", "dst"]);
    let ran = crate::rig::Ran::with_input(command, &format!("{link}\n"));
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_same(&depot.path("src"), &depot.path("dst/src"));
}

#[test]
fn files_in_the_way_stay_as_they_are_unless_they_may_be_replaced() {
    let depot = Depot::start();
    write_tree(&depot.path("src"));
    let link = depot.send(&["src"]);
    std::fs::create_dir_all(depot.path("dst/src")).unwrap();
    std::fs::write(depot.path("dst/src/zero"), "mine").unwrap();
    let before = describe(&depot.path("dst"));
    let ran = depot.run(&["receive", &link, "dst"]);
    assert_eq!(ran.code, 2);
    assert!(
        ran.stderr.contains("src/zero exists already") && ran.stderr.contains("--overwrite"),
        "{}",
        ran.stderr
    );
    let dry = depot.run(&["receive", &link, "dst", "--dry-run"]);
    assert_eq!((dry.code, dry.stderr.lines().last()), (ran.code, ran.stderr.lines().last()));
    let dry = depot.run(&["receive", &link, "dst", "--dry-run", "--overwrite", "--json"]).event("done");
    assert_eq!(dry["already_there"], 1, "its folder");
    assert_eq!(describe(&depot.path("dst")), before);
    assert_eq!(depot.run(&["receive", &link, "dst", "--overwrite"]).code, 0);
    assert_same(&depot.path("src"), &depot.path("dst/src"));
}

/// Folders that were there counted as received, and in a dry run as there.
#[test]
fn a_run_and_a_dry_run_count_alike_what_is_there_already() {
    let depot = Depot::start();
    std::fs::create_dir_all(depot.path("src/folder")).unwrap();
    std::fs::write(depot.path("src/a"), "a").unwrap();
    let link = depot.send(&["src"]);
    let dry = || depot.run(&["receive", &link, "dst\n", "--json", "-n"]).event("done");
    let run = || depot.run(&["receive", &link, "dst\n", "--json"]).event("done");
    let counts = |done: serde_json::Value| {
        let count = |name: &str| done[name].as_u64().unwrap_or(0);
        let received = count("entries") + count("files") + count("folders") + count("links");
        (received, count("already_there"))
    };
    for expected in [(3, 0), (0, 3)] {
        assert_eq!([counts(dry()), counts(run())], [expected; 2]);
    }
    let ran = depot.run(&["receive", &link, "dst\n"]);
    assert!(
        ran.stdout.contains("into dst\\n, ") && ran.stdout.contains("3 more were there"),
        "{}",
        ran.stdout
    );
}

/// It was said to help, over and over.
#[test]
fn overwriting_is_not_advised_where_a_folder_is_in_the_way_or_arrives() {
    let depot = Depot::start();
    std::fs::create_dir_all(depot.path("src/folder")).unwrap();
    std::fs::write(depot.path("src/folder/x"), "x").unwrap();
    std::fs::write(depot.path("src/file"), "x").unwrap();
    let link = depot.send(&["src"]);
    std::fs::create_dir_all(depot.path("one/src/file")).unwrap();
    std::fs::create_dir_all(depot.path("two/src")).unwrap();
    std::fs::write(depot.path("two/src/folder"), "mine").unwrap();
    for (to, what) in
        [("one", "src/file exists already as a folder"), ("two", "src/folder exists already as a file")]
    {
        for more in [&[][..], &["--overwrite"]] {
            let ran = depot.run(&[&["receive", &link, to], more].concat());
            assert_eq!(ran.code, 2, "{}", ran.stderr);
            assert!(ran.stderr.contains(what) && !ran.stderr.contains("--overwrite"), "{}", ran.stderr);
            assert!(ran.stderr.contains("move it away"), "{}", ran.stderr);
        }
    }
}

/// All of it was received before that was said.
#[test]
fn what_would_be_on_another_file_system_is_named_before_anything_is_received() {
    let depot = Depot::start();
    write_tree(&depot.path("src"));
    write_random(&depot.path("src/sub/inner/more.bin"), 100, 1);
    let link = depot.send(&["src"]);
    std::fs::create_dir_all(depot.path("dst/src/sub")).unwrap();
    let ran = |prepare: &str, more: &[&str]| {
        let shell = format!("mount -t tmpfs none dst/src/sub && {prepare} && exec \"$@\"");
        let through = ["unshare", "--map-root-user", "--mount", "sh", "-c", &shell, "sh"];
        let through: Vec<String> = through.iter().map(ToString::to_string).collect();
        let mut command = terahaul_through(depot.home.path(), &through);
        command.args(["receive", &link, "dst"]).args(more);
        Ran::of(command)
    };
    if ran("true", &["--help"]).code != 0 {
        println!("skipped: no mount namespaces here");
        return;
    }
    for more in [&[][..], &["--dry-run"]] {
        let ran = ran("true", more);
        assert_eq!(ran.code, 2, "{}", ran.stderr);
        let said = ["on another file system", "nothing was changed"];
        assert!(said.iter().all(|said| ran.stderr.contains(said)), "{}", ran.stderr);
    }
    // Whoever has done what was advised goes on: a folder there is as it is to be, and was in the way when all had come.
    let ran = ran("cp -a src/sub/. dst/src/sub", &[]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let large = |of: &str| std::fs::read(depot.path(of).join("large.bin")).unwrap();
    assert!(large("dst/src") == large("src"));
}

#[test]
fn a_link_that_a_shell_has_cut_is_said_to_be_cut() {
    let depot = Depot::start();
    write_tree(&depot.path("src"));
    let link = depot.send(&["src"]);
    let cut = link.split('&').next().unwrap();
    for command in [&["receive", cut, "dst"][..], &["info", cut]] {
        let ran = depot.run(command);
        assert_eq!(ran.code, 4, "{}", ran.stderr);
        assert!(ran.stderr.contains("whole, in quotes") && ran.stderr.contains("&fp="), "{}", ran.stderr);
    }
}

#[test]
fn what_is_there_already_is_read_again_and_not_received_again() {
    let depot = Depot::start();
    write_tree(&depot.path("src"));
    let link = depot.send(&["src"]);
    assert_eq!(depot.run(&["receive", &link, "dst"]).code, 0);
    std::fs::remove_file(depot.path("dst/src/sub/exact.bin")).unwrap();
    let dry = depot.run(&["receive", &link, "dst", "--dry-run", "--json"]).event("done");
    assert_eq!(dry["bytes"], 4 << 20, "the file that is gone and no other");
    let done = depot.run(&["receive", &link, "dst", "--json", "--compress", "no"]).event("done");
    assert_eq!((done["files"].as_u64(), done["moved_bytes"].as_u64()), (Some(1), Some(4 << 20)));
    assert_same(&depot.path("src"), &depot.path("dst/src"));
}

#[test]
fn a_file_of_the_same_size_and_time_with_other_content_is_not_taken_for_the_same() {
    let depot = Depot::start();
    write_tree(&depot.path("src"));
    let link = depot.send(&["src"]);
    assert_eq!(depot.run(&["receive", &link, "dst"]).code, 0);
    let spoil = |name: &str, len| {
        let path = depot.path("dst/src").join(name);
        let time = path.metadata().unwrap().modified().unwrap();
        write_random(&path, len, 77);
        std::fs::File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
    };
    spoil("large.bin", 9_000_001);
    let ran = depot.run(&["receive", &link, "dst"]);
    assert_eq!(ran.code, 8, "{}", ran.stderr);
    assert!(ran.stderr.contains("src/large.bin") && ran.stderr.contains("--overwrite"), "{}", ran.stderr);
    assert!(!ran.stderr.contains("more like it"), "{}", ran.stderr);
    spoil("sub/many/7.bin", 1007);
    let ran = depot.run(&["receive", &link, "dst", "--json"]);
    let named: Vec<_> = ran
        .events_named("failure")
        .iter()
        .map(|failure| [&failure["path"], &failure["cause"]].map(|field| field.as_str().unwrap().to_owned()))
        .collect();
    assert_eq!(named, [["src/large.bin", "exists"], ["src/sub/many/7.bin", "exists"]]);
    let error = ran.event("error");
    assert_eq!((ran.code, &error["exit"]), (8, &8.into()));
    let said = error["message"].as_str().unwrap();
    assert!(said.contains("src/large.bin") && said.contains("(and 1 more like it)"), "{said}");
    let ran = depot.run(&["receive", &link, "dst"]);
    assert!(ran.stderr.contains("src/sub/many/7.bin"), "{}", ran.stderr);
    assert_eq!(depot.run(&["receive", &link, "dst", "--overwrite"]).code, 0);
    assert_same(&depot.path("src"), &depot.path("dst/src"));
}

/// Only one was named, and was said to have to be moved away, though the same command takes it for what was sent.
#[test]
fn files_that_come_into_the_way_while_others_are_received_are_named_and_compared_by_the_next_run() {
    let depot = Depot::start();
    for name in ["a", "b\u{1b}"] {
        write_random(&depot.path("src").join(name), 1000, 1);
    }
    write_random(&depot.path("src/large"), 24 << 20, 2);
    let link = depot.send(&["src"]);
    let receive = ["receive", &link, "dst", "--json"];
    let slowly = ["--limit", "16MB", "--channels", "1"];
    let receiver = spawn(depot.command(&[&receive[..], &slowly].concat()));
    wait_for_journal(&depot.path("dst"));
    std::fs::create_dir_all(depot.path("dst/src")).unwrap();
    for name in ["src/a", "src/b\u{1b}"] {
        let (from, to) = (depot.path(name), depot.path("dst").join(name));
        std::fs::copy(&from, &to).unwrap();
        let time = from.metadata().unwrap().modified().unwrap();
        std::fs::File::options().write(true).open(&to).unwrap().set_modified(time).unwrap();
    }
    let ran = Ran::of_child(receiver);
    let named: Vec<_> = ran.events_named("failure").iter().map(|failure| failure["path"].clone()).collect();
    assert_eq!(named, ["src/a", "src/b\u{1b}"], "exact, for scripts: {}", ran.stdout);
    let error = ran.event("error");
    assert_eq!((ran.code, &error["code"]), (2, &"collision".into()));
    let said = error["message"].as_str().unwrap();
    assert!(said.contains("(and 1 more like it)") && said.contains("kept here"), "{said}");
    assert_eq!(said.matches("overwrit").count(), 1, "{said}");
    let ran = depot.run(&receive);
    // And the folder that they are in.
    assert_eq!((ran.code, &ran.event("done")["already_there"]), (0, &3.into()), "{}", ran.stdout);
    assert_same(&depot.path("src"), &depot.path("dst/src"));
}

/// Its disk returns other bytes without an error, and lacks the end of what it had.
#[test]
fn what_a_depots_disk_has_damaged_is_named_and_the_rest_received() {
    let depot = Depot::start();
    for (seed, name) in ["large", "stays", "two", "1", "2", "3"].into_iter().enumerate() {
        let len = if seed < 3 { 5 << 20 } else { 1000 };
        write_random(&depot.path(&format!("src/{name}")), len, seed as u64);
    }
    let link = depot.send(&["src"]);
    let stored =
        std::fs::read_dir(depot.path("depot/store/published")).unwrap().next().unwrap().unwrap().path();
    let mut bytes = std::fs::read(&stored).unwrap();
    let place = |name: &str, bytes: &[u8]| {
        let file = std::fs::read(depot.path(&format!("src/{name}"))).unwrap();
        let whole = file.len() - file.len() % (4 << 20);
        let part = if whole > 0 { &file[whole - 1000..whole] } else { &file[..] };
        bytes.windows(part.len()).position(|window| window == part).unwrap()
    };
    let (large, small, two) = (place("large", &bytes), place("2", &bytes), place("two", &bytes));
    let undamaged = bytes.clone();
    bytes[large] ^= 1;
    bytes[small] ^= 1;
    bytes.truncate(two);
    std::fs::write(&stored, &bytes).unwrap();
    for transport in ["tcp", "udp"] {
        let ran = depot.run(&["receive", &link, transport, "--transport", transport, "--json"]);
        assert_eq!(ran.code, 7, "{}{}", ran.stdout, ran.stderr);
        let mut named: Vec<_> =
            ran.events_named("failure").iter().map(|event| event["path"].to_string()).collect();
        named.sort();
        assert_eq!(named, ["\"src/2\"", "\"src/large\"", "\"src/two\""], "{}", ran.stdout);
        assert!(
            ran.stdout.contains("what is stored of it is damaged): run the same command"),
            "{}",
            ran.stdout
        );
        for arrived in ["src/stays", "src/1", "src/3"] {
            let received = std::fs::read(depot.path(transport).join(arrived)).unwrap();
            assert_eq!(received, std::fs::read(depot.path(arrived)).unwrap());
        }
    }
    // A disk may fail once, and its owner may have a backup.
    std::fs::write(&stored, &undamaged).unwrap();
    let ran = depot.run(&["receive", &link, "tcp"]);
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
    assert_same(&depot.path("src"), &depot.path("tcp/src"));
}

#[test]
fn a_part_of_a_transfer_is_received_and_verified() {
    let depot = Depot::start();
    write_tree(&depot.path("src"));
    let link = depot.send(&["src"]);
    let dry = depot.run(&["receive", &link, "dst", "--include", "many/", "--dry-run", "--json"]);
    assert_eq!(dry.events_named("entry").len(), 51);
    assert!(!depot.path("dst").exists(), "a dry run makes nothing");
    let done = depot.run(&["receive", &link, "dst", "--include", "many/", "--json"]).event("done");
    assert_eq!((done["files"].as_u64(), done["files_compared"].as_u64()), (Some(50), Some(50)));
    assert_same(&depot.path("src/sub/many"), &depot.path("dst/src/sub/many"));
    assert!(!depot.path("dst/src/large.bin").exists());
}

/// No file is wanted here, so none has a hash that could be compared.
#[test]
fn a_link_that_is_not_what_was_signed_is_not_made() {
    let mut depot = Depot::start();
    std::fs::create_dir(depot.path("src")).unwrap();
    std::fs::write(depot.path("src/file"), "x").unwrap();
    let signed = "a target that was signed";
    std::os::unix::fs::symlink(signed, depot.path("src/link")).unwrap();
    let link = depot.send(&["src"]);
    depot.signal("TERM");
    assert_eq!(depot.wait(), Some(0));
    let database = depot.path("depot/depot.db");
    let mut bytes = std::fs::read(&database).unwrap();
    let last = bytes.len() - signed.len();
    let places: Vec<_> = (0..last).filter(|at| bytes[*at..].starts_with(signed.as_bytes())).collect();
    assert!(!places.is_empty());
    places.into_iter().for_each(|at| bytes[at] = b'A');
    std::fs::write(&database, bytes).unwrap();
    depot.restart();
    let ran = depot.run(&["receive", &link, "dst", "--include", "link"]);
    assert_eq!(ran.code, 8, "{}{}", ran.stdout, ran.stderr);
    assert!(depot.path("dst/src/link").symlink_metadata().is_err());
}

#[test]
fn a_receipt_beside_what_is_received_takes_the_place_of_none_of_it() {
    let depot = Depot::start();
    std::fs::write(depot.path("r.json"), "what was sent").unwrap();
    let link = depot.send(&["r.json"]);
    let ran = depot.run(&["receive", &link, "dst", "--receipt", "dst/r.json"]);
    assert_eq!(ran.code, 2, "{}", ran.stderr);
    assert!(ran.stderr.contains("another --receipt"), "{}", ran.stderr);
    let ran = depot.run(&["receive", &link, "dst", "--receipt", "dst/other.json"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(std::fs::read(depot.path("dst/r.json")).unwrap(), b"what was sent");
    assert_eq!(depot.run(&["verify", "dst/other.json", "dst"]).code, 0);
    // In a folder that is not there yet.
    let ran = depot.run(&["receive", &link, "new", "--receipt", "new/other.json"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(depot.run(&["verify", "new/other.json", "new"]).code, 0);
    for (dir, receipt) in [("./new2", "new2/other.json"), ("new3", "./new3/other.json")] {
        let ran = depot.run(&["receive", &link, dir, "--receipt", receipt]);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
    }
}

#[test]
fn of_a_transfer_that_is_still_sent_a_dry_run_is_refused_as_a_run_is() {
    let depot = Depot::start();
    write_random(&depot.path("src/a.bin"), 32 << 20, 1);
    let mut sender = spawn(depot.command(&["send", "src", "--limit", "6MB"]));
    depot.wait_for_durable(4 << 20);
    sender.kill().unwrap();
    sender.wait().unwrap();
    let link = depot.only_transfer()["link"].as_str().unwrap().to_owned();
    for more in [&[][..], &["-n"]] {
        let ran = depot.run(&[&["receive", &link, "dst", "--json"], more].concat());
        let error = ran.event("error");
        assert_eq!((ran.code, error["code"].as_str()), (1, Some("conflict")), "{}", ran.stdout);
        assert!(error["message"].as_str().unwrap().contains("still being sent"), "{}", ran.stdout);
        assert_eq!(ran.events().len(), 1, "nothing is listed before: {}", ran.stdout);
    }
}

#[test]
fn a_receive_that_wants_more_than_the_interrupted_one_before_gets_all_of_it() {
    let depot = Depot::start();
    for name in 0..40 {
        write_random(&depot.path(&format!("src/small/{name}")), 1000 + name, name as u64);
    }
    write_random(&depot.path("src/z-large.bin"), 40 << 20, 1);
    let link = depot.send(&["src"]);
    // The small files are the first block.
    let flags = ["--exclude", "src/small/1*", "--limit", "4MB", "--channels", "1"];
    let mut receiver = spawn(depot.command(&[&["receive", &link, "dst"], &flags[..]].concat()));
    wait_for_journal(&depot.path("dst"));
    send_signal(receiver.id(), "INT");
    receiver.wait().unwrap();
    let ran = depot.run(&["receive", &link, "dst"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_same(&depot.path("src"), &depot.path("dst/src"));
}

/// It brings folders that their owner may not write to.
#[test]
fn what_comes_later_into_a_read_only_folder_is_received_by_a_user_who_is_not_root() {
    let depot = Depot::start();
    let set_mode = |name: &str, mode| {
        let permissions = std::os::unix::fs::PermissionsExt::from_mode(mode);
        std::fs::set_permissions(depot.path(name), permissions).unwrap();
    };
    let mode = |name: &str| {
        std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(depot.path(name)).unwrap().permissions())
    };
    let not_root = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-all", "--"];
    let as_root = rustix::process::geteuid().is_root();
    let through: Vec<String> = not_root.iter().filter(|_| as_root).map(ToString::to_string).collect();
    for file in ["src/closed/a", "src/closed/b"] {
        write_random(&depot.path(file), 1000, 1);
        set_mode("src/closed", 0o555);
        let link = depot.send(&["src"]);
        let mut command = terahaul_through(depot.home.path(), &through);
        let ran = Ran::of({
            command.args(["receive", &link, "dst"]);
            command
        });
        assert_eq!((ran.code, mode("dst/src/closed") & 0o777), (0, 0o555), "{}", ran.stderr);
        assert_same(&depot.path("src"), &depot.path("dst/src"));
        set_mode("src/closed", 0o755);
    }
    set_mode("dst/src/closed", 0o755);
}

/// Of a block of small files, one that its sender lost counted with the others.
#[test]
fn files_compared_are_those_that_arrived() {
    let depot = Depot::start();
    std::fs::create_dir(depot.path("src")).unwrap();
    std::fs::write(depot.path("src/kept"), "kept").unwrap();
    let id = send_without(&depot, "vanishes");
    let done = depot.run(&["receive", &id, "dst", "--json"]).event("done");
    assert_eq!((done["files"].as_u64(), done["files_compared"].as_u64()), (Some(2), Some(2)));
}

/// A glob that is mistyped received nothing and called it verified; `verify` refuses it.
#[test]
fn what_is_received_of_nothing_that_was_selected_is_not_called_verified() {
    let depot = Depot::start();
    write_tree(&depot.path("src"));
    let link = depot.send(&["src"]);
    let none = depot.run(&["receive", &link, "dst", "--include", "nope*"]);
    assert_eq!(none.code, 0, "{}", none.stderr);
    assert!(none.stdout.contains("nothing is verified"), "{}", none.stdout);
    let some = depot.run(&["receive", &link, "dst", "--include", "src/zero"]);
    assert!(some.stdout.contains("verified against the depot's signature"), "{}", some.stdout);
}

#[test]
fn a_dry_run_into_no_folder_ends_as_a_run_does() {
    let depot = Depot::start();
    std::fs::write(depot.path("file"), "content").unwrap();
    let link = depot.send(&["file"]);
    let [run, dry] = [&[][..], &["-n"]].map(|more| {
        let ran = depot.run(&[&["receive", &link, "file/below"], more].concat());
        (ran.code, ran.stderr)
    });
    assert_eq!(run.0, 2, "{}", run.1);
    assert_eq!(dry, run);
}
