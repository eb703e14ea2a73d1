//! Compressing pieces on their way out.

use std::net::TcpStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use terahaul_core::{Compress, Compression, Packing, PieceSent, Sampling};
use terahaul_wire::{PIECE_HEADER_LEN, PieceHeader};
use zstd::bulk::Compressor;

/// The law of compression, shared by a session's channels; `None` where nothing is compressed.
pub type SharedCompression = Option<Arc<Mutex<Compression>>>;

/// The law that the user asked for.
pub fn shared_compression(compress: Compress) -> SharedCompression {
    let cores = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let law = match compress {
        Compress::Auto => Compression::auto(cores()),
        Compress::No => return None,
        Compress::Level(level) => Compression::always(level),
    };
    Some(Arc::new(Mutex::new(law)))
}

/// Part of a piece that is compressed first, to see whether that is worth it.
const SAMPLE: usize = 16 << 10;
/// The level at which a sample shows what compressing costs: the one that is tried first.
const SAMPLE_LEVEL: i32 = 1;
/// Compressed to more than this many 32nds, bytes go as they are.
const WORTH: usize = 31;

/// One channel's compressor.
pub struct Packer {
    law: Arc<Mutex<Compression>>,
    sampling: Sampling,
    compressor: Option<(i32, Compressor<'static>)>,
    packed: Vec<u8>,
}

/// A piece as it goes out.
pub(super) enum Piece<'a> {
    /// As it is.
    Raw(&'a mut [u8]),
    /// Its header and a Zstandard frame.
    Packed(&'a mut [u8]),
}

impl Packer {
    /// A channel's, under the session's law.
    pub fn new(law: &Arc<Mutex<Compression>>) -> Self {
        Self { law: Arc::clone(law), sampling: Sampling::default(), compressor: None, packed: Vec::new() }
    }

    /// Whether pieces are to be compressed just now: blocks that begin now travel in pieces.
    pub(super) fn is_on(&self) -> bool {
        self.law().decide() != Packing::Raw
    }

    fn law(&self) -> std::sync::MutexGuard<'_, Compression> {
        self.law.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What to send for `piece`, and how long it took to find out.
    fn pack<'a>(&'a mut self, piece: &'a mut [u8]) -> (Piece<'a>, Duration) {
        let packing = self.law().decide();
        let Packing::Zstd { level } = packing else { return (Piece::Raw(piece), Duration::ZERO) };
        let start = Instant::now();
        match self.try_pack(piece, level) {
            Some(packed) => {
                let header = PieceHeader::Zstd { len: piece.len() as u32, packed: packed as u32 };
                self.packed[..PIECE_HEADER_LEN].copy_from_slice(&header.encode());
                (Piece::Packed(&mut self.packed[..PIECE_HEADER_LEN + packed]), start.elapsed())
            }
            None => (Piece::Raw(piece), start.elapsed()),
        }
    }

    /// A piece was written: `content` bytes as `wire`.
    fn handle_piece(&self, content: u64, wire: u64, effort: Duration, line_full: bool) {
        let mut law = self.law();
        let before = law.decide();
        law.handle_piece(Instant::now(), PieceSent { content, wire, effort, line_full });
        let now = law.decide();
        if now != before {
            tracing::debug!("pieces go {now:?} and no longer {before:?}");
        }
    }

    /// Looks, while a piece is sent as it is, what compressing would cost, if nobody knows.
    fn sample(&mut self, piece: &[u8]) {
        if !self.law().wants_sample() || !self.sampling.poll() {
            return;
        }
        let sample = sample_of(piece);
        self.packed.resize(PIECE_HEADER_LEN + piece.len(), 0);
        // The first one also makes the compressor and fills the caches.
        let compressible = self.compress(sample, SAMPLE_LEVEL).is_some();
        self.sampling.handle_sample(compressible);
        if compressible {
            let start = Instant::now();
            self.compress(sample, SAMPLE_LEVEL);
            self.law().handle_sample(sample.len() as u64, start.elapsed());
        }
    }

    /// Compresses behind the room for a header; `None` where that is not worth it or fails: then bytes go as they are.
    fn try_pack(&mut self, piece: &[u8], level: i32) -> Option<usize> {
        if !self.sampling.poll() {
            return None;
        }
        self.packed.resize(PIECE_HEADER_LEN + piece.len(), 0);
        let sample = sample_of(piece);
        let promising = sample.len() == piece.len() || self.compress(sample, level).is_some();
        let packed = promising.then(|| self.compress(piece, level)).flatten();
        self.sampling.handle_sample(packed.is_some());
        packed
    }

    /// Compresses into what lies behind the header, if the result is worth it.
    fn compress(&mut self, bytes: &[u8], level: i32) -> Option<usize> {
        let compressor = match &mut self.compressor {
            Some((at, compressor)) if *at == level => compressor,
            slot => &mut slot.insert((level, Compressor::new(level).ok()?)).1,
        };
        let most = bytes.len() * WORTH / 32;
        compressor.compress_to_buffer(bytes, &mut self.packed[PIECE_HEADER_LEN..PIECE_HEADER_LEN + most]).ok()
    }
}

/// Hands a piece to `write` as the law of compression has it, and tells the law how that went. Not `in_pieces` it goes as it
/// is. Errors are those of `write`.
pub(super) fn carry<E>(
    packer: &mut Option<Packer>,
    bytes: &mut [u8],
    in_pieces: bool,
    line_full: impl FnOnce() -> bool,
    write: impl FnOnce(Piece<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let Some(packer) = packer else { return write(Piece::Raw(bytes)) };
    let (line_full, content) = (line_full(), bytes.len());
    if !in_pieces && line_full {
        packer.sample(bytes);
    }
    let (piece, effort) = if in_pieces { packer.pack(bytes) } else { (Piece::Raw(bytes), Duration::ZERO) };
    let wire = match &piece {
        Piece::Raw(_) => content,
        Piece::Packed(packed) => packed.len(),
    };
    write(piece)?;
    packer.handle_piece(content as u64, wire as u64, effort, line_full);
    Ok(())
}

/// The middle: a file's first bytes are often like no others.
fn sample_of(piece: &[u8]) -> &[u8] {
    let middle = piece.len() / 2;
    &piece[middle.saturating_sub(SAMPLE / 2)..(middle + SAMPLE / 2).min(piece.len())]
}

/// Whether what was written to a socket before still fills it.
pub(crate) fn is_full(socket: &TcpStream) -> bool {
    let mut asked = [PollFd::new(socket, PollFlags::OUT)];
    // A socket that cannot be asked will say so when it is written to.
    poll(&mut asked, Some(&Timespec::default())).is_ok_and(|ready| ready == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_compressed_is_and_what_cannot_goes_as_it_is() {
        let law = Arc::new(Mutex::new(Compression::always(1)));
        let mut packer = Packer::new(&law);
        let mut text = b"the quick brown fox ".repeat(10_000);
        let (Piece::Packed(sent), _) = packer.pack(&mut text) else { panic!("text is compressed") };
        assert!(sent.len() < 20_000);
        let header = PieceHeader::decode(sent.first_chunk().unwrap(), u32::MAX).unwrap();
        assert_eq!(
            header,
            PieceHeader::Zstd { len: 200_000, packed: (sent.len() - PIECE_HEADER_LEN) as u32 }
        );
        assert_eq!(zstd::bulk::decompress(&sent[PIECE_HEADER_LEN..], 200_000).unwrap(), text);

        let mut noise = vec![0; 200_000];
        blake3::Hasher::new().finalize_xof().fill(&mut noise);
        assert!(matches!(packer.pack(&mut noise), (Piece::Raw(_), _)));
        assert!(matches!(packer.pack(&mut [7]), (Piece::Raw(_), _)), "a byte cannot become fewer");
    }
}
