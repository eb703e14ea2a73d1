//! Commands that nobody types are not named to those who mistype another.

use clap::Command;
use clap::error::{ContextKind, ContextValue};

/// The error, without them.
pub fn leave_out(command: &Command, mut error: clap::Error) -> clap::Error {
    let is_shown = |name: &&String| !command.find_subcommand(name).is_some_and(Command::is_hide_set);
    if let Some(ContextValue::Strings(names)) = error.get(ContextKind::ValidSubcommand) {
        let shown = names.iter().filter(is_shown).cloned().collect();
        error.insert(ContextKind::ValidSubcommand, ContextValue::Strings(shown));
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_nobody_types_is_not_among_those_that_could_be_meant() {
        let command = <crate::cli::Cli as clap::CommandFactory>::command();
        let error = command.clone().try_get_matches_from(["terahaul", "--json"]).unwrap_err();
        let text = leave_out(&command, error).to_string();
        assert!(text.contains("[subcommands: serve, send, receive, cp, verify,"), "{text}");
    }
}
