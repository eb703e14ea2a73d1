//! What a file system still takes.

use std::io;
use std::os::fd::AsFd;

use rustix::fs::fstatvfs;

/// Bytes that this user may still write to the file system that `folder` is on. `None` where it does not say: one of no blocks at all
/// is in memory and has no limit, or is in user space and nobody has told it to count.
pub fn free_space(folder: impl AsFd) -> io::Result<Option<u64>> {
    let said = fstatvfs(folder)?;
    Ok((said.f_blocks > 0).then(|| said.f_bavail.saturating_mul(said.f_frsize)))
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn a_file_system_that_counts_says_how_much_it_takes() {
        let dir = tempfile::tempdir().unwrap();
        assert!(free_space(File::open(dir.path()).unwrap()).unwrap().is_some_and(|free| free > 0));
    }

    /// It was taken for full, and every copy onto it was refused.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_file_system_that_does_not_count_is_not_full() {
        assert_eq!(free_space(File::open("/proc").unwrap()).unwrap(), None);
    }
}
