//! Cells of a second.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use dormouse_service::Clock;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use super::{Shared, Tally, lock, next_second};
use crate::{peers::First, quotas::Quotas};

/// Where it is asked whether cells may begin.
pub(super) const BEGIN_PATH: &str = "/v1/cells/begin";

/// By namespace, the cells about which another gateway is to be asked. Who finds none there asks.
pub(super) type Waiting = Mutex<HashMap<String, Vec<oneshot::Sender<Said>>>>;

/// Cells that are to begin now. The answer is how many of them may.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct BeginCells {
    /// Of which namespace.
    pub(super) namespace: String,
    /// How many.
    pub(super) cells: u64,
}

/// What is said of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Said {
    /// It was counted, and may begin or not.
    Counted(bool),
    /// Nobody has counted it.
    Nothing,
}

impl Tally {
    /// Counts a cell that begins now. `false`: as many as are allowed have begun in this second.
    pub(crate) async fn begin_cell(&self, namespace: &str, limit: u64, quotas: &Quotas, clock: Clock) -> bool {
        let begin_here = |limit| quotas.of(namespace).begin_cells(1, limit, clock.now_ms()) == 1;
        let Some(shared) = &self.0 else { return begin_here(limit) };
        match shared.asking.peers.first(namespace) {
            First::Me(since) => {
                next_second(since, clock).await;
                begin_here(limit)
            }
            First::Other(..) => match shared.ask_about_cell(namespace).await {
                Said::Counted(begun) => begun,
                Said::Nothing => begin_here(limit.div_ceil(shared.asking.peers.count() as u64)),
            },
        }
    }

    /// Counts cells that begin at another gateway; `None`: this one is not the first for them.
    pub(super) async fn begin_cells(&self, call: &BeginCells, limit: Option<u64>, quotas: &Quotas, clock: Clock) -> Option<u64> {
        let First::Me(since) = self.0.as_ref()?.asking.peers.first(&call.namespace) else { return None };
        next_second(since, clock).await;
        // What it knows nothing of is not limited, or was not seen yet.
        let Some(limit) = limit else { return Some(call.cells) };
        quotas.touch(&call.namespace);
        Some(quotas.of(&call.namespace).begin_cells(call.cells, limit, clock.now_ms()))
    }
}

impl Shared {
    async fn ask_about_cell(self: &Arc<Self>, namespace: &str) -> Said {
        let (tell, told) = oneshot::channel();
        let asks = {
            let mut waiting = lock(&self.waiting);
            let asks = !waiting.contains_key(namespace);
            waiting.entry(namespace.to_owned()).or_default().push(tell);
            asks
        };
        if asks {
            // A task of its own: the request that began it may be cut off.
            tokio::spawn(Arc::clone(self).ask_about_all(namespace.to_owned()));
        }
        told.await.unwrap_or(Said::Nothing)
    }

    /// Asks until no cell of the namespace waits.
    async fn ask_about_all(self: Arc<Self>, namespace: String) {
        while let Some(cells) = self.take_waiting(&namespace) {
            let call = BeginCells { namespace: namespace.clone(), cells: cells.len() as u64 };
            let begun: Option<u64> = self.asking.ask(&namespace, BEGIN_PATH, &call).await;
            for (cell, number) in cells.into_iter().zip(0u64..) {
                // Who does not wait any more has been counted.
                let _ = cell.send(begun.map_or(Said::Nothing, |begun| Said::Counted(number < begun)));
            }
        }
    }

    /// The cells that wait; `None`: there are none, and the next one asks anew.
    fn take_waiting(&self, namespace: &str) -> Option<Vec<oneshot::Sender<Said>>> {
        let mut waiting = lock(&self.waiting);
        let cells = std::mem::take(waiting.get_mut(namespace)?);
        if cells.is_empty() {
            waiting.remove(namespace);
            return None;
        }
        Some(cells)
    }
}
