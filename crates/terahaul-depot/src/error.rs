//! What a depot refuses or fails at, each as one sentence with a remedy.

use std::path::PathBuf;

use terahaul_core::{BlockRefusal, BlockRun, ByteCount, Printable, kept_detail};
use terahaul_store::{InboundError, StoreError};
use terahaul_wire::WireError;

use crate::error_code::ApiCode;

/// Longest message that anyone is told, in characters. What a message has of a request is [`quoted`]; this is for what is not.
const MAX_TOLD: usize = 2000;

/// What a message may have of a request: as much as is kept of a failure's detail, and nothing in it that is not seen. Refusals have no
/// place among the long answers.
pub(crate) fn quoted(text: String) -> String {
    Printable(kept_detail(text).as_bytes()).to_string()
}

/// Every way a request to a depot can end without success.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // the messages say it
pub enum DepotError {
    #[error("no token was given: sign in, or send one in the Authorization header")]
    NoToken,
    #[error("the token is not known to this depot: check that it was copied whole, or create a new one")]
    UnknownToken,
    #[error("the token has expired: ask the depot's owner for a new one")]
    TokenExpired,
    #[error("the token was revoked: ask the depot's owner for a new one")]
    TokenRevoked,
    #[error(
        "the token was made with other keys than the depot has: use the one in its file owner-token, or stop the depot and put keys/ back from a backup"
    )]
    OtherKeys,
    #[error("the session has ended: sign in again")]
    SessionEnded,
    #[error("the sign-in code is used up or wrong: sign in with a token, or restart a depot that prints one")]
    CodeInvalid,
    #[error("the token's scopes do not include '{0}': use a token that has it")]
    Scope(&'static str),
    #[error("a link is no token, and only reads its transfer: for anything else, sign in with a token")]
    LinkIsNoToken,
    #[error(
        "a link only reads its transfer: to change it, sign in with a token, which has to be its sender's or the depot owner's"
    )]
    LinkReads,
    #[error("a request with a session cookie that changes something needs the header 'Terahaul-Csrf: 1'")]
    Csrf,
    #[error("too many failed attempts from this address: wait a minute, then try again")]
    TooManyAttempts,
    #[error("there is no such transfer: it was removed, it expired, or the address is incomplete")]
    NoTransfer,
    #[error("there is no such {0}")]
    NotFound(&'static str),
    #[error(
        "the transfer is finished and takes no more: if it is partial, append to it (without entries, to report failures first) to open it again; otherwise start a new transfer"
    )]
    NotOpen,
    #[error(
        "another 'terahaul send' of the same files, or a program or page that uses the depot's API, has taken this transfer over: let that one finish ('terahaul list' shows how far it is), or stop it and run this one again"
    )]
    SenderReplaced,
    #[error("the transfer was finished or closed meanwhile: connect again to see what became of it")]
    Closed,
    #[error("a finished transfer keeps its name: its receipt is signed with it")]
    NameSigned,
    #[error("the transfer is still being sent: try again when it is finished")]
    NotFinished,
    #[error("the entry did not arrive, so it cannot be downloaded: ask the sender to send it again")]
    EntryFailed,
    #[error("the manifest has {total} entries, so these cannot start at {first}: continue at {total}")]
    ManifestGap { first: u64, total: u64 },
    #[error(
        "entry {entry} is in the manifest already with other properties: a file changed; report it failed and append it again"
    )]
    ManifestDiffers { entry: u64 },
    #[error("entry {entry} is not in the manifest: append it before it is reported failed")]
    NoSuchEntry { entry: u32 },
    #[error("entry {entry} ('{path}') is refused: {reason}")]
    BadEntry { entry: u64, path: String, reason: String },
    #[error("'{path}' is in the manifest already: leave the second one out, or report the first failed")]
    DuplicatePath { path: String },
    #[error("a transfer has at most {limit} entries: split it into several")]
    TooManyEntries { limit: u64 },
    #[error(
        "a token has at most {limit} open transfers: finish some of them, or remove those that are not needed, then try again"
    )]
    TooManyTransfers { limit: usize },
    #[error("the transfer would be larger than 16 PiB: split it into several")]
    TooLarge,
    #[error(
        "the transfer would be longer than any one file on the depot's disk can be: split it into several, or have the depot's owner move its data to a file system that takes longer ones, such as XFS"
    )]
    TooLongForStore,
    #[error(
        "{asked} more would pass {whose} quota of {quota} by {} ({used} are in use): remove transfers that are not needed (this one too, if it has begun and is given up), or ask the depot's owner for more",
        ByteCount(.used.0.saturating_add(.asked.0).saturating_sub(.quota.0))
    )]
    Quota { whose: &'static str, asked: ByteCount, quota: ByteCount, used: ByteCount },
    #[error(
        "the depot's disk has {free} free for new transfers, and {asked} more were asked for: remove transfers that are not needed (this one too, if it has begun and is given up), or free some space, then try again"
    )]
    DiskFull { free: ByteCount, asked: ByteCount },
    #[error("the transfer is not complete: {blocks} blocks have not arrived; send them, then finish again")]
    Incomplete { blocks: u64, missing: Vec<BlockRun> },
    #[error(
        "the transfer is not complete: 'terahaul send' is still declaring what it sends, and finishes it itself; wait for its end, or stop it"
    )]
    BeingDeclared,
    #[error("{0}")]
    Invalid(String),
    #[error("{message}")]
    Range { message: String, size: u64 },
    #[error("what is downloaded is no longer what If-Match names: download it from its beginning")]
    Precondition,
    #[error("the request is larger than the {limit} that are taken at once: split it")]
    TooLong { limit: ByteCount },
    #[error("at most {limit} blocks are taken at once: send the rest in another request")]
    TooManyBlocks { limit: usize },
    #[error("the sender sent almost nothing for a minute: send the chunk again")]
    TooSlow,
    #[error("the depot is at its limit of simultaneous requests: try again in a moment")]
    Busy,
    #[error("the body ended before the declared bytes had arrived: send the chunk again")]
    BodyCut,
    #[error("the depot is stopping: try again in a moment")]
    Stopping,
    #[error("{0}")]
    Inbound(InboundError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the depot's database failed ({0}): {remedy}, then try again", remedy = database_remedy(.0))]
    Database(#[from] sqlx::Error),
    #[error(
        "its data is removed, and the depot's database could not record that ({0}): {remedy}; until then it is listed, and has nothing to receive",
        remedy = database_remedy(.0)
    )]
    RemovedUnrecorded(sqlx::Error),
    #[error(
        "it is removed for everybody, and its space could not be given back yet ({0}): the depot tries that again every half minute"
    )]
    RemovedNotFreed(StoreError),
    #[error(
        "the depot's data is of a later version of terahaul than this one: start that one, or restore a backup from before it"
    )]
    Newer,
    #[error(
        "{} is gone or has nothing in it, and there is data of transfers beside it: restore it from a backup, with its depot.db-wal where that has one, or move the data away to begin with an empty depot",
        .0.display()
    )]
    NoDatabase(PathBuf),
    #[error(
        "{} is damaged ({said}), as a copy is whose parts are of different moments: restore it together with its depot.db-wal, where that has one, from a backup",
        .path.display()
    )]
    DamagedDatabase { path: PathBuf, said: String },
    #[error(
        "{} is no longer the one that this depot has open, as where a backup is restored beneath it: it has signed nothing since and stops; see that all of the backup is there, and start it again",
        .0.display()
    )]
    Displaced(PathBuf),
    #[error(
        "{} is cut short: put keys/ back from a backup, or, where there is none, remove this file and start again, after which {lost}",
        .path.display()
    )]
    ShortKey { path: PathBuf, lost: &'static str },
    #[error("the depot's data is damaged ({0}): restore it from a backup, or send the transfer again")]
    Damaged(String),
    #[error(
        "what is stored of '{path}' is damaged, at byte {offset} or within the 4 MiB that follow: ask the sender to send it again, and the depot's owner to check its disk"
    )]
    DamagedFile { path: String, offset: u64 },
    #[error(
        "{} belongs to user {owner}, who could exchange what the depot trusts: run the depot as that user, give the whole data folder to the depot's user (chown -R), or name another one with --data",
        .path.display()
    )]
    NotOwn { path: PathBuf, owner: u32 },
    #[error(
        "others may make files in {}, and it has more in it than a depot: make a folder for the depot in it, move what is the depot's there, if anything is, and name that with --data",
        .0.display()
    )]
    Shared(PathBuf),
    #[error("another depot uses the data folder {0}: stop it, or give this one another folder with --data")]
    Locked(PathBuf),
    #[error("{what} failed: {source}; {remedy}", remedy = io_remedy(.source))]
    Io { what: String, source: std::io::Error },
}

