//! A part of a transfer's ZIP file, as a response body.

use std::sync::Arc;

use axum::body::Body;
use bytes::Bytes;
use crc32fast::Hasher;
use futures_util::stream;
use terahaul_core::{BLOCK_SIZE, Entry, EntryIndex, EntryKind};
use tokio::sync::mpsc;

use super::checksums::{Checksums, Packed};
use super::format::{Item, end};
use super::plan::{Mark, Plan, items};
use super::writer::{Done, Writer};
use crate::DepotError;
use crate::api::{ReadAhead, log_cut};
use crate::places::Place;
use crate::transfer::Published;

/// Pieces that wait for the network.
const AHEAD: usize = 2;

/// The bytes `start..end` of the file.
pub(crate) fn stream(published: Published, plan: Arc<Plan>, start: u64, end: u64, place: Arc<Place>) -> Body {
    // Nothing is read before the body is asked for: a HEAD request never does.
    let mut waiting = Some((published, plan, place));
    let mut receiver: Option<mpsc::Receiver<Result<Bytes, DepotError>>> = None;
    Body::from_stream(stream::poll_fn(move |context| {
        if let Some((published, plan, place)) = waiting.take() {
            let (sender, pieces) = mpsc::channel(AHEAD);
            receiver = Some(pieces);
            tokio::spawn(async move {
                let mut producer = Producer::new(published, plan);
                producer.produce(sender, start, end).await;
                drop(place);
            });
        }
        match &mut receiver {
            Some(pieces) => pieces.poll_recv(context),
            None => std::task::Poll::Ready(None),
        }
    }))
}

struct Producer {
    published: Published,
    plan: Arc<Plan>,
    checksums: Checksums,
    /// The packed block that small files are taken from.
    packed: Option<Packed>,
}

/// Why producing stops.
enum Stop {
    Done,
    Failed(DepotError),
}

impl From<Done> for Stop {
    fn from(_: Done) -> Self {
        Self::Done
    }
}

impl<E: Into<DepotError>> From<E> for Stop {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

impl Producer {
    fn new(published: Published, plan: Arc<Plan>) -> Self {
        let checksums = Checksums::new(published.clone());
        Self { published, plan, checksums, packed: None }
    }

    async fn produce(&mut self, sender: mpsc::Sender<Result<Bytes, DepotError>>, start: u64, end: u64) {
        let gone = sender.clone();
        let mut writer = Writer::new(sender, start, end - start);
        // A checksum may need blocks that are not sent: whoever has gone is not to keep the disk busy.
        let stop = tokio::select! {
            stop = self.write(&mut writer, start) => stop,
            () = gone.closed() => Ok(()),
        };
        self.checksums.flush().await;
        if let Err(Stop::Failed(error)) = stop {
            log_cut(Some(self.published.id()), &error);
            writer.fail(error).await;
        }
    }

    async fn write(&mut self, writer: &mut Writer, start: u64) -> Result<(), Stop> {
        let plan = Arc::clone(&self.plan);
        if start < plan.central_offset {
            if let Some(mark) = plan.mark_for_local(start) {
                writer.pass_over_some(mark.local);
                self.write_items(writer, mark).await?;
            }
        } else {
            writer.pass_over_some(plan.central_offset);
        }
        self.checksums.flush().await;
        let into_central = start.saturating_sub(plan.central_offset);
        if let Some(mark) = plan.mark_for_central(into_central) {
            writer.pass_over_some(mark.central);
            self.write_directory(writer, mark).await?;
        }
        writer.put(end(plan.entries, plan.central_size, plan.central_offset).into()).await?;
        Ok(())
    }

    async fn write_items(&mut self, writer: &mut Writer, from: Mark) -> Result<(), Stop> {
        let published = self.published.clone();
        let mut manifest = published.manifest(from.first_entry)?;
        while let Some(batch) = manifest.next().await? {
            for (index, item) in items(&published, &batch) {
                let entry = &batch.entries[(u64::from(index.0) - batch.first) as usize];
                if !writer.passes_over(item.local_len() + item.size + item.descriptor_len()) {
                    self.write_item(writer, index, entry, &item).await?;
                }
            }
        }
        Ok(())
    }

