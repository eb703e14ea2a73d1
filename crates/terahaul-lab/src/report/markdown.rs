//! The report as Markdown.

use std::fmt::Write;

use super::text::{
    COLUMNS, buffers, commands, lines, method, path_line, program, section_title, unfinished, work_line,
};
use crate::compare::Results;
use terahaul_core::ByteCount;

/// The report as Markdown.
pub fn markdown(results: &Results) -> String {
    let mut out = String::new();
    let _ = write_all(&mut out, results);
    out
}

fn write_all(out: &mut String, results: &Results) -> std::fmt::Result {
    writeln!(out, "# Comparison of {}\n", results.began)?;
    writeln!(out, "```sh\n{}\n```\n", results.command)?;
    if let Some(sentence) = unfinished(results) {
        writeln!(out, "**{sentence}**\n")?;
    }
    for (work, direction) in results.sections() {
        writeln!(out, "## {}\n\n{}\n", section_title(work, direction), work_line(work, direction))?;
        for path in &results.paths {
            let lines = lines(results, work, direction, path);
            if lines.is_empty() {
                continue;
            }
            writeln!(out, "### {}: {}\n\n{}.\n", path.name, section_title(work, direction), path_line(path))?;
            writeln!(out, "| {} |\n|---{}|", COLUMNS.join(" | "), "|---:".repeat(COLUMNS.len() - 1))?;
            for line in &lines {
                writeln!(out, "| {} |", line.cells().map(cell).join(" | "))?;
            }
            writeln!(out)?;
            for line in &lines {
                for note in &line.notes {
                    writeln!(out, "- {}: {note}", line.peer)?;
                }
            }
            writeln!(out, "\n<details><summary>Command lines</summary>\n")?;
            for (peer, phases) in commands(results, work, direction, path) {
                for phase in phases {
                    writeln!(out, "- {peer}, {}:\n  ```sh\n  {}\n  ```", phase.name, phase.command)?;
                }
            }
            writeln!(out, "\n</details>\n")?;
        }
    }
    writeln!(out, "## How it was measured\n")?;
    for sentence in method(results) {
        writeln!(out, "- {sentence}")?;
    }
    writeln!(out, "\n## Peers\n\n| | what it is | version |\n|---|---|---|")?;
    for peer in &results.peers {
        let versions = peer.versions.join("; ");
        let about =
            peer.not_here.as_ref().map_or(peer.about.clone(), |why| format!("not on this machine: {why}"));
        writeln!(out, "| {} | {} | {} |", peer.name, cell(&about), cell(&versions))?;
    }
    let machine = &results.machine;
    writeln!(out, "\n## Machine\n")?;
    writeln!(out, "- {} × {}, {} of memory", machine.cores, machine.processor, ByteCount(machine.memory))?;
    writeln!(out, "- {}, {}", machine.kernel, machine.system)?;
    writeln!(
        out,
        "- TCP: {} unless a path says otherwise; available: {}",
        machine.congestion_control, machine.congestion_controls
    )?;
    if let Some(buffers) = buffers(machine) {
        writeln!(out, "- Buffers of sockets, in bytes: {buffers}")?;
    }
    writeln!(out, "- Terahaul {}", program(machine))
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}
