//! Command lines as rsync's users type them: nothing that was to be copied is left out without a word, and nothing is removed that a
//! dry run would only have named.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::rig::{Ran, terahaul_through};
use crate::sshd::Sshd;

fn tree() -> Sshd {
    let ssh = Sshd::start();
    for path in ["s1/one", "s2/two", "2024/year", "d/precious"] {
        fs::create_dir_all(ssh.path(path).parent().unwrap()).unwrap();
        fs::write(ssh.path(path), path).unwrap();
    }
    ssh
}

#[test]
fn a_dry_run_in_any_word_removes_nothing() {
    let ssh = tree();
    for words in ["-avin", "-rltn", "-ain", "-rltpogDn"] {
        for to in ["d".to_owned(), ssh.far("d")] {
            let ran = ssh.run(&[words, "--delete", "s1/", &to]);
            assert_eq!(ran.code, 0, "{words}: {}", ran.stderr);
            assert!(ssh.path("d/precious").exists() && !ssh.path("d/one").exists(), "{words}");
        }
    }
    assert_eq!(ssh.run(&["-in", "--delete", "s1/", "d"]).code, 2);
    assert!(ssh.path("d/precious").exists());
}

#[test]
fn no_source_is_taken_for_a_flags_value() {
    let ssh = tree();
    for words in [&["-ai"][..], &["-rlt"], &["-az"], &["-avzP"], &["-a", "--compress"], &["-a", "-a"]] {
        for to in ["to".to_owned(), ssh.far("to")] {
            ssh.copy(&[words, &["2024", "s1", "s2", &to]].concat());
            for path in ["to/2024/year", "to/s1/one", "to/s2/two"] {
                assert!(ssh.path(path).exists(), "{words:?}: {path}");
            }
            fs::remove_dir_all(ssh.path("to")).unwrap();
        }
    }
    // By themselves they are ssh's, and say so.
    for (flag, said) in
        [("-i", "--itemize-changes"), ("-l", "-l is ssh's"), ("-o", "-o is ssh's"), ("-P", "ssh's port")]
    {
        let ran = ssh.run(&[flag, "s1", "s2", "to"]);
        assert_eq!(ran.code, 2, "{flag}");
        assert!(ran.stderr.contains(said), "{flag}: {}", ran.stderr);
    }
    let ran = ssh.run(&["-rl", "s1", "s2", &ssh.far("to")]);
    assert_eq!((ran.code, ssh.path("to").exists()), (2, false), "{}", ran.stderr);
    let ran = ssh.run(&["-i", "s1", "s2", &ssh.far("to")]);
    assert_eq!((ran.code, ssh.path("to").exists()), (2, false), "{}", ran.stderr);
}

#[test]
fn flags_about_another_host_are_refused_where_there_is_none() {
    let ssh = tree();
    let flags =
        [&["--install"][..], &["--through-ssh"], &["--ports", "50000-50100"], &["--far-command", "terahaul"]];
    for words in flags {
        let mut command = ssh.bare_without_settings(&[words, &["s1", "to"]].concat());
        command.stdin(std::process::Stdio::null());
        let ran = Ran::of(command);
        assert_eq!((ran.code, ssh.path("to").exists()), (2, false), "{words:?}: {}", ran.stderr);
        assert!(ran.stderr.contains("nothing here is on another host"), "{words:?}: {}", ran.stderr);
    }
}

#[test]
fn wrappers_that_always_say_how_hosts_are_reached_copy_here_too() {
    let ssh = tree();
    for words in [&["-4"][..], &["-6"], &["-e", "ssh"], &["-ae", "ssh -p 2222"], &["--rsh=ssh"]] {
        ssh.copy(&[words, &["s1", "to"]].concat());
        assert!(ssh.path("to/s1/one").exists(), "{words:?}");
        fs::remove_dir_all(ssh.path("to")).unwrap();
    }
    // A depot is no other host, and is reached all the same.
    let to_depot = |words: &[&str]| ssh.run(&[words, &["-n", "s1", "https://127.0.0.1:1/"]].concat());
    let ran = to_depot(&["-4"]);
    assert!(!ran.stderr.contains("-4"), "{}", ran.stderr);
    let ran = to_depot(&["-l", "user"]);
    assert!(ran.code == 2 && ran.stderr.contains("a depot is reached without ssh"), "{}", ran.stderr);
}

#[test]
fn a_flag_that_only_rsync_has_is_told_what_there_is_in_its_place() {
    let ssh = tree();
    for (flag, said) in [
        ("--bwlimit=1m", "'--limit'"),
        ("--link-dest=old", "snapshots"),
        ("--remove-source-files", "never removes anything"),
        ("-x", "'find … -print0'"),
        ("--one-file-system", "'find … -print0'"),
    ] {
        let ran = ssh.run(&["-a", flag, "s1", "to"]);
        assert_eq!((ran.code, ssh.path("to").exists()), (2, false), "{flag}: {}", ran.stderr);
        assert!(ran.stderr.contains(said), "{flag}: {}", ran.stderr);
    }
}

#[test]
fn a_list_that_names_the_source_itself_brings_all_of_it() {
    let ssh = tree();
    fs::write(ssh.path("list"), "./\n").unwrap();
    for (at, (from, to)) in
        [("s1".to_owned(), "a".to_owned()), ("s1".to_owned(), ssh.far("b")), (ssh.far("s1"), "c".to_owned())]
            .iter()
            .enumerate()
    {
        ssh.copy(&["-r", "--files-from=list", from, to]);
        assert!(ssh.path(["a/one", "b/one", "c/one"][at]).exists());
    }
}

#[test]
fn a_read_only_folder_is_copied_again() {
    let ssh = tree();
    let not_root = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-all", "--"];
    let as_root = rustix::process::geteuid().is_root();
    let through: Vec<String> = not_root.iter().filter(|_| as_root).map(ToString::to_string).collect();
    let set_mode =
        |path: &str, mode| fs::set_permissions(ssh.path(path), fs::Permissions::from_mode(mode)).unwrap();
    for content in ["first", "first", "changed"] {
        set_mode("s1", 0o755);
        fs::write(ssh.path("s1/one"), content).unwrap();
        set_mode("s1", 0o555);
        let mut command = terahaul_through(ssh.home.path(), &through);
        let ran = Ran::of({
            command.args(["cp", "-a", "s1/", "read-only"]);
            command
        });
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        assert_eq!(fs::read_to_string(ssh.path("read-only/one")).unwrap(), content);
        let mode = fs::metadata(ssh.path("read-only")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o555);
        assert_eq!(fs::read_dir(ssh.path("read-only")).unwrap().count(), 1, "nothing is left beside it");
    }
    // And gets the permission bits of the source, also those that it had to have meanwhile.
    set_mode("s1", 0o755);
    let mut command = terahaul_through(ssh.home.path(), &through);
    command.args(["cp", "-a", "s1/", "read-only"]);
    assert_eq!(Ran::of(command).code, 0);
    assert_eq!(fs::metadata(ssh.path("read-only")).unwrap().permissions().mode() & 0o777, 0o755);
}
