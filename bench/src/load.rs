//! Many sessions and requests at once against a real `dormouse dev`, client included, beside a request that a bare hyper server answers.

use std::{
    future::Future,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use dormouse_client::Client;
use dormouse_crds::session::{Durability, KernelSessionSpec};
use dormouse_protocol::{eval::EvalRequest, history::ForkSession, session::CreateSession};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use rand::{Rng as _, SeedableRng as _, rngs::StdRng};
use tokio::{net::TcpListener, sync::Semaphore, task::JoinSet};

use crate::{
    dev::Dev,
    table::{Row, Samples},
};

/// Requests of the rows that ask one after the other.
const RUNS: usize = 1_000;
/// Sessions of the rows that have many.
const SESSIONS: usize = 1_000;
/// Evals of the row of the greatest throughput, and how many are under way at once.
const EVALS: usize = 30_000;
const AT_ONCE: usize = 64;
/// Evals a second of the open loop, and for how long.
const OPEN_EVALS_PER_SECOND: f64 = 5_000.0;
const OPEN_EVALS_LONG: Duration = Duration::from_secs(4);
/// Sessions made, used and deleted a second, and for how long.
const OPEN_CREATES_PER_SECOND: f64 = 45.0;
const OPEN_CREATES_LONG: Duration = Duration::from_secs(10);
/// Wakes of own copies a second, each of another session.
const WAKES_PER_SECOND: f64 = 1_000.0;
/// Requests that the clients of an open loop have under way at once, below what a listener takes of connections. One that is due while as many are
/// waits, and that counts: how late it is says how far the rate is out of reach.
const OPEN_AT_ONCE: usize = 1_000;
/// Every run has the same arrivals.
const SEED: u64 = 2_026;

/// All rows of this part. The bare server runs where this is awaited, the clients in a thread of their own: what one thread does for all of them takes
/// less of the processors that they share with the server.
pub async fn rows() -> anyhow::Result<Vec<Row>> {
    let hop = bare_hop().await?;
    tokio::task::spawn_blocking(|| tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(asked(hop))).await?
}

async fn asked(hop: String) -> anyhow::Result<Vec<Row>> {
    let folder = tempfile::tempdir()?;
    let server = Dev::start(folder.path())?;
    let bench = Bench { client: Client::new(&server.url, "default", None)?, hop };
    let mut rows = vec![bench.warm().await?, bench.first_result().await?, bench.creates().await?];
    for n in 0..SESSIONS {
        bench.create(&session(n)).await?;
    }
    rows.push(bench.throughput().await?);
    rows.push(bench.open_loop().await?);
    rows.push(bench.one_session().await?);
    rows.push(bench.wakes().await?);
    rows.push(bench.forks().await?);
    Ok(rows)
}

fn session(n: usize) -> String {
    format!("load-{n}")
}

fn cell() -> EvalRequest {
    EvalRequest { code: "1+1".to_owned(), ..EvalRequest::default() }
}

/// A bare server's address: it answers every request with two bytes.
async fn bare_hop() -> anyhow::Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let app = axum::Router::new().fallback(|| async { axum::Json(serde_json::json!({})) });
    tokio::spawn(async move { axum::serve(listener, app).await });
    Ok(format!("http://{address}"))
}

/// Asks at random times, so many a second, whether or not the earlier ones have been answered ([`OPEN_AT_ONCE`] at most), and measures from when each
/// was due.
async fn open_loop<F>(per_second: f64, count: usize, ask: impl Fn(usize) -> F) -> anyhow::Result<Vec<Duration>>
where
    F: Future<Output = anyhow::Result<()>> + Send + 'static,
{
    let mut random = StdRng::seed_from_u64(SEED);
    let mut asked = JoinSet::new();
    let places = Arc::new(Semaphore::new(OPEN_AT_ONCE));
    let mut due = Instant::now();
    for n in 0..count {
        due += Duration::from_secs_f64(-(1.0 - random.random::<f64>()).ln() / per_second);
        tokio::time::sleep_until(due.into()).await;
        let (answered, places) = (ask(n), Arc::clone(&places));
        asked.spawn(async move {
            let _place = places.acquire_owned().await?;
            answered.await?;
            anyhow::Ok(due.elapsed())
        });
    }
    let mut took = Vec::new();
    while let Some(one) = asked.join_next().await {
        took.push(one??);
    }
    Ok(took)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "counts of a bench, far below 2^52")]
fn count(per_second: f64, long: Duration) -> usize {
    (per_second * long.as_secs_f64()) as usize
}

struct Bench {
    client: Client,
    hop: String,
}

impl Bench {
    async fn create(&self, name: &str) -> anyhow::Result<()> {
        let spec = KernelSessionSpec { durability: Durability::OnIdle, ..KernelSessionSpec::default() };
        self.client.create(&CreateSession { name: Some(name.to_owned()), spec, ..CreateSession::default() }).await?;
        Ok(())
    }

    async fn eval(client: Client, name: String) -> anyhow::Result<()> {
        ensure!(client.eval(&name, &cell()).await?.ok, "a cell failed");
        Ok(())
    }

    /// As many requests to the bare server, one after the other.
    async fn hops(&self, count: usize) -> anyhow::Result<Samples> {
        let client = Client::new(&self.hop, "default", None)?;
        let mut took = Vec::new();
        for _ in 0..count {
            let began = Instant::now();
            client.delete("nothing").await?;
            took.push(began.elapsed());
        }
        Ok(Samples::of(took))
    }

    /// How long as many requests to the bare server take, with [`AT_ONCE`] under way.
    async fn hops_at_once(&self, count: usize) -> anyhow::Result<Duration> {
        let client = Client::new(&self.hop, "default", None)?;
        let began = Instant::now();
        stream::iter(0..count).map(|_| client.delete("nothing")).buffer_unordered(AT_ONCE).try_collect::<Vec<()>>().await?;
        Ok(began.elapsed())
    }

