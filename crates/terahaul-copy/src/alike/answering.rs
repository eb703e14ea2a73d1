//! The receiving side: says what it has of what it is asked about.

use std::sync::Arc;

use terahaul_tree::{Fingerprinter, FolderPrints, TableFull};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::{Answer, Asked, Question, begin};
use crate::greeting;
use crate::landing::Landing;

/// Questions that are looked into at once, besides the one that is read: the next one's folders keep threads busy that the last ones
/// of the one before leave idle.
const AHEAD: usize = 1;

/// Answers until the asking side ends the stream, or says something that is no question, or about what was not asked for.
pub(crate) async fn answer<S: AsyncRead + AsyncWrite + Unpin>(
    mut stream: S,
    landing: &Arc<Landing>,
    key: [u8; 32],
) {
    if !begin(&mut stream).await {
        return;
    }
    let maker = Arc::new(Fingerprinter::new(key));
    let (mut reader, mut writer) = tokio::io::split(stream);
    let (looks, mut looked) = mpsc::channel::<JoinHandle<Result<Answer, TableFull>>>(AHEAD);
    let looking = async move {
        while let Ok(Question { folders }) = greeting::read(&mut reader).await {
            let read = |asked: Asked| asked.read().filter(|folder| landing.may_tell(folder));
            let folders: Option<Vec<FolderPrints>> = folders.into_iter().map(read).collect();
            let Some(folders) = folders else { return };
            let (landing, maker) = (Arc::clone(landing), Arc::clone(&maker));
            let look = tokio::task::spawn_blocking(move || landing.alike(&maker, &folders).map(Answer::new));
            if looks.send(look).await.is_err() {
                return;
            }
        }
    };
    let answering = async move {
        while let Some(look) = looked.recv().await {
            // What could not be looked into is not alike.
            let answer = look.await.ok().and_then(Result::ok).unwrap_or_default();
            if greeting::write(&mut writer, &answer).await.is_err() {
                return;
            }
        }
        let _ = writer.shutdown().await;
    };
    tokio::join!(looking, answering);
}
