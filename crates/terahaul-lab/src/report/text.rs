//! Numbers and sentences that both reports share.

use crate::compare::statistics::Summary;
use crate::compare::{CellSummary, Outcome, PathRecord, Results, WorkRecord};
use crate::machine::Machine;
use crate::peer::keeps_to_itself;
use crate::work::{Direction, Kind};
use terahaul_core::ByteCount;

/// Three digits that matter.
pub(super) fn number(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        a if a >= 99.95 => format!("{value:.0}"),
        a if a >= 9.995 => format!("{value:.1}"),
        a if a >= 0.0995 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// `12.3 ± 0.4`, as CESNET's tables have it.
pub(super) fn mean_and_deviation(summary: &Summary) -> String {
    if summary.runs < 2 {
        return number(summary.mean);
    }
    format!("{} ± {}", number(summary.mean), number(summary.deviation))
}

/// Bits a second, from bytes a second.
pub(super) fn mbit(bytes_per_second: f64) -> f64 {
    bytes_per_second * 8.0 / 1e6
}

/// The path and what it runs with, in one line.
pub(super) fn path_line(path: &PathRecord) -> String {
    let spec = path.spec.to_string();
    match &path.spec.cc {
        Some(_) => spec,
        None if path.congestion_control.is_empty() => spec,
        None => format!("{spec}, {} (this kernel's default)", path.congestion_control),
    }
}

/// What TCP's payload can reach on the path, in bytes a second.
pub(super) fn full_rate(path: &PathRecord, direction: Direction) -> f64 {
    let out = path.spec.payload_rate().bytes_per_second() as f64;
    let way = match direction {
        Direction::Put => path.spec.rate,
        Direction::Get => path.spec.return_rate(),
    };
    out * way.bytes_per_second() as f64 / path.spec.rate.bytes_per_second() as f64
}

/// What a section is about.
pub(super) fn section_title(work: &WorkRecord, direction: Direction) -> String {
    if work.kind == Kind::Meta { work.name.clone() } else { format!("{}, {}", work.name, direction.name()) }
}

/// What the work is, in one sentence.
pub(super) fn work_line(work: &WorkRecord, direction: Direction) -> String {
    let (bytes, files) = (ByteCount(work.bytes), work.files);
    let way = match direction {
        Direction::Put => "from the client to the server",
        Direction::Get => "from the server to the client",
    };
    match work.kind {
        Kind::File => format!("One file of {bytes} that cannot be compressed, {way}."),
        Kind::Tree => format!("A tree of {files} files, {bytes}, and {} symbolic links, {way}.", work.links),
        Kind::Tar => format!(
            "A tree of {files} files, {bytes}: packed with tar, moved as one file {way}, and unpacked. All three count."
        ),
        Kind::Update => format!(
            "A tree of {files} files, {bytes}, {way}, where the other end has it already but for one file in a hundred \
             that has changed."
        ),
        Kind::Again => {
            format!(
                "A tree of {files} files, {bytes}, {way}, where the other end has it already, and nothing has changed."
            )
        }
        Kind::Small => format!("{files} files of a kilobyte, a thousand to a folder, {way}."),
        Kind::Batch => format!("{files} files, {bytes} in all, that cannot be compressed, {way}."),
        Kind::Edited => format!(
            "One file of {bytes} that cannot be compressed, {way}, where the other end has an older one. A hundredth of it has \
             changed, in a hundred places."
        ),
        Kind::Inserted => format!(
            "One file of {bytes} that cannot be compressed, {way}, where the other end has an older one, which lacks the first \
             megabyte."
        ),
        Kind::Meta => format!(
            "{files} files of a few bytes: created, asked for their status, listed and removed, one by one."
        ),
    }
}

/// Less processor time stolen than this is within what figures vary anyway.
const WORTH_SAYING: f64 = 0.05;

/// One line of a table.
pub(super) struct Line {
    pub(super) peer: String,
    /// Mean ± deviation in seconds, or what happened instead.
    pub(super) seconds: String,
    pub(super) median: String,
    pub(super) rate: String,
    /// Of what the line carries in payload.
    pub(super) of_line: String,
    /// How many times the first peer's time this one's goes into.
    pub(super) ratio: String,
    pub(super) cost: String,
    pub(super) packets: String,
    /// What else has to be said.
    pub(super) notes: Vec<String>,
}

pub(super) const COLUMNS: [&str; 8] = [
    "",
    "seconds (mean ± deviation)",
    "median",
    "Mbit/s",
    "of the line",
    "times as fast as the first",
    "CPU s near + far",
    "lost / queue drops",
];

impl Line {
    pub(super) fn cells(&self) -> [&str; 8] {
        [
            &self.peer,
            &self.seconds,
            &self.median,
            &self.rate,
            &self.of_line,
            &self.ratio,
            &self.cost,
            &self.packets,
        ]
    }
}

/// The table of one work, direction and path.
pub(super) fn lines(
    results: &Results,
    work: &WorkRecord,
    direction: Direction,
    path: &PathRecord,
) -> Vec<Line> {
    let row = results.row(&work.name, direction, &path.name);
    let reference = results.peers.iter().find(|peer| peer.not_here.is_none()).map(|peer| peer.name.as_str());
    let first = row.iter().find(|cell| Some(cell.cell.peer.as_str()) == reference);
    let first = first.and_then(|cell| Some((cell.expected_seconds(work)?, cell.seconds.is_some())));
    let full = full_rate(path, direction);
    row.iter().map(|cell| line(results, work, cell, first, full)).collect()
}

fn line(
    results: &Results,
    work: &WorkRecord,
    cell: &CellSummary,
    first: Option<(f64, bool)>,
    full: f64,
) -> Line {
    let dash = || "–".to_owned();
    let limit = number(results.limit_seconds);
    let (seconds, rate, of_line) = match (&cell.seconds, &cell.rates, &cell.cut_rate) {
        (Some(seconds), Some(rates), _) if work.kind != Kind::Meta => {
            let share = format!("{:.0} %", 100.0 * rates.median / full);
            (mean_and_deviation(seconds), number(mbit(rates.median)), share)
        }
        (Some(seconds), ..) => (mean_and_deviation(seconds), dash(), dash()),
        (None, _, Some(cut)) => (
            format!("cut after {limit} s"),
            format!("{} (wire, until cut)", number(mbit(cut.median))),
            dash(),
        ),
        (None, ..) if cell.cannot => ("cannot".to_owned(), dash(), dash()),
        (None, ..) if cell.failures.is_empty() => ("not measured".to_owned(), dash(), dash()),
        (None, ..) => ("failed".to_owned(), dash(), dash()),
    };
    let ratio = first.zip(cell.expected_seconds(work)).map(|((first, measured), own)| {
        // Where one of them was cut, its time is what its rate lets expect.
        let about = if measured && cell.seconds.is_some() { "" } else { "about " };
        format!("{about}{:.2} ×", first / own)
    });
    let (lost, dropped, sent) = cell.packets;
    let mut notes = Vec::new();
    if !cell.phases.is_empty() {
        let phases = cell.phases.iter().map(|(name, seconds)| {
            let each = (work.kind == Kind::Meta && name != "list" && *seconds > 0.0)
                .then(|| format!(" ({} a second)", number(work.files as f64 / seconds)));
            format!("{name} {} s{}", number(*seconds), each.unwrap_or_default())
        });
        notes.push(format!("medians of the phases: {}", phases.collect::<Vec<_>>().join(", ")));
    }
    notes.extend(note_on_runs(results, cell));
    notes.extend(note_on_depot(work, cell));
    if work.links > 0 && cell.seconds.is_some() && cell.links_kept < work.links {
        notes.push(format!("{} of {} symbolic links arrived as links", cell.links_kept, work.links));
    }
    if cell.missed > 0 {
        notes.push(format!(
            "this machine was too slow for {} packets: the figures are of the machine, not of the path",
            cell.missed
        ));
    }
    if cell.stolen >= WORTH_SAYING {
        notes.push(format!(
            "this machine's host gave {:.0} % of the processor time to others: the figures are of that, too",
            cell.stolen * 100.0
        ));
    }
    notes.extend(cell.failures.iter().map(|failure| format!("a run failed: {failure}")));
    Line {
        peer: cell.cell.peer.clone(),
        median: cell.seconds.as_ref().map_or_else(dash, |seconds| number(seconds.median)),
        seconds,
        rate,
        of_line,
        ratio: ratio.unwrap_or_else(dash),
        cost: cell.cost.map_or_else(dash, |(near, far)| format!("{} + {}", number(near), number(far))),
        packets: if sent == 0 { dash() } else { format!("{lost} / {dropped} of {sent}") },
        notes,
    }
}

/// Figures of fewer runs than were asked for say less, and without those that were cut they look better.
fn note_on_runs(results: &Results, cell: &CellSummary) -> Option<String> {
    let arrived = cell.seconds.as_ref()?.runs;
    let fewer = format!("the figures are of {arrived} of {} runs", results.runs_each);
    match cell.cut {
        0 => (arrived < results.runs_each as usize).then_some(fewer),
        cut => Some(format!("{cut} cut after {} s: {fewer}", number(results.limit_seconds))),
    }
}

/// What a depot does with a tree is not what the others do.
fn note_on_depot(work: &WorkRecord, cell: &CellSummary) -> Option<String> {
    if !keeps_to_itself(&cell.cell.peer, cell.cell.direction) || cell.rates.or(cell.cut_rate).is_none() {
        return None;
    }
    match work.kind {
        Kind::Tar => Some("the depot keeps what was packed as it is, and nothing is unpacked".to_owned()),
        Kind::Tree | Kind::Update | Kind::Again | Kind::Small | Kind::Batch => Some(format!(
            "the depot keeps all of it as one object; others make {} files at the far end",
            work.files
        )),
        Kind::File | Kind::Edited | Kind::Inserted | Kind::Meta => None,
    }
}

/// What must be known before any figure.
pub(super) fn unfinished(results: &Results) -> Option<&'static str> {
    (!results.finished)
        .then_some("This comparison did not come to its end: what is missing here was not measured.")
}

