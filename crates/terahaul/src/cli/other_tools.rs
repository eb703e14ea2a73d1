//! Flags of rsync's and scp's that `cp` does not have. Whoever types one is told what the document says of it.

use std::ffi::OsString;

use clap::Command;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::rsync_words::subcommand_of;

const DOCUMENT: &str = include_str!("../../../../docs/cp.md");

/// The error, in the document's words where a flag of `cp`'s is not known that another tool has.
pub fn explain(command: &Command, typed: &[OsString], error: clap::Error) -> clap::Error {
    let Some(cp) = subcommand_of(command, typed).map(Command::get_name).filter(|name| *name == "cp") else {
        return error;
    };
    let Some(ContextValue::String(flag)) = error.get(ContextKind::InvalidArg) else { return error };
    let places: Vec<_> = places_of(flag.split('=').next().unwrap_or_default()).collect();
    if error.kind() != ErrorKind::UnknownArgument || places.is_empty() {
        return error;
    }
    // Only one that is built knows its whole name, which its usage shows.
    let mut built = command.clone();
    built.build();
    match built.find_subcommand_mut(cp) {
        Some(cp) => cp.error(ErrorKind::UnknownArgument, places.join("; ")),
        None => error,
    }
}

/// What there is in place of `flag`, which is `-x` or `--long`, with whose it is: a flag may be both tools'.
fn places_of(flag: &str) -> impl Iterator<Item = String> {
    rows().filter(move |row| row.flags().any(|known| known == flag)).map(move |row| row.explain(flag))
}

/// A line of the document's tables of flags.
#[derive(Clone, Copy, Debug)]
struct Row {
    tool: &'static str,
    flags: &'static str,
    here: &'static str,
}

fn rows() -> impl Iterator<Item = Row> {
    let mut tool = None;
    DOCUMENT.lines().filter_map(move |line| {
        let Some((left, right)) = line.strip_prefix('|').and_then(|cells| cells.split_once('|')) else {
            tool = None;
            return None;
        };
        let (flags, here) = (left.trim(), right.trim().trim_end_matches('|').trim());
        if here == "here" {
            tool = Some(flags);
            return None;
        }
        tool.map(|tool| Row { tool, flags, here }).filter(|row| row.is_of_flags())
    })
}

impl Row {
    /// Whether it is about its flags as such: words beside them say when something else is true of them.
    fn is_of_flags(self) -> bool {
        self.flags.starts_with('`')
            && self.flags.split('`').step_by(2).all(|between| matches!(between, "" | ", "))
    }

    /// Each without its value.
    fn flags(self) -> impl Iterator<Item = &'static str> {
        self.flags.split('`').skip(1).step_by(2).filter_map(|code| code.split_whitespace().next())
    }

    fn explain(self, flag: &str) -> String {
        let Self { tool, here, .. } = self;
        let here = here.replace('`', "'");
        match here.strip_prefix("no") {
            Some("") => format!("there is nothing like {tool}'s '{flag}' here"),
            Some(reason) if reason.starts_with([':', ' ']) => {
                format!("there is nothing like {tool}'s '{flag}' here{reason}")
            }
            _ => format!("for {tool}'s '{flag}' there is here: {here}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place_of(flag: &str) -> String {
        places_of(flag).collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn every_flag_of_the_tables_is_found_by_its_name() {
        let all: Vec<_> = rows().flat_map(|row| row.flags().map(move |flag| (row.tool, flag))).collect();
        assert!(all.len() > 150, "{}", all.len());
        for (tool, flag) in all {
            assert!(flag.starts_with('-') && place_of(flag).contains(tool), "{flag}: {}", place_of(flag));
        }
    }

    #[test]
    fn a_flag_is_explained_in_the_words_of_the_document() {
        assert_eq!(
            place_of("--bwlimit"),
            "for rsync's '--bwlimit' there is here: '--limit', on one machine too"
        );
        assert!(
            place_of("--inplace").starts_with("there is nothing like rsync's '--inplace' here: files are")
        );
        assert_eq!(place_of("--write-batch"), "there is nothing like rsync's '--write-batch' here");
        let both = place_of("-c");
        assert!(
            both.contains("scp's '-c'") && both.contains("rsync's '-c' there is here: '--checksum'"),
            "{both}"
        );
        assert_eq!(place_of("--no-such-flag"), "");
        assert_eq!(place_of("-g"), "for rsync's '-g' there is here: '--owner', for both users and groups");
        assert!(!place_of("-D").contains("itemize"), "only of words with others: {}", place_of("-D"));
    }

    #[test]
    fn long_names_are_found_as_short_ones_are() {
        for (long, short) in [
            ("--sparse", "-S"),
            ("--backup", "-b"),
            ("--copy-links", "-L"),
            ("--copy-dirlinks", "-k"),
            ("--keep-dirlinks", "-K"),
            ("--relative", "-R"),
            ("--links", "-l"),
            ("--group", "-g"),
            ("--one-file-system", "-x"),
            ("--prune-empty-dirs", "-m"),
            ("--cvs-exclude", "-C"),
            ("--executability", "-E"),
            ("--atimes", "-U"),
            ("--crtimes", "-N"),
            ("--omit-dir-times", "-O"),
            ("--omit-link-times", "-J"),
            ("--temp-dir", "-T"),
            ("--block-size", "-B"),
            ("--fuzzy", "-y"),
            ("--dirs", "-d"),
            ("--remote-option", "-M"),
            ("--secluded-args", "-s"),
            ("--8-bit-output", "-8"),
            ("--human-readable", "-h"),
        ] {
            let said = place_of(long);
            assert!(
                !said.is_empty() && place_of(short).contains(&said.replace(long, short)),
                "{long}: {said}"
            );
        }
    }

    #[test]
    fn the_usage_is_that_of_cp() {
        let command = <crate::cli::Cli as clap::CommandFactory>::command();
        let typed = ["terahaul", "cp", "-D", "a", "b"].map(OsString::from);
        let error = command.clone().try_get_matches_from(&typed).unwrap_err();
        let text = explain(&command, &typed, error).to_string();
        assert!(text.contains("Usage: terahaul cp ") && text.contains("devices"), "{text}");
    }
}
