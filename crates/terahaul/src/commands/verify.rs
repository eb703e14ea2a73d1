//! `terahaul verify`

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc;

use terahaul_core::{ByteCount, Entry, EntryKind, FailureCause, Hash};
use terahaul_tree::{Filter, Roots, Skipped, Verdict, VerifyError};

use crate::api::Api;
use crate::blocking::blocking;
use crate::cli::VerifyArgs;
use crate::commands::may_be_link;
use crate::commands::receipts::{unnamed, unnamed_failed};
use crate::exit::{Exit, Failure};
use crate::output::{Event, Output, PathText, counted, printable, printable_path};
use crate::proof::ReceiptFile;
use crate::settings::{Environment, Target};

/// Entries read from the receipt ahead of those being compared.
const AHEAD: usize = 4096;
/// Bytes in which a receipt begins, whatever space comes before it.
const BEGINNING: u64 = 4096;
/// Bytes of a receipt that comes through a pipe: of more entries than there may be in a transfer.
const MOST: u64 = 16 << 30;

pub async fn run(args: VerifyArgs, output: &Output) -> Result<Exit, Failure> {
    let filter = Filter::new(&args.filter.include, &args.filter.exclude).map_err(Failure::usage)?;
    let file = open(&args.against).await?;
    let output = output.clone();
    blocking(move || Comparison { dir: args.dir, filter, extra: args.extra, output }.run(file)).await?
}

/// A receipt's file, or the receipt of a link, in a file that has no name.
async fn open(against: &str) -> Result<File, Failure> {
    let path = Path::new(against);
    let names_transfer = || {
        let against = against.trim();
        may_be_link(against) || against.parse::<terahaul_core::TransferId>().is_ok()
    };
    if against != "-" && (path.exists() || !names_transfer()) {
        let path = path.to_owned();
        return blocking(move || open_file(&path)).await?;
    }
    let target = Target::settle(against, None, &Environment::read()).await?;
    let mut file = unnamed()?;
    Api::new(&target.depot)?.receipt(target.transfer, &mut file, &unnamed_failed).await?;
    Ok(file)
}

/// What is no receipt at all is a mistake on the command line, and says nothing of what was signed.
fn open_file(path: &Path) -> Result<File, Failure> {
    let unread = |error| Failure::file("read", path, &error);
    let file = File::open(path).map_err(unread)?;
    let kind = file.metadata().map_err(unread)?.file_type();
    let mut beginning = Vec::new();
    if !kind.is_dir() {
        (&file).take(BEGINNING).read_to_end(&mut beginning).map_err(unread)?;
    }
    match beginning.trim_ascii_start().first() {
        Some(b'{') if kind.is_file() => Ok(file),
        // It is read twice, and a pipe gives it once.
        Some(b'{') => kept(path, &beginning, &file),
        _ => Err(Failure::usage(format!(
            "{} is no receipt: give a file that --receipt of 'terahaul send', 'receive' or 'info' has written, and then the folder to compare with it",
            printable_path(path)
        ))),
    }
}

/// What came out of a pipe, and the rest of it, in a file that has no name.
fn kept(path: &Path, beginning: &[u8], rest: &File) -> Result<File, Failure> {
    let mut file = unnamed()?;
    file.write_all(beginning).map_err(|error| unnamed_failed(&error))?;
    let (mut rest, mut copied, mut buffer) = (rest, 0, vec![0; 1 << 16]);
    loop {
        let read = match rest.read(&mut buffer) {
            Ok(0) => return Ok(file),
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(Failure::file("read", path, &error)),
        };
        file.write_all(&buffer[..read]).map_err(|error| unnamed_failed(&error))?;
        copied += read as u64;
        if copied > MOST {
            return Err(Failure::usage(format!(
                "{} does not end where any receipt would: give a file that --receipt has written",
                printable_path(path)
            )));
        }
    }
}

struct Comparison {
    dir: PathBuf,
    filter: Filter,
    extra: bool,
    output: Output,
}

#[derive(Default)]
struct Count {
    compared: u64,
    different: u64,
    /// Signed ones of which nobody can say whether they differ.
    unreadable: u64,
    /// What is there and was not compared.
    extra: u64,
}

impl Count {
    fn differing(&self) -> Option<String> {
        let Self { compared, different, .. } = self;
        let differ = counted(*different, "entry differs", "entries differ");
        (*different > 0).then(|| {
            format!("{differ} from what was signed, of {compared} compared: receive or copy them again")
        })
    }

