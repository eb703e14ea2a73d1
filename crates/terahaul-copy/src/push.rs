//! From here to another host.

use std::convert::Infallible;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use terahaul_core::Entry;
use terahaul_net::client::{Concluded, Options, Progress, SendRequest, Sending};
use terahaul_net::server::Manifest;
use tokio::sync::mpsc;

use crate::alike;
use crate::copy_key::copy_key;
use crate::error::CopyError;
use crate::failures::Failure;
use crate::far::LastWord;
use crate::greeting::{Destination, Task};
use crate::job::Job;
use crate::near::FarSide;
use crate::notes::{Hearing, Note};
use crate::offer::{Offer, OfferManifest, is_only_file, names_of, step_back};
use crate::operand::Remote;
use crate::report::{Looks, Report};
use crate::ssh::Ssh;
use crate::summary::Copied;

/// Copies `sources` to `to`.
pub async fn push(
    ssh: &Ssh,
    sources: &[PathBuf],
    to: &Remote,
    job: &Job,
    looks: &Looks,
    report: &dyn Report,
) -> Result<Copied, CopyError> {
    let offer = Offer::open(sources, &job.selection, job.rules.kept, job.rules.compare)?;
    let alike = alike::key(job)?;
    let offer = Arc::new(offer.asking_first(alike));
    // The far side knows them from a list.
    let names = match job.selection.list {
        Some(_) => Vec::new(),
        None => names_of(sources.iter().map(|path| path.as_os_str().as_bytes())),
    };
    let destination = Destination {
        path: to.path.clone(),
        names,
        only_file: is_only_file(sources, &job.selection),
        rules: job.rules.clone(),
        selection: job.selection.clone(),
        top: offer.top().map(Into::into),
    };
    let there = [&ssh.place(&to.host)[..], b":", &to.path].concat();
    let key = copy_key(job, sources.iter().map(|path| path.as_os_str().as_bytes()), b"", &there);
    // The walk begins while ssh still connects, which everybody waits for.
    let walking = Arc::clone(&offer);
    let may_compare = job.options.delta && !job.rules.dry_run;
    let walk = std::thread::Builder::new().name("walk".into()).spawn(move || {
        step_back();
        match may_compare {
            true => walking.walk_and_hash_ahead(),
            false => walking.walk_ahead(),
        }
    });
    walk.map_err(CopyError::no_thread)?;
    let stopping = Stopping(&offer);
    let mut far = FarSide::open(ssh, &to.host, job, report, key, Task::Receive(destination), alike).await?;
    if far.ready().changes {
        offer.tell_changes();
    }
    let aside = far.take_aside();
    let asking = async { alike::ask(aside.await, &offer).await };
    let copied = far.guard(beside(asking, send(&far, &offer, job, looks, report))).await;
    drop(stopping);
    far.close(copied.is_ok()).await;
    copied
}

/// Does `other` for as long as `work` lasts.
pub(crate) async fn beside<T>(other: impl Future<Output = ()>, work: impl Future<Output = T>) -> T {
    let other = async {
        other.await;
        std::future::pending::<Infallible>().await
    };
    tokio::select! {
        biased;
        done = work => done,
        never = other => match never {},
    }
}

/// Nobody walks on for a copy that has ended, however it did.
struct Stopping<'a>(&'a Offer);

impl Drop for Stopping<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

async fn send(
    far: &FarSide,
    offer: &Arc<Offer>,
    job: &Job,
    looks: &Looks,
    report: &dyn Report,
) -> Result<Copied, CopyError> {
    let opened = far.connect(job, async |client, options| {
        let options = match job.rules.dry_run {
            true => Options { channels: Some(0), ..options },
            false => options,
        };
        let beginning = OfferManifest::beginning(Arc::clone(offer));
        let request = SendRequest { beginning, ..SendRequest::default() };
        Sending::open(client, request, options, offer.source()).await
    });
    let ((ready, _), way) = opened.await?;
    offer.handle_session();
    let manifest = OfferManifest::behind(Arc::clone(offer), ready.begun());
    let (told, mut notes) = mpsc::unbounded_channel();
    let (mut hearing, source) = (Hearing::new(job.rules.itemise), offer.source());
    ready.hear_notes(Box::new(move |bytes| {
        if let Some(note) = hearing.take(&bytes, source.entry_count()) {
            // Whoever listened has given up.
            let _ = told.send(note);
        }
    }));
    let sending = Arc::new(ready.start());
    report.started(way);
    let counting = Arc::new(AtomicBool::new(true));
    let (looked, still_counting) = (Arc::clone(&sending), Arc::clone(&counting));
    looks.set(Box::new(move || (looked.progress(), still_counting.load(Ordering::Relaxed))));
    let entry = |index| offer.source().entry(index);
    let tell = |note: Note| note.read(&entry, &mut |item| report.item(item));
    let work = walk_and_conclude(&sending, manifest, offer, &counting);
    tokio::pin!(work);
    let concluded = loop {
        tokio::select! {
            biased;
            Some(note) = notes.recv() => tell(note),
            concluded = &mut work => break concluded?,
        }
    };
    while let Ok(note) = notes.try_recv() {
        tell(note);
    }
    let last = LastWord::read(&concluded.word.said)?;
    let landed = last.landed;
    let unread: Vec<_> = concluded.failures.into_iter().map(|failure| named(failure, &entry)).collect();
    let failures = offer.skipped().and(unread.into()).and(last.failures());
    let Progress { sent, paths, way: transport, .. } = sending.progress();
    Ok(Copied { landed, moved: sent, failures, way, paths, transport: way.carries(transport) })
}

async fn walk_and_conclude(
    sending: &Arc<Sending>,
    mut manifest: OfferManifest,
    offer: &Offer,
    counting: &AtomicBool,
) -> Result<Concluded, CopyError> {
    while let Some(batch) = manifest.next().await.map_err(|error| CopyError::Local(error.message))? {
        sending.declare(batch).await?;
    }
    counting.store(false, Ordering::Relaxed);
    Ok(sending.conclude(Some(Note::from(offer.walked()).encode())).await?)
}

fn named(
    failure: terahaul_store::EntryFailure,
    entry: &dyn Fn(terahaul_core::EntryIndex) -> Option<Entry>,
) -> Failure {
    let path = entry(failure.entry).map(|entry| entry.path.as_bytes().to_vec());
    let message = match failure.cause {
        terahaul_core::FailureCause::Refused => failure.detail,
        cause if failure.detail.is_empty() => cause.describe().to_owned(),
        cause => format!("{} ({})", cause.describe(), failure.detail),
    };
    Failure {
        path: path.unwrap_or_else(|| failure.entry.to_string().into_bytes()),
        cause: failure.cause,
        message,
    }
}
