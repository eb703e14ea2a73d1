//! `laws shares`: what everybody gets, over many seeds.

use crate::arguments::Arguments;
use crate::sim::Shares;
use crate::situations::{Situation, situations};
use crate::{median_and_least, median_and_most};

pub fn print(arguments: &Arguments) -> Result<(), String> {
    let seeds = arguments.number("seeds", 8)?;
    println!(
        "| situation | ours in all: median | worst | theirs: median | worst | Jain of ours: median | worst \
         | dropped: median | most | queue added, mean |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    for situation in situations().iter().filter(|situation| situation.title.contains(arguments.of())) {
        println!("{}", row(situation, seeds));
    }
    Ok(())
}

fn row(situation: &Situation, seeds: u64) -> String {
    let run = |seed| {
        let mut world = situation.world(seed);
        let shares = world.shares(situation.from, situation.until);
        (shares, world.out.counters.wait_mean() as f64 / 1e6)
    };
    let (runs, waits): (Vec<Shares>, Vec<f64>) = (1..=seeds).map(run).unzip();
    let each = |of: fn(&Shares) -> f64| runs.iter().map(of).collect::<Vec<_>>();
    let ours = median_and_least(each(Shares::total));
    // Nothing in all is minus zero.
    let theirs = median_and_least(each(|shares| shares.theirs.iter().sum::<f64>().abs()));
    let jain = median_and_least(each(Shares::jain));
    let dropped = median_and_most(each(|shares| shares.dropped));
    format!(
        "| {} | {:.3} | {:.3} | {:.3} | {:.3} | {:.3} | {:.3} | {:.4} | {:.4} | {:.1} ms |",
        situation.title,
        ours.0,
        ours.1,
        theirs.0,
        theirs.1,
        jain.0,
        jain.1,
        dropped.0,
        dropped.1,
        median_and_most(waits).0,
    )
}
