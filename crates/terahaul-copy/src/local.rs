//! On one machine: no network, no TLS; the same walk, decisions, blocks, syncs and names.

mod within;

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use terahaul_core::{BlockShape, ChannelId, Pace};
use terahaul_net::channel::{Next, Outbound, Placement};
use terahaul_net::client::Progress;
use terahaul_store::{BlockSource, EntryFailure, Inbound, InboundError};

use crate::copy_key::copy_key;
use crate::error::CopyError;
use crate::job::Job;
use crate::landing::{Asked, Closing, Judged, Landing};
use crate::naming::settle;
use crate::near::Way;
use crate::offer::{Offer, is_only_file, names_asked};
use crate::pull::{blocking, telling};
use crate::report::{Looks, Report};
use crate::summary::Copied;

/// Bytes that are read, hashed and written at a time.
const PIECE: usize = 256 << 10;
/// Threads, unless `--channels` says otherwise: more wait for each other in the kernel.
const MOST_THREADS: usize = 4;

/// Copies `sources` to `to`, both on this machine.
pub async fn copy_local(
    sources: &[PathBuf],
    to: &Path,
    job: &Job,
    looks: &Looks,
    report: &dyn Report,
) -> Result<Copied, CopyError> {
    let offer = Arc::new(Offer::open(sources, &job.selection, job.rules.kept, job.rules.compare)?);
    let base = settle(to, is_only_file(sources, &job.selection))?;
    within::refuse(sources, &base.folder, &job.selection.filter()?, job.rules.delete.is_some())?;
    let names = names_asked(&job.selection, sources.iter().map(|path| path.as_os_str().as_bytes()));
    let key =
        copy_key(job, sources.iter().map(|path| path.as_os_str().as_bytes()), b"", to.as_os_str().as_bytes());
    let (rules, selection) = (job.rules.clone(), job.selection.clone());
    let asked = Asked { names, patterns: Vec::new(), top: offer.top().cloned() };
    let landing = blocking(move || Landing::open(base, asked, key, &rules, &selection)).await?;
    let landing = Arc::new(landing);
    let (events, _) = tokio::sync::mpsc::unbounded_channel();
    let queue = Arc::new(Outbound::placing(Placement::Accepted, events));
    let (looked, received) = (Arc::clone(&queue), Arc::clone(&landing));
    let counting = Arc::new(AtomicBool::new(true));
    let growing = Arc::clone(&counting);
    looks.set(Box::new(move || (progress(&looked, received.inbound()), growing.load(Ordering::Relaxed))));
    report.started(Way::Local);
    let threads = job.options.channels.map_or_else(
        || std::thread::available_parallelism().map_or(1, usize::from).min(MOST_THREADS),
        |channels| channels as usize,
    );
    let dry_run = job.rules.dry_run;
    let pace = job.options.limit.map(|rate| Mutex::new(Pace::new(rate)));
    let (working, queued, offered) = (Arc::clone(&landing), Arc::clone(&queue), Arc::clone(&offer));
    let copying = blocking(move || {
        let threads = if dry_run { 0 } else { threads };
        let copied = copy(&offered, &queued, &working, pace.as_ref(), threads, &counting);
        queued.close();
        working.handle_walked(offered.walked());
        copied
    });
    // Dropped in reverse order when the user stops: the threads then end with their blocks, and what has arrived is kept.
    let closing = Closing(Arc::clone(&landing));
    let _stop = Stop(&offer, &queue);
    let copied = telling(&landing, report, copying).await;
    let finishing = Arc::clone(&landing);
    let landed = match copied {
        Ok(()) => blocking(move || finishing.finish()).await,
        Err(error) => Err(error),
    };
    closing.close().await?;
    let landed = landed?;
    landing.tell_items(&mut |item| report.item(item));
    let failures = offer.skipped().and(landing.failures());
    let moved = landed.literal;
    Ok(Copied { landed, moved, failures, way: Way::Local, ..Copied::default() })
}

struct Stop<'a>(&'a Offer, &'a Outbound);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        stop(self.0, self.1);
    }
}

/// The walk and the threads end soon.
fn stop(offer: &Offer, queue: &Outbound) {
    offer.stop();
    queue.close();
}

fn progress(queue: &Outbound, inbound: &Inbound) -> Progress {
    let (total, entries) = queue.declared();
    let done = inbound.with(|receiver| receiver.durable_bytes());
    Progress { total, done, sent: queue.sent(), entries, channels: 0, connected: true, ..Progress::default() }
}

/// Ends the queue of those who copy when the walk ends.
struct ClosingQueue<'a>(&'a Outbound);

impl Drop for ClosingQueue<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// The first thing that goes wrong ends a copy: the walk and the threads stop, and this is what it was.
struct FirstError {
    error: Mutex<Option<CopyError>>,
    offer: Arc<Offer>,
    queue: Arc<Outbound>,
}

impl FirstError {
    fn handle(&self, error: CopyError) {
        self.error.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        stop(&self.offer, &self.queue);
    }

