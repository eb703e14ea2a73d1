use std::process::{Command, Stdio};

use crate::rig::{Depot, Ran, terahaul, wait_for, write_tree};

#[test]
fn json_is_one_object_a_line_from_start_to_done() {
    let depot = Depot::start();
    write_tree(&depot.path("src"));
    let ran = depot.run(&["send", "src", "--json"]);
    let events = ran.events();
    assert_eq!(events.first().unwrap()["event"], "start");
    let done = events.last().unwrap();
    assert_eq!(done["event"], "done");
    for field in ["transfer", "link", "entries", "bytes", "failed", "moved_bytes", "root", "public_key"] {
        assert!(!done[field].is_null(), "{field}");
    }
    assert_eq!(ran.stderr, "", "with --json everything is on stdout");
}

#[test]
fn an_error_is_typed_also_when_the_command_line_is_wrong() {
    let depot = Depot::start();
    for (args, code, exit) in [
        (&["info", "aaaaaaaaaaaaaaaaaaaaaaaaaa", "--json"][..], "not_found", 5),
        (&["list", "--no-such-flag", "--json"], "usage", 2),
        (&["receive", "--json"], "usage", 2),
    ] {
        let ran = depot.run(args);
        let error = ran.event("error");
        assert_eq!((error["code"].as_str(), error["exit"].as_i64()), (Some(code), Some(exit)));
        assert_eq!(i64::from(ran.code), exit);
    }
    let error = depot.run(&["receive", "--json"]).event("error");
    assert!(error["message"].as_str().unwrap().contains("LINK"), "{error}");
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let depot = Depot::start();
    for number in 0..3000 {
        std::fs::create_dir_all(depot.path(&format!("src/{number}-{}", "x".repeat(100)))).unwrap();
    }
    let link = depot.send(&["src"]);
    let mut command = depot.command(&["info", &link]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(wait_for(&mut child).code(), Some(0));
    assert_eq!(std::io::read_to_string(child.stderr.take().unwrap()).unwrap(), "");
}

#[test]
fn a_result_that_cannot_be_written_is_an_error() {
    let depot = Depot::start();
    write_tree(&depot.path("src"));
    for args in [&["send", "src"][..], &["send", "src", "--json"], &["help"], &["--version"]] {
        let mut child = depot.command(args).stdout(full()).stderr(Stdio::piped()).spawn().unwrap();
        assert_eq!(wait_for(&mut child).code(), Some(1));
        let stderr = std::io::read_to_string(child.stderr.take().unwrap()).unwrap();
        assert!(stderr.contains("could not be written to stdout"), "{stderr}");
    }
}

/// A token that nobody has was left there, and a link was to be had by nothing but sending once more.
#[test]
fn what_is_to_be_done_about_a_result_that_is_lost_is_said() {
    let depot = Depot::start();
    std::fs::write(depot.path("a"), "a").unwrap();
    let create = ["token", "create", "--label", "lost", "--scope", "send"];
    for (args, said) in [(&create[..], "'terahaul token revoke "), (&["send", "a"], "'terahaul info ")] {
        for more in [&[][..], &["--json"]] {
            let mut command = depot.command(&[args, more].concat());
            command.stdout(full()).stderr(std::process::Stdio::piped());
            let ran = Ran::of_child(command.spawn().unwrap());
            assert!(ran.code == 1 && ran.stderr.contains(said), "{args:?}: {}", ran.stderr);
        }
    }
}

/// The standard library takes what it cannot write to such a file for written.
#[test]
fn a_stdout_that_is_open_for_reading_only_is_an_error() {
    let depot = Depot::start();
    for args in [&["exit-codes"][..], &["list", "--json"], &["token", "list"], &["--help"], &["--version"]] {
        let null = std::fs::File::open("/dev/null").unwrap();
        // Somebody writes to it, so that it does not end.
        let (other_end, _writer) = std::io::pipe().unwrap();
        for stdout in [Stdio::from(null), Stdio::from(other_end)] {
            let mut child = depot.command(args).stdout(stdout).stderr(Stdio::piped()).spawn().unwrap();
            assert_eq!(wait_for(&mut child).code(), Some(1), "{args:?}");
            let stderr = std::io::read_to_string(child.stderr.take().unwrap()).unwrap();
            assert!(stderr.contains("could not be written to stdout"), "{stderr}");
        }
    }
}

#[test]
fn a_terminal_that_cannot_rewrite_a_line_gets_no_progress_bar() {
    let depot = Depot::start();
    write_tree(&depot.path("src"));
    let send = depot.command(&["send", "src"]);
    for (term, has_bar) in [("xterm", true), ("dumb", false)] {
        // Runs it on a terminal of its own.
        let mut script = Command::new("script");
        script.args(["-qec", &format!("{} send src", send.get_program().display()), "/dev/null"]);
        script.envs(send.get_envs().filter_map(|(name, value)| Some((name, value?))));
        script.current_dir(send.get_current_dir().unwrap()).env("TERM", term).stdin(Stdio::null());
        let shown = String::from_utf8(script.output().unwrap().stdout).unwrap();
        assert!(shown.contains("/t/"), "{shown}");
        assert_eq!(shown.contains('\u{1b}'), has_bar, "{term}: {shown:?}");
    }
}

/// Where nothing can be written.
fn full() -> std::fs::File {
    std::fs::File::options().write(true).open("/dev/full").unwrap()
}

#[test]
fn a_log_that_cannot_be_written_changes_nothing() {
    let depot = Depot::start();
    for (url, code) in [(depot.url.as_str(), 0), ("https://127.0.0.1:1/", 3)] {
        let mut command = depot.command(&["list"]);
        command.env("TERAHAUL_URL", url).env("TERAHAUL_LOG", "trace");
        let mut child = command.stdout(Stdio::null()).stderr(full()).spawn().unwrap();
        assert_eq!(wait_for(&mut child).code(), Some(code));
    }
}

#[test]
fn a_log_level_that_is_none_is_not_ignored_without_a_word() {
    let home = tempfile::tempdir().unwrap();
    for (level, is_warned_of) in [("nonsense=x", true), ("debug", false), ("", false)] {
        let mut command = terahaul(home.path());
        command.args(["completions", "bash"]).env("TERAHAUL_LOG", level);
        let ran = Ran::of(command);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        assert_eq!(
            ran.stderr.contains("TERAHAUL_LOG is not heeded"),
            is_warned_of,
            "{level}: {}",
            ran.stderr
        );
        assert!(!ran.stdout.contains("heeded"), "stdout is for results");
    }
}