impl DepotError {
    /// An input or output error with what was being done.
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }

    /// What clients are told: who sends has neither the depot's disk nor, on the page, a command to run again. The whole is for the log.
    pub(crate) fn told(&self) -> String {
        if let Some(trouble) = self.disk_trouble() {
            return told_of_disk(trouble.is_full()).to_owned();
        }
        let mut message = self.to_string();
        if let Some((end, _)) = message.char_indices().nth(MAX_TOLD) {
            message.truncate(end);
            message.shrink_to_fit();
        }
        message
    }

    /// What the depot's disk did while it received, of which clients are told less than the log.
    pub(crate) fn disk_trouble(&self) -> Option<&InboundError> {
        match self {
            Self::Inbound(
                trouble @ (InboundError::Sink(_) | InboundError::Ledger(_) | InboundError::Broken(_)),
            ) => Some(trouble),
            _ => None,
        }
    }

    /// What kind of error it is.
    pub fn code(&self) -> ApiCode {
        match self {
            Self::NoToken | Self::LinkIsNoToken => ApiCode::Unauthenticated,
            Self::UnknownToken | Self::OtherKeys => ApiCode::TokenUnknown,
            Self::TokenExpired => ApiCode::TokenExpired,
            Self::TokenRevoked => ApiCode::TokenRevoked,
            Self::SessionEnded => ApiCode::SessionEnded,
            Self::CodeInvalid => ApiCode::CodeInvalid,
            Self::Scope(_) | Self::LinkReads => ApiCode::ScopeMissing,
            Self::Csrf => ApiCode::CsrfHeaderMissing,
            Self::TooManyAttempts => ApiCode::TooManyAttempts,
            Self::NoTransfer | Self::NotFound(_) => ApiCode::NotFound,
            Self::NotOpen | Self::NameSigned => ApiCode::NotOpen,
            Self::NotFinished => ApiCode::NotFinished,
            Self::SenderReplaced => ApiCode::SenderReplaced,
            Self::Closed => ApiCode::Closed,
            Self::EntryFailed => ApiCode::EntryFailed,
            Self::ManifestGap { .. } | Self::ManifestDiffers { .. } | Self::NoSuchEntry { .. } => {
                ApiCode::ManifestConflict
            }
            Self::BadEntry { .. } => ApiCode::BadEntry,
            Self::DuplicatePath { .. } => ApiCode::DuplicatePath,
            Self::TooManyEntries { .. } => ApiCode::TooManyEntries,
            Self::TooManyTransfers { .. } => ApiCode::TooManyTransfers,
            Self::TooLarge | Self::TooLongForStore => ApiCode::TooLarge,
            Self::Quota { .. } => ApiCode::QuotaExceeded,
            Self::DiskFull { .. } => ApiCode::DiskFull,
            Self::Incomplete { .. } | Self::BeingDeclared => ApiCode::Incomplete,
            Self::Invalid(_) => ApiCode::BadRequest,
            Self::Range { .. } => ApiCode::RangeNotSatisfiable,
            Self::Precondition => ApiCode::PreconditionFailed,
            Self::TooLong { .. } | Self::TooManyBlocks { .. } => ApiCode::TooLong,
            Self::TooSlow => ApiCode::TooSlow,
            Self::Busy => ApiCode::Busy,
            Self::BodyCut => ApiCode::BodyCut,
            Self::Stopping | Self::Displaced(_) => ApiCode::Stopping,
            Self::Inbound(error) => inbound_code(error),
            Self::Store(StoreError::Full(_)) => ApiCode::DiskFull,
            Self::Database(error) | Self::RemovedUnrecorded(error) if crate::db::lacks_room(error) => {
                ApiCode::DiskFull
            }
            Self::Database(error) | Self::RemovedUnrecorded(error) if crate::db::is_damaged(error) => {
                ApiCode::Damaged
            }
            Self::Io { source, .. } if terahaul_store::is_full(source) => ApiCode::DiskFull,
            Self::Store(StoreError::Missing(_) | StoreError::Short(_))
            | Self::Damaged(_)
            | Self::DamagedFile { .. }
            | Self::NoDatabase(_)
            | Self::DamagedDatabase { .. }
            | Self::ShortKey { .. } => ApiCode::Damaged,
            Self::Newer => ApiCode::NewerData,
            Self::Store(_)
            | Self::Database(_)
            | Self::RemovedUnrecorded(_)
            | Self::RemovedNotFreed(_)
            | Self::Locked(_)
            | Self::NotOwn { .. }
            | Self::Shared(_)
            | Self::Io { .. } => ApiCode::Internal,
        }
    }

    /// Whether it is how a transfer, a token or a session ends, and nothing that anyone need look into.
    pub(crate) fn is_an_end(&self) -> bool {
        matches!(
            self,
            Self::NoTransfer
                | Self::UnknownToken
                | Self::OtherKeys
                | Self::TokenExpired
                | Self::TokenRevoked
                | Self::SessionEnded
        )
    }

    /// Whether the same request can succeed later without any change.
    pub fn retry(&self) -> bool {
        match self {
            Self::TooManyAttempts
            | Self::NotFinished
            | Self::BeingDeclared
            | Self::Closed
            | Self::TooSlow
            | Self::Busy
            | Self::BodyCut
            | Self::Stopping => true,
            Self::Database(error) => !crate::db::lacks_room(error) && !crate::db::is_damaged(error),
            Self::Inbound(error) => error.is_passing(),
            _ => false,
        }
    }
}

