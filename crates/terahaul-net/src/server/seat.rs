//! A transfer has one native sender at a time.
//!
//! Two programs that send the same files share a transfer, by its resume key, and each would take the other's blocks and
//! failures for its own. The one that came last stays: a sender whose connection was lost comes back before the server has
//! noticed that it was, and for as long as that session lasts, what it had begun to receive would be kept from this one.
//!
//! | the seat | on | becomes |
//! |---|---|---|
//! | free or taken | `take` | taken, by whoever came last; the one before has to leave |
//! | taken | `vacate` | free, for somebody who sends without one; whoever sat there has to leave |
//! | any | `close` | closed: whoever sits there has to come again, and finds what became of the transfer |

use tokio::sync::watch;

/// Of whoever came last; `None` once nobody can send any more.
#[derive(Debug)]
pub struct Seat(watch::Sender<Option<Last>>);

#[derive(Clone, Copy, Debug, Default)]
struct Last {
    number: u64,
    /// Sends without a seat.
    stands: bool,
}

/// A sender's hold of it.
#[derive(Clone, Debug)]
pub struct Seated {
    number: u64,
    seat: watch::Receiver<Option<Last>>,
}

/// Why a sender has to leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unseated {
    /// Another one came.
    Replaced,
    /// Nobody can send any more.
    Closed,
}

impl Default for Seat {
    fn default() -> Self {
        Self(watch::Sender::new(Some(Last::default())))
    }
}

impl Seat {
    /// For a sender that comes.
    pub fn take(&self) -> Seated {
        Seated { number: self.come(false), seat: self.0.subscribe() }
    }

    /// For somebody who sends, and keeps no seat.
    pub fn vacate(&self) {
        self.come(true);
    }

    fn come(&self, stands: bool) -> u64 {
        let mut number = 0;
        self.0.send_modify(|last| {
            if let Some(last) = last {
                *last = Last { number: last.number + 1, stands };
                number = last.number;
            }
        });
        number
    }

    /// Whether somebody sits there who has not to leave.
    pub fn is_taken(&self) -> bool {
        let is_free = self.0.borrow().is_some_and(|last| last.stands);
        !is_free && self.0.receiver_count() > 0
    }

    /// From now on nobody can send.
    pub fn close(&self) {
        self.0.send_replace(None);
    }
}

impl Seated {
    /// Whether the sender has to leave.
    pub fn is_lost(&self) -> bool {
        self.is_passed(&self.seat.borrow())
    }

    fn is_passed(&self, last: &Option<Last>) -> bool {
        last.is_none_or(|last| last.number != self.number)
    }

    /// Why the sender has to leave, once it has to.
    pub async fn lost(&self) -> Unseated {
        let mut seat = self.seat.clone();
        match seat.wait_for(|last| self.is_passed(last)).await {
            Ok(last) if last.is_some() => Unseated::Replaced,
            _ => Unseated::Closed,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn now<T>(future: impl Future<Output = T>) -> Option<T> {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        }
    }

    #[test]
    fn whoever_comes_last_stays_until_it_is_closed() {
        let seat = Seat::default();
        let first = seat.take();
        assert!(now(first.lost()).is_none());
        assert!(seat.is_taken());
        let second = seat.take();
        assert_eq!(now(first.lost()), Some(Unseated::Replaced));
        assert!(now(second.lost()).is_none());
        drop(first);
        assert!(seat.is_taken() && !second.is_lost());
        seat.vacate();
        assert_eq!(now(second.lost()), Some(Unseated::Replaced));
        assert!(!seat.is_taken());
        drop(second);
        let second = seat.take();
        assert!(!second.is_lost());
        seat.close();
        assert!(second.is_lost());
        assert_eq!(now(second.lost()), Some(Unseated::Closed));
        assert_eq!(now(seat.take().lost()), Some(Unseated::Closed));
        drop(second);
        assert!(!seat.is_taken());
    }
}
