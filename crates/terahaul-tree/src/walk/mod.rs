//! Walks what is to be sent, streaming entries in an order that depends on nothing but the names.
//!
//! The calling thread goes through the folders depth first; helpers list folders that it will reach soon. So the
//! order is always the same, and only a bounded number of entries is ever held.

mod above;
mod carried;
mod look;
mod mounts;
mod node;
mod pool;
mod pseudo;

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

use terahaul_core::{Entry, EntryPath, FailureCause};

use crate::{Filter, Roots};
pub use above::FoldersAbove;
pub(crate) use carried::Carried;
use carried::Names;
pub use carried::Reading;
use look::Walker;
pub(crate) use mounts::is_in_mount_of;
use node::{Folder, Node, Output, Work};
use pool::Pool;
use pseudo::PseudoFileSystems;

/// Something that cannot be sent. The rest goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// Where it is, as the user would write it.
    pub path: PathBuf,
    /// Where it is in the transfer; `None` for the folder whose content is sent, and where no entry could have such a path.
    pub entry: Option<EntryPath>,
    /// Why, as a class.
    pub cause: FailureCause,
    /// Why, in words.
    pub detail: String,
    /// `detail` is all that is to be said: the words that `cause` has for it are about something else.
    pub says_all: bool,
    /// What the manifest is without because of it.
    pub lack: Lack,
    /// Nothing is wrong with it: this machine had too many files open to look at it.
    pub too_many_files: bool,
}

/// What a manifest is without because something was skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lack {
    /// Nothing: it has gone, it has an entry all the same, or it is what another transfer has not completed.
    Nothing,
    /// It alone, which is of a kind that is never sent, or a folder that went before it was listed: what a receiver has under its name, or in
    /// it, is not to be taken for something that the sender has not.
    Itself,
    /// Nobody knows what: it could not be read, or no entry can stand for it.
    Unknown,
}

impl Skipped {
    /// Whether it is a device, a FIFO or a socket, which are never sent.
    pub fn is_special(&self) -> bool {
        self.cause == FailureCause::Unsupported && self.lack == Lack::Itself && !self.says_all
    }

    /// What is the matter with it, to be read behind its path.
    pub fn message(&self) -> String {
        match self.says_all {
            true => self.detail.clone(),
            false => format!("{} ({})", self.cause.describe(), self.detail),
        }
    }
}

/// What the walk has found since the last batch.
#[derive(Debug, Default)]
pub struct Batch {
    /// Entries for the manifest, in its order: a folder before what is in it.
    pub found: Vec<Entry>,
    /// What cannot be sent.
    pub skipped: Vec<Skipped>,
}

/// Entries in a batch, more or less: enough to make a call cheap, few enough to begin sending at once.
const BATCH: usize = 1024;

/// Calls `take` with batch after batch until all is walked or `take` breaks; returns whether all was.
///
/// Links are never followed. `helpers` threads list ahead; with none the calling thread does it all.
pub fn walk(
    roots: &Roots,
    filter: &Filter,
    helpers: usize,
    take: impl FnMut(Batch) -> ControlFlow<()>,
) -> bool {
    walk_reading(roots, filter, Reading::default(), helpers, take)
}

/// As [`walk`], and reads what else of each entry is wanted. Of a file with several names only the first is a file
/// with bytes; the others say whose they are.
pub fn walk_reading(
    roots: &Roots,
    filter: &Filter,
    reading: Reading,
    helpers: usize,
    mut take: impl FnMut(Batch) -> ControlFlow<()>,
) -> bool {
    let pseudo = PseudoFileSystems::default();
    let walker = Walker { roots, filter, carried: Carried::new(reading), pseudo };
    let pool = Pool::new(walker, helpers > 0);
    std::thread::scope(|scope| {
        // Also where the walk panics: they wait for it, and the scope for them.
        let _finishing = Finishing(&pool);
        for _ in 0..helpers {
            // Where no more threads may be started the walk goes on by itself.
            let _ = std::thread::Builder::new().spawn_scoped(scope, || pool.help());
        }
        let emitter = Emitter {
            pool: &pool,
            batch: Batch::default(),
            above: FoldersAbove::default(),
            names: Names::default(),
        };
        emitter.run(roots, &mut take).is_continue()
    })
}

/// Lets helpers go when the walk ends.
struct Finishing<'a>(&'a Pool<'a>);

impl Drop for Finishing<'_> {
    fn drop(&mut self) {
        self.0.finish();
    }
}

struct Emitter<'a> {
    pool: &'a Pool<'a>,
    batch: Batch,
    above: FoldersAbove,
    names: Names,
}

impl Emitter<'_> {
    fn run(mut self, roots: &Roots, take: &mut dyn FnMut(Batch) -> ControlFlow<()>) -> ControlFlow<()> {
        let top = |(at, root): (usize, &crate::roots::Root)| {
            let folder = Arc::new(Folder { root: at, path: Vec::new(), inside: false, found: None });
            let work = match &root.name {
                Some(name) => Work::Names(folder, vec![name.to_vec()]),
                None => Work::List(folder),
            };
            Arc::new(Node::new(None, work))
        };
        let there = roots.iter().enumerate().filter(|(_, root)| !root.is_gone);
        let mut stack: Vec<_> = there.map(top).collect();
        stack.reverse();
        self.pool.announce(&stack);
        while let Some(node) = stack.pop() {
            if let Some((entry, certain)) = &node.entry {
                self.enter(entry, *certain);
            }
            let Output { mut found, inodes, skipped, children } = self.pool.take(&node);
            for (at, inode) in inodes {
                self.names.handle_found(&mut found[at], inode);
            }
            if !found.is_empty() {
                self.flush_above(found[0].path.as_bytes());
            }
            self.batch.found.extend(found);
            self.batch.skipped.extend(skipped);
            stack.extend(children);
            if self.batch.found.len() + self.batch.skipped.len() >= BATCH {
                take(std::mem::take(&mut self.batch))?;
            }
        }
        if self.batch.found.is_empty() && self.batch.skipped.is_empty() {
            return ControlFlow::Continue(());
        }
        take(self.batch)
    }

    fn enter(&mut self, entry: &Entry, certain: bool) {
        if certain {
            self.flush_above(entry.path.as_bytes());
            self.batch.found.push(entry.clone());
        } else {
            self.above.enter(entry.clone());
        }
    }

    /// `path` is sent, so the folders above it are.
    fn flush_above(&mut self, path: &[u8]) {
        self.batch.found.extend(self.above.declare(path));
    }
}
