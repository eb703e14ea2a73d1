//! What the flags of `cp` mean together.

use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};

use terahaul_copy::greeting::Name;
use terahaul_copy::rules::{Compare, Delete, Kept, List, Pattern, Rules, Selection};
use terahaul_tree::{Filter, LineEnd, Rule, Sense, read_list, read_rules};

use crate::cli::{CopyArgs, TypedRule};
use crate::exit::Failure;

/// What is done with what is there, and what is kept.
pub fn rules(args: &CopyArgs) -> Rules {
    let compare = match (args.compare.checksum, args.compare.size_only, args.compare.ignore_times) {
        (true, ..) => Compare::Content,
        (_, true, _) => Compare::Size,
        (.., true) => Compare::Never,
        _ => Compare::SizeAndTime(args.compare.modify_window),
    };
    let delete = Delete { most: args.delete.max_delete, despite_errors: args.delete.ignore_errors };
    Rules {
        dry_run: args.dry_run,
        update: args.compare.update,
        only_existing: args.compare.existing,
        only_new: args.compare.ignore_existing,
        compare,
        force: args.delete.force,
        delete: args.delete.delete.then_some(delete),
        kept: Kept {
            // A list is more of the same bits.
            permissions: args.kept.acls || ((args.archive || args.kept.perms) && !args.kept.no_perms),
            owner: (args.archive || args.kept.owner) && !args.kept.no_owner,
            numeric_ids: args.kept.numeric_ids,
            hard_links: args.kept.hard_links,
            xattrs: args.kept.xattrs,
            acls: args.kept.acls,
        },
        itemise: args.dry_run || args.verbose > 0 || args.itemize_changes,
        partial_dir: args.partial_dir.as_ref().map(|dir| Name(dir.as_os_str().as_bytes().to_vec())),
    }
}

/// Which entries are copied. Reads the files that rules and lists are in.
pub fn selection(args: &CopyArgs) -> Result<Selection, Failure> {
    check_stdin(args)?;
    let line_end = if args.from0 { LineEnd::Nul } else { LineEnd::Newline };
    let mut rules = Vec::new();
    for typed in &args.filter.rules {
        match typed {
            TypedRule::Pattern { sense, pattern } => Rule::add(&mut rules, pattern.as_bytes(), *sense),
            TypedRule::File { sense, file } => read_rules(&mut rules, &read(file)?, *sense, line_end),
        }
    }
    // It lies in the destination, and is neither copied from the source nor removed, whatever other rules say.
    if let Some(patterns) = args.partial_dir.as_deref().and_then(folder_below) {
        rules.splice(0..0, patterns.map(|pattern| Rule { sense: Sense::Exclude, pattern: pattern.into() }));
    }
    Filter::ordered(&rules).map_err(Failure::usage)?;
    let list = args.files_from.as_ref().map(|file| {
        check_is_here(file)?;
        let paths = read_list(&read(file)?, line_end).map_err(Failure::usage)?;
        let paths = paths.into_iter().map(|path| Name(path.into())).collect();
        Ok::<_, Failure>(List { paths, recursive: args.recursive })
    });
    let rules = rules
        .into_iter()
        .map(|Rule { sense, pattern }| Pattern { include: sense == Sense::Include, pattern: pattern.into() });
    Ok(Selection { rules: rules.collect(), list: list.transpose()?, without_specials: args.kept.no_specials })
}

/// Refuses a folder that would arrive as the one for what is not complete, and so would be left out whole.
pub fn check_partial_dir<'a>(
    args: &CopyArgs,
    folders: impl IntoIterator<Item = &'a [u8]>,
) -> Result<(), Failure> {
    let Some(dir) = args.partial_dir.as_deref().filter(|_| args.files_from.is_none()) else { return Ok(()) };
    let mut names = dir.components().filter(|component| *component != Component::CurDir);
    let (Some(Component::Normal(name)), None) = (names.next(), names.next()) else { return Ok(()) };
    let is_it = |source: &[u8]| source.rsplit(|&byte| byte == b'/').next() == Some(name.as_bytes());
    match folders.into_iter().any(is_it) {
        true => Err(Failure::usage(format!(
            "'{0}' would arrive where --partial-dir {0} has what is not complete: give that another name",
            name.display()
        ))),
        false => Ok(()),
    }
}

