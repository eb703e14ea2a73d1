//! Flags of `list`, `info`, `remove` and `token`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum, ValueHint};
use terahaul_core::ByteCount;

use crate::settings::{parse_size, whole};

/// `terahaul list`
#[derive(Debug, Args)]
pub struct ListArgs {
    /// The depot, where it is not TERAHAUL_URL or the last login
    #[arg(long, visible_alias = "to", value_name = "URL")]
    pub depot: Option<String>,
    /// At most so many, newest first
    #[arg(long, value_name = "N", value_parser = whole::<usize>("transfers", 0..=u64::MAX), allow_negative_numbers = true)]
    pub max: Option<usize>,
}

/// `terahaul info`
#[derive(Debug, Args)]
pub struct InfoArgs {
    /// A transfer's identifier, or its link in quotes, or - to read one from stdin
    #[arg(value_name = "ID-or-LINK")]
    pub transfer: String,
    /// The depot, where it is not TERAHAUL_URL or the last login
    #[arg(long, visible_alias = "to", value_name = "URL")]
    pub depot: Option<String>,
    /// The transfer alone, without what is in it
    #[arg(long)]
    pub summary: bool,
    /// Keep the signed receipt of a transfer that has ended in this file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub receipt: Option<PathBuf>,
}

/// `terahaul extend`
#[derive(Debug, Args)]
pub struct ExtendArgs {
    /// Identifiers, as `terahaul list` prints them
    #[arg(value_name = "ID", required = true)]
    pub ids: Vec<String>,
    /// Days from now until the depot removes them
    #[arg(long, value_name = "N", required = true, value_parser = whole::<u32>("days", 1..=3650), allow_negative_numbers = true)]
    pub expire_days: u32,
    /// The depot, where it is not TERAHAUL_URL or the last login
    #[arg(long, visible_alias = "to", value_name = "URL")]
    pub depot: Option<String>,
}

/// `terahaul remove`
#[derive(Debug, Args)]
pub struct RemoveArgs {
    /// Identifiers, as `terahaul list` prints them
    #[arg(value_name = "ID", required = true)]
    pub ids: Vec<String>,
    /// The depot, where it is not TERAHAUL_URL or the last login
    #[arg(long, visible_alias = "to", value_name = "URL")]
    pub depot: Option<String>,
    /// Remove nothing: say what would be removed
    #[arg(long, short = 'n')]
    pub dry_run: bool,
}

/// `terahaul token`
#[derive(Debug, Args)]
pub struct TokenArgs {
    /// The depot, where it is not TERAHAUL_URL or the last login
    #[arg(long, visible_alias = "to", value_name = "URL", global = true)]
    pub depot: Option<String>,
    #[command(subcommand)]
    #[allow(missing_docs)]
    pub command: TokenCommand,
}

/// What to do with tokens.
#[derive(Debug, Subcommand)]
pub enum TokenCommand {
    /// Make a token; it is printed once, on the last line of stdout
    Create(TokenCreateArgs),
    /// List tokens
    List,
    /// Have tokens end so many days from now, also expired ones
    Extend(TokenExtendArgs),
    /// End a token: what uses it is refused from then on
    Revoke(TokenRevokeArgs),
}

/// What a token may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ScopeArg {
    /// Make transfers, fill and manage them
    Send,
    /// Read every transfer of the depot
    Receive,
    /// Everything, tokens included
    Own,
}

impl ScopeArg {
    /// Its name in the API.
    pub fn text(self) -> &'static str {
        match self {
            Self::Send => "send",
            Self::Receive => "receive",
            Self::Own => "own",
        }
    }
}

/// `terahaul token create`
#[derive(Debug, Args)]
pub struct TokenCreateArgs {
    /// What to call it: who or what uses it
    #[arg(long)]
    pub label: String,
    /// What it may do
    #[arg(long, value_delimiter = ',', required = true)]
    pub scope: Vec<ScopeArg>,
    /// Most bytes that its transfers may declare together, such as 200GB
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub quota: Option<ByteCount>,
    /// Days until it ends
    #[arg(long, value_name = "N", value_parser = whole::<u32>("days", 1..=36500), allow_negative_numbers = true)]
    pub expire_days: Option<u32>,
}

/// `terahaul token revoke`
#[derive(Debug, Args)]
pub struct TokenRevokeArgs {
    /// Identifiers, as `terahaul token list` prints them
    #[arg(value_name = "ID", required = true)]
    pub ids: Vec<String>,
}

/// `terahaul token extend`
#[derive(Debug, Args)]
pub struct TokenExtendArgs {
    /// Identifiers, as `terahaul token list` prints them
    #[arg(value_name = "ID", required = true)]
    pub ids: Vec<String>,
    /// Days from now until they end
    #[arg(long, value_name = "N", required = true, value_parser = whole::<u32>("days", 1..=36500), allow_negative_numbers = true)]
    pub expire_days: u32,
}
