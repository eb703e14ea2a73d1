//! Filter rules of `cp`: their order on the command line means something, across flags.

use std::ffi::OsString;

use clap::builder::ValueParser;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, ValueHint};
use terahaul_tree::Sense;

/// Rules as typed, in their order.
#[derive(Clone, Debug, Default)]
pub struct RuleArgs {
    /// What was typed.
    pub rules: Vec<TypedRule>,
}

/// A rule, or a file of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TypedRule {
    /// `--include` or `--exclude`.
    Pattern {
        /// What becomes of what matches.
        sense: Sense,
        /// As rsync writes it.
        pattern: OsString,
    },
    /// `--include-from` or `--exclude-from`.
    File {
        /// What becomes of what matches, where a rule does not say it.
        sense: Sense,
        /// The file; `-` is stdin.
        file: OsString,
    },
}

struct Flag {
    name: &'static str,
    value: &'static str,
    help: &'static str,
    hint: ValueHint,
    make: fn(OsString) -> TypedRule,
}

const FLAGS: [Flag; 4] = [
    Flag {
        name: "include",
        value: "PATTERN",
        help: "Copy what matches, as in rsync: the first rule that matches decides, and nothing else is left out for it",
        hint: ValueHint::Other,
        make: |pattern| TypedRule::Pattern { sense: Sense::Include, pattern },
    },
    Flag {
        name: "exclude",
        value: "PATTERN",
        help: "Leave out what matches, as in rsync; --delete does not touch it either",
        hint: ValueHint::Other,
        make: |pattern| TypedRule::Pattern { sense: Sense::Exclude, pattern },
    },
    Flag {
        name: "include-from",
        value: "FILE",
        help: "Read includes from a file, one a line; - is stdin",
        hint: ValueHint::FilePath,
        make: |file| TypedRule::File { sense: Sense::Include, file },
    },
    Flag {
        name: "exclude-from",
        value: "FILE",
        help: "Read excludes from a file, one a line; - is stdin",
        hint: ValueHint::FilePath,
        make: |file| TypedRule::File { sense: Sense::Exclude, file },
    },
];

impl FromArgMatches for RuleArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut rules = Vec::new();
        for flag in &FLAGS {
            let typed = matches.get_many::<OsString>(flag.name).into_iter().flatten().cloned().map(flag.make);
            rules.extend(matches.indices_of(flag.name).into_iter().flatten().zip(typed));
        }
        rules.sort_by_key(|(at, _)| *at);
        Ok(Self { rules: rules.into_iter().map(|(_, rule)| rule).collect() })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for RuleArgs {
    fn augment_args(command: Command) -> Command {
        FLAGS.iter().fold(command, |command, flag| {
            command.arg(
                Arg::new(flag.name)
                    .long(flag.name)
                    .value_name(flag.value)
                    .help(flag.help)
                    .value_hint(flag.hint)
                    .action(ArgAction::Append)
                    // As `- *.tmp`, which is a rule of rsync's, does.
                    .allow_hyphen_values(true)
                    .value_parser(ValueParser::os_string()),
            )
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_keep_their_order_across_flags() {
        let command = RuleArgs::augment_args(Command::new("cp"));
        let typed = ["cp", "--exclude", "- a", "--include=b", "--exclude-from", "f", "--exclude=c"];
        let rules = RuleArgs::from_arg_matches(&command.get_matches_from(typed)).unwrap().rules;
        let pattern = |sense, pattern: &str| TypedRule::Pattern { sense, pattern: pattern.into() };
        let file = TypedRule::File { sense: Sense::Exclude, file: "f".into() };
        assert_eq!(
            rules,
            [
                pattern(Sense::Exclude, "- a"),
                pattern(Sense::Include, "b"),
                file,
                pattern(Sense::Exclude, "c")
            ]
        );
    }
}
