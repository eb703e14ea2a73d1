//! `terahaul lab path`: one command on an emulated path.

use std::ffi::{OsStr, OsString};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::builder::StringValueParser;
use clap::{Args, Subcommand};
use terahaul_core::{ByteCount, Rate};
use terahaul_lab::path::{LossSpec, QueueSpec, ReorderSpec, read_duration, ready};
use terahaul_lab::{Namespace, Path, PathSpec, ProcessorTime, WarmMemory};

use super::{failure, need_namespaces};
use crate::exit::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::output::{Event, Output};
use crate::settings::{Words, parse_size};

/// After the flags of `lab path`.
pub const HELP: &str = "\
Examples:
  terahaul lab path list
  terahaul lab path --path transatlantic --far 'iperf3 -s' -- \\
      iperf3 -c 198.18.0.2
  terahaul lab path --rate 1gbit --rtt 100ms --loss 0.1% --cc cubic \\
      --far 'rsync --daemon --no-detach --config=far.conf' -- \\
      rsync -a data/ rsync://198.18.0.2/in/
  terahaul lab path --path lossy --loss 0.2% --seed 7 -- bash
      A shell at the near end.
  terahaul lab path --rate 500mbit --rtt 20ms --paths 2 \\
      --far 'terahaul serve --json --data depot --listen 198.18.0.2:8750 \\
             > ready' -- sh -c '
          until [ -s ready ]; do sleep 1; done
          export TERAHAUL_URL=$(head -1 ready | jq -r .url)
          export TERAHAUL_TOKEN=$(head -1 ready | jq -r .token)
          terahaul send --transport udp --bind $TERAHAUL_LAB_NEAR data/'
      Two paths from two addresses to one.

The far end is 198.18.0.2, also in TERAHAUL_LAB_FAR; the near end's addresses
are in TERAHAUL_LAB_NEAR, with commas between them. Only the two ends can reach
each other, and all that runs in them ends with the command. What happened to
packets is said on stderr at the end; the exit code is the command's.";

