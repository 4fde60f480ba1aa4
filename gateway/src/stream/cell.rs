//! The events of one cell, up to its end.

use dormouse_protocol::{
    ApiError,
    eval::EvalRequest,
    kernel::{EvalCall, EventsCall},
    session::session_id,
};
use futures::StreamExt as _;
use tokio::sync::oneshot;

use super::{Broke, Client, Closed, Frames, Framing, HEARTBEAT_INTERVAL, Head, Queue, skip};
use crate::{
    auth::review::Review,
    directory::Key,
    in_flight::{InFlight, means_elsewhere},
    kernels::{KernelError, Lines, Piece},
    router::{Route, Router},
};

/// Runs a cell and streams its events up to `final`. An error here comes before the first event, a heartbeat among them.
pub async fn eval(router: &Router, key: &Key, eval: EvalRequest, request_id: String, review: Review) -> Result<Frames, ApiError> {
    Cell { router: router.clone(), key: key.clone(), eval, request_id, run: false }.begin(review).await
}

/// The same of a cell that is a run: the first event comes when it is stored that the cell will run to its end, whoever waits.
pub async fn run(router: &Router, key: &Key, eval: EvalRequest, request_id: String, review: Review) -> Result<Frames, ApiError> {
    Cell { router: router.clone(), key: key.clone(), eval, request_id, run: true }.begin(review).await
}

/// A cell whose events are streamed.
struct Cell {
    router: Router,
    key: Key,
    eval: EvalRequest,
    request_id: String,
    run: bool,
}

impl Cell {
    async fn begin(self, review: Review) -> Result<Frames, ApiError> {
        let record = self.router.find(&self.key).await?;
        let (queue, frames) = Queue::new();
        let client = Client { queue, framing: Framing::Ndjson, last_seq: 0, session: session_id(&record.uid), review };
        let (tell, told) = oneshot::channel();
        let is_run = self.run;
        tokio::spawn(self.pump(client, tell));
        begun(frames, told, is_run).await
    }

    async fn open(&self, in_flight: &mut InFlight) -> Result<(Lines, Route), ApiError> {
        let opened = self.router.send_claiming(in_flight, &self.key, |pod, assignment, unwritten, lost| async move {
            let call = EvalCall { assignment, eval: self.eval.clone(), request_id: self.request_id.clone(), run: self.run, lost };
            self.router.kernels().eval_events(&pod, &call, unwritten).await
        });
        opened.await
    }

    /// Forwards until the end; a stream that breaks is opened again with the same idempotency key.
    async fn pump(self, mut client: Client, tell: oneshot::Sender<Option<ApiError>>) {
        let mut in_flight = InFlight::of_cell();
        let Some((mut lines, mut route)) = first(&mut client, tell, self.open(&mut in_flight)).await else { return };
        let mut begin = None;
        loop {
            let broke = match forward(&mut lines, &mut client, &mut begin).await {
                Ok(()) | Err(Broke::Closed) => return,
                Err(Broke::Kernel(error)) => error,
            };
            let again = async {
                self.router.failed(&mut in_flight, &route, broke).await?;
                self.open(&mut in_flight).await
            };
            match client.beating(again).await {
                Ok(Ok(opened)) => (lines, route) = opened,
                Ok(Err(error)) => return client.send_error(&error).await,
                Err(Closed) => return,
            }
            if let Some(begin) = begin
                && self.begin_again(begin, &route, &mut client).await.is_err()
            {
                return;
            }
        }
    }

    /// Tells a client that has seen the cell from the event `begin` on that nothing of that holds, and shows it what of the cell is stored. What is not
    /// stored yet, the stream brings that was opened again.
    async fn begin_again(&self, begin: u64, route: &Route, client: &mut Client) -> Result<(), Closed> {
        let after = begin.saturating_sub(1);
        client.restart(after).await?;
        let call = EventsCall { assignment: route.assignment(), after: Some(after), follow: false, fresh: false };
        match client.beating(self.router.kernels().events(&route.pod, &call)).await? {
            Ok(mut stored) => forward_stored(&mut stored, client).await,
            Err(error) => {
                tracing::debug!(session = %self.key, %error, "what is stored of a cell cannot be shown again");
                Ok(())
            }
        }
    }
}

