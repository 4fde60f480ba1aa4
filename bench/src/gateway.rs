//! Whole requests against a real `dormouse dev`, beside a request that does nothing.

use std::time::{Duration, Instant};

use anyhow::ensure;
use dormouse_client::Client;
use dormouse_protocol::{eval::EvalRequest, session::CreateSession};

use crate::{
    dev::Dev,
    table::{Row, Samples},
};

const RUNS: usize = 1000;
const WAKES: usize = 200;

/// All rows of this part.
pub async fn rows() -> anyhow::Result<Vec<Row>> {
    let folder = tempfile::tempdir()?;
    let server = Dev::start(folder.path())?;
    let client = Client::new(&server.url, "default", None)?;
    let name = "bench";
    client.create(&CreateSession { name: Some(name.to_owned()), ..CreateSession::default() }).await?;
    let cell = EvalRequest { code: "1+1".to_owned(), ..EvalRequest::default() };
    ensure!(client.eval(name, &cell).await?.ok, "the first cell failed");
    let (mut evals, mut reads) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        reads.push(timed(client.get(name)).await?);
        evals.push(timed(client.eval(name, &cell)).await?);
    }
    let mut wakes = Vec::new();
    for _ in 0..WAKES {
        client.hibernate(name).await?;
        wakes.push(timed(client.eval(name, &cell)).await?);
    }
    let evals = Samples::of(evals);
    Ok(vec![
        Row::times(
            "eval through the gateway, durable on a folder",
            &evals,
            "reading the session, which runs nothing",
            &Samples::of(reads),
            "–",
        ),
        Row::times("the same, woken in place first", &Samples::of(wakes), "the eval when live", &evals, "–"),
    ])
}

async fn timed<T>(call: impl Future<Output = Result<T, dormouse_client::Error>>) -> anyhow::Result<Duration> {
    let start = Instant::now();
    call.await?;
    Ok(start.elapsed())
}
