use tokio::sync::mpsc;

use super::*;

const CHANNEL: ChannelId = ChannelId(0);

/// A queue to which `batches` were declared: so many small files each, sealed or not.
fn declared(placement: Placement, batches: &[(u64, bool)]) -> Outbound {
    let outbound = Outbound::placing(placement, mpsc::unbounded_channel().0);
    for (files, seal) in batches {
        outbound.declare((0..*files).map(|_| Some(ByteCount(1))), *seal).unwrap();
    }
    outbound
}

fn blocks(outbound: &Outbound) -> u32 {
    std::iter::from_fn(|| outbound.poll_next(CHANNEL)).filter(|next| matches!(next, Next::Block(_))).count()
        as u32
}

#[test]
fn a_block_waits_for_the_answer_to_the_batch_that_only_seals_it() {
    for placement in [Placement::Declared, Placement::Accepted] {
        let outbound = declared(placement, &[(3, false), (0, true)]);
        outbound.handle_accepted(3).unwrap();
        assert_eq!(blocks(&outbound), 0, "{placement:?}: the receiver has not sealed it");
        outbound.handle_accepted(3).unwrap();
        assert_eq!(blocks(&outbound), 1, "{placement:?}");
    }
}

#[test]
fn an_answer_is_to_all_batches_that_end_before_it() {
    for placement in [Placement::Declared, Placement::Accepted] {
        let outbound = declared(placement, &[(1, true), (2, true), (4, true)]);
        outbound.handle_accepted(3).unwrap();
        assert_eq!(blocks(&outbound), 2, "{placement:?}");
        outbound.handle_accepted(7).unwrap();
        assert_eq!(blocks(&outbound), 1, "{placement:?}");
    }
}
