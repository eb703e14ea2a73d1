use std::os::unix::ffi::OsStrExt;

use terahaul_core::{ByteCount, Entry, EntryIndex, EntryKind, EntryPath, Mtime, Transport};
use terahaul_net::client::{Client, Options, SendRequest, Sending};
use terahaul_net::endpoint::Endpoint;
use terahaul_net::server::{Fill, Manifest};
use terahaul_net::tls::Fingerprint;
use terahaul_wire::Batch;

use super::*;
use crate::offer::OfferManifest;
use crate::rules::{Rules, Selection};

fn request(versions: Vec<u16>, path: &std::path::Path) -> Request {
    let destination = Destination {
        path: path.as_os_str().as_bytes().to_vec(),
        names: Vec::new(),
        only_file: false,
        rules: Rules::default(),
        selection: Selection::default(),
        top: None,
    };
    Request {
        versions,
        agent: "terahaul 9.9".into(),
        ports: None,
        key: [1; 16],
        task: Task::Receive(destination),
        alike: None,
        changes: true,
    }
}

/// What a far side answers, and that it ends when its stdin does.
async fn answer_to(request: &Request) -> Answer {
    let (mut near, far) = tokio::io::duplex(1 << 16);
    let (stdin, stdout) = tokio::io::split(far);
    let running = tokio::spawn(run(stdin, stdout));
    greeting::write(&mut near, request).await.unwrap();
    let answer = greeting::read(&mut near).await.unwrap();
    drop(near);
    tokio::time::timeout(Duration::from_secs(20), running).await.unwrap().unwrap().unwrap_or_default();
    answer
}

#[tokio::test(flavor = "multi_thread")]
async fn a_near_side_of_another_version_is_told_which_to_upgrade() {
    let dir = tempfile::tempdir().unwrap();
    let answer = answer_to(&request(vec![99], dir.path())).await;
    let Answer::Refused(Refusal { reason: Reason::Version, message }) = answer else {
        panic!("{answer:?}");
    };
    assert!(message.contains("terahaul 9.9") && message.contains("upgrade the older"), "{message}");
    let newer = answer_to(&request(vec![99, greeting::VERSION], dir.path())).await;
    assert!(matches!(newer, Answer::Ready(Ready { version: greeting::VERSION, .. })), "{newer:?}");
}

/// What only vanished has an exit code of its own.
#[test]
fn what_is_too_much_to_be_listed_is_counted_by_cause() {
    let failures = |cause, count: usize| {
        let one = move |at| Failure { path: vec![b'a'; 200], cause, message: format!("{at}") };
        (0..count).map(one)
    };
    let all: Vec<_> =
        failures(FailureCause::Vanished, 1000).chain(failures(FailureCause::Unreadable, 7)).collect();
    let mut all = Failures::from(all);
    all.add_unlisted(FailureCause::Unreadable, 100);
    let word = last_word(Landed::default(), all, Walked::said(107, [])).unwrap();
    let failures = LastWord::read(&word.said).unwrap().failures();
    let listed = failures.listed.len() as u64;
    assert!((400..600).contains(&listed), "{listed}");
    let unlisted = [(FailureCause::Unreadable, 107), (FailureCause::Vanished, 1000 - listed)];
    assert_eq!(failures.unlisted, unlisted);
    let earlier = br#"{"landed":{"files":0,"folders":0,"links":0,"bytes":0,"unchanged":0,"touched":0,"removed":0,"limited":false,"resumed":false},"failed":[],"walk_errors":0}"#;
    assert_eq!(LastWord::read(earlier).unwrap().failures(), Failures::default());
}

/// The connection was lost after the sender's last word, and the next session is open before that word is done with.
#[tokio::test(flavor = "multi_thread")]
async fn two_sessions_that_finish_one_copy_hear_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let Task::Receive(task) = request(vec![1], dir.path()).task else { unreachable!() };
    let (side, _) = open_side(Task::Receive(task), [1; 16], None, "token".into()).unwrap();
    let Side::Receives { landing, .. } = &side else { unreachable!() };
    let landing = Arc::clone(landing);
    let side = Shared(Arc::new(side));
    landing.take(batch()).unwrap();
    let [earlier, later] = [opened(&side).await, opened(&side).await];
    let first = earlier.finish().await.unwrap();
    assert_eq!(LastWord::read(&first.said).unwrap().landed.files, 1);
    assert_eq!(later.finish().await.unwrap().said, first.said);
    assert!(dir.path().join("file").exists());
}

/// What had half arrived in a session whose connection was lost stayed claimed for 45 seconds, until this side noticed, and was sent and
/// refused again and again meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_ends_when_its_near_side_connects_again() {
    let dir = tempfile::tempdir().unwrap();
    let Task::Receive(task) = request(vec![1], dir.path()).task else { unreachable!() };
    let (side, _) = open_side(Task::Receive(task), [1; 16], None, "token".into()).unwrap();
    let side = Shared(Arc::new(side));
    let earlier = opened(&side).await;
    let later = opened(&side).await;
    assert!(earlier.lost().await.retry);
    tokio::select! {
        biased;
        _ = later.lost() => panic!("it is the last one"),
        () = std::future::ready(()) => {}
    }
}