    async fn write_item(
        &mut self,
        writer: &mut Writer,
        index: EntryIndex,
        entry: &Entry,
        item: &Item<'_>,
    ) -> Result<(), Stop> {
        match &entry.kind {
            EntryKind::Symlink { target } => {
                writer.put(item.local_header(crc32fast::hash(target)).into()).await?;
                Ok(writer.put(Bytes::copy_from_slice(target)).await?)
            }
            EntryKind::File { size } if size.0 >= BLOCK_SIZE => self.write_large(writer, index, item).await,
            EntryKind::File { size } if size.0 > 0 => {
                let (bytes, crc) = self.small(index).await?;
                writer.put(item.local_header(crc).into()).await?;
                Ok(writer.put(bytes).await?)
            }
            EntryKind::File { .. } | EntryKind::Directory => {
                Ok(writer.put(item.local_header(0).into()).await?)
            }
        }
    }

    async fn small(&mut self, index: EntryIndex) -> Result<(Bytes, u32), Stop> {
        if self.packed.as_ref().is_none_or(|packed| packed.find(index).is_none()) {
            let block = self.published.extent(index).and_then(|extent| extent.address.block());
            let block = block.ok_or_else(|| DepotError::Damaged(format!("entry {index} has no place")))?;
            self.packed = Some(self.checksums.packed(block).await?);
        }
        let found = self.packed.as_ref().and_then(|packed| Some((packed, packed.find(index)?)));
        let (packed, (range, crc)) =
            found.ok_or_else(|| DepotError::Damaged(format!("entry {index} is not in its block")))?;
        Ok((packed.bytes.slice(range), crc))
    }

    async fn write_large(
        &mut self,
        writer: &mut Writer,
        index: EntryIndex,
        item: &Item<'_>,
    ) -> Result<(), Stop> {
        let place = self.published.extent(index);
        let (extent, (first, count)) = place
            .zip(self.published.layout().blocks_of_large(index))
            .ok_or_else(|| DepotError::Damaged(format!("entry {index} has no place")))?;
        writer.put(item.local_header(0).into()).await?;
        let passed = writer.pass_over_some(item.size);
        let mut reader =
            ReadAhead::new(self.published.clone(), extent.address + passed, item.size - passed, None);
        // A block's checksum comes for free when it passes by whole.
        let mut block = first;
        block.0 += (passed / BLOCK_SIZE) as u32;
        let mut crc = passed.is_multiple_of(BLOCK_SIZE).then(Hasher::new);
        let mut at = passed;
        while let Some(piece) = reader.next().await {
            let mut piece = piece?;
            while !piece.is_empty() {
                let until_edge = BLOCK_SIZE - at % BLOCK_SIZE;
                let now = piece.split_to(piece.len().min(until_edge as usize));
                at += now.len() as u64;
                if let Some(crc) = &mut crc {
                    crc.update(&now);
                }
                writer.put(now).await?;
                if at.is_multiple_of(BLOCK_SIZE) || at == item.size {
                    if let Some(crc) = crc.take() {
                        self.checksums.keep(block, &[crc.finalize()]).await;
                    }
                    block.0 += 1;
                    crc = Some(Hasher::new());
                }
            }
        }
        let crc = self.checksums.of_large(first, count).await?;
        Ok(writer.put(item.descriptor(crc).into()).await?)
    }

    async fn write_directory(&mut self, writer: &mut Writer, from: Mark) -> Result<(), Stop> {
        let published = self.published.clone();
        let mut offset = from.local;
        let mut manifest = published.manifest(from.first_entry)?;
        while let Some(batch) = manifest.next().await? {
            for (index, item) in items(&published, &batch) {
                if !writer.passes_over(item.central_len(offset)) && writer.wants_more() {
                    let entry = &batch.entries[(u64::from(index.0) - batch.first) as usize];
                    let crc = self.crc(index, entry).await?;
                    writer.put(item.central_header(crc, offset).into()).await?;
                }
                offset += item.local_len() + item.size + item.descriptor_len();
            }
        }
        Ok(())
    }

    async fn crc(&mut self, index: EntryIndex, entry: &Entry) -> Result<u32, DepotError> {
        let place = || self.published.extent(index).and_then(|extent| extent.address.block());
        match &entry.kind {
            EntryKind::Directory => Ok(0),
            EntryKind::Symlink { target } => Ok(crc32fast::hash(target)),
            EntryKind::File { size } => match (place(), self.published.layout().blocks_of_large(index)) {
                (Some(_), Some((first, count))) if size.0 >= BLOCK_SIZE => {
                    self.checksums.of_large(first, count).await
                }
                (Some(block), _) => self.checksums.of_small(block, index).await,
                (None, _) => Ok(0),
            },
        }
    }
}
