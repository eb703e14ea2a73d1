//! Flags as rsync's users type them, several in one word, put into words that the parser takes.
//!
//! | typed | taken as | because |
//! |---|---|---|
//! | `-avz src` | `-avzauto src` | `-z` has no value there; what follows is one only if it can be |
//! | `-azv`, `-avzP 22` | `-azauto -v`, `-avzauto -P 22` | the same |
//! | `cp -avh` | `cp -av` | sizes are always readable; `-h` alone is for help |

use std::ffi::OsString;

use clap::{Arg, Command};

use crate::settings::parse_compress;

const NAME: &str = "compress";
const LONE: &str = "auto";

/// The command line as the parser takes it.
pub fn complete(command: &Command, typed: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let typed: Vec<OsString> = typed.into_iter().collect();
    let subcommand = typed.iter().skip(1).find_map(|word| command.find_subcommand(word));
    let Some(subcommand) = subcommand.filter(|command| command.get_arguments().any(is_compress)) else {
        return typed;
    };
    let end = typed.iter().position(|word| word == "--").unwrap_or(typed.len());
    let mut taken = Vec::with_capacity(typed.len() + 2);
    for (at, word) in typed.iter().enumerate() {
        let Some(text) = word.to_str().filter(|_| (1..end).contains(&at)) else {
            taken.push(word.clone());
            continue;
        };
        let next = typed[..end].get(at + 1).and_then(|next| next.to_str());
        if text == "--compress" && !next.is_some_and(is_value) {
            taken.push(format!("{text}={LONE}").into());
        } else {
            taken.extend(split(subcommand, text, next).into_iter().map(OsString::from));
        }
    }
    taken
}

fn is_compress(arg: &Arg) -> bool {
    arg.get_id() == NAME
}

/// Whether it can be the value of `--compress`, or is a level that there is not, which the parser had better say.
fn is_value(word: &str) -> bool {
    parse_compress(word).is_ok() || word.parse::<i64>().is_ok()
}

/// Flags in one word, in as many words as they take.
fn split(command: &Command, word: &str, next: Option<&str>) -> Vec<String> {
    let Some(flags) = word.strip_prefix('-').filter(|flags| !flags.starts_with('-')) else {
        return vec![word.to_owned()];
    };
    let mut taken = String::from("-");
    for (at, flag) in flags.char_indices() {
        let rest = &flags[at + flag.len_utf8()..];
        let known = command.get_arguments().find(|arg| has(arg, flag));
        if known.is_some_and(is_compress) {
            taken.push(flag);
            return match rest {
                "" if next.is_some_and(is_value) => vec![taken],
                "" => vec![taken + LONE],
                value if is_value(value) || value.starts_with('=') => vec![taken + value],
                flags => {
                    let mut words = vec![taken + LONE];
                    words.extend(split(command, &format!("-{flags}"), next));
                    words
                }
            };
        }
        if flag == 'h' && flags.len() > 1 && command.get_name() == "cp" {
            continue;
        }
        taken.push(flag);
        // The rest is its value. Flags that are not known here belong to every command, and take none.
        if known.is_some_and(|arg| arg.get_action().takes_values()) {
            return vec![taken + rest];
        }
    }
    vec![taken]
}

fn has(arg: &Arg, flag: char) -> bool {
    arg.get_short() == Some(flag)
        || arg.get_all_short_aliases().into_iter().flatten().any(|short| short == flag)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn flags_in_one_word_mean_what_they_mean_to_rsync() {
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
            ("cp -azv src dst", "cp -azauto -v src dst"),
            ("cp -avzP 22 src dst", "cp -avzauto -P 22 src dst"),
            ("cp -azv9", "cp -azauto -v9"),
            ("cp -avh src dst", "cp -av src dst"),
            ("cp -h", "cp -h"),
            ("send -hv", "send -hv"),
            ("cp -avhz src dst", "cp -avzauto src dst"),
            ("cp -ihost src dst", "cp -ihost src dst"),
            ("cp -z 20 src dst", "cp -z 20 src dst"),
            ("cp -az20 src dst", "cp -az20 src dst"),
        ] {
            let words = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();
            let line = [vec!["terahaul".into()], words(typed)].concat();
            let expected = [vec!["terahaul".into()], words(completed)].concat();
            assert_eq!(complete(&Cli::command(), line), expected, "{typed}");
        }
    }
}