    async fn warm(&self) -> anyhow::Result<Row> {
        self.create("warm").await?;
        Self::eval(self.client.clone(), "warm".to_owned()).await?;
        let mut took = Vec::new();
        for _ in 0..RUNS {
            let began = Instant::now();
            Self::eval(self.client.clone(), "warm".to_owned()).await?;
            took.push(began.elapsed());
        }
        let hops = self.hops(RUNS).await?;
        Ok(Row::times("warm eval with OnIdle, through the gateway", &Samples::of(took), "a bare HTTP hop", &hops, "≤ 0.3 ms"))
    }

    async fn first_result(&self) -> anyhow::Result<Row> {
        let mut took = Vec::new();
        for n in 0..RUNS / 5 {
            let name = format!("first-{n}");
            let began = Instant::now();
            self.create(&name).await?;
            Self::eval(self.client.clone(), name.clone()).await?;
            took.push(began.elapsed());
            self.client.delete(&name).await?;
        }
        let hops = self.hops(RUNS).await?;
        Ok(Row::times("create to first result, through the gateway", &Samples::of(took), "a bare HTTP hop", &hops, "≤ 2 ms"))
    }

    async fn creates(&self) -> anyhow::Result<Row> {
        let client = self.client.clone();
        let took = open_loop(OPEN_CREATES_PER_SECOND, count(OPEN_CREATES_PER_SECOND, OPEN_CREATES_LONG), |n| {
            let client = client.clone();
            async move {
                let name = format!("open-{n}");
                client.create(&CreateSession { name: Some(name.clone()), ..CreateSession::default() }).await?;
                Self::eval(client.clone(), name.clone()).await?;
                client.delete(&name).await?;
                Ok(())
            }
        })
        .await?;
        let hops = self.hops(RUNS).await?;
        Ok(Row::tails("45 sessions a second: create, eval, delete", &Samples::of(took), "a bare HTTP hop", &hops, "p99 ≤ 20 ms"))
    }

    /// The greatest rate of evals over all sessions, and of bare hops, with as many under way.
    async fn throughput(&self) -> anyhow::Result<Row> {
        for n in 0..SESSIONS {
            Self::eval(self.client.clone(), session(n)).await?;
        }
        let began = Instant::now();
        stream::iter(0..EVALS)
            .map(|n| Self::eval(self.client.clone(), session(n % SESSIONS)))
            .buffer_unordered(AT_ONCE)
            .try_collect::<Vec<()>>()
            .await?;
        let ours = began.elapsed();
        let bare = self.hops_at_once(EVALS).await?;
        Ok(Row::rates("evals a second over 1,000 sessions", (EVALS, ours), "bare HTTP hops a second", (EVALS, bare), "≥ 10,000/s"))
    }

    async fn open_loop(&self) -> anyhow::Result<Row> {
        let client = self.client.clone();
        let took = open_loop(OPEN_EVALS_PER_SECOND, count(OPEN_EVALS_PER_SECOND, OPEN_EVALS_LONG), |n| {
            Self::eval(client.clone(), session(n % SESSIONS))
        })
        .await?;
        let hops = self.hops(RUNS).await?;
        Ok(Row::tails("5,000 evals a second over 1,000 sessions", &Samples::of(took), "a bare HTTP hop", &hops, "p99 ≤ 20 ms"))
    }

    async fn one_session(&self) -> anyhow::Result<Row> {
        let evals = EVALS / 3;
        let began = Instant::now();
        stream::iter(0..evals)
            .map(|_| Self::eval(self.client.clone(), session(0)))
            .buffer_unordered(AT_ONCE)
            .try_collect::<Vec<()>>()
            .await?;
        let ours = began.elapsed();
        let bare = self.hops_at_once(evals).await?;
        Ok(Row::rates("evals a second on one session", (evals, ours), "bare HTTP hops a second", (evals, bare), "≥ 5,000/s"))
    }

    /// Every session sleeps, and each is asked once.
    async fn wakes(&self) -> anyhow::Result<Row> {
        stream::iter(0..SESSIONS)
            .map(|n| {
                let client = self.client.clone();
                async move { client.hibernate(&session(n)).await.map(drop).with_context(|| session(n)) }
            })
            .buffer_unordered(AT_ONCE)
            .try_collect::<Vec<()>>()
            .await?;
        let client = self.client.clone();
        let took = open_loop(WAKES_PER_SECOND, SESSIONS, |n| Self::eval(client.clone(), session(n))).await?;
        let hops = self.hops(RUNS).await?;
        Ok(Row::tails("1,000 wakes a second from own copies", &Samples::of(took), "a bare HTTP hop", &hops, "p95 ≤ 10 ms"))
    }

    async fn forks(&self) -> anyhow::Result<Row> {
        let parent = Arc::new(session(0));
        let began = Instant::now();
        stream::iter(0..SESSIONS)
            .map(|n| {
                let (client, parent) = (self.client.clone(), Arc::clone(&parent));
                async move { client.fork(&parent, &ForkSession { name: format!("fork-{n}"), checkpoint: None }).await.map(drop) }
            })
            .buffer_unordered(AT_ONCE)
            .try_collect::<Vec<()>>()
            .await?;
        let ours = began.elapsed();
        let (ours, bare) = (Samples::of([ours]), Samples::of([self.hops_at_once(SESSIONS).await?]));
        Ok(Row::times("1,000 forks of one session", &ours, "as many bare HTTP hops", &bare, "≤ 0.8 s"))
    }
}
