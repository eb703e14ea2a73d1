//! Heat maps over round trip and loss, where the paths form a grid.

use std::fmt::Write;
use std::time::Duration;

use super::plot::{escaped, open};
use super::text::{full_rate, mbit, number};
use crate::compare::{PathRecord, Results, WorkRecord};
use crate::figures::exact_bits;
use crate::path::{DurationText, LossSpec, PathSpec};
use crate::work::Direction;

/// Paths that differ in nothing but round trip and loss, with every combination of them.
struct Grid<'a> {
    rtts: Vec<Duration>,
    losses: Vec<f64>,
    paths: Vec<&'a PathRecord>,
    name: String,
}

const CELL: f64 = 84.0;
const TALL: f64 = 34.0;
const MARGIN: f64 = 92.0;
/// Steps of the page's sequential colours.
const STEPS: f64 = 9.0;

/// One map a peer, for each grid that the paths form.
pub(super) fn heat_maps(results: &Results, work: &WorkRecord, direction: Direction) -> String {
    let mut out = String::new();
    for grid in grids(results) {
        let _ = writeln!(out, "<h3>Round trip and loss: {}</h3>\n<div class=\"maps\">", escaped(&grid.name));
        for peer in results.peers.iter().filter(|peer| peer.not_here.is_none()) {
            out += &map(results, work, direction, &grid, &peer.name);
        }
        out += "</div>\n<p class=\"note\">The number is Mbit/s of the work's bytes (median), the colour its share of what the \
                line carries in payload. Where it says 'cut', it is what the path delivered until then, headers included.</p>\n";
    }
    out
}

fn grids(results: &Results) -> Vec<Grid<'_>> {
    // What is left of a path without its round trip and loss; a seed only says which packets are lost.
    let rest = |path: &PathRecord| {
        let (rtt, loss, seed) = (Duration::ZERO, LossSpec::None, 0);
        (PathSpec { rtt, loss, seed, ..path.spec.clone() }, path.congestion_control.clone())
    };
    let mut kinds: Vec<Vec<&PathRecord>> = Vec::new();
    for path in &results.paths {
        match kinds.iter_mut().find(|kind| rest(kind[0]) == rest(path)) {
            Some(kind) => kind.push(path),
            None => kinds.push(vec![path]),
        }
    }
    let mut grids: Vec<Grid<'_>> = Vec::new();
    for paths in kinds {
        let mut rtts: Vec<_> = paths.iter().map(|path| path.spec.rtt).collect();
        rtts.sort_unstable();
        rtts.dedup();
        let mut losses: Vec<f64> = paths.iter().map(|path| path.spec.loss.mean()).collect();
        losses.sort_by(f64::total_cmp);
        losses.dedup();
        let first = paths[0];
        // In earlier results the other is what the system had, whatever was asked for.
        let law = first.spec.cc.as_ref().unwrap_or(&first.congestion_control);
        let name = format!("{}, MTU {}, {law}", exact_bits(first.spec.rate), first.spec.mtu);
        if rtts.len() > 1 && losses.len() > 1 && rtts.len() * losses.len() == paths.len() {
            grids.push(Grid { rtts, losses, paths, name });
        }
    }
    grids
}

fn map(results: &Results, work: &WorkRecord, direction: Direction, grid: &Grid<'_>, peer: &str) -> String {
    let height = 34.0 + TALL * grid.losses.len() as f64 + 26.0;
    let mut out = format!("<figure><figcaption>{}</figcaption>\n", escaped(peer));
    let wide = MARGIN + CELL * grid.rtts.len() as f64 + 8.0;
    out += &open(&format!("{peer}: rate by round trip and loss"), height)
        .replace("0 0 760", &format!("0 0 {wide}"));
    for (column, rtt) in grid.rtts.iter().enumerate() {
        let x = MARGIN + CELL * (column as f64 + 0.5);
        let _ = writeln!(
            out,
            "<text class=\"small\" x=\"{x}\" y=\"24\" text-anchor=\"middle\">{}</text>",
            DurationText(*rtt)
        );
    }
    for (row, loss) in grid.losses.iter().rev().enumerate() {
        let y = 34.0 + TALL * row as f64;
        let middle = y + TALL / 2.0 + 4.0;
        let text = format!("loss {} %", number(loss * 100.0));
        let _ = writeln!(
            out,
            "<text class=\"small\" x=\"{}\" y=\"{middle}\" text-anchor=\"end\">{text}</text>",
            MARGIN - 8.0
        );
        for (column, rtt) in grid.rtts.iter().enumerate() {
            let x = MARGIN + CELL * column as f64;
            let path = grid.paths.iter().find(|path| path.spec.rtt == *rtt && path.spec.loss.mean() == *loss);
            let rate = path.and_then(|path| {
                let row = results.row(&work.name, direction, &path.name);
                let cell = row.into_iter().find(|cell| cell.cell.peer == peer)?;
                let rate = cell.rates.or(cell.cut_rate)?.median;
                Some((
                    rate,
                    rate / full_rate(path, direction),
                    if cell.rates.is_none() { " cut" } else { "" },
                ))
            });
            let (class, label) = match rate {
                Some((rate, share, cut)) => {
                    let step = (share * STEPS).floor().clamp(0.0, STEPS - 1.0);
                    (format!("h{step}"), number(mbit(rate)) + cut)
                }
                None => ("none".to_owned(), "–".to_owned()),
            };
            let _ = writeln!(
                out,
                "<rect class=\"{class}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/><text class=\"on-{class}\" x=\"{}\" y=\"{middle}\" text-anchor=\"middle\">{label}</text>",
                x + 1.0,
                y + 1.0,
                CELL - 2.0,
                TALL - 2.0,
                x + CELL / 2.0,
            );
        }
    }
    out + "</svg>\n</figure>\n"
}
