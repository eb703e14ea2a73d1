//! Flags as rsync's and scp's users type them, several in one word, put into words that the parser takes.
//!
//! | typed | taken as | because |
//! |---|---|---|
//! | `-avz src` | `-av -zauto src` | `-z` has no value there; behind it by itself comes one only if it is a word that can be |
//! | `-avin`, `-rlptgoD` | `-av --itemize-changes -n`, `-rpt --owner` | in a word with others that rsync has and scp has not, `-i`, `-l`, `-o`, `-g`, `-D` and `-P` are rsync's |
//! | `-ri key`, `-rP 22`, `-l user`, `-ikey` | the same | elsewhere they are ssh's |
//! | `-Pav`, `-rP4000` | `-av`, `-rP4000` | a port is a number |
//! | `-in`, `-lroot`, `-rl root`, `-avP4000`, `-Fn`, `-zno` | refused | it can be either |
//! | `-aR`, `-aF`, `-aJ` | refused | rsync's do what is not to be had here; alone `-R` is cp's `-r`, and the others are ssh's |
//! | `cp -avh` | `cp -av` | sizes are always readable; `-h` alone is for help |
//!
//! A flag that took what follows it for its value where rsync has none would leave a source out, or a `-n`, without a word.

use std::ffi::OsString;

use clap::error::ErrorKind;
use clap::{Arg, Command};

const NAME: &str = "compress";
const LONE: &str = "auto";
/// What may follow `-z` in a word of its own: a level might as well be the name of a folder.
const SEPARATE: [&str; 3] = ["auto", "no", "yes"];

/// What a flag of rsync's is here, in a word with others of rsync's; `None` where it changes nothing.
const RSYNCS: [(char, Option<&str>); 8] = [
    ('i', Some("--itemize-changes")),
    ('o', Some("--owner")),
    ('g', Some("--owner")),
    ('l', None),
    ('P', None),
    ('D', None),
    ('h', None),
    ('s', None),
];
/// Those of them that are ssh's, with a value, where nothing says that they are rsync's.
const SSHS: &str = "iolP";
/// Flags of rsync's without a value that are not had here, nor mean anything else.
const MORE_OF_RSYNCS: &str = "bcdfkmnwxyCEFJKLNOSTU8";
/// What scp has without a value.
const SCPS: &str = "rRpqv46";
/// Flags of rsync's that mean something else here, and what to do instead.
const NOT_HERE: [(char, &str); 3] = [
    ('R', "and cp's -R is -r: leave it out, and give each source its place"),
    ('F', "and ssh's -F FILE is written by itself: give rules with --exclude-from"),
    ('J', "and ssh's -J HOST is written by itself: links always keep their times"),
];

/// The command line as the parser takes it. An error where a word can mean two things of which one may do harm.
pub fn complete(
    command: &Command,
    typed: impl IntoIterator<Item = OsString>,
) -> Result<Vec<OsString>, clap::Error> {
    let typed: Vec<OsString> = typed.into_iter().collect();
    let Some(subcommand) =
        subcommand_of(command, &typed).filter(|command| command.get_arguments().any(is_compress))
    else {
        return Ok(typed);
    };
    let end = typed.iter().position(|word| word == "--").unwrap_or(typed.len());
    let mut taken = Vec::with_capacity(typed.len() + 2);
    // The value of the flag before.
    let mut is_value = false;
    for (at, word) in typed.iter().enumerate() {
        let Some(text) = word.to_str().filter(|_| (1..end).contains(&at) && !is_value) else {
            taken.push(word.clone());
            is_value = false;
            continue;
        };
        let next = typed[..end].get(at + 1).and_then(|next| next.to_str());
        let words = Word { command: subcommand, text, next }.split().map_err(|reason| {
            command.clone().error(ErrorKind::InvalidValue, format!("'{text}' is not clear: {reason}"))
        })?;
        is_value = words.last().is_some_and(|last| takes_next(subcommand, last));
        taken.extend(words.into_iter().map(OsString::from));
    }
    Ok(taken)
}

/// The subcommand that a command line is about.
pub(super) fn subcommand_of<'a>(command: &'a Command, typed: &[OsString]) -> Option<&'a Command> {
    typed.iter().skip(1).find_map(|word| command.find_subcommand(word))
}

fn is_compress(arg: &Arg) -> bool {
    arg.get_id() == NAME
}

/// Whether what follows is the value of the last flag in `word`.
fn takes_next(command: &Command, word: &str) -> bool {
    let takes = |arg: &Arg| arg.get_action().takes_values();
    match word.strip_prefix("--") {
        Some(long) => command.get_arguments().any(|arg| arg.get_long() == Some(long) && takes(arg)),
        None => {
            let mut flags = word.strip_prefix('-').unwrap_or_default().chars();
            let first = flags.find(|flag| find(command, *flag).is_some_and(takes));
            first.is_some() && flags.next().is_none()
        }
    }
}

