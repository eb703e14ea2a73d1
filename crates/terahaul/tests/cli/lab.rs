use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::rig::{Ran, send_signal, spawn, terahaul, wait_until};

pub fn lab(arguments: &[&str]) -> Ran {
    let home = tempfile::tempdir().unwrap();
    Ran::of_child(spawn({
        let mut command = terahaul(home.path());
        command.arg("lab").args(arguments);
        command
    }))
}

/// Whether paths cannot be made here, in which case it says so.
pub fn impossible(ran: &Ran) -> bool {
    let missing = ["may not make network namespaces", "/dev/net/tun", "install the Debian package"];
    let skipped = ran.code != 0 && missing.iter().any(|text| ran.stderr.contains(text));
    if skipped {
        println!("skipped: {}", ran.stderr);
    }
    skipped
}

#[test]
fn the_ready_paths_are_listed_for_people_and_scripts() {
    let ran = lab(&["path", "list"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(ran.stdout.contains("cesnet-wan") && ran.stdout.contains("8.15 Gbit/s"), "{}", ran.stdout);
    assert_eq!(lab(&["path", "--json", "list"]).event("done")["paths"].as_array().map(Vec::len), Some(11));
    let ran = lab(&["path", "list", "--json"]);
    let paths = ran.event("done")["paths"].as_array().unwrap().clone();
    assert_eq!(paths.len(), 11);
    assert!(
        paths.iter().any(|path| path["name"] == "policed" && path["spec"]["queue"] == "none"),
        "{paths:?}"
    );
}

#[test]
fn a_command_runs_on_the_path_and_its_code_is_the_labs() {
    let flags = ["path", "--path", "satellite", "--rtt", "20ms", "--far", "exec sleep 100", "--"];
    let script = "ip -o address | grep -q 198.18.0.1 && test $TERAHAUL_LAB_FAR = 198.18.0.2 && exit 9";
    let ran = lab(&[&flags[..], &["sh", "-c", script]].concat());
    if impossible(&ran) {
        return;
    }
    assert_eq!(ran.code, 9, "{}", ran.stderr);
    assert!(ran.stderr.contains("lost after the bottleneck"), "{}", ran.stderr);
    let ran = lab(&["--json", "path", "--rate", "10mbit", "--", "sh", "-c", "kill -KILL $$"]);
    assert_eq!(ran.code, 137);
    let done: Value = ran.event("done");
    assert_eq!((&done["exit"], &done["path"]["rate"]), (&137.into(), &"10mbit".into()));
    assert_eq!(done["counters"]["near_to_far"]["queue_dropped"], 0);
}

#[test]
fn a_command_that_is_not_found_ends_as_in_a_shell_and_without_a_report() {
    for program in ["nosuchcmd", "/nowhere/nosuchcmd"] {
        let ran = lab(&["path", "--rate", "1gbit", "--", program]);
        assert_eq!(ran.code, 127, "{}", ran.stderr);
        assert!(ran.stderr.starts_with(&format!("terahaul: '{program}' was not found")), "{}", ran.stderr);
        assert_eq!(ran.stderr.lines().count(), 1, "{}", ran.stderr);
    }
    let ran = lab(&["--json", "path", "--rate", "1gbit", "--", "nosuchcmd"]);
    assert_eq!((ran.code, ran.event("error")["exit"].as_u64()), (127, Some(127)), "{}", ran.stdout);
}

#[test]
fn what_cannot_be_emulated_is_refused_before_anything_is_made() {
    for (arguments, remedy) in [
        (&["path", "--rtt", "1ms", "--", "true"][..], "--rate"),
        (&["path", "--path", "moon", "--", "true"], "lab path list"),
        (&["path", "--rate", "1gbit"], "after '--'"),
        (&["path", "--rate", "1gbit", "list"], "after '--'"),
        (&["path", "--rate", "1gbit", "--loss", "2", "--", "true"], "0.1%"),
    ] {
        let ran = lab(arguments);
        assert_eq!(ran.code, 2, "{arguments:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(remedy), "{}", ran.stderr);
    }
}

#[test]
fn ctrl_c_ends_everything_on_the_path() {
    let home = tempfile::tempdir().unwrap();
    let mark = home.path().join("pids");
    let far = format!("sleep 1000 & echo $! > {0}.new && mv {0}.new {0}; wait", mark.display());
    let mut command = terahaul(home.path());
    command.args(["lab", "path", "--rate", "1gbit", "--far", &far, "--", "sleep", "1000"]);
    let mut child = spawn(command);
    wait_until("the path is there", || mark.exists() || child.try_wait().unwrap().is_some());
    if !mark.exists() {
        let ran = Ran::of_child(child);
        assert!(impossible(&ran), "{}", ran.stderr);
        return;
    }
    send_signal(child.id(), "INT");
    let ran = Ran::of_child(child);
    assert_eq!(ran.code, 130, "{}", ran.stderr);
    let pid = std::fs::read_to_string(&mark).unwrap();
    let state = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
    // What has ended may still wait for its parent to look.
    assert!(state.is_err() || state.is_ok_and(|state| state.contains(") Z ")));
}

/// Runs the lab as a user who may do nothing special, from a copy of the program that every user can run.
#[test]
fn an_ordinary_user_has_paths_too_where_the_kernel_allows_it() {
    let home = tempfile::tempdir().unwrap();
    fs::set_permissions(home.path(), Permissions::from_mode(0o777)).unwrap();
    let program = home.path().join("terahaul");
    fs::copy(env!("CARGO_BIN_EXE_terahaul"), &program).unwrap();
    let program = program.display();
    let mut command = if rustix::process::getuid().is_root() {
        let mut command = Command::new("setpriv");
        command.args([
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
            "--inh-caps=-all",
            "--bounding-set=-all",
        ]);
        command.arg(program.to_string());
        command
    } else {
        Command::new(program.to_string())
    };
    let far = format!("exec {program} serve --json --data depot --listen 198.18.0.2:8750 > ready");
    let near = format!(
        "until grep -q ready ready; do sleep 0.02; done
         exec {program} probe 198.18.0.2:8750 --json"
    );
    command.args(["lab", "path", "--rate", "10mbit", "--rtt", "40ms", "--far", &far, "--"]);
    command.args(["sh", "-c", &near]);
    command.env("HOME", home.path()).current_dir(home.path()).stdin(Stdio::null());
    let ran = Ran::of(command);
    if impossible(&ran) {
        return;
    }
    assert_eq!(ran.code, 0, "{} {}", ran.stdout, ran.stderr);
    let rtt = ran.event("done")["rtt"].as_f64().unwrap();
    // What the emulated path takes up sooner than it guesses is up to 0.2 ms early, each way.
    assert!((0.0396..0.06).contains(&rtt), "{}", ran.stdout);
}

#[test]
fn a_comparison_of_peers_none_of_which_is_here_is_refused_and_writes_nothing() {
    let home = tempfile::tempdir().unwrap();
    let mut command = terahaul(home.path());
    command.args([
        "lab", "compare", "--path", "lan", "--work", "file:1MB", "--with", "udt,quic", "--out", "out",
    ]);
    // Their drivers are no package's.
    command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    let ran = Ran::of(command);
    if impossible(&ran) {
        return;
    }
    assert_eq!(ran.code, 5, "{}{}", ran.stdout, ran.stderr);
    for why in ["udt: terahaul-bench-udt is", "quic: terahaul-bench-quinn is"] {
        assert!(ran.stderr.contains(why), "{}", ran.stderr);
    }
    assert_eq!(ran.stdout, "");
    assert!(!home.path().join("out").exists());
}
