//! What the flags of `cp` mean together.

use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use terahaul_copy::greeting::Name;
use terahaul_copy::rules::{Compare, Delete, Kept, List, Pattern, Rules, Selection};
use terahaul_tree::{Filter, Rule, read_list, read_rules};

use crate::cli::{CopyArgs, FilterArgs, TypedRule};
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
            permissions: args.archive || args.kept.perms,
            owner: args.archive || args.kept.owner,
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
    let mut rules = Vec::new();
    for typed in &args.filter.rules {
        match typed {
            TypedRule::Pattern { include, pattern } => Rule::add(&mut rules, pattern.as_bytes(), *include),
            TypedRule::File { include, file } => read_rules(&mut rules, &read(file)?, *include, args.from0),
        }
    }
    if let Some(partial) = args.partial_dir.as_ref().filter(|dir| dir.is_relative()) {
        // It lies in the destination, and is neither copied from the source nor removed.
        let pattern = [b"/", partial.as_os_str().as_bytes(), b"/"].concat().into();
        rules.push(Rule { include: false, pattern });
    }
    Filter::ordered(&rules).map_err(Failure::usage)?;
    let list = args.files_from.as_ref().map(|file| {
        let paths = read_list(&read(file)?, args.from0).map_err(Failure::usage)?;
        let paths = paths.into_iter().map(|path| Name(path.into())).collect();
        Ok::<_, Failure>(List { paths, recursive: args.recursive })
    });
    let rules = rules.into_iter().map(|rule| Pattern { include: rule.include, pattern: rule.pattern.into() });
    Ok(Selection { rules: rules.collect(), list: list.transpose()? })
}

fn read(file: &OsStr) -> Result<Vec<u8>, Failure> {
    let mut content = Vec::new();
    let read = match file.as_bytes() {
        b"-" => std::io::stdin().lock().read_to_end(&mut content).map(|_| ()),
        _ => std::fs::File::open(file).and_then(|mut file| file.read_to_end(&mut content)).map(|_| ()),
    };
    read.map_err(|error| Failure::file("read", Path::new(file), &error))?;
    Ok(content)
}

/// The globs of a depot's commands, where they say the same.
pub fn globs(args: &CopyArgs) -> Result<FilterArgs, Failure> {
    let mut globs = FilterArgs::default();
    for typed in &args.filter.rules {
        let TypedRule::Pattern { include, pattern } = typed else {
            return Err(Failure::usage("a depot takes no files of rules: give --include and --exclude"));
        };
        let pattern = String::from_utf8(pattern.clone().into_vec())
            .map_err(|_| Failure::usage("a glob for a depot is text in UTF-8"))?;
        if *include { globs.include.push(pattern) } else { globs.exclude.push(pattern) }
    }
    Ok(globs)
}
