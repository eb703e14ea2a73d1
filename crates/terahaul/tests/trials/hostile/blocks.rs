//! Blocks that lie.

use std::io::Read;

use terahaul_core::{BlockNumber, Hash};
use terahaul_wire::{ErrorCode, FrameHeader, Message};

use super::peer::{Peer, content, send_frame, value};
use super::{assert_serves, peak_memory};
use crate::rig::Depot;

const BLOCK: usize = 4 << 20;

#[test]
fn blocks_outside_the_manifest_and_lengths_that_lie_end_the_session() {
    let depot = Depot::start();
    let before = peak_memory(&depot);
    for (block, len, sent) in
        [(2, 100, 100), (u32::MAX, 100, 100), (0, 100, 100), (1, BLOCK as u32, 100), (1, 1001, 1001)]
    {
        let (mut peer, opened) = Peer::open_send(&depot, "liar");
        peer.declare(&[BLOCK as u64 + 1000]);
        let mut channel = peer.channel(opened.secret, 0);
        let bytes = content(1, sent);
        // The depot may hang up in the middle, which is as well.
        let _ = send_frame(&mut channel, block, len, &bytes, Hash::default());
        peer.assert_ends(ErrorCode::Violation);
    }
    let (mut peer, opened) = Peer::open_send(&depot, "before accepted");
    let mut channel = peer.channel(opened.secret, 0);
    let _ = send_frame(&mut channel, 0, 1000, &content(1, 1000), Hash::default());
    peer.assert_ends(ErrorCode::Violation);
    for header in [[1u8; 16], [0; 16], [2, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], [255; 16]] {
        let (mut peer, opened) = Peer::open_send(&depot, "no frame");
        peer.declare(&[1000]);
        let mut channel = peer.channel(opened.secret, 0);
        let _ = channel.queue(&header).and_then(|()| channel.flush());
        peer.assert_ends(ErrorCode::Violation);
    }
    assert!(peak_memory(&depot) < before + 64, "{} MiB", peak_memory(&depot));
    assert_serves(&depot);
}

#[test]
fn a_block_that_is_here_is_not_overwritten_by_other_content() {
    let depot = Depot::start();
    let (mut peer, opened) = Peer::open_send(&depot, "twice");
    let layout = peer.declare(&[BLOCK as u64 + 1000]);
    let mut channel = peer.channel(opened.secret, 0);
    let (first, other, tail) = (content(1, BLOCK), content(2, BLOCK), content(3, 1000));
    send_frame(&mut channel, 0, BLOCK as u32, &first, value(&layout, 0, &first)).unwrap();
    assert!(matches!(peer.hear(), Some(Message::Durable(_))));
    for again in [&other, &first, &other] {
        send_frame(&mut channel, 0, BLOCK as u32, again, value(&layout, 0, again)).unwrap();
        if again == &other {
            match peer.hear() {
                Some(Message::Refused(0, error)) => {
                    assert_eq!((error.code, error.retry), (ErrorCode::Conflict, false), "{error}");
                }
                said => panic!("{said:?}"),
            }
        }
    }
    // A value that does not fit what was sent; then the truth.
    send_frame(&mut channel, 1, 1000, &tail, Hash([9; 32])).unwrap();
    match peer.hear() {
        Some(Message::Refused(1, error)) => {
            assert_eq!((error.code, error.retry), (ErrorCode::Conflict, true), "{error}");
        }
        said => panic!("{said:?}"),
    }
    send_frame(&mut channel, 1, 1000, &tail, value(&layout, 1, &tail)).unwrap();
    peer.finish();
    assert_eq!(depot.run(&["receive", &opened.link.unwrap(), "dst"]).code, 0);
    assert!(
        std::fs::read(depot.path("dst/f0")).unwrap() == [first, tail].concat(),
        "the first content stays"
    );
}

#[test]
fn two_channels_with_the_same_block_leave_one_content() {
    let depot = Depot::start();
    let (mut peer, opened) = Peer::open_send(&depot, "race");
    let layout = peer.declare(&[BLOCK as u64]);
    let contents: Vec<Vec<u8>> = (0..8).map(|seed| content(seed, BLOCK)).collect();
    std::thread::scope(|scope| {
        for (number, bytes) in contents.iter().enumerate() {
            let mut channel = peer.channel(opened.secret, number as u32);
            let layout = &layout;
            scope.spawn(move || {
                send_frame(&mut channel, 0, BLOCK as u32, bytes, value(layout, 0, bytes)).unwrap();
            });
        }
    });
    peer.finish();
    assert_eq!(depot.run(&["receive", &opened.link.unwrap(), "dst"]).code, 0);
    let mut received = Vec::new();
    std::fs::File::open(depot.path("dst/f0")).unwrap().read_to_end(&mut received).unwrap();
    assert!(contents.contains(&received), "one of them, whole");
}

/// It was refused on every other channel until the depot found out by itself that the first was lost, a minute and more later.
#[test]
fn a_block_that_had_begun_to_arrive_on_a_lost_channel_comes_on_another_once_that_is_said() {
    let depot = Depot::start();
    let (mut peer, opened) = Peer::open_send(&depot, "lost channel");
    let layout = peer.declare(&[2 * BLOCK as u64]);
    let parts = [content(1, BLOCK), content(2, BLOCK)];
    let mut lost = peer.channel(opened.secret, 0);
    send_frame(&mut lost, 1, BLOCK as u32, &parts[1], value(&layout, 1, &parts[1])).unwrap();
    lost.queue(&FrameHeader::Block { block: BlockNumber(0), len: BLOCK as u32 }.encode()).unwrap();
    lost.write(&mut parts[0][..1000].to_vec()).unwrap();
    lost.flush().unwrap();
    assert!(matches!(peer.hear(), Some(Message::Durable(_))));
    let mut other = peer.channel(opened.secret, 1);
    let mut send = || send_frame(&mut other, 0, BLOCK as u32, &parts[0], value(&layout, 0, &parts[0]));
    send().unwrap();
    match peer.hear() {
        Some(Message::Refused(0, error)) => assert!(error.retry, "{error}"),
        said => panic!("{said:?}"),
    }
    peer.say(&Message::CloseChannel(0));
    send().unwrap();
    peer.finish();
    assert_eq!(depot.run(&["receive", &opened.link.unwrap(), "dst"]).code, 0);
    assert!(std::fs::read(depot.path("dst/f0")).unwrap() == parts.concat());
}
