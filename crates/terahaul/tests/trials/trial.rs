//! One trial: a tree is sent and received while the client, the depot or both are killed at bytes that a seed picks.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::Child;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::planted::{Planted, large_files, small_files};
use crate::proxy::{Proxy, Way};
use crate::random::Random;
use crate::rig::{Depot, PATIENCE, assert_same, describe, spawn};

/// What trials came to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    pub clients_killed: u32,
    pub depots_killed: u32,
    /// Runs that a crash ended, or that ended because the depot was gone.
    pub runs: u32,
    /// Bytes that were durable after a crash, and so were not sent again.
    pub spared: u64,
}

impl Tally {
    pub fn add(&mut self, other: Self) {
        self.clients_killed += other.clients_killed;
        self.depots_killed += other.depots_killed;
        self.runs += other.runs;
        self.spared += other.spared;
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Victim {
    Client,
    Depot,
    Both,
}

/// A client's process, and what it says.
struct Client {
    child: Arc<Mutex<Child>>,
    stdout: JoinHandle<String>,
    stderr: JoinHandle<String>,
}

/// A client that ended.
struct Ended {
    code: Option<i32>,
    events: Vec<Value>,
    text: String,
}

impl Client {
    fn start(command: std::process::Command) -> Self {
        let mut child = spawn(command);
        let (mut stdout, mut stderr) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        let read = |from: &mut dyn Read| {
            let mut bytes = Vec::new();
            from.read_to_end(&mut bytes).unwrap();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        Self {
            child: Arc::new(Mutex::new(child)),
            stdout: std::thread::spawn(move || read(&mut stdout)),
            stderr: std::thread::spawn(move || read(&mut stderr)),
        }
    }

    fn has_ended(&self) -> bool {
        self.child.lock().unwrap().try_wait().unwrap().is_some()
    }

    fn end(self) -> Ended {
        let code = self.child.lock().unwrap().wait().unwrap().code();
        let (stdout, stderr) = (self.stdout.join().unwrap(), self.stderr.join().unwrap());
        // A line that a kill cut short is no event.
        let events = stdout.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        Ended { code, events, text: format!("{stdout}{stderr}") }
    }
}

impl Ended {
    /// What was durable by the last progress event.
    fn done_bytes(&self) -> u64 {
        self.events.iter().rev().find_map(|event| event["done_bytes"].as_u64()).unwrap_or(0)
    }

    fn result(&self) -> &Value {
        self.events.iter().rfind(|event| event["event"] == "done").unwrap_or(&Value::Null)
    }
}

struct Trial {
    random: Random,
    depot: Depot,
    proxy: Proxy,
    planted: Planted,
    /// What was seen in the folder of published transfers, by name: it must never change.
    published: BTreeMap<String, blake3::Hash>,
    /// How many transfers the depot had when the run that is under way began, or 1. A run whose sender dies after the
    /// depot published it is over, and the same command then makes another transfer.
    transfers: usize,
    tally: Tally,
    began: Instant,
    /// What happened when, for a panic's reader.
    story: Story,
}

/// Tells its lines when it is dropped by a panic.
#[derive(Default)]
struct Story(Vec<String>);

impl Drop for Story {
    fn drop(&mut self) {
        if std::thread::panicking() || std::env::var_os("TERAHAUL_SEED").is_some() {
            eprintln!("{}", self.0.join("\n"));
        }
    }
}

/// Runs the trial that `seed` decides. Panics when a promise is broken.
pub fn run_trial(seed: u64) -> Tally {
    let mut random = Random::new(seed);
    let depot = Depot::start_in(home(seed), &[], &[]);
    let src = depot.path("src");
    let planted =
        if seed.is_multiple_of(2) { small_files(&src, &mut random) } else { large_files(&src, &mut random) };
    let proxy = Proxy::to(depot.listen.parse().unwrap());
    let mut trial = Trial {
        random,
        depot,
        proxy,
        planted,
        published: BTreeMap::new(),
        transfers: 1,
        tally: Tally::default(),
        began: Instant::now(),
        story: Story::default(),
    };
    let link = trial.send();
    trial.check_published();
    assert_eq!(trial.published.len(), trial.transfers, "every transfer is published");
    assert_eq!(names(&trial.depot.path("depot/store/incoming")), ["0-generation"], "nothing is left over");
    trial.receive(&link);
    trial.check_published();
    assert_same(&trial.depot.path("src"), &trial.depot.path("dst/src"));
    assert_eq!(names(&trial.depot.path("dst")), ["src"], "nothing is left over");
    trial.tally
}

/// Small files in memory, where there is room: planting and comparing them takes a disk longer than the trial.
fn home(seed: u64) -> tempfile::TempDir {
    const ROOM: u64 = 4 << 30;
    let memory = Path::new("/dev/shm");
    let free = rustix::fs::statvfs(memory).map_or(0, |found| found.f_bavail * found.f_frsize);
    let in_memory = (seed.is_multiple_of(2) && free > ROOM).then(|| tempfile::tempdir_in(memory).ok());
    in_memory.flatten().unwrap_or_else(|| tempfile::tempdir().unwrap())
}

impl Trial {
    /// Sends `src`, crash after crash; returns the link.
    fn send(&mut self) -> String {
        let args = self.command_line("send", &["src"]);
        let ended = self.survive(&args, Way::ToDepot);
        let link = ended.result()["link"].as_str().unwrap();
        let (_, secret) = link.split_once("/t/").unwrap();
        format!("https://{}/t/{secret}", self.proxy.address)
    }

    fn receive(&mut self, link: &str) {
        let args = self.command_line("receive", &[link, "dst"]);
        self.survive(&args, Way::ToClient);
    }

    fn command_line(&mut self, command: &str, rest: &[&str]) -> Vec<String> {
        let mut args = vec![command.to_owned(), "--json".to_owned()];
        args.extend(rest.iter().map(ToString::to_string));
        // Slow enough for some groups to become durable on the way; now and then as fast as it goes.
        let seconds = self.random.below(4);
        if let Some(rate) = self.planted.bytes.checked_div(seconds) {
            args.extend(["--limit".to_owned(), format!("{}kB", rate / 1000 + 1)]);
        }
        if self.random.one_in(3) {
            args.extend(["--channels".to_owned(), (1 + self.random.below(4)).to_string()]);
        }
        args
    }

    fn tell(&mut self, what: impl std::fmt::Display) {
        let bytes = [Way::ToDepot, Way::ToClient].map(|way| self.proxy.bytes(way));
        self.story.0.push(format!("{:>8.3} s {bytes:?} {what}", self.began.elapsed().as_secs_f64()));
    }

    fn start(&mut self, args: &[String]) -> Client {
        self.tally.runs += 1;
        self.tell(args.join(" "));
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let mut command = self.depot.command(&args);
        let (_, pin) = self.depot.url.split_once('#').unwrap();
        command.env("TERAHAUL_URL", format!("https://{}/#{pin}", self.proxy.address));
        Client::start(command)
    }

    /// Runs a command, again and again, through one to three crashes and to its end.
    fn survive(&mut self, args: &[String], way: Way) -> Ended {
        let crashes = 1 + self.random.below(3);
        let mut kept = 0;
        let mut fresh = true;
        let mut base = self.proxy.bytes(way);
        let mut client = self.start(args);
        for _ in 0..crashes {
            let victim = *self.random.pick(&[Victim::Client, Victim::Depot, Victim::Both]);
            self.tell(format!("{victim:?} will die, {kept} of {} are kept", self.planted.bytes));
            self.set_trap(way, base, self.planted.bytes - kept, victim, &client);
            self.wait_for_trap_or_end(&client);
            if !self.proxy.remove_trap() {
                break;
            }
            self.tell("killed");
            // From here on everything stands still, but for a client that lives and finds nobody.
            self.proxy.close();
            self.check_final_names();
            self.check_published();
            self.tally.clients_killed += u32::from(victim != Victim::Depot);
            self.tally.depots_killed += u32::from(victim != Victim::Client);
            let lives = victim == Victim::Depot && !client.has_ended();
            let ended = if lives { Err(client) } else { Ok(client.end()) };
            if victim != Victim::Client {
                self.depot.restart();
            }
            self.tell("the depot runs");
            kept = self.check_moved(base, kept, way, "before a crash");
            let ended = match ended {
                Ok(faster @ Ended { code: Some(0), .. }) => {
                    self.proxy.open();
                    return faster;
                }
                other => other,
            };
            kept = match (way, &ended) {
                (Way::ToDepot, _) => self.durable_at_depot(),
                (Way::ToClient, Ok(ended)) => kept.max(ended.done_bytes()),
                (Way::ToClient, Err(_)) => kept,
            };
            self.tally.spared += kept;
            base = self.proxy.bytes(way);
            self.proxy.open();
            (client, fresh) = match ended {
                Ok(ended) => {
                    self.check_interrupted(&ended, victim, kept, way);
                    (self.start(args), true)
                }
                Err(alive) => (alive, false),
            };
        }
        let ended = client.end();
        self.tell(format_args!("ended with {:?}", ended.code));
        kept = self.check_moved(base, kept, way, "to the end");
        if ended.code == Some(3) && !fresh {
            // The depot was gone when it mattered most; running it again is what the message says.
            base = self.proxy.bytes(way);
            let again = self.start(args).end();
            assert_eq!(again.code, Some(0), "{}", again.text);
            self.check_moved(base, kept, way, "again");
            return again;
        }
        assert_eq!(ended.code, Some(0), "{}", ended.text);
        if fresh {
            let moved = ended.result()["moved_bytes"].as_u64().unwrap();
            let missing = self.planted.bytes - kept;
            // Where blocks may be compressed, pieces that are not have a header each.
            assert!(
                moved <= missing + missing / 4096,
                "{moved} bytes were moved, only {missing} were missing"
            );
        }
        ended
    }

    fn set_trap(&mut self, way: Way, base: u64, missing: u64, victim: Victim, client: &Client) {
        // Now and then just when everything was sent: syncing, signing, publishing are under way.
        let late = self.random.one_in(4);
        let at = if late { missing } else { self.random.below(missing + missing / 50 + 2000) };
        let delay = if late || self.random.one_in(4) { self.random.below(60) } else { 0 };
        let (child, depot) = (Arc::clone(&client.child), self.depot.process());
        self.proxy.set_trap(way, base + at, move || {
            std::thread::sleep(Duration::from_millis(delay));
            if victim != Victim::Depot {
                child.lock().unwrap().kill().unwrap();
            }
            if victim != Victim::Client {
                kill_process(Pid::from_raw(depot as i32).unwrap(), Signal::KILL).unwrap();
            }
        });
    }

    fn wait_for_trap_or_end(&self, client: &Client) {
        let deadline = Instant::now() + PATIENCE;
        while !self.proxy.has_sprung() && !client.has_ended() {
            if Instant::now() >= deadline {
                let client = client.child.lock().unwrap().id();
                let [client, depot] = [client, self.depot.process()].map(where_it_waits);
                panic!("the command neither ends nor goes on; it waits in {client}; the depot in {depot}");
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Since the last crash no more went over the wire than was missing then, but for what TLS, the manifest and the
    /// receipt take. Returns what was kept of the transfer that this was for.
    fn check_moved(&mut self, base: u64, kept: u64, way: Way, when: &str) -> u64 {
        let kept = if way == Way::ToDepot && self.began_another() { 0 } else { kept };
        let (moved, missing) = (self.proxy.bytes(way) - base, self.planted.bytes - kept);
        let beside = missing / 128 + self.planted.entries * 1000 + (256 << 10);
        assert!(
            moved <= missing + beside,
            "{when}: {moved} bytes went {way:?}, only {missing} were missing ({:?})",
            self.planted
        );
        kept
    }

    /// Whether the last run made another transfer. It may only when those before were complete.
    fn began_another(&mut self) -> bool {
        let transfers = self.listed();
        for earlier in transfers.iter().skip(1) {
            assert_eq!(earlier["state"], "complete", "it was to be gone on with");
            assert_eq!(durable(earlier), self.planted.bytes, "published before it was durable");
        }
        let another = transfers.len() > self.transfers;
        if another {
            self.tell("another transfer");
            self.transfers = transfers.len();
        }
        another
    }

    /// A client ended by its own death, or because the depot was gone.
    fn check_interrupted(&self, ended: &Ended, victim: Victim, kept: u64, way: Way) {
        if victim == Victim::Depot {
            assert_eq!(ended.code, Some(3), "{}", ended.text);
            assert!(ended.text.contains("cannot be reached"), "{}", ended.text);
        } else {
            assert!(ended.code.is_none() || victim == Victim::Both, "{:?} {}", ended.code, ended.text);
        }
        if way == Way::ToDepot {
            assert!(
                ended.done_bytes() <= kept,
                "the depot called {} bytes durable and kept {kept}",
                ended.done_bytes()
            );
        }
    }

    /// The depot's transfers, newest first.
    fn listed(&self) -> Vec<Value> {
        let listed = self.depot.run(&["list", "--json"]);
        assert_eq!(listed.code, 0, "{}", listed.stderr);
        listed.events()
    }

    /// What the depot has for good of the newest transfer; 0 before it has heard of one.
    fn durable_at_depot(&self) -> u64 {
        let transfers = self.listed();
        let durable = transfers.first().map_or(0, durable);
        if !transfers.is_empty() && self.published.len() == transfers.len() {
            assert_eq!(durable, self.planted.bytes, "published before it was durable");
        }
        durable
    }

    /// What is published at the depot is complete: it never changes afterwards.
    fn check_published(&mut self) {
        let folder = self.depot.path("depot/store/published");
        for name in names(&folder) {
            let hash = blake3::hash(&fs::read(folder.join(&name)).unwrap());
            let first = *self.published.entry(name.clone()).or_insert(hash);
            assert_eq!(first, hash, "{name} was published and then changed");
        }
    }

    /// What has its final name in the receiving folder is whole.
    fn check_final_names(&self) {
        let dst = self.depot.path("dst");
        if names(&dst).iter().all(|name| name.starts_with(".terahaul-")) {
            return;
        }
        let sent: BTreeMap<_, _> = describe(&self.depot.path("src")).into_iter().collect();
        for (path, what) in describe(&dst) {
            let (Ok(path), false) = (path.strip_prefix("src"), what.starts_with("folder")) else { continue };
            assert_eq!(sent.get(path), Some(&what), "{path:?} is half-written");
        }
    }
}

fn durable(transfer: &Value) -> u64 {
    transfer["durable_bytes"].as_u64().unwrap()
}

/// What the kernel knows of a process's threads.
fn where_it_waits(process: u32) -> String {
    let Ok(threads) = fs::read_dir(format!("/proc/{process}/task")) else {
        return "nothing: it is gone".into();
    };
    let of = |thread: fs::DirEntry| {
        let read =
            |what: &str| fs::read_to_string(thread.path().join(what)).unwrap_or_default().trim().to_owned();
        format!("{} {} {}", read("comm"), read("wchan"), read("syscall"))
    };
    threads.flatten().map(of).collect::<Vec<_>>().join("; ")
}

fn names(folder: &Path) -> Vec<String> {
    let Ok(found) = fs::read_dir(folder) else { return Vec::new() };
    let mut names: Vec<_> =
        found.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}
