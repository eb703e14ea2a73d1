//! The command line: `terahaul`.
//!
//! [`cli`] is what can be typed, [`settings`] what it means, [`commands`] does it, [`output`] says what happened.

mod api;
mod blocking;
mod cli;
mod commands;
mod cp;
mod exit;
mod interrupt;
mod lab;
mod output;
mod probe;
mod proof;
mod settings;

use std::fmt::{self, Display};
use std::io::{IsTerminal, Write};
use std::panic;
use std::process::ExitCode;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};
use rustix::fs::Mode;
use terahaul_core::PrintableText;
use tokio::runtime::Runtime;
use tracing::field::Field;
use tracing_subscriber::field::MakeExt;
use tracing_subscriber::fmt::format::{Writer, debug_fn};

use cli::{Cli, Command, GlobalArgs};
use exit::{Exit, Failure};
use interrupt::Interrupt;
use output::{Event, Output};

/// Longer than any command but a depot runs.
const A_COMMAND: Duration = Duration::from_secs(10 * 365 * 86_400);

/// Begins long buffers where a page begins, or far from there. The GNU C library begins them 16 bytes behind it, and Zen 3 copies what
/// is read from a file to there at a quarter of its speed (`rep movsb`, source and destination nearly alike modulo a page).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    keep_owner_rights();
    let (command, typed): (_, Vec<_>) = (Cli::command(), std::env::args_os().collect());
    let taken = cli::rsync_words::complete(&command, typed.clone()).and_then(Cli::try_parse_from);
    let explained = |error| cli::other_tools::explain(&command, &typed, error);
    let cli = match taken.map_err(explained).map_err(|error| cli::hidden::leave_out(&command, error)) {
        Ok(cli) => cli,
        Err(error) => return not_parsed(&error).into(),
    };
    let output = Output::new(cli.global);
    start_log(&cli);
    let exit = match run(cli, &output) {
        Ok(exit) => exit,
        Err(failure) => {
            output.clear_progress();
            report(&output, &failure);
            failure.exit
        }
    };
    match output.check() {
        Ok(()) => exit.into(),
        // That is said already, but where it was to be said on stdout.
        Err(Failure { exit: Exit::Interrupted, .. }) if exit != Exit::Ok && !output.is_json() => exit.into(),
        Err(lost) => {
            let lost = say_lost(&lost);
            if exit == Exit::Ok { lost.into() } else { exit.into() }
        }
    }
}

/// A umask is there to keep others out. One that takes something from the owner, such as 0177, would have this program make folders that
/// it cannot enter itself.
fn keep_owner_rights() {
    let umask = rustix::process::umask(Mode::RWXG | Mode::RWXO);
    rustix::process::umask(umask.difference(Mode::RWXU));
}

fn run(cli: Cli, output: &Output) -> Result<Exit, Failure> {
    // Ahead of the runtime, which looks whether there is a thread left for the work.
    let interrupt = Interrupt::listen().map_err(unlistened)?;
    let runtime = start_runtime(output, matches!(cli.command, Command::Serve(_)))?;
    let result = runtime.block_on(commands::run(cli, output, &interrupt));
    // Threads that still read or write for a command that was given up end with the process.
    runtime.shutdown_background();
    result
}

/// Where not all of its threads can be started it panics, and waits for those that it has: whoever sees the panic ends the program.
fn start_runtime(output: &Output, serves: bool) -> Result<Runtime, Failure> {
    let usual = panic::take_hook();
    let told = output.clone();
    panic::set_hook(Box::new(move |panic| {
        let failure = without_threads(panic.payload_as_str().unwrap_or("it is not said why"));
        report(&told, &failure);
        std::process::exit(failure.exit.number().into());
    }));
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    // What may block is done on further ones, and there has to be one at least. A command keeps what it has: by the time that it needs one again
    // there may be none left to start.
    if !serves {
        builder.thread_keep_alive(A_COMMAND);
    }
    let runtime = builder.enable_all().build();
    let runtime = runtime.inspect(|runtime| _ = runtime.block_on(runtime.spawn_blocking(|| ())));
    panic::set_hook(usual);
    runtime.map_err(unstarted)
}

fn unstarted(error: std::io::Error) -> Failure {
    let remedy = terahaul_store::remedy_of_too_many_files(&error).map(|remedy| format!(": {remedy}"));
    let text = format!("the program could not start: {error}{}", remedy.unwrap_or_default());
    Failure::new(Exit::Unexpected, text)
}

fn unlistened(error: std::io::Error) -> Failure {
    match error.kind() {
        // Of all that it does only a thread may be lacking for now.
        std::io::ErrorKind::WouldBlock => without_threads(&error),
        _ => unstarted(error),
    }
}

