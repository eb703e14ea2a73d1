//! What can go wrong with a copy, and who can mend it.

use std::path::PathBuf;

use terahaul_core::ByteCount;
use terahaul_net::client::{ClientError, ErrorKind};

use crate::greeting::{Reason, Refusal};

/// What kind of error, for exit codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyErrorKind {
    /// The command line cannot be used.
    Usage,
    /// ssh or the far side cannot be reached.
    Unreachable,
    /// There is no such file.
    NotFound,
    /// A disk is full.
    NoRoom,
    /// Anything else.
    Unexpected,
}

/// Why a copy failed.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// ssh cannot be run.
    #[error("'{program}' could not be started ({source}): install it, or name another with -e")]
    NoSsh {
        /// What was run.
        program: String,
        /// Why not.
        source: std::io::Error,
    },
    /// ssh ended before the greeting, with the code that stands both for its own failures and for a far side that a signal has ended.
    #[error(
        "ssh did not reach {host}, or 'terahaul' there was ended by a signal, as a damaged one is ({status}): see what it said above, and try 'ssh {host}' with the same key, port and options{}",
        if *.replaceable { "; if that works, --install replaces 'terahaul' there" } else { "" }
    )]
    NotHeard {
        /// Where to.
        host: String,
        /// How it ended.
        status: String,
        /// Whether `--install` may be asked for: what the user names it does not replace, and what it has just replaced it need not.
        replaceable: bool,
    },
    /// ssh ended, with what runs on any host.
    #[error(
        "ssh did not reach {host} ({status}): see what it said above, and try 'ssh {host}' with the same key, port and options"
    )]
    SshFailed {
        /// Where to.
        host: String,
        /// How it ended.
        status: String,
    },
    /// The far side has no `terahaul`, or none where the user says.
    #[error("{}", not_installed(host, named.as_deref()))]
    NotInstalled {
        /// Where.
        host: String,
        /// What `--far-command` says.
        named: Option<String>,
    },
    /// ssh ended while it was given one, or a signal ended what ran there.
    #[error(
        "the ssh connection to {host} ended ({status}) while 'terahaul' was installed there: run the same command again"
    )]
    InstallBrokenOff {
        /// Where to.
        host: String,
        /// How it ended.
        status: String,
    },
    /// It could not be given one.
    #[error(
        "'terahaul' could not be installed on {host} ({detail}): install it there by hand, in another place where that is no good, which --far-command names"
    )]
    InstallFailed {
        /// Where.
        host: String,
        /// Why not.
        detail: String,
    },
    /// The far side is something else.
    #[error(
        "what answers at {host} is not 'terahaul far' ({detail}): check that your account there may run programs, --far-command, and that its shell's start-up files print little; --install replaces a program of an older version"
    )]
    NotTerahaul {
        /// Where.
        host: String,
        /// What it did.
        detail: String,
    },
    /// The request would be longer than a far side takes.
    #[error(
        "the paths and rules of this copy take {named}, and {most} is the most that the other host is told: split the list, or name folders in it, with -r, instead of all that is in them"
    )]
    TooMuchNamed {
        /// What there is.
        named: ByteCount,
        /// What may be.
        most: ByteCount,
    },
    /// The far side refused.
    #[error("{}", .0.message)]
    Far(Refusal),
    /// ssh ended while the copy ran, or a signal ended the far side: it has one code for both.
    #[error(
        "the ssh connection to {host} ended ({status}), and the far side with it: what has arrived is kept, the same command goes on; if it ends again and again, a limit there may end 'terahaul', such as one on memory"
    )]
    SshEnded {
        /// Where to.
        host: String,
        /// How it ended.
        status: String,
    },
    /// The far side ended while the copy ran, and ssh with it.
    #[error(
        "'terahaul' ended on {host} before the copy was done ({status}): see what it said above; what has arrived is kept, the same command goes on, unless it is a limit there that ends it, such as one on memory"
    )]
    FarEnded {
        /// Where.
        host: String,
        /// How it ended.
        status: String,
    },
    /// What an interrupted copy has left would be removed, and nothing come for it.
    #[error(
        "{0} has parts of files from an interrupted copy, and now no file of the source that they are of can be seen: see that its disk is mounted and that its folders may be read, and run the same command again; if they are not wanted any more, remove that first"
    )]
    SourceEmptied(PathBuf),
    /// The destination should be a folder.
    #[error("{0} is not a folder: give a folder, or a name that is not taken")]
    NotAFolder(PathBuf),
    /// The destination is a device, a FIFO or a socket.
    #[error(
        "{0} is neither a file nor a folder, and would be replaced: name a file; for how fast copies are, there is 'terahaul probe HOST'"
    )]
    Special(PathBuf),
    /// The destination is a link to nothing.
    #[error("{0} is a link that leads nowhere: remove it, or make the folder that it leads to")]
    LeadsNowhere(PathBuf),
    /// The destination is in the home of somebody who is not known there.
    #[error(
        "there is no user '{user}' on that host: check the spelling, or write './{path}' for what is to be called so"
    )]
    NoSuchUser {
        /// Who.
        user: String,
        /// The destination as it was written.
        path: String,
    },
    /// A source is somebody's home, whose name as an entry the near end cannot know.
    #[error("'{0}' is a user's home there: write '{0}/' for what is in it, or './{0}' for what is called so")]
    Home(String),
    /// The destination is in a source.
    #[error(
        "{0} cannot be copied into itself: give a destination outside of it, or leave that out with --exclude"
    )]
    IntoItself(PathBuf),
    /// Its own copying would remove it.
    #[error(
        "{0} lies in a folder that is copied into, where --delete removes what the sources do not have: copy it without --delete, or into another folder"
    )]
    RemovesSource(PathBuf),
    /// The destination's name cannot be used.
    #[error("{path} cannot be a file's name: {reason}")]
    BadName {
        /// Which.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The sources cannot be opened.
    #[error(transparent)]
    Roots(#[from] terahaul_tree::RootError),
    /// A filter rule cannot be read.
    #[error(transparent)]
    Rule(#[from] terahaul_tree::RuleError),
    /// The destination cannot be opened.
    #[error("{0}{place}", place = other_place(.0))]
    Open(#[from] terahaul_tree::OpenError),
    /// What arrived cannot be given its names.
    #[error(transparent)]
    Publish(#[from] terahaul_tree::PublishError),
    /// A block cannot be taken.
    #[error(transparent)]
    Inbound(#[from] terahaul_store::InboundError),
    /// The far side's port was reached and is not any more.
    #[error(
        "the far side does not answer any more ({0}): what has arrived is kept, the same command goes on"
    )]
    Lost(String),
    /// UDP only was asked for, and ssh only, too.
    #[error("datagrams cannot go through ssh: leave out --transport udp or --through-ssh")]
    UdpThroughSsh,
    /// UDP only was asked for, and the far side cannot be reached at a port of its own.
    #[error(
        "{host} has no port that can be reached, which --transport udp needs: leave that out, or open some ports there for TCP and UDP and name them with --ports A-B"
    )]
    NoPortForUdp {
        /// Where.
        host: String,
    },
    /// The session failed.
    #[error(transparent)]
    Client(ClientError),
    /// The sender sent what was not asked for.
    #[error(
        "the sender sent '{0}', which was not asked for: nothing more of it is taken; do not trust that host"
    )]
    NotAskedFor(String),
    /// Too many names.
    #[error(transparent)]
    Full(#[from] terahaul_tree::TableFull),
    /// Too many bytes, or names.
    #[error(transparent)]
    Layout(#[from] terahaul_core::LayoutError),
    /// The manifest cannot be right.
    #[error(transparent)]
    Append(#[from] terahaul_tree::AppendError),
    /// More is to be copied than the destination has room for.
    #[error(
        "{folder} has {free} free, and at least {more} are still to be copied: free some space, or copy elsewhere"
    )]
    NoRoom {
        /// The destination.
        folder: PathBuf,
        /// What its file system still takes.
        free: ByteCount,
        /// What is wanted and not here, as far as the source is known.
        more: ByteCount,
    },
    /// A local file or folder failed.
    #[error(
        "{path} could not be {action} ({source}): {}",
        terahaul_store::remedy_of_too_many_files(source).unwrap_or("check its permissions and the disk")
    )]
    File {
        /// Which.
        path: PathBuf,
        /// What was tried.
        action: &'static str,
        /// The system's words.
        source: std::io::Error,
    },
    /// This program failed.
    #[error("{0}")]
    Local(String),
    /// A thread of it panicked, or was not let begin as the program ends.
    #[error("a thread of this program failed ({0}): report this, and run the same command again")]
    Thread(#[from] tokio::task::JoinError),
    /// The caller stopped it.
    #[error("interrupted: what has arrived is kept, the same command goes on")]
    Interrupted,
}

