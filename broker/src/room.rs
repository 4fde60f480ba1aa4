//! Room for large answers that are read whole: of all calls together only so many bytes at a time, from the first byte that is too many until the
//! answer has left the process. A call waits for its turn within its own timeout; small answers wait for nobody.

use std::sync::{Arc, Mutex, PoisonError};

use axum::{
    body::{Body, Bytes},
    response::Response,
};
use futures::{StreamExt as _, stream};
use tokio::sync::{Semaphore, SemaphorePermit};

/// Bytes up to which an answer is small.
pub(crate) const SMALL_BYTES_MAX: usize = 128 << 10;
/// KiB of large answers at one time, each counted as the largest that its service may answer. An answer is in memory about six times before it has
/// left: as it came, without secrets, as a value, in the journal and as it is sent.
const LARGE_KIB_MAX: u32 = 32 << 10;

/// Bytes that are handed over at once to be sent. What a peer does not take yet is kept by whoever sends it, out of reach of everything here.
const PIECE_BYTES: usize = 64 << 10;

/// The process's: so is its memory.
static LARGE: Semaphore = Semaphore::const_new(LARGE_KIB_MAX as usize);

tokio::task_local! {
    static ROOM: Room;
}

/// What one call holds. Clones are the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct Room(Arc<Mutex<Option<SemaphorePermit<'static>>>>);

impl Room {
    /// That of the call whose task this is; where there is none, one that ends with the reading.
    pub(crate) fn current() -> Self {
        ROOM.try_with(Clone::clone).unwrap_or_default()
    }

    /// Does `work` for the call that holds this.
    pub(crate) async fn around<F: Future>(self, work: F) -> F::Output {
        ROOM.scope(self, work).await
    }

    /// Waits until there is room for a large answer of at most so many bytes. A call holds it once.
    pub(crate) async fn for_large(&self, bytes_max: usize) {
        if self.lock().is_some() {
            return;
        }
        let kib = u32::try_from(bytes_max >> 10).unwrap_or(u32::MAX).clamp(1, LARGE_KIB_MAX);
        // It is never closed.
        let permit = LARGE.acquire_many(kib).await.ok();
        *self.lock() = permit;
    }

    /// The answer to the call: the room is given back when its peer has taken it but for a piece.
    pub(crate) fn until_sent(self, response: Response) -> Response {
        if self.lock().is_none() {
            return response;
        }
        response.map(|body| {
            let pieces = body.into_data_stream().flat_map(|data| match data {
                Ok(bytes) => stream::iter(pieces(bytes)).map(Ok).left_stream(),
                Err(error) => stream::iter([Err(error)]).right_stream(),
            });
            Body::from_stream(pieces.inspect(move |_| {
                // The stream has it as long as it lasts.
                let _ = &self;
            }))
        })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<SemaphorePermit<'static>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn pieces(mut bytes: Bytes) -> impl Iterator<Item = Bytes> {
    std::iter::from_fn(move || (!bytes.is_empty()).then(|| bytes.split_to(bytes.len().min(PIECE_BYTES))))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The only test that takes room, because it is the process's.
    #[tokio::test]
    async fn what_does_not_fit_waits_until_an_answer_was_sent() {
        let whole = Room::default();
        whole.for_large(usize::MAX).await;
        assert_eq!(LARGE.available_permits(), 0);
        let second = Room::default();
        let mut waits = Box::pin(second.clone().around(async { Room::current().for_large(1).await }));
        assert!(futures::poll!(&mut waits).is_pending());
        // Of its own it takes no more.
        whole.for_large(usize::MAX).await;
        let answer = vec![b'x'; PIECE_BYTES * 2 + 1];
        let mut sent = whole.until_sent(Response::new(Body::from(answer))).into_body().into_data_stream();
        for bytes in [PIECE_BYTES, PIECE_BYTES, 1] {
            assert!(futures::poll!(&mut waits).is_pending(), "it is not sent yet");
            assert_eq!(sent.next().await.unwrap().unwrap().len(), bytes);
        }
        assert!(sent.next().await.is_none());
        drop(sent);
        waits.await;
        assert_eq!(LARGE.available_permits(), LARGE_KIB_MAX as usize - 1);
    }
}
