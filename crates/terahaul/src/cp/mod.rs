//! `terahaul cp`, and the far side that it starts.

mod asked;
mod depot;
mod failure;
mod itemised;
mod near_side;
mod plan;
mod report;
mod ssh_flags;

use terahaul_copy::{Copied, CopyError, Job, Landed, Looks, Way, copy_local, pull, push};

use crate::blocking::blocking;
use crate::cli::CopyArgs;
use crate::commands::watch::{Waited, interrupted, paths_of, watch};
use crate::commands::{receive, send};
use crate::exit::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::output::{Event, Output, PathText};
use plan::{Direction, Plan};
use report::{Lines, Listed, ToOutput};
use ssh_flags::ssh;
use terahaul_core::{ByteCount, FailureCause};
use terahaul_net::client::Options;

/// `terahaul cp`
pub async fn run(args: CopyArgs, output: &Output, interrupt: &Interrupt) -> Result<Exit, Failure> {
    // Before the operands: a flag may have taken one of them.
    ssh_flags::check(&args.ssh, plan::reached(&args.paths))?;
    let direction = match Plan::of(&args.paths)? {
        Plan::Copy(direction) => direction,
        Plan::Send { sources, to } => {
            return send::run(depot::send_args(args, sources, to)?, output, interrupt).await;
        }
        Plan::Receive { link, to } => {
            return receive::run(depot::receive_args(args, link, to)?, output, interrupt).await;
        }
    };
    if let Direction::Push { sources, .. } = &direction
        && let ([first, _, ..], true) = (sources.as_slice(), args.itemize_changes)
    {
        ssh_flags::check_first(first)?;
    }
    if args.files_from.is_some() && args.paths.len() != 2 {
        return Err(Failure::usage(
            "--files-from lists files of one source: give one source and the destination",
        ));
    }
    let deletes = &args.delete;
    if deletes.max_delete.is_some() && deletes.force && !deletes.delete {
        return Err(Failure::usage(
            "--max-delete bounds what --delete removes: with --force, give --delete too",
        ));
    }
    let selecting = blocking(move || {
        let selection = asked::selection(&args)?;
        Ok::<_, Failure>((args, selection))
    });
    let (args, selection) = interrupt.guard(async { selecting.await? }).await?;
    let job = Job {
        selection,
        rules: asked::rules(&args),
        options: Options { delta: !args.whole_file, ..args.engine.options() },
        ports: args.ssh.ports,
        through_ssh: args.ssh.through_ssh,
        install: args.ssh.install,
        local: args.engine.local()?,
    };
    let looks = Looks::default();
    let lines = match args.verbose {
        _ if args.itemize_changes => Lines::Flags,
        0 if args.dry_run => Lines::Sizes,
        0 => Lines::None,
        _ => Lines::Paths,
    };
    let report = ToOutput::new(output, args.verbose > 0, lines, matches!(direction, Direction::Push { .. }));
    let work = async {
        let copied: Result<Copied, CopyError> = match direction {
            Direction::Local { sources, to } => copy_local(&sources, &to, &job, &looks, &report).await,
            Direction::Push { sources, to } => {
                push(&ssh(&args.ssh), &sources, &to, &job, &looks, &report).await
            }
            Direction::Pull { host, paths, to } => {
                pull(&ssh(&args.ssh), &host, &paths, &to, &job, &looks, &report).await
            }
        };
        Ok::<_, Failure>(copied?)
    };
    let copied = match watch(output, interrupt, || looks.progress(), work).await {
        Waited::Ended(copied) => copied?,
        Waited::Interrupted => return Err(interrupted(&looks.progress().0)),
    };
    conclude(&copied, args.dry_run, args.stats, &report, output)
}

/// The far side, over ssh's stdin and stdout.
pub async fn run_far(interrupt: &Interrupt) -> Result<Exit, Failure> {
    // Whoever talks to it knows how it ended.
    let _ = terahaul_copy::far::run(near_side::stdin(interrupt), tokio::io::stdout()).await;
    Ok(if interrupt.is_set() { Exit::Interrupted } else { Exit::Ok })
}

fn conclude(
    copied: &Copied,
    dry_run: bool,
    stats: bool,
    report: &ToOutput<'_>,
    output: &Output,
) -> Result<Exit, Failure> {
    for failure in &copied.failures {
        output.emit(&Event::Failure {
            path: PathText::from(failure.path.as_slice()),
            cause: failure.cause.name(),
            message: &failure.message,
        });
    }
    let failed = copied.failures.len();
    let landed = copied.landed;
    if dry_run {
        let Listed { written, bytes, touched, removed } = report.listed();
        let result = serde_json::json!({
            "dry_run": true,
            "entries": written,
            "bytes": bytes,
            "touched": touched,
            "removed": landed.removed,
            "failed": failed,
        });
        let removal = if removed > 0 { format!(", and remove {}", landed.removed) } else { String::new() };
        let text = format!("would copy {written} entries, {bytes}{removal}");
        output.emit(&Event::Done { command: "cp", result, text });
    } else {
        let Landed { files, folders, links, bytes, unchanged, touched, removed, limited, .. } = landed;
        let result = serde_json::json!({
            "files": files,
            "folders": folders,
            "links": links,
            "bytes": bytes,
            "unchanged": unchanged,
            "touched": touched,
            "removed": removed,
            "limited": limited,
            "failed": failed,
            "moved_bytes": copied.moved,
            "literal_bytes": landed.literal,
            "matched_bytes": landed.matched,
            "resumed": landed.resumed,
            "way": way_name(copied.way),
            "transport": copied.transport.by.as_str(),
            "transport_why": copied.transport.why,
            "paths": paths_of(&copied.paths),
        });
        let text = if stats { figures(copied) } else { String::new() };
        output.emit(&Event::Done { command: "cp", result, text });
    }
    let vanished = |failure: &terahaul_copy::Failure| failure.cause == FailureCause::Vanished;
    if landed.limited {
        return Err(Failure::new(
            Exit::Partial,
            "more was to be removed than --max-delete allows: look what it is with -n, and allow more if that is right",
        ));
    }
    Ok(match failed {
        0 => Exit::Ok,
        _ if copied.failures.iter().all(vanished) => Exit::Vanished,
        _ => Exit::Partial,
    })
}

/// What `--stats` says.
fn figures(copied: &Copied) -> String {
    let Landed { files, folders, links, bytes, unchanged, touched, removed, literal, matched, .. } =
        copied.landed;
    let lines = [
        ("files written", files.to_string()),
        ("folders made", folders.to_string()),
        ("links written", links.to_string()),
        ("files and links as they were", unchanged.to_string()),
        ("only metadata changed", touched.to_string()),
        ("removed", removed.to_string()),
        ("not copied", copied.failures.len().to_string()),
        ("bytes of the files written", ByteCount(bytes).to_string()),
        ("of them sent", ByteCount(literal).to_string()),
        ("of them in the files replaced", ByteCount(matched).to_string()),
        ("bytes moved for it", copied.moved.to_string()),
    ];
    lines.map(|(what, figure)| format!("{what:>30}  {figure}")).join("\n")
}

fn way_name(way: Way) -> &'static str {
    match way {
        Way::Local => "local",
        Way::Direct => "direct",
        Way::ThroughSsh | Way::Blocked(_) | Way::NoPort => "ssh",
    }
}
