//! `terahaul send`

mod ahead;
mod awaited;
mod dry_run;
mod feed;
mod left;
mod mounted;
mod prove;
mod replaced;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use terahaul_core::{ByteCount, Entry, EntryIndex, EntryKind, Mtime, TransferId};
use terahaul_net::LocalAddresses;
use terahaul_net::client::{Client, Options, SendRequest, Sending, Sent};
use terahaul_store::EntryFailure;
use terahaul_tree::{Filter, RootError, Roots, TreeSource};
use tokio::sync::oneshot;

use crate::api::{Api, Transfer};
use crate::blocking::{Beside, blocking};
use crate::cli::{FilterArgs, SendArgs};
use crate::commands::depot;
use crate::commands::named_link;
use crate::commands::receipts;
use crate::commands::watch::{Waited, interrupted, pace, paths_of, watch};
use crate::exit::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::output::{Event, Output, PathText, counted, date_of, printable};
use crate::settings::{DepotSettings, NO_DEPOT, resume_key};
use ahead::Ahead;
use feed::{Fed, Feed, Started};
use replaced::replaced;

/// Longest name that a depot takes.
const LONGEST_NAME: usize = 200;
/// In seconds.
const DAY: i64 = 86_400;

pub async fn run(args: SendArgs, output: &Output, interrupt: &Interrupt) -> Result<Exit, Failure> {
    let began = Instant::now();
    let filter = Filter::new(&args.filter.include, &args.filter.exclude).map_err(Failure::usage)?;
    let local = args.engine.local()?;
    let roots = Roots::open_some(&args.paths, &filter);
    let roots = roots.and_then(|roots| roots.check_contents().map(|()| roots));
    let roots = Arc::new(roots.map_err(|error| root_failure(&error))?);
    named_link::say(&args.paths, output);
    let key = resume_key(&args.paths, &args.filter).map_err(|(path, error)| unfollowed(path, &error))?;
    let name = match &args.name {
        Some(name) => checked_name(name)?,
        None => fitting_name(&roots.suggested_name()),
    };
    let depot = depot(args.to.as_deref());
    interrupt.guard(check_begun(&roots, depot.as_ref().ok(), &key)).await?;
    if args.dry_run {
        let depot = match depot {
            Err(failure) if failure.code == NO_DEPOT => None,
            other => Some(other?),
        };
        return interrupt.guard(dry_run::run(roots, (filter, args.filter), depot, &key, output)).await;
    }
    let depot = depot?;
    receipts::check_place(args.receipt.as_deref())?;
    refuse_place_of_what_is_sent(&roots, &filter, args.receipt.as_deref())?;
    let request = SendRequest {
        name,
        resume_key: Some(key),
        expires_in_days: args.expire_days,
        ..SendRequest::default()
    };
    let engine = (args.engine.options(), local);
    let (job, walk) =
        Job::open(depot, request, engine, (roots, filter, &args.filter), output, interrupt).await?;
    let (fed, sent) = job.transfer(walk, output, interrupt).await?;
    let said = Cell::new(false);
    let say_link = || {
        if !said.replace(true) {
            job.say_link(output);
        }
    };
    let proven = interrupt.guard(job.prove(&sent, &fed, &say_link)).await;
    let kept = match (&proven, &args.receipt) {
        (Ok(_), Some(path)) => {
            interrupt.guard(receipts::keep(&job.api, job.sending.transfer(), path, &say_link)).await
        }
        _ => Ok(()),
    };
    let receipt = proven.clone().and(kept);
    if let Err(failure) = &receipt
        && failure.exit == Exit::VerifyFailed
    {
        // Nobody is to rely on what the link leads to; it may have been said while the receipt was waited for.
        let warning = if said.get() { "; do not use the link" } else { "" };
        return Err(Failure { message: format!("{}{warning}", failure.message), ..failure.clone() });
    }
    let failed = job.name_failures(&sent, &fed, output);
    // Running the command again would send everything anew: whatever else becomes of the receipt, the link is said.
    output.closing(|| pace(job.sending.progress().sent, began.elapsed()));
    job.report(&sent, failed, fed.kept, proven.ok(), output);
    receipt.map_err(without_receipt)?;
    Ok(if failed == 0 && sent.statement.failed == 0 { Exit::Ok } else { Exit::Partial })
}

