//! `terahaul probe`: what a path is like, what limits it, and what to do about it.

mod report;
mod target;
mod temporary;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use terahaul_core::{ByteCount, TransferId};
use terahaul_lab::path::read_duration;
use terahaul_lab::probe::measuring::{Plan, Reached, Upload, download, here, reach};
use terahaul_lab::probe::{Forecast, Measurements, Transferred, advise, find_limit, forecast};
use terahaul_lab::work::Direction;
use terahaul_net::client::{Client, ClientError};
use terahaul_net::endpoint::Endpoint;

use crate::api::Api;
use crate::blocking::blocking;
use crate::exit::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::output::{Event, Output};
use crate::settings::{DepotSettings, Environment, LoginFile, parse_size};
use report::{NotMeasured, Report};
use target::Target;
use temporary::Temporary;

/// After the flags.
pub const HELP: &str = "\
Examples:
  terahaul probe
      The path to the depot that is set, in about ten seconds.
  terahaul probe --dir /data --size 40TB --files 2000000
      With the disk here, and how long a transfer of your own would take.
  terahaul probe data.example.org:22
      Any host with an open port: the round trip, and what follows from it.

Measured is TCP; on long paths a transfer tries UDP, too, and may be faster.

With a token that may send, a temporary transfer of at most 2 GiB is made at the
depot, received again, and removed. docs/probe.md says what each figure means.";

/// `terahaul probe`
#[derive(Debug, Args)]
pub struct ProbeArgs {
    /// A depot's address, or any HOST[:PORT] that answers TCP; otherwise the depot that is set
    #[arg(value_name = "DEPOT|HOST")]
    pub target: Option<String>,
    /// Say how long a transfer of this size would take
    #[arg(long, value_parser = parse_size)]
    pub size: Option<ByteCount>,
    /// … in so many files
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub files: Option<u64>,
    /// Measure the disk here, too, in this folder
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// How long to measure each direction; 4 s where the round trip is not long
    #[arg(long, value_name = "TIME", value_parser = read_duration)]
    pub time: Option<Duration>,
}

/// Measures, and says what follows.
pub async fn run(args: ProbeArgs, output: &Output, interrupt: &Interrupt) -> Result<Exit, Failure> {
    let target = Target::settle(args.target.as_deref(), &Environment::read(), LoginFile::stored)?;
    let mut probe =
        Probe { output, time: args.time, measured: Measurements::default(), not_measured: Vec::new() };
    let reached = interrupt.guard(probe.alone(&args, target.endpoint())).await?;
    let allowed = match &target {
        Target::Depot(depot) => probe.depot(depot, &reached, interrupt).await,
        Target::Host { why, .. } => {
            probe.miss_both(why);
            Ok(())
        }
    };
    if let Err(failure) = &allowed
        && failure.exit == Exit::Interrupted
    {
        return Err(failure.clone());
    }
    probe.conclude(&args, &target, &reached);
    allowed.map(|()| Exit::Ok)
}

struct Probe<'a> {
    output: &'a Output,
    time: Option<Duration>,
    measured: Measurements,
    not_measured: Vec<NotMeasured>,
}

