//! Real processes over a real MinIO, driven over their mTLS API: killed in the middle of commits, and stopped, replaced and woken again.
//!
//! Every cell appends a random number to the session's log and answers it, so that a cell that was lost, ran twice, or was acked by somebody who
//! did not commit it cannot look like one that was not. [`effects`] has the same with calls to a service that counts.

mod client;
mod dedicated;
mod effects;
mod kernel;

use std::sync::Arc;
use std::time::{Duration, Instant};

use client::Client;
use dormouse_testkit::random::Random;
use dormouse_testkit::soak;
use kernel::{Cluster, Kernel, Target};
use tokio::sync::watch;

/// Sessions that commit all the time.
const SESSIONS: usize = 4;

/// The longest time of a soak of one kind; the count that it came to is what it reports.
const SOAK_MAX: Duration = Duration::from_secs(900);

/// Sessions that count on their own, wherever `at` says that they run.
struct Load {
    clients: Vec<tokio::task::JoinHandle<Client>>,
    stop: watch::Sender<bool>,
    acked: watch::Receiver<u64>,
}

impl Load {
    fn start(cluster: &Arc<Cluster>, at: &watch::Receiver<Option<Target>>, code: &'static str) -> Self {
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

    /// Stops the process that has the sessions, lets the other one take them over, and continues the first, which still believes that it has them:
    /// as often as a soak wants, each time after a pause of up to `pause`. Answers how often, and where the sessions are then.
    async fn taken_over(
        &mut self,
        tell: &watch::Sender<Option<Target>>,
        kernels: &[Kernel; 2],
        mut random: Random,
        pause: Duration,
    ) -> (u64, Target) {
        let (began, wanted) = (Instant::now(), soak::count(6, 200));
        let [mut owner, mut successor] = kernels.each_ref();
        let (mut rounds, mut target) = (0, owner.target(1));
        tell.send_replace(Some(target.clone()));
        self.acks(SESSIONS as u64).await;
        while rounds < wanted && began.elapsed() < SOAK_MAX {
            tokio::time::sleep(random.duration(pause)).await;
            owner.process.stop().unwrap();
            rounds += 1;
            target = successor.target(rounds + 1);
            tell.send_replace(Some(target.clone()));
            self.acks(2 * SESSIONS as u64).await;
            owner.process.resume().unwrap();
            self.acks(SESSIONS as u64).await;
            std::mem::swap(&mut owner, &mut successor);
        }
        (rounds, target)
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
    let (mut random, began, wanted) = (Random::new(5), Instant::now(), soak::count(6, 1_000));
    let mut kills = 0;
    while kills < wanted && began.elapsed() < SOAK_MAX {
        let mut kernel = cluster.kernel("a").await;
        tell.send_replace(Some(kernel.target(kills + 1)));
        load.acks(SESSIONS as u64).await;
        tokio::time::sleep(random.duration(Duration::from_millis(20))).await;
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
    let kernels = [cluster.kernel("a").await, cluster.kernel("b").await];
    let (rounds, target) = load.taken_over(&tell, &kernels, Random::new(9), Duration::from_millis(15)).await;
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
