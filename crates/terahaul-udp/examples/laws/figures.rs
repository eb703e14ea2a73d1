//! `laws figures`: a single seed may be lucky.

use crate::arguments::Arguments;
use crate::sim::figures::{Figure, figures};
use crate::sim::laws;
use crate::{median_and_least, median_and_most};

pub fn print(arguments: &Arguments) -> Result<(), String> {
    let (seeds, megabytes) = (arguments.number("seeds", 8)?, arguments.number("megabytes", 500)?);
    println!(
        "| path | MB | of C(1 − p) less headers: median | worst | at least | seconds | queue added: mean | most \
         | dropped by the queue | sent needlessly |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    for figure in figures().into_iter().filter(|figure| figure.name.contains(arguments.of())) {
        let figure = Figure { bytes: figure.bytes * megabytes / 1_000, ..figure };
        println!("{}", row(&figure, seeds));
    }
    Ok(())
}

/// All but the share and the time are the most of any seed.
fn row(figure: &Figure, seeds: u64) -> String {
    let runs: Vec<_> = (1..=seeds).map(|seed| figure.carry(laws::model, seed)).collect();
    let (share, worst) = median_and_least(runs.iter().map(|(share, _)| *share).collect());
    let took = |nanos: Option<u64>| nanos.unwrap_or(0) as f64 / 1e9;
    let (seconds, _) =
        median_and_least(runs.iter().map(|(_, world)| took(world.transfers[0].finished_at)).collect());
    let most = |of: fn(&crate::sim::World) -> f64| {
        median_and_most(runs.iter().map(|(_, world)| of(world)).collect()).1
    };
    let mean_wait = most(|world| world.out.counters.wait_mean() as f64 / 1e6);
    let longest_wait = most(|world| world.out.counters.wait_peak as f64 / 1e6);
    let dropped = most(|world| world.out.counters.dropped as f64 / world.out.counters.sent as f64);
    let needless = most(|world| {
        world.transfers[0].overhead() - world.out.counters.lost as f64 / world.out.counters.sent as f64
    });
    format!(
        "| {} | {} | {share:.3} | {worst:.3} | {} | {seconds:.2} | {mean_wait:.1} ms | {longest_wait:.1} ms | {:.2} % | {:.2} % |",
        figure.name,
        figure.bytes / 1_000_000,
        figure.least,
        dropped * 100.0,
        needless * 100.0,
    )
}