/// Patterns for this folder and for what is in it, which a list may name, if it is below the destination.
fn folder_below(dir: &Path) -> Option<[Vec<u8>; 2]> {
    let mut path = Vec::new();
    for component in dir.components() {
        match component {
            Component::Normal(name) => path.extend([b"/", name.as_bytes()].concat()),
            Component::CurDir => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    if path.is_empty() {
        return None;
    }
    // A backslash makes a wildcard a byte like any other, where there is a wildcard, and is a byte like any other where there is none.
    let escape = |byte: u8| if b"*?[\\".contains(&byte) { vec![b'\\', byte] } else { vec![byte] };
    let escaped: Vec<u8> = path.iter().copied().flat_map(escape).collect();
    let is_wild = path.iter().any(|byte| b"*?[".contains(byte));
    let itself = if is_wild { &escaped } else { &path };
    Some([[itself, &b"/"[..]].concat(), [&escaped, &b"/**"[..]].concat()])
}

/// rsync reads a list of another host's as `host:FILE`, or `:FILE`.
fn check_is_here(file: &OsStr) -> Result<(), Failure> {
    let bytes = file.as_bytes();
    let is_elsewhere = bytes.split(|byte| *byte == b'/').next().is_some_and(|first| first.contains(&b':'));
    match is_elsewhere && !Path::new(file).exists() {
        false => Ok(()),
        true => Err(Failure::usage(format!(
            "{} is no file here, and a list is read on this machine: have ssh write it to stdin, and give --files-from=-",
            Path::new(file).display()
        ))),
    }
}

/// A second list of rules that finds stdin read to its end would be taken for an empty one.
fn check_stdin(args: &CopyArgs) -> Result<(), Failure> {
    let of_rules = args.filter.rules.iter().filter_map(|typed| match typed {
        TypedRule::File { file, .. } => Some(file),
        TypedRule::Pattern { .. } => None,
    });
    match of_rules.chain(&args.files_from).filter(|file| *file == STDIN).count() {
        0 | 1 => Ok(()),
        _ => Err(Failure::usage("two lists cannot both be read from stdin (-): put one of them in a file")),
    }
}

/// How stdin is named on the command line.
const STDIN: &str = "-";

fn read(file: &OsStr) -> Result<Vec<u8>, Failure> {
    let mut content = Vec::new();
    let read = match file == STDIN {
        true => std::io::stdin().lock().read_to_end(&mut content),
        false => std::fs::File::open(file).and_then(|mut file| file.read_to_end(&mut content)),
    };
    read.map_err(|error| Failure::file("read", Path::new(file), &error))?;
    Ok(content)
}

#[cfg(test)]
mod tests {
    use clap::{Args, Command, FromArgMatches};
    use terahaul_core::{ByteCount, Entry, EntryKind, EntryPath, Mtime};

    use super::*;

    #[test]
    fn a_partial_folder_is_left_alone_however_it_is_written_and_no_other_one() {
        for (dir, written, others) in [
            ("tmp", "tmp", ["tmp2/x", "a/tmp/x"]),
            ("tmp/", "tmp", ["tm/x", "x"]),
            ("./a//b/", "a/b", ["a/c/x", "b/x"]),
            ("a*b\\c", "a*b\\c", ["aab\\c/x", "a*bc/x"]),
            ("a\\c", "a\\c", ["ac/x", "c/x"]),
            ("a\\", "a\\", ["a/x", "x"]),
        ] {
            let patterns = folder_below(Path::new(dir)).unwrap();
            let rules = patterns.map(|pattern| Rule { sense: Sense::Exclude, pattern: pattern.into() });
            let filter = Filter::ordered(&rules).unwrap();
            let takes = |path: &str| filter.selects(&file(path));
            assert!(!takes(&format!("{written}/x")) && others.into_iter().all(takes), "{dir}");
            let listed = filter.clone().with_list(vec![format!("{written}/x").into_bytes().into()], false);
            assert!(!listed.selects(&file(&format!("{written}/x"))), "{dir}: a list names it");
        }
        for elsewhere in [".", "../beside", "/elsewhere"] {
            assert_eq!(folder_below(Path::new(elsewhere)), None, "{elsewhere}");
        }
    }

    fn kept(words: &str) -> (bool, bool) {
        let command = CopyArgs::augment_args(Command::new("cp").args_override_self(true));
        let matches =
            command.try_get_matches_from(["cp", "a", "b"].into_iter().chain(words.split(' '))).unwrap();
        let Kept { permissions, owner, .. } = rules(&CopyArgs::from_arg_matches(&matches).unwrap()).kept;
        (permissions, owner)
    }

    #[test]
    fn what_the_archive_keeps_can_be_left_out_of_it() {
        assert_eq!(kept("-a"), (true, true));
        assert_eq!(kept("-a --no-owner"), (true, false));
        assert_eq!(kept("-a --no-o --no-g --no-group"), (true, false));
        assert_eq!(kept("--no-owner -a --owner"), (true, true), "the last word");
        assert_eq!(kept("-a --no-p"), (false, true));
        assert_eq!(kept("-p --no-perms"), (false, false));
        assert_eq!(kept("-a --no-perms -A"), (true, true), "a list has the bits in it");
    }

    fn file(path: &str) -> Entry {
        let path = EntryPath::new(path.as_bytes()).unwrap();
        let kind = EntryKind::File { size: ByteCount(1) };
        Entry { path, kind, mtime: Mtime::default(), mode: 0o644, extra: None }
    }
}
