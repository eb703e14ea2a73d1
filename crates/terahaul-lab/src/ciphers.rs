//! How fast each cipher and each hash is on this machine: what decides which of them a transfer should use.
//!
//! The tables of FileSender's and MyData's studies are the model. They measured blocks of 1 KiB, which is near a
//! packet's size; TLS seals 16 KiB at a time.

use std::convert::Infallible;
use std::time::Duration;

use md5::Digest;
use ring::aead::{
    AES_128_GCM, AES_256_GCM, Aad, Algorithm, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey,
};
use serde::{Deserialize, Serialize};

use crate::limits::{Measured, on_all_threads, repeat};

/// The sizes that are measured.
pub const SIZES: [usize; 2] = [1 << 10, 16 << 10];
/// Bytes in one repetition on one thread.
const BYTES: usize = 16 << 20;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cipher {
    /// What Terahaul uses where the processor has AES.
    #[serde(rename = "aes-128-gcm")]
    Aes128Gcm,
    /// The same with a longer key.
    #[serde(rename = "aes-256-gcm")]
    Aes256Gcm,
    /// What Terahaul uses where the processor has no AES.
    #[serde(rename = "chacha20-poly1305")]
    ChaCha20Poly1305,
    /// What Terahaul hashes with.
    #[serde(rename = "blake3")]
    Blake3,
    /// What many archives check with.
    #[serde(rename = "sha-256")]
    Sha256,
    /// What MyData and others check with. Broken as a proof.
    #[serde(rename = "md5")]
    Md5,
}

/// Every cipher and hash.
pub const ALL: [Cipher; 6] = [
    Cipher::Aes128Gcm,
    Cipher::Aes256Gcm,
    Cipher::ChaCha20Poly1305,
    Cipher::Blake3,
    Cipher::Sha256,
    Cipher::Md5,
];

/// How fast one of them is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CipherSpeed {
    /// Which.
    pub cipher: Cipher,
    /// Whether it encrypts; otherwise it hashes.
    pub encrypts: bool,
    /// On one thread, for each of [`SIZES`].
    pub one_thread: Vec<Measured>,
    /// On every processor at once, for the last of [`SIZES`].
    pub all_threads: Measured,
    /// How many those are.
    pub threads: usize,
}

impl Cipher {
    /// As TLS and tools name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Aes128Gcm => "AES-128-GCM",
            Self::Aes256Gcm => "AES-256-GCM",
            Self::ChaCha20Poly1305 => "ChaCha20-Poly1305",
            Self::Blake3 => "BLAKE3",
            Self::Sha256 => "SHA-256",
            Self::Md5 => "MD5",
        }
    }

    fn algorithm(self) -> Option<&'static Algorithm> {
        match self {
            Self::Aes128Gcm => Some(&AES_128_GCM),
            Self::Aes256Gcm => Some(&AES_256_GCM),
            Self::ChaCha20Poly1305 => Some(&CHACHA20_POLY1305),
            Self::Blake3 | Self::Sha256 | Self::Md5 => None,
        }
    }

    /// Works on [`BYTES`] bytes, `size` at a time.
    fn run(self, size: usize) -> u64 {
        let mut record = vec![0x5a; size];
        let records = BYTES / size;
        match self.algorithm() {
            Some(algorithm) => {
                if !seal(algorithm, &mut record, records) {
                    return 0;
                }
            }
            None => (0..records).for_each(|_| self.hash(&record)),
        }
        std::hint::black_box(&record);
        (records * size) as u64
    }

    fn hash(self, record: &[u8]) {
        match self {
            Self::Sha256 => {
                std::hint::black_box(ring::digest::digest(&ring::digest::SHA256, record));
            }
            Self::Md5 => {
                std::hint::black_box(md5::Md5::digest(record));
            }
            _ => {
                std::hint::black_box(blake3::hash(record));
            }
        }
    }

    fn rate(self, time: Duration, threads: usize, size: usize) -> Measured {
        let measured: Result<Measured, Infallible> =
            repeat(time, || Ok(on_all_threads(threads, || self.run(size))));
        measured.unwrap_or_default()
    }

    /// Measures it on one thread, as TLS uses it. Blocks.
    pub fn on_one_thread(self, time: Duration) -> Measured {
        self.rate(time, 1, SIZES[SIZES.len() - 1])
    }

    /// Measures it, `time` for each figure. Blocks.
    pub fn measure(self, time: Duration) -> CipherSpeed {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let rate = |threads: usize, size: usize| self.rate(time, threads, size);
        CipherSpeed {
            cipher: self,
            encrypts: self.algorithm().is_some(),
            one_thread: SIZES.iter().map(|size| rate(1, *size)).collect(),
            all_threads: rate(threads, SIZES[SIZES.len() - 1]),
            threads,
        }
    }
}

/// Whether every record was sealed.
fn seal(algorithm: &'static Algorithm, record: &mut [u8], records: usize) -> bool {
    let Ok(key) = UnboundKey::new(algorithm, &vec![7; algorithm.key_len()]).map(LessSafeKey::new) else {
        return false;
    };
    (0..records as u32).all(|number| {
        let mut nonce = [0; 12];
        nonce[..4].copy_from_slice(&number.to_le_bytes());
        let nonce = Nonce::assume_unique_for_key(nonce);
        key.seal_in_place_separate_tag(nonce, Aad::empty(), record).is_ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cipher_works_on_all_of_its_bytes() {
        for cipher in ALL {
            for size in SIZES {
                assert_eq!(cipher.run(size), BYTES as u64, "{}", cipher.name());
            }
        }
    }

    #[test]
    fn speeds_are_named_in_json_as_they_are_asked_for() {
        let speed = CipherSpeed {
            cipher: Cipher::ChaCha20Poly1305,
            encrypts: true,
            one_thread: vec![Measured::of(&[1.0])],
            all_threads: Measured::of(&[2.0]),
            threads: 2,
        };
        let json = serde_json::to_value(&speed).unwrap();
        assert_eq!(json["cipher"], "chacha20-poly1305");
        assert_eq!(serde_json::from_value::<CipherSpeed>(json).unwrap(), speed);
    }
}
