//! Whole requests against a real `dormouse dev`, beside a request that does nothing.

use std::{
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use dormouse_client::Client;
use dormouse_protocol::{eval::EvalRequest, session::CreateSession};

use crate::table::{Row, Samples};

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

/// A `dormouse dev` of this build.
struct Dev {
    child: Child,
    url: String,
}

impl Dev {
    fn start(data: &std::path::Path) -> anyhow::Result<Self> {
        let program = std::env::current_exe()?.with_file_name("dormouse");
        let mut command = Command::new(&program);
        command.args(["dev", "--listen", "127.0.0.1:0", "--data"]).arg(data).stdout(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("cannot start {}: run `cargo build --release`", program.display()))?;
        let mut lines = BufReader::new(child.stdout.take().context("its output")?).lines();
        let first = lines.next().context("it said nothing")??;
        let url = first.split_whitespace().find(|word| word.starts_with("http://")).context("it said no address")?;
        let url = url.trim_end_matches(',').to_owned();
        std::thread::spawn(move || lines.for_each(drop));
        Ok(Self { child, url })
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
