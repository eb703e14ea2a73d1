//! `terahaul lab compare` and `terahaul lab report`: real programs side by side on emulated paths.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::builder::StringValueParser;
use clap::{Args, ValueHint};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::json;
use terahaul_lab::compare::{Cell, CompareError, NamedPath, News, Outcome, Plan, Results, Run, compare};
use terahaul_lab::namespace::check_congestion_control;
use terahaul_lab::path::ready;
use terahaul_lab::peer::{self, Availability};
use terahaul_lab::probe::span;
use terahaul_lab::report;
use terahaul_lab::work::{Direction, WorkSpec};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use super::{failure, need_namespaces};
use crate::exit::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::output::{Event, Output};
use crate::settings::{Words, whole};

/// Seconds for which what leaves a path is counted.
const LONGEST: u64 = 36_000;

/// After the flags of `lab compare`.
pub const COMPARE: &str = "\
Examples:
  terahaul lab compare --path filesender-100ms --work file:1GB \\
      --with scp,rsyncd,terahaul --runs 5 --out results
      A table in results/report.md, plots in results/report.html, everything in
      results/results.json.
  terahaul lab compare --path lossy --cc cubic,bbr --work file:200MB \\
      --direction put --with scp,terahaul --out loss
      Both congestion controls: they differ by far under loss.
  terahaul lab compare --path lan,cesnet-wan --work file,tree,tar --with all \\
      --out grid
  terahaul lab compare --work file:100MB --with scp,terahaul --out heat \\
      --path lossy+rtt=10ms,lossy+rtt=10ms+loss=0%,lossy,lossy+loss=0%
      A ready path with something changed; round trips and losses in all
      combinations become a heat map.
  terahaul lab compare --list
      The peers, and which of them are on this machine.

Ratios are to the first of --with. Results are written after every run: what was
measured before an interruption is kept, and 'terahaul lab report DIR' makes the
reports again.";

/// After the flags of `lab report`.
pub const REPORT: &str = "\
Examples:
  terahaul lab report results
      Writes report.md and report.html in results from results.json there.";

/// `terahaul lab compare`
#[derive(Debug, Args)]
pub struct CompareArgs {
    /// Paths: names from 'terahaul lab path list', each with changes if need be: lossy+rtt=50ms
    #[arg(long, value_name = "PATH,…", value_delimiter = ',', required_unless_present = "list", value_parser = Words::new(ready::names, NamedPath::from_str), hide_possible_values = true)]
    pub path: Vec<NamedPath>,
    /// Work: file[:SIZE], tree[:FILES|:FOLDER], tar[:…], update[:…], again[:…], edited[:SIZE],
    /// inserted[:SIZE], small[:FILES], batch[:FILESxSIZE], meta[:FILES]
    #[arg(long, value_name = "WORK,…", value_delimiter = ',', required_unless_present = "list")]
    pub work: Vec<WorkSpec>,
    /// Peers, or 'all' for those that are on this machine; ratios are to the first
    #[arg(long, value_name = "PEER,…", value_delimiter = ',', required_unless_present = "list", value_parser = Words::new(peers, StringValueParser::new()), hide_possible_values = true)]
    pub with: Vec<String>,
    /// Folder for the results
    #[arg(long, value_name = "DIR", required_unless_present_any = ["list", "dry_run"], value_hint = ValueHint::DirPath)]
    pub out: Option<PathBuf>,
    /// Measured runs of each, besides one to warm up
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = whole::<u32>("runs", 1..=1000), allow_negative_numbers = true)]
    pub runs: u32,
    /// Which way: put (from the client), get, or both
    #[arg(long, value_name = "WAY,…", value_delimiter = ',', default_value = "put,get", value_parser = Words::new(|| vec!["put", "get"], Direction::from_str), hide_possible_values = true)]
    pub direction: Vec<Direction>,
    /// TCP's congestion control, such as cubic,bbr: each path with each; otherwise the kernel's
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub cc: Vec<String>,
    /// Seconds after which a transfer is cut short and reported as a rate
    #[arg(long, value_name = "SECONDS", default_value_t = 600, value_parser = whole::<u64>("seconds", 1..=LONGEST), allow_negative_numbers = true)]
    pub cut_after: u64,
    /// Folder for the files that are moved: in memory unless told otherwise
    #[arg(long, value_name = "DIR", default_value = "/dev/shm", value_hint = ValueHint::DirPath)]
    pub scratch: PathBuf,
    /// Say what would be measured
    #[arg(long)]
    pub dry_run: bool,
    /// List the peers, and which of them are on this machine
    #[arg(long)]
    pub list: bool,
}

