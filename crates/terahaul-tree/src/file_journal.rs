//! The record of what a copy has made durable in its staging folder: by file, not by block.
//!
//! A copy that is run again walks again and lays its blocks out anew, so block numbers say nothing from one run to the
//! next. A record therefore names a file by its path, size and modification time, and of a large file the piece. What
//! is under the path afterwards with another size or time is another file, and nothing recorded of it counts.
//!
//! After a header come frames, each written and synced by one call: length, records, check value. A crash leaves at
//! most a torn tail, which is not believed.
//!
//! | record | bytes |
//! |---|---|
//! | a whole small file | 0, path key (16), identity (8) |
//! | a piece of a large file | 1, path key, identity, piece (4), its value (32) |
//! | nothing of this path counts any more | 2, path key |

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use terahaul_core::{BLOCK_SIZE, BlockContent, BlockNumber, BlockProof, BlockShape, Entry, EntryIndex, Hash};
use terahaul_store::{Inbound, Ledger, LedgerError};

use crate::journal::open_or_make;
use crate::positional::{read_up_to, write_at};
use crate::staging::{OpenError, Staging};
use crate::{Keep, TreeSink};

const MAGIC: &[u8; 16] = b"terahaul files 1";
const LEN: usize = 4;
const CHECK: usize = 8;
/// What one sync can make durable at most, and far more than it does.
const LONGEST_FRAME: usize = 1 << 30;

/// Files and pieces of files that are durable in a staging folder.
pub struct FileJournal {
    file: OwnedFd,
    state: Mutex<State>,
    /// Set right after the receiver is made: it knows what is in a block, and the sink whose file that is.
    blocks: OnceLock<(Weak<Inbound>, Arc<TreeSink>)>,
    keep: Keep,
}

#[derive(Default)]
struct State {
    end: u64,
    /// Small files that earlier runs recorded as a whole, by half a path key: there may be millions, and with the identity that is
    /// 128 bits of hashes for each.
    whole: HashMap<[u8; 8], Identity>,
    /// Pieces of large ones.
    pieces: HashMap<PathKey, (Identity, BTreeMap<u32, Hash>)>,
    /// Records, not yet written, of what of that counts no more, or counts as this run's.
    unsettled: Vec<u8>,
    /// Values of the blocks that this run recorded: 32 bytes for 4 MiB.
    values: HashMap<BlockNumber, Hash>,
}

type PathKey = [u8; 16];
type Identity = [u8; 8];

/// How much of a file is durable in staging.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pieces {
    /// All of a small file.
    Whole,
    /// These pieces of a large one, with their values.
    Some(BTreeMap<u32, Hash>),
}

fn path_key(path: &[u8]) -> PathKey {
    let mut key = [0; 16];
    key.copy_from_slice(&blake3::hash(path).as_bytes()[..16]);
    key
}

fn half(key: &PathKey) -> [u8; 8] {
    let mut half = [0; 8];
    half.copy_from_slice(&key[..8]);
    half
}

/// What is kept of a file beside content, time and mode, one bit each.
fn kept_bits(keep: Keep) -> u8 {
    u8::from(keep.owner) | u8::from(keep.xattrs) << 1 | u8::from(keep.acls) << 2
}

fn identity(entry: &Entry, kept: u8) -> Identity {
    let size = entry.file_size().unwrap_or_default().0;
    let mut hasher = blake3::Hasher::new();
    hasher.update(&size.to_le_bytes());
    hasher.update(&entry.mtime.seconds.to_le_bytes());
    hasher.update(&entry.mtime.nanos.to_le_bytes());
    // Where the content is compared, size and time do not tell.
    if let Some(content) = entry.extra.as_ref().and_then(|extra| extra.content) {
        hasher.update(&content.0);
    }
    // Nor do they where somebody dates another file like this one: of one that arrives in pieces, some would be of the one and some of the
    // other.
    if let Some(changed) = entry.extra.as_ref().and_then(|extra| extra.changed) {
        hasher.update(&changed.at.seconds.to_le_bytes());
        hasher.update(&changed.at.nanos.to_le_bytes());
    }
    if kept != 0 {
        hasher.update(&[kept]);
    }
    let mut identity = [0; 8];
    identity.copy_from_slice(&hasher.finalize().as_bytes()[..8]);
    identity
}

fn check(frame: &[u8]) -> [u8; CHECK] {
    let mut value = [0; CHECK];
    value.copy_from_slice(&blake3::hash(frame).as_bytes()[..CHECK]);
    value
}

impl FileJournal {
    pub(crate) fn open(staging: &Staging, keep: Keep) -> Result<Self, OpenError> {
        let failed = |source: io::Error| OpenError::Unwritable { path: staging.path.join("journal"), source };
        let file = open_or_make(staging, MAGIC).map_err(failed)?;
        let mut found = [0; MAGIC.len()];
        let read = read_up_to(&file, &mut found, 0).map_err(failed)?;
        if found[..read] != *MAGIC {
            return Err(OpenError::Stale(staging.path.clone()));
        }
        let mut state = State { end: MAGIC.len() as u64, ..State::default() };
        while let Some(frame) = read_frame(&file, state.end).map_err(failed)? {
            state.end += (LEN + frame.len() + CHECK) as u64;
            if !state.load(&frame) {
                break;
            }
        }
        Ok(Self { file, state: Mutex::new(state), blocks: OnceLock::new(), keep })
    }