/// What senders are told where the depot's disk does not take what they send: whether room is missing.
pub(crate) fn told_of_disk(full: bool) -> &'static str {
    if full {
        "the depot's disk has no room left: remove transfers that are not needed, or ask the depot's owner for space, then try again"
    } else {
        "the depot's disk failed, and did not take what was sent: ask the depot's owner to look at it and at the depot's log, then try again"
    }
}

fn io_remedy(error: &std::io::Error) -> &'static str {
    if terahaul_store::is_full(error) {
        "free some space on the data folder's disk, or raise the quota that the depot's user has there"
    } else {
        "check the data folder's disk and permissions"
    }
}

fn database_remedy(error: &sqlx::Error) -> &'static str {
    if crate::db::lacks_room(error) {
        "remove transfers that are not needed, free some space on its disk, or raise the quota that its user has there; where there is room, check the disk"
    } else if crate::db::is_damaged(error) {
        "look in the system's log whether its disk could not be read, and start the depot again; only where it says the same then, restore depot.db together with its depot.db-wal from a backup"
    } else if crate::db::is_unopened(error) {
        "check that the depot's user may write to depot.db and the files beside it, that their disk takes new files ('df -i'), and the limit on open files"
    } else {
        "check its disk"
    }
}

fn inbound_code(error: &InboundError) -> ApiCode {
    match error {
        InboundError::Refused(BlockRefusal::Outside(_)) => ApiCode::OutsideManifest,
        InboundError::Refused(BlockRefusal::Length { .. }) => ApiCode::BlockLength,
        InboundError::Refused(BlockRefusal::Busy(_)) => ApiCode::BlockBusy,
        InboundError::Mismatch { .. } => ApiCode::HashMismatch,
        InboundError::Conflict(_) => ApiCode::ContentConflict,
        full if full.is_full() => ApiCode::DiskFull,
        InboundError::Basis(_) => ApiCode::NotHere,
        InboundError::Sink(_) | InboundError::Ledger(_) | InboundError::Broken(_) => ApiCode::Internal,
        InboundError::Closed => ApiCode::NotOpen,
    }
}