/// The kernel's bounds for sockets' buffers, where they were recorded.
pub(super) fn buffers(machine: &Machine) -> Option<String> {
    let each: Vec<String> = machine.buffers.iter().map(|(name, value)| format!("{name} {value}")).collect();
    (!each.is_empty()).then(|| each.join("; "))
}

/// Terahaul's version, and which build it was.
pub(super) fn program(machine: &Machine) -> String {
    let hash = machine.program.as_ref().map(|hash| format!(", BLAKE3 of the program {hash}"));
    machine.terahaul.clone() + &hash.unwrap_or_default()
}

/// The phases of the last counted run of each peer, for the command lines.
pub(super) fn commands<'a>(
    results: &'a Results,
    work: &WorkRecord,
    direction: Direction,
    path: &PathRecord,
) -> Vec<(&'a str, &'a [crate::compare::PhaseRecord])> {
    let mut all = Vec::new();
    for peer in &results.peers {
        let of_cell = |run: &&crate::compare::Run| {
            run.cell.work == work.name
                && run.cell.direction == direction
                && run.cell.path == path.name
                && run.cell.peer == peer.name
                && run.outcome != Outcome::Cannot
        };
        if let Some(run) = results.runs.iter().rev().find(of_cell) {
            all.push((peer.name.as_str(), run.phases.as_slice()));
        }
    }
    all
}

