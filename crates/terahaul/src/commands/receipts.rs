//! Fetching a receipt, and keeping it.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use tempfile::NamedTempFile;
use terahaul_core::TransferId;

use crate::api::Api;
use crate::exit::{Exit, Failure};
use crate::proof::ReceiptFile;

/// The depot's receipt, checked, in a file that has no name.
pub async fn fetch(api: &Api, transfer: TransferId) -> Result<ReceiptFile, Failure> {
    let mut file =
        tempfile::tempfile().map_err(|error| Failure::file("written", &std::env::temp_dir(), &error))?;
    api.receipt(transfer, &mut file).await?;
    blocking(move || ReceiptFile::check(file)).await?
}

/// Whether a receipt can be kept as `path`: better known before the transfer than after it.
pub fn check_place(path: Option<&Path>) -> Result<(), Failure> {
    let Some(path) = path else { return Ok(()) };
    let failed = |error: std::io::Error| Failure::usage(Failure::file("written", path, &error).message);
    if path.is_dir() {
        return Err(failed(std::io::ErrorKind::IsADirectory.into()));
    }
    temporary(path).map(drop).map_err(failed)
}

/// A file beside `path`, for it to become.
fn temporary(path: &Path) -> std::io::Result<NamedTempFile> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    tempfile::Builder::new().prefix(".receipt-").tempfile_in(folder)
}

/// Keeps the depot's receipt, checked, as `path`: whole or not at all.
pub async fn keep(api: &Api, transfer: TransferId, path: &Path) -> Result<(), Failure> {
    let failed =
        |error: std::io::Error| Failure { exit: Exit::Unexpected, ..Failure::file("written", path, &error) };
    let mut file = temporary(path).map_err(failed)?;
    api.receipt(transfer, file.as_file_mut()).await?;
    file.flush().map_err(failed)?;
    file.as_file().sync_all().map_err(failed)?;
    let readable: File = file.reopen().map_err(failed)?;
    blocking(move || ReceiptFile::check(readable)).await??;
    file.persist(path).map_err(|error| failed(error.error))?;
    Ok(())
}

/// Runs `act` where it may block.
pub async fn blocking<T: Send + 'static>(act: impl FnOnce() -> T + Send + 'static) -> Result<T, Failure> {
    tokio::task::spawn_blocking(act).await.map_err(thread_failed)
}

/// A thread of this program ended out of turn.
pub fn thread_failed(error: tokio::task::JoinError) -> Failure {
    Failure::new(Exit::Unexpected, format!("a thread failed: {error}"))
}