/// A receipt must not replace what is sent, of which this may be the only copy.
fn refuse_place_of_what_is_sent(
    roots: &Roots,
    filter: &Filter,
    receipt: Option<&Path>,
) -> Result<(), Failure> {
    let is_sent = |receipt: &Path| {
        let size = ByteCount(receipt.symlink_metadata().ok()?.len());
        let file = receipts::folder_of(receipt).canonicalize().ok()?.join(receipt.file_name()?);
        let (path, kind) = (roots.path_of(&file)?, EntryKind::File { size });
        Some(filter.selects(&Entry { path, kind, mtime: Mtime::default(), mode: 0, extra: None }))
    };
    match receipt.filter(|receipt| is_sent(receipt) == Some(true)) {
        Some(receipt) => Err(Failure::usage(format!(
            "{} is to be sent, and the receipt would take its place: give another --receipt",
            receipt.display()
        ))),
        None => Ok(()),
    }
}

/// What is gone may have been removed because an earlier run has sent it; where there was none, a path is mistyped, and the depot is to
/// hear nothing of it.
async fn check_begun(roots: &Roots, depot: Option<&DepotSettings>, key: &str) -> Result<(), Failure> {
    let Some((gone, _)) = roots.gone().next() else { return Ok(()) };
    let begun = match depot {
        Some(depot) => Api::new(depot)?.unfinished(key).await?,
        None => None,
    };
    begun.map(drop).ok_or_else(|| root_failure(&RootError::Missing(gone.into())))
}

fn checked_name(name: &str) -> Result<String, Failure> {
    let name = name.trim();
    if fitting_name(name) != name {
        return Err(Failure::usage(format!(
            "a transfer's name has 1 to {LONGEST_NAME} characters, none of them a control character: give another --name"
        )));
    }
    Ok(name.to_owned())
}

/// A folder may have a name that a transfer cannot have.
fn fitting_name(name: &str) -> String {
    let fitting: String =
        name.chars().take(LONGEST_NAME).map(|c| if c.is_control() { '_' } else { c }).collect();
    let trimmed = fitting.trim();
    if trimmed.is_empty() { "files".to_owned() } else { trimmed.to_owned() }
}

/// The depot has all there is to have, and this end not what proves it.
fn without_receipt(failure: Failure) -> Failure {
    let message = format!(
        "what was sent is durable at the depot; its receipt could not be fetched or kept: {failure}; 'terahaul info' with the link and --receipt does that later, and 'terahaul verify' compares the files with it"
    );
    Failure { message, ..failure }
}

/// The depot was asked to finish, which it does without this end: where it has, the same command would send all of it anew.
fn perhaps_finished(failure: Failure, transfer: TransferId) -> Failure {
    let why = match failure.exit {
        Exit::Interrupted => "interrupted",
        Exit::Unreachable => "the depot cannot be reached any more",
        _ => return failure,
    };
    let message = format!(
        "{why}; all was sent, and the depot may finish the transfer by itself: 'terahaul info {transfer}' says whether it has, and the link; run the same command again only if it is still open"
    );
    Failure { message, ..failure }
}

fn root_failure(error: &RootError) -> Failure {
    let exit = match error {
        RootError::Missing(_) => Exit::NotFound,
        _ => Exit::Usage,
    };
    Failure::new(exit, error.to_string())
}

/// From the root on it has no path: the folder that it is in was removed under the one who sends, or cannot be looked at.
fn unfollowed(path: PathBuf, error: &io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::NotFound => root_failure(&RootError::Missing(path)),
        _ => Failure::new(
            Exit::Unexpected,
            format!(
                "where {} lies cannot be found ({error}): check the permissions of the folders above it",
                path.display()
            ),
        ),
    }
}

struct Job {
    api: Api,
    link: Option<String>,
    source: Arc<TreeSource>,
    sending: Arc<Sending>,
}

/// Says what of this command does not count, because the run that has begun the transfer decided it.
fn say_what_is_kept(begun: &Transfer, asked: &SendRequest, output: &Output) {
    if begun.name != asked.name {
        output.notice(format!("the transfer keeps the name of its first run, '{}'", begun.name));
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64);
    let day = |days: u32| (now + i64::from(days) * DAY) / DAY;
    if let (Some(days), Some(expires)) = (asked.expires_in_days, begun.expires)
        && expires / DAY > day(days)
    {
        output.notice(format!("the transfer is kept until {}, as an earlier run asked", date_of(expires)));
    }
}

