//! The part of the file that was asked for.

use bytes::Bytes;
use tokio::sync::mpsc;

use crate::DepotError;

/// Takes the file's bytes in order and passes on those of the part.
pub(super) struct Writer {
    sender: mpsc::Sender<Result<Bytes, DepotError>>,
    skip: u64,
    left: u64,
    /// Small records gather here.
    gathered: Vec<u8>,
}

/// The part is complete, or nobody takes it any more.
pub(super) struct Done;

/// Gathered bytes that are passed on at once.
const GATHER: usize = 64 << 10;

impl Writer {
    /// Passes on `len` bytes to `sender`, after `skip` bytes.
    pub fn new(sender: mpsc::Sender<Result<Bytes, DepotError>>, skip: u64, len: u64) -> Self {
        Self { sender, skip, left: len, gathered: Vec::new() }
    }

    /// Whether the next `len` bytes all come before the part: they are then passed over.
    pub fn passes_over(&mut self, len: u64) -> bool {
        let all = len <= self.skip;
        if all {
            self.skip -= len;
        }
        all
    }

    /// Passes over some of the next `len` bytes, as many as come before the part. Returns how many.
    pub fn pass_over_some(&mut self, len: u64) -> u64 {
        let passed = len.min(self.skip);
        self.skip -= passed;
        passed
    }

    /// Whether some of the part is still to come.
    pub fn wants_more(&self) -> bool {
        self.left > 0
    }

    /// The next bytes of the file.
    pub async fn put(&mut self, mut bytes: Bytes) -> Result<(), Done> {
        let passed = self.pass_over_some(bytes.len() as u64);
        bytes = bytes.slice(passed as usize..);
        bytes.truncate(self.left.min(bytes.len() as u64) as usize);
        self.left -= bytes.len() as u64;
        if bytes.len() + self.gathered.len() < GATHER {
            self.gathered.extend_from_slice(&bytes);
        } else {
            self.flush().await?;
            self.send(Ok(bytes)).await?;
        }
        if self.left == 0 {
            self.flush().await?;
            return Err(Done);
        }
        Ok(())
    }

    async fn flush(&mut self) -> Result<(), Done> {
        if self.gathered.is_empty() {
            return Ok(());
        }
        let gathered = std::mem::take(&mut self.gathered);
        self.send(Ok(gathered.into())).await
    }

    /// Ends the stream with an error.
    pub async fn fail(&mut self, error: DepotError) {
        let _ = self.send(Err(error)).await;
    }

    async fn send(&mut self, bytes: Result<Bytes, DepotError>) -> Result<(), Done> {
        self.sender.send(bytes).await.map_err(|_| Done)
    }
}
