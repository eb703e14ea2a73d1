//! Where publishing may be interrupted: tests make it stop at each of these points in turn.

use std::io;

#[cfg(test)]
thread_local! {
    static LEFT: std::cell::Cell<Option<u32>> = const { std::cell::Cell::new(None) };
}

/// Called before each change to the file system. A test may have it fail, which leaves the disk as a crash would.
#[inline]
pub(crate) fn point() -> io::Result<()> {
    #[cfg(test)]
    if let Some(left) = LEFT.get() {
        let Some(fewer) = left.checked_sub(1) else {
            return Err(io::Error::other("crash"));
        };
        LEFT.set(Some(fewer));
    }
    Ok(())
}

/// Lets `points` changes pass on this thread, then fails; `None` lets all pass.
#[cfg(test)]
pub(crate) fn crash_after(points: Option<u32>) {
    LEFT.set(points);
}