    fn take(&self) -> Option<CopyError> {
        self.error.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

fn copy(
    offer: &Arc<Offer>,
    queue: &Arc<Outbound>,
    landing: &Landing,
    pace: Option<&Mutex<Pace>>,
    threads: usize,
    counting: &AtomicBool,
) -> Result<(), CopyError> {
    let source = offer.source();
    let (offered, queued) = (Arc::clone(offer), Arc::clone(queue));
    let first = Arc::new(FirstError { error: Mutex::default(), offer: offered, queue: queued });
    let lost = Arc::clone(&first);
    let listener = landing.inbound().add_loss_listener(Box::new(move |failure| {
        lost.handle(CopyError::Inbound(InboundError::Broken(failure.clone())));
    }));
    let copied = std::thread::scope(|scope| {
        let (done, blocks) = mpsc::channel();
        // Also where the walk panics: they wait for blocks, and the scope for them.
        let _closing = ClosingQueue(queue);
        for number in 0..threads {
            let (done, source, first) = (done.clone(), Arc::clone(&source), &first);
            let work = move || {
                let mut buffer = vec![0; PIECE];
                let wait = |bytes| pace.is_none_or(|pace| wait_for(pace, bytes, offer));
                while let Next::Block(shape) = queue.next(ChannelId(number as u32)) {
                    match carry(&shape, &*source, landing, queue, (&mut buffer, &wait)) {
                        // Whoever listens has an error of its own.
                        Ok(()) => drop(done.send(())),
                        Err(error) => return first.handle(error),
                    }
                }
            };
            // One of them is enough.
            match std::thread::Builder::new().spawn_scoped(scope, work) {
                Err(error) if number == 0 => {
                    return Err(CopyError::no_thread(error));
                }
                _ => {}
            }
        }
        drop(done);
        let walked = offer.walk(|batch| {
            let total = u64::from(batch.end().0);
            queue.declare(batch.sizes(), batch.seal)?;
            let Judged { declined, durable, .. } = landing.take(batch)?;
            queue.handle_declined(declined);
            queue.handle_durable(&durable);
            Ok(queue.handle_accepted(total)?)
        });
        counting.store(false, Ordering::Relaxed);
        let is_whole = || threads == 0 || landing.inbound().with(|receiver| receiver.has_arrived());
        while walked.is_ok() && !is_whole() && blocks.recv().is_ok() {}
        match first.take() {
            Some(error) => Err(error),
            None if walked.is_ok() && !is_whole() => Err(CopyError::Interrupted),
            None => walked,
        }
    });
    landing.inbound().remove_listener(listener);
    copied
}

/// Waits until the limit lets so many bytes more pass; `false` when the copy is to end.
fn wait_for(pace: &Mutex<Pace>, bytes: u64, offer: &Offer) -> bool {
    /// Whoever stops a copy waits no longer than that.
    const AT_MOST: Duration = Duration::from_millis(100);
    let locked = || pace.lock().unwrap_or_else(PoisonError::into_inner);
    let turn = locked().handle_wish(bytes);
    loop {
        if offer.is_stopped() {
            return false;
        }
        let wait = locked().poll_turn(Instant::now(), turn);
        let Some(wait) = wait else { return true };
        std::thread::sleep(wait.min(AT_MOST));
    }
}

fn carry(
    shape: &BlockShape,
    source: &dyn BlockSource,
    landing: &Landing,
    queue: &Outbound,
    (buffer, wait): (&mut [u8], &dyn Fn(u64) -> bool),
) -> Result<(), CopyError> {
    let mut arrival = landing.inbound().begin(shape.number, u64::from(shape.len))?;
    let mut failed = None;
    let read = source.read_block(shape, buffer, &mut |piece| {
        if !wait(piece.len() as u64) {
            failed = Some(CopyError::Interrupted);
            return Err(std::io::Error::other("interrupted"));
        }
        queue.handle_bytes(piece.len() as u64);
        arrival.write(&[std::io::IoSlice::new(piece)]).map_err(|error| {
            failed = Some(error.into());
            std::io::Error::other("writing failed")
        })
    });
    let failures: Vec<EntryFailure> = match (read, failed) {
        (_, Some(error)) => return Err(error),
        (Err(error), None) => return Err(CopyError::Local(error.to_string())),
        (Ok(failures), None) => failures,
    };
    // Before the block counts as received: zeros that stand for a file must not be recorded as that file.
    if !failures.is_empty() {
        failures.iter().for_each(|failure| arrival.handle_unread(shape.bytes_of(failure.entry)));
        queue.handle_failed(failures.iter().map(|failure| failure.entry));
        landing.fail(failures);
    }
    arrival.finish(None)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::{Rules, Selection};

    /// A walk of ten million files is not finished for a destination that takes nothing.
    #[test]
    fn the_first_error_ends_the_walk_and_is_the_one_that_is_told() {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for number in 0..10 {
            std::fs::write(from.path().join(number.to_string()), "content").unwrap();
        }
        let (rules, selection) = (Rules::default(), Selection::default());
        let sources = [from.path().to_owned()];
        let offer = Arc::new(Offer::open(&sources, &selection, rules.kept, rules.compare).unwrap());
        let base = settle(to.path(), false).unwrap();
        let asked = Asked { names: Vec::new(), patterns: Vec::new(), top: None };
        let landing = Landing::open(base, asked, [1; 16], &rules, &selection).unwrap();
        let queue =
            Arc::new(Outbound::placing(Placement::Accepted, tokio::sync::mpsc::unbounded_channel().0));
        landing.inbound().close();
        let copied = copy(&offer, &queue, &landing, None, 2, &AtomicBool::new(true));
        assert!(matches!(copied, Err(CopyError::Inbound(_))), "{copied:?}");
        assert!(offer.is_stopped());
    }
}
