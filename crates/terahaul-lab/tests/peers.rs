//! Every peer that is on this machine: started, made to move a file and a tree both ways, compared, stopped; and
//! nothing is left of it.

#![allow(clippy::unwrap_used)] // helpers of tests, too, may unwrap

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use terahaul_core::ByteCount;
use terahaul_lab::compare::{CompareError, News, Outcome, Plan, Results, compare};
use terahaul_lab::peer::{self, Availability};
use terahaul_lab::work::{Direction, TreeOrigin, WorkSpec};
use terahaul_lab::{LabError, report};

/// The program as cargo's tests have built it, beside this test.
fn terahaul() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    own.ancestors().nth(2).unwrap().join("terahaul")
}

struct Trial {
    scratch: tempfile::TempDir,
    out: tempfile::TempDir,
    folder: tempfile::TempDir,
}

impl Trial {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for number in 0..20 {
            let path = folder.path().join(format!("d{}", number % 7)).join(format!("f {number}.txt"));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "line\n".repeat(number)).unwrap();
        }
        std::os::unix::fs::symlink("f 7.txt", folder.path().join("d0/link")).unwrap();
        // In memory, as comparisons are: on a disk the servers' syncs take most of the time.
        let memory = Path::new("/dev/shm");
        let scratch = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
        Self { scratch: scratch.unwrap(), out: tempfile::tempdir().unwrap(), folder }
    }

    fn tree(&self) -> TreeOrigin {
        TreeOrigin::Folder(self.folder.path().to_owned())
    }

    fn plan(&self, path: &str, peers: Vec<String>, works: Vec<WorkSpec>) -> Plan {
        Plan {
            paths: vec![path.parse().unwrap()],
            works,
            directions: vec![Direction::Put, Direction::Get],
            peers,
            runs: 0,
            limit: Duration::from_secs(30),
            scratch: self.scratch.path().to_owned(),
            terahaul: terahaul(),
            command: "a test".to_owned(),
        }
    }

    /// `None` where this machine cannot emulate paths.
    fn compare(&self, plan: &Plan) -> Option<Results> {
        let results = compare(plan, self.out.path(), &AtomicBool::new(false), &mut |_| {});
        match results {
            Err(CompareError::Lab(error @ (LabError::NotPermitted(_) | LabError::NoTun(_)))) => {
                println!("skipped: {error}");
                None
            }
            results => Some(results.unwrap()),
        }
    }

    /// Whether anything of it is left: files, or processes that name its folders.
    fn leftovers(&self) -> Vec<String> {
        let files = fs::read_dir(self.scratch.path())
            .unwrap()
            .map(|entry| entry.unwrap().path().display().to_string());
        files.chain(processes_of(self.scratch.path())).collect()
    }
}

fn processes_of(folder: &Path) -> Vec<String> {
    let folder = folder.display().to_string();
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let command = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let command = String::from_utf8_lossy(&command).replace('\0', " ");
        if command.contains(&folder) && !command.contains("peers-") {
            found.push(command);
        }
    }
    found
}

fn peers_here() -> Vec<String> {
    let mut names = Vec::new();
    for peer in peer::all(&terahaul()) {
        match peer::availability(peer.as_ref()) {
            Availability::Here => names.push(peer.name().to_owned()),
            Availability::NotHere(why) => println!("skipped: {}: {why}", peer.name()),
        }
    }
    names
}

