//! `terahaul probe`: what a path is like, what limits it, and what to do about it.

mod report;
mod target;
mod temporary;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueHint};
use terahaul_core::{ByteCount, Priority, TransferId, Transport};
use terahaul_lab::path::read_duration;
use terahaul_lab::probe::measuring::{Plan, Reached, Upload, download, here, reach};
use terahaul_lab::probe::{Directions, Forecast, Measurements, advise, find_limit, forecast};
use terahaul_lab::work::Direction;
use terahaul_net::client::{Client, ClientError};
use terahaul_net::endpoint::Endpoint;

use crate::api::Api;
use crate::blocking::blocking;
use crate::exit::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::output::{Event, Output, printable_text};
use crate::settings::{DepotSettings, Environment, LoginFile, Words, parse_size, parse_transport, whole};
use report::{NotMeasured, Report};
use target::Target;
use temporary::Temporary;

/// After the flags.
pub const HELP: &str = "\
Examples:
  terahaul probe
      The path to the depot that is set, in ten seconds; on long paths, where
      a transfer tries UDP beside TCP, both are measured, in twenty.
  terahaul probe --dir /data --size 40TB --files 2000000
      With the disk here, and how long a transfer of your own would take.
  terahaul probe data.example.org:22
      Any host with an open port: the round trip, and what follows from it.

With a token that may send, a temporary transfer of at most 2 GiB is made at the
depot, received again, and removed, once over TCP and once over UDP.
docs/probe.md says what each figure means.";

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
    #[arg(long, value_name = "N", value_parser = whole::<u64>("files", 1..=u64::MAX), allow_negative_numbers = true)]
    pub files: Option<u64>,
    /// Measure the disk here, too, in this folder
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub dir: Option<PathBuf>,
    /// How long to measure each direction; 4 s where the round trip is not long
    #[arg(long, value_name = "TIME", value_parser = read_duration)]
    pub time: Option<Duration>,
    /// What to measure over: auto is TCP, and UDP where a transfer would try it
    #[arg(long, value_name = "auto|tcp|udp|tcp+udp", default_value = "auto", value_parser = Words::new(|| vec!["auto", "tcp", "udp", "tcp+udp"], parse_transport), hide_possible_values = true)]
    pub transport: Transport,
}

/// Measures, and says what follows.
pub async fn run(args: ProbeArgs, output: &Output, interrupt: &Interrupt) -> Result<Exit, Failure> {
    let target = Target::settle(args.target.as_deref(), &Environment::read(), LoginFile::stored)?;
    let mut probe = Probe {
        output,
        time: args.time,
        transport: args.transport,
        measured: Measurements::default(),
        not_measured: Vec::new(),
    };
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

/// A depot, and what may be measured there.
struct Measurable {
    api: Api,
    client: Client,
    address: SocketAddr,
    may_send: bool,
    may_receive: bool,
}

struct Probe<'a> {
    output: &'a Output,
    time: Option<Duration>,
    transport: Transport,
    measured: Measurements,
    not_measured: Vec<NotMeasured>,
}

/// To the depot and from it, as what was not measured is named.
const TCP: [&str; 2] = ["up", "down"];
const UDP: [&str; 2] = ["udp_up", "udp_down"];

