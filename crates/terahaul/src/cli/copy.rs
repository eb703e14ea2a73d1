//! Flags of `cp`, and of the far side that it starts.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::copy_rules::RuleArgs;
use super::transfer::EngineArgs;
use crate::settings::{parse_port, parse_ports, whole};

/// `terahaul cp`
#[derive(Debug, Args)]
pub struct CopyArgs {
    /// What to copy, and at the end where to: paths, [user@]host:path, ssh://user@host:port/path, a depot or a link
    #[arg(value_name = "SRC… DST", required = true, num_args = 1.., value_hint = ValueHint::AnyPath)]
    pub paths: Vec<OsString>,
    /// Copy nothing: list what would be copied, and with --delete what would be removed
    #[arg(long, short = 'n')]
    pub dry_run: bool,
    /// Name what is copied and removed, and say which way the bytes go
    #[arg(long, short, action = clap::ArgAction::Count)]
    pub verbose: u8,
    /// Name every change with what differs, as rsync does
    #[arg(long)]
    pub itemize_changes: bool,
    /// Say at the end what was done, in figures
    #[arg(long)]
    pub stats: bool,
    /// Accepted for scp's and rsync's sake: folders are copied with all that is in them anyway; with --files-from, those that it names
    #[arg(long, short = 'r', visible_short_alias = 'R')]
    pub recursive: bool,
    /// Keep permission bits also of what exists, and owners where the receiving user may set them: rsync's -a
    #[arg(long, short = 'a')]
    pub archive: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub kept: KeptArgs,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub compare: CompareArgs,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub delete: DeleteArgs,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub filter: RuleArgs,
    /// Copy only what this file lists, one path a line below the source; - is stdin
    #[arg(long, value_name = "FILE", conflicts_with = "delete", value_hint = ValueHint::FilePath)]
    pub files_from: Option<OsString>,
    /// Lines of --files-from, --include-from and --exclude-from end with a NUL byte
    #[arg(long, short = '0')]
    pub from0: bool,
    /// Send changed files whole, and not only what the receiver's old ones lack
    #[arg(long, short = 'W', overrides_with = "no_whole_file")]
    pub whole_file: bool,
    /// Send of changed files what the receiver's old ones lack, as is done anyway between two hosts
    #[arg(long)]
    pub no_whole_file: bool,
    /// Keep what is not complete in this folder, relative to the destination
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub partial_dir: Option<PathBuf>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub engine: EngineArgs,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub ssh: SshArgs,
}

/// What is kept besides content, times and links.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct KeptArgs {
    /// Keep permission bits also of what exists; times are kept anyway
    #[arg(long, short = 'p', overrides_with = "no_perms")]
    pub perms: bool,
    /// Leave the permission bits of what exists, whatever -a says
    #[arg(long, alias = "no-p", overrides_with = "perms")]
    pub no_perms: bool,
    /// Keep users and groups, as far as the receiving user may set them
    #[arg(long, overrides_with = "no_owner")]
    pub owner: bool,
    /// Leave users and groups to the receiving system, whatever -a says
    #[arg(long, aliases = ["no-o", "no-group", "no-g"], overrides_with = "owner")]
    pub no_owner: bool,
    /// Keep users and groups by number, not by name
    #[arg(long)]
    pub numeric_ids: bool,
    /// Keep files of several names one file
    #[arg(long, short = 'H')]
    pub hard_links: bool,
    /// Keep extended attributes
    #[arg(long, short = 'X')]
    pub xattrs: bool,
    /// Keep access control lists, and with them permission bits (-p)
    #[arg(long, short = 'A')]
    pub acls: bool,
    /// Pass over devices, FIFOs and sockets in silence; without it each is named as not copied
    #[arg(long, aliases = ["no-D", "no-devices"])]
    pub no_specials: bool,
    /// Accepted for scp's and rsync's sake: times are kept anyway
    #[arg(long, short = 't', hide = true)]
    pub times: bool,
    /// Accepted for rsync's sake: progress is shown on a terminal anyway
    #[arg(long, hide = true)]
    pub progress: bool,
    /// Accepted for rsync's sake: what has arrived is kept anyway
    #[arg(long, hide = true)]
    pub partial: bool,
}

/// When something is copied although something is there.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct CompareArgs {
    /// Leave files that are newer at the destination
    #[arg(long, short = 'u')]
    pub update: bool,
    /// Make nothing that is not there yet
    #[arg(long, alias = "ignore-non-existing")]
    pub existing: bool,
    /// Leave all files that are there
    #[arg(long)]
    pub ignore_existing: bool,
    /// Take files of the same content for the same, whatever their times; the sending side reads all of them, the other those of the same size
    #[arg(long)]
    pub checksum: bool,
    /// Take files of the same size for the same, unless --checksum is given
    #[arg(long)]
    pub size_only: bool,
    /// Take no files for the same, unless --checksum or --size-only is given
    #[arg(long, short = 'I')]
    pub ignore_times: bool,
    /// Take times that are so far apart for the same
    #[arg(long, value_name = "SECONDS", default_value_t = 0, value_parser = whole::<u32>("seconds", 0..=86400), allow_negative_numbers = true)]
    pub modify_window: u32,
}

/// What is removed at the destination.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct DeleteArgs {
    /// Remove what the source has not, after everything was copied; not what rules leave out
    #[arg(long, visible_aliases = ["del", "delete-after"])]
    pub delete: bool,
    /// With --delete, remove at most so many files and folders
    #[arg(long, value_name = "N", value_parser = whole::<u64>("files and folders", 0..=u64::MAX), allow_negative_numbers = true)]
    pub max_delete: Option<u64>,
    /// With --delete, remove even if the source could not be read whole
    #[arg(long)]
    pub ignore_errors: bool,
    /// Replace folders by files even where something is in them
    #[arg(long)]
    pub force: bool,
}

/// How the other host is reached.
#[derive(Clone, Debug, Default, Args)]
pub struct SshArgs {
    /// Program to run in place of ssh, with its arguments
    #[arg(long = "rsh", short = 'e', value_name = "COMMAND")]
    pub rsh: Option<String>,
    /// ssh's configuration file
    #[arg(short = 'F', value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub config: Option<PathBuf>,
    /// ssh's key file
    #[arg(short = 'i', value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub identity: Vec<PathBuf>,
    /// Go through this host, or these hosts
    #[arg(short = 'J', value_name = "HOST")]
    pub jump: Option<String>,
    /// The port of ssh on the other host
    #[arg(short = 'P', value_name = "PORT", value_parser = parse_port)]
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
    /// Where the other host lacks terahaul, or has one that this one cannot talk to, copy this program to ~/.local/bin there, also with -n
    // What is installed is not what the command would have run, nor where, nor with the same rights.
    #[arg(long, conflicts_with = "far_command")]
    pub install: bool,
    /// Ports that the other host may listen on for the data, such as 50000-50100
    #[arg(long, value_name = "A-B", value_parser = parse_ports)]
    pub ports: Option<(u16, u16)>,
    /// Carry the data through ssh, which is slower, even where a port can be reached
    #[arg(long)]
    pub through_ssh: bool,
}
