//! Bytes at their address: `PUT /transfers/{id}/bytes/{address}`.
//!
//! The fast path of the page. Frames are hashed and written in the task that reads them, while they are in the
//! processor's cache; nothing but crumbs is copied and nothing is handed to another thread. A client that goes away drops the
//! task, and with it the block in progress.

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::Response;
use terahaul_core::{Address, BlockNumber, BlockRefusal, ByteCount, Hash};
use terahaul_store::InboundError;

use super::error::Answer;
use super::extents::{BlockValue, ValuesBody};
use super::extract::{self, Asking};
use super::long_answer::long_answer;
use super::standing::Standing;
use super::upload_body::{Next, UploadBody};
use crate::depot::Depot;
use crate::places::Place;
use crate::transfer::Live;
use crate::{DepotError, blocking};

/// Longest body.
const MAX_CHUNK: u64 = 256 << 20;
/// Most blocks in it: each has its line in the answer, however short it is. Of whole ones it holds 64.
const MAX_BLOCKS: usize = 1024;

pub(super) async fn put(
    State(depot): State<Depot>,
    asking: Asking,
    extract::Address((_, address)): extract::Address<(String, u64)>,
    headers: HeaderMap,
    body: Body,
) -> Answer<Response> {
    let mut body = UploadBody::new(body);
    match take(&depot, &asking, address, &headers, &mut body).await {
        Ok((taken, place)) => Ok(long_answer(&taken, place)?),
        Err(error) => {
            // A client that waits to be asked for its body is not asked for it.
            let waits = headers.contains_key(header::EXPECT) && !body.has_begun();
            if !waits && !matches!(error, DepotError::BodyCut | DepotError::TooSlow) {
                body.discard(MAX_CHUNK).await;
            }
            Err(error.into())
        }
    }
}

async fn take(
    depot: &Depot,
    asking: &Asking,
    address: u64,
    headers: &HeaderMap,
    body: &mut UploadBody,
) -> Result<(ValuesBody, Place), DepotError> {
    let length =
        headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if length.is_some_and(|length| length > MAX_CHUNK) {
        return Err(DepotError::TooLong { limit: ByteCount(MAX_CHUNK) });
    }
    let claimed = claimed_values(headers)?;
    let first = Address(address);
    if first.offset_in_block() != 0 {
        return Err(DepotError::Invalid(
            "an upload starts at a block's address, a multiple of block_size".into(),
        ));
    }
    let first = first.block().ok_or(InboundError::Refused(BlockRefusal::Outside(BlockNumber(u32::MAX))))?;
    let live = depot.live_as(&asking.caller, asking.id).await?;
    let place = depot.inner.uploads.take(&asking.counted)?;

    let mut standing = Standing::new(depot, &asking.caller);
    let mut blocks = Vec::new();
    let mut taken = 0;
    let mut claimed = claimed.map(Vec::into_iter);
    let uncounted =
        || DepotError::Invalid("Terahaul-Values has one value for each block of the body, in order".into());
    let mut next = Some(first);
    while !body.is_at_end().await? {
        if blocks.len() == MAX_BLOCKS {
            return Err(DepotError::TooManyBlocks { limit: MAX_BLOCKS });
        }
        let block = next.ok_or(InboundError::Refused(BlockRefusal::Outside(first)))?;
        let claim = claimed.as_mut().map(|values| values.next().ok_or_else(uncounted)).transpose()?;
        let (value, len) = take_block(&live, block, claim, body, &mut standing).await?;
        blocks.push(BlockValue { block, value });
        taken += len;
        if taken > MAX_CHUNK {
            return Err(DepotError::TooLong { limit: ByteCount(MAX_CHUNK) });
        }
        next = block.0.checked_add(1).map(BlockNumber);
    }
    if blocks.is_empty() {
        return Err(DepotError::Invalid("the body is empty: send the bytes of at least one block".into()));
    }
    if claimed.is_some_and(|mut values| values.next().is_some()) {
        return Err(uncounted());
    }
    Ok((ValuesBody { blocks }, place))
}

async fn take_block(
    live: &Live,
    block: BlockNumber,
    claimed: Option<Hash>,
    body: &mut UploadBody,
    standing: &mut Standing,
) -> Result<(Hash, u64), DepotError> {
    let inbound = live.inbound();
    let shape = inbound.with(|receiver| receiver.layout().shape(block));
    let len = shape.ok_or(InboundError::Refused(BlockRefusal::Outside(block)))?.len as usize;
    let mut arrival = blocking::here(|| inbound.begin(block, len as u64))?;
    let mut left = len;
    loop {
        let piece = match body.piece(left).await? {
            Next::Piece(piece) => piece,
            Next::EndedAfter(more) => {
                let got = (len - left + more) as u64;
                let refusal = BlockRefusal::Length { block, expected: len as u32, got };
                return Err(InboundError::Refused(refusal).into());
            }
        };
        standing.check().await?;
        left -= piece.len();
        if left == 0 {
            let value = blocking::here(|| {
                arrival.write(&piece.slices())?;
                arrival.finish(claimed)
            })?;
            return Ok((value, len as u64));
        }
        blocking::here(|| arrival.write(&piece.slices()))?;
    }
}

/// The values that the sender computed, if it says: one for each block, in order. Several lines are one list (RFC 9110, section 5.3).
fn claimed_values(headers: &HeaderMap) -> Result<Option<Vec<Hash>>, DepotError> {
    let wrong = || DepotError::Invalid("Terahaul-Values is a list of BLAKE3 values in hexadecimal".into());
    let mut values = Vec::new();
    for line in headers.get_all("terahaul-values") {
        let list = line.to_str().map_err(|_| wrong())?.split(',');
        let list = list.map(|hex| Hash::from_hex(hex.trim()).ok_or_else(wrong));
        values.extend(list.collect::<Result<Vec<_>, _>>()?);
    }
    Ok((!values.is_empty()).then_some(values))
}
