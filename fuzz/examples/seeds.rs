//! Writes the seeds of the fuzz targets: `cargo run --example seeds` in `fuzz/`. Text seeds are kept by hand.

use std::fs;
use std::path::Path;

use minicbor::Encode;
use terahaul_copy::greeting::{self, Answer, Destination, Name, Ready, Reason, Refusal, Request, Sources, Task};
use terahaul_copy::rules::{Delete, List, Pattern, Rules, Selection};
use terahaul_core::{BlockNumber, BlockRun, ByteCount, Entry, EntryIndex, EntryKind, EntryPath, Mtime};
use terahaul_wire::packet::{
    ChannelNumber, ConnectionId, DataHeader, MIN_SHARD, PacketFrame, PacketHeader, PacketNumber, PartOf, RepairHeader, Report,
};
use terahaul_wire::{
    Batch, Bind, Cause, Control, ErrorCode, Failed, FrameHeader, PieceHeader, Hello, Message, OpenReceive, OpenSend, Opened, RunList,
    Trailer, WireError, encode_entries, encode_message,
};

fn entry(path: &[u8], kind: EntryKind) -> Entry {
    let path = EntryPath::new(path).expect("a good path");
    Entry { path, kind, mtime: Mtime { seconds: 1_700_000_000, nanos: 1 }, mode: 0o644, extra: None }
}

fn entries() -> Vec<Entry> {
    vec![
        entry(b"a", EntryKind::Directory),
        entry(b"a/b.txt", EntryKind::File { size: ByteCount(5) }),
        entry(b"a/\xff", EntryKind::File { size: ByteCount(5 << 20) }),
        entry(b"l", EntryKind::Symlink { target: (*b"../x").into() }),
    ]
}

fn messages() -> Vec<(&'static str, Message)> {
    let runs = [BlockRun { first: BlockNumber(0), count: 4 }, BlockRun { first: BlockNumber(9), count: 1 }];
    let runs = RunList::split(runs).pop().unwrap_or_default();
    let hello = Hello { versions: vec![1], capabilities: vec!["x".into()], agent: "terahaul/0.1.0".into() };
    let send = OpenSend { name: "n".into(), resume_key: Some("k".into()), want_manifest: true, ..OpenSend::default() };
    vec![
        ("hello", Message::Hello(hello)),
        ("authenticate", Message::Authenticate("tht_x".into())),
        ("open-send", Message::OpenSend(send)),
        ("open-receive", Message::OpenReceive(OpenReceive { transfer: [1; 16], have: runs.clone(), compress: Some(3), ..OpenReceive::default() })),
        ("opened", Message::Opened(Opened { link: Some("l".into()), ..Opened::default() })),
        ("batch", Message::Batch(Batch { first: EntryIndex(7), entries: entries(), seal: true })),
        ("manifest-end", Message::ManifestEnd),
        ("accepted", Message::Accepted(3)),
        ("declined", Message::Declined(vec![1, 2])),
        ("failed", Message::Failed(vec![Failed { entry: 1, cause: Cause::Changed, detail: "x".into() }])),
        ("durable", Message::Durable(runs)),
        ("refused", Message::Refused(4, WireError::violation("x"))),
        ("close-channel", Message::CloseChannel(1)),
        ("finish", Message::Finish),
        ("statement", Message::Statement(b"{}".to_vec(), "s".into())),
        ("ping", Message::Ping),
        ("pong", Message::Pong),
        ("error", Message::Error(WireError::passing(ErrorCode::Internal, "x"))),
    ]
}

fn write(target: &str, name: &str, bytes: &[u8]) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds").join(target);
    fs::create_dir_all(&folder).expect("the folder is ours");
    fs::write(folder.join(name), bytes).expect("the folder is ours");
}

fn packets() {
    let (channel, number) = (ChannelNumber(1), PacketNumber(7));
    let header = PacketHeader { channel, number, connection: ConnectionId([2; 8]) };
    write("packet", "header", &header.encode());
    let data = DataHeader { of: PartOf { serial: 3, block: BlockNumber(9), total: 40 }, offset: 0 };
    let frames = [
        PacketFrame::Report(Report::default()),
        PacketFrame::Ping,
        PacketFrame::Challenge(1),
        PacketFrame::Response(2),
        PacketFrame::Data(data, b"bytes"),
    ];
    let mut payload = Vec::new();
    frames.iter().for_each(|frame| frame.encode(&mut payload));
    write("packet", "frames", &payload);
    write("udp_session", "frames", &payload);
    let repair = RepairHeader { of: PartOf { serial: 0, block: BlockNumber(0), total: 40 }, index: 0, count: 1 };
    let mut payload = Vec::new();
    PacketFrame::Repair(repair, &[7; MIN_SHARD]).encode(&mut payload);
    write("packet", "repair", &payload);
    write("udp_session", "repair", &payload);
}

