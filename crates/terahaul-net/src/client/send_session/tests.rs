use std::io;

use terahaul_core::{BlockShape, Compress, FailureCause};

use super::*;

/// Goes with the driver, and tells whether it was said by then that it has panicked.
struct Unread {
    shared: Arc<Shared>,
    is_said: std::sync::mpsc::Sender<bool>,
}

impl BlockSource for Unread {
    fn read_block(
        &self,
        _: &BlockShape,
        _: &mut [u8],
        _: &mut dyn FnMut(&mut [u8]) -> io::Result<()>,
    ) -> io::Result<Vec<EntryFailure>> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

impl Drop for Unread {
    fn drop(&mut self) {
        let ended = self.shared.ended.lock().unwrap();
        let _ = self.is_said.send(matches!(*ended, Some(ClientError::Panicked)));
    }
}

/// Who sends was told that its user had interrupted it.
#[test]
fn a_driver_that_panics_says_so_before_it_is_gone() {
    let (is_said, said) = std::sync::mpsc::channel();
    let (_commands, commands) = mpsc::channel(1);
    let (events, outbound_events) = mpsc::unbounded_channel();
    let (outbound, shared) = (Arc::new(Outbound::new(events)), Arc::new(Shared::default()));
    let driver = Driver {
        client: Client::new("https://127.0.0.1:1/".parse().unwrap(), String::new()).unwrap(),
        supply: Supply {
            source: Arc::new(Unread { shared: Arc::clone(&shared), is_said }),
            outbound: Arc::clone(&outbound),
            pace: None,
            compression: shared_compression(Compress::No),
            priority: Priority::default(),
        },
        outbound,
        outbound_events,
        options: Options::default(),
        channels: Channels::new(Options::default()),
        commands,
        shared,
        transfer: TransferId([0; 16]),
        unaccepted: VecDeque::new(),
        said: 0,
        entries: 0,
        failed_before: BTreeSet::new(),
        failures: BTreeMap::new(),
        finish: None,
        last_note: None,
        connection: None,
        prepared: None,
    };
    // It panics where it is to wait, as there are no timers.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    assert!(runtime.block_on(runtime.spawn(driver.run())).unwrap_err().is_panic());
    assert_eq!(said.recv(), Ok(true));
}

#[test]
fn a_batch_is_repeated_after_the_failures_of_those_whose_paths_it_may_have() {
    let batch = |first| Batch { first: EntryIndex(first), entries: Vec::new(), seal: false };
    let failure = |entry| EntryFailure {
        entry: EntryIndex(entry),
        cause: FailureCause::Changed,
        detail: String::new(),
    };
    let said = |batches: &[Batch], failed: &[u32]| -> Vec<String> {
        let failed: Vec<_> = failed.iter().copied().map(failure).collect();
        let said = repeated(batches.iter(), &failed).map(|message| match message {
            Message::Batch(batch) => format!("batch {}", batch.first.0),
            Message::Failed(failed) => {
                let entries: Vec<_> = failed.iter().map(|failed| failed.entry.to_string()).collect();
                format!("failed {}", entries.join(" "))
            }
            other => panic!("{other:?}"),
        });
        said.collect()
    };
    let batches = [batch(10), batch(20)];
    assert_eq!(
        said(&batches, &[3, 9, 10, 19, 20, 25]),
        ["failed 3 9", "batch 10", "failed 10 19", "batch 20", "failed 20 25"]
    );
    assert_eq!(said(&batches, &[30]), ["batch 10", "batch 20", "failed 30"]);
    assert_eq!(said(&[], &[1]), ["failed 1"]);
    assert!(said(&[], &[]).is_empty());
}
