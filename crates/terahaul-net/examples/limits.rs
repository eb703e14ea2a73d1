//! What one core of this machine does alone with each part of a transfer: seconds for a whole file, as JSON.
//!
//! `limits SOURCE TARGET`: reads SOURCE, writes TARGET (removed at the end).

use std::error::Error;
use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::FileExt;
use std::time::Instant;

use ring::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};

const PIECE: usize = 256 << 10;
const RECORD: usize = 16384;

fn seconds(act: impl FnOnce() -> Result<(), Box<dyn Error>>) -> Result<f64, Box<dyn Error>> {
    let start = Instant::now();
    act()?;
    Ok(start.elapsed().as_secs_f64())
}

/// CPU seconds that the calling thread has used: loopback needs two threads, and each end is charged its own.
fn thread_cpu() -> Result<f64, Box<dyn Error>> {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    let nanos: f64 = stat.split(' ').next().unwrap_or("0").parse()?;
    Ok(nanos / 1e9)
}

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().collect();
    let [_, source, target] = &args[..] else { return Err("usage: limits SOURCE TARGET".into()) };
    let file = File::open(source)?;
    let pieces = file.metadata()?.len() / PIECE as u64;
    let mut buffer = vec![0; PIECE];
    let read =
        seconds(|| (0..pieces).try_for_each(|at| Ok(file.read_exact_at(&mut buffer, at * PIECE as u64)?)))?;
    let hash = seconds(|| {
        let mut hasher = blake3::Hasher::new();
        (0..pieces).for_each(|_| {
            hasher.update(&buffer);
        });
        std::hint::black_box(hasher.finalize());
        Ok(())
    })?;
    let key = LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &[7; 16])?);
    let seal = seconds(|| {
        for _ in 0..pieces {
            for record in buffer.chunks_mut(RECORD) {
                let nonce = Nonce::assume_unique_for_key([0; 12]);
                let _tag = key.seal_in_place_separate_tag(nonce, Aad::empty(), record)?;
            }
        }
        Ok(())
    })?;
    let mut sealed = vec![0; RECORD];
    key.seal_in_place_append_tag(Nonce::assume_unique_for_key([0; 12]), Aad::empty(), &mut sealed)?;
    let open = seconds(|| {
        // It is opened in place, so each time there is a copy to open.
        let mut record = vec![0; sealed.len()];
        for _ in 0..pieces * (PIECE / RECORD) as u64 {
            record.copy_from_slice(&sealed);
            key.open_in_place(Nonce::assume_unique_for_key([0; 12]), Aad::empty(), &mut record)?;
        }
        Ok(())
    })?;
    let (copy_out, copy_in) = loopback(pieces, &buffer)?;
    let write = seconds(|| {
        let out = File::create(target)?;
        (0..pieces).try_for_each(|at| Ok(out.write_all_at(&buffer, at * PIECE as u64)?))
    })?;
    std::fs::remove_file(target)?;
    println!(
        r#"{{"read":{read:.3},"hash":{hash:.3},"seal":{seal:.3},"open":{open:.3},"copy_out":{copy_out:.3},"copy_in":{copy_in:.3},"write":{write:.3}}}"#
    );
    Ok(())
}

fn loopback(pieces: u64, piece: &[u8]) -> Result<(f64, f64), Box<dyn Error>> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let receiver = std::thread::spawn(move || -> Result<f64, String> {
        let run = || -> Result<f64, Box<dyn Error>> {
            let (mut socket, _) = listener.accept()?;
            let mut buffer = vec![0; 2 * PIECE];
            let start = thread_cpu()?;
            while socket.read(&mut buffer)? > 0 {}
            Ok(thread_cpu()? - start)
        };
        run().map_err(|error| error.to_string())
    });
    let mut socket = TcpStream::connect(address)?;
    let start = thread_cpu()?;
    for _ in 0..pieces {
        socket.write_all(piece)?;
    }
    let copy_out = thread_cpu()? - start;
    drop(socket);
    let copy_in = receiver.join().map_err(|_| "the receiving thread failed")??;
    Ok((copy_out, copy_in))
}
