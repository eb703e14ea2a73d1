//! `terahaul receive`

mod destination;
mod dry_run;
mod prove;

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use terahaul_core::Hash;
use terahaul_net::client::{Client, Offer, Progress, ReceiveWatch, Received, Receiving};
use terahaul_store::SinkError;
use terahaul_tree::{Filter, OpenError, Overwrite, PublishError, Published, TreeSink};

use crate::api::Api;
use crate::blocking::blocking;
use crate::cli::ReceiveArgs;
use crate::commands::receipts;
use crate::commands::watch::{Waited, interrupted, pace, paths_of, watch};
use crate::exit::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::output::{Event, Output, PathText, counted, printable_path};
use crate::settings::{Environment, Target};
use destination::{COLLISION, Folder, came_in_the_way, kept_for_the_same, naming_what_is_left};

pub async fn run(args: ReceiveArgs, output: &Output, interrupt: &Interrupt) -> Result<Exit, Failure> {
    let began = Instant::now();
    let filter = Filter::new(&args.filter.include, &args.filter.exclude).map_err(Failure::usage)?;
    let local = args.engine.local()?;
    let target = interrupt.guard(Target::settle(&args.link, None, &Environment::read())).await?;
    let api = Api::new(&target.depot)?;
    let overwrite = if args.overwrite { Overwrite::Replace } else { Overwrite::Refuse };
    if args.dry_run {
        let place = (args.dir.as_path(), overwrite);
        return interrupt.guard(dry_run::run(&api, target.transfer, place, &filter, output)).await;
    }
    // In a folder that is made for what is received it can be kept when that is there.
    let absolute = |path: &Path| std::path::absolute(path).ok();
    let has_folder =
        |path: &&Path| args.dir.exists() || absolute(receipts::folder_of(path)) != absolute(&args.dir);
    receipts::check_place(args.receipt.as_deref().filter(has_folder))?;
    let client = Client::new(target.depot.endpoint, target.depot.credential)?.leaving_from(local);
    let options = args.engine.options();
    // Before anything is written: a wrong link must not leave a folder behind.
    let opening = async { Receiving::open(client, target.transfer, options).await.map_err(Failure::from) };
    let naming_what_is_left = |failure| naming_what_is_left(failure, &args.dir, target.transfer);
    let receiving = interrupt.guard(opening).await.map_err(naming_what_is_left)?;
    let opening = open_folder(&args.dir, receiving.offer(), filter, overwrite, output);
    let folder = interrupt.guard(opening).await?;
    let resumed = folder.is_resumed();
    let (transfer, name) = (target.transfer.to_string(), receiving.offer().name.as_str());
    output.emit(&Event::Start { command: "receive", transfer, name, resumed });
    let looks = ReceiveWatch::default();
    let received = transfer_into(&folder, receiving, &looks, output, interrupt).await;
    let received = match received {
        // What is in the way may be found behind much that has arrived, and so may that there is no room for the rest.
        Err(failure)
            if (failure.code == COLLISION || failure.exit == Exit::NoSpace)
                && !resumed
                && folder.is_empty() =>
        {
            blocking(move || folder.discard()).await?;
            return Err(failure);
        }
        Err(failure) if failure.code == COLLISION => return Err(kept_for_the_same(failure)),
        other => other.map_err(naming_what_is_left)?,
    };
    if let Some(receipt) = &args.receipt {
        refuse_name_of_entry(&folder, &args.dir, receipt)?;
    }
    let proven = interrupt.guard(prove::check(&api, &folder, &received)).await?;
    let skipped = prove::check_skipped(&api, &folder, &received, &args.dir, output);
    let skipped = interrupt.guard(skipped).await?;
    let publisher = Arc::clone(&folder);
    let published = blocking(move || {
        // A channel may still be writing what nobody wants any more.
        publisher.close();
        publisher.sink.publish(overwrite)
    })
    .await?
    .map_err(|error| publish_failure(&error, output))?;
    let kept = match &args.receipt {
        Some(path) => interrupt.guard(receipts::keep(&api, target.transfer, path, &|| ())).await,
        None => Ok(()),
    };
    let failed = folder.name_failures(output);
    let dressed = folder.dressed();
    let sums = Sums {
        published: Published { folders: published.folders.saturating_sub(dressed), ..published },
        already_there: skipped + dressed,
        failed,
        compared: proven,
        progress: looks.progress(),
    };
    report(&received, &sums, &args.dir, output);
    output.closing(|| pace(sums.progress.sent, began.elapsed()));
    kept?;
    Ok(if failed == 0 { Exit::Ok } else { Exit::Partial })
}