    fn unread(&self) -> Option<String> {
        let entries = counted(self.unreadable, "entry", "entries");
        (self.unreadable > 0).then(|| {
            format!("{entries} could not be read, and may be as signed: check permissions, and the disk")
        })
    }

    fn beside(&self) -> Option<String> {
        let Self { compared, extra, .. } = self;
        let are = counted(*extra, "entry is", "entries are");
        (*extra > 0).then(|| {
            format!(
                "{are} there beside the {compared} compared, and named: remove what does not belong there"
            )
        })
    }
}

impl Comparison {
    fn run(self, file: File) -> Result<Exit, Failure> {
        let receipt = ReceiptFile::check(file)?;
        // The number is signed, and the list is not.
        let failed = receipt.statement.failed;
        if failed > 0 {
            self.output.notice(counted(
                failed,
                "entry did not arrive, as the receipt says, and is not compared",
                "entries did not arrive, as the receipt says, and are not compared",
            ));
        }
        let mut count = Count::default();
        self.compare(&receipt, &mut count)?;
        if self.extra {
            self.find_extra(&receipt, &mut count)?;
        }
        let Count { compared, different, unreadable, extra } = count;
        let different = different + unreadable;
        if compared == 0 && receipt.statement.entries > 0 {
            return Err(Failure::usage(
                "nothing that was signed is selected, so nothing is verified: check --include and --exclude",
            ));
        }
        let statement = &receipt.statement;
        let result = serde_json::json!({
            "transfer": statement.transfer,
            "name": statement.name,
            "public_key": statement.public_key,
            "compared": compared,
            "different": different + extra,
            "extra": extra,
        });
        if different + extra == 0 {
            let text = format!(
                "{} signed on {} (transfer {}, depot key {})",
                if compared == 1 {
                    "1 entry is as it was".into()
                } else {
                    format!("{compared} entries are as they were")
                },
                crate::output::date_of(statement.completed),
                statement.transfer,
                statement.public_key
            );
            self.output.emit(&Event::Done { command: "verify", result, text });
            return Ok(Exit::Ok);
        }
        self.output.emit(&Event::Done { command: "verify", result, text: String::new() });
        let said: Vec<_> =
            [count.differing(), count.unread(), count.beside()].into_iter().flatten().collect();
        Err(Failure::new(Exit::VerifyFailed, said.join("; ")))
    }

    fn compare(&self, receipt: &ReceiptFile, count: &mut Count) -> Result<(), Failure> {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let (feed, entries) = mpsc::sync_channel::<(Entry, Option<Hash>)>(AHEAD);
        std::thread::scope(|scope| {
            let read = move || {
                receipt.entries(&mut |entry| match entry.to_entry() {
                    // The other end is gone when the comparison failed; that is reported there.
                    Ok(plain) => !self.filter.selects(&plain) || feed.send((plain, entry.blake3)).is_ok(),
                    Err(_) => true,
                })
            };
            let reader = std::thread::Builder::new().spawn_scoped(scope, read);
            let reader = reader.map_err(|error| uncompared(&self.dir, &VerifyError::Thread(error)))?;
            let compared =
                terahaul_tree::verify(&self.dir, entries.into_iter(), threads, |_, entry, verdict| {
                    count.compared += 1;
                    if let Some((what, message)) = describe(entry, &verdict) {
                        match verdict {
                            Verdict::Unreadable(_) => count.unreadable += 1,
                            _ => count.different += 1,
                        }
                        self.output.emit(&Event::Difference {
                            path: (&entry.path).into(),
                            what,
                            message: &message,
                        });
                    }
                });
            compared.map_err(|error| uncompared(&self.dir, &error))?;
            reader.join().map_err(|_| Failure::new(Exit::Unexpected, "reading the receipt failed"))?
        })
    }