/// One empty file, and nothing else.
fn batch() -> Batch {
    let entry = Entry {
        path: EntryPath::new(*b"file").unwrap(),
        kind: EntryKind::File { size: ByteCount(0) },
        mtime: Mtime::default(),
        mode: 0o644,
        extra: None,
    };
    Batch { first: EntryIndex(0), entries: vec![entry], seal: true }
}

async fn opened(side: &Shared) -> FarFill {
    let Ok(Filling::Open(fill)) = side.open_send(&(), OpenSend::default()).await else {
        panic!("a near side may send")
    };
    fill
}

#[tokio::test(flavor = "multi_thread")]
async fn a_destination_that_cannot_be_is_refused_with_the_reason() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("file"), "").unwrap();
    let answer = answer_to(&request(vec![greeting::VERSION], &dir.path().join("file"))).await;
    assert!(
        matches!(&answer, Answer::Refused(Refusal { reason: Reason::Usage, message }) if message.contains("is not a folder")),
        "{answer:?}"
    );
}

/// The staging folder stayed.
#[tokio::test(flavor = "multi_thread")]
async fn a_far_side_whose_near_side_has_gone_before_the_answer_leaves_no_staging_folder() {
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("to");
    let (mut near, far) = tokio::io::duplex(1 << 16);
    greeting::write(&mut near, &request(vec![greeting::VERSION], &to)).await.unwrap();
    drop(near);
    let (stdin, stdout) = tokio::io::split(far);
    run(stdin, stdout).await.unwrap_err();
    assert_eq!(std::fs::read_dir(&to).unwrap().count(), 0);
}

/// Its first session was lost before it heard that it was open. In the next one it was told of entries that it had not offered there, and
/// the copy ended for good.
#[tokio::test(flavor = "multi_thread")]
async fn a_near_side_that_missed_its_first_session_begins_anew() {
    let dir = tempfile::tempdir().unwrap();
    let [from, to] = ["from", "to"].map(|name| dir.path().join(name));
    for (folder, size) in [(&from, 5_000_000), (&to, 6_000_000)] {
        std::fs::create_dir(folder).unwrap();
        std::fs::write(folder.join("file"), vec![7; size]).unwrap();
    }
    let (side, terms) = open(request(vec![greeting::VERSION], &to)).await.unwrap();
    let far = Far::start(&side, terms).await.unwrap();
    let (address, Ready { pin, token, .. }) = (far.address, far.ready.clone());
    let serving = tokio::spawn(far.serve());
    let (rules, selection) = (Rules::default(), Selection::default());
    let offer = Offer::open(&[from.join("")], &selection, rules.kept, rules.compare).unwrap();
    let offer = Arc::new(offer);
    offer.walk_ahead();
    let Side::Receives { landing, .. } = &*side else { unreachable!() };
    let missed = landing.tell_bases();
    let first = OfferManifest::new(Arc::clone(&offer)).next().await.unwrap().unwrap();
    landing.take(first).unwrap();
    drop(missed);

    let endpoint =
        Endpoint { host: address.ip().to_string(), port: address.port(), pin: Some(Fingerprint(pin)) };
    let client = Client::new(endpoint, token).unwrap().placing_accepted();
    let beginning = OfferManifest::beginning(Arc::clone(&offer));
    let request = SendRequest { beginning, ..SendRequest::default() };
    let options = Options { delta: true, transport: Transport::Tcp, ..Options::default() };
    let (ready, _) = Sending::open(client, request, options, offer.source()).await.unwrap();
    let mut manifest = OfferManifest::behind(Arc::clone(&offer), ready.begun());
    let sending = ready.start();
    while let Some(batch) = manifest.next().await.unwrap() {
        sending.declare(batch).await.unwrap();
    }
    let concluded = sending.conclude(None).await.unwrap();
    assert_eq!(LastWord::read(&concluded.word.said).unwrap().landed.files, 1);
    assert_eq!(std::fs::read(to.join("file")).unwrap().len(), 5_000_000);
    serving.abort();
}

/// A script that acts on each line of `--itemize-changes` missed some, and nothing said so.
#[tokio::test(flavor = "multi_thread")]
async fn what_becomes_of_entries_is_told_again_with_the_batch_that_is_repeated() {
    let dir = tempfile::tempdir().unwrap();
    let Task::Receive(task) = request(vec![1], dir.path()).task else { unreachable!() };
    let rules = Rules { itemise: true, ..task.rules };
    let task = Task::Receive(Destination { rules, ..task });
    let side = Shared(Arc::new(open_side(task, [1; 16], None, "token".into()).unwrap().0));
    let lost = opened(&side).await;
    lost.append(lost.look(batch()).await.unwrap()).await.unwrap();
    let told = lost.take_notes();
    assert_eq!((told.len(), lost.take_notes().len()), (1, 0));
    let next = opened(&side).await;
    next.append(next.look(batch()).await.unwrap()).await.unwrap();
    assert_eq!(next.take_notes(), told);
}