/// The walk, and whether it has come to its end.
struct Walk {
    fed: Beside<Result<Fed, Failure>>,
    counting: Arc<AtomicBool>,
}

impl Walk {
    /// The second is told when something is found.
    fn begin(feed: Feed) -> Result<(Self, oneshot::Receiver<()>), Failure> {
        let (found, is_found) = oneshot::channel();
        let counting = Arc::new(AtomicBool::new(true));
        let walking = Arc::clone(&counting);
        let fed = Beside::begin("walk", move || {
            let fed = feed.run(found);
            walking.store(false, Ordering::Relaxed);
            fed
        });
        Ok((Self { fed: fed?, counting }, is_found))
    }
}

impl Job {
    /// Connects, while the walk begins.
    async fn open(
        depot: DepotSettings,
        request: SendRequest,
        (options, local): (Options, LocalAddresses),
        (roots, filter, globs): (Arc<Roots>, Filter, &FilterArgs),
        output: &Output,
        interrupt: &Interrupt,
    ) -> Result<(Self, Walk), Failure> {
        let api = Api::new(&depot)?;
        let client = Client::new(depot.endpoint, depot.credential)?.leaving_from(local);
        let source = Arc::new(TreeSource::new(Arc::clone(&roots)));
        let ahead = Ahead::default();
        let (start, started) = mpsc::channel();
        let feed = Feed {
            source: Arc::clone(&source),
            roots: Arc::clone(&roots),
            filter,
            interrupt: interrupt.clone(),
            output: output.clone(),
            ahead: ahead.clone(),
            started,
        };
        let (walk, found) = Walk::begin(feed)?;
        let key = request.resume_key.as_deref().unwrap_or_default();
        interrupt.guard(left::check(found, globs, &roots, (&api, key))).await?;
        let asked = request.clone();
        let request = SendRequest { beginning: ahead.beginning(), ..request };
        let open = Sending::open(client, request, options, source.clone());
        let (ready, stored) = interrupt.guard(async { Ok(open.await?) }).await?;
        let begun = ready.begun();
        let taken_up = source.clone();
        let (known, transfer) = (ready.known(), ready.transfer());
        let durable = Arc::clone(&known);
        let taking_up = blocking(move || {
            mounted::check(&roots, &stored, |entry| durable.has_durable(entry), transfer)?;
            taken_up.append(&stored.entries).map_err(Failure::usage)?;
            taken_up.append(&ahead.declared(begun)).map_err(Failure::usage)?;
            let parts = durable.partly_durable();
            // They may not be of the files that are there now.
            durable.withhold(parts.iter().map(|(entry, _)| *entry));
            Ok::<_, Failure>((stored, parts))
        });
        let (stored, parts) = taking_up.await??;
        let sending = Arc::new(ready.start());
        let resumed = !stored.entries.is_empty();
        let begun_before = match resumed {
            // Should the depot be out of reach again, the session says so, and waits.
            true => interrupt.guard(async { Ok(api.transfer(transfer).await.ok()) }).await?,
            false => None,
        };
        if let Some(before) = &begun_before {
            say_what_is_kept(before, &asked, output);
        }
        let name = begun_before.map_or(asked.name, |before| before.name);
        output.emit(&Event::Start { command: "send", transfer: transfer.to_string(), name: &name, resumed });
        let replaced = replaced((&api, &sending), (&source, &known), parts, output);
        let replaced = interrupt.guard(replaced).await?;
        // A walk that was interrupted does not listen any more.
        let _ = start.send(Started { sending: Arc::clone(&sending), stored, replaced, begun });
        let link = sending.link().map(str::to_owned);
        Ok((Self { api, link, source, sending }, walk))
    }

