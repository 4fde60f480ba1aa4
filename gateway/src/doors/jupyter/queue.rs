//! The cells of a connection: they run one after the other, in the order in which they were sent, and go on where their client has left.

use dormouse_service::room::Holding;
use serde_json::json;
use tokio::sync::{
    Mutex,
    broadcast::{Receiver, error::TryRecvError},
    mpsc,
};

use super::{
    cell::{Kernel, of_cell, send, state},
    messages::Request,
};
use crate::{directory::Key, doors::socket::Out};

/// Cells of one connection that may wait.
const CELLS_QUEUED_MAX: usize = 256;

/// A cell that waits.
pub(super) struct Cell {
    request: Box<Request>,
    /// What it takes.
    _room: Holding,
    /// Which kernels are shut down from when it was sent.
    shut: Receiver<Key>,
}

impl Cell {
    /// A cell that was sent to `kernel` just now.
    pub(super) fn new(request: Request, room: Holding, kernel: &Kernel) -> Self {
        Self { request: Box::new(request), _room: room, shut: kernel.desk.app.shut_kernels.subscribe() }
    }
}

/// Cells that wait for the one under way.
pub(super) struct Queue(Mutex<mpsc::Receiver<Cell>>);

impl Queue {
    /// A queue, and the way into it.
    pub(super) fn new() -> (mpsc::Sender<Cell>, Self) {
        let (sender, cells) = mpsc::channel(CELLS_QUEUED_MAX);
        (sender, Self(Mutex::new(cells)))
    }

    /// Runs what comes, until nothing can come any more, or the credential is over that it came with.
    pub(super) async fn run(&self, kernel: &Kernel, out: &Out) {
        let mut review = kernel.desk.review.clone();
        let mut cells = self.0.lock().await;
        let mut count = 0;
        while let Some(mut cell) = cells.recv().await {
            if was_shut(&mut cell.shut, &kernel.key) {
                abort(vec![cell], out).await;
                continue;
            }
            if review.look().await.is_err() {
                cells.close();
                let stopped = [cell].into_iter().chain(waiting(&mut cells)).collect();
                return abort(stopped, out).await;
            }
            let request = &cell.request;
            count += 1;
            let end = Box::pin(kernel.execute(request, count, out)).await;
            let stops = of_cell(&end).is_err() && request.stops_on_error();
            // Before the client hears of the end: what it sends then runs.
            let stopped = if stops { waiting(&mut cells).collect() } else { Vec::new() };
            let _ = kernel.tell_end(request, end, &mut count, out).await;
            abort(stopped, out).await;
        }
    }

    /// Tells that the cells which wait will not run. Nobody runs any of them any more.
    pub(super) async fn abort(&self, out: &Out) {
        let stopped = waiting(&mut *self.0.lock().await).collect();
        abort(stopped, out).await;
    }
}

/// Takes all that waits now.
fn waiting(cells: &mut mpsc::Receiver<Cell>) -> impl Iterator<Item = Cell> {
    std::iter::from_fn(|| cells.try_recv().ok())
}

/// Answers for cells that do not run.
async fn abort(cells: Vec<Cell>, out: &Out) {
    for cell in cells {
        // To a client that has left nothing is said.
        let _ = tell_aborted(&cell.request, out).await;
    }
}

async fn tell_aborted(request: &Request, out: &Out) -> Option<()> {
    state(out, request, "busy").await?;
    // Clients write this count beside the cell: one that did not run has none.
    send(out, request.reply(json!({ "status": "aborted", "execution_count": null }))).await?;
    state(out, request, "idle").await
}

/// Whether somebody has shut this kernel down since the cell was sent.
fn was_shut(shut: &mut Receiver<Key>, key: &Key) -> bool {
    loop {
        match shut.try_recv() {
            Ok(other) if other != *key => {}
            // Of many others so many were shut down that it cannot be told any more: then as if this one was not.
            Err(TryRecvError::Lagged(_)) => {}
            found => return found.is_ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::broadcast;

    use super::*;

    #[test]
    fn a_kernel_is_shut_down_with_its_queues_and_no_other_kernel_is() {
        let [mine, other] = ["mine", "other"].map(|name| Key::new("default", name));
        let shut = broadcast::Sender::new(2);
        let mut heard = shut.subscribe();
        assert!(!was_shut(&mut heard, &mine));
        shut.send(other.clone()).unwrap();
        assert!(!was_shut(&mut heard, &mine));
        for key in [&other, &other, &other, &mine] {
            shut.send(key.clone()).unwrap();
        }
        assert!(was_shut(&mut heard, &mine), "also behind some that were not heard of");
    }
}