/// `terahaul lab path`
#[derive(Debug, Args)]
#[command(override_usage = "terahaul lab path [OPTIONS] -- <CMD>...\n       terahaul lab path list")]
pub struct PathArgs {
    #[command(subcommand)]
    #[allow(missing_docs)]
    pub list: Option<PathCommand>,
    /// What the path is like.
    #[command(flatten)]
    pub spec: SpecArgs,
    /// Run at the far end, by sh, before the command; may be given several times. Ended after it
    #[arg(long, value_name = "CMD")]
    pub far: Vec<String>,
    /// Before the path starts, touch so much memory, such as 4GB, which the host of a virtual machine would otherwise
    /// hand over while the command runs
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub warm: Option<ByteCount>,
    /// The command, run at the near end
    #[arg(last = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

/// Instead of a command.
#[derive(Debug, Subcommand)]
pub enum PathCommand {
    /// List the ready paths
    List,
}

/// What a path is like.
#[derive(Debug, Default, PartialEq, Args)]
pub struct SpecArgs {
    /// A ready path to begin with ('terahaul lab path list'); the other flags change it
    #[arg(long, value_name = "NAME", value_parser = Words::new(ready::names, StringValueParser::new()), hide_possible_values = true)]
    pub path: Option<String>,
    /// The bottleneck from the near end to the far one, such as 1gbit; IP headers count
    #[arg(long)]
    pub rate: Option<Rate>,
    /// The bottleneck on the way back, where it differs
    #[arg(long, value_name = "RATE")]
    pub return_rate: Option<Rate>,
    /// Round trip, such as 100ms; half of it each way
    #[arg(long, value_name = "TIME", value_parser = read_duration)]
    pub rtt: Option<Duration>,
    /// Loss each way, such as 0.1%, or in bursts, burst:ENTER:LEAVE:LOSS
    #[arg(long)]
    pub loss: Option<LossSpec>,
    /// Lose packets before the bottleneck instead of after it
    #[arg(long)]
    pub loss_before: bool,
    /// What may wait at the bottleneck: 1bdp, 64kB, 4s, or none for a policer
    #[arg(long)]
    pub queue: Option<QueueSpec>,
    /// Largest IP packet
    #[arg(long, value_name = "BYTES")]
    pub mtu: Option<u16>,
    /// Hold each packet back up to so long; order is kept
    #[arg(long, value_name = "TIME", value_parser = read_duration)]
    pub jitter: Option<Duration>,
    /// Let a share of the packets be overtaken, such as 0.1%, or 0.1%:2ms
    #[arg(long, value_name = "SHARE")]
    pub reorder: Option<ReorderSpec>,
    /// TCP's congestion control at both ends, such as cubic or bbr
    #[arg(long, value_name = "NAME")]
    pub cc: Option<String>,
    /// Programs cannot choose another congestion control
    #[arg(long)]
    pub cc_only: bool,
    /// Decides which packets are lost
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// So many such paths side by side, each from an address of its own
    #[arg(long, value_name = "N")]
    pub paths: Option<u8>,
}

impl SpecArgs {
    /// The path that the flags describe.
    pub fn settle(&self) -> Result<PathSpec, Failure> {
        let mut spec = match (&self.path, self.rate) {
            (Some(name), _) => ready::find(name).ok_or_else(|| {
                Failure::usage(format!(
                    "there is no ready path '{name}': 'terahaul lab path list' names them"
                ))
            })?,
            (None, Some(rate)) => PathSpec::clean(rate, Duration::ZERO),
            (None, None) => {
                return Err(Failure::usage(
                    "what the path is like is missing: give --rate and --rtt, or --path with a name from 'terahaul lab path list'",
                ));
            }
        };
        change(&mut spec.rate, self.rate);
        change(&mut spec.rtt, self.rtt);
        change(&mut spec.loss, self.loss);
        change(&mut spec.queue, self.queue);
        change(&mut spec.mtu, self.mtu);
        change(&mut spec.jitter, self.jitter);
        change(&mut spec.reorder, self.reorder);
        change(&mut spec.seed, self.seed);
        change(&mut spec.paths, self.paths);
        spec.return_rate = self.return_rate.or(spec.return_rate);
        spec.cc = self.cc.clone().or(spec.cc);
        spec.cc_only |= self.cc_only;
        spec.loss_before_bottleneck |= self.loss_before;
        spec.check().map_err(Failure::usage)?;
        Ok(spec)
    }
}

fn change<T>(value: &mut T, flag: Option<T>) {
    if let Some(flag) = flag {
        *value = flag;
    }
}

/// How long the far end may take until something listens, or for the command to end by itself after Ctrl-C.
const PATIENCE: Duration = Duration::from_secs(2);

/// What a shell ends with when a command is not found.
const NOT_FOUND: u8 = 127;

/// Runs the command on the path.
pub async fn run(args: PathArgs, output: &Output, interrupt: &Interrupt) -> Result<Exit, Failure> {
    if let Some(PathCommand::List) = args.list {
        // The parser would refuse --json and --quiet in front of it, too.
        if args.spec != SpecArgs::default() || !args.far.is_empty() || args.warm.is_some() {
            return Err(Failure::usage(
                "'list' takes no flags of a path: leave them out, or give a command after '--'",
            ));
        }
        list(output);
        return Ok(Exit::Ok);
    }
    let spec = args.spec.settle()?;
    let Some((program, arguments)) = args.command.split_first() else {
        return Err(Failure::usage(
            "the command is missing: give it after '--', as in '-- iperf3 -c 198.18.0.2'",
        ));
    };
    if !is_found(program) {
        let message = format!("'{}' was not found: check its name, or give its path", program.display());
        output.emit(&Event::Error { code: "not_found", message: &message, exit: NOT_FOUND });
        output.check()?;
        std::process::exit(i32::from(NOT_FOUND))
    }
    need_namespaces()?;
    let _warm = match args.warm {
        Some(bytes) => warm(bytes, interrupt).await?,
        None => None,
    };
    let path = Path::start(&spec).map_err(|error| failure(&error))?;
    let mut servers = Servers::start(&path, &args.far)?;
    servers.wait_until_ready(&path, interrupt).await?;
    // The command would not hear of what ended the wait for the servers.
    if interrupt.is_set() {
        drop(path);
        servers.reap();
        return Err(interrupted());
    }
    path.restart_counters();
    let began = ProcessorTime::now();
    let mut command = tokio::process::Command::from(inside(&path, path.near(), program));
    let mut child = command.args(arguments).spawn().map_err(|error| not_started(&error))?;
    let ended = tokio::select! {
        status = child.wait() => Some(status),
        () = interrupt.wait() => None,
    };
    let ended = match ended {
        Some(status) => Some(status),
        // A terminal's Ctrl-C went to the command too, which may have something to say.
        None => tokio::time::timeout(PATIENCE, child.wait()).await.ok(),
    };
    let counters = path.stop();
    let stolen = ProcessorTime::now().stolen_since(began);
    servers.reap();
    let status = ended.transpose().map_err(|error| not_started(&error))?;
    if !output.is_json() {
        output.notice(counters.report(&spec) + &stolen_text(stolen));
    }
    if interrupt.is_set() {
        return Err(interrupted());
    }
    let code = status.map_or(1, code_of);
    let result = serde_json::json!({ "path": spec, "counters": counters, "stolen": stolen, "exit": code });
    output.emit(&Event::Done { command: "lab path", result, text: String::new() });
    output.check()?;
    // The command's own code, which may be any; nothing is left that would have to be put in order.
    std::process::exit(code)
}

fn interrupted() -> Failure {
    Failure::new(Exit::Interrupted, "interrupted; nothing of the path is left")
}

/// Whether the command is somewhere that it would be looked for: otherwise nothing need be made to find that out.
fn is_found(program: &OsStr) -> bool {
    if program.as_bytes().contains(&b'/') {
        return std::path::Path::new(program).exists();
    }
    // Without one the system has its own.
    let Some(folders) = std::env::var_os("PATH") else { return true };
    std::env::split_paths(&folders).any(|folder| folder.join(program).is_file())
}

/// What figures vary anyway is not worth saying.
fn stolen_text(share: f64) -> String {
    if share < 0.05 {
        return String::new();
    }
    format!(
        " This machine's host gave {:.0} % of the processor time to others: figures are of that, too",
        share * 100.0
    )
}

async fn warm(bytes: ByteCount, interrupt: &Interrupt) -> Result<Option<WarmMemory>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    let heed = stop.clone();
    let touching = tokio::task::spawn_blocking(move || WarmMemory::prepare(bytes.0, &heed));
    let touched = interrupt.guard(async { Ok(touching.await.ok().flatten()) }).await;
    stop.store(true, Ordering::Relaxed);
    touched
}

