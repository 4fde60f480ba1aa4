//! Real processes over a real MinIO, driven over their mTLS API: killed in the middle of commits, and stopped, replaced and woken again.
//!
//! Every cell appends a random number to the session's log and answers it, so that a cell that was lost, ran twice, or was acked by somebody who
//! did not commit it cannot look like one that was not. [`effects`] has the same with calls to a service that counts.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod client;
mod effects;
mod kernel;

use std::sync::Arc;
use std::time::{Duration, Instant};

use client::Client;
use dormouse_testkit::soak;
use kernel::Cluster;
use tokio::sync::watch;

/// Sessions that commit all the time.
const SESSIONS: usize = 4;

/// The longest time of a soak of one kind; the count that it came to is what it reports.
const SOAK_MAX: Duration = Duration::from_secs(900);

/// xorshift64*: faults come at other moments in each round, and in the same order in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 16) % n
    }
}

/// Sessions that count on their own, wherever `at` says that they run.
struct Load {
    clients: Vec<tokio::task::JoinHandle<Client>>,
    stop: watch::Sender<bool>,
    acked: watch::Receiver<u64>,
}

impl Load {
    fn start(cluster: &Arc<Cluster>, at: &watch::Receiver<Option<kernel::Target>>, code: &'static str) -> Self {
        let (stop, stopped) = watch::channel(false);
        let (count, acked) = watch::channel(0);
        let clients =
            (0..SESSIONS).map(|n| tokio::spawn(Client::new(cluster, n, code).run(at.clone(), stopped.clone(), count.clone()))).collect();
        Self { clients, stop, acked }
    }

    /// Waits until so many more cells are acked.
    async fn acks(&mut self, more: u64) {
        let wanted = *self.acked.borrow() + more;
        tokio::time::timeout(kernel::PATIENCE, self.acked.wait_for(|acked| *acked >= wanted)).await.expect("cells are acked").unwrap();
    }

    async fn end(self) -> Vec<Client> {
        self.stop.send_replace(true);
        let mut clients = Vec::new();
        for client in self.clients {
            clients.push(client.await.expect("every answer is right"));
        }
        clients
    }
}

/// What all clients have seen together: acked cells, requests that broke off, late answers.
fn total(clients: &[Client], of: impl Fn(&Client) -> u64) -> u64 {
    clients.iter().map(of).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_in_the_middle_of_commits_nothing_acked_is_lost() {
    let cluster = Arc::new(Cluster::start().await);
    let (tell, at) = watch::channel(None);
    let mut load = Load::start(&cluster, &at, client::CELL);
    let (mut random, began, wanted) = (Random(5), Instant::now(), soak::count(6, 1_000));
    let mut kills = 0;
    while kills < wanted && began.elapsed() < SOAK_MAX {
        let mut kernel = cluster.kernel("a").await;
        tell.send_replace(Some(kernel.target(kills + 1)));
        load.acks(SESSIONS as u64).await;
        tokio::time::sleep(Duration::from_micros(random.below(20_000))).await;
        kernel.process.kill();
        tell.send_replace(None);
        kills += 1;
    }
    let last = cluster.kernel("b").await;
    let target = last.target(kills + 1);
    tell.send_replace(Some(target.clone()));
    load.acks(SESSIONS as u64).await;
    let clients = load.end().await;
    for client in &clients {
        client.check(&target).await;
    }
    let (acked, broken) = (total(&clients, Client::acked), total(&clients, |client| client.broken));
    assert!(broken > kills / 2, "only {broken} requests were cut off by {kills} kills");
    soak::report(&format!(
        "SIGKILL: {kills} processes killed, {broken} requests cut off, {acked} cells acked over {SESSIONS} sessions, 0 lost, 0 doubled"
    ));
}

#[tokio::test(flavor = "multi_thread")]
async fn stopped_replaced_and_woken_again_a_process_acks_nothing_stale() {
    let cluster = Arc::new(Cluster::start().await);
    let (tell, at) = watch::channel(None);
    let mut load = Load::start(&cluster, &at, client::CELL);
    let (mut random, began, wanted) = (Random(9), Instant::now(), soak::count(6, 200));
    let kernels = [cluster.kernel("a").await, cluster.kernel("b").await];
    let mut rounds = 0;
    tell.send_replace(Some(kernels[0].target(1)));
    load.acks(SESSIONS as u64).await;
    while rounds < wanted && began.elapsed() < SOAK_MAX {
        let (owner, successor) = (&kernels[rounds as usize % 2], &kernels[(rounds as usize + 1) % 2]);
        tokio::time::sleep(Duration::from_micros(random.below(15_000))).await;
        owner.process.stop().unwrap();
        rounds += 1;
        tell.send_replace(Some(successor.target(rounds + 1)));
        load.acks(2 * SESSIONS as u64).await;
        owner.process.resume().unwrap();
        load.acks(SESSIONS as u64).await;
    }
    let target = kernels[rounds as usize % 2].target(rounds + 1);
    let clients = load.end().await;
    for client in &clients {
        client.check(&target).await;
    }
    let (acked, late) = (total(&clients, Client::acked), total(&clients, |client| client.late));
    soak::report(&format!(
        "SIGSTOP: {rounds} owners stopped, replaced and continued, {acked} cells acked over {SESSIONS} sessions, \
         {late} answers that came late, 0 of them stale, 0 lost, 0 doubled"
    ));
}
