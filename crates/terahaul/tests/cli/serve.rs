use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use crate::rig::{Depot, Ran, terahaul};

#[test]
fn people_get_the_page_and_two_lines_to_paste() {
    let home = tempfile::tempdir().unwrap();
    let mut command = terahaul(home.path());
    command.args(["serve", "--listen", "127.0.0.1:0"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
    let mut text = String::new();
    while !text.contains("TERAHAUL_TOKEN") {
        text += &lines.next().unwrap().unwrap();
        text.push('\n');
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(text.contains("http://127.0.0.1:") && text.contains("/#signin="), "{text}");
    assert!(text.contains("export TERAHAUL_URL='https://127.0.0.1:") && text.contains("#sha256="), "{text}");
    assert!(text.contains("export TERAHAUL_TOKEN='tht_"), "{text}");
    assert!(home.path().join("terahaul-data").is_dir(), "its data is in ./terahaul-data");
}

#[test]
fn the_owners_token_stays_the_same_and_is_private() {
    let mut depot = Depot::start();
    let path = depot.path("depot/owner-token");
    assert_eq!(std::fs::read_to_string(&path).unwrap().trim(), depot.token);
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    depot.crash_and_restart();
    assert_eq!(depot.run(&["list"]).code, 0, "the token still holds");
    assert!(depot.page.contains("/#signin="));
}

#[test]
fn a_data_folder_in_use_and_a_port_in_use_are_named() {
    let depot = Depot::start();
    let serve = |args: &[&str]| {
        let mut command = terahaul(depot.home.path());
        command.arg("serve").args(args);
        Ran::of(command)
    };
    let ran = serve(&["--data", "depot", "--listen", "127.0.0.1:0"]);
    assert_eq!((ran.code, ran.stderr.contains("--data")), (2, true), "{}", ran.stderr);
    let ran = serve(&["--data", "other", "--listen", &depot.listen]);
    assert_eq!((ran.code, ran.stderr.contains("--listen")), (2, true), "{}", ran.stderr);
    assert!(!depot.path("other").exists(), "nothing is left of a depot that could not listen");
}

#[test]
fn a_depot_that_cannot_be_made_as_asked_leaves_nothing_behind() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("file"), "no certificate").unwrap();
    for (args, remedy) in [
        (&["--data", "new", "--tls-cert", "file", "--tls-key", "file"][..], "file"),
        (&["--data", "file"], "is not a folder: give --data"),
        (&["--data", "/proc/depot"], "/proc/depot"),
    ] {
        let mut command = terahaul(home.path());
        command.args(["serve", "--listen", "127.0.0.1:0"]).args(args);
        let ran = Ran::of(command);
        assert_eq!((ran.code, ran.stderr.contains(remedy)), (2, true), "{args:?}: {}", ran.stderr);
    }
    assert!(!home.path().join("new").exists(), "the next start is to say that the depot is new");
}

#[test]
fn a_certificate_that_no_client_will_accept_is_not_taken_without_a_word() {
    let depot = Depot::start();
    let kept = |name: &str| depot.path("depot/keys").join(name);
    let other = Depot::start();
    let mut command = terahaul(depot.home.path());
    command
        .args(["serve", "--listen", "127.0.0.1:0", "--url", "https://other.example"])
        .arg("--tls-cert")
        .arg(kept("tls-cert.pem"))
        .arg("--tls-key")
        .arg(kept("tls-key.pem"))
        .env("SSL_CERT_FILE", other.path("depot/keys/tls-cert.pem"))
        .env_remove("SSL_CERT_DIR");
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let lines = std::io::BufRead::lines(std::io::BufReader::new(child.stderr.take().unwrap()));
    let told: Vec<_> = lines.map(Result::unwrap).take_while(|line| !line.contains("Ctrl-C")).collect();
    child.kill().unwrap();
    child.wait().unwrap();
    for said in ["is not for other.example, but for localhost, 127.0.0.1,", "no authority known"] {
        assert!(told.iter().any(|line| line.contains("WARN") && line.contains(said)), "{told:?}");
    }
}

#[test]
fn a_request_to_terminate_ends_the_depot_in_good_order() {
    let mut depot = Depot::start();
    depot.signal("TERM");
    assert_eq!(depot.wait(), Some(0));
}
