//! A file system that loses power.
//!
//! [`PowerCutDisk`] stands below [`DirectoryStore`](crate::DirectoryStore) and keeps every write and every change of
//! a folder in memory that forgets, until it is synced. [`PowerCutDisk::power_cut`] then drops what was not synced,
//! or lets a random part of it survive: whole 512-byte sectors in any order, so that a write may be torn, and a
//! random first part of the folders' changes, of which a move is two: a new name, then no old one. [`PowerCutLedger`]
//! stands for the database: a record is durable once `record` has returned.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, IoSlice};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use terahaul_core::{BlockNumber, BlockProof, BlockSet, BlockShape};

use crate::sparse::SparseBytes;
use crate::{FlatFile, Folders, Ledger, LedgerError, StorePlace};

const SECTOR: u64 = 512;

/// What a power cut leaves of what was not synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Survivors {
    /// Nothing.
    None,
    /// Half of it, chosen by this seed.
    Random(u64),
}

/// A disk whose power can be cut. Clones are the same disk.
#[derive(Clone, Debug, Default)]
pub struct PowerCutDisk {
    disk: Arc<Mutex<Disk>>,
}

#[derive(Debug, Default)]
struct Disk {
    files: Vec<Content>,
    names: Names,
    durable_names: Names,
    /// Changes of folders, in order, that are not durable.
    pending: Vec<Change>,
    /// Calls until the power fails by itself.
    calls_left: Option<u64>,
    dark: bool,
    /// How often the power was cut: files opened before are gone.
    cuts: u64,
    lies: bool,
}

type Names = BTreeMap<(bool, String), usize>;

#[derive(Clone, Debug)]
enum Change {
    Made(StorePlace, String, usize),
    Removed(StorePlace, String),
}

#[derive(Debug, Default)]
struct Content {
    now: SparseBytes,
    durable: SparseBytes,
    dirty: BTreeSet<u64>,
}

fn key(place: StorePlace, name: &str) -> (bool, String) {
    (place == StorePlace::Published, name.to_owned())
}

impl Change {
    fn apply(&self, names: &mut Names) {
        match self {
            Self::Made(place, name, file) => {
                names.insert(key(*place, name), *file);
            }
            Self::Removed(place, name) => {
                names.remove(&key(*place, name));
            }
        }
    }

    fn touches(&self, place: StorePlace) -> bool {
        match self {
            Self::Made(at, ..) | Self::Removed(at, _) => *at == place,
        }
    }
}

impl Content {
    fn write(&mut self, at: u64, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.now.write(at, bytes);
            self.dirty.extend(at / SECTOR..=(at + bytes.len() as u64 - 1) / SECTOR);
        }
    }

    /// Carries one sector over to what is durable, as the disk would: the file is as long as what reached it.
    fn carry(&mut self, sector: u64) {
        let start = sector * SECTOR;
        let mut bytes = [0; SECTOR as usize];
        let bytes = &mut bytes[..SECTOR.min(self.now.len() - start) as usize];
        if self.now.read(start, bytes) {
            self.durable.write(start, bytes);
        }
    }

    fn sync(&mut self) {
        for sector in std::mem::take(&mut self.dirty) {
            self.carry(sector);
        }
        self.durable.grow(self.now.len());
    }

    fn cut(&mut self, chance: &mut Option<Chance>) {
        for sector in std::mem::take(&mut self.dirty) {
            if chance.as_mut().is_some_and(Chance::flip) {
                self.carry(sector);
            }
        }
        self.now = self.durable.clone();
    }
}

/// A small random number generator (splitmix64): a seed gives the same cut again.
#[derive(Debug)]
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn flip(&mut self) -> bool {
        self.next() & 1 == 1
    }
}

impl PowerCutDisk {
    /// An empty disk.
    pub fn new() -> Self {
        Self::default()
    }

    fn disk(&self) -> MutexGuard<'_, Disk> {
        self.disk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One call of the system: fails while the power is out, and may be the one at which it goes out.
    fn call(&self) -> io::Result<MutexGuard<'_, Disk>> {
        let mut disk = self.disk();
        match &mut disk.calls_left {
            Some(0) => disk.dark = true,
            Some(left) => *left -= 1,
            None => {}
        }
        if disk.dark { Err(io::Error::other("the power is out")) } else { Ok(disk) }
    }

    /// The power goes out after `calls` more calls; every call from then on fails until [`Self::power_cut`].
    pub fn fail_after(&self, calls: u64) {
        self.disk().calls_left = Some(calls);
    }

    /// Drops what is not durable, save the survivors, and turns the power on again. Files that were open fail for
    /// good.
    pub fn power_cut(&self, survivors: Survivors) {
        let mut chance = match survivors {
            Survivors::None => None,
            Survivors::Random(seed) => Some(Chance(seed)),
        };
        let mut disk = self.disk();
        let disk = &mut *disk;
        disk.files.iter_mut().for_each(|file| file.cut(&mut chance));
        let kept = chance.map_or(0, |mut chance| chance.next() as usize % (disk.pending.len() + 1));
        for change in disk.pending.drain(..).take(kept) {
            change.apply(&mut disk.durable_names);
        }
        disk.names = disk.durable_names.clone();
        disk.dark = false;
        disk.calls_left = None;
        disk.cuts += 1;
    }

    /// From now on the disk calls writes durable that are not, as broken ones do. Tests use it to show that they
    /// would notice.
    pub fn lie(&self) {
        self.disk().lies = true;
    }

    fn file(&self, index: usize, cuts: u64) -> PowerCutFile {
        PowerCutFile { disk: self.clone(), index, cuts }
    }
}

