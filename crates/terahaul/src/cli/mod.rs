//! What can be typed: commands and flags as data. What they mean is settled in [`crate::settings`].

mod copy;
mod copy_rules;
mod depot;
pub mod hidden;
mod install;
mod manage;
pub mod other_tools;
pub mod rsync_words;
mod topics;
mod transfer;

pub use copy::{CompareArgs, CopyArgs, DeleteArgs, KeptArgs, SshArgs};
pub use copy_rules::TypedRule;
pub use depot::{LoginArgs, ServeArgs};
pub use install::{CompletionsArgs, ManArgs};
pub use manage::{ExtendArgs, InfoArgs, ListArgs, RemoveArgs, TokenArgs, TokenCommand, TokenCreateArgs};
pub use topics::EXIT_CODES;
pub use transfer::{FilterArgs, ReceiveArgs, SendArgs, VerifyArgs};

use clap::{Args, Parser, Subcommand};

/// The whole command line.
#[derive(Debug, Parser)]
#[command(
    name = "terahaul",
    version,
    about = "Moves terabytes from a shell or a browser to a depot and out again: parallel, encrypted, resumable, proven",
    after_help = topics::OVERVIEW,
    max_term_width = 100,
    subcommand_required = true,
    arg_required_else_help = true
)]
pub struct Cli {
    /// Flags of every command.
    #[command(flatten)]
    pub global: GlobalArgs,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Flags of every command.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct GlobalArgs {
    /// Write one JSON object a line on stdout instead of text (docs/cli.md lists them)
    #[arg(long, global = true, display_order = 900)]
    pub json: bool,
    /// Say nothing but results, failures and errors
    #[arg(long, short, global = true, display_order = 901)]
    pub quiet: bool,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a depot: a place that files are sent to and received from, with a web page
    #[command(after_help = topics::SERVE)]
    Serve(ServeArgs),
    /// Send files and folders to a depot; prints the link to share
    #[command(after_help = topics::SEND)]
    Send(SendArgs),
    /// Receive what a link leads to
    #[command(after_help = topics::RECEIVE)]
    Receive(ReceiveArgs),
    /// Copy files and folders to or from another host over ssh, or on this one
    #[command(name = "cp", after_help = topics::CP, disable_version_flag = true, args_override_self = true)]
    Copy(CopyArgs),
    /// The far side of 'cp', which ssh starts on the other host
    #[command(hide = true)]
    Far,
    /// Read files again and compare them with a signed receipt
    #[command(after_help = topics::VERIFY)]
    Verify(VerifyArgs),
    /// List transfers
    #[command(after_help = topics::LIST)]
    List(ListArgs),
    /// Show a transfer and what is in it
    #[command(after_help = topics::INFO)]
    Info(InfoArgs),
    /// Change how long the depot keeps transfers, counted from now
    #[command(after_help = topics::EXTEND)]
    Extend(ExtendArgs),
    /// Remove transfers from the depot
    #[command(after_help = topics::REMOVE, visible_alias = "delete")]
    Remove(RemoveArgs),
    /// Create, list, extend and revoke tokens
    #[command(after_help = topics::TOKEN)]
    Token(TokenArgs),
    /// Store a depot's address and token, so that no settings are needed
    #[command(after_help = topics::LOGIN)]
    Login(LoginArgs),
    /// Measure the path to a depot or a host, and say what limits it and what to do
    #[command(after_help = crate::probe::HELP)]
    Probe(crate::probe::ProbeArgs),
    /// Emulate network paths, and measure on them
    #[command(after_help = crate::lab::HELP)]
    Lab(crate::lab::LabArgs),
    /// Print what completes the command line in a shell
    #[command(after_help = topics::COMPLETIONS)]
    Completions(CompletionsArgs),
    /// Write a manual page for each command
    #[command(after_help = topics::MAN)]
    Man(ManArgs),
    /// What the exit codes mean
    #[command(long_about = EXIT_CODES, help_template = "{about}\n")]
    ExitCodes,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    const REFERENCE: &str = include_str!("../../../../docs/cli.md");

    #[test]
    fn the_reference_has_every_flag_of_a_client() {
        for command in Cli::command().get_subcommands().filter(|command| command.get_name() != "serve") {
            let of_subcommands = command.get_subcommands().flat_map(clap::Command::get_arguments);
            for flag in command.get_arguments().chain(of_subcommands).filter_map(clap::Arg::get_long) {
                assert!(REFERENCE.contains(&format!("--{flag}")), "{} --{flag}", command.get_name());
            }
        }
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_teaches_by_example() {
        for command in Cli::command().get_subcommands().filter(|command| !command.is_hide_set()) {
            if command.get_name() == "exit-codes" {
                continue;
            }
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains("Examples:") && help.contains("terahaul "), "{}", command.get_name());
        }
    }

    #[test]
    fn no_line_of_what_help_teaches_is_broken_by_a_terminal() {
        fn look(command: &clap::Command) {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            for line in help.lines().chain(EXIT_CODES.lines()) {
                assert!(line.chars().count() <= 80, "{}: {line}", command.get_name());
            }
            command.get_subcommands().for_each(look);
        }
        look(&Cli::command());
    }

    #[test]
    fn every_exit_code_is_documented() {
        use crate::exit::Exit;
        for exit in [
            Exit::Ok,
            Exit::Unexpected,
            Exit::Usage,
            Exit::Unreachable,
            Exit::Denied,
            Exit::NotFound,
            Exit::NoSpace,
            Exit::Partial,
            Exit::VerifyFailed,
            Exit::Vanished,
            Exit::Interrupted,
        ] {
            let line = EXIT_CODES.lines().find(|line| line.starts_with(&format!("{:>5}  ", exit.number())));
            assert!(line.is_some_and(|line| line.contains(exit.name())), "{exit:?}");
            let row = format!("| {} | `{}` |", exit.number(), exit.name());
            assert!(REFERENCE.contains(&row), "docs/cli.md lacks {row}");
        }
    }
}
