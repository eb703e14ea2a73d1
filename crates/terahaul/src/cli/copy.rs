//! Flags of `cp`, and of the far side that it starts.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use super::transfer::{EngineArgs, FilterArgs};
use crate::settings::parse_ports;

/// `terahaul cp`
#[derive(Debug, Args)]
pub struct CopyArgs {
    /// What to copy, and at the end where to: paths, [user@]host:path, ssh://user@host:port/path, a depot or a link
    #[arg(value_name = "SRC… DST", required = true, num_args = 2..)]
    pub paths: Vec<OsString>,
    /// Copy nothing: list what would be copied
    #[arg(long, short = 'n')]
    pub dry_run: bool,
    /// Say which way the bytes go, and more
    #[arg(long, short)]
    pub verbose: bool,
    /// Accepted for scp's and rsync's sake: folders are copied with all that is in them anyway
    #[arg(long, short = 'r', visible_short_alias = 'R')]
    pub recursive: bool,
    /// Accepted for scp's sake: times and modes are kept anyway
    #[arg(short = 'p')]
    pub preserve: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub filter: FilterArgs,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub engine: EngineArgs,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub ssh: SshArgs,
}

/// How the other host is reached.
#[derive(Clone, Debug, Default, Args)]
pub struct SshArgs {
    /// Program to run in place of ssh, with its arguments
    #[arg(long = "rsh", short = 'e', value_name = "COMMAND")]
    pub rsh: Option<String>,
    /// ssh's configuration file
    #[arg(short = 'F', value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// ssh's key file
    #[arg(short = 'i', value_name = "FILE")]
    pub identity: Vec<PathBuf>,
    /// Go through this host, or these hosts
    #[arg(short = 'J', value_name = "HOST")]
    pub jump: Option<String>,
    /// The port of ssh on the other host
    #[arg(short = 'P', value_name = "PORT")]
    pub port: Option<u16>,
    /// An option of ssh, as in its configuration file
    #[arg(short = 'o', value_name = "OPTION")]
    pub option: Vec<String>,
    /// The user on the other host
    #[arg(short = 'l', value_name = "USER")]
    pub login: Option<String>,
    /// IPv4 only
    #[arg(short = '4')]
    pub ipv4: bool,
    /// IPv6 only
    #[arg(short = '6', conflicts_with = "ipv4")]
    pub ipv6: bool,
    /// How to run terahaul on the other host, where its shell does not find it
    #[arg(long, value_name = "COMMAND")]
    pub far_command: Option<String>,
    /// Where the other host lacks terahaul, copy this program to ~/.local/bin there
    #[arg(long)]
    pub install: bool,
    /// Ports that the other host may listen on for the data, such as 50000-50100
    #[arg(long, value_name = "A-B", value_parser = parse_ports)]
    pub ports: Option<(u16, u16)>,
    /// Carry the data through ssh, which is slower, even where a port can be reached
    #[arg(long)]
    pub through_ssh: bool,
}