/// What `--with` takes.
fn peers() -> Vec<&'static str> {
    let known = peer::all(Path::new("terahaul"));
    std::iter::once("all").chain(known.iter().map(|peer| peer.name())).collect()
}

/// `terahaul lab report`
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// The folder with results.json
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub dir: PathBuf,
}

/// Measures and reports.
pub async fn run(args: CompareArgs, output: &Output, interrupt: &Interrupt) -> Result<Exit, Failure> {
    let terahaul =
        std::env::current_exe().map_err(|error| Failure::file("found", Path::new("this program"), &error))?;
    if args.list {
        list(&terahaul, output);
        return Ok(Exit::Ok);
    }
    let out = args.out.clone().unwrap_or_default();
    let dry_run = args.dry_run;
    let plan = plan(args, terahaul)?;
    if dry_run {
        say_plan(&plan, output)?;
        return Ok(Exit::Ok);
    }
    need_namespaces()?;
    let mut runs = 0;
    let measured = measure(plan, out.clone(), &mut runs, output, interrupt).await;
    // What was measured before something went wrong is worth a report, too; what an earlier comparison has left has its own.
    if (measured.is_ok() || runs > 0)
        && let Ok(results) = Results::read(&out)
    {
        say_reports("lab compare", &results, &out, output)?;
    }
    Ok(exit_of(&measured.map_err(|error| failure_of(&error))?))
}

/// Makes the reports of results again.
pub fn report(args: &ReportArgs, output: &Output) -> Result<Exit, Failure> {
    let results = Results::read(&args.dir).map_err(|error| failure_of(&error))?;
    say_reports("lab report", &results, &args.dir, output)?;
    Ok(Exit::Ok)
}

fn plan(args: CompareArgs, terahaul: PathBuf) -> Result<Plan, Failure> {
    // Better known now than when a path with it is made, after everything else was measured.
    args.cc.iter().try_for_each(|name| check_congestion_control(name)).map_err(|error| failure(&error))?;
    let mut paths = Vec::new();
    for path in args.path {
        if args.cc.is_empty() {
            paths.push(path);
        } else {
            paths.extend(args.cc.iter().map(|name| path.with_congestion_control(name)));
        }
    }
    let known = peer::all(&terahaul);
    let mut peers: Vec<String> = Vec::new();
    for name in args.with {
        let wanted: Vec<String> = match name.as_str() {
            "all" => {
                let here =
                    known.iter().filter(|peer| peer::availability(peer.as_ref()) == Availability::Here);
                here.map(|peer| peer.name().to_owned()).collect()
            }
            _ if known.iter().any(|peer| peer.name() == name) => vec![name],
            _ => return Err(failure_of(&CompareError::UnknownPeer(name))),
        };
        peers.extend(wanted.into_iter().filter(|name| !peers.contains(name)).collect::<Vec<_>>());
    }
    let mut directions = args.direction;
    directions.sort_unstable();
    directions.dedup();
    Ok(Plan {
        paths: once(paths),
        works: once(args.work),
        directions,
        peers,
        runs: args.runs,
        limit: Duration::from_secs(args.cut_after),
        scratch: args.scratch,
        terahaul,
        command: command_line(),
    })
}

/// Each once: runs of what is named twice would count as those of one.
fn once<T: PartialEq>(all: Vec<T>) -> Vec<T> {
    let mut once = Vec::new();
    for one in all {
        if !once.contains(&one) {
            once.push(one);
        }
    }
    once
}

/// As it was typed, but for the program's path, which says nothing to readers elsewhere.
fn command_line() -> String {
    let words = std::env::args_os().skip(1).map(|word| {
        let word = word.to_string_lossy().into_owned();
        let plain = word.chars().all(|c| c.is_ascii_alphanumeric() || "-_=+:,./%".contains(c));
        if plain { word } else { format!("'{}'", word.replace('\'', r"'\''")) }
    });
    std::iter::once("terahaul".to_owned()).chain(words).collect::<Vec<_>>().join(" ")
}