    fn find_extra(&self, receipt: &ReceiptFile, count: &mut Count) -> Result<(), Failure> {
        // And whether it is a folder, of which only its being there was compared.
        let mut known = BTreeMap::new();
        receipt.entries(&mut |entry| {
            if let Ok(entry) = entry.to_entry() {
                // A browser's transfer lists files only: the folders above them belong to it as well.
                let mut path = entry.path.as_bytes();
                let is_folder = entry.kind == EntryKind::Directory || known.contains_key(path);
                known.insert(Box::<[u8]>::from(path), is_folder);
                while let Some(slash) = path.iter().rposition(|&b| b == b'/') {
                    path = &path[..slash];
                    if known.insert(Box::from(path), true).is_some() {
                        break;
                    }
                }
            }
            true
        })?;
        let mut inside = self.dir.clone().into_os_string();
        inside.push("/");
        let roots = Roots::open(&[PathBuf::from(inside)]).map_err(Failure::usage)?;
        let mut differs = |path: PathText, what, message: &str, is_signed: bool| {
            *if is_signed { &mut count.unreadable } else { &mut count.extra } += 1;
            self.output.emit(&Event::Difference { path, what, message });
        };
        let mut named = BTreeSet::<Box<[u8]>>::new();
        let mut too_many_files = None;
        terahaul_tree::walk(&roots, &self.filter, 0, |batch| {
            for entry in batch.found.iter().filter(|entry| !known.contains_key(entry.path.as_bytes())) {
                differs((&entry.path).into(), "extra", "is not in the receipt", false);
                if entry.kind == EntryKind::Directory {
                    named.insert(Box::from(entry.path.as_bytes()));
                }
            }
            for skipped in &batch.skipped {
                let Skipped { path, cause, detail, .. } = skipped;
                if skipped.too_many_files {
                    too_many_files = Some(format!("{} {}", printable_path(path), skipped.message()));
                    return ControlFlow::Break(());
                }
                let path = path.strip_prefix(&self.dir).unwrap_or(path).as_os_str().as_bytes();
                match cause {
                    // What stands in the place of something that was signed is named already.
                    FailureCause::Unsupported if known.contains_key(path) => {}
                    FailureCause::Unsupported => {
                        let message = format!("is not in the receipt: {detail}");
                        differs(path.into(), "extra", &message, false);
                    }
                    // A folder that is not in the receipt was named for that, and a file that is in it when it was compared.
                    _ if named.contains(path) || known.get(path) == Some(&false) => {}
                    _ => {
                        let message = format!("cannot be read: {detail}");
                        // What is in the folder itself is not known.
                        let is_signed = path.is_empty() || known.contains_key(path);
                        differs(path.into(), "unreadable", &message, is_signed);
                    }
                }
            }
            ControlFlow::Continue(())
        });
        too_many_files.map_or(Ok(()), |said| Err(Failure::new(Exit::Unexpected, said)))
    }
}

/// What could not be compared does not differ for that.
pub fn uncompared(dir: &Path, error: &VerifyError) -> Failure {
    match error {
        VerifyError::Folder(error) if error.kind() == ErrorKind::NotADirectory => Failure::usage(format!(
            "{} is not a folder: give the folder that the files are in, as they were received",
            printable_path(dir)
        )),
        VerifyError::Folder(error) => Failure::file("opened", dir, error),
        VerifyError::Thread(error) => {
            Failure::new(Exit::Unexpected, terahaul_store::said_of_no_thread(error))
        }
        VerifyError::TooManyFiles(error) => Failure::file("compared as a whole", dir, error),
    }
}

fn describe(entry: &Entry, verdict: &Verdict) -> Option<(&'static str, String)> {
    let size = entry.file_size().unwrap_or_default();
    Some(match verdict {
        Verdict::Same => return None,
        Verdict::Missing => ("missing", "is missing".to_owned()),
        Verdict::OtherKind(what) => ("kind", format!("is {what}, and {} was signed", kind_of(entry))),
        Verdict::OtherSize(found) => ("size", format!("has {} bytes, and {} were signed", found.0, size.0)),
        Verdict::OtherContent(found) => {
            ("content", format!("has other content: its BLAKE3 is {}", found.to_hex()))
        }
        Verdict::OtherTarget(target) => ("target", format!("leads elsewhere: to {}", printable(target))),
        Verdict::Unreadable(detail) => ("unreadable", format!("cannot be read: {detail}")),
    })
}

fn kind_of(entry: &Entry) -> &'static str {
    use terahaul_core::EntryKind;
    match entry.kind {
        EntryKind::File { size: ByteCount(_) } => "a file",
        EntryKind::Directory => "a folder",
        EntryKind::Symlink { .. } => "a symbolic link",
    }
}
