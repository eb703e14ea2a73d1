//! The manifest over HTTP.

use axum::extract::State;
use axum::response::Response;
use data_encoding::HEXLOWER_PERMISSIVE;
use serde::{Deserialize, Serialize};
use terahaul_core::{ByteCount, Entry, EntryIndex, EntryKind, EntryPath, Mtime, ReceiptKind};
use terahaul_wire::Batch;

use super::error::Answer;
use super::extract::{Asking, Params, Payload};
use super::json::{Object, Whole};
use super::long_answer::long_answer;
use crate::DepotError;
use crate::auth::Counted;
use crate::depot::Depot;
use crate::error::quoted;
use crate::places::Place;
use crate::transfer::{EntryRecord, Placed};

/// Most entries in one request or answer.
const MAX_ENTRIES: usize = 5000;
/// Where as many are placed as this, the answer is some 50 KiB long. Where there are more, it has a place.
const FEW_PLACED: usize = 1000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AppendBody {
    entries: Vec<Object<EntryBody>>,
    first: Whole<u64>,
    #[serde(default)]
    seal: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EntryBody {
    path: String,
    path_hex: Option<String>,
    kind: ReceiptKind,
    #[serde(default)]
    size: Whole<u64>,
    #[serde(default)]
    mtime: Whole<i64>,
    #[serde(default)]
    mtime_nanos: Whole<u32>,
    mode: Option<Whole<u32>>,
    target_hex: Option<String>,
}

impl EntryBody {
    fn read(self, index: u64) -> Result<Entry, DepotError> {
        let refuse = |path: &str, reason: String| DepotError::BadEntry {
            entry: index,
            path: quoted(path.to_owned()),
            reason,
        };
        let bytes = match &self.path_hex {
            None => self.path.clone().into_bytes(),
            Some(hex) => HEXLOWER_PERMISSIVE
                .decode(hex.as_bytes())
                .map_err(|_| refuse(&self.path, "its path_hex is not hexadecimal".into()))?,
        };
        let path = EntryPath::new(bytes).map_err(|error| refuse(&self.path, error.to_string()))?;
        let (kind, mode) = match (self.kind, self.target_hex) {
            (ReceiptKind::File, None) => (EntryKind::File { size: ByteCount(self.size.0) }, 0o644),
            (ReceiptKind::Directory, None) if self.size.0 == 0 => (EntryKind::Directory, 0o755),
            (ReceiptKind::Symlink, Some(hex)) if self.size.0 == 0 => {
                let target = HEXLOWER_PERMISSIVE.decode(hex.as_bytes());
                let target =
                    target.map_err(|_| refuse(&self.path, "its target_hex is not hexadecimal".into()))?;
                (EntryKind::Symlink { target: target.into() }, 0o777)
            }
            (ReceiptKind::Symlink, None) => {
                return Err(refuse(&self.path, "a symbolic link needs a target_hex".into()));
            }
            (_, Some(_)) => return Err(refuse(&self.path, "only a symbolic link has a target_hex".into())),
            (_, None) => return Err(refuse(&self.path, "only a file has a size".into())),
        };
        let mtime = Mtime { seconds: self.mtime.0, nanos: self.mtime_nanos.0 };
        Ok(Entry { path, kind, mtime, mode: self.mode.map_or(mode, |mode| mode.0), extra: None })
    }
}

/// The entries of a request, of which the first is to get index `first`.
pub(super) fn read_entries(first: u64, bodies: Vec<Object<EntryBody>>) -> Result<Vec<Entry>, DepotError> {
    if bodies.len() > MAX_ENTRIES {
        let reason = format!("at most {MAX_ENTRIES} entries are taken at once: split them");
        return Err(DepotError::Invalid(reason));
    }
    bodies.into_iter().zip(0..).map(|(Object(entry), at)| entry.read(first.saturating_add(at))).collect()
}

/// The place among the uploads that the answer needs which says where so many entries are placed.
pub(super) fn place_for_placed(
    depot: &Depot,
    entries: usize,
    counted: &Counted,
) -> Result<Option<Place>, DepotError> {
    (entries > FEW_PLACED).then(|| depot.inner.uploads.take(counted)).transpose()
}

#[derive(Serialize)]
struct AppendedBody {
    entries: Vec<Placed>,
    total: u64,
}

pub(super) async fn append(
    State(depot): State<Depot>,
    asking: Asking,
    Payload(body): Payload<AppendBody>,
) -> Answer<Response> {
    let first = body.first.0;
    let entries = read_entries(first, body.entries)?;
    let live = depot.open_inbound_as(&asking.caller, asking.id).await?;
    // No manifest reaches beyond the last index: that there is a gap is found there, too.
    let first = EntryIndex(u32::try_from(first).unwrap_or(u32::MAX));
    let opens = entries.is_empty() && !body.seal;
    let place = place_for_placed(&depot, entries.len(), &asking.counted)?;
    let appended = live.append_entries(Batch { first, entries, seal: body.seal }).await?;
    if opens {
        live.reopen().await?;
    }
    Ok(long_answer(&AppendedBody { entries: appended.placed, total: appended.total }, place)?)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EntriesParams {
    #[serde(default)]
    from: u64,
    limit: Option<u32>,
}

#[derive(Serialize)]
struct EntryPage {
    entries: Vec<EntryRecord>,
    total: u64,
    next: Option<u64>,
}

pub(super) async fn list(
    State(depot): State<Depot>,
    asking: Asking,
    Params(params): Params<EntriesParams>,
) -> Answer<Response> {
    let limit = params.limit.unwrap_or(1000);
    if !(1..=MAX_ENTRIES as u32).contains(&limit) {
        return Err(DepotError::Invalid(format!("limit is from 1 to {MAX_ENTRIES}")).into());
    }
    if i64::try_from(params.from).is_err() {
        return Err(DepotError::Invalid("from is larger than any manifest".into()).into());
    }
    let total = depot.transfer(&asking.caller, asking.id).await?.entries;
    let place = depot.inner.downloads.take(&asking.counted)?;
    let entries = depot.entries(&asking.caller, asking.id, params.from, limit).await?;
    let after = params.from.saturating_add(entries.len() as u64);
    let next = (after < total && !entries.is_empty()).then_some(after);
    Ok(long_answer(&EntryPage { entries, total, next }, place)?)
}
