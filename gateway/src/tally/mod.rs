//! Who counts the cells of a namespace that has `evalsPerSecond`: of several gateways one for all.
//!
//! It is the one that is the first for the namespace ([`Peers::first`]), by its own clock and its own view of the KernelQuotas; the others ask it, one
//! question at a time for all cells that have come meanwhile. A gateway that has just become the first begins with the next second of the clock, because
//! the one before it may have counted in this. Who is asked and is not the first by its own view says so, and is asked again once the lists agree.
//!
//! Where the first does not answer, each gateway counts for itself, and lets through its part of what is allowed.

pub(crate) mod server;

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use dormouse_service::{
    Clock,
    answer::read_json,
    tls::{Identity, PeerClient, Process},
};
use reqwest::Method;
use serde::{Deserialize, Serialize};
use tokio::{sync::oneshot, time::Instant};

use crate::{
    chain::chain,
    peers::{First, Peers},
    quotas::{MS_PER_SECOND, Quotas},
};

/// What gateways are called in their certificate.
const GATEWAY: &str = "gateway";
/// How long the gateway that counts may take to answer: it may have to wait for the next second of the clock.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(2_500);
/// For so long one that has not answered is not asked again.
const SILENT_FOR: Duration = Duration::from_secs(5);
/// How often gateways whose lists differ are asked again, and how long.
const LISTS_DIFFER_POLL: Duration = Duration::from_millis(100);
const LISTS_DIFFER_FOR: Duration = Duration::from_secs(3);
/// Bytes of an answer at most.
const ANSWER_BYTES_MAX: usize = 1_024;

/// Where it is asked whether cells may begin.
const BEGIN_PATH: &str = "/v1/cells/begin";

/// Cells that are to begin now.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct BeginCells {
    /// Of which namespace.
    namespace: String,
    /// How many.
    cells: u64,
}

/// How many of them may.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct CellsBegun {
    /// `null`: whoever was asked does not count for this namespace.
    begun: Option<u64>,
}

/// Counts the cells of namespaces. Clones share it. The default counts for itself, as a gateway that is alone does.
#[derive(Debug, Clone, Default)]
pub struct Tally(Option<Arc<Shared>>);

#[derive(Debug)]
struct Shared {
    peers: Peers,
    client: PeerClient,
    gateway: Identity,
    port: u16,
    /// By namespace, the cells about which another gateway is to be asked. Who finds none there asks.
    waiting: Mutex<HashMap<String, Vec<oneshot::Sender<Answer>>>>,
    /// By name, the gateways that do not answer, and until when they are not asked.
    silent: Mutex<HashMap<String, Instant>>,
}

/// What is said of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    /// It was counted, and may begin or not.
    Counted(bool),
    /// Nobody has counted it.
    Silence,
}

impl Tally {
    /// One of several gateways, who answer each other at `port`. `system_namespace` is that of their certificates.
    #[must_use]
    pub fn shared(peers: Peers, client: PeerClient, system_namespace: &str, port: u16) -> Self {
        let gateway = Identity::new(Process::Gateway, system_namespace, GATEWAY);
        Self(Some(Arc::new(Shared { peers, client, gateway, port, waiting: Mutex::default(), silent: Mutex::default() })))
    }

    /// Counts a cell that begins now. `false`: as many as are allowed have begun in this second.
    pub(crate) async fn begin_cell(&self, namespace: &str, limit: u64, quotas: &Quotas, clock: Clock) -> bool {
        let begin_here = |limit| quotas.of(namespace).begin_cells(1, limit, clock.now_ms()) == 1;
        let Some(shared) = &self.0 else { return begin_here(limit) };
        match shared.peers.first(namespace) {
            First::Me(since) => {
                next_second(since, clock).await;
                begin_here(limit)
            }
            First::Other(..) => match shared.ask(namespace).await {
                Answer::Counted(begun) => begun,
                Answer::Silence => begin_here(limit.div_ceil(shared.peers.count() as u64)),
            },
        }
    }

    /// Counts cells that begin at another gateway; `None`: this one is not the first for them.
    async fn begin_cells(&self, call: &BeginCells, limit: Option<u64>, quotas: &Quotas, clock: Clock) -> Option<u64> {
        let First::Me(since) = self.0.as_ref()?.peers.first(&call.namespace) else { return None };
        next_second(since, clock).await;
        // What it knows nothing of is not limited, or was not seen yet.
        Some(limit.map_or(call.cells, |limit| quotas.of(&call.namespace).begin_cells(call.cells, limit, clock.now_ms())))
    }
}

