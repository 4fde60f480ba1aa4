//! Commit to and resume from a real S3 server (MinIO), beside the bare requests.

use std::time::{Duration, Instant};

use bytes::Bytes;
use dormouse_engine::{Engine, EngineOptions};
use dormouse_store::{Condition, SnapshotStore};
use dormouse_testkit::minio::Minio;

use crate::{
    engine::{SETTINGS, TYPICAL, run},
    table::{Row, Samples},
};

const RUNS: usize = 200;

/// All rows of this part.
pub async fn rows() -> anyhow::Result<Vec<Row>> {
    let minio = Minio::start().await?;
    let store = minio.store("bench").await?;
    let engine = Engine::new(EngineOptions::default())?;
    let mut instance = engine.create(&SETTINGS)?;
    run(&mut instance, TYPICAL).await?;
    let image = instance.image();
    let pages: Vec<_> = image.pages.iter().map(|(&n, page)| (n, page.clone())).collect();
    let bytes = dormouse_lifecycle::segment::encode(&pages)?;
    let mut etag = store.put("head", bytes.clone(), Condition::Absent).await.map_err(|e| anyhow::anyhow!("{e:?}"))?;

    let (mut gets, mut puts, mut resumes) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..RUNS {
        gets.push(get(&store, "head").await?.0);
        let (took, next) = put(&store, bytes.clone(), etag).await?;
        etag = next;
        puts.push(took);
        let start = Instant::now();
        let (_, stored) = get(&store, "head").await?;
        let mut image = image.clone();
        image.pages = dormouse_lifecycle::segment::decode(&stored)?.into_iter().collect();
        let mut resumed = engine.restore(&image, &SETTINGS)?;
        run(&mut resumed, "closures[0]()").await?;
        let delta = resumed.delta();
        let head = dormouse_lifecycle::segment::encode(&delta.pages)?;
        let (_, next) = put(&store, if head.is_empty() { bytes.clone() } else { bytes.clone() }, etag).await?;
        etag = next;
        resumes.push(start.elapsed());
    }
    let floor = Samples::of(gets.iter().zip(&puts).map(|(g, p)| *g + *p));
    Ok(vec![Row::times("resume from storage, one cell, commit", &Samples::of(resumes), "GET and conditional PUT of the same bytes", &floor, "≤ 1.3")])
}

async fn get(store: &impl SnapshotStore, key: &str) -> anyhow::Result<(Duration, Bytes)> {
    let start = Instant::now();
    let object = store.get(key).await?.ok_or_else(|| anyhow::anyhow!("{key} is gone"))?;
    Ok((start.elapsed(), object.bytes))
}

async fn put(store: &impl SnapshotStore, bytes: Bytes, etag: String) -> anyhow::Result<(Duration, String)> {
    let start = Instant::now();
    let next = store.put("head", bytes, Condition::Matches(etag)).await.map_err(|e| anyhow::anyhow!("{e:?}"))?;
    Ok((start.elapsed(), next))
}