/// The stream of a cell: as soon as it is told that its first event is there, or, for a cell that nobody accepts as a run, once it is time for a heartbeat.
/// Up to then an error is the answer, with a status of its own; from then on it is the stream's last event.
pub(super) async fn begun(frames: Frames, told: oneshot::Receiver<Option<ApiError>>, is_run: bool) -> Result<Frames, ApiError> {
    let known = async { if is_run { Some(told.await) } else { tokio::time::timeout(HEARTBEAT_INTERVAL, told).await.ok() } };
    match known.await {
        Some(Ok(Some(error))) => Err(error),
        _ => Ok(frames),
    }
}

/// What `open` comes to, and lets whoever waits know of that. `None`: it came to nothing, or the client has gone, which ends it.
pub(super) async fn first<T>(
    client: &mut Client,
    tell: oneshot::Sender<Option<ApiError>>,
    open: impl Future<Output = Result<T, ApiError>>,
) -> Option<T> {
    let gone = client.queue.frames.clone();
    let opened = tokio::select! {
        biased;
        () = gone.closed() => return None,
        opened = client.beating(open) => opened.ok()?,
    };
    let error = match opened {
        Ok(opened) => {
            // Who waits no more has the stream already.
            let _ = tell.send(None);
            return Some(opened);
        }
        Err(error) => error,
    };
    if let Err(Some(error)) = tell.send(Some(error)) {
        client.send_error(&error).await;
    }
    None
}

/// Forwards stored events of a cell, up to the next end: that comes with the cell's own stream. What cannot be read is in the end, too.
async fn forward_stored(stored: &mut Lines, client: &mut Client) -> Result<(), Closed> {
    while let Some(Ok(piece)) = client.beating(stored.next()).await? {
        match piece {
            Piece::Line(line) => match Head::read(&line) {
                Ok(head) if head.type_ != "final" => client.send(head.seq, &line).await?,
                _ => break,
            },
            Piece::Begin(begin) => match Head::begin(&begin) {
                Ok(head) if head.type_ != "final" => client.send_long(head.seq, &begin, stored).await?,
                _ => break,
            },
            Piece::More(_) | Piece::End => break,
        }
    }
    Ok(())
}

/// Forwards the events of a cell, and notes in `begin` the number of the first since it began. What the client has seen is left out, but for the end,
/// which it cannot have seen.
pub(super) async fn forward(lines: &mut Lines, client: &mut Client, begin: &mut Option<u64>) -> Result<(), Broke> {
    while let Some(piece) = client.beating(lines.next()).await? {
        let line = match piece.map_err(Broke::Kernel)? {
            Piece::Line(line) => line,
            Piece::Begin(bytes) => {
                let head = Head::begin(&bytes).map_err(Broke::Kernel)?;
                let is_end = matches!(head.type_.as_str(), "error" | "final");
                if is_end || head.seq > client.last_seq {
                    begin.get_or_insert(head.seq);
                    client.send_long(head.seq, &bytes, lines).await?;
                } else {
                    skip(lines).await.map_err(Broke::Kernel)?;
                }
                if is_end {
                    return Ok(());
                }
                continue;
            }
            Piece::More(_) | Piece::End => return Err(Broke::Kernel(KernelError::CutOff)),
        };
        let head = Head::read(&line).map_err(Broke::Kernel)?;
        match (head.type_.as_str(), head.payload.code) {
            ("error", Some(code)) if means_elsewhere(code) => {
                let message = head.payload.message.unwrap_or_default();
                return Err(Broke::Kernel(KernelError::Refused(ApiError::new(code, message))));
            }
            ("error" | "final", _) => return Ok(client.send(head.seq, &line).await?),
            ("restarted", _) => {
                client.restart(head.seq).await?;
                *begin = None;
            }
            _ if head.seq > client.last_seq => {
                begin.get_or_insert(head.seq);
                client.send(head.seq, &line).await?;
            }
            _ => {}
        }
    }
    Err(Broke::Kernel(KernelError::CutOff))
}