/// As it is said, and without what marks and frames it, which the target puts before it.
fn greeting<T: Encode<()>>(name: &str, message: &T) {
    let mut bytes = Vec::new();
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(greeting::write(&mut bytes, message)).expect("a vector takes all");
    write("greeting", name, &bytes);
    write("greeting", &format!("{name}-bare"), &bytes[20..]);
}

fn greetings() {
    let request = |task| Request { versions: vec![1], agent: "terahaul/0".into(), ports: Some((1, 2)), key: [3; 16], task, alike: Some([4; 32]) };
    let names = vec![Name(b"a".to_vec())];
    let pattern = Pattern { include: false, pattern: b"*.o".to_vec() };
    let list = List { paths: vec![Name(b"a/b".to_vec())], recursive: true };
    let selection = Selection { rules: vec![pattern], list: Some(list) };
    let rules = Rules { delete: Some(Delete { most: Some(9), despite_errors: false }), ..Rules::default() };
    let destination = Destination { path: b"to".to_vec(), names: names.clone(), only_file: true, rules, selection: selection.clone(), top: None };
    let sources = Sources { paths: names, selection, kept: Default::default(), compare: Default::default() };
    let ready = Ready {
        version: 1,
        agent: "terahaul/0".into(),
        address: "10.0.0.1".parse().ok(),
        port: 4,
        pin: [7; 32],
        token: "t".into(),
        only_file: true,
        top: None,
        asks: true,
    };
    let refusal = Refusal { reason: Reason::NotFound, message: "It is not there.".into() };
    greeting("receive", &request(Task::Receive(destination)));
    greeting("send", &request(Task::Send(sources)));
    greeting("ready", &Answer::Ready(ready));
    greeting("refused", &Answer::Refused(refusal));
}

fn main() {
    packets();
    greetings();
    for (name, message) in messages() {
        let bytes = encode_message(&message);
        write("message", name, &bytes);
        write("message", &format!("{name}-bare"), &bytes[4..]);
    }
    let bind = Bind { secret: [3; 32], channel: 2 };
    assert!(Bind::decode_from(&encode_message(&bind)[4..]).is_ok());
    write("message", "bind-bare", &encode_message(&bind)[4..]);
    write("batch", "four", &encode_entries(&entries()));
    write("batch", "none", &encode_entries(&[]));

    let block = FrameHeader::Block { block: BlockNumber(0), len: 19 }.encode();
    let pieces = FrameHeader::Pieces { block: BlockNumber(0), len: 19 }.encode();
    write("frame", "block", &block);
    write("frame", "pieces", &pieces);
    write("frame", "end", &FrameHeader::End.encode());
    // A piece of 11 bytes as a Zstandard frame: content size 11, one block that repeats a byte 11 times.
    let repeated = [0x28, 0xb5, 0x2f, 0xfd, 0x20, 11, 0b0101_1011, 0, 0, b'x'];
    let raw = PieceHeader::Raw { len: 8 }.encode();
    let zstd = PieceHeader::Zstd { len: 11, packed: repeated.len() as u32 }.encode();
    let left = 19u32.to_le_bytes();
    write("piece", "raw", &[&raw[..], &left].concat());
    write("piece", "zstd", &[&zstd[..], &left].concat());

    // The packed block of the target's manifest, with the right value, twice; then the end.
    let content = *b"abcdefghxxxxxxxxxxx";
    let mut value = blake3::Hasher::new_derive_key("terahaul 1 packed block");
    value.update(blake3::hash(b"abc").as_bytes()).update(blake3::hash(b"defgh").as_bytes());
    value.update(blake3::hash(b"xxxxxxxxxxx").as_bytes());
    let trailer = Trailer(terahaul_core::Hash(*value.finalize().as_bytes())).encode();
    let frame = [&block[..], &content, &trailer].concat();
    write("blocks", "right", &[&frame[..], &FrameHeader::End.encode()].concat());
    write("blocks", "twice", &[&frame[..], &frame, &FrameHeader::End.encode()].concat());
    let in_pieces = [&pieces[..], &raw, &content[..8], &zstd, &repeated, &trailer, &FrameHeader::End.encode()];
    write("blocks", "pieces", &in_pieces.concat());
    let wrong = [&block[..], &content, &[0; 32], &FrameHeader::End.encode()].concat();
    write("blocks", "wrong-value", &wrong);
}
