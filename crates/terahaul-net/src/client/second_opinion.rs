//! Telling a depot that has nothing to say from a connection that leads to it no longer.
//!
//! Both are silent. Where a machine's address changes, or a NAT forgets, what is said goes nowhere, and TCP notices after a quarter of an
//! hour. So a connection that is silent for longer than a depot ever is gets a second opinion: where the depot answers on a new one at
//! once, and still not on the old one, that is lost. Where it answers on neither, the network is gone or the depot is, and both may come
//! back.

use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::yield_now;
use tokio::time::{Instant, sleep, timeout};

/// How often it is looked how long the other end has been silent.
const LOOK: Duration = Duration::from_secs(1);
/// Longer than a depot's pings are apart, ten seconds in earlier versions, also on a long path whose queues are full.
const SILENT: Duration = Duration::from_secs(13);
/// The same where the address is gone that the connection leaves from: an interface that is set up anew may have it again at once.
const SILENT_AND_GONE: Duration = Duration::from_secs(2);
/// In this time a new connection is to be answered. On a path whose queues hold more, both would be late.
const AT_ONCE: Duration = Duration::from_secs(3);

/// Ends when the connection that leaves from `local`, and on which something was `heard` last at these times, is lost. `answers` asks on a
/// new one. Whoever waits for this reads the connection in the same task.
pub(crate) async fn until_lost<F: Future<Output = bool>>(
    local: Option<SocketAddr>,
    heard: watch::Receiver<Instant>,
    answers: impl Fn() -> F,
) {
    loop {
        sleep(LOOK).await;
        let silent_since = *heard.borrow();
        let silent = silent_since.elapsed();
        let is_long = silent >= SILENT || silent >= SILENT_AND_GONE && local.is_some_and(is_gone);
        if is_long && timeout(AT_ONCE, answers()).await == Ok(true) {
            // That task may have been busy, and what has come meanwhile lie unread.
            yield_now().await;
            if *heard.borrow() == silent_since {
                return;
            }
        }
    }
}

/// Whether this machine has lost that address. What else keeps a socket from being bound says nothing of that.
fn is_gone(mut local: SocketAddr) -> bool {
    local.set_port(0);
    UdpSocket::bind(local).is_err_and(|error| error.kind() == ErrorKind::AddrNotAvailable)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::future::ready;
    use std::pin::pin;

    use terahaul_wire::Message;

    use super::*;
    use crate::control::{ControlReader, ControlWriter, DEAD_AFTER, PING_AFTER};

    /// After how long the connection is taken for lost, if it is before it is given up for its silence alone.
    async fn lost_after<F: Future<Output = bool>>(
        local: &str,
        answers: impl Fn(&watch::Sender<Instant>) -> F,
    ) -> Option<Duration> {
        let began = Instant::now();
        let (words, heard) = watch::channel(began);
        let lost = until_lost(Some(local.parse().unwrap()), heard, || answers(&words));
        timeout(DEAD_AFTER, lost).await.ok().map(|()| began.elapsed())
    }

    const HERE: &str = "127.0.0.1:8750";
    /// Kept free for documentation (RFC 5737).
    const GONE: &str = "192.0.2.1:8750";

    #[tokio::test(start_paused = true)]
    async fn a_silent_connection_is_lost_where_the_depot_answers_on_a_new_one() {
        let lost = lost_after(HERE, |_| ready(true)).await.unwrap();
        assert!(lost >= SILENT && lost <= SILENT + 2 * LOOK, "{lost:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_whose_address_is_gone_is_lost_sooner() {
        let lost = lost_after(GONE, |_| ready(true)).await.unwrap();
        assert!(lost >= SILENT_AND_GONE && lost <= SILENT_AND_GONE + 2 * LOOK, "{lost:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn where_the_depot_does_not_answer_or_not_at_once_it_is_waited_for() {
        for local in [HERE, GONE] {
            assert_eq!(lost_after(local, |_| ready(false)).await, None);
            let late = |_: &_| async {
                sleep(AT_ONCE * 2).await;
                true
            };
            assert_eq!(lost_after(local, late).await, None);
        }
    }

    /// The depot's network was away, and the old connection's words come as the new one's do.
    #[tokio::test(start_paused = true)]
    async fn a_connection_that_is_heard_of_meanwhile_is_kept() {
        let asked = Cell::new(0);
        let answers = |words: &watch::Sender<Instant>| {
            asked.set(asked.get() + 1);
            words.send_replace(Instant::now());
            ready(true)
        };
        assert_eq!(lost_after(HERE, answers).await, None);
        assert!(asked.get() >= 2, "each time that it has been silent again: {}", asked.get());
    }

    /// A receiver compared contents for longer than that before it took the next message, and opened a session anew each time.
    #[tokio::test(start_paused = true)]
    async fn what_lies_unread_is_no_silence() {
        let (near, far) = tokio::io::duplex(1024);
        let (mut reader, mut far) = (ControlReader::new(near), ControlWriter::new(far));
        let mut lost = pin!(until_lost(Some(HERE.parse().unwrap()), reader.heard(), || ready(true)));
        for _ in 0..20 {
            for _ in 0..3 {
                sleep(PING_AFTER).await;
                far.send(&Message::Ping).await.unwrap();
            }
            for _ in 0..3 {
                tokio::select! {
                    biased;
                    () = &mut lost => panic!("it is there"),
                    message = reader.next::<Message>() => assert_eq!(message.unwrap(), Message::Ping),
                }
            }
        }
    }
}