fn list(terahaul: &Path, output: &Output) {
    for peer in peer::all(terahaul) {
        let why = match peer::availability(peer.as_ref()) {
            Availability::Here => None,
            Availability::NotHere(why) => Some(why),
        };
        let said =
            why.as_ref().map_or_else(|| peer.about().to_owned(), |why| format!("not on this machine: {why}"));
        let text = format!("{:<17}  {said}", peer.name());
        let result = json!({ "peer": peer.name(), "about": peer.about(), "here": why.is_none(), "why": why });
        output.emit(&Event::Measured { result, text });
    }
}

fn say_plan(plan: &Plan, output: &Output) -> Result<(), Failure> {
    let mut text = String::new();
    for path in &plan.paths {
        text += &format!("path {}: {}\n", path.name, path.spec);
    }
    let known = peer::all(&plan.terahaul);
    for name in &plan.peers {
        let Some(peer) = known.iter().find(|peer| peer.name() == name) else { continue };
        text += &match peer::availability(peer.as_ref()) {
            Availability::Here => format!("peer {name}: {}\n", peer.about()),
            Availability::NotHere(why) => format!("peer {name}: not on this machine: {why}\n"),
        };
    }
    let works: Vec<String> = plan.works.iter().map(ToString::to_string).collect();
    text += &format!("work {}; files in {}\n", works.join(", "), plan.scratch.display());
    let limit = plan.limit.as_secs_f64();
    text += &format!(
        "{} runs at most, warm-ups included; none longer than {limit} s, so {} at most",
        plan.most_runs(),
        span(plan.most_runs() as f64 * limit)
    );
    let paths: Vec<_> =
        plan.paths.iter().map(|path| json!({ "name": path.name, "spec": path.spec })).collect();
    let result = json!({
        "dry_run": true, "paths": paths, "works": works, "peers": plan.peers, "most_runs": plan.most_runs(),
    });
    output.emit(&Event::Done { command: "lab compare", result, text });
    Ok(())
}

/// What the measuring thread tells, in words of its own.
enum Told {
    Notice(String),
    Begins { done: u64, total: u64, what: String },
    Ended { result: serde_json::Value, text: String },
}

/// Counts the `runs` that are in the results.
async fn measure(
    plan: Plan,
    out: PathBuf,
    runs: &mut u64,
    output: &Output,
    interrupt: &Interrupt,
) -> Result<Results, CompareError> {
    let stop = Arc::new(AtomicBool::new(false));
    let (tell, mut told) = unbounded_channel();
    let heed = stop.clone();
    let mut work =
        tokio::task::spawn_blocking(move || compare(&plan, &out, &heed, &mut |news| pass_on(&tell, &news)));
    let bar = bar(output);
    let mut hear = |news| {
        *runs += u64::from(matches!(news, Told::Ended { .. }));
        show(news, &bar, output);
    };
    loop {
        tokio::select! {
            biased;
            Some(news) = told.recv() => hear(news),
            // The measuring thread ends within moments and removes what it has made.
            () = interrupt.wait(), if !stop.load(Ordering::Relaxed) => stop.store(true, Ordering::Relaxed),
            ended = &mut work => {
                while let Ok(news) = told.try_recv() {
                    hear(news);
                }
                bar.finish_and_clear();
                return ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()));
            }
        }
    }
}

fn pass_on(tell: &UnboundedSender<Told>, news: &News<'_>) {
    let told = match news {
        News::NotHere { peer, why } => Told::Notice(format!("{peer} is not on this machine: {why}")),
        News::Making { work } => {
            Told::Begins { done: 0, total: 0, what: format!("making the files of {work}") }
        }
        News::Path { name } => {
            Told::Begins { done: 0, total: 0, what: format!("starting the servers on {name}") }
        }
        News::Begins { cell, round, done, total } => {
            let round = if *round == 0 { "warm-up".to_owned() } else { format!("run {round}") };
            Told::Begins { done: *done, total: *total, what: format!("{}, {round}", name_of(cell)) }
        }
        News::Ended { run, bytes } => {
            let result = json!({
                "path": run.cell.path, "work": run.cell.work, "direction": run.cell.direction, "peer": run.cell.peer,
                "round": run.round, "outcome": run.outcome, "seconds": run.seconds, "bytes": bytes, "cost": run.cost,
                "counters": run.counters,
            });
            Told::Ended { result, text: line_of(run, *bytes) }
        }
    };
    // Nobody listens any more when the command is given up.
    let _ = tell.send(told);
}

