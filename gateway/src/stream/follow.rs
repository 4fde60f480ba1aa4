//! The events of a session, as long as its client wants them.

use std::{sync::Arc, time::Duration};

use dormouse_lifecycle::attempts::pause;
use dormouse_protocol::{ApiError, ErrorCode, kernel::EventsCall, session::session_id};
use futures::StreamExt as _;
use tokio_util::sync::CancellationToken;

use super::{Broke, Client, Frames, Framing, Head, Queue, skip};
use crate::{
    auth::review::Review,
    directory::Key,
    in_flight::{Asleep, means_elsewhere},
    kernels::{KernelError, Lines, Piece},
    metrics::Source,
    router::Router,
};

/// While a followed session has no process, the directory is looked at this often at least.
const PLACE_POLL: Duration = Duration::from_secs(5);

/// What a client wants to see of a session's events.
#[derive(Debug, Clone, Copy)]
pub struct Wanted {
    /// Only events with a greater `seq`; `None` for all that are kept.
    pub after: Option<u64>,
    /// Whether to go on with live events after the replay.
    pub follow: bool,
    /// Whether only what comes from now on is wanted, and no replay.
    pub fresh: bool,
    /// How.
    pub framing: Framing,
}

/// Streams a session's events, as long as the credential is good and the gateway does not stop. Does not keep the session awake, and does not wake it
/// again when it has gone to sleep.
pub async fn events(router: &Router, key: &Key, wanted: Wanted, review: Review, shutdown: CancellationToken) -> Result<Frames, ApiError> {
    let sent = router.send(key, Asleep::Accept, Source::Request, |pod, assignment| async move {
        router.kernels().events(&pod, &EventsCall { assignment, after: wanted.after, follow: wanted.follow, fresh: wanted.fresh }).await
    });
    let (lines, route) = sent.await?;
    let (queue, receiver) = Queue::new();
    let session = session_id(&route.record.uid);
    let follower = Follower {
        router: router.clone(),
        key: key.clone(),
        uid: route.record.uid.clone(),
        client: Client { queue, framing: wanted.framing, last_seq: wanted.after.unwrap_or(0), session, review },
        wanted,
    };
    tokio::spawn(async move { shutdown.run_until_cancelled(follower.pump(lines, route.placement.epoch)).await });
    Ok(receiver)
}

/// A client that follows a session.
struct Follower {
    router: Router,
    key: Key,
    uid: String,
    client: Client,
    wanted: Wanted,
}

impl Follower {
    async fn pump(mut self, mut lines: Lines, mut epoch: u64) {
        loop {
            let gone = self.client.queue.frames.clone();
            let forwarded = tokio::select! {
                biased;
                () = gone.closed() => return,
                forwarded = self.forward(&mut lines) => forwarded,
            };
            let ended_well = match forwarded {
                Ok(()) => true,
                Err(Broke::Closed) => return,
                Err(Broke::Kernel(error)) => {
                    tracing::debug!(session = %self.key, %error, "an event stream broke");
                    false
                }
            };
            if ended_well && !self.wanted.follow {
                return;
            }
            let mut client = self.client.clone();
            let reopened = tokio::select! {
                biased;
                () = gone.closed() => return,
                reopened = client.beating(self.reopen(epoch)) => reopened,
            };
            let Ok(reopened) = reopened else { return };
            match reopened {
                Ok(opened) => (lines, epoch) = opened,
                Err(error) => return self.client.send_error(&error).await,
            }
        }
    }

    async fn forward(&mut self, lines: &mut Lines) -> Result<(), Broke> {
        while let Some(piece) = self.client.beating(lines.next()).await? {
            let line = match piece.map_err(Broke::Kernel)? {
                Piece::Line(line) => line,
                Piece::Begin(begin) => {
                    let head = Head::begin(&begin).map_err(Broke::Kernel)?;
                    if head.seq > self.client.last_seq {
                        self.client.send_long(head.seq, &begin, lines).await?;
                    } else {
                        skip(lines).await.map_err(Broke::Kernel)?;
                    }
                    continue;
                }
                Piece::More(_) | Piece::End => return Err(Broke::Kernel(KernelError::CutOff)),
            };
            let head = Head::read(&line).map_err(Broke::Kernel)?;
            // A heartbeat is no entry of the log and repeats the last `seq`.
            if head.seq > self.client.last_seq || head.type_ == "heartbeat" {
                self.client.send(head.seq, &line).await?;
            }
        }
        Ok(())
    }

    /// Waits for the process that has the session next; the one that had it at `epoch` may still be it.
    async fn reopen(&mut self, epoch: u64) -> Result<(Lines, u64), ApiError> {
        let directory = Arc::clone(self.router.directory());
        let mut changes = directory.changes();
        let (mut failed_epoch, mut attempts) = (epoch.saturating_sub(1), 0);
        loop {
            let record = self.router.find(&self.key).await?;
            if record.uid != self.uid {
                return Err(ApiError::new(ErrorCode::SessionNotFound, "the session was deleted; another has its name"));
            }
            if let Some(mut route) = self.router.placed(&record, failed_epoch) {
                // Behind what has been seen, if anything was.
                let after = if self.client.last_seq == 0 { self.wanted.after } else { Some(self.client.last_seq) };
                let fresh = self.wanted.fresh && after.is_none();
                route.record = self.router.whole(&route.record).await?;
                let call = EventsCall { assignment: route.assignment(), after, follow: self.wanted.follow, fresh };
                match self.router.kernels().events(&route.pod, &call).await {
                    Ok(lines) => return Ok((lines, route.placement.epoch)),
                    Err(KernelError::Refused(refusal)) if !means_elsewhere(refusal.code) => return Err(refusal),
                    Err(KernelError::Refused(_)) => failed_epoch = route.placement.epoch,
                    Err(error) => tracing::debug!(session = %self.key, %error, "an event stream cannot be taken up yet"),
                }
                attempts += 1;
                tokio::time::sleep(pause(attempts)).await;
            } else {
                // A change, a lag and the end of the wait mean the same: look again.
                let _ = tokio::time::timeout(PLACE_POLL, changes.recv()).await;
            }
        }
    }
}