    /// Walks and sends, until all is durable and published.
    async fn transfer(
        &self,
        walk: Walk,
        output: &Output,
        interrupt: &Interrupt,
    ) -> Result<(Fed, Sent), Failure> {
        let Walk { fed, counting } = walk;
        let work = async {
            let fed = fed.ended().await??;
            Ok((fed, self.sending.finish().await?))
        };
        let progress = || Some((self.sending.progress(), counting.load(Ordering::Relaxed)));
        let failure = match watch(output, interrupt, progress, work).await {
            Waited::Ended(Ok(ended)) => return Ok(ended),
            Waited::Ended(Err(failure)) => failure,
            Waited::Interrupted => {
                let progress = self.sending.progress();
                self.sending.interrupt();
                interrupted(&progress)
            }
        };
        Err(match self.sending.is_asked_to_finish() {
            true => perhaps_finished(failure, self.sending.transfer()),
            false => failure,
        })
    }

    /// Checks what the depot signed against what this run has read. Returns how many files' hashes were compared.
    async fn prove(&self, sent: &Sent, fed: &Fed, on_wait: &dyn Fn()) -> Result<prove::Proven, Failure> {
        sent.statement
            .verify(&sent.signature)
            .map_err(|error| Failure::new(Exit::VerifyFailed, error.to_string()))?;
        prove::check(&self.api, &self.source, sent, fed, on_wait).await
    }

    /// Waiting for a receipt may take minutes, in which the link could be used already. JSON lines have it in `done` alone, and their
    /// `start` says which transfer it is.
    fn say_link(&self, output: &Output) {
        match self.link.as_deref().filter(|_| !output.is_json()) {
            Some(link) => {
                output.notice(format!("the link is {link}, and its receipt is still being fetched"))
            }
            None => output.notice("the transfer is at its end, and its receipt is still being fetched"),
        }
    }

    /// Names every entry that did not arrive; returns how many.
    fn name_failures(&self, sent: &Sent, fed: &Fed, output: &Output) -> usize {
        let failures: BTreeMap<EntryIndex, &EntryFailure> = sent
            .failures
            .iter()
            .filter(|failure| !fed.renewed.contains(&failure.entry) && !fed.unread.contains(&failure.entry))
            .map(|failure| (failure.entry, failure))
            .collect();
        for failure in failures.values() {
            let path = match self.source.path(failure.entry) {
                Some(path) => PathText::from(&path),
                None => PathText::from(failure.entry.to_string().as_bytes()),
            };
            let detail =
                if failure.detail.is_empty() { String::new() } else { format!(" ({})", failure.detail) };
            let message = format!("{}{detail}", failure.cause.describe());
            output.emit(&Event::Failure { path, cause: failure.cause.name(), message: &message });
        }
        failures.len() + fed.skipped
    }

    fn report(
        &self,
        sent: &Sent,
        failed: usize,
        kept: usize,
        proven: Option<prove::Proven>,
        output: &Output,
    ) {
        let statement = &sent.statement;
        let link = self.link.as_deref().unwrap_or_default();
        let compared = proven.map_or(String::new(), prove::Proven::describe);
        output.notice(format!(
            "{}, {}: durable at the depot; its signature is right{compared}",
            counted(statement.entries, "entry", "entries"),
            statement.bytes
        ));
        let progress = self.sending.progress();
        output.set_remedy(format!("'terahaul info {}' says the link", statement.transfer));
        let result = serde_json::json!({
            "transfer": statement.transfer,
            "link": self.link,
            "entries": statement.entries,
            "bytes": statement.bytes,
            "failed": failed,
            "kept": kept,
            "moved_bytes": progress.sent,
            "transport": progress.way.by.as_str(),
            "transport_why": progress.way.why,
            "paths": paths_of(&progress.paths),
            "root": statement.root,
            "public_key": statement.public_key,
            "files_compared": proven.map(|proven| proven.files),
        });
        output.emit(&Event::Done { command: "send", result, text: printable(link.as_bytes()) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_depot_that_is_lost_while_it_finishes_may_have_finished() {
        let said =
            |exit| perhaps_finished(Failure::new(exit, "the same command resumes"), TransferId([7; 16]));
        for exit in [Exit::Interrupted, Exit::Unreachable] {
            let Failure { code, message, .. } = said(exit);
            let id = TransferId([7; 16]).to_string();
            assert!(
                message.contains(&id) && !message.contains("resumes") && code == exit.name(),
                "{message}"
            );
        }
        assert!(said(Exit::NoSpace).message.contains("resumes"), "the depot says itself what is the matter");
    }
}