fn name_of(cell: &Cell) -> String {
    format!("{}, {} {}, {}", cell.path, cell.work, cell.direction.name(), cell.peer)
}

fn line_of(run: &Run, bytes: u64) -> String {
    let round = if run.round == 0 { "warm-up".to_owned() } else { format!("run {}", run.round) };
    let name = name_of(&run.cell);
    match &run.outcome {
        Outcome::Arrived => {
            let rate = bytes as f64 * 8.0 / run.seconds.max(1e-9) / 1e6;
            format!("{name}, {round}: {:.2} s, {rate:.0} Mbit/s", run.seconds)
        }
        Outcome::Cut => {
            let wire = run.delivered.iter().sum::<u64>() as f64 * 8.0 / run.seconds.max(1e-9) / 1e6;
            format!("{name}, {round}: cut after {:.0} s at {wire:.1} Mbit/s on the wire", run.seconds)
        }
        Outcome::Differs(what) => format!("{name}, {round}: FAILED, what arrived differs: {what}"),
        Outcome::Failed(what) => format!("{name}, {round}: FAILED: {what}"),
        Outcome::Cannot => format!("{name}: cannot do this"),
    }
}

fn bar(output: &Output) -> ProgressBar {
    if output.is_json() || !output.shows_progress() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr_with_hz(5));
    if let Ok(style) = ProgressStyle::with_template("{bar:24} {pos}/{len} [{elapsed}] {msg}") {
        bar.set_style(style.progress_chars("━╸ "));
    }
    bar.enable_steady_tick(Duration::from_millis(500));
    bar
}

fn show(news: Told, bar: &ProgressBar, output: &Output) {
    match news {
        Told::Notice(message) => bar.suspend(|| output.notice(message)),
        Told::Begins { done, total, what } => {
            if total > 0 {
                bar.set_length(total);
                bar.set_position(done);
            }
            bar.set_message(what);
        }
        Told::Ended { result, text } => bar.suspend(|| output.emit(&Event::Measured { result, text })),
    }
}

/// Writes the reports beside the results, and says where they are.
fn say_reports(
    command: &'static str,
    results: &Results,
    folder: &Path,
    output: &Output,
) -> Result<(), Failure> {
    let write = |name: &str, report: String| {
        let path = folder.join(name);
        std::fs::write(&path, report).map_err(|error| Failure::file("written", &path, &error))?;
        Ok::<_, Failure>(path)
    };
    let markdown = write("report.md", report::markdown(results))?;
    let html = write("report.html", report::html(results))?;
    let result = json!({ "runs": results.runs.len(), "markdown": markdown, "html": html });
    let text = format!("{}\n{}", markdown.display(), html.display());
    output.emit(&Event::Done { command, result, text });
    Ok(())
}

/// A run that failed is named, and the rest was measured; bytes that differ are worse.
fn exit_of(results: &Results) -> Exit {
    let any = |wanted: fn(&Outcome) -> bool| results.runs.iter().any(|run| wanted(&run.outcome));
    if any(|outcome| matches!(outcome, Outcome::Differs(_))) {
        Exit::VerifyFailed
    } else if any(|outcome| matches!(outcome, Outcome::Failed(_))) {
        Exit::Partial
    } else {
        Exit::Ok
    }
}

fn failure_of(error: &CompareError) -> Failure {
    use terahaul_lab::work::WorkError;
    let exit = match error {
        CompareError::Interrupted => Exit::Interrupted,
        CompareError::UnknownPath(_)
        | CompareError::Path { .. }
        | CompareError::UnknownPeer(_)
        | CompareError::OddScratch(_) => Exit::Usage,
        CompareError::Work(WorkError::NoRoom { .. }) => Exit::NoSpace,
        CompareError::Work(WorkError::NoLinuxSource(_)) => Exit::NotFound,
        CompareError::NobodyHere(_) => Exit::NotFound,
        CompareError::Lab(error) => return failure(error),
        CompareError::File { source, .. } if source.kind() == std::io::ErrorKind::NotFound => Exit::NotFound,
        _ => Exit::Unexpected,
    };
    Failure::new(exit, error.to_string())
}
