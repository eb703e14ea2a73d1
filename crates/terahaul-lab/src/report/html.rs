//! The report as one HTML page that loads nothing.

use std::fmt::Write;

use terahaul_core::ByteCount;

use super::heat::heat_maps;
use super::plot::{Bar, Series, bars, escaped, over_time};
use super::text::{
    COLUMNS, Line, buffers, commands, full_rate, lines, mbit, method, number, path_line, program,
    section_title, unfinished, work_line,
};
use crate::compare::{CellSummary, Outcome, PathRecord, Results, WorkRecord};
use crate::work::{Direction, Kind};

/// The report as one HTML page that loads nothing.
pub fn html(results: &Results) -> String {
    let mut out = String::new();
    let _ = write_all(&mut out, results);
    out
}

fn write_all(out: &mut String, results: &Results) -> std::fmt::Result {
    let style = include_str!("style.css");
    writeln!(
        out,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>Terahaul lab: comparison of {began}</title>\n<style>\n{style}</style>\n</head>\n<body>\n\
         <h1>Programs that move files, side by side</h1>\n<p class=\"soft\">Measured by Terahaul's lab, {began}</p>\n<pre>{}</pre>",
        escaped(&results.command),
        began = escaped(&results.began),
    )?;
    if let Some(sentence) = unfinished(results) {
        writeln!(out, "<p class=\"bad\">{sentence}</p>")?;
    }
    for (work, direction) in results.sections() {
        writeln!(
            out,
            "<h2>{}</h2>\n<p>{}</p>",
            escaped(&section_title(work, direction)),
            escaped(&work_line(work, direction))
        )?;
        out.push_str(&heat_maps(results, work, direction));
        for path in &results.paths {
            section(out, results, work, direction, path)?;
        }
    }
    about(out, results)?;
    out.push_str("</body>\n</html>\n");
    Ok(())
}

fn section(
    out: &mut String,
    results: &Results,
    work: &WorkRecord,
    direction: Direction,
    path: &PathRecord,
) -> std::fmt::Result {
    let lines = lines(results, work, direction, path);
    if lines.is_empty() {
        return Ok(());
    }
    writeln!(out, "<h3>{}</h3>\n<p class=\"soft\">{}.</p>", escaped(&path.name), escaped(&path_line(path)))?;
    let title = format!("{} on {}", section_title(work, direction), path.name);
    let row = results.row(&work.name, direction, &path.name);
    if work.kind == Kind::Meta {
        out.push_str(&bars(
            &format!("Seconds, {title}"),
            &bars_of(results, &row, |cell| {
                cell.seconds.map(|s| (s.mean, s.deviation, format!("{} s", number(s.mean))))
            }),
            None,
        ));
    } else {
        let rate = |cell: &CellSummary| {
            let rates = cell.rates.or(cell.cut_rate)?;
            Some((mbit(rates.mean), mbit(rates.deviation), format!("{} Mbit/s", number(mbit(rates.mean)))))
        };
        let full = mbit(full_rate(path, direction));
        let of_line = format!("line: {} Mbit/s of payload", number(full));
        out.push_str(&bars(
            &format!("Rates, {title}"),
            &bars_of(results, &row, rate),
            Some((full, &of_line)),
        ));
    }
    table(out, &lines)?;
    let series: Vec<Series> = row.iter().filter_map(|cell| middle_run(results, cell)).collect();
    let plot = over_time(&format!("Throughput over time, {title}"), "Mbit/s on the wire", &series);
    if !plot.is_empty() {
        writeln!(
            out,
            "<p class=\"note\">Throughput over time, of the run with the middle time of each peer:</p>\n{plot}"
        )?;
    }
    writeln!(out, "<details><summary>Command lines</summary>")?;
    for (peer, phases) in commands(results, work, direction, path) {
        for phase in phases {
            writeln!(
                out,
                "<p class=\"note\">{}, {}</p><pre>{}</pre>",
                escaped(peer),
                escaped(&phase.name),
                escaped(&phase.command)
            )?;
        }
    }
    writeln!(out, "</details>")
}

fn colour(results: &Results, peer: &str) -> usize {
    results.peers.iter().position(|record| record.name == peer).unwrap_or(0)
}

