//! `terahaul lab`: emulated paths, and what is measured on them.

mod compare;
mod limits;
mod path;
mod terabyte;

use clap::{Args, Subcommand};
use terahaul_lab::LabError;

use crate::exit::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::output::Output;

/// `terahaul lab`
#[derive(Debug, Args)]
pub struct LabArgs {
    #[command(subcommand)]
    #[allow(missing_docs)]
    pub command: LabCommand,
}

/// What to do in the lab.
#[derive(Debug, Subcommand)]
pub enum LabCommand {
    /// Run a command at one end of an emulated network path
    #[command(after_help = path::HELP)]
    Path(path::PathArgs),
    /// Measure real programs side by side on emulated paths
    #[command(after_help = compare::COMPARE)]
    Compare(compare::CompareArgs),
    /// Make the reports of a comparison again
    #[command(after_help = compare::REPORT)]
    Report(compare::ReportArgs),
    /// Measure what this machine can do alone: hash, write, read, TCP and UDP over loopback
    #[command(after_help = limits::LIMITS)]
    Limits(limits::LimitsArgs),
    /// Measure each cipher and hash on this machine
    #[command(after_help = limits::CIPHERS)]
    Ciphers(limits::CiphersArgs),
    /// Send one terabyte, made from a seed, through the engine on this machine
    #[command(after_help = terabyte::HELP)]
    Terabyte(terabyte::TerabyteArgs),
}

/// After the list of the lab's commands.
pub const HELP: &str = "\
Examples:
  terahaul lab path list
      The ready paths, from a local network to a satellite.
  terahaul lab path --path lossy --far 'iperf3 -s' -- iperf3 -c 198.18.0.2
      What TCP makes of one packet lost in a hundred.
  terahaul lab compare --path lossy --work file:1GB --with scp,terahaul \\
      --out results
      How long programs take, in a table and a page with plots.
  terahaul lab limits
      What this machine can do alone with each part of a transfer.

Paths need root, or a kernel that lets users make namespaces; docs/lab.md says
more.";

/// Does what was asked.
pub async fn run(args: LabArgs, output: &Output, interrupt: &Interrupt) -> Result<Exit, Failure> {
    match args.command {
        LabCommand::Path(args) => path::run(args, output, interrupt).await,
        LabCommand::Compare(args) => compare::run(args, output, interrupt).await,
        LabCommand::Report(args) => compare::report(&args, output),
        LabCommand::Limits(args) => limits::limits(args, output, interrupt).await,
        LabCommand::Ciphers(args) => limits::ciphers(args, output, interrupt).await,
        LabCommand::Terabyte(args) => terabyte::run(args, output, interrupt).await,
    }
}

/// Without the right to make namespaces this program starts again in a user namespace, where it has it.
fn need_namespaces() -> Result<(), Failure> {
    if terahaul_lab::namespace::may_make_namespaces() {
        return Ok(());
    }
    Err(failure(&terahaul_lab::namespace::become_root_of_a_user_namespace()))
}

/// What goes wrong in the lab, as exit codes.
pub fn failure(error: &LabError) -> Failure {
    let exit = match error {
        LabError::Spec(_) | LabError::NoCongestionControl { .. } => Exit::Usage,
        LabError::NotPermitted(_) => Exit::Denied,
        LabError::NoTun(_) | LabError::MissingProgram { .. } => Exit::NotFound,
        LabError::Folder { path, source } => Failure::file("written", path, source).exit,
        _ => Exit::Unexpected,
    };
    Failure::new(exit, error.to_string())
}
