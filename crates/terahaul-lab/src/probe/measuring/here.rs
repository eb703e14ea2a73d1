//! What this end is like: its kernel's settings, its ciphers, its disk.

use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::LabError;
use crate::ciphers::Cipher;
use crate::limits;
use crate::probe::{Buffer, Here};

/// For each cipher and each way of reading or writing.
const TIME: Duration = Duration::from_millis(60);

/// This end, with the disk that `dir` is on. Takes about a second, and blocks.
pub fn here(dir: Option<&Path>) -> Result<Here, LabError> {
    let words = |name: &str| -> Vec<String> {
        let text = fs::read_to_string(format!("/proc/sys/net/ipv4/{name}")).unwrap_or_default();
        text.split_whitespace().map(str::to_owned).collect()
    };
    let buffer =
        |name: &str| match words(name).iter().map(|word| word.parse()).collect::<Result<Vec<u64>, _>>() {
            Ok(numbers) => match numbers[..] {
                [least, usual, most] => Some(Buffer { least, usual, most }),
                _ => None,
            },
            Err(_) => None,
        };
    let cipher = |cipher: Cipher| cipher.on_one_thread(TIME).bytes_per_second;
    let (disk_write, disk_read) = match dir {
        Some(dir) => limits::taste_folder(dir).map(|(write, read)| (Some(write), Some(read)))?,
        None => (None, None),
    };
    Ok(Here {
        processors: std::thread::available_parallelism().map_or(1, usize::from),
        send_buffer: buffer("tcp_wmem"),
        receive_buffer: buffer("tcp_rmem"),
        congestion_control: words("tcp_congestion_control").into_iter().next().unwrap_or_default(),
        congestion_controls: words("tcp_available_congestion_control"),
        aes: Some(cipher(Cipher::Aes128Gcm)),
        chacha: Some(cipher(Cipher::ChaCha20Poly1305)),
        disk_read,
        disk_write,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_end_has_buffers_ciphers_and_a_disk() {
        let folder = tempfile::tempdir().unwrap();
        let here = here(Some(folder.path())).unwrap();
        assert!(here.send_buffer.is_some_and(|buffer| buffer.most >= buffer.usual), "{here:?}");
        assert!(here.congestion_controls.contains(&here.congestion_control), "{here:?}");
        for rate in [here.aes, here.chacha, here.disk_read, here.disk_write] {
            assert!(rate.is_some_and(|rate| rate > 0.0), "{here:?}");
        }
        assert!(super::here(Some(Path::new("/nowhere/at/all"))).is_err());
    }
}