/// Waits for the end of the second of the clock in which `since` is, if it is not over.
async fn next_second(since: Option<Instant>, clock: Clock) {
    let Some(since) = since else { return };
    let now_ms = clock.now_ms();
    let since_ms = now_ms.saturating_sub(i64::try_from(since.elapsed().as_millis()).unwrap_or(i64::MAX));
    let ends_ms = since_ms.div_euclid(MS_PER_SECOND).saturating_add(1).saturating_mul(MS_PER_SECOND);
    if let Ok(left_ms @ 1..) = u64::try_from(ends_ms.saturating_sub(now_ms)) {
        tokio::time::sleep(Duration::from_millis(left_ms)).await;
    }
}

impl Shared {
    /// What another gateway says of a cell.
    async fn ask(self: &Arc<Self>, namespace: &str) -> Answer {
        let (tell, told) = oneshot::channel();
        let asks = {
            let mut waiting = lock(&self.waiting);
            let asks = !waiting.contains_key(namespace);
            waiting.entry(namespace.to_owned()).or_default().push(tell);
            asks
        };
        if asks {
            // A task of its own: the request that began it may be cut off.
            tokio::spawn(Arc::clone(self).ask_for_all(namespace.to_owned()));
        }
        told.await.unwrap_or(Answer::Silence)
    }

    /// Asks until no cell of the namespace waits.
    async fn ask_for_all(self: Arc<Self>, namespace: String) {
        loop {
            let cells = {
                let mut waiting = lock(&self.waiting);
                match waiting.get_mut(&namespace).filter(|cells| !cells.is_empty()) {
                    Some(cells) => std::mem::take(cells),
                    None => {
                        waiting.remove(&namespace);
                        return;
                    }
                }
            };
            let call = BeginCells { namespace: namespace.clone(), cells: cells.len() as u64 };
            let begun = self.ask_first(&call).await;
            for (cell, number) in cells.into_iter().zip(0u64..) {
                // Who does not wait any more has been counted.
                let _ = cell.send(begun.map_or(Answer::Silence, |begun| Answer::Counted(number < begun)));
            }
        }
    }

    /// How many of the cells the gateway that counts lets begin; `None`: it does not answer.
    async fn ask_first(&self, call: &BeginCells) -> Option<u64> {
        let (mut peers, until) = (self.peers.clone(), Instant::now() + LISTS_DIFFER_FOR);
        while Instant::now() < until {
            // It may be this one by now: then whoever waits counts here.
            let First::Other(name, address) = peers.first(&call.namespace) else { return None };
            if lock(&self.silent).get(&name).is_some_and(|until| Instant::now() < *until) {
                return None;
            }
            match self.post(address, call).await {
                Ok(CellsBegun { begun: Some(begun) }) => {
                    lock(&self.silent).remove(&name);
                    return Some(begun);
                }
                Ok(CellsBegun { begun: None }) => {
                    let _ = tokio::time::timeout(LISTS_DIFFER_POLL, peers.changed()).await;
                }
                Err(error) => {
                    let namespace = &call.namespace;
                    tracing::warn!(
                        gateway = name,
                        namespace,
                        error,
                        "the gateway that counts cells does not answer: each counts for itself"
                    );
                    lock(&self.silent).insert(name, Instant::now() + SILENT_FOR);
                    return None;
                }
            }
        }
        None
    }

    async fn post(&self, address: IpAddr, call: &BeginCells) -> Result<CellsBegun, String> {
        let address = std::net::SocketAddr::new(address, self.port).to_string();
        let request = self.client.request(Method::POST, &self.gateway, &address, BEGIN_PATH).timeout(ANSWER_TIMEOUT).json(call);
        let response = self.client.send(request).await.map_err(|error| chain(&error))?;
        let response = response.error_for_status().map_err(|error| chain(&error))?;
        read_json(response, ANSWER_BYTES_MAX).await.map_err(|error| chain(&error))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_has_just_begun_to_count_begins_with_the_next_second() {
        let clock = Clock::following_runtime("2030-01-01T00:00:00.300Z".parse().unwrap());
        let waited = async |since| {
            let begun = clock.now_ms();
            next_second(since, clock).await;
            clock.now_ms() - begun
        };
        let now = Instant::now();
        assert_eq!(waited(None).await, 0);
        assert_eq!(waited(Some(now)).await, 700);
        assert_eq!(waited(Some(now)).await, 0, "the second is over");
    }
}
