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
use dormouse_store::{Condition, S3, SnapshotStore};
use dormouse_testkit::minio::Minio;

use crate::{
    engine::TYPICAL,
    table::{Row, Samples},
};

const RUNS: usize = 200;

const HEAD: &str = "t/bench/s/u/head";

/// The cells that are measured call no tool.
pub(crate) struct NoTools;

#[async_trait]
impl Tools for NoTools {
    async fn call(&self, _: &str, _: ToolCall) -> Result<ToolAnswer, ApiError> {
        Err(ApiError::new(ErrorCode::ToolNotFound, "the benchmark has no tools"))
    }
}

/// All rows of this part.
pub async fn rows() -> anyhow::Result<Vec<Row>> {
    let minio = Minio::start().await?;
    let store = Arc::new(minio.create_bucket("bench").await?);
    let engines = tokio::task::spawn_blocking(|| Engines::new(EngineOptions::default())).await??;
    let config =
        PodConfig { pod: "bench".into(), namespace: "bench".into(), slots: 10, cache_bytes: 64 << 20, store_prefix: String::new() };
    let pod = Pod::new(config, engines, Arc::clone(&store) as Arc<dyn SnapshotStore>, Arc::new(NoTools))?;
    let session = Assignment {
        namespace: "bench".into(),
        name: "bench".into(),
        uid: "u".into(),
        epoch: 1,
        source_uid: None,
        boot: pod.info().boot,
        generation: 1,
        spec: Default::default(),
    };
    eval(&pod, &session, TYPICAL, Woke::No).await?;

    let mut etag = put(&store, Condition::None).await?.2;
    let (mut gets, mut puts, mut evals, mut resumes) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..RUNS {
        let (get, put, next) = put(&store, Condition::Matches(etag)).await?;
        etag = next;
        evals.push(eval(&pod, &session, "closures[0]()", Woke::No).await?);
        pod.forget(session.clone()).await?;
        resumes.push(eval(&pod, &session, "closures[0]()", Woke::Storage).await?);
        gets.push(get + put);
        puts.push(put);
    }
    Ok(vec![
        Row::times(
            "a small cell in a live session of a pod, committed",
            &Samples::of(evals),
            "one conditional PUT of a head of this size",
            &Samples::of(puts),
            "≤ 1.1",
        ),
        Row::times(
            "resume from storage, one cell, commit",
            &Samples::of(resumes),
            "GET and conditional PUT of a head of this size",
            &Samples::of(gets),
            "≤ 1.3",
        ),
    ])
}

pub(crate) async fn eval(pod: &Pod, session: &Assignment, code: &str, woke: Woke) -> anyhow::Result<Duration> {
    let request = EvalRequest { code: code.to_owned(), ..EvalRequest::default() };
    let call = EvalCall { assignment: session.clone(), eval: request, request_id: String::new() };
    let start = Instant::now();
    let result = pod.eval(call).await?;
    let took = start.elapsed();
    ensure!(result.ok && result.stats.woke == woke, "{:?} {:?}", result.stats.woke, result.error);
    Ok(took)
}

/// A GET of the head, and a PUT of its bytes elsewhere under a condition. Answers the times of both and the new ETag.
async fn put(store: &S3, condition: Condition) -> anyhow::Result<(Duration, Duration, String)> {
    let start = Instant::now();
    let object = store.get(HEAD).await?.context("the head is gone")?;
    let got = Instant::now();
    let etag = store.put("bare", object.bytes, condition).await.map_err(|error| anyhow::anyhow!("{error:?}"))?;
    Ok((got.duration_since(start), got.elapsed(), etag))
}