async fn open_folder(
    dir: &Path,
    &Offer { transfer, entries, .. }: &Offer,
    filter: Filter,
    overwrite: Overwrite,
    output: &Output,
) -> Result<Arc<Folder>, Failure> {
    let (dir, output) = (dir.to_owned(), output.clone());
    blocking(move || {
        // A transfer's identifier is random, so it alone says whose blocks these are.
        let bound_to = Hash(*blake3::hash(&transfer.0).as_bytes());
        let staged = TreeSink::open(&dir, transfer, bound_to).map_err(|error| open_failure(&error))?;
        Folder::new(dir, staged, entries, filter, overwrite, output)
            .map(Arc::new)
            .map_err(|error| Failure::new(Exit::Unexpected, terahaul_store::said_of_no_thread(&error)))
    })
    .await?
}

/// A receipt that is kept in the folder that is received into must not replace what was received.
fn refuse_name_of_entry(folder: &Folder, dir: &Path, receipt: &Path) -> Result<(), Failure> {
    let is_entry = || {
        let (dir, above) = (dir.canonicalize().ok()?, receipts::folder_of(receipt).canonicalize().ok()?);
        let below = above.strip_prefix(dir).ok()?;
        folder.sink.entry_at(below.join(receipt.file_name()?).as_os_str().as_bytes())
    };
    match is_entry() {
        Some(_) => Err(Failure::usage(format!(
            "{} is the name of something in the transfer: run it again with another --receipt, which goes on from what has arrived",
            printable_path(receipt)
        ))),
        None => Ok(()),
    }
}

async fn transfer_into(
    folder: &Arc<Folder>,
    receiving: Receiving,
    looks: &ReceiveWatch,
    output: &Output,
    interrupt: &Interrupt,
) -> Result<Received, Failure> {
    let destination: Arc<dyn terahaul_net::client::Destination> = folder.clone();
    let work = async { receiving.receive(destination, looks.clone()).await.map_err(Failure::from) };
    match watch(output, interrupt, || Some((looks.progress(), false)), work).await {
        Waited::Ended(Ok(received)) => Ok(received),
        Waited::Ended(Err(failure)) => {
            let closing = Arc::clone(folder);
            blocking(move || closing.close()).await?;
            Err(failure)
        }
        Waited::Interrupted => {
            let closing = Arc::clone(folder);
            blocking(move || closing.close()).await?;
            Err(interrupted(&looks.progress()))
        }
    }
}

fn open_failure(error: &OpenError) -> Failure {
    let exit = match error {
        OpenError::Unwritable { source, .. } => Exit::of_place(source),
        _ => Exit::Unexpected,
    };
    Failure::new(exit, error.to_string())
}

fn publish_failure(error: &PublishError, output: &Output) -> Failure {
    match error {
        PublishError::Collisions(collisions) => came_in_the_way(collisions, output),
        PublishError::Sink(SinkError::Full(_)) => Failure::new(Exit::NoSpace, error.to_string()),
        PublishError::Sink(SinkError::Denied(_) | SinkError::DeniedAt { .. }) => Failure::usage(error),
        _ => Failure::new(Exit::Unexpected, error.to_string()),
    }
}

/// What a run comes to.
struct Sums {
    published: Published,
    /// Entries that were there already.
    already_there: u64,
    failed: u64,
    compared: u64,
    progress: Progress,
}

fn report(received: &Received, sums: &Sums, dir: &Path, output: &Output) {
    let statement = &received.statement;
    let Published { files, folders, links, .. } = sums.published;
    let there = match sums.already_there {
        0 => String::new(),
        count => format!("; {count} more {} there already", if count == 1 { "was" } else { "were" }),
    };
    let verified = match files + folders + links + sums.already_there {
        0 if statement.entries > 0 => "; nothing that was signed is among it, so nothing is verified",
        _ => ", verified against the depot's signature",
    };
    let text = format!(
        "received {}, {} and {} into {}{verified}{there}",
        counted(files, "file", "files"),
        counted(folders, "folder", "folders"),
        counted(links, "link", "links"),
        printable_path(dir),
    );
    let mut result = serde_json::json!({
        "transfer": statement.transfer,
        "name": statement.name,
        "files": files,
        "folders": folders,
        "links": links,
        "already_there": sums.already_there,
        "failed": sums.failed,
        "moved_bytes": sums.progress.sent,
        "transport": sums.progress.way.by.as_str(),
        "transport_why": sums.progress.way.why,
        "paths": paths_of(&sums.progress.paths),
        "files_compared": sums.compared,
        "root": statement.root,
        "public_key": statement.public_key,
    });
    PathText::from(dir.as_os_str().as_bytes()).put("dir", &mut result);
    output.emit(&Event::Done { command: "receive", result, text });
}