impl Folders for PowerCutDisk {
    type File = PowerCutFile;

    fn create(&self, place: StorePlace, name: &str) -> io::Result<PowerCutFile> {
        let mut disk = self.call()?;
        if disk.names.contains_key(&key(place, name)) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let index = disk.files.len();
        disk.files.push(Content::default());
        disk.change(Change::Made(place, name.to_owned(), index));
        Ok(self.file(index, disk.cuts))
    }

    fn open(&self, place: StorePlace, name: &str) -> io::Result<PowerCutFile> {
        let disk = self.call()?;
        let index = disk.names.get(&key(place, name)).ok_or(io::ErrorKind::NotFound)?;
        Ok(self.file(*index, disk.cuts))
    }

    fn rename(&self, from: StorePlace, to: StorePlace, name: &str) -> io::Result<()> {
        let mut disk = self.call()?;
        let file = *disk.names.get(&key(from, name)).ok_or(io::ErrorKind::NotFound)?;
        if disk.names.contains_key(&key(to, name)) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        disk.change(Change::Made(to, name.to_owned(), file));
        disk.change(Change::Removed(from, name.to_owned()));
        Ok(())
    }

    fn rename_within(&self, place: StorePlace, name: &str, new: &str) -> io::Result<()> {
        let mut disk = self.call()?;
        let file = *disk.names.get(&key(place, name)).ok_or(io::ErrorKind::NotFound)?;
        disk.change(Change::Made(place, new.to_owned(), file));
        disk.change(Change::Removed(place, name.to_owned()));
        Ok(())
    }

    fn is_twice(&self, name: &str) -> io::Result<bool> {
        let disk = self.call()?;
        let [incoming, published] =
            [StorePlace::Incoming, StorePlace::Published].map(|place| disk.names.get(&key(place, name)));
        Ok(incoming.is_some() && incoming == published)
    }

    fn unlink(&self, place: StorePlace, name: &str) -> io::Result<()> {
        let mut disk = self.call()?;
        if !disk.names.contains_key(&key(place, name)) {
            return Err(io::ErrorKind::NotFound.into());
        }
        disk.change(Change::Removed(place, name.to_owned()));
        Ok(())
    }

    fn names(&self, place: StorePlace) -> io::Result<Vec<String>> {
        let disk = self.call()?;
        let published = place == StorePlace::Published;
        Ok(disk.names.keys().filter(|(at, _)| *at == published).map(|(_, name)| name.clone()).collect())
    }

    fn sync(&self, place: StorePlace) -> io::Result<()> {
        let mut disk = self.call()?;
        let disk = &mut *disk;
        // As a journal does: with a change, all that came before it.
        let end = disk.pending.iter().rposition(|change| change.touches(place)).map_or(0, |last| last + 1);
        disk.pending.drain(..end).for_each(|change| change.apply(&mut disk.durable_names));
        Ok(())
    }

    fn free_space(&self) -> io::Result<Option<u64>> {
        Ok(None)
    }
}

impl Disk {
    fn change(&mut self, change: Change) {
        change.apply(&mut self.names);
        self.pending.push(change);
    }
}

/// An open file of a [`PowerCutDisk`].
#[derive(Debug)]
pub struct PowerCutFile {
    disk: PowerCutDisk,
    index: usize,
    cuts: u64,
}

impl PowerCutFile {
    fn with<T>(&self, act: impl FnOnce(&mut Content) -> T) -> io::Result<T> {
        let mut disk = self.disk.call()?;
        if disk.cuts != self.cuts {
            return Err(io::Error::other("the file was open when the power went out"));
        }
        Ok(act(&mut disk.files[self.index]))
    }
}

impl FlatFile for PowerCutFile {
    fn write_at(&self, offset: u64, parts: &[IoSlice<'_>]) -> io::Result<()> {
        let mut at = offset;
        for part in parts {
            self.with(|content| content.write(at, part))?;
            at += part.len() as u64;
        }
        Ok(())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let filled = buffer.is_empty() || self.with(|content| content.now.read(offset, buffer))?;
        if filled { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }

    fn end(&self) -> io::Result<u64> {
        self.with(|content| content.now.len())
    }

    fn sync(&self) -> io::Result<()> {
        if self.disk.disk().lies {
            return self.with(|_| ());
        }
        self.with(Content::sync)
    }
}

/// A ledger on the same power supply: a record is durable once `record` has returned.
#[derive(Debug)]
pub struct PowerCutLedger {
    disk: PowerCutDisk,
    proofs: Mutex<BTreeMap<BlockNumber, BlockProof>>,
}

impl PowerCutLedger {
    /// An empty ledger, which fails while the power of `disk` is out.
    pub fn new(disk: &PowerCutDisk) -> Self {
        Self { disk: disk.clone(), proofs: Mutex::default() }
    }

    fn proofs(&self) -> MutexGuard<'_, BTreeMap<BlockNumber, BlockProof>> {
        self.proofs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The blocks on record: what a resume starts from.
    pub fn durable(&self) -> BlockSet {
        self.proofs().keys().copied().collect()
    }
}

impl Ledger for PowerCutLedger {
    fn record(&self, proven: &[(BlockNumber, BlockProof)]) -> Result<(), LedgerError> {
        let _power_holds =
            self.disk.call().map_err(|error| LedgerError { action: "written", source: error.into() })?;
        self.proofs().extend(proven.iter().cloned());
        Ok(())
    }

    fn proof(&self, shape: &BlockShape) -> Result<Option<BlockProof>, LedgerError> {
        Ok(self.proofs().get(&shape.number).cloned())
    }
}
