//! `terahaul cp`, and the far side that it starts.

mod asked;
mod depot;
mod failure;
mod itemised;
mod near_side;
mod plan;
mod report;
mod ssh_flags;

use std::time::{Duration, Instant};

use terahaul_copy::rules::Compare;
use terahaul_copy::{Copied, CopyError, Job, Landed, Looks, Way, copy_local, pull, push};

use crate::blocking::blocking;
use crate::cli::CopyArgs;
use crate::commands::watch::{Waited, interrupted, pace, paths_of, watch};
use crate::commands::{named_link, receive, send};
use crate::exit::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::output::{Event, Output, PathText, counted};
use itemised::Copying;
use plan::{Direction, Plan};
use report::{Lines, Listed, ToOutput};
use ssh_flags::ssh;
use terahaul_core::FailureCause;
use terahaul_net::client::Options;

/// `terahaul cp`
pub async fn run(args: CopyArgs, output: &Output, interrupt: &Interrupt) -> Result<Exit, Failure> {
    let began = Instant::now();
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
    asked::check_partial_dir(&args, direction.folders())?;
    if let (Direction::Local { sources, .. } | Direction::Push { sources, .. }, None) =
        (&direction, &args.files_from)
    {
        named_link::say(sources, output);
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
    let ssh = ssh(&args.ssh)?;
    let looks = Looks::default();
    let lines = match args.verbose {
        _ if args.itemize_changes => Lines::Flags,
        0 if args.dry_run => Lines::Sizes,
        0 => Lines::None,
        _ => Lines::Paths,
    };
    let copying = Copying {
        sent: matches!(direction, Direction::Push { .. }),
        compares: job.rules.compare == Compare::Content,
    };
    let report = ToOutput::new(output, args.verbose > 0, lines, copying);
    let work = async {
        let copied: Result<Copied, CopyError> = match direction {
            Direction::Local { sources, to } => copy_local(&sources, &to, &job, &looks, &report).await,
            Direction::Push { sources, to } => push(&ssh, &sources, &to, &job, &looks, &report).await,
            Direction::Pull { host, paths, to } => {
                pull(&ssh, &host, &paths, &to, &job, &looks, &report).await
            }
        };
        Ok::<_, Failure>(copied?)
    };
    let copied = match watch(output, interrupt, || looks.progress(), work).await {
        Waited::Ended(Ok(copied)) => copied,
        Waited::Ended(Err(failure)) if failure.exit != Exit::Unreachable || !interrupt.is_why().await => {
            return Err(failure);
        }
        // Or ssh was, which hears the same Ctrl-C.
        Waited::Ended(Err(_)) | Waited::Interrupted => {
            return Err(match looks.progress() {
                _ if args.dry_run => Failure::new(Exit::Interrupted, "interrupted"),
                Some((progress, _)) => interrupted(&progress),
                None => Failure::new(Exit::Interrupted, "interrupted before anything was copied"),
            });
        }
    };
    let concluded = conclude(&copied, args.dry_run, args.stats, &report, output)?;
    if !args.dry_run {
        output.closing(|| closing(&copied, began.elapsed()));
    }
    Ok(concluded)
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
    for failure in &copied.failures.listed {
        output.emit(&Event::Failure {
            path: PathText::from(failure.path.as_slice()),
            cause: failure.cause.name(),
            message: &failure.message,
        });
    }
    for (cause, count) in &copied.failures.unlisted {
        output.emit(&Event::Failure {
            path: PathText::from(format!("{count} more").as_bytes()),
            cause: cause.name(),
            message: cause.describe(),
        });
    }
    let failed = copied.failures.count();
    let landed = copied.landed;
    if dry_run {
        let Listed { written, bytes } = report.listed();
        let result = serde_json::json!({
            "dry_run": true,
            "entries": written,
            "bytes": bytes,
            "unchanged": landed.unchanged,
            "touched": landed.touched,
            "removed": landed.removed,
            "failed": failed,
        });
        // What is to go is in the last word, and told of only up to a bound, and to who was connected then.
        let removal = match landed.removed {
            0 => String::new(),
            removed => format!(", and remove {removed}"),
        };
        let sum = format!("would copy {}, {bytes}{removal}", counted(written, "entry", "entries"));
        let text = if stats { format!("{}\n{sum}", planned_figures(copied)) } else { sum };
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
    if landed.limited {
        return Err(Failure::new(
            Exit::Partial,
            "more was to be removed than --max-delete allows: look what it is with -n, and allow more if that is right",
        ));
    }
    Ok(match failed {
        0 => Exit::Ok,
        _ if copied.failures.are_all(FailureCause::Vanished) => Exit::Vanished,
        _ => Exit::Partial,
    })
}

/// What whoever has watched it is told at the end.
fn closing(copied: &Copied, time: Duration) -> String {
    let Landed { files, folders, links, bytes, unchanged, touched, removed, .. } = copied.landed;
    let parts = [
        (files, counted(files, "file", "files")),
        (folders, counted(folders, "folder", "folders")),
        (links, counted(links, "link", "links")),
    ];
    let made: Vec<_> = parts.into_iter().filter(|(count, _)| *count > 0).map(|(_, text)| text).collect();
    let failed = copied.failures.count();
    let mut text = match made.is_empty() {
        true if failed > 0 => "nothing was copied".to_owned(),
        true => "nothing was to be copied".to_owned(),
        false => format!("copied {}, {}; {}", made.join(", "), bytes, pace(copied.moved, time)),
    };
    for (count, what) in [
        (unchanged, "already there"),
        (touched, "given metadata only"),
        (removed, "removed"),
        (failed, "named above"),
    ] {
        if count > 0 {
            text += &format!("; {count} {what}");
        }
    }
    text
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
        ("not copied", copied.failures.count().to_string()),
        ("bytes of the files written", bytes.to_string()),
        ("of them sent", literal.to_string()),
        ("of them in the files replaced", matched.to_string()),
        ("bytes moved for it", copied.moved.to_string()),
    ];
    table(lines)
}

/// What `--stats` says of a dry run, which has the rest in its last line.
fn planned_figures(copied: &Copied) -> String {
    let Landed { unchanged, touched, removed, .. } = copied.landed;
    table([
        ("files and links as they are", unchanged),
        ("only metadata would change", touched),
        ("would be removed", removed),
        ("not copied", copied.failures.count()),
    ])
}

fn table<F: std::fmt::Display, const N: usize>(lines: [(&str, F); N]) -> String {
    lines.map(|(what, figure)| format!("{what:>30}  {figure}")).join("\n")
}

fn way_name(way: Way) -> &'static str {
    match way {
        Way::Local => "local",
        Way::Direct => "direct",
        Way::ThroughSsh | Way::Blocked(_) | Way::NoPort => "ssh",
    }
}

#[cfg(test)]
mod tests {
    use terahaul_core::ByteCount;

    use super::*;

    #[test]
    fn the_end_of_a_copy_is_what_scps_and_rsyncs_users_look_for() {
        let said = |landed, moved| {
            let copied = Copied { landed, moved: ByteCount(moved), ..Copied::default() };
            closing(&copied, Duration::from_secs(2))
        };
        let landed =
            Landed { files: 2, folders: 1, bytes: ByteCount(4_000_000), unchanged: 40, ..Landed::default() };
        assert_eq!(
            said(landed, 3_000_000),
            "copied 2 files, 1 folder, 4.0 MB; 3.0 MB moved in 2.0 s, 1.5 MB/s; 40 already there"
        );
        let unchanged = Landed { unchanged: 1, removed: 2, ..Landed::default() };
        assert_eq!(said(unchanged, 0), "nothing was to be copied; 1 already there; 2 removed");
    }
}
