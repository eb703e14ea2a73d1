//! Bytes of the store as a response body, read ahead of the network, and proven before they are handed to it.

use std::collections::VecDeque;
use std::sync::Arc;

use axum::body::Body;
use bytes::Bytes;
use futures_util::stream;
use terahaul_core::Address;
use tokio::task::JoinHandle;

use super::log_cut;
use crate::DepotError;
use crate::places::Place;
use crate::transfer::{Published, Reader};

type Read = (Reader, Result<Vec<Bytes>, DepotError>);

/// Reads a part of an address space. For each piece that is handed on another is read, so a block of 4 MiB is held, and little more.
pub(crate) struct ReadAhead {
    published: Published,
    /// Not here while it reads, nor after an error.
    reader: Option<Reader>,
    reading: Option<JoinHandle<Read>>,
    /// What can be handed on; an error is the last of it.
    proven: VecDeque<Result<Bytes, DepotError>>,
    _place: Option<Arc<Place>>,
}

impl ReadAhead {
    /// Reads `len` bytes from `at` on; `place` is held until the reader is dropped.
    pub fn new(published: Published, at: Address, len: u64, place: Option<Arc<Place>>) -> Self {
        let reader = Some(Reader::new(published.clone(), at, len));
        Self { published, reader, reading: None, proven: VecDeque::new(), _place: place }
    }

    /// Reads what comes first. An error there is an answer of its own, and not one that is cut.
    pub async fn begin(mut self) -> Result<Self, DepotError> {
        while self.proven.is_empty() && self.read_on().await {}
        match self.proven.pop_front() {
            Some(Err(error)) => return Err(error),
            Some(piece) => self.proven.push_front(piece),
            None => {}
        }
        Ok(self)
    }

    /// The next piece; `None` at the end.
    pub async fn next(&mut self) -> Option<Result<Bytes, DepotError>> {
        if self.published.is_closed() {
            return Some(Err(DepotError::NoTransfer));
        }
        while self.read_on().await && self.proven.is_empty() {}
        self.proven.pop_front()
    }

    /// Takes what was read meanwhile, and has more read. `false` when nothing was left to read.
    async fn read_on(&mut self) -> bool {
        let Some(reading) = self.reading.take().or_else(|| self.start()) else { return false };
        match reading.await {
            Ok((reader, Ok(pieces))) => {
                self.proven.extend(pieces.into_iter().map(Ok));
                self.reader = Some(reader);
                self.reading = self.start();
            }
            Ok((_, Err(error))) => self.proven.push_back(Err(error)),
            Err(_) => self.proven.push_back(Err(DepotError::Stopping)),
        }
        true
    }

    fn start(&mut self) -> Option<JoinHandle<Read>> {
        let mut reader = self.reader.take_if(|reader| !reader.is_done())?;
        Some(tokio::task::spawn_blocking(move || {
            let read = reader.read_on();
            (reader, read)
        }))
    }

    /// The rest as a response body. An error ends the connection: the client sees that bytes are missing.
    pub fn into_body(self) -> Body {
        Body::from_stream(stream::unfold(self, |mut reader| async move {
            let piece = reader.next().await?;
            if let Err(error) = &piece {
                log_cut(Some(reader.published.id()), error);
            }
            Some((piece, reader))
        }))
    }
}
