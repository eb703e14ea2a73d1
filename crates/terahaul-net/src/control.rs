//! The control channel: messages over an asynchronous stream.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use terahaul_wire::{Control, DecodeError, MAX_MESSAGE, Message, decode_message, message_len};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::watch;
use tokio::time::Instant;

/// Longest silence before a ping is sent. Proxies are set to close what is silent for ten seconds.
pub const PING_AFTER: Duration = Duration::from_secs(5);
/// Longest silence before the other end is taken for dead.
pub const DEAD_AFTER: Duration = Duration::from_secs(45);

/// Longest time for what is written at once, however slowly the other end takes it.
const LONGEST_FLUSH: Duration = Duration::from_secs(600);

/// Why a control channel ended.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// The connection failed.
    #[error("the control connection was lost: {}", why_lost(.0))]
    Connection(#[from] std::io::Error),
    /// The other end closed it.
    #[error("the other end closed the control connection")]
    Closed,
    /// Nothing was heard for [`DEAD_AFTER`].
    #[error("nothing was heard from the other end for 45 seconds")]
    Silent,
    /// Nothing was heard on it for some seconds, and the other end answered on a new connection.
    #[error("the control connection leads to the other end no longer, which answers on a new one")]
    Astray,
    /// Bytes that are not a message.
    #[error(transparent)]
    Decode(#[from] DecodeError),
}

/// Why a connection failed, in words for its user: the TLS library's own, for an end that comes without a farewell, lead to its
/// documentation.
pub fn why_lost(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::UnexpectedEof => "the connection was closed".to_owned(),
        _ => error.to_string(),
    }
}

/// Reads messages.
pub struct ControlReader<R> {
    stream: R,
    buffer: Vec<u8>,
    taken: usize,
    /// Longest message that is taken.
    most: usize,
    /// When something came last.
    heard: watch::Sender<Instant>,
}

impl<R: AsyncRead + Unpin> ControlReader<R> {
    /// Reads from `stream`.
    pub fn new(stream: R) -> Self {
        Self {
            stream,
            buffer: Vec::new(),
            taken: 0,
            most: MAX_MESSAGE,
            heard: watch::Sender::new(Instant::now()),
        }
    }

    /// Takes no longer messages than this from now on: whoever is not known yet gets little memory.
    pub(crate) fn limit(&mut self, most: usize) {
        self.most = most.min(MAX_MESSAGE);
    }

    /// A look at when something came last, for others than who reads.
    pub(crate) fn heard(&self) -> watch::Receiver<Instant> {
        self.heard.subscribe()
    }

    /// The next message. Dropping the future loses nothing: what was read stays in the buffer, and silence counts on.
    pub async fn next<T: Control>(&mut self) -> Result<T, ControlError> {
        loop {
            let rest = &self.buffer[self.taken..];
            if let Some(len) = message_len(rest).filter(|len| *len > self.most) {
                return Err(DecodeError::TooLong(len).into());
            }
            if let Some((message, len)) = decode_message(rest)? {
                self.taken += len;
                return Ok(message);
            }
            self.buffer.drain(..self.taken);
            self.taken = 0;
            let dead = *self.heard.borrow() + DEAD_AFTER;
            let read = tokio::time::timeout_at(dead, self.stream.read_buf(&mut self.buffer));
            if read.await.map_err(|_| ControlError::Silent)?? == 0 {
                return Err(ControlError::Closed);
            }
            self.heard.send_replace(Instant::now());
        }
    }

    /// The next message but for pings and their answers: they may come at any time, and nobody waits for an answer before a session is open.
    pub(crate) async fn next_word(&mut self) -> Result<Message, ControlError> {
        loop {
            match self.next().await? {
                Message::Ping | Message::Pong => {}
                word => return Ok(word),
            }
        }
    }

    /// Silence counts from now on: until here the other end had only to listen.
    pub(crate) fn expect_words(&mut self) {
        self.heard.send_replace(Instant::now());
    }

    /// Takes and drops what the other end still says, until it has heard that this was all: a socket that is closed with something
    /// unread in it destroys what was written last, which is why the session ended. Not for long, nor much.
    pub(crate) async fn discard_rest(&mut self) {
        const AT_MOST: Duration = Duration::from_secs(2);
        const MOST: usize = 4 << 20;
        let discard = async {
            let mut left = MOST;
            while left > 0 {
                self.buffer.clear();
                match self.stream.read_buf(&mut self.buffer).await {
                    Ok(0) | Err(_) => return,
                    Ok(read) => left = left.saturating_sub(read),
                }
            }
        };
        // However it ends, the connection does.
        let _ = tokio::time::timeout(AT_MOST, discard).await;
    }
}

/// Writes messages.
pub struct ControlWriter<W> {
    stream: W,
    buffer: Vec<u8>,
}

