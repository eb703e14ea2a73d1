//! `cp` to and from a depot: what `send` and `receive` do. A flag that they lack is refused, not passed over: what it leaves out
//! would be sent, and what it removes would stay.

use std::path::PathBuf;

use terahaul_tree::Sense;

use crate::cli::{CompareArgs, CopyArgs, DeleteArgs, FilterArgs, KeptArgs, ReceiveArgs, SendArgs, TypedRule};
use crate::exit::Failure;

/// To a depot: what `terahaul send` does.
pub fn send_args(args: CopyArgs, paths: Vec<PathBuf>, to: String) -> Result<SendArgs, Failure> {
    refuse_what_depots_lack(&args)?;
    Ok(SendArgs {
        paths,
        to: Some(to),
        name: None,
        expire_days: None,
        receipt: None,
        dry_run: args.dry_run,
        filter: globs(&args)?,
        engine: args.engine,
    })
}

/// From a depot: what `terahaul receive` does.
pub fn receive_args(args: CopyArgs, link: String, dir: PathBuf) -> Result<ReceiveArgs, Failure> {
    refuse_what_depots_lack(&args)?;
    Ok(ReceiveArgs {
        link,
        dir,
        overwrite: false,
        receipt: None,
        dry_run: args.dry_run,
        filter: globs(&args)?,
        engine: args.engine,
    })
}

/// Flags that say what is so anyway (`-a`, `-p`, `-r`, `-t`, `-v`, `-W`) are no loss. Those of ssh's are refused before this is asked, or
/// passed over.
fn refuse_what_depots_lack(args: &CopyArgs) -> Result<(), Failure> {
    let CopyArgs {
        paths: _,
        dry_run: _,
        verbose: _,
        itemize_changes,
        stats,
        recursive: _,
        archive: _,
        kept,
        compare,
        delete,
        filter: _,
        files_from,
        from0,
        whole_file: _,
        no_whole_file,
        partial_dir,
        engine: _,
        ssh: _,
    } = args;
    let KeptArgs {
        perms: _,
        no_perms: _,
        owner,
        no_owner: _,
        numeric_ids,
        hard_links,
        xattrs,
        acls,
        no_specials,
        times: _,
        progress: _,
        partial: _,
    } = kept;
    let CompareArgs { update, existing, ignore_existing, checksum, size_only, ignore_times, modify_window } =
        compare;
    let DeleteArgs { delete, max_delete, ignore_errors, force } = delete;
    let given = [
        ("--files-from", files_from.is_some()),
        ("--from0", *from0),
        ("--no-whole-file", *no_whole_file),
        ("--partial-dir", partial_dir.is_some()),
        ("--itemize-changes", *itemize_changes),
        ("--stats", *stats),
        ("--owner", *owner),
        ("--numeric-ids", *numeric_ids),
        ("--hard-links", *hard_links),
        ("--xattrs", *xattrs),
        ("--acls", *acls),
        ("--no-specials", *no_specials),
        ("--update", *update),
        ("--existing", *existing),
        ("--ignore-existing", *ignore_existing),
        ("--checksum", *checksum),
        ("--size-only", *size_only),
        ("--ignore-times", *ignore_times),
        ("--modify-window", *modify_window > 0),
        ("--delete", *delete),
        ("--max-delete", max_delete.is_some()),
        ("--ignore-errors", *ignore_errors),
        ("--force", *force),
    ];
    match given.into_iter().find(|(_, given)| *given) {
        None => Ok(()),
        Some((flag, _)) => Err(Failure::usage(format!(
            "{flag} means nothing to a depot: copy without it, or to a host and not to a depot"
        ))),
    }
}

/// The globs of a depot's commands: the excludes that say the same there. Rules are tried in order, globs are not; one with a slash
/// within lies elsewhere; they have braces and no classes, and a backslash and a space at the end mean something else.
fn globs(args: &CopyArgs) -> Result<FilterArgs, Failure> {
    let mut globs = FilterArgs::default();
    for typed in &args.filter.rules {
        let exclude = match typed {
            TypedRule::Pattern { sense: Sense::Exclude, pattern } => {
                pattern.to_str().filter(|text| is_same(text))
            }
            TypedRule::Pattern { sense: Sense::Include, .. } | TypedRule::File { .. } => None,
        };
        globs.exclude.push(exclude.map(str::to_owned).ok_or_else(no_rules)?);
    }
    Ok(globs)
}

fn is_same(pattern: &str) -> bool {
    let inner = pattern.trim_start_matches('/').trim_end_matches('/');
    (pattern.starts_with('/') || !inner.contains('/'))
        && !["!", "#", "+ ", "- "].iter().any(|other| pattern.starts_with(other))
        && !pattern.ends_with(char::is_whitespace)
        && !inner.is_empty()
        && !["**", "{", "}", "\\", "[:"].iter().any(|other| inner.contains(other))
}

fn no_rules() -> Failure {
    Failure::usage(
        "rules in order, and patterns with a slash within, braces, classes or a backslash, mean something else to a depot: use terahaul send or receive, whose --include and --exclude are globs as in a .gitignore",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_excludes_that_mean_the_same_are_passed_on() {
        for same in ["*.tmp", "cache/", "/top", "/a/b", "[ab]?"] {
            assert!(is_same(same), "{same}");
        }
        for other in
            ["a/b", "a/b/", "!x", "#x", "a**b", "**/x", "/a/**", "{a,b}", "*.[[:digit:]]", "a\\b", "x ", "/"]
        {
            assert!(!is_same(other), "{other}");
        }
    }
}
