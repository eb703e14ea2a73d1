//! Dialling: connecting by the first of several routes that answers, as in RFC 8305 (Happy Eyeballs).
//!
//! A lost SYN goes again only after a second (RFC 6298), ten times what connecting takes on a path of 100 ms, so a route that
//! has not answered is tried again before that. The others are tried meanwhile: an address that is dead holds up nobody.
//! The first connection is taken, and the rest close without having said anything.

use std::io;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

/// From one attempt to the next: RFC 8305's Connection Attempt Delay.
const DELAY: Duration = Duration::from_millis(250);

/// A connection.
#[derive(Debug)]
pub struct Connected<R, T> {
    /// As it was connected.
    pub socket: T,
    /// The way that it goes.
    pub route: R,
    /// How long this connection took, whatever was tried before it.
    pub took: Duration,
}

/// Connects by the first of `routes` that answers. One is tried when the one before it has had its [`DELAY`] or failed, and is
/// given up after `patience`. Where none answers, the error is that of the last in order to which there is a way.
pub async fn connect_any<R, T, F>(
    routes: Vec<R>,
    patience: Duration,
    connect: impl Fn(&R) -> F + Clone + Send + Sync + 'static,
) -> io::Result<Connected<R, T>>
where
    R: Send + Sync + 'static,
    T: Send + 'static,
    F: Future<Output = io::Result<T>> + Send + 'static,
{
    let mut routes = routes.into_iter().enumerate();
    let mut trying = JoinSet::new();
    let mut failed = ((false, 0), io::Error::from(io::ErrorKind::AddrNotAvailable));
    loop {
        if let Some((at, route)) = routes.next() {
            let connect = connect.clone();
            trying.spawn(async move {
                let answer = timeout(patience, connect_one(|| connect(&route))).await;
                match answer.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
                    Ok((socket, took)) => Ok(Connected { socket, route, took }),
                    Err(error) => Err(((error.kind() != io::ErrorKind::NetworkUnreachable, at), error)),
                }
            });
        }
        let waits = if routes.len() > 0 { DELAY } else { Duration::MAX };
        match timeout(waits, trying.join_next()).await {
            Err(_) => {}
            Ok(None) => return Err(failed.1),
            Ok(Some(answer)) => match answer? {
                Ok(connected) => return Ok(connected),
                Err(refused) if refused.0 >= failed.0 => failed = refused,
                Err(_) => {}
            },
        }
    }
}

