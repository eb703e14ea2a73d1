//! Fetching a receipt, and keeping it.

use std::cell::Cell;
use std::fs::File;
use std::io::Seek;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use tempfile::NamedTempFile;
use terahaul_core::TransferId;
use terahaul_store::remedy_of_too_many_files;

use crate::api::Api;
use crate::blocking::blocking;
use crate::commands::persist::persist_getting_on;
use crate::exit::{Exit, Failure};
use crate::proof::ReceiptFile;

/// A file without a name, for a receipt.
pub fn unnamed() -> Result<File, Failure> {
    tempfile::tempfile().map_err(|error| unnamed_failed(&error))
}

/// Why there is none, or it cannot be written: nobody has named the folder that it is in.
pub fn unnamed_failed(error: &std::io::Error) -> Failure {
    if let Some(remedy) = remedy_of_too_many_files(error) {
        return Failure::new(
            Exit::Unexpected,
            format!("a temporary file cannot be opened ({error}): {remedy}"),
        );
    }
    let folder = std::env::temp_dir();
    let Failure { exit, code, .. } = Failure::place(&folder, error);
    let room = if exit == Exit::NoSpace { "free some space there, or " } else { "" };
    let message = format!(
        "the folder for temporary files, {}, cannot be used ({error}): {room}name another one in TMPDIR",
        folder.display()
    );
    Failure { exit, code, message }
}

/// The depot's receipt, checked, in a file that has no name. Calls `on_wait` each time that it has to wait for the depot.
pub async fn fetch(api: &Api, transfer: TransferId, on_wait: &dyn Fn()) -> Result<ReceiptFile, Failure> {
    let mut file = unnamed()?;
    download(api, transfer, &mut file, &unnamed_failed, on_wait).await?;
    blocking(move || ReceiptFile::check(file)).await?
}

/// Writes the receipt to `file`. The depot was there a moment ago, so it is waited for.
async fn download(
    api: &Api,
    transfer: TransferId,
    file: &mut File,
    failed: &dyn Fn(&std::io::Error) -> Failure,
    on_wait: &dyn Fn(),
) -> Result<(), Failure> {
    let reached = Cell::new(0);
    persist_getting_on(on_wait, &|| reached.get(), async || {
        // As far as it came before.
        let emptied = file.set_len(0).and_then(|()| file.rewind());
        emptied.map_err(|error| failed(&error))?;
        let fetched = api.receipt(transfer, file, failed).await;
        reached.set(file.stream_position().unwrap_or_default());
        fetched
    })
    .await
}

/// Whether a receipt can be kept as `path`: better known before the transfer than after it. It comes by renaming, which would put a
/// file in the place of a device or a link.
pub fn check_place(path: Option<&Path>) -> Result<(), Failure> {
    let Some(path) = path else { return Ok(()) };
    let failed = |error: std::io::Error| Failure::place(path, &error);
    let names_folder = path.as_os_str().as_bytes().ends_with(b"/") || path.file_name().is_none();
    match path.symlink_metadata() {
        _ if names_folder => {
            return Err(Failure::usage(format!(
                "'{}' is no file's name, so no receipt is kept as it: give --receipt FILE",
                path.display()
            )));
        }
        Ok(there) if !there.is_file() => {
            return Err(Failure::usage(format!(
                "{} is there and is no regular file, so no receipt is kept as it: give another --receipt",
                path.display()
            )));
        }
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(failed(error)),
    }
    temporary(path).map(drop).map_err(failed)
}

/// The folder that `path` is in.
pub fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// A file beside `path`, for it to become.
fn temporary(path: &Path) -> std::io::Result<NamedTempFile> {
    // Its error names that file, of which nobody has heard.
    tempfile::Builder::new()
        .prefix(".receipt-")
        .tempfile_in(folder_of(path))
        .map_err(|error| error.kind().into())
}

/// Keeps the depot's receipt, checked, as `path`: whole or not at all. Calls `on_wait` as [`fetch`] does.
pub async fn keep(api: &Api, transfer: TransferId, path: &Path, on_wait: &dyn Fn()) -> Result<(), Failure> {
    // What is being downloaded has no name: nobody would clear it away after a crash.
    let unwritable = |error: &std::io::Error| Failure::unwritable(path, error);
    let mut file = tempfile::tempfile_in(folder_of(path)).map_err(|error| unwritable(&error))?;
    download(api, transfer, &mut file, &unwritable, on_wait).await?;
    let path = path.to_owned();
    blocking(move || {
        let failed = |error: std::io::Error| Failure::unwritable(&path, &error);
        ReceiptFile::check(file.try_clone().map_err(failed)?)?;
        file.rewind().map_err(failed)?;
        let mut named = temporary(&path).map_err(failed)?;
        std::io::copy(&mut file, &mut named).map_err(failed)?;
        named.as_file().sync_all().map_err(failed)?;
        named.persist(&path).map_err(|error| failed(error.error)).map(drop)
    })
    .await?
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::DepotSettings;

    /// "The receipt could not be written", of which nobody had asked for one, nor knew where it was to be.
    #[test]
    fn a_full_folder_for_temporary_files_is_named() {
        for (kind, exit, remedy) in [
            (std::io::ErrorKind::StorageFull, Exit::NoSpace, "free some space there, or name another"),
            (std::io::ErrorKind::NotFound, Exit::Usage, "used (entity not found): name another"),
        ] {
            let failed = unnamed_failed(&kind.into());
            assert_eq!(failed.exit, exit);
            assert!(
                failed.message.contains(remedy) && failed.message.contains("TMPDIR"),
                "{}",
                failed.message
            );
        }
    }

    /// Another folder was to be named.
    #[test]
    fn too_many_open_files_are_no_fault_of_the_folder_for_temporary_files() {
        let failed = unnamed_failed(&rustix::io::Errno::MFILE.into());
        assert_eq!(failed.exit, Exit::Unexpected);
        let message = failed.message;
        assert!(message.contains("ulimit -n") && !message.contains("TMPDIR"), "{message}");
    }

    #[tokio::test]
    async fn whoever_waits_for_a_receipt_is_told_so_at_once() {
        let endpoint = "https://127.0.0.1:1/".parse().unwrap();
        let api = Api::new(&DepotSettings { endpoint, credential: String::new() }).unwrap();
        let (told, mut is_told) = tokio::sync::mpsc::unbounded_channel();
        let on_wait = || told.send(()).unwrap();
        tokio::select! {
            ended = fetch(&api, TransferId([1; 16]), &on_wait) => panic!("{:?}", ended.err()),
            told = is_told.recv() => assert!(told.is_some()),
        }
    }
}