fn find(command: &Command, flag: char) -> Option<&Arg> {
    let is = |arg: &&Arg| {
        arg.get_short() == Some(flag)
            || arg.get_all_short_aliases().into_iter().flatten().any(|short| short == flag)
    };
    command.get_arguments().find(is)
}

/// A word of the command line, and the next.
struct Word<'a> {
    command: &'a Command,
    text: &'a str,
    next: Option<&'a str>,
}

impl Word<'_> {
    /// In as many words as it takes.
    fn split(&self) -> Result<Vec<String>, String> {
        let may_follow = self.next.is_some_and(|next| SEPARATE.contains(&next));
        if self.text == "--compress" && !may_follow {
            return Ok(vec![format!("{}={LONE}", self.text)]);
        }
        let flags = self.text.strip_prefix('-').filter(|flags| !flags.starts_with('-') && !flags.is_empty());
        match flags {
            None => Ok(vec![self.text.to_owned()]),
            Some("z") if may_follow => Ok(vec!["-z".to_owned()]),
            Some(flags) if flags.chars().count() == 1 && flags != "z" => Ok(vec![self.text.to_owned()]),
            Some(flags) => self.split_flags(flags),
        }
    }

    fn split_flags(&self, flags: &str) -> Result<Vec<String>, String> {
        let is_cp = self.command.get_name() == "cp";
        let is_rsyncs = is_cp && self.is_rsyncs(flags);
        let (mut words, mut word) = (Vec::new(), String::from("-"));
        let mut left = flags;
        while let Some(flag) = left.chars().next() {
            let rest = &left[flag.len_utf8()..];
            let at_first = left.len() == flags.len();
            left = rest;
            let known = find(self.command, flag);
            if known.is_some_and(is_compress) {
                if is_cp && rest == "no" {
                    return Err("write '--compress=no', or -n and -o before the -z".to_owned());
                }
                let level = rest.bytes().take_while(u8::is_ascii_digit).count();
                let len = if rest.starts_with('=') || SEPARATE.contains(&rest) { rest.len() } else { level };
                let (value, more) = rest.split_at(len);
                word.push(flag);
                word.push_str(if value.is_empty() { LONE } else { value });
                words.push(std::mem::replace(&mut word, String::from("-")));
                left = more;
                continue;
            }
            if is_cp && let Meaning::Rsyncs(long) = self.meaning(flag, rest, Place { at_first, is_rsyncs })? {
                words.extend(long.map(str::to_owned));
                continue;
            }
            word.push(flag);
            // The rest is its value. Flags that are not known here belong to every command, and take none.
            if known.is_some_and(takes_a_value) {
                word.push_str(rest);
                break;
            }
        }
        if word.len() > 1 {
            words.push(word);
        }
        Ok(words)
    }

    /// What a flag of `cp` in a word is; `rest` follows it there.
    fn meaning(&self, flag: char, rest: &str, place: Place) -> Result<Meaning, String> {
        let Place { at_first, is_rsyncs } = place;
        let not_here = NOT_HERE.iter().find(|(known, _)| *known == flag);
        if is_rsyncs && let Some((_, instead)) = not_here {
            return Err(format!("rsync's -{flag} is not to be had, {instead}"));
        }
        let flags_follow = !is_number(rest)
            && rest.chars().all(|other| self.is_flag(other) || MORE_OF_RSYNCS.contains(other));
        if at_first && not_here.is_some() && self.takes_a_value(flag) && flags_follow {
            return Err(format!(
                "-{flag} is ssh's, with a value, and what follows are flags: write it by itself"
            ));
        }
        let Some((_, long)) = RSYNCS.iter().find(|(known, _)| *known == flag) else {
            return Ok(Meaning::Own);
        };
        let rsyncs = Ok(Meaning::Rsyncs(*long));
        if flag == 'P' && is_rsyncs && is_number(rest) {
            return Err(format!(
                "with a number behind it -P is ssh's port, and before it are flags of rsync's: write '-P {rest}' by itself for ssh's, or these figures before the -P for rsync's"
            ));
        }
        if !SSHS.contains(flag) || is_rsyncs && !at_first {
            return rsyncs;
        }
        let next = self.next.unwrap_or_default();
        let is_sshs = match (flag, rest) {
            ('P', "") => is_number(next),
            ('P', rest) => is_number(rest),
            (_, rest) if at_first && flags_follow => {
                return Err(format!(
                    "first in a word -{flag} is ssh's, and what follows are flags of rsync's: write '-{flag} {rest}' for ssh's, or these flags before it for rsync's"
                ));
            }
            _ if at_first => true,
            ('o', "") => next.contains('='),
            ('i', "") => true,
            ('l', "") if may_be_a_user(next) => {
                return Err(format!(
                    "-l is ssh's, before a user's name, or rsync's: write '-l {next}' by itself for ssh's, or leave -l out, as links are always copied"
                ));
            }
            (_, rest) => has_a_mark(rest),
        };
        if is_sshs { Ok(Meaning::Own) } else { rsyncs }
    }

    /// Whether a word has flags that rsync has and scp has not.
    fn is_rsyncs(&self, flags: &str) -> bool {
        // A port is a number, some figures of which are flags of rsync's.
        let flags =
            flags.rsplit_once('P').filter(|(_, port)| is_number(port)).map_or(flags, |(flags, _)| flags);
        // What follows one of these first in a word may be its value.
        let values_follow = flags.starts_with(|first| first != 'P' && self.takes_a_value(first));
        // So does what no flag looks like.
        let is_sshs = flags.find(|flag| SSHS.contains(flag)).is_some_and(|at| has_a_mark(&flags[at..]));
        let says_so = |flag: char| self.is_flag(flag) && !SCPS.contains(flag) && !SSHS.contains(flag);
        !values_follow && !is_sshs && flags.chars().any(says_so)
    }

    /// Whether it is a flag without a value, to rsync at least.
    fn is_flag(&self, flag: char) -> bool {
        let is_known = RSYNCS.iter().any(|(known, _)| *known == flag) || SCPS.contains(flag);
        is_known || find(self.command, flag).is_some_and(|arg| is_compress(arg) || !takes_a_value(arg))
    }

    fn takes_a_value(&self, flag: char) -> bool {
        find(self.command, flag).is_some_and(takes_a_value)
    }
}

