//! `terahaul lab terabyte`: FileSender's challenge of 2013.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueHint};
use terahaul_core::ByteCount;
use terahaul_depot::DepotError;
use terahaul_lab::machine::Machine;
use terahaul_lab::terabyte::{Arrived, GOAL, Job, REACHED_IN_2013, Record, Terabyte, TerabyteError};

use super::limits::describe;
use crate::commands::watch::{Waited, interrupted, watch};
use crate::exit::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::output::{Event, Output, long};
use crate::settings::{Channels, Words, parse_channels, parse_size};

/// After the flags of `lab terabyte`.
pub const HELP: &str = "\
Examples:
  terahaul lab terabyte --state /var/tmp/terabyte
      The whole challenge. After Ctrl-C or a crash, the same command goes on.
  terahaul lab terabyte --size 4GB
      A taste of it; says how long a terabyte would take at that speed.

A client sends bytes made from a seed to a depot in the same process, over TLS
on loopback. Both ends hash every byte; the depot keeps the hashes and throws
the bytes away. So disks play no part, and the processors do both ends' work.
The state needs about 40 kB for each gigabyte.";

/// `terahaul lab terabyte`
#[derive(Debug, Args)]
pub struct TerabyteArgs {
    /// How much to send
    #[arg(long, default_value = "1TB", value_parser = parse_size)]
    pub size: ByteCount,
    /// Keep how far it is here, so that the same command goes on after a stop
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub state: Option<PathBuf>,
    /// What the bytes are made from
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Parallel data channels, 1 to 64, or auto
    #[arg(long, value_name = "N|auto", default_value = "auto", value_parser = Words::new(|| vec!["auto"], parse_channels), allow_negative_numbers = true, hide_possible_values = true)]
    pub channels: Channels,
}

/// How often the record is kept.
const KEEP: Duration = Duration::from_secs(5);

/// Sends it, or the rest of it.
pub async fn run(args: TerabyteArgs, output: &Output, interrupt: &Interrupt) -> Result<Exit, Failure> {
    let (state, _temporary) = match args.state {
        Some(state) => (state, None),
        None => {
            let made = tempfile::tempdir();
            let made = made.map_err(|error| Failure::place(&std::env::temp_dir(), &error))?;
            (made.path().to_owned(), Some(made))
        }
    };
    let job = Job { size: args.size, seed: args.seed, state, channels: args.channels.fixed() };
    std::fs::create_dir_all(&job.state).map_err(|error| Failure::place(&job.state, &error))?;
    let machine = Machine::here();
    output.heading(&describe(&machine));
    let earlier = Terabyte::record(&job).map_err(failure)?;
    if let Some(record) = earlier {
        if record.root.is_some() {
            output.notice("this state holds a run that is complete; another --state begins again");
            report(&record, None, &machine, output);
            return Ok(Exit::Ok);
        }
        if let Some(arrived) = Arrived::left(&job, &record) {
            output
                .notice("all has arrived in an earlier run: what was signed is compared with what was sent");
            report(&compare(arrived, interrupt).await?, None, &machine, output);
            return Ok(Exit::Ok);
        }
    }
    let terabyte = interrupt.guard(async { Terabyte::start(job).await.map_err(failure) }).await?;
    let transfer = terabyte.sending().transfer().to_string();
    let resumed = terabyte.is_resumed();
    output.emit(&Event::Start { command: "lab terabyte", transfer, name: "a terabyte", resumed });
    let sending = terabyte.sending();
    let work = async {
        let finished = async { Ok(sending.finish().await?) };
        let keep = async {
            loop {
                tokio::time::sleep(KEEP).await;
                if let Err(error) = terabyte.keep() {
                    return failure(error);
                }
            }
        };
        tokio::select! {
            sent = finished => sent,
            lost = keep => Err(lost),
        }
    };
    match watch(output, interrupt, || Some((terabyte.progress(), false)), work).await {
        Waited::Ended(sent) => {
            let sent = match sent {
                Ok(sent) => sent,
                Err(failed) => {
                    // What went wrong is known; a state that cannot be kept either adds nothing.
                    let _ = terabyte.stop().await;
                    return Err(failed);
                }
            };
            let channels = terabyte.progress().channels;
            let arrived = interrupt.guard(async { terabyte.conclude(sent).await.map_err(failure) }).await?;
            let record = compare(arrived, interrupt).await?;
            report(&record, Some(channels), &machine, output);
            Ok(Exit::Ok)
        }
        Waited::Interrupted => {
            let stopped = interrupted(&terabyte.progress());
            terabyte.stop().await.map_err(failure)?;
            Err(stopped)
        }
    }
}

async fn compare(arrived: Arrived, interrupt: &Interrupt) -> Result<Record, Failure> {
    let compared = interrupt.guard(async { arrived.compare().await.map_err(failure) }).await;
    compared.map_err(|failure| match failure.exit {
        Exit::Interrupted => Failure {
            message: "interrupted; all has arrived, and is still to be compared with what was sent: run the same command again for that".into(),
            ..failure
        },
        _ => failure,
    })
}

fn report(record: &Record, channels: Option<usize>, machine: &Machine, output: &Output) {
    let terabyte = record.time_for_a_terabyte();
    let hours = terabyte.as_secs_f64() / 3600.0;
    let times = |other: Duration| other.as_secs_f64() / terabyte.as_secs_f64();
    let runs = if record.runs > 1 { format!(" in {} runs", record.runs) } else { String::new() };
    let text = format!(
        "{} in {}{runs}, start to receipt: {:.2} GB/s, encrypted, hashed at both ends, and what was signed is what was sent\n\
         1 TB: {}\n\
         FileSender's goal: 5 h ({:.1} times that speed); reached in 2013: 3 h 19 min ({:.1} times)",
        record.size,
        long(Duration::from_secs_f64(record.seconds)),
        record.bytes_per_second() / 1e9,
        long(terabyte),
        times(GOAL),
        times(REACHED_IN_2013),
    );
    let result = serde_json::json!({
        "machine": machine,
        "record": record,
        "channels": channels,
        "bytes_per_second": record.bytes_per_second(),
        "terabyte_hours": hours,
        "goal_hours": GOAL.as_secs_f64() / 3600.0,
        "reached_in_2013_hours": REACHED_IN_2013.as_secs_f64() / 3600.0,
    });
    output.emit(&Event::Done { command: "lab terabyte", result, text });
}

fn failure(error: TerabyteError) -> Failure {
    match error {
        TerabyteError::Client(error) => error.into(),
        TerabyteError::Other { .. } => Failure::usage(error),
        TerabyteError::Different(_) => Failure::new(Exit::VerifyFailed, error.to_string()),
        TerabyteError::State { ref folder, ref source } => {
            Failure { message: error.to_string(), ..Failure::file("written", folder, source) }
        }
        TerabyteError::Depot(DepotError::Locked(_)) => Failure::usage(error),
        _ => Failure::new(Exit::Unexpected, error.to_string()),
    }
}