impl From<InboundError> for DepotError {
    fn from(error: InboundError) -> Self {
        match error {
            InboundError::Closed => Self::NotOpen,
            other => Self::Inbound(other),
        }
    }
}

impl From<&DepotError> for WireError {
    fn from(error: &DepotError) -> Self {
        Self { code: error.code().on_the_wire(), message: error.told(), retry: error.retry() }
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use terahaul_store::{LedgerError, SinkError, SyncFailure};

    use super::*;

    /// They were told to check the disk and the permissions of a folder, which are the depot's, and to run a command again.
    #[test]
    fn who_sends_is_told_that_it_is_the_depots_disk_and_whom_to_ask() {
        for kind in [io::ErrorKind::StorageFull, io::ErrorKind::PermissionDenied, io::ErrorKind::Other] {
            let full = kind == io::ErrorKind::StorageFull;
            let sink = || SinkError::from(StoreError::from(io::Error::from(kind)));
            let broken = SyncFailure { reason: sink().to_string(), full };
            let ledger = LedgerError { action: "written", source: io::Error::from(kind).into() };
            for error in [sink().into(), InboundError::Broken(broken), ledger.into()] {
                let error = DepotError::Inbound(error);
                let wire = WireError::from(&error);
                assert_eq!(wire.message, error.told());
                for said in ["the depot's disk", "ask the depot's owner"] {
                    assert!(wire.message.contains(said), "{}", wire.message);
                }
                assert!(
                    !wire.message.contains("command") && !wire.message.contains("folder"),
                    "{}",
                    wire.message
                );
                assert_eq!(wire.message.contains("no room left"), full, "{}", wire.message);
            }
        }
    }

    #[test]
    fn no_message_is_longer_than_can_be_read() {
        let error = DepotError::Invalid("ä".repeat(1 << 20));
        assert_eq!(error.told().chars().count(), MAX_TOLD);
        assert_eq!(WireError::from(&error).message, error.told());
        let quoted = quoted("\u{e0041}".repeat(1 << 20));
        assert!(quoted.starts_with("\\u{e0041}") && quoted.len() < 5000, "{}", quoted.len());
    }

    #[test]
    fn the_log_keeps_what_the_store_said() {
        let denied = SinkError::from(StoreError::from(io::Error::from(io::ErrorKind::ReadOnlyFilesystem)));
        let error = DepotError::Inbound(denied.into());
        assert!(error.to_string().contains("its disk is not read-only"), "{error}");
    }
}
