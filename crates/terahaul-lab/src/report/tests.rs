//! Reports say what was measured, all of it, and nothing that a name could smuggle in.

use super::*;
use crate::compare::{Cell, Cost, Outcome, PathRecord, PeerRecord, PhaseRecord, Results, Run, WorkRecord};
use crate::machine::Machine;
use crate::path::{PathCounters, ready};
use crate::peer::End;
use crate::work::{Direction, Kind};

const PATHS: [(&str, f64); 2] = [("filesender-100ms", 0.0), ("lossy", 0.01)];

fn results() -> Results {
    let peer = |name: &str, not_here: Option<&str>| PeerRecord {
        name: name.to_owned(),
        about: format!("about {name}"),
        versions: vec![format!("{name} 1.0")],
        not_here: not_here.map(str::to_owned),
    };
    let path = |name: &str| PathRecord {
        name: name.to_owned(),
        spec: ready::find(name).unwrap(),
        congestion_control: "cubic".to_owned(),
    };
    let mut results = Results {
        format: Results::FORMAT,
        began: "2026-11-21T20:00:00Z".to_owned(),
        command: "terahaul lab compare --with <scp>".to_owned(),
        machine: Machine { processor: "A processor".to_owned(), cores: 2, ..Machine::default() },
        runs_each: 2,
        limit_seconds: 600.0,
        scratch: "/dev/shm (tmpfs, in memory)".to_owned(),
        memory_warmed: true,
        paths: PATHS.map(|(name, _)| path(name)).to_vec(),
        works: vec![WorkRecord {
            name: "file:100MB".to_owned(),
            kind: Kind::File,
            bytes: 100_000_000,
            files: 1,
            links: 0,
        }],
        peers: vec![
            peer("scp", None),
            peer("terahaul", None),
            peer("nfs4", Some("apt-get install nfs-ganesha")),
        ],
        runs: Vec::new(),
        finished: true,
    };
    for (round, scp, own) in [(0, 90.0, 9.0), (1, 10.0, 1.0), (2, 12.0, 1.0)] {
        results.runs.push(run("filesender-100ms", "scp", round, Outcome::Arrived, scp));
        results.runs.push(run("filesender-100ms", "terahaul", round, Outcome::Arrived, own));
    }
    results.runs.push(run("lossy", "scp", 0, Outcome::Cut, 600.0));
    results.runs.push(run("lossy", "terahaul", 0, Outcome::Arrived, 2.0));
    results.runs.push(run("lossy", "terahaul", 1, Outcome::Differs("1 missing, first a|b".to_owned()), 2.0));
    results.runs.push(run("lossy", "terahaul", 2, Outcome::Arrived, 2.0));
    results
}

fn run(path: &str, peer: &str, round: u32, outcome: Outcome, seconds: f64) -> Run {
    let mut counters = PathCounters::default();
    counters.near_to_far.sent = 1_000;
    counters.near_to_far.lost = 7;
    Run {
        cell: Cell {
            work: "file:100MB".to_owned(),
            direction: Direction::Put,
            path: path.to_owned(),
            peer: peer.to_owned(),
        },
        round,
        outcome,
        seconds,
        phases: vec![PhaseRecord {
            name: "transfer".to_owned(),
            end: End::Near,
            command: format!("{peer} file far:"),
            seconds,
        }],
        cost: Cost { near: 1.0, far: 2.0 },
        counters,
        delivered: vec![1_000_000; 60],
        links_kept: 0,
        stolen: 0.0,
    }
}

#[test]
fn the_table_has_means_medians_and_ratios_without_the_warm_up() {
    let markdown = markdown(&results());
    let scp = "| scp | 11.0 ± 1.41 | 11.0 | 73.3 | 8 % | 1.00 × | 1.00 + 2.00 | 7 / 0 of 1000 |";
    assert!(markdown.contains(scp), "{markdown}");
    assert!(markdown.contains("| terahaul | 1.00 ± 0 | 1.00 | 800 | 83 % | 11.00 × |"), "{markdown}");
}

#[test]
fn a_cut_is_a_rate_and_bytes_that_differ_are_a_failure() {
    let markdown = markdown(&results());
    assert!(markdown.contains("| scp | cut after 600 s | – | 0.80 (wire, until cut) |"), "{markdown}");
    assert!(
        markdown.contains("- terahaul: a run failed: what arrived differs: 1 missing, first a|b"),
        "{markdown}"
    );
}

