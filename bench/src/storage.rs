//! Commit to and resume from a real S3 server (MinIO) by a real kernel pod, beside the bare requests.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use async_trait::async_trait;
use dormouse_engine::{EngineOptions, Engines};
use dormouse_kernel::{Pod, PodConfig, Tools};
use dormouse_protocol::{
    ApiError, ErrorCode,
    broker::{ToolAnswer, ToolCall},
    eval::{EvalRequest, Woke},
    kernel::{Assignment, EvalCall},
};
use dormouse_store::{Condition, Memory, Object, S3, S3Options, SnapshotStore};
use dormouse_testkit::{distance::Distance, minio::Minio};

use crate::{
    engine::TYPICAL,
    table::{Row, Samples},
};

const RUNS: usize = 200;

/// Cells before anything is measured: more than the journal takes to fill its part of the head for the first time. From then on it is emptied and
/// fills again, 4 KB of a head of 20.
const CELLS_BEFORE: usize = 50;

/// The cell that is measured.
const CELL: &str = "closures[0]()";

const HEAD: &str = "t/bench/s/default/u/head";

/// The cells that are measured call no tool.
pub(crate) struct NoTools;

#[async_trait]
impl Tools for NoTools {
    async fn call(&self, _: &str, _: ToolCall) -> Result<ToolAnswer, ApiError> {
        Err(ApiError::new(ErrorCode::ToolNotFound, "the benchmark has no tools"))
    }
}

/// How far away the store is in the rows that say so: S3 in the same region answers a PUT after 10 ms and more.
pub(crate) const ONE_WAY: Duration = Duration::from_millis(5);

/// All rows of this part.
pub async fn rows() -> anyhow::Result<Vec<Row>> {
    let minio = Minio::start().await?;
    let engines = tokio::task::spawn_blocking(|| Engines::new(EngineOptions::default())).await??;
    let near = Measured::take(&engines, Arc::new(minio.create_bucket("near").await?)).await?;
    minio.create_bucket("far").await?;
    let relay = Distance::before(&minio.endpoint(), ONE_WAY)?;
    let options = S3Options { endpoint: relay.endpoint(), ..minio.options("far") };
    let far = Measured::take(&engines, Arc::new(S3::new(&options))).await?;
    let put = "one conditional PUT of a head of this size";
    let put_cpu = "CPU of one conditional PUT of a head of this size";
    let both = "GET and conditional PUT of a head of this size";
    Ok(vec![
        Row::times("a small cell in a live session of a pod, committed", &near.evals, put, &near.puts, "≤ 1.1"),
        Row::times("the same with a store in memory", &near.evals_alone, put, &near.puts, "≤ 0.1"),
        Row::times("its CPU, all threads", &near.cpu_alone, put_cpu, &near.put_cpu, "–"),
        Row::times("the same, CPU of the pod's process", &near.eval_cpu, put_cpu, &near.put_cpu, "–"),
        Row::times("resume from storage, one cell, commit", &near.resumes, both, &near.both, "≤ 1.3"),
        Row::times("a small cell in a live session, committed, storage 10 ms away", &far.evals, put, &far.puts, "≤ 1.1"),
        Row::times("resume from storage, one cell, commit, storage 10 ms away", &far.resumes, both, &far.both, "≤ 1.3"),
    ])
}

/// What one store's rows are made of.
struct Measured {
    /// Conditional PUTs.
    puts: Samples,
    put_cpu: Samples,
    /// A GET and a conditional PUT, together.
    both: Samples,
    /// Cells of a live session, committed to the store.
    evals: Samples,
    eval_cpu: Samples,
    /// The same with a store in memory.
    evals_alone: Samples,
    cpu_alone: Samples,
    /// Cells of a session that comes from the store first.
    resumes: Samples,
}