fn bars_of(
    results: &Results,
    row: &[CellSummary],
    value: impl Fn(&CellSummary) -> Option<(f64, f64, String)>,
) -> Vec<Bar> {
    let bar = |cell: &CellSummary| {
        let (value, deviation, mut label) = value(cell)?;
        let cut = cell.seconds.is_none();
        if cut {
            label.push_str(", cut");
        }
        let name = cell.cell.peer.clone();
        Some(Bar { colour: colour(results, &name), name, value, deviation, label, cut })
    };
    row.iter().filter_map(bar).collect()
}

/// The run with the middle time stands for the others, as in the table: those that arrived, where any did.
fn middle_run(results: &Results, cell: &CellSummary) -> Option<Series> {
    let mut runs = results.counted(&cell.cell);
    if runs.iter().any(|run| run.outcome == Outcome::Arrived) {
        runs.retain(|run| run.outcome == Outcome::Arrived);
    }
    runs.retain(|run| run.delivered.iter().any(|bytes| *bytes > 0));
    runs.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    let run = runs.get(runs.len().saturating_sub(1) / 2)?;
    Some(Series::of_samples(&cell.cell.peer, colour(results, &cell.cell.peer), &run.delivered))
}

fn table(out: &mut String, lines: &[Line]) -> std::fmt::Result {
    let head = COLUMNS.map(|column| format!("<th>{}</th>", escaped(column))).concat();
    writeln!(out, "<div class=\"wide\"><table class=\"figures\"><thead><tr>{head}</tr></thead><tbody>")?;
    for line in lines {
        let cells = line.cells().map(|cell| format!("<td>{}</td>", escaped(cell))).concat();
        writeln!(out, "<tr>{cells}</tr>")?;
    }
    writeln!(out, "</tbody></table></div>")?;
    if lines.iter().any(|line| !line.notes.is_empty()) {
        writeln!(out, "<ul class=\"note\">")?;
        for line in lines {
            for note in &line.notes {
                writeln!(out, "<li>{}: {}</li>", escaped(&line.peer), escaped(note))?;
            }
        }
        writeln!(out, "</ul>")?;
    }
    Ok(())
}

fn about(out: &mut String, results: &Results) -> std::fmt::Result {
    writeln!(out, "<h2>How it was measured</h2>\n<ul>")?;
    for sentence in method(results) {
        writeln!(out, "<li>{}</li>", escaped(&sentence))?;
    }
    writeln!(out, "</ul>\n<h2>Paths</h2>\n<div class=\"wide\"><table class=\"texts\"><tbody>")?;
    for path in &results.paths {
        writeln!(out, "<tr><td>{}</td><td>{}</td></tr>", escaped(&path.name), escaped(&path_line(path)))?;
    }
    writeln!(
        out,
        "</tbody></table></div>\n<h2>Peers</h2>\n<div class=\"wide\"><table class=\"texts\"><tbody>"
    )?;
    for peer in &results.peers {
        let about = match &peer.not_here {
            Some(why) => format!("<span class=\"bad\">Not on this machine:</span> {}", escaped(why)),
            None => escaped(&peer.about),
        };
        let versions = escaped(&peer.versions.join("; "));
        writeln!(out, "<tr><td>{}</td><td>{about}</td><td>{versions}</td></tr>", escaped(&peer.name))?;
    }
    let machine = &results.machine;
    writeln!(
        out,
        "</tbody></table></div>\n<h2>Machine</h2>\n<div class=\"wide\"><table class=\"texts\"><tbody>"
    )?;
    let rows = [
        ("processor", format!("{} × {}", machine.cores, machine.processor)),
        ("memory", ByteCount(machine.memory).to_string()),
        ("kernel", machine.kernel.clone()),
        ("system", machine.system.clone()),
        (
            "TCP",
            format!(
                "{} unless a path says otherwise; available: {}",
                machine.congestion_control, machine.congestion_controls
            ),
        ),
        ("buffers of sockets, in bytes", buffers(machine).unwrap_or_else(|| "not recorded".to_owned())),
        ("Terahaul", program(machine)),
    ];
    for (name, value) in rows {
        writeln!(out, "<tr><td>{name}</td><td>{}</td></tr>", escaped(&value))?;
    }
    writeln!(out, "</tbody></table></div>")
}