#[test]
fn what_is_compared_with_a_cut_first_peer_is_no_more_than_an_estimate() {
    let mut results = results();
    let page = markdown(&results);
    // 100 MB at the 100 kB/s that the path delivered, over two seconds; what was ended took what it cost along.
    assert!(
        page.contains("| scp | cut after 600 s | – | 0.80 (wire, until cut) | – | about 1.00 × | – |"),
        "{page}"
    );
    assert!(page.contains("| terahaul | 2.00 | 2.00 | 400 | 41 % | about 500.00 × |"), "{page}");
    results.runs.retain(|run| run.cell.path != "lossy" || run.cell.peer != "scp");
    let mut cut = run("lossy", "scp", 0, Outcome::Cut, 600.0);
    cut.delivered.clear();
    results.runs.push(cut);
    let page = markdown(&results);
    assert!(page.contains("| terahaul | 2.00 | 2.00 | 400 | 41 % | – |"), "{page}");
}

/// They were left out without a word, and what is left looked like all of it.
#[test]
fn runs_that_are_not_in_the_figures_are_said_to_be_missing() {
    let mut results = results();
    let page = markdown(&results);
    assert!(page.contains("- terahaul: the figures are of 1 of 2 runs"), "one differs: {page}");
    assert_eq!(page.matches("the figures are of 1 of 2").count(), 1);
    let last = results.runs.iter_mut().rfind(|run| run.cell.path == "filesender-100ms").unwrap();
    (last.outcome, last.seconds) = (Outcome::Cut, 600.0);
    let page = markdown(&results);
    assert!(page.contains("- terahaul: 1 cut after 600 s: the figures are of 1 of 2 runs"), "{page}");
}

#[test]
fn the_plot_is_of_a_run_that_arrived_where_there_is_one() {
    let mut results = results();
    let all = html(&results);
    let differs = results.runs.iter_mut().find(|run| matches!(run.outcome, Outcome::Differs(_))).unwrap();
    (differs.seconds, differs.delivered) = (1.0, vec![3]);
    assert!(html(&results) == all, "another run is drawn");
}

/// What goes over the wire is the work's bytes only where they are neither compressed nor there already.
#[test]
fn a_cut_run_lets_expect_a_time_only_where_its_rate_is_that_of_the_work() {
    let ratio_to_cut = |kind, peer: &str| {
        let mut results = results();
        results.works[0].kind = kind;
        results.peers[0].name = peer.to_owned();
        results
            .runs
            .iter_mut()
            .filter(|run| run.cell.peer == "scp")
            .for_each(|run| run.cell.peer = peer.to_owned());
        markdown(&results).contains("about 500.00 ×")
    };
    assert!(ratio_to_cut(Kind::Tree, "scp") && ratio_to_cut(Kind::Batch, "tar-ssh-zstd"));
    assert!(!ratio_to_cut(Kind::Tree, "tar-ssh-zstd"));
    for kind in [Kind::Tar, Kind::Update, Kind::Again, Kind::Edited, Kind::Inserted] {
        assert!(!ratio_to_cut(kind, "scp"), "{kind:?}");
    }
}

#[test]
fn an_interrupted_comparison_says_so_and_hides_no_peer() {
    let mut results = results();
    assert!(!markdown(&results).contains("did not come to its end"));
    results.finished = false;
    results.runs.retain(|run| run.cell.path != "lossy" && (run.cell.peer != "scp" || run.round == 0));
    for page in [markdown(&results), html(&results).replace("</td><td>", " | ")] {
        assert!(
            page.contains("did not come to its end") && page.contains("scp | not measured | – |"),
            "{page}"
        );
    }
}

/// Of one that was cut nothing is known, and it was said of all that none had.
#[test]
fn how_many_links_arrived_is_of_a_run_that_arrived() {
    let mut results = results();
    results.works[0].links = 3;
    results.runs.iter_mut().filter(|run| run.outcome == Outcome::Arrived).for_each(|run| run.links_kept = 3);
    let cut = Run { outcome: Outcome::Cut, links_kept: 0, ..results.runs[1].clone() };
    assert_eq!(results.runs[1].outcome, Outcome::Arrived);
    results.runs.push(cut);
    let page = markdown(&results);
    assert!(!page.contains("symbolic links arrived"), "{page}");
}

