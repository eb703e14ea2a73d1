//! From another host to here.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use terahaul_core::TransferId;
use terahaul_net::client::{Progress, ReceiveWatch, Receiving};
use terahaul_tree::NamePattern;

use crate::alike;
use crate::copy_key::copy_key;
use crate::error::CopyError;
use crate::far::LastWord;
use crate::greeting::{Name, Sources, Task};
use crate::job::Job;
use crate::landing::{Asked, Closing, Landing};
use crate::naming::settle;
use crate::near::{FarSide, Way};
use crate::offer::names_asked;
use crate::operand::Host;
use crate::push::beside;
use crate::report::{Looks, Report};
use crate::ssh::Ssh;
use crate::summary::Copied;
use crate::top::Top;

/// Copies `paths` of `host` to `to`.
pub async fn pull(
    ssh: &Ssh,
    host: &Host,
    paths: &[Vec<u8>],
    to: &Path,
    job: &Job,
    looks: &Looks,
    report: &dyn Report,
) -> Result<Copied, CopyError> {
    // Taken for its content it would have --delete remove what lies beside the folder that scp and rsync make.
    if job.selection.list.is_none() && paths.iter().any(|path| path == b"~") {
        return Err(CopyError::Home("~".to_owned()));
    }
    let sources = Sources {
        paths: paths.iter().cloned().map(Name).collect(),
        selection: job.selection.clone(),
        kept: job.rules.kept,
        compare: job.rules.compare,
    };
    let from = ssh.place(host);
    let key = copy_key(job, paths.iter().map(Vec::as_slice), &from, to.as_os_str().as_bytes());
    let alike = alike::key(job)?;
    let mut far = FarSide::open(ssh, host, job, report, key, Task::Send(sources), alike).await?;
    let names = names_asked(&job.selection, paths.iter().map(Vec::as_slice));
    let is_only = paths.len() == 1 && job.selection.list.is_none();
    // The other host knows what its sources are, but not what was asked for: one file has a name, and what is kept of a folder itself
    // is of one whose content was.
    let base = settle(to, far.ready().only_file && is_only && !names.is_empty())?;
    let top = far.ready().top.clone().filter(|_| is_only && names.is_empty());
    // What a list names is never expanded.
    let expanded = names.iter().filter(|_| job.selection.list.is_none());
    let patterns = expanded.filter_map(|name| NamePattern::new(&name.0)).collect();
    let asked = Asked { names, patterns, top: top.map(Top::checked).transpose()? };
    let (rules, selection) = (job.rules.clone(), job.selection.clone());
    let opening = blocking(move || {
        let landing = Landing::open(base, asked, key, &rules, &selection)?;
        let has_some = landing.may_have_some();
        Ok((Arc::new(landing), has_some))
    });
    let (landing, has_some) = opening.await?;
    let closing = Closing(Arc::clone(&landing));
    let aside = far.take_aside();
    let answering = async {
        // Whoever asks a stream that is dropped hears that nobody answers.
        if let (Some(aside), Some(key)) = (aside.await, alike.filter(|_| has_some)) {
            alike::answer(aside, &landing, key).await;
        }
    };
    let receiving = beside(answering, receive(&far, &landing, key, job, looks, report));
    let received = telling(&landing, report, far.guard(receiving)).await;
    if let Some(name) = landing.named_link().filter(|_| job.selection.list.is_none()) {
        report.named_link(&name);
    }
    // From here on the far side is needed no more: should ssh end now, what is here gets its names all the same.
    let copied = match received {
        Ok(received) => finish(received, &landing, report).await,
        Err(error) => Err(error),
    };
    closing.close().await?;
    far.close(copied.is_ok()).await;
    copied
}

/// Everything is here.
struct Received {
    last: LastWord,
    way: Way,
    progress: Progress,
}

async fn receive(
    far: &FarSide,
    landing: &Arc<Landing>,
    key: [u8; 16],
    job: &Job,
    looks: &Looks,
    report: &dyn Report,
) -> Result<Received, CopyError> {
    let watch = ReceiveWatch::default();
    let looked = watch.clone();
    looks.set(Box::new(move || (looked.progress(), !looked.has_whole_manifest())));
    let opened =
        far.connect(job, async |client, options| Receiving::open(client, TransferId(key), options).await);
    let (receiving, way) = opened.await?;
    report.started(way);
    let word = receiving.receive_all(landing.clone(), watch.clone()).await?;
    Ok(Received { last: LastWord::read(&word.said)?, way, progress: watch.progress() })
}

async fn finish(
    Received { last, way, progress }: Received,
    landing: &Arc<Landing>,
    report: &dyn Report,
) -> Result<Copied, CopyError> {
    landing.handle_walked(last.walked());
    let finishing = Arc::clone(landing);
    let landed = blocking(move || finishing.finish()).await?;
    landing.tell_items(&mut |item| report.item(item));
    let failures = last.failures().and(landing.failures());
    let Progress { sent, paths, way: transport, .. } = progress;
    Ok(Copied { landed, moved: sent, failures, way, paths, transport: way.carries(transport) })
}

/// Tells what is changed for as long as `work` lasts, and the rest of it then, however it ended.
pub(crate) async fn telling<T>(landing: &Landing, report: &dyn Report, work: impl Future<Output = T>) -> T {
    /// Whoever watches does not notice it, and a script does not wait for it.
    const OFTEN: Duration = Duration::from_millis(250);
    let tell = || landing.tell_items(&mut |item| report.item(item));
    let telling = async {
        loop {
            tokio::time::sleep(OFTEN).await;
            tell();
        }
    };
    let done = beside(telling, work).await;
    tell();
    done
}

pub(crate) async fn blocking<T: Send + 'static>(
    act: impl FnOnce() -> Result<T, CopyError> + Send + 'static,
) -> Result<T, CopyError> {
    tokio::task::spawn_blocking(act).await?
}