/// Where a flag is.
#[derive(Clone, Copy)]
struct Place {
    /// First in its word.
    at_first: bool,
    /// In a word with others that rsync has and scp has not.
    is_rsyncs: bool,
}

/// What a flag means.
enum Meaning {
    /// What it means to the parser.
    Own,
    /// What it means to rsync: this flag, or nothing.
    Rsyncs(Option<&'static str>),
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether it can be a user's name, and is not clearly a path, a host or a flag.
fn may_be_a_user(text: &str) -> bool {
    text.starts_with(|first: char| first.is_alphanumeric() || first == '_') && !text.contains(['/', ':'])
}

/// Whether it has something in it that is no flag, as paths and options do. What is behind a space is another flag's value.
fn has_a_mark(text: &str) -> bool {
    text.chars().take_while(|other| *other != ' ').any(|other| other.is_ascii_punctuation())
}

fn takes_a_value(arg: &Arg) -> bool {
    arg.get_action().takes_values() && !is_compress(arg)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::cli::Cli;

    fn completed(typed: &str) -> Result<String, clap::Error> {
        let line = std::iter::once("terahaul").chain(typed.split(' ')).map(OsString::from);
        let words = complete(&Cli::command(), line)?;
        Ok(words[1..].iter().map(|word| word.to_str().unwrap()).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn flags_in_one_word_mean_what_they_mean_to_rsync() {
        for (typed, expected) in [
            ("cp -avz src dst", "cp -avzauto src dst"),
            ("cp -z auto src dst", "cp -z auto src dst"),
            ("cp -z9 src dst", "cp -z9 src dst"),
            ("cp src dst -z", "cp src dst -zauto"),
            ("cp --compress src dst", "cp --compress=auto src dst"),
            ("cp --compress=yes src dst", "cp --compress=yes src dst"),
            ("cp -qz src dst", "cp -qzauto src dst"),
            ("cp -- -z dst", "cp -- -z dst"),
            ("cp --sizez -", "cp --sizez -"),
            ("send -z src", "send -zauto src"),
            ("list -z", "list -z"),
            ("cp -azv src dst", "cp -azauto -v src dst"),
            ("cp -az9v", "cp -az9 -v"),
            ("cp -avh src dst", "cp -av src dst"),
            ("cp -h", "cp -h"),
            ("send -hv", "send -hv"),
            ("cp -avhz src dst", "cp -avzauto src dst"),
            ("cp -az20 src dst", "cp -az20 src dst"),
            ("cp -avin --delete src dst", "cp --itemize-changes -avn --delete src dst"),
            ("cp -rltn src dst", "cp -rtn src dst"),
            ("cp -rlptgoD src dst", "cp --owner --owner -rpt src dst"),
            ("cp -rltvz src h:dst", "cp -rtvzauto src h:dst"),
            ("cp -avzog src dst", "cp -avzauto --owner --owner src dst"),
            ("cp -avzP src dst", "cp -avzauto src dst"),
            ("cp -aP src dst", "cp -a src dst"),
            ("cp -Pav src dst", "cp -av src dst"),
            ("cp -Pr src dst", "cp -r src dst"),
            ("cp -Pave ssh src h:dst", "cp -ave ssh src h:dst"),
            ("cp -aPq src dst", "cp -aq src dst"),
            ("cp -zauto src dst", "cp -zauto src dst"),
            ("cp -azyes src dst", "cp -azyes src dst"),
            ("send -zno src", "send -zno src"),
        ] {
            assert_eq!(completed(typed).unwrap(), expected, "{typed}");
        }
    }

    /// A folder's name may be what could be a value.
    #[test]
    fn no_source_is_taken_for_a_value() {
        for (typed, expected) in [
            ("cp -az 1 2 3 dst", "cp -azauto 1 2 3 dst"),
            ("cp -az no dst", "cp -azauto no dst"),
            ("cp -z 2024 dst", "cp -zauto 2024 dst"),
            ("cp --compress 2024 dst", "cp --compress=auto 2024 dst"),
            ("cp -avzP 22 src dst", "cp -avzauto 22 src dst"),
            ("cp -ai s1/ s2/ dst", "cp --itemize-changes -a s1/ s2/ dst"),
            ("cp -rl s1/ s2/ dst", "cp -r s1/ s2/ dst"),
            ("cp -rl . h:dst", "cp -r . h:dst"),
            ("cp src dst -rl", "cp src dst -r"),
            ("cp -rl -v src dst", "cp -r -v src dst"),
            ("cp -ro s1/ s2/ dst", "cp --owner -r s1/ s2/ dst"),
            ("cp -rP s1/ s2/ dst", "cp -r s1/ s2/ dst"),
        ] {
            assert_eq!(completed(typed).unwrap(), expected, "{typed}");
        }
    }

    #[test]
    fn what_scps_users_type_is_sshs() {
        for typed in [
            "cp -ikeyz src h:dst",
            "cp -ihost.key src h:dst",
            "cp -i key src h:dst",
            "cp -ri key src h:dst",
            "cp -rP 2222 src h:dst",
            "cp -rpP2222 src h:dst",
            "cp -rvoPort=22 src h:dst",
            "cp -roStrictHostKeyChecking=no src h:dst",
            "cp -ri~/.ssh/id src h:dst",
            "cp -P46 src h:dst",
            "cp -P4000 src h:dst",
            "cp -rP4000 src h:dst",
            "cp -qP4040 src h:dst",
            "cp -pP6006 src h:dst",
            "cp -rP400 src h:dst",
            "cp -rP2200 src h:dst",
            "cp -rP21301 src h:dst",
            "cp -4P6000 src h:dst",
            "cp -rP0 src h:dst",
            "cp -l user src h:dst",
            "cp -ro Port=22 src h:dst",
            "cp -e ssh src h:dst",
            "cp -R src dst",
            "cp -o -avin src dst",
        ] {
            assert_eq!(completed(typed).unwrap(), typed);
        }
    }

    #[test]
    fn a_command_in_ones_own_word_keeps_its_dashes() {
        let line = ["terahaul", "cp", "-avlze", "ssh -p 2222"].map(OsString::from);
        let attached =
            ["terahaul", "cp", "-avlze'ssh -p 2222'"].map(|word| OsString::from(word.replace('\'', "")));
        assert_eq!(complete(&Cli::command(), line).unwrap()[2..], ["-avzauto", "-e", "ssh -p 2222"]);
        assert_eq!(complete(&Cli::command(), attached).unwrap()[2..], ["-avzauto", "-essh -p 2222"]);
    }

    #[test]
    fn a_word_that_can_be_either_is_refused() {
        for typed in [
            "cp -in src dst",
            "cp -lroot src h:dst",
            "cp -rl root src h:dst",
            "cp -rl 100 src h:dst",
            "cp -rvl first.last src h:dst",
            "cp -avP4000 src h:dst",
            "cp -avP22 src h:dst",
            "cp -avP4 src h:dst",
            "cp -aR src/sub dst",
            "cp -og src dst",
            "cp -aF src dst",
            "cp -avJ src dst",
            "cp -Fn --delete src dst",
            "cp -Favn --delete src dst",
            "cp -lrtnc src h:dst",
            "cp -lqn src h:dst",
            "cp -FFavn src dst",
            "cp -zno src dst",
            "cp -azno src dst",
        ] {
            let error = completed(typed).unwrap_err().to_string();
            assert!(error.contains("is not clear"), "{error}");
        }
    }
}