    /// Says whose blocks are recorded: `inbound` receives into `sink`.
    pub fn bind(&self, inbound: &Arc<Inbound>, sink: &Arc<TreeSink>) {
        let _ = self.blocks.set((Arc::downgrade(inbound), Arc::clone(sink)));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether an earlier run left anything.
    pub fn is_resumed(&self) -> bool {
        let state = self.state();
        !(state.whole.is_empty() && state.pieces.is_empty())
    }

    /// Whether this is what was recorded of the entry. It may have been staged with less than is kept now, which it gets with its name, but not
    /// with more, which nobody would take away.
    fn fits(&self, recorded: &Identity, entry: &Entry) -> bool {
        let now = kept_bits(self.keep);
        (0..=now).filter(|kept| kept & !now == 0).any(|kept| *recorded == identity(entry, kept))
    }

    /// What is durable of this file.
    pub fn pieces(&self, entry: &Entry) -> Option<Pieces> {
        let (state, key) = (self.state(), path_key(entry.path.as_bytes()));
        if let Some((recorded, pieces)) = state.pieces.get(&key) {
            return self.fits(recorded, entry).then(|| Pieces::Some(pieces.clone()));
        }
        let recorded = state.whole.get(&half(&key))?;
        self.fits(recorded, entry).then_some(Pieces::Whole)
    }

    /// From now on nothing recorded of this path counts: durable after [`settle`](Self::settle), without which nothing may be
    /// staged under it.
    pub(crate) fn forget(&self, entry: &Entry) {
        let key = path_key(entry.path.as_bytes());
        let mut state = self.state();
        if state.forget(&key) {
            state.unsettled.push(2);
            state.unsettled.extend_from_slice(&key);
        }
    }

    /// From now on these [`pieces`](Self::pieces) count as what this run has recorded, which may keep more of a file than the one that did:
    /// a staged file is given that before it has its name, and a run that keeps less must not go on from it. Durable after
    /// [`settle`](Self::settle), without which it may not be given anything.
    pub(crate) fn adopt(&self, entry: &Entry, pieces: &Pieces) {
        let (key, identity) = (path_key(entry.path.as_bytes()), identity(entry, kept_bits(self.keep)));
        let mut state = self.state();
        if state.recorded(&key) == Some(identity) {
            return;
        }
        match pieces {
            Pieces::Whole => {
                state.whole.insert(half(&key), identity);
                begin_record(&mut state.unsettled, 0, &key, &identity);
            }
            Pieces::Some(pieces) => {
                for (&piece, &value) in pieces {
                    state.add_piece(key, identity, piece, value);
                    begin_record(&mut state.unsettled, 1, &key, &identity);
                    add_value(&mut state.unsettled, piece, &value);
                }
            }
        }
    }

    /// From now on nothing that earlier runs recorded counts. Before anything is recorded.
    pub fn forget_all(&self) -> Result<(), LedgerError> {
        let failed = |errno: rustix::io::Errno| LedgerError { action: "written", source: errno.into() };
        let end = MAGIC.len() as u64;
        rustix::fs::ftruncate(&self.file, end).map_err(failed)?;
        rustix::fs::fdatasync(&self.file).map_err(failed)?;
        *self.state() = State { end, ..State::default() };
        Ok(())
    }

    /// Makes durable what was forgotten and adopted.
    pub fn settle(&self) -> Result<(), LedgerError> {
        self.append(&mut self.state(), &[])
    }

    /// Writes these records behind the unsettled ones.
    fn append(&self, state: &mut State, records: &[u8]) -> Result<(), LedgerError> {
        let failed = |error: io::Error| LedgerError { action: "written", source: error.into() };
        let len = state.unsettled.len() + records.len();
        if len == 0 {
            return Ok(());
        }
        let mut frame = Vec::with_capacity(LEN + len + CHECK);
        frame.extend_from_slice(&(len as u32).to_le_bytes());
        frame.extend_from_slice(&state.unsettled);
        frame.extend_from_slice(records);
        let value = check(&frame[LEN..]);
        frame.extend_from_slice(&value);
        // After a failure `end` stays, so the next attempt overwrites whatever part of this one was written.
        write_at(&self.file, &frame, state.end).map_err(failed)?;
        rustix::fs::fdatasync(&self.file).map_err(|errno| failed(errno.into()))?;
        state.end += frame.len() as u64;
        state.unsettled.clear();
        Ok(())
    }

    fn shape(&self, block: BlockNumber) -> Option<(BlockShape, &Arc<TreeSink>)> {
        let (inbound, sink) = self.blocks.get()?;
        let shape = inbound.upgrade()?.with(|receiver| receiver.layout().shape(block))?;
        Some((shape, sink))
    }
}

fn begin_record(records: &mut Vec<u8>, kind: u8, key: &PathKey, identity: &Identity) {
    records.push(kind);
    records.extend_from_slice(key);
    records.extend_from_slice(identity);
}

fn add_value(records: &mut Vec<u8>, piece: u32, value: &Hash) {
    records.extend_from_slice(&piece.to_le_bytes());
    records.extend_from_slice(&value.0);
}

fn read_frame(file: &OwnedFd, at: u64) -> io::Result<Option<Vec<u8>>> {
    let mut len = [0; LEN];
    if read_up_to(file, &mut len, at)? < LEN {
        return Ok(None);
    }
    let len = u32::from_le_bytes(len) as usize;
    let there = u64::try_from(rustix::fs::fstat(file)?.st_size).unwrap_or_default();
    if len > LONGEST_FRAME || at + (LEN + len + CHECK) as u64 > there {
        return Ok(None);
    }
    let mut frame = vec![0; len + CHECK];
    read_up_to(file, &mut frame, at + LEN as u64)?;
    let value = frame.split_off(len);
    Ok((check(&frame)[..] == value[..]).then_some(frame))
}

impl State {
    /// `false` when the frame is not one of this program's.
    fn load(&mut self, mut records: &[u8]) -> bool {
        while let Some((&kind, rest)) = records.split_first() {
            let Some((&key, rest)) = rest.split_first_chunk::<16>() else { return false };
            if kind == 2 {
                self.forget(&key);
                records = rest;
                continue;
            }
            let Some((&identity, rest)) = rest.split_first_chunk::<8>() else { return false };
            match kind {
                0 => {
                    self.pieces.remove(&key);
                    self.whole.insert(half(&key), identity);
                    records = rest;
                }
                1 => {
                    let Some((&piece, rest)) = rest.split_first_chunk::<4>() else { return false };
                    let Some((&value, rest)) = rest.split_first_chunk::<32>() else { return false };
                    self.add_piece(key, identity, u32::from_le_bytes(piece), Hash(value));
                    records = rest;
                }
                _ => return false,
            }
        }
        true
    }