/// Fails with all that went wrong, and returns how often each peer could not.
fn all_arrived(results: &Results) -> BTreeMap<String, usize> {
    let mut cannot = BTreeMap::new();
    let mut wrong = Vec::new();
    for run in &results.runs {
        match &run.outcome {
            Outcome::Arrived => {
                assert!(run.seconds > 0.0, "{:?}", run.cell);
                let out = run.counters.near_to_far.delivered + run.counters.far_to_near.delivered;
                assert!(out > 0, "nothing crossed the path: {:?}", run.cell);
            }
            Outcome::Cannot => *cannot.entry(run.cell.peer.clone()).or_default() += 1,
            other => wrong.push(format!("{:?}: {other:?}", run.cell)),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    cannot
}

/// In three parts, which mostly wait for servers to start.
#[test]
fn every_peer_moves_a_file_and_a_tree_both_ways() {
    let peers = peers_here();
    std::thread::scope(|scope| {
        for some in peers.chunks(peers.len().div_ceil(3).max(1)) {
            scope.spawn(|| move_a_file_and_a_tree_both_ways(some));
        }
    });
}

fn move_a_file_and_a_tree_both_ways(peers: &[String]) {
    let trial = Trial::new();
    let works = vec![WorkSpec::File(ByteCount(3_000_000)), WorkSpec::Tree(trial.tree())];
    let Some(results) = trial.compare(&trial.plan("lan", peers.to_vec(), works)) else { return };
    assert_eq!(results.runs.len(), peers.len() * 4, "every peer, both works, both ways");
    // What a protocol cannot is known, so that a peer that gives up by mistake is noticed.
    let expected = [
        ("mydata", 4),
        ("nfs4", 3),
        ("https-get", 2),
        ("https-put", 2),
        ("terahaul-http", 2),
        ("udt", 3),
        ("quic", 3),
    ];
    let expected = expected.into_iter().filter(|(name, _)| peers.iter().any(|peer| peer == name));
    let expected: BTreeMap<String, usize> = expected.map(|(name, times)| (name.to_owned(), times)).collect();
    assert_eq!(all_arrived(&results), expected);
    assert_eq!(trial.leftovers(), [""; 0]);
    let read = Results::read(trial.out.path()).unwrap();
    assert_eq!(read.runs.len(), results.runs.len());
    assert!(read.finished && read.machine.program.is_some());
    let page = report::html(&read);
    assert!(peers.iter().all(|peer| page.contains(peer.as_str())));
}

#[test]
fn packed_changed_and_small_files_arrive_too() {
    let trial = Trial::new();
    let wanted = ["sftp", "rsyncd", "ftp", "smb", "terahaul"];
    let peers: Vec<String> =
        peers_here().into_iter().filter(|name| wanted.contains(&name.as_str())).collect();
    let works = vec![WorkSpec::Tar(trial.tree()), WorkSpec::Update(trial.tree()), WorkSpec::Meta(40)];
    let Some(results) = trial.compare(&trial.plan("lan", peers.clone(), works)) else { return };
    let cannot = all_arrived(&results);
    // Only protocols with single operations can do `meta`.
    let small: Vec<&String> = peers.iter().filter(|name| !cannot.contains_key(*name)).collect();
    assert!(small.iter().all(|name| ["sftp", "ftp", "smb"].contains(&name.as_str())), "{small:?}");
    let packed = results
        .runs
        .iter()
        .find(|run| run.cell.work.starts_with("tar") && run.cell.peer == "rsyncd")
        .unwrap();
    let phases: Vec<&str> = packed.phases.iter().map(|phase| phase.name.as_str()).collect();
    assert_eq!(phases, ["pack", "transfer", "unpack"]);
}

#[test]
fn what_is_there_already_and_what_comes_together_arrives_too() {
    let trial = Trial::new();
    let wanted = ["rsync-ssh", "mydata", "terahaul-cp"];
    let peers: Vec<String> =
        peers_here().into_iter().filter(|name| wanted.contains(&name.as_str())).collect();
    let works = vec![
        WorkSpec::Again(trial.tree()),
        WorkSpec::Edited(ByteCount(5_000_000)),
        WorkSpec::Inserted(ByteCount(5_000_000)),
        WorkSpec::Small(1_200),
        WorkSpec::Batch(3, ByteCount(2_000_000)),
    ];
    let Some(results) = trial.compare(&trial.plan("lan", peers, works)) else { return };
    // It only uploads files that are in one folder.
    assert_eq!(all_arrived(&results).into_iter().collect::<Vec<_>>(), [("mydata".to_owned(), 9)]);
    assert_eq!(trial.leftovers(), [""; 0]);
}

#[test]
fn what_takes_too_long_is_cut_and_has_a_rate() {
    let trial = Trial::new();
    let slow = "filesender-100ms+rate=10mbit";
    let mut plan = trial.plan(slow, vec!["rsyncd".to_owned()], vec![WorkSpec::File(ByteCount(40_000_000))]);
    plan.limit = Duration::from_secs(4);
    plan.directions = vec![Direction::Put];
    plan.runs = 3;
    if peers_here().iter().all(|name| name != "rsyncd") {
        return;
    }
    let Some(results) = trial.compare(&plan) else { return };
    // It is not asked again.
    assert_eq!(results.runs.len(), 1);
    assert_eq!(results.runs[0].outcome, Outcome::Cut);
    let cell = results.summary(&results.runs[0].cell).unwrap();
    let rate = cell.cut_rate.unwrap().median;
    assert!((10_000.0..1_250_000.0).contains(&rate), "{rate} bytes a second");
    assert!(report::markdown(&results).contains("cut after 4"));
    assert_eq!(trial.leftovers(), [""; 0]);
}

#[test]
fn a_user_who_stops_it_finds_nothing_left_but_results() {
    let trial = Trial::new();
    let works = [1, 40_000_000].map(|size| WorkSpec::File(ByteCount(size)));
    let mut plan = trial.plan("lan", peers_here(), works.to_vec());
    plan.peers.truncate(3);
    plan.directions = vec![Direction::Put];
    let stop = AtomicBool::new(false);
    let ended = compare(&plan, trial.out.path(), &stop, &mut |news| {
        if let News::Begins { cell, .. } = news
            && cell.work == works[1].to_string()
        {
            stop.store(true, Ordering::Relaxed);
        }
    });
    match ended {
        Err(CompareError::Interrupted) => {}
        Err(CompareError::Lab(LabError::NotPermitted(_) | LabError::NoTun(_))) => return println!("skipped"),
        other => panic!("{other:?}"),
    }
    assert_eq!(trial.leftovers(), [""; 0]);
    let results = Results::read(trial.out.path()).unwrap();
    assert_eq!((results.runs.len(), results.finished), (plan.peers.len(), false));
}

/// Not a test: what the next one starts and kills.
#[test]
#[ignore = "started by the test of crashes"]
fn victim() {
    let (scratch, out) = (std::env::var("LAB_SCRATCH").unwrap(), std::env::var("LAB_OUT").unwrap());
    let trial = Trial::new();
    let plan = Plan {
        scratch: scratch.into(),
        ..trial.plan("satellite", peers_here(), vec![WorkSpec::File(ByteCount(400_000_000))])
    };
    compare(&plan, Path::new(&out), &AtomicBool::new(false), &mut |_| {}).unwrap();
}

#[test]
fn a_crash_leaves_no_process_and_the_next_run_removes_its_files() {
    let trial = Trial::new();
    if trial.compare(&trial.plan("lan", Vec::new(), vec![WorkSpec::Meta(1)])).is_none()
        || peers_here().is_empty()
    {
        return;
    }
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "victim"])
        .env("LAB_SCRATCH", trial.scratch.path())
        .env("LAB_OUT", trial.out.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let until = |what: &str, done: &dyn Fn() -> bool| {
        let deadline = Instant::now() + Duration::from_secs(30);
        while !done() {
            assert!(Instant::now() < deadline, "{what}: {:?}", processes_of(trial.scratch.path()));
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    until("servers run", &|| processes_of(trial.scratch.path()).len() > 2);
    victim.kill().unwrap();
    victim.wait().unwrap();
    until("servers are gone", &|| processes_of(trial.scratch.path()).is_empty());
    assert_eq!(fs::read_dir(trial.scratch.path()).unwrap().count(), 1);
    trial.compare(&trial.plan("lan", Vec::new(), vec![WorkSpec::Meta(1)]));
    assert_eq!(trial.leftovers(), [""; 0]);
}
