//! What the far side hears of the near one.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, ReadBuf, Stdin};

use crate::interrupt::Interrupt;

/// stdin, which ends when the user wants to stop: as when the near side has gone, what has arrived is kept then.
pub struct UntilInterrupted {
    stdin: Stdin,
    stop: Pin<Box<dyn Future<Output = ()> + Send>>,
}

/// What ssh carries here.
pub fn stdin(interrupt: &Interrupt) -> UntilInterrupted {
    let interrupt = interrupt.clone();
    UntilInterrupted { stdin: tokio::io::stdin(), stop: Box::pin(async move { interrupt.wait().await }) }
}

impl AsyncRead for UntilInterrupted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        // One that has ended is not asked again: it is read to its end once.
        match self.stop.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Ok(())),
            Poll::Pending => Pin::new(&mut self.stdin).poll_read(cx, buf),
        }
    }
}
