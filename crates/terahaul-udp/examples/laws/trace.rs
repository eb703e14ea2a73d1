//! `laws trace`: a line a step, with a column for each transfer.

use crate::arguments::Arguments;
use crate::grid;
use crate::sim::figures::figures;
use crate::sim::{MILLI, Nanos, SECOND, World, laws};
use crate::situations::situations;

pub fn print(arguments: &Arguments) -> Result<(), String> {
    let (seed, step) = (arguments.number("seed", 1)?, arguments.number("step", 100)? * MILLI);
    let end = arguments.number("seconds", 30)? * SECOND;
    let (title, mut world) =
        first(arguments.of(), seed).ok_or_else(|| format!("of={}: no title has that", arguments.of()))?;
    println!("{title}, seed {seed}");
    let mut until = 0;
    while until < end && world.transfers.iter().any(|transfer| transfer.finished_at.is_none()) {
        until += step;
        println!("{}", line(&mut world, until, step));
    }
    Ok(())
}

/// The first row of that title in any table.
fn first(of: &str, seed: u64) -> Option<(String, World)> {
    let figure = figures().into_iter().find(|figure| figure.name.contains(of));
    let of_figure = figure.map(|figure| (figure.name.to_owned(), figure.world(laws::model, seed)));
    let of_grid = || {
        let cell = grid::cells().into_iter().find(|cell| cell.title.contains(of))?;
        Some((cell.title.clone(), cell.world(laws::model, seed)))
    };
    of_figure.or_else(of_grid).or_else(|| {
        let situation = situations().into_iter().find(|situation| situation.title.contains(of))?;
        Some((situation.title.clone(), situation.world(seed)))
    })
}

/// What happens in the step that ends at `until`.
fn line(world: &mut World, until: Nanos, step: Nanos) -> String {
    let shares = world.shares(until - step, until);
    let rate = world.out.spec.rate;
    let mut line = format!("{:8.3} s, dropped {:5.3}", until as f64 / 1e9, shares.dropped);
    for (transfer, got) in world.transfers.iter().zip(&shares.ours) {
        let lost = transfer.sender.lost_bytes();
        for path in transfer.sender.status() {
            let ms = |duration: std::time::Duration| duration.as_secs_f64() * 1e3;
            line += &format!(
                " | {:8} got {got:5.3} rate {:6.3} waiting {:6.2} of {:7.2} ms, under way {:9} lost {lost}",
                path.phase,
                path.rate / rate,
                ms(path.waiting),
                ms(path.round_trip),
                path.under_way,
            );
        }
    }
    shares.theirs.iter().for_each(|got| line += &format!(" | theirs {got:5.3}"));
    line
}
