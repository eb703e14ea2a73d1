use terahaul_core::{FailureCause, Hash};
use terahaul_wire::ErrorCode;
use tokio::sync::mpsc;

use super::failing::NO_VALUE;
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

/// A queue of one file of three blocks, which wait for word of its old version.
fn held() -> Outbound {
    let outbound = Outbound::placing(Placement::Accepted, mpsc::unbounded_channel().0);
    outbound.declare([Some(ByteCount(3 << 22))], true).unwrap();
    outbound.handle_held([EntryIndex(0)]);
    outbound.handle_accepted(1).unwrap();
    assert_eq!(blocks(&outbound), 0);
    outbound
}

/// The first bytes of `block` are guessed.
fn guess_of(block: u32) -> Guessed {
    Guessed { block, group: 4096, values: vec![0; 8], ..Guessed::default() }
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

/// While its connection was lost, somebody asked for the transfer to be finished.
#[test]
fn a_block_that_another_has_sealed_meanwhile_is_sealed_here_too() {
    let outbound = declared(Placement::Declared, &[(3, false)]);
    outbound.handle_accepted(3).unwrap();
    assert!(outbound.was_open_after(3));
    outbound.declare([], true).unwrap();
    outbound.handle_accepted(3).unwrap();
    assert!(!outbound.was_open_after(3));
    assert_eq!(blocks(&outbound), 1);
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

/// A receiver that has it all no longer says that nothing more is to be waited for: the session before was lost with that.
#[test]
fn what_is_durable_is_waited_for_no_more() {
    let run = |first, count| BlockRun { first: BlockNumber(first), count };
    let whole = held();
    assert!(!whole.is_sent());
    whole.handle_durable(&[run(0, 3)]);
    assert!(whole.is_sent());

    let some = held();
    some.handle_guessed(guess_of(1)).unwrap();
    some.handle_durable(&[run(1, 1)]);
    some.handle_guessed(Guessed::default()).unwrap();
    assert_eq!(blocks(&some), 2, "the last guess was of one that is there");
}

/// A receiver that kept it before it had read that zeros stand for a file would have them for that file, should the sender end there.
#[test]
fn a_refused_block_with_what_has_failed_waits_until_the_receiver_has_read_of_that() {
    let outbound = declared(Placement::Declared, &[(3, true)]);
    outbound.handle_accepted(3).unwrap();
    let Some(Next::Block(shape)) = outbound.poll_next(ChannelId(0)) else { panic!("one may be sent") };
    let refusal = WireError::passing(ErrorCode::Conflict, "");
    let failed = |entry| EntryFailure { entry, cause: FailureCause::Unreadable, detail: String::new() };
    let [first, second] = [0, 1].map(|entry| failed(EntryIndex(entry)));
    let value = |failures: &[EntryFailure]| outbound.value_to_send(Hash([1; 32]), failures);
    assert_eq!(value(std::slice::from_ref(&first)), NO_VALUE);
    outbound.handle_sent(&shape, None, vec![first.clone()]);
    let untold = outbound.untold(shape.number);
    assert_eq!(untold, [first.entry]);
    // What is said behind the question is not what was read.
    outbound.handle_failed([second.entry]);
    outbound.handle_told(shape.number, untold, Some(refusal)).unwrap();
    assert_eq!(value(std::slice::from_ref(&first)), Hash([1; 32]));
    assert_eq!(value(&[first, second.clone()]), NO_VALUE);
    assert_eq!(outbound.untold(shape.number), [second.entry]);
}

/// One message can name more blocks than a thread walks in a minute.
#[test]
fn blocks_that_were_never_declared_cost_a_sender_nothing() {
    let outbound = held();
    let all = BlockRun { first: BlockNumber(0), count: u32::MAX };
    outbound.handle_durable(&vec![all; 10_000]);
    assert!(outbound.is_sent());
    for block in 3..100_000 {
        assert!(outbound.handle_refused(BlockNumber(block)));
    }
    assert!(outbound.state().refusals.is_empty());
    assert!(outbound.handle_guessed(guess_of(3)).is_err(), "it is behind the file's end");
}

/// Between its claim and its reading another channel's block showed that the guesses are wrong. Gone whole, it cost 4 MiB.
#[test]
fn a_block_that_was_claimed_with_a_guess_that_is_void_waits_for_news() {
    let outbound = held();
    let claimed: Vec<_> = (0..3)
        .map(|block| {
            outbound.handle_guessed(guess_of(block)).unwrap();
            match outbound.poll_next(ChannelId(block)) {
                Some(Next::Block(shape)) => shape,
                other => panic!("{other:?}"),
            }
        })
        .collect();
    assert!(matches!(outbound.basis_of(&claimed[0]), Ok(Some(Known::Guess(_)))));
    outbound.defer(ChannelId(1), &claimed[1], Wanting::Judgement);
    outbound.defer(ChannelId(2), &claimed[2], Wanting::Judgement);
    assert!(matches!(outbound.basis_of(&claimed[0]), Err(Wanting::News)));
    outbound.defer(ChannelId(0), &claimed[0], Wanting::News);
    assert_eq!(blocks(&outbound), 0);
    outbound.handle_sums(&Sums::default()).unwrap();
    assert_eq!(blocks(&outbound), 3, "there is nothing to wait for");
}

#[test]
fn more_sums_in_a_message_than_there_may_be_are_refused() {
    let sums = |count: usize| {
        let (size, chunk) = (4 * MAX_SUMS as u64 * 4096, 4096);
        Sums { size, chunk, sums: vec![0; count * SUM_LEN], ..Sums::default() }
    };
    held().handle_sums(&sums(MAX_SUMS)).unwrap();
    let refused = held().handle_sums(&sums(MAX_SUMS + 1)).unwrap_err();
    assert_eq!(refused.code, terahaul_wire::ErrorCode::Violation);
}

#[test]
fn the_numbers_of_channels_that_do_not_exist_make_way_for_others() {
    let outbound = declared(Placement::Declared, &[(1, true)]);
    (1000..100_000).for_each(|channel| outbound.close_channel(ChannelId(channel)));
    assert_eq!(outbound.state().closing.len(), MAX_CHANNELS as usize);
    outbound.close_channel(ChannelId(100_000));
    assert_eq!(outbound.poll_next(ChannelId(100_000)), Some(Next::Close));
}

#[test]
fn an_entry_is_durable_when_all_its_blocks_are_and_none_of_it_has_failed() {
    let outbound = Outbound::new(mpsc::unbounded_channel().0);
    let sizes = [Some(2 << 22), Some(9), None, Some(9), Some(0)].map(|size| size.map(ByteCount));
    outbound.declare(sizes, true).unwrap();
    let durable = || (0..6).filter(|entry| outbound.has_durable(EntryIndex(*entry))).collect::<Vec<_>>();
    assert_eq!(durable(), [2, 4], "without bytes");
    outbound.handle_durable(&[BlockRun { first: BlockNumber(1), count: 2 }]);
    assert_eq!(durable(), [1, 2, 3, 4]);
    outbound.handle_failed([EntryIndex(3)]);
    outbound.handle_durable(&[BlockRun { first: BlockNumber(0), count: 1 }]);
    assert_eq!(durable(), [0, 1, 2, 4]);
}

/// A depot that was put back to an older copy has; one that has given back what failed has not.
#[test]
fn a_receiver_has_lost_what_it_does_not_name_again_and_is_still_wanted() {
    let outbound = Outbound::new(mpsc::unbounded_channel().0);
    let large = Some(ByteCount(2 << 22));
    outbound.declare([large, large, Some(ByteCount(9)), Some(ByteCount(9))], true).unwrap();
    outbound.handle_durable(&[BlockRun { first: BlockNumber(0), count: 5 }]);
    let has_lost = |named: &[u32]| {
        let mut told = BlockSet::default();
        named.iter().for_each(|block| assert!(told.insert(BlockNumber(*block))));
        outbound.has_more_durable_than(&told)
    };
    assert!(!has_lost(&[0, 1, 2, 3, 4]) && has_lost(&[0, 1, 3, 4]) && has_lost(&[0, 1, 2, 3, 77]));
    outbound.handle_failed([EntryIndex(1), EntryIndex(3)]);
    assert!(!has_lost(&[0, 1, 4]), "a large file that failed");
    assert!(has_lost(&[0, 1]) && has_lost(&[1, 4]), "the last block has another file in it");
}

/// An interrupted transfer of files that have changed since came to its end at half of what it said it would send.
#[test]
fn what_is_to_arrive_is_what_has_arrived_in_the_end() {
    let outbound = Outbound::new(mpsc::unbounded_channel().0);
    let blocks = |first, count| BlockRun { first: BlockNumber(first), count };
    let file = 4 << 22;
    outbound.declare([file, file, 5, 6, 7].map(|size| Some(ByteCount(size))), true).unwrap();
    outbound.handle_accepted(5).unwrap();
    assert!(
        matches!(outbound.poll_next(CHANNEL), Some(Next::Block(shape)) if shape.number == BlockNumber(0))
    );
    outbound.handle_durable(&[blocks(1, 1)]);
    outbound.handle_failed([EntryIndex(0), EntryIndex(0), EntryIndex(2)]);
    assert_eq!(
        outbound.declared(),
        (ByteCount((1 << 22) + file + 18), 5),
        "what is there already stays there"
    );
    outbound.handle_durable(&[blocks(0, 1)]);
    assert_eq!(outbound.declared().0, ByteCount((2 << 22) + file + 18), "it was on its way, and is there");
    outbound.handle_durable(&[blocks(4, 5)]);
    assert_eq!(outbound.declared().0, outbound.durable());
}
