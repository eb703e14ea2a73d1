//! `terahaul lab limits` and `terahaul lab ciphers`: what this machine can do alone.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueHint};
use terahaul_lab::ciphers::{self, CipherSpeed, SIZES};
use terahaul_lab::limits::{self, Limit, Measured, Plan};
use terahaul_lab::machine::Machine;
use terahaul_lab::path::read_duration;

use super::failure;
use crate::blocking::blocking;
use crate::exit::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::output::{Event, Output};

/// After the flags of `lab limits`.
pub const LIMITS: &str = "\
Examples:
  terahaul lab limits
      Hashing, files in memory, and the kernel's own network stack.
  terahaul lab limits --dir /data --dir /scratch --time 5s
      Also how fast two folders are written to, synced and read from.

Measure while nothing else runs. A transfer needs several of these at once,
often on the same processors, so each is a ceiling and not a forecast.";

/// After the flags of `lab ciphers`.
pub const CIPHERS: &str = "\
Examples:
  terahaul lab ciphers
  terahaul lab ciphers --json | jq -r '.ciphers[]?.cipher'

1 KiB is near a packet's size and what the studies of FileSender and MyData
measured; TLS seals 16 KiB at a time.";

/// `terahaul lab limits`
#[derive(Debug, Args)]
pub struct LimitsArgs {
    /// Measure this folder too; may be given several times. Files in memory are always measured
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub dir: Vec<PathBuf>,
    /// How long each part is repeated
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = read_duration)]
    pub time: Duration,
}

/// `terahaul lab ciphers`
#[derive(Debug, Args)]
pub struct CiphersArgs {
    /// How long each figure is repeated
    #[arg(long, value_name = "TIME", default_value = "0.5s", value_parser = read_duration)]
    pub time: Duration,
}

/// Measures each part of a transfer.
pub async fn limits(args: LimitsArgs, output: &Output, interrupt: &Interrupt) -> Result<Exit, Failure> {
    let memory = Path::new(limits::MEMORY_FOLDER);
    let folders = memory.is_dir().then(|| memory.to_owned()).into_iter().chain(args.dir).collect();
    let plan = Plan { folders, time: args.time };
    let machine = Machine::here();
    output.heading(&describe(&machine));
    output.heading(&format!("{:>13}  {:>13}    ±     PART", "RATE", "IN BITS"));
    let said = output.clone();
    let work = blocking(move || {
        limits::measure(&plan, &mut |limit| {
            said.emit(&Event::Measured { result: serde_json::json!(limit), text: limit_line(limit) });
        })
    });
    let limits = interrupt.guard(work).await?.map_err(|error| failure(&error))?;
    let result = serde_json::json!({ "machine": machine, "limits": limits });
    output.emit(&Event::Done { command: "lab limits", result, text: String::new() });
    Ok(Exit::Ok)
}

/// Measures each cipher and hash.
pub async fn ciphers(args: CiphersArgs, output: &Output, interrupt: &Interrupt) -> Result<Exit, Failure> {
    let machine = Machine::here();
    output.heading(&describe(&machine));
    output.heading(&format!("{:<18}  {:>13}  {:>13}  {:>13}", "MB/s", "1 KiB", "16 KiB", "every core"));
    let said = output.clone();
    let work = blocking(move || {
        let measure = |cipher: ciphers::Cipher| {
            let speed = cipher.measure(args.time);
            said.emit(&Event::Measured { result: serde_json::json!(speed), text: cipher_line(&speed) });
            speed
        };
        ciphers::ALL.into_iter().map(measure).collect::<Vec<_>>()
    });
    let speeds = interrupt.guard(work).await?;
    let result = serde_json::json!({ "machine": machine, "sizes": SIZES, "ciphers": speeds });
    output.emit(&Event::Done { command: "lab ciphers", result, text: String::new() });
    Ok(Exit::Ok)
}

/// The machine in one line.
pub(super) fn describe(machine: &Machine) -> String {
    format!(
        "{}, {} cores, {:.0} GiB, {}, {}, terahaul {}\n",
        machine.processor,
        machine.cores,
        machine.memory as f64 / f64::from(1 << 30),
        machine.kernel,
        machine.system,
        machine.terahaul
    )
}

fn limit_line(limit: &Limit) -> String {
    let Measured { bytes_per_second, deviation, .. } = limit.measured;
    let spread = 100.0 * deviation / bytes_per_second.max(1.0);
    let lost = match limit.lost {
        Some(lost) => format!(", {:.1} % lost", 100.0 * lost),
        None => String::new(),
    };
    format!(
        "{:>8.2} GB/s  {:>6.1} Gbit/s  {spread:>3.0} %  {}{lost}",
        bytes_per_second / 1e9,
        bytes_per_second * 8.0 / 1e9,
        limit.what
    )
}

fn cipher_line(speed: &CipherSpeed) -> String {
    let figure = |measured: &Measured| {
        format!("{:>7.0} ± {:<3.0}", measured.bytes_per_second / 1e6, measured.deviation / 1e6)
    };
    let one: Vec<String> = speed.one_thread.iter().map(figure).collect();
    format!("{:<18}  {:>13}  {:>13}", speed.cipher.name(), one.join("  "), figure(&speed.all_threads))
        .trim_end()
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_rate_in_bytes_and_in_bits() {
        let measured = Measured { bytes_per_second: 2.5e9, deviation: 0.05e9, runs: 9 };
        let limit = Limit {
            part: "udp-loopback".into(),
            what: "UDP".into(),
            folder: None,
            threads: 2,
            measured,
            lost: Some(0.125),
        };
        assert_eq!(limit_line(&limit).trim(), "2.50 GB/s    20.0 Gbit/s    2 %  UDP, 12.5 % lost");
        let speed = CipherSpeed {
            cipher: ciphers::Cipher::Md5,
            encrypts: false,
            one_thread: vec![measured, measured],
            all_threads: measured,
            threads: 2,
        };
        assert_eq!(cipher_line(&speed).matches("2500 ± 50").count(), 3);
    }
}