#[test]
fn a_depot_that_keeps_a_tree_as_one_object_is_said_to() {
    let mut results = results();
    results.works[0] = WorkRecord { kind: Kind::Small, files: 9_000, ..results.works[0].clone() };
    let note = "- terahaul: the depot keeps all of it as one object; others make 9000 files at the far end";
    let page = markdown(&results);
    assert!(page.contains(note) && !page.contains("- scp: the depot"), "{page}");
    results.runs.iter_mut().for_each(|run| run.cell.direction = Direction::Get);
    assert!(!markdown(&results).contains("the depot keeps"));
}

#[test]
fn a_reader_who_was_not_there_finds_everything() {
    let results = results();
    let pages = [markdown(&results), html(&results).replace("&lt;", "<").replace("&gt;", ">")];
    for page in pages {
        for expected in [
            "terahaul lab compare --with <scp>",
            "1 Gbit/s, round trip 100ms, loss 1% after the bottleneck",
            "cubic (this kernel's default)",
            "scp file far:",
            "scp 1.0",
            "apt-get install nfs-ganesha",
            "A processor",
            "/dev/shm (tmpfs, in memory)",
            "cut short after 600 s",
        ] {
            assert!(page.contains(expected), "'{expected}' is missing in\n{page}");
        }
    }
}

#[test]
fn the_page_needs_nothing_else_and_its_elements_close() {
    let page = html(&results());
    for outside in ["http://", "https://", "src=", "@import", "<script", "<link"] {
        assert!(!page.contains(outside), "{outside}");
    }
    for element in ["svg", "table", "tr", "td", "details", "h2", "p", "pre", "text", "ul"] {
        let opened =
            page.matches(&format!("<{element}>")).count() + page.matches(&format!("<{element} ")).count();
        assert_eq!(opened, page.matches(&format!("</{element}>")).count(), "<{element}>");
    }
    assert!(page.contains("prefers-color-scheme: dark"));
    assert!(
        page.contains("class=\"error\"")
            && page.contains("<polyline")
            && page.contains("rect class=\"c0 cut\"")
    );
}

#[test]
fn paths_that_form_a_grid_get_a_heat_map() {
    let mut results = results();
    assert!(!html(&results).contains("Round trip and loss"));
    let mut grid = Vec::new();
    for (rtt, loss) in [(10, "0"), (10, "1%"), (100, "0"), (100, "1%")] {
        let name = format!("filesender-100ms+rtt={rtt}ms+loss={loss}");
        let named: crate::compare::NamedPath = name.parse().unwrap();
        grid.push(PathRecord {
            name: name.clone(),
            spec: named.spec,
            congestion_control: "cubic".to_owned(),
        });
        results.runs.push(run(&name, "scp", 1, Outcome::Arrived, 2.0));
    }
    results.paths = grid;
    let page = html(&results);
    assert!(page.contains("Round trip and loss: 1 Gbit/s, MTU 1500, cubic"));
    assert_eq!(page.matches("class=\"h3\"").count(), 4, "400 Mbit/s of 965");
    assert!(!page.contains("cut</text>"));
    let last = results.runs.last_mut().unwrap();
    (last.outcome, last.seconds) = (Outcome::Cut, 600.0);
    assert!(html(&results).contains("0.80 cut</text>"));
    results.paths[0].spec.seed = 7;
    assert!(html(&results).contains("Round trip and loss"));
    results.paths[0].spec.jitter = std::time::Duration::from_millis(3);
    assert!(!html(&results).contains("Round trip and loss"), "it differs in more than round trip and loss");
}

#[test]
fn results_survive_being_written_and_read() {
    let folder = tempfile::tempdir().unwrap();
    let results = results();
    results.write(folder.path()).unwrap();
    let read = Results::read(folder.path()).unwrap();
    assert_eq!(markdown(&read), markdown(&results));
    assert_eq!(html(&read), html(&results));
    // Those that were written before some of it was recorded can be read, too.
    let file = folder.path().join("results.json");
    let mut older: serde_json::Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    older.as_object_mut().unwrap().remove("finished");
    let machine = older["machine"].as_object_mut().unwrap();
    for name in ["buffers", "in_a_user_namespace"] {
        machine.remove(name).unwrap();
    }
    std::fs::write(&file, older.to_string()).unwrap();
    assert!(Results::read(folder.path()).unwrap().finished);
    std::fs::write(&file, "{}").unwrap();
    let refusal = Results::read(folder.path()).unwrap_err().to_string();
    assert!(refusal.contains("measure again"), "{refusal}");
}
