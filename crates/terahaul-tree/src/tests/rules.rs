//! Rules, compared with what the real rsync makes of them.

use super::*;
use std::process::Command;

use crate::{LineEnd, Rule, Sense, read_rules};

/// A generator good enough to pick from lists, and the same on every machine.
pub(super) struct Picks(pub(super) u64);

impl Picks {
    pub(super) fn next(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % below
    }

    pub(super) fn of<'a>(&mut self, list: &[&'a str]) -> &'a str {
        list[self.next(list.len())]
    }

    /// Mostly excludes.
    pub(super) fn sense(&mut self) -> Sense {
        if self.next(3) == 0 { Sense::Include } else { Sense::Exclude }
    }
}

const NAMES: [&str; 9] = ["a", "ab", "b", "foo", "foo.o", "b[c", "a*", "x-1", "\u{e9}"];
const PARTS: [&str; 27] = [
    "a",
    "b",
    "foo",
    ".o",
    "*",
    "?",
    "**",
    "/",
    "[ab]",
    "[!a]",
    "[^f]",
    "[a-f]",
    "[[:digit:]]",
    "\\*",
    "\\[",
    "x-",
    "[]a]",
    "o",
    "/",
    "*",
    "[z-a]",
    "\u{e9}",
    "ab",
    "/**",
    "**/",
    "[a\\-z]",
    "1",
];

fn tree(dir: &Path) {
    for first in NAMES {
        for second in NAMES {
            let folder = dir.join(first).join(second);
            std::fs::create_dir_all(&folder).unwrap();
            for file in ["foo.o", "ab", "a*", "ab\\"] {
                std::fs::write(folder.join(file), "").unwrap();
            }
        }
        std::fs::write(dir.join(format!("{first}.txt")), "").unwrap();
        std::fs::write(dir.join(first).join("x-2"), "").unwrap();
    }
}

/// As rsync writes it before a pattern.
fn sign(rule: &Rule) -> &'static [u8] {
    match rule.sense {
        Sense::Include => b"+",
        Sense::Exclude => b"-",
    }
}

fn rsync_lists(from: &Path, rules: &[Rule]) -> Vec<String> {
    let list = from.parent().unwrap().join("rules");
    let line = |rule: &Rule| [sign(rule), b" ", &*rule.pattern, b"\n"].concat();
    std::fs::write(&list, rules.iter().flat_map(line).collect::<Vec<u8>>()).unwrap();
    let mut command = Command::new("rsync");
    command.args(["-n", "-r", "--out-format=%n", "-8", "--exclude-from"]).arg(&list);
    command.arg(from).arg(from.parent().unwrap().join("nowhere/"));
    let output = command.output().expect("rsync is installed");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let listed = String::from_utf8(output.stdout).unwrap();
    let mut paths: Vec<_> = listed
        .lines()
        .filter(|line| !line.starts_with("created directory"))
        .map(|line| line.trim_end_matches('/').to_owned())
        .collect();
    paths.sort();
    paths
}

#[test]
fn rules_mean_what_they_mean_to_rsync() {
    let dir = tempfile::tempdir().unwrap();
    let from = dir.path().join("t");
    tree(&from);
    let mut picks = Picks(7);
    for case in 0..150 {
        let rules: Vec<_> = (0..1 + picks.next(4))
            .map(|_| {
                let start = if picks.next(4) == 0 { "/t/" } else { "" };
                let middle: String = (0..1 + picks.next(3)).map(|_| picks.of(&PARTS)).collect();
                let end = picks.of(&["", "", "", "/", "/***", "/****", "***", "*", "/*", "\\"]);
                let sense = picks.sense();
                let pattern = format!("{start}{middle}{end}").replace("//", "/");
                Rule { sense, pattern: pattern.into_bytes().into() }
            })
            .filter(|rule| Filter::ordered(std::slice::from_ref(rule)).is_ok())
            .collect();
        let mut ours = Sender::with(&[&from], &Filter::ordered(&rules).unwrap(), 0).entries();
        ours.sort_by(|a, b| a.path.cmp(&b.path));
        let ours: Vec<_> = ours.iter().map(|entry| entry.path.to_text()).collect();
        let mut theirs = rsync_lists(&from, &rules);
        theirs.sort_by(|a, b| a.as_bytes().cmp(b.as_bytes()));
        let said: Vec<_> = rules
            .iter()
            .map(|rule| format!("{} {}", sign(rule).escape_ascii(), rule.pattern.escape_ascii()))
            .collect();
        assert_eq!(ours, theirs, "case {case}: {said:?}");
    }
}

#[test]
fn a_file_of_rules_is_read_as_rsync_reads_it() {
    let mut rules = vec![Rule { sense: Sense::Include, pattern: (*b"forgotten").into() }];
    read_rules(
        &mut rules,
        b"- early\n!\n# no\n; no\n\n+ *.c\r\n*.o\n- - x\n+_y\n",
        Sense::Exclude,
        LineEnd::Newline,
    );
    let texts: Vec<_> =
        rules.iter().map(|rule| (rule.sense, rule.pattern.escape_ascii().to_string())).collect();
    let expected =
        [(Sense::Include, "*.c"), (Sense::Exclude, "*.o"), (Sense::Exclude, "- x"), (Sense::Exclude, "+_y")];
    assert_eq!(texts, expected.map(|(sense, text)| (sense, text.to_owned())));
    let mut by_nul = vec![];
    read_rules(&mut by_nul, b"#a\0b\nc\0", Sense::Include, LineEnd::Nul);
    assert_eq!(by_nul.len(), 2);
}

#[test]
fn a_pattern_that_cannot_be_read_is_named() {
    for pattern in ["[a", "[[:none:]]", "/", ""] {
        let rule = Rule { sense: Sense::Exclude, pattern: pattern.as_bytes().into() };
        let error = Filter::ordered(&[rule]).unwrap_err().to_string();
        assert!(error.starts_with(&format!("'{pattern}' is not a pattern: ")), "{error}");
    }
}

#[test]
fn a_list_decides_what_is_walked() {
    let dir = tempfile::tempdir().unwrap();
    plant(dir.path(), &[("t/a/x", b"1"), ("t/a/y", b"1"), ("t/b/deep/z", b"1"), ("t/c", b"1")]);
    let walked = |list: &[u8], recursive| {
        let filter =
            Filter::default().with_list(crate::read_list(list, LineEnd::Newline).unwrap(), recursive);
        let sender = Sender::with(&[dir.path().join("t/")], &filter, 2);
        let skipped: Vec<_> = sender.skipped.iter().map(|skipped| skipped.cause).collect();
        (sender.paths(), skipped)
    };
    assert_eq!(walked(b"a/x\nb\n", false), (["a", "a/x", "b"].map(String::from).to_vec(), vec![]));
    assert_eq!(walked(b"b\n", true).0, ["b", "b/deep", "b/deep/z"]);
    let (paths, skipped) = walked(b"c\nnone\nno/ne\n", false);
    assert_eq!((paths, skipped.len()), (vec!["c".to_owned()], 2));
}
