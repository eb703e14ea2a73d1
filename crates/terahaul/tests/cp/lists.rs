//! What is copied: lists, rules, patterns and several sources.

use std::fs;

use crate::rsync::rsync;
use crate::sshd::Sshd;
use crate::trees::{seen, text, two_trees};

#[test]
fn a_list_and_rules_choose_what_is_copied() {
    let ssh = Sshd::start();
    two_trees(&ssh);
    fs::write(ssh.path("list"), "sub/grown\0new\0").unwrap();
    ssh.copy(&["--files-from=list", "-0", "src", &ssh.far("a")]);
    fs::write(ssh.path("rules"), "- *.o\n+ /sub/\n+ /sub/**\n- *\n").unwrap();
    ssh.copy(&["--exclude-from=rules", &ssh.far("src/"), "b"]);
    let names = |dir: &str| {
        seen(&ssh.path(dir)).into_keys().map(|name| String::from_utf8(name).unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(names("a"), ["new", "sub", "sub/grown"]);
    assert_eq!(names("b"), ["sub", "sub/grown"]);
    let ran = ssh.run(&["--files-from=list", "-0", &ssh.far("src"), &ssh.far("a")]);
    assert_eq!(ran.code, 2);
}

/// Rules are for what a list names, and not for the folders on the way to it.
#[test]
fn a_list_and_rules_choose_what_they_choose_with_rsync() {
    let ssh = Sshd::start();
    for path in ["x/r.fastq", "x/n", "foo/b", "foo/sub/c", "foo/other", "top.fastq"] {
        let path = ssh.path("src").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "1").unwrap();
    }
    for (case, (flags, list)) in [
        (&["--include=*.fastq", "--exclude=*"][..], "x/r.fastq\nx/n\ntop.fastq\n"),
        (&["--exclude=foo"], "foo/b\ntop.fastq\n"),
        (&["--exclude=foo"], "foo\nfoo/b\n"),
        (&["--exclude=b"], "foo/b\nfoo/sub/c\n"),
        (&["--exclude=sub", "-r"], "foo\n"),
        (&["--exclude=sub", "-r"], "foo\nfoo/sub/c\n"),
        (&["--exclude=/foo", "-r"], "x\nfoo\n"),
    ]
    .iter()
    .enumerate()
    {
        fs::write(ssh.path("list"), list).unwrap();
        let (ours, theirs) = (format!("ours{case}"), format!("theirs{case}"));
        for made in [&ours, &theirs] {
            fs::create_dir(ssh.path(made)).unwrap();
        }
        ssh.copy(&[*flags, &["-a", "--files-from=list", "src", &ours]].concat());
        let list = format!("--files-from={}", ssh.path("list").display());
        rsync(&[*flags, &[list.as_str()]].concat(), &ssh.path("src"), &ssh.path(&theirs));
        let names = |dir: &str| seen(&ssh.path(dir)).into_keys().collect::<Vec<_>>();
        assert_eq!(names(&ours), names(&theirs), "{flags:?} {list}");
    }
}

/// A name that was mistyped is no file that vanished.
#[test]
fn what_a_list_names_and_is_not_there_is_named() {
    let ssh = Sshd::start();
    two_trees(&ssh);
    fs::write(ssh.path("list"), "new\nnope\nsame/below\nsub/nope/deep\n").unwrap();
    for (at, (from, to)) in [
        ("src".to_owned(), "a".to_owned()),
        ("src".to_owned(), ssh.far("b")),
        (ssh.far("src"), "c".to_owned()),
    ]
    .iter()
    .enumerate()
    {
        let ran = ssh.run(&["--files-from=list", from, to]);
        assert_eq!(ran.code, 7, "{}", ran.stderr);
        for (name, why) in [("nope", "not there"), ("same", "no folder"), ("sub/nope", "not there")] {
            let named =
                ran.stderr.lines().any(|line| line.contains(&format!("/{name} ")) && line.contains(why));
            assert!(named, "{name}: {}", ran.stderr);
        }
        assert!(ssh.path(["a/new", "b/new", "c/new"][at]).exists());
    }
    // Also where it lies in what comes whole, or is that.
    for (list, name) in
        [("sub\nsub/nope\n", "sub/nope"), ("./\nnope\n", "nope"), ("same\nsame/below\n", "same")]
    {
        fs::write(ssh.path("list"), list).unwrap();
        let ran = ssh.run(&["-r", "--files-from=list", "src", "d"]);
        assert!(ran.code == 7 && ran.stderr.contains(&format!("/{name} ")), "{list}: {}", ran.stderr);
    }
}

/// As with scp and rsync: the others are copied, and the exit code says that not all were. Nothing is removed then.
#[test]
fn one_source_of_several_that_is_not_there_is_named_and_the_rest_is_copied() {
    let ssh = Sshd::start();
    two_trees(&ssh);
    fs::create_dir_all(ssh.path("d/src/kept")).unwrap();
    for to in ["d".to_owned(), ssh.far("d")] {
        let ran = ssh.run(&["--delete", "nope", "src", &to]);
        assert_eq!(ran.code, 7, "{}", ran.stderr);
        assert!(ran.stderr.contains("nope does not exist: check the spelling"), "{}", ran.stderr);
        assert!(ssh.path("d/src/new").exists() && ssh.path("d/src/kept").exists());
        fs::remove_file(ssh.path("d/src/new")).unwrap();
    }
    let ran = ssh.run(&["src/same/", "src", "g"]);
    assert_eq!((ran.code, ssh.path("g/src/new").exists()), (7, true), "{}", ran.stderr);
    assert!(ran.stderr.contains("src/same/ is not a folder"), "{}", ran.stderr);
    let (nope, src) = (ssh.far("nope"), ssh.far("src"));
    let ran = ssh.run(&[&nope, &src, "e"]);
    assert_eq!((ran.code, ssh.path("e/src/new").exists()), (7, true), "{}", ran.stderr);
    let ran = ssh.run(&["nope", "neither", "f"]);
    assert_eq!((ran.code, ssh.path("f").exists()), (5, false), "{}", ran.stderr);
}

/// As scp and rsync have it, and no shell reads the pattern.
#[test]
fn patterns_are_expanded_on_the_other_host() {
    let ssh = Sshd::start();
    let write = |name: &str| {
        fs::create_dir_all(ssh.path(name).parent().unwrap()).unwrap();
        fs::write(ssh.path(name), name).unwrap();
    };
    for name in
        ["src/a.fq", "src/b c.fq", "src/d.txt", "src/.hidden.fq", "src/in.fq/deep", "src/x$(touch oops)y"]
    {
        write(name);
    }
    let done = ssh.copy(&[&ssh.far("src/*.fq"), "to/"]);
    assert_eq!(done["files"], 3);
    for name in ["a.fq", "b c.fq", "in.fq/deep"] {
        assert_eq!(text(&ssh, &format!("to/{name}")).as_deref(), Some(&*format!("src/{name}")));
    }
    assert!(!ssh.path("to/.hidden.fq").exists());
    ssh.copy(&[&ssh.far("s?c/x$(touch*"), "other"]);
    assert!(text(&ssh, "other").is_some() && !ssh.path("oops").exists());
    ssh.copy(&[&ssh.far("src/*.txt"), "renamed"]);
    assert_eq!(text(&ssh, "renamed").as_deref(), Some("src/d.txt"), "one file is one file");
    let ran = ssh.run(&[&ssh.far("src/*.none"), "g"]);
    assert!(ran.code == 5 && ran.stderr.contains("*.none does not exist"), "{}", ran.stderr);
}

/// Its destination was taken for a file's new name, and what was there for what to replace.
#[test]
fn what_a_list_names_arrives_in_a_folder_also_where_a_link_leads_to_its_source() {
    let ssh = Sshd::start();
    two_trees(&ssh);
    std::os::unix::fs::symlink("src", ssh.path("link")).unwrap();
    fs::write(ssh.path("list"), "new\nsub/grown\n").unwrap();
    fs::write(ssh.path("file"), "precious").unwrap();
    let far = |name: &str| ssh.far(name);
    for (from, to) in [
        ("link".to_owned(), "local".to_owned()),
        ("link".into(), far("pushed")),
        (far("link"), "pulled".into()),
    ] {
        ssh.copy(&["--files-from=list", &from, &to]);
        let to = to.rsplit(':').next().unwrap().rsplit('/').next().unwrap();
        assert!(
            text(&ssh, &format!("{to}/new")).is_some() && text(&ssh, &format!("{to}/sub/grown")).is_some(),
            "{to}"
        );
    }
    fs::write(ssh.path("list"), "new\n").unwrap();
    for to in ["file", &far("file")] {
        let ran = ssh.run(&["--files-from=list", "link", to]);
        assert_eq!((ran.code, ran.stderr.contains("is not a folder")), (2, true), "{}", ran.stderr);
    }
    assert_eq!(text(&ssh, "file").as_deref(), Some("precious"));
}

/// The second of them was taken for an empty one.
#[test]
fn two_lists_from_stdin_are_refused() {
    let ssh = Sshd::start();
    two_trees(&ssh);
    for flags in [["--exclude-from=-", "--files-from=-"], ["--include-from=-", "--exclude-from=-"]] {
        let ran = ssh.run(&[&flags[..], &["src/", "dst"]].concat());
        assert!(ran.code == 2 && ran.stderr.contains("stdin"), "{}", ran.stderr);
        assert!(!ssh.path("dst").exists());
    }
}
