//! TLS records of a data channel: forged bytes are refused, and sealed ones arrive whole however they are cut.
#![no_main]

use std::io::Read;

use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use terahaul_fuzz::{opener, sealer};
use terahaul_net::channel::{SealedReader, SealedWriter};
use terahaul_net::tls::Opener;

#[derive(Arbitrary, Debug)]
struct Input {
    plain: Vec<u8>,
    /// How many bytes each read brings.
    reads: Vec<u8>,
    /// Where and how the sealed bytes are changed.
    damage: Option<(u16, u8)>,
    /// Bytes that were never sealed, behind them.
    forged: Vec<u8>,
}

struct Dribble<'a> {
    bytes: &'a [u8],
    reads: std::iter::Cycle<std::slice::Iter<'a, u8>>,
}

impl Read for Dribble<'_> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let most = self.reads.next().map_or(usize::MAX, |read| usize::from(*read) + 1);
        let take = most.min(out.len()).min(self.bytes.len());
        out[..take].copy_from_slice(&self.bytes[..take]);
        self.bytes = &self.bytes[take..];
        Ok(take)
    }
}

fuzz_target!(|input: Input| {
    let _ = Opener::record_len(&input.forged);
    let _ = opener().open(&mut input.forged.clone());

    let mut sealed = Vec::new();
    let mut writer = SealedWriter::new(&mut sealed, sealer());
    let (queued, written) = input.plain.split_at(input.plain.len() / 3);
    writer.queue(queued).expect("keys are fresh");
    writer.write(&mut written.to_vec()).expect("a vector takes all");
    writer.close().expect("a vector takes all");
    let damaged = input.damage.is_some_and(|(at, flip)| {
        let at = usize::from(at) % sealed.len();
        sealed[at] ^= flip;
        flip != 0
    });
    sealed.extend_from_slice(&input.forged);

    let stream = Dribble { bytes: &sealed, reads: input.reads.iter().cycle() };
    let Ok(mut reader) = SealedReader::new(stream, opener(), &[], &[]) else { return };
    let mut arrived = Vec::new();
    let ended = loop {
        let taken = reader.take(usize::MAX, |parts| {
            parts.iter().for_each(|part| arrived.extend_from_slice(part));
            Ok::<_, std::io::Error>(())
        });
        match taken {
            Ok(0) => break true,
            Ok(_) => {}
            Err(_) => break false,
        }
    };
    assert!(input.plain.starts_with(&arrived), "only what was sealed is ever given out");
    if !damaged {
        assert!(ended && arrived == input.plain);
    }
});
