//! A request body as pieces of a block, without copying.

use std::io::IoSlice;
use std::time::Duration;

use axum::body::{Body, BodyDataStream};
use bytes::Bytes;
use futures_util::StreamExt;
use tokio::time::{Instant, timeout_at};

use crate::DepotError;

/// Bytes that are hashed and written at a time: few enough to be in the processor's cache, many enough that
/// handing over costs nothing.
const PIECE: usize = 256 << 10;
/// How long a piece may take.
const PIECE_TIME: Duration = Duration::from_secs(60);
/// What has to come in that time.
const LEAST: usize = 16 << 10;

/// The body of an upload.
pub(super) struct UploadBody {
    frames: BodyDataStream,
    /// What is left of a frame that reached into the next block.
    rest: Bytes,
    begun: bool,
}

/// Consecutive bytes, in the frames they came in.
#[derive(Default)]
pub(super) struct Piece {
    frames: Vec<Bytes>,
    len: usize,
}

/// What comes next in a body.
pub(super) enum Next {
    Piece(Piece),
    /// The body ended, after so many bytes more.
    EndedAfter(usize),
}

impl Piece {
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn slices(&self) -> Vec<IoSlice<'_>> {
        self.frames.iter().map(|frame| IoSlice::new(frame)).collect()
    }
}

impl UploadBody {
    pub fn new(body: Body) -> Self {
        Self { frames: body.into_data_stream(), rest: Bytes::new(), begun: false }
    }

    /// Whether any of it was asked for.
    pub fn has_begun(&self) -> bool {
        self.begun
    }

    /// Whether the body has ended. Waits for the next frame to know.
    pub async fn is_at_end(&mut self) -> Result<bool, DepotError> {
        let deadline = Instant::now() + PIECE_TIME;
        self.begun = true;
        while self.rest.is_empty() {
            match timeout_at(deadline, self.frames.next()).await {
                Ok(Some(Ok(frame))) => self.rest = frame,
                Ok(None) => return Ok(true),
                Ok(Some(Err(_))) => return Err(DepotError::BodyCut),
                Err(_) => return Err(DepotError::TooSlow),
            }
        }
        Ok(false)
    }

    /// The next piece: `most` bytes at most, and no more than are handled at once. Never empty.
    pub async fn piece(&mut self, most: usize) -> Result<Next, DepotError> {
        let most = most.min(PIECE);
        let deadline = Instant::now() + PIECE_TIME;
        let mut piece = Piece::default();
        loop {
            let take = self.rest.len().min(most - piece.len);
            if take > 0 {
                piece.frames.push(self.rest.split_to(take));
                piece.len += take;
            }
            if piece.len == most {
                return Ok(Next::Piece(piece));
            }
            match timeout_at(deadline, self.frames.next()).await {
                Ok(Some(Ok(frame))) => self.rest = frame,
                Ok(None) => return Ok(Next::EndedAfter(piece.len)),
                Ok(Some(Err(_))) => return Err(DepotError::BodyCut),
                Err(_) if piece.len >= LEAST => return Ok(Next::Piece(piece)),
                Err(_) => return Err(DepotError::TooSlow),
            }
        }
    }

    /// Reads on to the body's end, `most` bytes at most. Browsers show an answer that comes before it as a network
    /// error, without the reason.
    pub async fn discard(mut self, most: u64) {
        let mut seen = 0;
        let deadline = Instant::now() + PIECE_TIME;
        while let Ok(Some(Ok(frame))) = timeout_at(deadline, self.frames.next()).await {
            seen += frame.len() as u64;
            if seen > most {
                return;
            }
        }
    }
}
