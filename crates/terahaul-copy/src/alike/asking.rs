//! The sending side: asks about what the walk finds, and declares what is not alike.

use std::sync::Arc;

use terahaul_tree::FoldersAbove;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::{Notify, mpsc};

use super::found::Found;
use super::{Answer, begin};
use crate::greeting;
use crate::offer::Offer;

/// Questions that may wait for their answers.
const AHEAD: usize = 8;

/// Asks about all that the walk finds, and declares the rest. Without a stream everything is declared.
pub(crate) async fn ask<S: AsyncRead + AsyncWrite + Unpin>(stream: Option<S>, offer: &Arc<Offer>) {
    let Some(mut stream) = stream else { return declare_all(offer).await };
    if !begin(&mut stream).await {
        return declare_all(offer).await;
    }
    let (reader, writer) = tokio::io::split(stream);
    let (put, answers) = mpsc::channel(AHEAD);
    let broken = Notify::new();
    tokio::join!(put_questions(writer, offer, put, &broken), hear_answers(reader, offer, answers, &broken));
}

/// Aside: what was found by now may be much, and whoever asks connects meanwhile.
async fn declare_all(offer: &Arc<Offer>) {
    let offer = Arc::clone(offer);
    let _ = tokio::task::spawn_blocking(move || offer.declare_all()).await;
}

async fn put_questions<W: AsyncWrite + Unpin>(
    mut writer: W,
    offer: &Offer,
    put: mpsc::Sender<Found>,
    broken: &Notify,
) {
    let mut heard = true;
    while let Some(found) = offer.next_found().await {
        if heard && found.is_asked() {
            heard = tokio::select! {
                written = greeting::write(&mut writer, &found.question) => written.is_ok(),
                () = broken.notified() => false,
            };
        }
        // Whoever reads declares them, answered or not.
        let _ = put.send(found).await;
    }
    let _ = writer.shutdown().await;
}

async fn hear_answers<R: AsyncRead + Unpin>(
    mut reader: R,
    offer: &Offer,
    mut answers: mpsc::Receiver<Found>,
    broken: &Notify,
) {
    let mut above = FoldersAbove::default();
    let mut heard = true;
    while let Some(found) = answers.recv().await {
        let mut answer = Answer::default();
        if heard && found.is_asked() {
            match greeting::read(&mut reader).await {
                Ok(read) => answer = read,
                Err(_) => {
                    heard = false;
                    broken.notify_one();
                }
            }
        }
        offer.declare(found.sift(&answer, &mut above));
    }
    offer.declare_all();
}
