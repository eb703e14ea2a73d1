//! What a shell offers where TAB is pressed.

use std::process::{Command, Stdio};

/// What bash's own function answers with for the last of `words`.
fn offered(words: &[&str]) -> Vec<String> {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("file"), "").unwrap();
    let script = r#"source <("$0" completions bash)
        COMP_WORDS=(terahaul "$@"); COMP_CWORD=$#
        [[ $(complete -p terahaul) =~ -F\ ([^ ]+) ]]
        "${BASH_REMATCH[1]}" terahaul "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
        ((${#COMPREPLY[@]} == 0)) || printf '%s\n' "${COMPREPLY[@]}""#;
    let ran = Command::new("bash")
        .args(["--norc", "-c", script, env!("CARGO_BIN_EXE_terahaul")])
        .args(words)
        .current_dir(home.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8(ran.stdout).unwrap().lines().map(str::to_owned).collect()
}

/// Where a function offers nothing, bash offers files: flags took their place.
#[test]
fn bash_offers_flags_only_where_one_is_begun() {
    for words in [&["send", ""][..], &["send", "a", ""], &["cp", "a", ""], &["receive", "LINK", ""]] {
        assert_eq!(offered(words), [""; 0], "{words:?}");
    }
    assert!(offered(&["send", "--na"]).iter().eq(["--name"]), "{:?}", offered(&["send", "--na"]));
    assert!(offered(&["cp", "a", "-"]).contains(&"--delete".to_owned()));
    assert!(offered(&[""]).contains(&"send".to_owned()));
    assert!(offered(&["token", ""]).iter().eq(["create", "list", "extend", "revoke", "help"]));
    assert!(offered(&["completions", "z"]).iter().eq(["zsh"]));
    assert!(offered(&["send", "--receipt", ""]).iter().eq(["file"]), "what a flag takes");
}