impl Probe<'_> {
    fn miss(&mut self, what: &'static str, why: impl AsRef<str>) {
        // They may be the depot's own words, and the report is printed as it is.
        self.not_measured.push(NotMeasured { what, why: printable_text(why.as_ref()) });
    }

    fn miss_both(&mut self, why: &str) {
        TCP.into_iter().for_each(|what| self.miss(what, why));
    }

    /// The ways to measure: over TCP, over UDP.
    fn plans(&self) -> Vec<Plan> {
        let rtt = self.measured.rtt().unwrap_or(0.0);
        let tcp = Plan::new(self.time, rtt);
        let udp =
            self.transport.wants_udp(Duration::from_secs_f64(rtt), Priority::Fair).then(|| tcp.over_udp());
        (self.transport != Transport::Udp).then_some(tcp).into_iter().chain(udp).collect()
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

    /// Both directions over each way, as far as the token allows and the depot answers. Fails where the token is not accepted at all.
    async fn depot(
        &mut self,
        depot: &DepotSettings,
        reached: &Reached,
        interrupt: &Interrupt,
    ) -> Result<(), Failure> {
        let api = Api::new(depot)?;
        let client = Client::new(depot.endpoint.clone(), depot.credential.clone())?;
        let session = match interrupt.guard(api.session()).await {
            Ok(session) => session,
            Err(failure) => {
                self.miss_both(&failure.message);
                return if matches!(failure.exit, Exit::Denied | Exit::Interrupted) {
                    Err(failure)
                } else {
                    Ok(())
                };
            }
        };
        let may = |scope: &str| session.scopes.iter().any(|has| has == scope || has == "own");
        let (may_send, may_receive) = (may("send"), may("receive"));
        let there = Measurable { api, client, address: reached.address, may_send, may_receive };
        for plan in self.plans() {
            self.way(&there, plan, interrupt).await?;
        }
        Ok(())
    }

    /// Both directions over one way. Removes what it made, whatever happens.
    async fn way(&mut self, there: &Measurable, plan: Plan, interrupt: &Interrupt) -> Result<(), Failure> {
        let mut temporary = Temporary::new(there.api.clone())?;
        let ended = interrupt.guard(self.directions(there, plan, &mut temporary)).await;
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
        there: &Measurable,
        plan: Plan,
        temporary: &mut Temporary,
    ) -> Result<(), Failure> {
        let Measurable { client, address, may_send, may_receive, .. } = there;
        let [up, down] = if plan.udp { UDP } else { TCP };
        let over = if plan.udp { " over UDP" } else { "" };
        let mut measured = Directions::default();
        let mut complete = None;
        if *may_send {
            self.output.notice(format!("sending{over} for {} s", plan.time.as_secs_f32()));
            let sent = async {
                let upload = Upload::open(client.clone(), *address, temporary.key(), plan).await?;
                temporary.transfer = Some(upload.transfer());
                upload.run().await
            };
            match sent.await {
                Ok(uploaded) => {
                    complete = temporary.transfer.filter(|_| uploaded.complete);
                    match (&uploaded.moved, uploaded.cut_short) {
                        (None, None) => self.miss(up, "nothing arrived in time"),
                        (None, Some(error)) => self.miss(up, said(&error)),
                        (Some(_), Some(error)) => {
                            self.output.notice(format!("sending ended early: {}", said(&error)));
                        }
                        (Some(_), None) => {}
                    }
                    measured.up = uploaded.moved;
                }
                Err(error) => self.miss_over(up, &error),
            }
        } else {
            self.miss(up, "the token may not send");
        }
        let readable = match complete {
            // What does not get there over UDP does not come from there, and to find that out takes long.
            None if self.measured.udp_blocked => Ok(None),
            None if *may_receive => largest(&there.api).await,
            other => Ok(other),
        };
        match readable {
            Err(failure) => self.miss(down, failure.message),
            Ok(Some(transfer)) => {
                self.output.notice(format!("receiving{over} for {} s at most", plan.time.as_secs_f32()));
                match download(client.clone(), *address, transfer, plan).await {
                    Ok(None) => self.miss(down, "nothing came in time"),
                    Ok(moved) => measured.down = moved,
                    Err(error) => self.miss_over(down, &error),
                }
            }
            Ok(None) if self.measured.udp_blocked => self.miss(down, "UDP does not get through"),
            Ok(None) if *may_send => self.miss(down, "what was sent did not arrive whole"),
            Ok(None) if *may_receive => self.miss(down, "the depot has no transfer to receive"),
            Ok(None) => self.miss(down, "the token may neither send nor receive"),
        }
        *if plan.udp { &mut self.measured.udp } else { &mut self.measured.tcp } = measured;
        Ok(())
    }

    fn miss_over(&mut self, what: &'static str, error: &ClientError) {
        self.measured.udp_blocked |= matches!(error, ClientError::NoUdp { .. });
        self.miss(what, said(error));
    }

    fn conclude(&self, args: &ProbeArgs, target: &Target, reached: &Reached) {
        let measured = &self.measured;
        let advice = advise(measured);
        let forecasts = self.forecasts(args);
        let limits = |ways: &Directions| {
            let limit = |direction| Some(find_limit(measured, ways.of(direction)?, direction));
            serde_json::json!({ "up": limit(Direction::Put), "down": limit(Direction::Get) })
        };
        let mut limit = limits(&measured.tcp);
        limit["udp"] = limits(&measured.udp);
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
            "limits": limit,
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
        const TERABYTE: ByteCount = ByteCount(1_000_000_000_000);
        const SMALL_FILES: u64 = 100_000;
        const SMALL_FILE: u64 = 10_000;
        let asked = match (args.size, args.files) {
            (None, None) => vec![(TERABYTE, 1), (ByteCount(SMALL_FILES * SMALL_FILE), SMALL_FILES)],
            (size, files) => vec![(size.unwrap_or(TERABYTE), files.unwrap_or(1))],
        };
        let time = |direction, (size, files)| {
            let moved = self.measured.fastest(direction)?;
            Some(forecast(&self.measured, moved, direction, size, files))
        };
        let both = |asked| (time(Direction::Put, asked), time(Direction::Get, asked));
        asked.into_iter().map(both).filter(|(up, down)| up.is_some() || down.is_some()).collect()
    }
}

/// What went wrong, without what it means for a transfer: a probe keeps nothing, and resumes nothing.
fn said(error: &ClientError) -> String {
    let said = error.to_string();
    said.split_once("; what has arrived is kept").map(|(said, _)| said.to_owned()).unwrap_or(said)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_does_not_say_that_it_resumes() {
        let (host, detail) = ("depot.example:8750".to_owned(), "no answer".to_owned());
        let without = ClientError::WithoutUdp { host: host.clone() };
        let blocked = ClientError::NoUdp { host: host.clone(), detail: detail.clone() };
        let here = ClientError::UdpHere(std::io::ErrorKind::Other.into());
        for error in [without, blocked, here, ClientError::Unreachable { host, detail }] {
            let said = said(&error);
            assert!(!said.contains("kept") && !said.contains("resumes") && said.contains(": "), "{said}");
        }
    }
}