fn not_installed(host: &str, named: Option<&str>) -> String {
    match named {
        None => format!(
            "{host} has no 'terahaul': install it there, copy it there with --install, or say where it is with --far-command"
        ),
        Some(named) => format!(
            "{host} has no program '{named}' that can be run: check what --far-command names, or leave it out"
        ),
    }
}

impl From<ClientError> for CopyError {
    fn from(error: ClientError) -> Self {
        match error {
            // Its own words are about depots.
            ClientError::Unreachable { detail, .. } => Self::Lost(detail),
            // What landed here has said why, in this type.
            ClientError::Destination(error) => match error.downcast() {
                Ok(error) => *error,
                Err(error) => Self::Client(ClientError::Destination(error)),
            },
            error => Self::Client(error),
        }
    }
}

/// Who may not write to the destination itself may still write to a folder in it.
fn other_place(error: &terahaul_tree::OpenError) -> &'static str {
    match error {
        terahaul_tree::OpenError::Unwritable { source, .. }
            if source.kind() == std::io::ErrorKind::PermissionDenied =>
        {
            ", or have what is not complete kept in a folder in it that you may write to (--partial-dir FOLDER/.part)"
        }
        _ => "",
    }
}

impl CopyError {
    pub(crate) fn file(
        path: impl Into<PathBuf>,
        action: &'static str,
    ) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { path, action, source }
    }

    pub(crate) fn no_thread(error: impl std::fmt::Display) -> Self {
        Self::Local(terahaul_store::said_of_no_thread(&error))
    }

    /// What kind it is.
    pub fn kind(&self) -> CopyErrorKind {
        use std::io::ErrorKind as Io;
        let of_io = |kind: Io| match kind {
            Io::StorageFull | Io::QuotaExceeded => CopyErrorKind::NoRoom,
            Io::NotFound => CopyErrorKind::NotFound,
            _ => CopyErrorKind::Unexpected,
        };
        match self {
            Self::NoSsh { .. }
            | Self::NotHeard { .. }
            | Self::SshFailed { .. }
            | Self::NotInstalled { .. }
            | Self::NotTerahaul { .. } => CopyErrorKind::Unreachable,
            Self::SshEnded { .. }
            | Self::FarEnded { .. }
            | Self::Lost(_)
            | Self::InstallBrokenOff { .. }
            | Self::InstallFailed { .. }
            | Self::NoPortForUdp { .. } => CopyErrorKind::Unreachable,
            // Nothing is wrong with how it was typed.
            Self::Roots(terahaul_tree::RootError::Unreadable { source, .. }) => of_io(source.kind()),
            Self::Far(Refusal { reason, .. }) => match reason {
                Reason::Usage => CopyErrorKind::Usage,
                Reason::NotFound => CopyErrorKind::NotFound,
                Reason::NoRoom => CopyErrorKind::NoRoom,
                Reason::Version => CopyErrorKind::Unreachable,
                Reason::Failed => CopyErrorKind::Unexpected,
            },
            Self::Roots(terahaul_tree::RootError::Missing(_)) | Self::SourceEmptied(_) => {
                CopyErrorKind::NotFound
            }
            Self::NotAFolder(_)
            | Self::LeadsNowhere(_)
            | Self::Special(_)
            | Self::Home(_)
            | Self::NoSuchUser { .. }
            | Self::IntoItself(_)
            | Self::RemovesSource(_)
            | Self::BadName { .. }
            | Self::TooMuchNamed { .. }
            | Self::UdpThroughSsh
            | Self::Roots(_)
            | Self::Rule(_) => CopyErrorKind::Usage,
            // Not found is what a folder cannot be made in; the source is there.
            Self::Open(terahaul_tree::OpenError::Unwritable { source, .. })
                if terahaul_store::is_no_place(source) =>
            {
                CopyErrorKind::Usage
            }
            Self::Open(terahaul_tree::OpenError::Unwritable { source, .. }) | Self::File { source, .. } => {
                of_io(source.kind())
            }
            Self::Publish(terahaul_tree::PublishError::Sink(error)) if error.is_full() => {
                CopyErrorKind::NoRoom
            }
            Self::Publish(terahaul_tree::PublishError::FullBelow { .. }) => CopyErrorKind::NoRoom,
            Self::NoRoom { .. } => CopyErrorKind::NoRoom,
            Self::Inbound(error) if error.is_full() => CopyErrorKind::NoRoom,
            Self::Client(error) => match error.kind() {
                ErrorKind::Unreachable => CopyErrorKind::Unreachable,
                ErrorKind::NoRoom => CopyErrorKind::NoRoom,
                ErrorKind::NotFound => CopyErrorKind::NotFound,
                ErrorKind::Usage => CopyErrorKind::Usage,
                _ => CopyErrorKind::Unexpected,
            },
            Self::Open(_)
            | Self::Publish(_)
            | Self::Inbound(_)
            | Self::NotAskedFor(_)
            | Self::Full(_)
            | Self::Layout(_)
            | Self::Append(_)
            | Self::Local(_)
            | Self::Thread(_)
            | Self::Interrupted => CopyErrorKind::Unexpected,
        }
    }

    /// Whether the other host lacks the program, or may have a damaged one or one of another version: of one that was before copies, it
    /// is known only that it does not answer.
    pub(crate) fn is_curable_by_installing(&self) -> bool {
        match self {
            // Whether ssh is at fault is found out before anything is replaced.
            Self::NotInstalled { .. } | Self::NotTerahaul { .. } | Self::NotHeard { .. } => true,
            Self::Far(refusal) => refusal.reason == Reason::Version,
            _ => false,
        }
    }

    /// What the far side tells the near side.
    pub(crate) fn refusal(&self) -> Refusal {
        let reason = match self.kind() {
            CopyErrorKind::Usage => Reason::Usage,
            CopyErrorKind::NotFound => Reason::NotFound,
            CopyErrorKind::NoRoom => Reason::NoRoom,
            CopyErrorKind::Unreachable | CopyErrorKind::Unexpected => Reason::Failed,
        };
        Refusal { reason, message: self.to_string() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn why_nothing_more_is_taken_here_is_said_as_it_was_found() {
        let refused = Box::new(CopyError::NotAskedFor("x".into()));
        let error = CopyError::from(ClientError::Destination(refused));
        assert!(matches!(error, CopyError::NotAskedFor(_)), "{error}");
    }

    #[test]
    fn a_far_side_of_another_version_is_the_other_hosts_fault_and_can_be_cured_by_installing() {
        let error = CopyError::Far(Refusal { reason: Reason::Version, message: "upgrade".into() });
        assert_eq!(error.kind(), CopyErrorKind::Unreachable);
        assert!(error.is_curable_by_installing());
    }
}