impl Measured {
    async fn take(engines: &Engines, store: Arc<S3>) -> anyhow::Result<Self> {
        let pod = Pod::new(config(), engines.clone(), Arc::clone(&store) as Arc<dyn SnapshotStore>, Arc::new(NoTools))?;
        let session = assignment(&pod, "u");
        eval(&pod, &session, TYPICAL, Woke::No).await?;
        for _ in 0..CELLS_BEFORE {
            eval(&pod, &session, CELL, Woke::No).await?;
        }
        let mut bare = Bare::of(store).await?;
        let alone = Pod::new(config(), engines.clone(), Arc::new(Memory::default()), Arc::new(NoTools))?;
        let session_alone = assignment(&alone, "u");
        eval(&alone, &session_alone, TYPICAL, Woke::No).await?;
        // Sessions that run nothing but these cells; what they cost when they come from storage first is a row of its own.
        let (mut puts, mut put_cpu, mut evals, mut eval_cpu) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let (mut evals_alone, mut cpu_alone) = (Vec::new(), Vec::new());
        for run in 0..RUNS {
            // In pairs, and in turns, so that whatever else the machine does meets both.
            for floor in [run % 2 == 0, run % 2 == 1] {
                let before = cpu();
                if floor {
                    puts.push(bare.put().await?);
                    put_cpu.push(cpu().saturating_sub(before));
                } else {
                    evals.push(eval(&pod, &session, CELL, Woke::No).await?);
                    eval_cpu.push(cpu().saturating_sub(before));
                }
            }
            let before = cpu();
            evals_alone.push(eval(&alone, &session_alone, CELL, Woke::No).await?);
            cpu_alone.push(cpu().saturating_sub(before));
        }
        let (mut both, mut resumes) = (Vec::new(), Vec::new());
        for run in 0..RUNS {
            for floor in [run % 2 == 0, run % 2 == 1] {
                if floor {
                    both.push(bare.get_and_put().await?);
                } else {
                    pod.forget(session.clone()).await?;
                    resumes.push(eval(&pod, &session, CELL, Woke::Storage).await?);
                }
            }
        }
        Ok(Self {
            puts: Samples::of(puts),
            put_cpu: Samples::of(put_cpu),
            both: Samples::of(both),
            evals: Samples::of(evals),
            eval_cpu: Samples::of(eval_cpu),
            evals_alone: Samples::of(evals_alone),
            cpu_alone: Samples::of(cpu_alone),
            resumes: Samples::of(resumes),
        })
    }
}

/// CPU time of all threads of this process so far.
pub fn cpu() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::try_from(now).unwrap_or_default()
}

/// A pod's.
pub(crate) fn config() -> PodConfig {
    PodConfig {
        pod: "bench".into(),
        namespace: "bench".into(),
        pool: "default".to_owned(),
        slots: 10,
        cache_bytes: 64 << 20,
        store_prefix: String::new(),
        role: dormouse_kernel::Role::Shared,
    }
}

/// The session of this uid, in this pod.
pub(crate) fn assignment(pod: &Pod, uid: &str) -> Assignment {
    Assignment {
        namespace: "bench".into(),
        name: "bench".into(),
        uid: uid.into(),
        epoch: 1,
        source_uid: None,
        anchor: None,
        source_anchor: None,
        boot: pod.info().boot,
        generation: 1,
        spec: Default::default(),
    }
}

pub(crate) async fn eval(pod: &Pod, session: &Assignment, code: &str, woke: Woke) -> anyhow::Result<Duration> {
    let request = EvalRequest { code: code.to_owned(), ..EvalRequest::default() };
    let call = EvalCall { assignment: session.clone(), eval: request, request_id: String::new(), run: false, lost: false };
    let start = Instant::now();
    let result = pod.eval(call).await?;
    let took = start.elapsed();
    ensure!(result.ok && result.stats.woke == woke, "{:?} {:?}", result.stats.woke, result.error);
    Ok(took)
}

/// The requests of which a commit and a resume cannot have fewer.
struct Bare {
    store: Arc<S3>,
    head: Object,
    etag: Option<String>,
}

impl Bare {
    /// With the head as it is now, whose bytes it puts elsewhere a first time.
    async fn of(store: Arc<S3>) -> anyhow::Result<Self> {
        let head = store.get(HEAD).await?.context("the head is gone")?;
        let mut bare = Self { store, head, etag: None };
        bare.put().await?;
        Ok(bare)
    }

    /// One conditional PUT, after the same pause as a cell.
    async fn put(&mut self) -> anyhow::Result<Duration> {
        let start = Instant::now();
        let condition = self.etag.take().map_or(Condition::None, Condition::Matches);
        let etag = self.store.put("bare", self.head.bytes.clone(), condition).await.map_err(|error| anyhow::anyhow!("{error:?}"))?;
        self.etag = Some(etag);
        Ok(start.elapsed())
    }

    /// A GET of the head, and a conditional PUT of its bytes.
    async fn get_and_put(&mut self) -> anyhow::Result<Duration> {
        let start = Instant::now();
        self.head = self.store.get(HEAD).await?.context("the head is gone")?;
        let got = start.elapsed();
        Ok(got + self.put().await?)
    }
}
