//! Seeded trials of crashes: whatever is killed when, the same command run again ends with the same files.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::trial::{Tally, run_trial};

/// Trials with `count` seeds from `first` on, two at a time; names every seed that failed.
fn run_trials(first: u64, count: u64) {
    let next = AtomicU64::new(first);
    let failed = Mutex::new(Vec::new());
    let tally = Mutex::new(Tally::default());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= first + count {
                        return;
                    }
                    match catch_unwind(AssertUnwindSafe(|| run_trial(seed))) {
                        Ok(one) => tally.lock().unwrap().add(one),
                        Err(_) => {
                            eprintln!("seed {seed} FAILED; again: TERAHAUL_SEED={seed} cargo test -p terahaul --test trials one_seed -- --ignored --nocapture");
                            failed.lock().unwrap().push(seed);
                        }
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap();
    println!("{count} trials: {:?}", tally.into_inner().unwrap());
    assert!(failed.is_empty(), "failing seeds: {failed:?}");
}

fn number_from(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().unwrap())
}

#[test]
fn files_arrive_whole_whatever_is_killed() {
    run_trials(1, number_from("TERAHAUL_SEEDS").unwrap_or(10));
}

#[test]
#[ignore = "long: make soak"]
fn files_arrive_whole_whatever_is_killed_200_times() {
    run_trials(1000, number_from("TERAHAUL_SEEDS").unwrap_or(200));
}

#[test]
#[ignore = "for a seed that failed: TERAHAUL_SEED"]
fn one_seed() {
    if let Some(seed) = number_from("TERAHAUL_SEED") {
        println!("{:?}", run_trial(seed));
    }
}
