//! Commit to and resume from a real S3 server (MinIO), beside the bare requests.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail};
use bytes::Bytes;
use dormouse_engine::{Engine, EngineOptions, Image, Instance};
use dormouse_lifecycle::{Change, Commit, Head, Owned, PAGES_PER_MEMORY_PAGE, SessionKey, Step, assemble, commit};
use dormouse_store::{Condition, S3, SnapshotStore};
use dormouse_testkit::minio::Minio;

use crate::{
    engine::{SETTINGS, TYPICAL, run, stored},
    table::{Row, Samples},
};

const RUNS: usize = 200;

/// All rows of this part.
pub async fn rows() -> anyhow::Result<Vec<Row>> {
    let minio = Minio::start().await?;
    let store = minio.create_bucket("bench").await?;
    let engine = Engine::new(EngineOptions::default())?;
    let mut instance = engine.create(&SETTINGS)?;
    run(&mut instance, TYPICAL).await?;
    let session = SessionKey { store_prefix: String::new(), tenant: "bench".into(), uid: "u".into(), name: "bench".into() };
    let mut owned = Owned { session, epoch: 1, head: None, etag: None };
    owned = save(&store, &owned, &mut instance).await?;

    let (mut floors, mut commits, mut resumes) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..RUNS {
        let (floor, put) = bare(&store, &owned).await?;
        floors.push(floor);
        let start = Instant::now();
        let mut resumed = load(&store, &engine, &owned).await?;
        run(&mut resumed, "closures[0]()").await?;
        let committing = Instant::now();
        owned = save(&store, &owned, &mut resumed).await?;
        resumes.push(start.elapsed());
        commits.push((committing.elapsed(), put));
    }
    let (ours, puts): (Vec<_>, Vec<_>) = commits.into_iter().unzip();
    Ok(vec![
        Row::times("commit of a small cell", &Samples::of(ours), "one PUT of a head of this size", &Samples::of(puts), "≤ 1.1"),
        Row::times(
            "resume from storage, one cell, commit",
            &Samples::of(resumes),
            "GET and PUT of a head of this size",
            &Samples::of(floors),
            "≤ 1.3",
        ),
    ])
}

/// A GET of the head and a PUT of as many bytes elsewhere.
async fn bare(store: &S3, owned: &Owned) -> anyhow::Result<(Duration, Duration)> {
    let start = Instant::now();
    let object = store.get(&owned.session.head()).await?.context("the head is gone")?;
    let got = Instant::now();
    let put = store.put("bare", object.bytes, Condition::None).await;
    put.map_err(|error| anyhow::anyhow!("{error:?}"))?;
    Ok((start.elapsed(), got.elapsed()))
}

async fn load(store: &S3, engine: &Engine, owned: &Owned) -> anyhow::Result<Instance> {
    let object = store.get(&owned.session.head()).await?.context("the head is gone")?;
    let head = Head::decode(&object.bytes)?;
    let mut segments: Vec<Bytes> = Vec::new();
    for segment in &head.segments {
        segments.push(store.get(&segment.key).await?.context("a segment is gone")?.bytes);
    }
    let pages = assemble(&head, &segments)?;
    let page = |bytes: Arc<[u8; dormouse_lifecycle::PAGE_BYTES]>| dormouse_engine::Page::new(Bytes::copy_from_slice(bytes.as_slice()));
    let image = Image {
        memory_pages: head.memory_pages * PAGES_PER_MEMORY_PAGE,
        globals: serde_json::from_value(head.globals.clone())?,
        host: serde_json::from_value(head.state.clone())?,
        pages: pages.into_iter().filter_map(|(number, bytes)| Some((number, page(bytes)?))).collect(),
    };
    Ok(engine.restore(&image, &SETTINGS)?)
}

async fn save(store: &S3, owned: &Owned, instance: &mut Instance) -> anyhow::Result<Owned> {
    let full = commit::wants_full_image(owned);
    let delta = instance.delta();
    let pages = if full {
        stored(instance.image().pages.iter().map(|(&number, page)| (number, page)))
    } else {
        stored(delta.pages.iter().map(|(number, page)| (*number, page)))
    };
    let change = Change {
        full,
        pages,
        memory_pages: delta.memory_pages.div_ceil(PAGES_PER_MEMORY_PAGE),
        globals: serde_json::to_value(&delta.globals)?,
        state: serde_json::to_value(&delta.host)?,
        engine_digest: "bench".to_owned(),
        time: "2026-01-01T00:00:00Z".to_owned(),
    };
    let put_id = format!("{}", owned.head.as_ref().map_or(0, |head| head.sequence));
    let (mut machine, mut step) = Commit::begin(owned, change, put_id);
    loop {
        let (key, bytes, condition) = match step {
            Step::Committed(owned) => {
                instance.mark_committed();
                return Ok(owned);
            }
            Step::PutSegment { key, bytes } => (key, bytes, Condition::None),
            Step::PutHead { key, bytes, condition: commit::Condition::Absent } => (key, bytes, Condition::Absent),
            Step::PutHead { key, bytes, condition: commit::Condition::Matches(etag) } => (key, bytes, Condition::Matches(etag)),
            other => bail!("a commit without faults came to {other:?}"),
        };
        let etag = store.put(&key, bytes, condition).await.map_err(|error| anyhow::anyhow!("{error:?}"))?;
        step = machine.on(commit::Reply::Stored { etag });
    }
}