impl<W: AsyncWrite + Unpin> ControlWriter<W> {
    /// Writes to `stream`.
    pub fn new(stream: W) -> Self {
        Self { stream, buffer: Vec::new() }
    }

    /// Adds a message to what `flush` sends.
    pub fn queue(&mut self, message: &Message) {
        message.encode_to(&mut self.buffer);
    }

    /// Bytes waiting for `flush`.
    pub fn queued(&self) -> usize {
        self.buffer.len()
    }

    /// Sends what was queued.
    pub async fn flush(&mut self) -> Result<(), ControlError> {
        // As long as some of it goes out: a thin line that data channels fill may take long for all.
        let write = async {
            let mut left = self.buffer.as_slice();
            while !left.is_empty() {
                let taken = in_time(self.stream.write(left)).await?;
                if taken == 0 {
                    return Err(ControlError::Closed);
                }
                left = &left[taken..];
            }
            in_time(self.stream.flush()).await
        };
        tokio::time::timeout(LONGEST_FLUSH, write).await.map_err(|_| ControlError::Silent)??;
        self.buffer.clear();
        Ok(())
    }

    /// Sends one message, and what was queued before it.
    pub async fn send(&mut self, message: &Message) -> Result<(), ControlError> {
        self.queue(message);
        self.flush().await
    }

    /// Sends what was queued and closes.
    pub async fn close(mut self) -> Result<(), ControlError> {
        self.flush().await?;
        Ok(self.stream.shutdown().await?)
    }
}

async fn in_time<T>(act: impl Future<Output = std::io::Result<T>>) -> Result<T, ControlError> {
    Ok(tokio::time::timeout(DEAD_AFTER, act).await.map_err(|_| ControlError::Silent)??)
}

/// Writes whatever arrives on `messages` until its senders are gone, several messages to a packet; pings when idle, and counts these pings.
pub async fn write_loop<W: AsyncWrite + Unpin>(
    mut writer: ControlWriter<W>,
    mut messages: tokio::sync::mpsc::Receiver<Message>,
    idle_pings: Arc<AtomicU64>,
) -> Result<(), ControlError> {
    loop {
        match tokio::time::timeout(PING_AFTER, messages.recv()).await {
            Err(_) => {
                idle_pings.fetch_add(1, Ordering::Relaxed);
                writer.queue(&Message::Ping);
            }
            Ok(None) => return writer.close().await,
            Ok(Some(message)) => {
                writer.queue(&message);
                while writer.queued() < 256 << 10
                    && let Ok(message) = messages.try_recv()
                {
                    writer.queue(&message);
                }
            }
        }
        writer.flush().await?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both clients wait for a message and for other things at once, and begin to wait anew ten times a second.
    #[tokio::test(start_paused = true)]
    async fn an_end_that_is_silent_is_noticed_however_often_waiting_begins_anew() {
        let (mut near, far) = tokio::io::duplex(1_000);
        let mut reader = ControlReader::new(far);
        let began = Instant::now();
        let mut ping = Vec::new();
        Message::Ping.encode_to(&mut ping);
        let mut pinged = false;
        let ended = loop {
            tokio::select! {
                message = reader.next::<Message>() => match message {
                    Ok(message) => assert_eq!(message, Message::Ping),
                    Err(error) => break error,
                },
                () = tokio::time::sleep(Duration::from_millis(100)) => {}
            }
            if !pinged && began.elapsed() > DEAD_AFTER / 2 {
                near.write_all(&ping).await.unwrap();
                pinged = true;
            }
        };
        assert!(matches!(ended, ControlError::Silent), "{ended}");
        assert!(
            began.elapsed() > DEAD_AFTER * 3 / 2 && began.elapsed() < DEAD_AFTER * 2,
            "{:?}",
            began.elapsed()
        );
    }

    #[test]
    fn a_connection_that_ends_without_a_farewell_is_said_to_be_closed() {
        let cut =
            std::io::Error::new(std::io::ErrorKind::UnexpectedEof, "peer closed connection: https://docs.rs");
        let said = ControlError::from(cut).to_string();
        assert_eq!(said, "the control connection was lost: the connection was closed");
        let reset = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
        assert!(ControlError::from(reset).to_string().contains("reset"));
    }

    /// Whoever is not known yet cannot have a megabyte kept for a message.
    #[tokio::test]
    async fn a_limit_holds_until_it_is_lifted() {
        let mut bytes = Vec::new();
        Message::Authenticate("x".repeat(5000)).encode_to(&mut bytes);
        let mut reader = ControlReader::new(bytes.as_slice());
        reader.limit(4096);
        let refused = reader.next::<Message>().await;
        assert!(matches!(refused, Err(ControlError::Decode(DecodeError::TooLong(_)))), "{refused:?}");
        reader.limit(MAX_MESSAGE);
        // The first look has read it all.
        assert!(matches!(reader.next::<Message>().await, Ok(Message::Authenticate(_))));
    }
}