    fn add_piece(&mut self, key: PathKey, identity: Identity, piece: u32, value: Hash) {
        self.whole.remove(&half(&key));
        let (recorded, pieces) = self.pieces.entry(key).or_insert_with(|| (identity, BTreeMap::new()));
        if *recorded != identity {
            (*recorded, *pieces) = (identity, BTreeMap::new());
        }
        pieces.insert(piece, value);
    }

    /// As what a file of this path is recorded.
    fn recorded(&self, key: &PathKey) -> Option<Identity> {
        let of_pieces = self.pieces.get(key).map(|(recorded, _)| *recorded);
        of_pieces.or_else(|| self.whole.get(&half(key)).copied())
    }

    /// Whether there was something to forget.
    fn forget(&mut self, key: &PathKey) -> bool {
        let (piece, whole) = (self.pieces.remove(key).is_some(), self.whole.remove(&half(key)).is_some());
        piece || whole
    }
}

impl FileJournal {
    fn add_records(&self, records: &mut Vec<u8>, shape: &BlockShape, value: Hash, sink: &TreeSink) {
        let mut begin = |kind: u8, entry: EntryIndex| {
            // What stands for one that failed meanwhile is not that file.
            let Some(entry) = sink.wanted_entry(entry) else { return false };
            begin_record(
                records,
                kind,
                &path_key(entry.path.as_bytes()),
                &identity(&entry, kept_bits(self.keep)),
            );
            true
        };
        match &shape.content {
            BlockContent::Packed { files, .. } => files.iter().for_each(|file| {
                begin(0, file.entry);
            }),
            BlockContent::Piece { entry, offset, .. } => {
                if begin(1, *entry) {
                    add_value(records, (offset / BLOCK_SIZE) as u32, &value);
                }
            }
        }
    }
}

impl Ledger for FileJournal {
    fn record(&self, proven: &[(BlockNumber, BlockProof)]) -> Result<(), LedgerError> {
        let mut records = Vec::new();
        let mut values = Vec::with_capacity(proven.len());
        for (block, proof) in proven {
            let value = proof.value();
            match self.shape(*block) {
                Some((shape, sink)) => self.add_records(&mut records, &shape, value, sink),
                None => return Err(LedgerError { action: "written", source: "the copy is over".into() }),
            }
            values.push((*block, value));
        }
        let mut state = self.state();
        self.append(&mut state, &records)?;
        state.values.extend(values);
        Ok(())
    }

    /// Only a piece's value is kept, which is its proof.
    fn proof(&self, shape: &BlockShape) -> Result<Option<BlockProof>, LedgerError> {
        let value = self.state().values.get(&shape.number).copied();
        Ok(value.and_then(|value| BlockProof::from_bytes(shape, &value.0)))
    }

    fn has_recorded(&self, shape: &BlockShape, proof: &BlockProof) -> Result<Option<bool>, LedgerError> {
        Ok(self.state().values.get(&shape.number).map(|value| *value == proof.value()))
    }
}

impl FileJournal {
    /// A block that an earlier run made durable has this value.
    pub fn handle_restored(&self, block: BlockNumber, value: Hash) {
        self.state().values.insert(block, value);
    }
}