fn without_threads(error: impl Display) -> Failure {
    let said = terahaul_store::said_of_no_thread(&error);
    Failure::new(Exit::Unexpected, format!("the program could not start, as {said}"))
}

fn report(output: &Output, failure: &Failure) {
    let remedy = output::remedy_of_repeated(&failure.message);
    let remedy = remedy.map(|remedy| format!("; {remedy}")).unwrap_or_default();
    output.emit(&Event::Error {
        code: &failure.code,
        message: &format!("{failure}{remedy}"),
        exit: failure.exit.number(),
    });
}

/// On stderr also where errors are JSON lines: those go to the stdout that cannot be written.
fn say_lost(lost: &Failure) -> Exit {
    let _ = writeln!(output::Stderr, "terahaul: {lost}");
    lost.exit
}

/// Help and versions are asked for; the rest is a mistake on the command line. One with a secret in it is said in this program's own way,
/// which masks that.
fn not_parsed(error: &clap::Error) -> Exit {
    let asked = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    let json = !asked && std::env::args_os().any(|arg| arg == "--json");
    let text = error.render().to_string();
    if json || (!asked && output::remedy_of_repeated(&text).is_some()) {
        let output = Output::new(GlobalArgs { json, quiet: false });
        report(&output, &Failure::usage(mistake_in(&text)));
    } else {
        let printed = match asked && !std::io::stdout().is_terminal() {
            true => output::write_line(text.trim_end()),
            false => error.print(),
        };
        // A closed pipe after `--help | head` is no matter.
        if let Err(error) = printed
            && asked
            && error.kind() != std::io::ErrorKind::BrokenPipe
        {
            return say_lost(&output::lost(&error));
        }
    }
    if asked { Exit::Ok } else { Exit::Usage }
}

/// What clap says is wrong, as one line: all of it but how the command is used.
fn mistake_in(text: &str) -> String {
    let is_said = |line: &&str| !line.starts_with("Usage:") && !line.starts_with("For more information");
    let words: Vec<&str> = text.lines().take_while(is_said).flat_map(str::split_whitespace).collect();
    words.join(" ").trim_start_matches("error: ").replace(" tip: ", "; tip: ")
}

/// The log is for finding faults and goes to stderr; `TERAHAUL_LOG` sets its level, as `debug` or `terahaul_net=debug`.
fn start_log(cli: &Cli) {
    let level = match cli.command {
        _ if cli.global.quiet => "error",
        Command::Serve(_) => "info",
        _ => "warn",
    };
    let default = || tracing_subscriber::EnvFilter::new(level);
    let asked = std::env::var_os("TERAHAUL_LOG").map(|asked| asked.to_string_lossy().into_owned());
    // As if it were not set: an empty filter would leave out errors, too.
    let asked = asked.filter(|asked| !asked.trim().is_empty());
    let (filter, mistake) = match asked.as_deref().map(tracing_subscriber::EnvFilter::try_new) {
        None => (default(), None),
        Some(Ok(filter)) => (filter, None),
        Some(Err(error)) => (default(), Some(error)),
    };
    // A file or a journal is to hold what was said, and no colours.
    let colours = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(colours)
        .fmt_fields(debug_fn(write_field).delimited(" "))
        .with_writer(|| output::Stderr)
        // A log that cannot be written is lost: complaining of it on the same stderr would end the program.
        .log_internal_errors(false)
        .init();
    if let Some(error) = mistake {
        tracing::warn!(
            "TERAHAUL_LOG is not heeded ({error}): give a level, such as debug, or terahaul_net=debug"
        );
    }
}

/// What another end says is in some: it begins no line of its own, turns nothing round, and shows no secret.
fn write_field(writer: &mut Writer<'_>, field: &Field, value: &dyn fmt::Debug) -> fmt::Result {
    let text = format!("{value:?}");
    let text = output::masked(&PrintableText(text.as_bytes()).to_string());
    match field.name() {
        "message" => write!(writer, "{text}"),
        // Where in its source a library says it that knows nothing of spans.
        name if name.starts_with("log.") => Ok(()),
        name => write!(writer, "{name}={text}"),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn no_long_buffer_begins_a_few_bytes_behind_a_pages_start() {
        for len in [256 << 10, 512 << 10, 4 << 20, (4 << 20) + 32] {
            let buffers: Vec<Vec<u8>> = (0..4).map(|_| vec![0; len]).collect();
            for buffer in buffers {
                let behind = buffer.as_ptr().addr() % 4096;
                assert!(behind == 0 || behind >= 32, "{len}: {behind}");
            }
        }
    }
}
