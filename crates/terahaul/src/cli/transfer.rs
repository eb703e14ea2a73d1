//! Flags of `send`, `receive` and `verify`.

use std::fmt::{self, Display, Formatter};
use std::net::IpAddr;
use std::path::PathBuf;

use clap::{Args, ValueHint};
use terahaul_core::{Compress, Priority, Rate};
use terahaul_net::LocalAddresses;
use terahaul_net::client::{Options, Transport};

use crate::exit::Failure;
use crate::output::printable_text;
use crate::settings::{
    Channels, Words, parse_address, parse_channels, parse_compress, parse_priority, parse_transport, whole,
};

/// Which entries.
#[derive(Clone, Debug, Default, Args)]
pub struct FilterArgs {
    /// Only what matches this glob, written as in a .gitignore; may be given several times
    #[arg(long, value_name = "GLOB")]
    pub include: Vec<String>,
    /// Leave out what matches this glob, written as in a .gitignore; may be given several times
    #[arg(long, value_name = "GLOB")]
    pub exclude: Vec<String>,
}

impl FilterArgs {
    /// Whether there are no globs.
    pub fn is_none(&self) -> bool {
        self.include.is_empty() && self.exclude.is_empty()
    }
}

/// As they are typed.
impl Display for FilterArgs {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let flags = [("include", &self.include), ("exclude", &self.exclude)];
        let typed = flags.into_iter().flat_map(|(flag, globs)| {
            globs.iter().map(move |glob| format!("--{flag} '{}'", printable_text(glob)))
        });
        f.write_str(&typed.collect::<Vec<_>>().join(" "))
    }
}

/// How bytes are moved.
#[derive(Clone, Debug, Args)]
pub struct EngineArgs {
    /// Parallel data channels: a number up to 64, or auto
    #[arg(long, value_name = "N|auto", default_value = "auto", value_parser = Words::new(|| vec!["auto"], parse_channels), allow_negative_numbers = true, hide_possible_values = true)]
    pub channels: Channels,
    /// Most bytes a second, with a unit: 800mbit, 1gbit, 100MB, 64MiB
    #[arg(long, value_name = "RATE", visible_alias = "max-rate", allow_negative_numbers = true)]
    pub limit: Option<Rate>,
    /// Beside others on the path: fair, as much as each; background, what they leave; full, as much as it can, and with --limit that rate, whatever is lost
    #[arg(long, value_name = "fair|background|full", default_value = "fair", value_parser = Words::new(|| vec!["fair", "background", "full"], parse_priority), hide_possible_values = true)]
    pub priority: Priority,
    /// Compress on the way: auto (when that makes it faster; also -z alone), no, yes, or a level of Zstandard from 1 to 19 (-z3, --compress=3)
    #[arg(short = 'z', long, value_name = "auto|no|yes|LEVEL", default_value = "auto", value_parser = Words::new(|| vec!["auto", "no", "yes"], parse_compress), hide_possible_values = true)]
    pub compress: Compress,
    /// What blocks travel by: tcp; udp, which long or lossy paths do not slow down; auto, tcp and on long paths whichever delivers more; tcp+udp, that on any path
    #[arg(long, value_name = "auto|tcp|udp|tcp+udp", default_value = "auto", value_parser = Words::new(|| vec!["auto", "tcp", "udp", "tcp+udp"], parse_transport), hide_possible_values = true)]
    pub transport: Transport,
    /// Leave from these addresses of this machine, with commas between them: several are as many network paths, whose rates add up over udp
    #[arg(long, value_name = "ADDR,…", value_delimiter = ',', value_parser = parse_address)]
    pub bind: Vec<IpAddr>,
}

impl EngineArgs {
    /// The addresses to leave from, each of which this machine has.
    pub fn local(&self) -> Result<LocalAddresses, Failure> {
        LocalAddresses::new(self.bind.clone()).map_err(Failure::usage)
    }

    /// The rest for the engine.
    pub fn options(&self) -> Options {
        Options {
            channels: self.channels.fixed(),
            limit: self.limit,
            compress: self.compress,
            delta: false,
            transport: self.transport,
            priority: self.priority,
        }
    }
}

/// `terahaul send`
#[derive(Debug, Args)]
pub struct SendArgs {
    /// Files and folders; `dir` arrives as a folder of that name, `dir/` and `.` as what is in them
    #[arg(value_name = "PATH", required = true, value_hint = ValueHint::AnyPath)]
    pub paths: Vec<PathBuf>,
    /// The depot, where it is not TERAHAUL_URL or the last login
    #[arg(long, visible_alias = "depot", value_name = "URL")]
    pub to: Option<String>,
    /// The transfer's name; the first path's name if left out
    #[arg(long)]
    pub name: Option<String>,
    /// Days until the depot removes the transfer
    #[arg(long, value_name = "N", value_parser = whole::<u32>("days", 1..=3650), allow_negative_numbers = true)]
    pub expire_days: Option<u32>,
    /// Keep the signed receipt in this file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub receipt: Option<PathBuf>,
    /// Send nothing: list what would be sent, and what the depot has already
    #[arg(long, short = 'n')]
    pub dry_run: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub filter: FilterArgs,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub engine: EngineArgs,
}

/// `terahaul receive`
#[derive(Debug, Args)]
pub struct ReceiveArgs {
    /// The link in quotes, or - to read it from stdin; or the identifier of a transfer at the depot that is set
    #[arg(value_name = "LINK-or-ID")]
    pub link: String,
    /// Folder to receive into; it is made if it is not there
    #[arg(value_name = "DIR", default_value = ".", value_hint = ValueHint::DirPath)]
    pub dir: PathBuf,
    /// Replace files and links that are there already, whatever is in them
    #[arg(long)]
    pub overwrite: bool,
    /// Keep the signed receipt in this file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub receipt: Option<PathBuf>,
    /// Receive nothing: list what would be received
    #[arg(long, short = 'n')]
    pub dry_run: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub filter: FilterArgs,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub engine: EngineArgs,
}

/// `terahaul verify`
#[derive(Debug, Args)]
pub struct VerifyArgs {
    /// A receipt's file, which needs no network, or a link in quotes, - to read the link from stdin, or an identifier
    #[arg(value_name = "RECEIPT-or-LINK-or-ID", value_hint = ValueHint::FilePath)]
    pub against: String,
    /// The folder that the files were received into, or sent from
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub dir: PathBuf,
    /// Also name what is in DIR and not in the receipt
    #[arg(long)]
    pub extra: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub filter: FilterArgs,
}