impl Probe<'_> {
    fn miss(&mut self, what: &'static str, why: impl Into<String>) {
        self.not_measured.push(NotMeasured { what, why: why.into() });
    }

    fn miss_both(&mut self, why: &str) {
        ["up", "down"].into_iter().for_each(|what| self.miss(what, why));
    }

    /// This end, and the round trip.
    async fn alone(&mut self, args: &ProbeArgs, endpoint: &Endpoint) -> Result<Reached, Failure> {
        let place = place(endpoint);
        self.output.notice(format!("measuring the round trip to {place}, and this machine"));
        let named = endpoint.clone();
        let addresses = blocking(move || named.resolve()).await?.map_err(ClientError::from)?;
        let reached = reach(&addresses).await.map_err(|error| {
            Failure::new(
                Exit::Unreachable,
                format!(
                    "{place} cannot be reached ({error}): check the address, and name a port that is open"
                ),
            )
        })?;
        self.measured.connects.clone_from(&reached.connects);
        let dir = args.dir.clone();
        self.measured.here =
            blocking(move || here(dir.as_deref())).await?.map_err(|error| crate::lab::failure(&error))?;
        if args.dir.is_none() {
            self.miss("disk", "name a folder on it with --dir");
        }
        Ok(reached)
    }

    /// Both directions, as far as the token allows and the depot answers. Removes what it made, whatever happens. Fails where the
    /// token is not accepted at all.
    async fn depot(
        &mut self,
        depot: &DepotSettings,
        reached: &Reached,
        interrupt: &Interrupt,
    ) -> Result<(), Failure> {
        let api = Api::new(depot)?;
        let client = Client::new(depot.endpoint.clone(), depot.credential.clone())?;
        let mut temporary = Temporary::new(api.clone())?;
        let work = self.directions(&api, &client, reached.address, &mut temporary);
        let ended = interrupt.guard(work).await;
        let left = temporary.remove().await;
        match ended {
            Err(failure) if failure.exit == Exit::Interrupted => {
                let message = left.unwrap_or_else(|| "interrupted; nothing is left at the depot".into());
                Err(Failure { message, ..failure })
            }
            other => {
                left.into_iter().for_each(|left| self.output.notice(left));
                other
            }
        }
    }

    async fn directions(
        &mut self,
        api: &Api,
        client: &Client,
        address: SocketAddr,
        temporary: &mut Temporary,
    ) -> Result<(), Failure> {
        let session = match api.session().await {
            Ok(session) => session,
            Err(failure) => {
                self.miss_both(&failure.message);
                return if failure.exit == Exit::Denied { Err(failure) } else { Ok(()) };
            }
        };
        let may = |scope: &str| session.scopes.iter().any(|has| has == scope || has == "own");
        let plan = Plan::new(self.time, self.measured.rtt().unwrap_or(0.0));
        let mut complete = None;
        if may("send") {
            self.output.notice(format!("sending for {} s", plan.time.as_secs_f32()));
            let sent = async {
                let upload = Upload::open(client.clone(), address, temporary.key(), plan).await?;
                temporary.transfer = Some(upload.transfer());
                upload.run().await
            };
            match sent.await {
                Ok(uploaded) => {
                    complete = temporary.transfer.filter(|_| uploaded.complete);
                    match (&uploaded.moved, uploaded.cut_short) {
                        (None, None) => self.miss("up", "nothing arrived in time"),
                        (None, Some(error)) => self.miss("up", error.to_string()),
                        (Some(_), Some(error)) => {
                            self.output.notice(format!("sending ended early: {error}"));
                        }
                        (Some(_), None) => {}
                    }
                    self.measured.up = uploaded.moved;
                }
                Err(error) => self.miss("up", error.to_string()),
            }
        } else {
            self.miss("up", "the token may not send");
        }
        let readable = match complete {
            None if may("receive") => largest(api).await,
            other => Ok(other),
        };
        match readable {
            Err(failure) => self.miss("down", failure.message),
            Ok(Some(transfer)) => {
                self.output.notice(format!("receiving for {} s at most", plan.time.as_secs_f32()));
                match download(client.clone(), address, transfer, plan).await {
                    Ok(None) => self.miss("down", "nothing came in time"),
                    Ok(moved) => self.measured.down = moved,
                    Err(error) => self.miss("down", error.to_string()),
                }
            }
            Ok(None) if may("receive") => self.miss("down", "the depot has no transfer to receive"),
            Ok(None) if may("send") => self.miss("down", "what was sent did not arrive whole"),
            Ok(None) => self.miss("down", "the token may neither send nor receive"),
        }
        Ok(())
    }

    fn conclude(&self, args: &ProbeArgs, target: &Target, reached: &Reached) {
        let measured = &self.measured;
        let advice = advise(measured);
        let forecasts = self.forecasts(args);
        let limit = |moved: &Option<Transferred>, direction| {
            moved.as_ref().map(|moved| find_limit(measured, moved, direction))
        };
        let place = place(target.endpoint());
        let times = forecasts.iter().map(|(up, down)| serde_json::json!({ "up": up, "down": down }));
        let result = serde_json::json!({
            "target": place,
            "address": reached.address,
            "depot": matches!(target, Target::Depot(_)),
            "rtt": measured.rtt(),
            "jitter": measured.jitter(),
            "measured": measured,
            "not_measured": self.not_measured,
            "limits": {
                "up": limit(&measured.up, Direction::Put),
                "down": limit(&measured.down, Direction::Get),
            },
            "advice": advice,
            "forecasts": times.collect::<Vec<_>>(),
        });
        let report = Report {
            place,
            measured,
            not_measured: &self.not_measured,
            advice: &advice,
            forecasts: &forecasts,
        };
        self.output.emit(&Event::Done { command: "probe", result, text: report.text() });
    }

    fn forecasts(&self, args: &ProbeArgs) -> Vec<(Option<Forecast>, Option<Forecast>)> {
        const TERABYTE: u64 = 1_000_000_000_000;
        const SMALL_FILES: u64 = 100_000;
        const SMALL_FILE: u64 = 10_000;
        let asked = match (args.size, args.files) {
            (None, None) => vec![(TERABYTE, 1), (SMALL_FILES * SMALL_FILE, SMALL_FILES)],
            (size, files) => vec![(size.map_or(TERABYTE, |size| size.0), files.unwrap_or(1))],
        };
        let Measurements { up, down, .. } = &self.measured;
        if up.is_none() && down.is_none() {
            return Vec::new();
        }
        let time = |moved: &Option<Transferred>, direction, (size, files)| {
            moved.as_ref().map(|moved| forecast(&self.measured, moved, direction, size, files))
        };
        let both = |asked| (time(up, Direction::Put, asked), time(down, Direction::Get, asked));
        asked.into_iter().map(both).collect()
    }
}

/// The largest transfer that can be received.
async fn largest(api: &Api) -> Result<Option<TransferId>, Failure> {
    const LATEST: usize = 200;
    let transfers = api.transfers(LATEST).await?;
    let whole = transfers.iter().filter(|transfer| transfer.state == "complete" && transfer.bytes > 0);
    Ok(whole.max_by_key(|transfer| transfer.bytes).and_then(|transfer| transfer.id.parse().ok()))
}

/// `host:port`.
fn place(endpoint: &Endpoint) -> String {
    endpoint.base_url().trim_start_matches("https://").to_owned()
}
