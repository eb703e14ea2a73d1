//! Flags of `completions` and `man`: what an installation has beside the program.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use clap_complete::Shell;

/// `terahaul completions`
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// For which shell
    pub shell: Shell,
}

/// `terahaul man`
#[derive(Debug, Args)]
pub struct ManArgs {
    /// The folder to write them into
    #[arg(value_hint = ValueHint::DirPath)]
    pub dir: PathBuf,
}