/// How the figures came about, for readers who were not there.
pub(super) fn method(results: &Results) -> Vec<String> {
    let runs = results.runs_each;
    let mut method = vec![
        format!(
            "Each peer ran once to warm up, which does not count, and then {runs} {}, in alternation with the others; each \
             round began with another peer.",
            if runs == 1 { "time" } else { "times" }
        ),
        "A time is from the start of the client's command to its end, so connecting, authenticating and, where a protocol \
         has them, synchronising and receipts are part of it. Nothing else of the protocols was tuned."
            .to_owned(),
        "After every run all files were read again and their BLAKE3 hashes compared with the originals; a run whose bytes \
         differ is a failure and not a time. What Terahaul's depot keeps is read out of its store."
            .to_owned(),
        format!(
            "A run was cut short after {} s. Its rate is then what the path delivered until that moment, headers included, \
             and the peer was not run again on that path.",
            number(results.limit_seconds)
        ),
        "The path is emulated: two network namespaces on one machine, and between them a process with a TUN device in each \
         that gives packets their rate, queue, delay and loss. Processor seconds are those of the peers' own processes at \
         both ends; what the emulator uses is not in them."
            .to_owned(),
        "'Of the line' is the payload's rate against what TCP's payload can reach on this path. 'Lost' are packets that the \
         path's loss took, 'queue drops' those that found the queue full, in both directions, on average of the runs."
            .to_owned(),
        format!(
            "Files were in {}.{}{}",
            results.scratch,
            if results.scratch.contains("tmpfs") {
                " A sync does nothing there, so that it costs nobody anything."
            } else {
                ""
            },
            if results.memory_warmed {
                " The memory that runs take was touched before them, and a page in each mebibyte kept so that the host does \
                 not take the rest back: a virtual machine gets its memory from its host only when it is touched first, \
                 which costs whoever does it more than the copy."
            } else {
                ""
            }
        ),
    ];
    if results.machine.in_a_user_namespace {
        method.push(
            "The lab did not have the system's root: peers whose servers need it are left out, and the emulator had no \
             priority over other programs, so that delays are less exact while the machine is busy."
                .to_owned(),
        );
    }
    method
}