fn inside(path: &Path, end: &Namespace, program: impl AsRef<std::ffi::OsStr>) -> std::process::Command {
    let mut command = end.command(program);
    let near: Vec<_> = path.near().addresses().iter().map(ToString::to_string).collect();
    command
        .env("TERAHAUL_LAB_NEAR", near.join(","))
        .env("TERAHAUL_LAB_FAR", path.far().address().to_string());
    command
}

fn not_started(error: &std::io::Error) -> Failure {
    match error.kind() {
        std::io::ErrorKind::NotFound => Failure::new(
            Exit::NotFound,
            "the lab needs the program 'nsenter': install the Debian package util-linux",
        ),
        _ => Failure::new(Exit::Unexpected, format!("the command could not be started ({error}): try again")),
    }
}

/// As a shell shows it.
fn code_of(status: ExitStatus) -> i32 {
    status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1)
}

/// What runs at the far end.
struct Servers(Vec<(String, Child)>);

impl Servers {
    fn start(path: &Path, commands: &[String]) -> Result<Self, Failure> {
        let mut servers = Self(Vec::new());
        for text in commands {
            let stderr =
                std::io::stderr().as_fd().try_clone_to_owned().map_err(|error| not_started(&error))?;
            let child = inside(path, path.far(), "sh")
                .args(["-c", text])
                .stdin(Stdio::null())
                .stdout(stderr)
                .spawn()
                .map_err(|error| not_started(&error))?;
            servers.0.push((text.clone(), child));
        }
        Ok(servers)
    }

    /// Waits until something listens, because most servers need a moment. One that listens on UDP alone is given the
    /// whole patience.
    async fn wait_until_ready(&mut self, path: &Path, interrupt: &Interrupt) -> Result<(), Failure> {
        let begun = Instant::now();
        while !self.0.is_empty() && begun.elapsed() < PATIENCE && !interrupt.is_set() {
            for (text, child) in &mut self.0 {
                match child.try_wait() {
                    // A terminal's Ctrl-C goes to them too.
                    Ok(Some(status)) if !status.success() && !interrupt.is_why().await => {
                        let code = code_of(status);
                        let message = format!(
                            "'{text}' at the far end ended with code {code} before the command was run: try it by itself"
                        );
                        return Err(Failure::new(Exit::Unexpected, message));
                    }
                    _ => {}
                }
            }
            if path.far().listening().is_ok_and(|ports| ports.len() >= self.0.len()) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Ok(())
    }

    /// They were ended with the path.
    fn reap(&mut self) {
        for (_, child) in &mut self.0 {
            // Whatever it was, it is over.
            let _ = child.wait();
        }
    }
}

fn list(output: &Output) {
    let paths = ready::ready();
    let mut text = String::new();
    for path in &paths {
        text += &format!("{:<18}{}\n{:18}{}\n", path.name, path.spec, "", path.what);
    }
    let result = serde_json::json!({ "paths": paths });
    output.emit(&Event::Done { command: "lab path list", result, text: text.trim_end().to_owned() });
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Typed {
        #[command(flatten)]
        args: PathArgs,
    }

    fn spec(flags: &str) -> Result<PathSpec, Failure> {
        Typed::try_parse_from(["path"].into_iter().chain(flags.split_whitespace()))
            .unwrap()
            .args
            .spec
            .settle()
    }

    #[test]
    fn flags_change_a_ready_path() {
        let changed = spec("--path lossy --loss 2% --mtu 9000 --loss-before").unwrap();
        let expected = PathSpec {
            loss: LossSpec::Uniform(0.02),
            mtu: 9000,
            loss_before_bottleneck: true,
            ..ready::find("lossy").unwrap()
        };
        assert_eq!(changed, expected);
    }

    #[test]
    fn what_cannot_be_emulated_is_refused_with_a_remedy() {
        assert!(spec("--rtt 10ms").unwrap_err().message.contains("--rate"));
        assert!(spec("--path moon").unwrap_err().message.contains("lab path list"));
        assert!(spec("--rate 1gbit --mtu 100").unwrap_err().message.contains("576"));
        assert!(spec("--rate 1gbit --cc-only").unwrap_err().message.contains("--cc cubic"));
    }
}