/// Connects by one route, and begins anew, twice at most, while there is no answer. The first answer counts, whatever it is:
/// where one attempt is refused, the others would be.
async fn connect_one<T, F: Future<Output = io::Result<T>>>(
    connect: impl Fn() -> F,
) -> io::Result<(T, Duration)> {
    let attempt = async || {
        let began = Instant::now();
        connect().await.map(|socket| (socket, began.elapsed()))
    };
    let later = async |delay| {
        sleep(delay).await;
        attempt().await
    };
    tokio::select! {
        answer = attempt() => answer,
        answer = later(DELAY) => answer,
        answer = later(3 * DELAY) => answer,
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind::{ConnectionRefused, NetworkUnreachable, TimedOut};
    use std::sync::{Arc, Mutex};

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(15);

    /// Milliseconds until an attempt is answered, and how.
    type Answer = (u64, Option<io::ErrorKind>);

    /// What came of dialling: which route and how long that took, or the error; how long all took; and when which route was tried.
    #[derive(Debug, PartialEq)]
    struct Came(Result<(usize, u64), io::ErrorKind>, u64, Vec<(u64, usize)>);

    /// Dials routes of which each answers its attempts so, and no further ones.
    async fn dials(answers: &[&[Answer]]) -> Came {
        let began = Instant::now();
        let since = move || began.elapsed().as_millis() as u64;
        let attempts = Arc::new(Mutex::new(Vec::new()));
        let tried = Arc::clone(&attempts);
        let (routes, answers) =
            ((0..answers.len()).collect(), answers.iter().map(|of| of.to_vec()).collect::<Vec<_>>());
        let connect = move |route: &usize| {
            let mut tried = tried.lock().unwrap();
            let before = tried.iter().filter(|(_, other)| other == route).count();
            tried.push((since(), *route));
            let answer = answers[*route].get(before).copied();
            async move {
                let Some((after, error)) = answer else { return std::future::pending().await };
                sleep(Duration::from_millis(after)).await;
                error.map_or(Ok(()), |kind| Err(kind.into()))
            }
        };
        let connected = connect_any(routes, PATIENCE, connect).await;
        let came = connected.map(|connected| (connected.route, connected.took.as_millis() as u64));
        let attempts = attempts.lock().unwrap().clone();
        Came(came.map_err(|error| error.kind()), since(), attempts)
    }

    /// It cost the second after which the system sends it again, and was part of what the path's round trip was taken for.
    #[tokio::test(start_paused = true)]
    async fn a_lost_syn_costs_a_quarter_of_a_second() {
        let lost = (1100, None);
        assert_eq!(dials(&[&[lost, (100, None)]]).await, Came(Ok((0, 100)), 350, vec![(0, 0), (250, 0)]));
        let Came(came, took, _) = dials(&[&[lost, lost, (100, None)]]).await;
        assert_eq!((came, took), (Ok((0, 100)), 850));
    }

    /// It cost everybody who has a name with two addresses, one of them dead, all the patience that there is.
    #[tokio::test(start_paused = true)]
    async fn an_address_that_is_dead_holds_up_the_next_a_quarter_of_a_second() {
        let Came(came, took, _) = dials(&[&[], &[(100, None)]]).await;
        assert_eq!((came, took), (Ok((1, 100)), 350));
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_that_answers_is_taken_on_a_path_that_is_longer_than_the_delay() {
        let Came(came, took, _) = dials(&[&[(600, None), (600, None)]]).await;
        assert_eq!((came, took), (Ok((0, 600)), 600));
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_refuses_is_not_asked_again_and_holds_up_nobody() {
        let refused = (10, Some(ConnectionRefused));
        assert_eq!(dials(&[&[refused], &[(10, None)]]).await, Came(Ok((1, 10)), 20, vec![(0, 0), (10, 1)]));
        let all = dials(&[&[refused], &[refused]]).await;
        assert_eq!(all, Came(Err(ConnectionRefused), 20, vec![(0, 0), (10, 1)]));
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_never_answers_is_tried_three_times_and_given_up() {
        let never = dials(&[&[]]).await;
        assert_eq!(never, Came(Err(TimedOut), 15_000, vec![(0, 0), (250, 0), (750, 0)]));
    }

    /// Resolvers put an address of a kind that this machine has no way for behind all others (RFC 6724, section 6, rule 1).
    #[tokio::test(start_paused = true)]
    async fn the_error_is_not_that_there_is_no_way_to_one_of_several() {
        let (refused, no_way) = ((10, Some(ConnectionRefused)), (0, Some(NetworkUnreachable)));
        let Came(came, ..) = dials(&[&[refused], &[no_way]]).await;
        assert_eq!(came, Err(ConnectionRefused));
        let Came(came, ..) = dials(&[&[no_way], &[no_way]]).await;
        assert_eq!(came, Err(NetworkUnreachable));
    }

    #[tokio::test(start_paused = true)]
    async fn the_error_is_that_of_the_last_in_order() {
        let refused = (10, Some(ConnectionRefused));
        let Came(silent_first, took, _) = dials(&[&[], &[refused]]).await;
        assert_eq!((silent_first, took), (Err(ConnectionRefused), 15_000));
        let Came(silent_last, ..) = dials(&[&[refused], &[]]).await;
        assert_eq!(silent_last, Err(TimedOut));
    }
}
