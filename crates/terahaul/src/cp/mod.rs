//! `terahaul cp`, and the far side that it starts.

mod failure;
mod plan;
mod report;

use std::path::PathBuf;

use terahaul_copy::ssh::Ssh;
use terahaul_copy::{Copied, CopyError, Job, Landed, Looks, Way, cause_name, copy_local, pull, push};

use crate::cli::{CopyArgs, ReceiveArgs, SendArgs, SshArgs};
use crate::commands::watch::{Waited, interrupted, watch};
use crate::commands::{receive, send};
use crate::exit::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::output::{Event, Output, PathText};
use plan::Plan;
use report::ToOutput;

/// `terahaul cp`
pub async fn run(args: CopyArgs, output: &Output, interrupt: &Interrupt) -> Result<Exit, Failure> {
    let plan = match Plan::of(&args.paths)? {
        Plan::Send { sources, to } => {
            return send::run(send_args(args, sources, to), output, interrupt).await;
        }
        Plan::Receive { link, to } => {
            return receive::run(receive_args(args, link, to), output, interrupt).await;
        }
        plan => plan,
    };
    let job = Job {
        include: args.filter.include.clone(),
        exclude: args.filter.exclude.clone(),
        rules: terahaul_copy::greeting::Rules { dry_run: args.dry_run },
        options: args.engine.options(),
        ports: args.ssh.ports,
        through_ssh: args.ssh.through_ssh,
        install: args.ssh.install,
    };
    let looks = Looks::default();
    let report = ToOutput::new(output, args.verbose);
    let work = async {
        let copied: Result<Copied, CopyError> = match plan {
            // Handed over above.
            Plan::Send { .. } | Plan::Receive { .. } => return Ok(Copied::default()),
            Plan::Local { sources, to } => copy_local(&sources, &to, &job, &looks, &report).await,
            Plan::Push { sources, to } => push(&ssh(&args.ssh), &sources, &to, &job, &looks, &report).await,
            Plan::Pull { host, paths, to } => {
                pull(&ssh(&args.ssh), &host, &paths, &to, &job, &looks, &report).await
            }
        };
        Ok::<_, Failure>(copied?)
    };
    let copied = match watch(output, interrupt, || looks.progress(), work).await {
        Waited::Ended(copied) => copied?,
        Waited::Interrupted => return Err(interrupted(&looks.progress().0)),
    };
    Ok(conclude(&copied, args.dry_run, &report, output))
}

/// To a depot: what `terahaul send` does.
fn send_args(args: CopyArgs, paths: Vec<PathBuf>, to: String) -> SendArgs {
    SendArgs {
        paths,
        to: Some(to),
        name: None,
        expire_days: None,
        receipt: None,
        dry_run: args.dry_run,
        filter: args.filter,
        engine: args.engine,
    }
}

/// From a depot: what `terahaul receive` does.
fn receive_args(args: CopyArgs, link: String, dir: PathBuf) -> ReceiveArgs {
    ReceiveArgs {
        link,
        dir,
        overwrite: false,
        receipt: None,
        dry_run: args.dry_run,
        filter: args.filter,
        engine: args.engine,
    }
}

/// The far side, over ssh's stdin and stdout.
pub async fn run_far() -> Result<Exit, Failure> {
    // Whoever talks to it knows how it ended.
    let _ = terahaul_copy::far::run(tokio::io::stdin(), tokio::io::stdout()).await;
    Ok(Exit::Ok)
}

fn ssh(args: &SshArgs) -> Ssh {
    let mut arguments = Vec::new();
    let mut flag = |name: &str, value: &std::ffi::OsStr| arguments.extend([name.into(), value.to_owned()]);
    args.config.iter().for_each(|file| flag("-F", file.as_os_str()));
    args.identity.iter().for_each(|file| flag("-i", file.as_os_str()));
    args.jump.iter().for_each(|hop| flag("-J", hop.as_ref()));
    args.port.iter().for_each(|port| flag("-p", port.to_string().as_ref()));
    args.option.iter().for_each(|option| flag("-o", option.as_ref()));
    args.login.iter().for_each(|user| flag("-l", user.as_ref()));
    for (asked, name) in [(args.ipv4, "-4"), (args.ipv6, "-6")] {
        if asked {
            arguments.push(name.into());
        }
    }
    Ssh { rsh: args.rsh.clone(), arguments, far_command: args.far_command.clone() }
}

fn conclude(copied: &Copied, dry_run: bool, report: &ToOutput<'_>, output: &Output) -> Exit {
    for failure in &copied.failures {
        output.emit(&Event::Failure {
            path: PathText::from(failure.path.as_slice()),
            cause: cause_name(failure.cause),
            message: &failure.message,
        });
    }
    let failed = copied.failures.len();
    if dry_run {
        let (entries, bytes) = report.listed();
        let result =
            serde_json::json!({ "dry_run": true, "entries": entries, "bytes": bytes, "failed": failed });
        let text = format!("would copy {entries} entries, {bytes}");
        output.emit(&Event::Done { command: "cp", result, text });
    } else {
        let Landed { files, folders, links, bytes, unchanged, resumed } = copied.landed;
        let result = serde_json::json!({
            "files": files,
            "folders": folders,
            "links": links,
            "bytes": bytes,
            "unchanged": unchanged,
            "failed": failed,
            "moved_bytes": copied.moved,
            "resumed": resumed,
            "way": way_name(copied.way),
        });
        output.emit(&Event::Done { command: "cp", result, text: String::new() });
    }
    if failed == 0 { Exit::Ok } else { Exit::Partial }
}

fn way_name(way: Way) -> &'static str {
    match way {
        Way::Local => "local",
        Way::Direct => "direct",
        Way::ThroughSsh | Way::Blocked(_) | Way::NoPort => "ssh",
    }
}
