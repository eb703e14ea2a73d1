//! A request body as pieces of a block, without copying anything but crumbs.

use std::io::IoSlice;
use std::mem;
use std::time::Duration;

use axum::body::{Body, BodyDataStream};
use bytes::Bytes;
use futures_util::StreamExt;
use tokio::time::{Instant, timeout_at};

use crate::DepotError;

/// Bytes that are hashed and written at a time: few enough to be in the processor's cache, many enough that
/// handing over costs nothing.
const PIECE: usize = 256 << 10;
/// Shorter frames are copied: each may keep the whole buffer that it was read into, which has at least this.
const CRUMB: usize = 8 << 10;
/// How long a piece may take.
const PIECE_TIME: Duration = Duration::from_secs(60);
/// What has to come in that time.
const LEAST: usize = 16 << 10;

/// How long a body is waited for that need not come at once: as long as enough of it comes.
pub(super) struct Patience {
    deadline: Instant,
    enough: u64,
}

impl Patience {
    pub fn begin() -> Self {
        Self { deadline: Instant::now() + PIECE_TIME, enough: LEAST as u64 }
    }

    /// When more has to have come.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// So many bytes have come by now.
    pub fn handle_len(&mut self, len: u64) {
        if len >= self.enough {
            *self = Self { deadline: Instant::now() + PIECE_TIME, enough: len + LEAST as u64 };
        }
    }
}

/// The body of an upload.
pub(super) struct UploadBody {
    frames: BodyDataStream,
    /// What is left of a frame that reached into the next block.
    rest: Bytes,
    begun: bool,
}

/// Consecutive bytes, in the frames they came in, or in what crumbs were gathered in.
#[derive(Default)]
pub(super) struct Piece {
    frames: Vec<Bytes>,
    /// What came after them.
    crumbs: Vec<u8>,
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
        let frames = self.frames.iter().map(|frame| &**frame);
        let parts = frames.chain([&*self.crumbs]).filter(|part| !part.is_empty());
        parts.map(IoSlice::new).collect()
    }

    fn push(&mut self, frame: Bytes) {
        self.len += frame.len();
        if frame.len() < CRUMB {
            self.crumbs.extend_from_slice(&frame);
            return;
        }
        if !self.crumbs.is_empty() {
            self.frames.push(mem::take(&mut self.crumbs).into());
        }
        self.frames.push(frame);
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
                piece.push(self.rest.split_to(take));
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
        // As slow as what is taken may be: over a thin line a body takes minutes.
        let mut patience = Patience::begin();
        while let Ok(Some(Ok(frame))) = timeout_at(patience.deadline(), self.frames.next()).await {
            seen += frame.len() as u64;
            if seen > most {
                return;
            }
            patience.handle_len(seen);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::Arc;

    use futures_util::stream;

    use super::*;

    fn bytes(piece: &Piece) -> Vec<u8> {
        piece.slices().iter().flat_map(|slice| slice.iter().copied()).collect()
    }

    async fn piece(body: &mut UploadBody, most: usize) -> Piece {
        match body.piece(most).await {
            Ok(Next::Piece(piece)) => piece,
            Ok(Next::EndedAfter(len)) => panic!("it ended after {len}"),
            Err(error) => panic!("{error}"),
        }
    }

    /// An upload of one-byte records kept a gigabyte of read buffers in memory.
    #[tokio::test]
    async fn a_body_that_comes_in_crumbs_holds_no_more_than_its_bytes() {
        const CRUMBS: usize = 20_000;
        let buffer: Arc<[u8]> = (0..8 << 10).map(|at| at as u8).collect();
        let read_into = Arc::clone(&buffer);
        let frames = (0..CRUMBS).map(move |at| {
            let read = Bytes::from_owner(Arc::clone(&read_into));
            let at = at % read.len();
            Ok::<_, io::Error>(read.slice(at..=at))
        });
        let mut body = UploadBody::new(Body::from_stream(stream::iter(frames)));
        let piece = piece(&mut body, CRUMBS).await;
        assert_eq!(piece.len(), CRUMBS);
        assert!(piece.slices().len() < 5, "{}", piece.slices().len());
        assert!(bytes(&piece).into_iter().zip(0..CRUMBS).all(|(byte, at)| byte == at as u8));
        drop(body);
        assert_eq!(Arc::strong_count(&buffer), 1, "no frame is kept, nor what it was read into");
    }

    /// Whoever sent over a thin line heard of a lost connection, and never that the disk is full.
    #[tokio::test(start_paused = true)]
    async fn a_body_that_is_refused_is_read_to_its_end_however_long_that_takes() {
        const FRAMES: usize = 64;
        let read = Arc::new(());
        let frames = stream::unfold((0, Arc::clone(&read)), |(at, read)| async move {
            tokio::time::sleep(Duration::from_secs(2)).await;
            let frame = Bytes::from_static(&[0; CRUMB]);
            (at < FRAMES).then_some((Ok::<_, io::Error>(frame), (at + 1, read)))
        });
        let began = Instant::now();
        UploadBody::new(Body::from_stream(frames)).discard(u64::MAX).await;
        assert!(began.elapsed() >= Duration::from_secs(2 * FRAMES as u64), "{:?}", began.elapsed());
        assert_eq!(Arc::strong_count(&read), 1);
        // What hardly comes at all is not waited for.
        let crumbs = stream::unfold((), |()| async {
            tokio::time::sleep(Duration::from_secs(2)).await;
            Some((Ok::<_, io::Error>(Bytes::from_static(b"x")), ()))
        });
        let began = Instant::now();
        UploadBody::new(Body::from_stream(crumbs)).discard(u64::MAX).await;
        assert!(began.elapsed() <= PIECE_TIME + Duration::from_secs(2));
    }

    #[tokio::test]
    async fn crumbs_stay_in_their_place_between_frames_that_are_not_copied() {
        let lens = [1, 2, CRUMB, 3, CRUMB + 1, CRUMB, 4];
        let frames: Vec<_> = (1..).zip(lens).map(|(at, len)| Bytes::from(vec![at; len])).collect();
        let whole = frames.concat();
        let long = frames[2].as_ptr();
        let frames = stream::iter(frames.into_iter().map(Ok::<_, io::Error>));
        let mut body = UploadBody::new(Body::from_stream(frames));
        let piece = piece(&mut body, whole.len()).await;
        assert!(bytes(&piece) == whole);
        assert_eq!(
            piece.slices().iter().map(|slice| slice.len()).collect::<Vec<_>>(),
            [3, CRUMB, 3, CRUMB + 1, CRUMB, 4]
        );
        assert_eq!(piece.slices()[1].as_ptr(), long);
    }
}
