//! What the laws of rate control come to in simulated networks: tables and traces to look at while a law is changed. Tests say
//! what must hold in the same networks; these say by how much it does.
//!
//! `cargo run --release -p terahaul-udp --example laws -- COMMAND [NAME=VALUE]...`
//!
//! | command | prints | takes |
//! |---|---|---|
//! | `figures` | what one transfer alone gets of each of the lab's paths | `of`, `seeds` (8), `megabytes` (500) of a gigabyte |
//! | `grid` | the same of lines of all kinds: from 64 kbit/s to 1 Gbit/s, 1 ms to 2 s, queues of three packets to two round trips | `of`, `seeds` (2) |
//! | `shares` | what transfers get beside others, beside their own kind, and of unsteady lines | `of`, `seeds` (8) |
//! | `trace` | what every transfer does, step by step, in one situation of any table | `of`, `seed` (1), `step` (100) in milliseconds, `seconds` (30) |
//!
//! `of` is a part of the titles in the first column: only those rows, or the first of them to trace.

mod arguments;
mod figures;
mod grid;
mod shares;
// Tests do more to it.
#[path = "../../tests/session/sim/mod.rs"]
#[allow(dead_code)]
mod sim;
mod situations;
mod trace;

use arguments::Arguments;

const USAGE: &str = "usage: laws figures|grid|shares|trace [NAME=VALUE]...";

fn main() -> Result<(), String> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (command, words) = words.split_first().ok_or(USAGE)?;
    match command.as_str() {
        "figures" => figures::print(&Arguments::parse(words, &["of", "seeds", "megabytes"])?),
        "grid" => grid::print(&Arguments::parse(words, &["of", "seeds"])?),
        "shares" => shares::print(&Arguments::parse(words, &["of", "seeds"])?),
        "trace" => trace::print(&Arguments::parse(words, &["of", "seed", "step", "seconds"])?),
        _ => Err(USAGE.to_owned()),
    }
}

/// The middle one of some values, and the least.
fn median_and_least(mut values: Vec<f64>) -> (f64, f64) {
    values.sort_by(f64::total_cmp);
    (values[values.len() / 2], values[0])
}

/// The middle one of some values, and the most.
fn median_and_most(mut values: Vec<f64>) -> (f64, f64) {
    values.sort_by(f64::total_cmp);
    (values[values.len() / 2], values[values.len() - 1])
}
