//! `-z` without a value, as rsync users type it (`-avz src dst`): what follows is a value only if it can be one.

use std::ffi::OsString;

use clap::{Arg, Command};

use crate::settings::parse_compress;

const NAME: &str = "compress";
const LONE: &str = "auto";

/// The command line with the value that a lone `-z` stands for.
pub fn complete(command: &Command, typed: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut typed: Vec<OsString> = typed.into_iter().collect();
    let subcommand = typed.iter().skip(1).find_map(|word| command.find_subcommand(word));
    let Some(subcommand) = subcommand.filter(|command| command.get_arguments().any(is_compress)) else {
        return typed;
    };
    let end = typed.iter().position(|word| word == "--").unwrap_or(typed.len());
    for at in 1..end {
        let has_value =
            at + 1 < end && typed[at + 1].to_str().is_some_and(|next| parse_compress(next).is_ok());
        let Some(word) = typed[at].to_str().filter(|_| !has_value) else { continue };
        if word == "--compress" {
            typed[at].push("=");
            typed[at].push(LONE);
        } else if ends_in_compress(subcommand, word) {
            typed[at].push(LONE);
        }
    }
    typed
}

fn is_compress(arg: &Arg) -> bool {
    arg.get_id() == NAME
}

/// Whether it is a flag, or several in one word, of which the last is this one and none before takes a value.
fn ends_in_compress(command: &Command, word: &str) -> bool {
    let Some(flags) = word.strip_prefix('-').and_then(|flags| flags.strip_suffix('z')) else { return false };
    let takes_nothing = |flag: char| {
        let mut known = command.get_arguments();
        let found = known.find(|arg| {
            arg.get_short() == Some(flag)
                || arg.get_all_short_aliases().into_iter().flatten().any(|short| short == flag)
        });
        // Those that are not known here belong to every command, and take none.
        flag != '-' && found.is_none_or(|arg| !arg.get_action().takes_values())
    };
    flags.chars().all(takes_nothing)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn a_lone_z_takes_nothing_from_what_follows() {
        for (typed, completed) in [
            ("cp -avz src dst", "cp -avzauto src dst"),
            ("cp -z auto src dst", "cp -z auto src dst"),
            ("cp -avz no src dst", "cp -avz no src dst"),
            ("cp -z9 src dst", "cp -z9 src dst"),
            ("cp src dst -z", "cp src dst -zauto"),
            ("cp --compress src dst", "cp --compress=auto src dst"),
            ("cp --compress=yes src dst", "cp --compress=yes src dst"),
            ("cp -qz src dst", "cp -qzauto src dst"),
            ("cp -ikeyz src dst", "cp -ikeyz src dst"),
            ("cp -- -z dst", "cp -- -z dst"),
            ("cp --sizez -", "cp --sizez -"),
            ("send -z src", "send -zauto src"),
            ("list -z", "list -z"),
        ] {
            let words = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();
            let line = [vec!["terahaul".into()], words(typed)].concat();
            let expected = [vec!["terahaul".into()], words(completed)].concat();
            assert_eq!(complete(&Cli::command(), line), expected, "{typed}");
        }
    }
}
