//! A data channel's record layer: whatever is written arrives, in order, however the network cuts it; whatever is
//! altered is noticed.

use std::io::{self, Read};
use std::sync::Arc;

use crate::rig::established;
use proptest::prelude::*;
use terahaul_net::channel::{SealedReader, SealedWriter};
use terahaul_net::tls::{Certificate, ClientTls, Established, Handshake, ServerTls};

/// A stream that gives its bytes in pieces of the given sizes, over and over.
struct Cut {
    bytes: Vec<u8>,
    at: usize,
    sizes: Vec<usize>,
    turn: usize,
}

impl Read for Cut {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let size = self.sizes[self.turn % self.sizes.len()];
        self.turn += 1;
        let take = size.min(out.len()).min(self.bytes.len() - self.at);
        out[..take].copy_from_slice(&self.bytes[self.at..self.at + take]);
        self.at += take;
        Ok(take)
    }
}

fn content(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|i| (i as u8).wrapping_mul(31).wrapping_add(seed)).collect()
}

fn write_all(client: Established, pieces: &[(usize, bool)]) -> (Vec<u8>, Vec<u8>) {
    let (mut wire, mut plain) = (Vec::new(), Vec::new());
    let mut writer = SealedWriter::new(&mut wire, client.sealer);
    for (at, (len, small)) in pieces.iter().enumerate() {
        let mut piece = content(*len, at as u8);
        plain.extend_from_slice(&piece);
        if *small { writer.queue(&piece).unwrap() } else { writer.write(&mut piece).unwrap() }
    }
    writer.close().unwrap();
    (wire, plain)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn what_is_written_arrives_however_the_network_cuts_it(
        pieces in proptest::collection::vec((0usize..70_000, any::<bool>()), 1..12),
        cuts in proptest::collection::vec(1usize..40_000, 1..6),
        takes in proptest::collection::vec(1usize..50_000, 1..6),
    ) {
        let (client, server, rest) = established();
        let (wire, plain) = write_all(client, &pieces);
        let stream = Cut { bytes: wire, at: 0, sizes: cuts, turn: 0 };
        let mut reader = SealedReader::new(stream, server.opener, &server.early, &rest).unwrap();
        let mut got = Vec::new();
        for turn in 0.. {
            let taken = reader.take(takes[turn % takes.len()], |parts| {
                parts.iter().for_each(|part| got.extend_from_slice(part));
                Ok::<_, io::Error>(())
            }).unwrap();
            if taken == 0 { break; }
        }
        prop_assert_eq!(got.len(), plain.len());
        prop_assert!(got == plain);
    }

    #[test]
    fn one_changed_bit_ends_the_channel(at in any::<prop::sample::Index>(), bit in 0u8..8) {
        let (client, server, rest) = established();
        let (mut wire, plain) = write_all(client, &[(40_000, false), (10, true), (20_000, false)]);
        let at = at.index(wire.len());
        wire[at] ^= 1 << bit;
        let stream = Cut { bytes: wire, at: 0, sizes: vec![1 << 20], turn: 0 };
        let mut got = Vec::new();
        let result = SealedReader::new(stream, server.opener, &server.early, &rest).and_then(|mut reader| {
            loop {
                let taken = reader.take(1 << 20, |parts| {
                    parts.iter().for_each(|part| got.extend_from_slice(part));
                    Ok::<_, io::Error>(())
                })?;
                if taken == 0 { return Ok(()); }
            }
        });
        prop_assert!(result.is_err(), "altered at {at}");
        prop_assert!(plain.starts_with(&got), "nothing altered was lent out");
    }
}

#[test]
fn a_cut_connection_is_not_mistaken_for_an_orderly_end() {
    let (client, server, rest) = established();
    let (wire, _) = write_all(client, &[(40_000, false)]);
    let torn = wire.len() - 10;
    let stream = Cut { bytes: wire[..torn].to_vec(), at: 0, sizes: vec![1 << 20], turn: 0 };
    let mut reader = SealedReader::new(stream, server.opener, &server.early, &rest).unwrap();
    let mut out = vec![0; 40_000];
    assert!(reader.read_exact(&mut out).unwrap());
    let end = reader.read_exact(&mut out[..1]);
    assert_eq!(end.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
}

#[test]
fn another_certificate_is_refused() {
    let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let shown = Certificate::kept_in(first.path()).unwrap();
    let expected = Certificate::kept_in(second.path()).unwrap().fingerprint();
    assert_ne!(shown.fingerprint(), expected);
    let server = ServerTls::new(shown.chain, shown.key).unwrap();
    let client = ClientTls::new(Some(expected)).unwrap();
    let mut client = Handshake::client(Arc::clone(&client.data), "127.0.0.1".try_into().unwrap()).unwrap();
    let mut server = Handshake::server(Arc::clone(&server.data)).unwrap();
    let (mut hello, mut answer) = (Vec::new(), Vec::new());
    client.advance(&mut Vec::new(), &mut hello).unwrap();
    server.advance(&mut hello, &mut answer).unwrap();
    assert!(client.advance(&mut answer, &mut Vec::new()).is_err());
}

#[test]
fn a_kept_certificate_stays_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let first = Certificate::kept_in(dir.path()).unwrap().fingerprint();
    assert_eq!(Certificate::kept_in(dir.path()).unwrap().fingerprint(), first);
}
