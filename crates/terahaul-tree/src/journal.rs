//! The record of durable blocks in a staging folder.
//!
//! A header names what the blocks belong to; records follow, each with a check value: a block's proof, or none where the block is here no
//! more. Records are only appended, and synced before anybody is told, so a crash leaves at most a torn tail, which is not believed.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::OFlags;
use terahaul_core::{BlockNumber, BlockProof, BlockSet, BlockShape, Hash, MAX_FILES_IN_BLOCK, TransferId};
use terahaul_store::{Ledger, LedgerError};

use crate::positional::{read_up_to, write_at};
use crate::read_only::open_own;
use crate::staging::{OpenError, Staging};

const MAGIC: &[u8; 16] = b"terahaul block 1";
/// Magic, transfer, what it is bound to.
const HEADER: usize = 16 + 16 + 32;
/// Block number and proof length before a proof, a check value after it.
const BEFORE: usize = 8;
const AFTER: usize = 8;
const LONGEST_PROOF: usize = 32 * MAX_FILES_IN_BLOCK;

/// Proofs of durable blocks, in a file.
pub struct Journal {
    file: OwnedFd,
    seed: [u8; 32],
    state: Mutex<State>,
}

struct State {
    /// Where each block's proof begins, and its length.
    proofs: BTreeMap<BlockNumber, (u64, u32)>,
    /// Where the next record goes; what lies behind is not believed.
    end: u64,
}

impl Journal {
    /// Opens or makes the journal. `bound_to` is a value that is always the same for what is being received, such as
    /// the depot's key: blocks recorded under another are not used.
    pub(crate) fn open(staging: &Staging, transfer: TransferId, bound_to: Hash) -> Result<Self, OpenError> {
        let failed = |source: io::Error| OpenError::Unwritable { path: staging.path.join("journal"), source };
        let mut header = [0; HEADER];
        header[..16].copy_from_slice(MAGIC);
        header[16..32].copy_from_slice(&transfer.0);
        header[32..].copy_from_slice(&bound_to.0);
        let file = open_or_make(staging, &header).map_err(failed)?;
        let mut found = [0; HEADER];
        let read = read_up_to(&file, &mut found, 0).map_err(failed)?;
        if found[..read] != header {
            return Err(OpenError::Stale(staging.path.clone()));
        }
        let seed = *blake3::hash(&header).as_bytes();
        let state = scan(&file, &seed).map_err(failed)?;
        Ok(Self { file, seed, state: Mutex::new(state) })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The blocks that are durable.
    pub fn blocks(&self) -> BlockSet {
        self.state().proofs.keys().copied().collect()
    }

    /// These are here no more. Durable when it returns: only then may anything be put in their place, of which an interruption may leave
    /// as much as there was.
    pub fn forget(&self, blocks: &[BlockNumber]) -> Result<(), LedgerError> {
        if blocks.is_empty() {
            return Ok(());
        }
        self.append(&blocks.iter().map(|block| (*block, Vec::new())).collect::<Vec<_>>())
    }

    /// Appends records: a block's proof, or nothing.
    fn append(&self, records: &[(BlockNumber, Vec<u8>)]) -> Result<(), LedgerError> {
        let failed = |error: io::Error| LedgerError { action: "written", source: error.into() };
        let mut state = self.state();
        let mut bytes = Vec::new();
        let mut places = Vec::with_capacity(records.len());
        for (block, proof) in records {
            let start = bytes.len();
            bytes.extend_from_slice(&block.0.to_le_bytes());
            bytes.extend_from_slice(&(proof.len() as u32).to_le_bytes());
            places.push((*block, state.end + bytes.len() as u64, proof.len() as u32));
            bytes.extend_from_slice(proof);
            let check = check(&self.seed, &bytes[start..]);
            bytes.extend_from_slice(&check);
        }
        // After a failure `end` stays, so the next attempt overwrites whatever part of this one was written.
        write_at(&self.file, &bytes, state.end).map_err(failed)?;
        rustix::fs::fdatasync(&self.file).map_err(|errno| failed(errno.into()))?;
        state.end += bytes.len() as u64;
        places.into_iter().for_each(|(block, at, len)| state.take(block, at, len));
        Ok(())
    }
}

impl State {
    /// A record of the block has its proof there; no proof is empty.
    fn take(&mut self, block: BlockNumber, at: u64, len: u32) {
        if len == 0 {
            self.proofs.remove(&block);
        } else {
            self.proofs.insert(block, (at, len));
        }
    }
}

/// The header is complete before the file has its name, so an unreadable one is never a torn one.
pub(crate) fn open_or_make(staging: &Staging, header: &[u8]) -> io::Result<OwnedFd> {
    match open_own(&staging.folder, b"journal", OFlags::RDWR) {
        Err(rustix::io::Errno::NOENT) => {}
        opened => return Ok(opened?),
    }
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::TRUNC;
    let file = open_own(&staging.folder, b"journal.new", flags)?;
    write_at(&file, header, 0)?;
    rustix::fs::fsync(&file)?;
    rustix::fs::renameat(&staging.folder, "journal.new", &staging.folder, "journal")?;
    rustix::fs::fsync(&staging.folder)?;
    Ok(file)
}

fn scan(file: &OwnedFd, seed: &[u8; 32]) -> io::Result<State> {
    let mut state = State { proofs: BTreeMap::new(), end: HEADER as u64 };
    let mut buffer = vec![0; 1 << 20];
    loop {
        let read = read_up_to(file, &mut buffer, state.end)?;
        let mut rest = &buffer[..read];
        while let Some((block, len)) = first_record(rest, seed) {
            state.take(block, state.end + BEFORE as u64, len as u32);
            state.end += (BEFORE + len + AFTER) as u64;
            rest = &rest[BEFORE + len + AFTER..];
        }
        // A record longer than what is left of the buffer is read again from its start.
        if rest.len() == read {
            return Ok(state);
        }
    }
}

fn first_record(bytes: &[u8], seed: &[u8; 32]) -> Option<(BlockNumber, usize)> {
    let block = u32::from_le_bytes(bytes.get(..4)?.try_into().ok()?);
    let len = u32::from_le_bytes(bytes.get(4..BEFORE)?.try_into().ok()?) as usize;
    if len > LONGEST_PROOF || !len.is_multiple_of(32) {
        return None;
    }
    let (record, after) = bytes.split_at_checked(BEFORE + len)?;
    (after.get(..AFTER)? == check(seed, record)).then_some((BlockNumber(block), len))
}

fn check(seed: &[u8; 32], record: &[u8]) -> [u8; AFTER] {
    let mut value = [0; AFTER];
    value.copy_from_slice(&blake3::keyed_hash(seed, record).as_bytes()[..AFTER]);
    value
}

impl Ledger for Journal {
    fn record(&self, proven: &[(BlockNumber, BlockProof)]) -> Result<(), LedgerError> {
        self.append(&proven.iter().map(|(block, proof)| (*block, proof.to_bytes())).collect::<Vec<_>>())
    }

    fn proof(&self, shape: &BlockShape) -> Result<Option<BlockProof>, LedgerError> {
        let Some(&(at, len)) = self.state().proofs.get(&shape.number) else { return Ok(None) };
        let mut bytes = vec![0; len as usize];
        let failed = |source| LedgerError { action: "read", source };
        let read = read_up_to(&self.file, &mut bytes, at).map_err(|error| failed(error.into()))?;
        match BlockProof::from_bytes(shape, &bytes[..read]) {
            Some(proof) => Ok(Some(proof)),
            None => {
                Err(failed(format!("the proof of block {} does not fit the manifest", shape.number).into()))
            }
        }
    }
}
