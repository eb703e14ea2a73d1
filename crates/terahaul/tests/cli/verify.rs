use crate::rig::{Depot, Ran, write_tree};

/// A received tree, its link, and the receipt in `r.json`.
fn received() -> (Depot, String) {
    let depot = Depot::start();
    write_tree(&depot.path("src"));
    let link = depot.send(&["src", "--receipt", "r.json"]);
    assert_eq!(depot.run(&["receive", &link, "dst", "--quiet"]).code, 0);
    (depot, link)
}

#[test]
fn a_receipt_proves_the_files_without_a_depot() {
    let (mut depot, _) = received();
    depot.signal("TERM");
    assert_eq!(depot.wait(), Some(0));
    for dir in ["dst", "."] {
        let ran = depot.run(&["verify", "r.json", dir]);
        assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
    }
}

#[test]
fn every_difference_is_named() {
    let (depot, link) = received();
    let at = |name: &str| depot.path("dst/src").join(name);
    std::fs::write(at("zero"), "x").unwrap();
    let mut bytes = std::fs::read(at("large.bin")).unwrap();
    bytes[5_000_000] ^= 1;
    std::fs::write(at("large.bin"), bytes).unwrap();
    std::fs::remove_file(at("sub/many/7.bin")).unwrap();
    std::fs::remove_file(at("link")).unwrap();
    std::os::unix::fs::symlink("elsewhere", at("link")).unwrap();
    std::fs::remove_file(at("sub/exact.bin")).unwrap();
    std::fs::create_dir(at("sub/exact.bin")).unwrap();
    std::fs::write(at("sub/surplus"), "").unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, at("sub/surplus pipe"), rustix::fs::Mode::RUSR).unwrap();
    for against in ["r.json", &link] {
        let ran = depot.run(&["verify", against, "dst", "--extra", "--json"]);
        assert_eq!(ran.code, 8);
        let mut found: Vec<_> = ran
            .events_named("difference")
            .iter()
            .map(|event| {
                (event["path"].as_str().unwrap().to_owned(), event["what"].as_str().unwrap().to_owned())
            })
            .collect();
        found.sort();
        let expected = [
            ("src/large.bin", "content"),
            ("src/link", "target"),
            ("src/sub/exact.bin", "kind"),
            ("src/sub/many/7.bin", "missing"),
            ("src/sub/surplus", "extra"),
            ("src/sub/surplus pipe", "extra"),
            ("src/zero", "size"),
        ];
        assert_eq!(found, expected.map(|(path, what)| (path.to_owned(), what.to_owned())));
        let done = ran.event("done");
        assert_eq!((&done["different"], &done["extra"]), (&7.into(), &2.into()));
        let said = ran.event("error")["message"].as_str().unwrap().to_owned();
        assert!(said.contains("5 entries differ") && said.contains("; 2 entries are there beside"), "{said}");
        assert_eq!(ran.event("error")["exit"], 8);
    }
}

#[test]
fn a_pattern_that_selects_nothing_verifies_nothing() {
    let (depot, _) = received();
    let ran = depot.run(&["verify", "r.json", "dst", "--include", "*.tif"]);
    assert_eq!(ran.code, 2, "{}{}", ran.stdout, ran.stderr);
    assert!(ran.stderr.contains("--include"), "{}", ran.stderr);
    assert_eq!(depot.run(&["verify", "r.json", "dst", "--include", "zero"]).code, 0);
}

#[test]
fn a_file_in_the_place_of_the_folder_is_a_mistake_on_the_command_line() {
    let (depot, _) = received();
    let ran = depot.run(&["verify", "r.json", "dst/src/large.bin"]);
    assert_eq!((ran.code, ran.stderr.contains("is not a folder")), (2, true), "{}", ran.stderr);
}

#[test]
fn a_receipt_that_cannot_be_read_says_nothing_about_the_files() {
    let (depot, _) = received();
    let ran = depot.run(&["verify", "src", "dst"]);
    assert_eq!(ran.code, 2, "{}", ran.stderr);
}

#[test]
fn an_altered_receipt_is_refused() {
    let (depot, _) = received();
    let text = std::fs::read_to_string(depot.path("r.json")).unwrap();
    // A folder's size, a file's size, a path, the name.
    for (from, to) in [
        ("\"size\":0", "\"size\":1"),
        ("\"size\":9000001", "\"size\":9000002"),
        ("src/zero", "src/none"),
        ("\"name\":\"src\"", "\"name\":\"crs\""),
    ] {
        assert!(text.contains(from), "{from}");
        std::fs::write(depot.path("forged.json"), text.replacen(from, to, 1)).unwrap();
        let ran = depot.run(&["verify", "forged.json", "dst"]);
        assert_eq!(ran.code, 8, "{from}");
        assert!(ran.stderr.contains("altered"), "{}", ran.stderr);
    }
}

#[test]
fn no_message_repeats_a_link() {
    let (depot, link) = received();
    assert_eq!(depot.run(&["verify", &format!(" {link}\n"), "dst"]).code, 0);
    let http = link.replace("https://", "http://");
    let secret = link.split(['#', '&']).nth(1).unwrap();
    assert!(secret.starts_with("thl_"));
    for words in [&["verify", &http, "dst"][..], &["remove", &link], &["extend", &link, "--expire-days", "3"]]
    {
        for more in [&[][..], &["--json"]] {
            let ran = depot.run(&[words, more].concat());
            assert_eq!(ran.code, 2, "{words:?}: {}", ran.stderr);
            assert!(!format!("{}{}", ran.stdout, ran.stderr).contains(secret), "{words:?}");
        }
    }
}

/// They were said to differ, and were to be received again.
#[test]
fn files_that_cannot_be_opened_because_too_many_are_open_do_not_differ() {
    let (depot, _) = received();
    for files in 8..24 {
        for extra in [&[][..], &["--extra"]] {
            let program = depot.command(&[&["verify", "r.json", "dst"], extra].concat());
            let mut command = std::process::Command::new("prlimit");
            command.arg(format!("--nofile={files}")).arg(program.get_program()).args(program.get_args());
            command.current_dir(depot.home.path());
            let ran = Ran::of(command);
            let said = "raise the limit on open files, as with 'ulimit -n'";
            assert!(
                ran.code == 0 || (ran.code == 1 && ran.stderr.contains(said)),
                "{files} {extra:?}: {}: {}",
                ran.code,
                ran.stderr
            );
        }
    }
}

/// It could not be read twice: 'Illegal seek'.
#[test]
fn a_receipt_may_come_through_a_pipe() {
    let (depot, _) = received();
    let verified = |receipt: &str| {
        let program = depot.command(&["verify", "/dev/stdin", "dst"]);
        let mut command = std::process::Command::new("sh");
        command.args(["-c", &format!("cat {receipt} | \"$0\" \"$@\"")]).arg(program.get_program());
        command.args(program.get_args()).current_dir(depot.home.path());
        Ran::of(command)
    };
    let ran = verified("r.json");
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
    let ran = verified("/dev/zero");
    assert_eq!(ran.code, 2, "{}", ran.stderr);
    std::fs::write(depot.path("dst/src/zero"), "x").unwrap();
    assert_eq!(verified("r.json").code, 8);
}
