//! Beside others: what each gets of a line.

use terahaul_core::Rate;

use crate::sim::*;

/// One of ours from `ours`, and one other: what each gets of the line.
fn beside(law: Law, ours: Nanos, other: TcpFlow) -> (f64, f64) {
    let shares = scenes::beside(law, ours, other).shares(5 * SECOND, 25 * SECOND);
    (shares.ours[0], shares.theirs[0])
}

/// Whoever of the two begins first.
fn both_go_on(other: scenes::Other) {
    for (ours, theirs) in [(0, 3 * SECOND), (3 * SECOND, 0)] {
        let (ours, theirs) = beside(laws::model, ours, other(theirs));
        assert!(ours > 0.35 && theirs > 0.35, "ours {ours}, theirs {theirs}");
    }
}

#[test]
fn beside_cubic_both_go_on() {
    both_go_on(TcpFlow::cubic);
    both_go_on(TcpFlow::cubic_in_a_buffer);
}

#[test]
fn beside_bbr_both_go_on() {
    both_go_on(TcpFlow::bbr);
}

#[test]
fn in_the_background_others_hardly_notice() {
    for other in [TcpFlow::cubic(0), TcpFlow::bbr(0)] {
        let (ours, theirs) = beside(laws::background, 3 * SECOND, other);
        assert!(theirs > 0.85, "ours {ours}, theirs {theirs}");
    }
}

/// What it sends below its limit says nothing of what the path carries, so nothing is learnt from it that others would have to pay for.
#[test]
fn a_background_that_a_limit_held_for_long_yields_as_soon_as_others_come() {
    for other in [TcpFlow::cubic(30 * SECOND), TcpFlow::bbr(30 * SECOND)] {
        let mut world = World::new(paths::shared(), 1);
        let half = Rate::per_second((world.out.spec.rate / 2.0) as u64);
        let spec = TransferSpec { max_rate: half, ..world.spec(1 << 40, laws::background) };
        world.add(spec);
        world.add_other(other);
        // It has to begin anew, so that it is long before it pauses by itself again.
        world.run(2 * SECOND, |_| false);
        (world.out.spec.down, world.back.spec.down) = (true, true);
        world.run(3 * SECOND, |_| false);
        (world.out.spec.down, world.back.spec.down) = (false, false);
        let alone = world.shares(20 * SECOND, 30 * SECOND).total();
        assert!(alone > 0.45, "{alone}");
        let Shares { ours, theirs, .. } = world.shares(35 * SECOND, 50 * SECOND);
        assert!(theirs[0] > 0.8, "ours {ours:?}, theirs {theirs:?}");
    }
}

#[test]
fn transfers_of_ours_share_a_line_evenly() {
    for (count, rtt) in [(2, 20), (4, 20), (8, 20), (2, 100), (4, 100), (8, 100)] {
        let starts = (0..count).map(|number| number * SECOND / 2);
        let mut world = scenes::ours(PathSpec::clean(400.0, rtt * MILLI), 1, starts);
        let shares = world.shares(10 * SECOND, 30 * SECOND);
        assert!(shares.jain() > 0.95 && shares.total() > 0.9, "{count} over {rtt} ms: {:.3?}", shares.ours);
    }
}

/// Whoever meets a queue that others have filled at the same moment takes it for the path's length, and what overflows for
/// the path's loss. Of those that begin within 350 ms some are uneven for longer: they pass for something that does not yield, and are
/// insisted against until they have met, by all or, until then, by one that has most of half the line.
#[test]
fn transfers_that_begin_together_share_a_line_evenly_and_lose_little() {
    for (seeds, closer) in [(4, 10), (2, 50), (2, 1_000)] {
        let (mut uneven, mut dropped) = (0, 0.0);
        for seed in 1..=seeds {
            let path = PathSpec::clean(400.0, 20 * MILLI);
            let mut world = scenes::eight_together(path, seed, closer);
            let shares = world.shares(10 * SECOND, 20 * SECOND);
            assert!(shares.jain() > 0.5 && shares.total() > 0.9, "seed {seed}: {:.3?}", shares.ours);
            let later = world.shares(22 * SECOND, 25 * SECOND);
            assert!(later.jain() > 0.95 && later.total() > 0.9, "seed {seed}, later: {:.3?}", later.ours);
            dropped += shares.dropped / seeds as f64;
            uneven += usize::from(shares.jain() < 0.95);
        }
        assert!(uneven <= seeds as usize / 4, "{uneven} of {seeds}, {closer} times closer");
        // Which of them it hits is chance.
        assert!(dropped < 0.05, "{dropped:.3} of the packets are dropped, {closer} times closer");
    }
}

/// All of them had forgotten the path's length, took the full queue for it, and what overflowed for the path's loss: up to half of all
/// packets were dropped for as long as they lasted. Each line is one on which they did.
#[test]
fn transfers_that_begin_together_do_not_flood_a_line_for_long() {
    for (rtt_ms, closer, seed) in [(20, 10, 4), (20, 50, 2), (60, 10, 6), (150, 1_000, 2)] {
        let path = PathSpec::clean(100.0, rtt_ms * MILLI);
        let shares = scenes::eight_together(path, seed, closer).shares(27 * SECOND, 37 * SECOND);
        let (fair, dropped) = (shares.jain(), shares.dropped);
        assert!(
            fair > 0.95 && dropped < 0.005,
            "{rtt_ms} ms, seed {seed}: Jain {fair:.3}, {dropped:.3} dropped"
        );
    }
}

/// What all of them would keep waiting is more than the queue holds. With two, one that had met the full queue took two thirds of all packets for
/// what is lost anyway, and flooded the line for ten seconds. With four over 4 ms, one kept more than the others, who insisted against it and each
/// other: a tenth of all packets was dropped.
#[test]
fn transfers_on_a_near_path_lose_little_to_each_other() {
    let [lan, campus] = [paths::lan(9_000), PathSpec::clean(1_000.0, 4 * MILLI)];
    for (path, count, seed) in [(&lan, 2, 4), (&lan, 4, 1), (&lan, 8, 2), (&campus, 4, 5)] {
        let shares = scenes::nearby(path.clone(), count, seed).shares(2 * SECOND, 5 * SECOND);
        let (fair, dropped) = (shares.jain(), shares.dropped);
        assert!(
            fair > 0.9 && dropped < 0.01,
            "{count}: Jain {fair:.3}, {dropped:.3} of the packets are dropped"
        );
    }
}
