//! What live sessions cost while nobody asks them anything: bare instances of the engine, and whole sessions of a kernel pod.

use std::{path::Path, sync::Arc, time::Duration, time::Instant};

use anyhow::{Context as _, ensure};
use dormouse_engine::{Engine, EngineOptions, Engines};
use dormouse_kernel::{Pod, PodConfig};
use dormouse_protocol::eval::Woke;
use dormouse_store::{Folder, SnapshotStore};

use crate::{
    engine::{SETTINGS, made, run},
    storage::{NoTools, assignment, config, eval},
    table::{Row, Samples},
};

const SESSIONS: usize = 10_000;
/// Creations of an instance beside no other.
const CREATES: usize = 2000;
/// A cell of a session that rests afterwards.
const CELL: &str = "var x = 1; function f() { return ++x }; f()";
/// A session gives back what it does not need when it has rested for a second; with some time to do it.
const REST: Duration = Duration::from_secs(3);

/// All rows of this part.
pub async fn rows(other: Option<&Path>) -> anyhow::Result<Vec<Row>> {
    let mut rows = instances(&made(other)?).await?;
    if other.is_some() {
        // A pod has the engine that is built in.
        return Ok(rows);
    }
    rows.push(sessions("memory of an idle live session of a pod, 10,000 of them", 10_000, 1, "≤ 268.4 KB").await?);
    rows.push(sessions("the same after 40 cells, with their journal and events, 300 of them", 300, 40, "–").await?);
    Ok(rows)
}

/// So many whole sessions of a pod, each of which has run so many cells.
async fn sessions(what: &'static str, count: u32, cells: u32, aim: &'static str) -> anyhow::Result<Row> {
    let engines = tokio::task::spawn_blocking(|| Engines::new(EngineOptions::default())).await??;
    let mut bare = engines.current().create(&SETTINGS)?;
    run(&mut bare, CELL).await?;
    let changed = bare.image().await.pages.len() * dormouse_engine::PAGE_BYTES;
    let folder = tempfile::tempdir()?;
    let store: Arc<dyn SnapshotStore> = Arc::new(Folder::open(folder.path())?);
    let pod = Pod::new(PodConfig { slots: count + 1, ..config() }, engines, store, Arc::new(NoTools))?;
    eval(&pod, &assignment(&pod, "first"), CELL, Woke::No).await?;
    let before = private_bytes()?;
    for session in 0..count {
        let session = assignment(&pod, &format!("u{session}"));
        for _ in 0..cells {
            eval(&pod, &session, CELL, Woke::No).await?;
        }
    }
    tokio::time::sleep(REST).await;
    let each = private_bytes()?.saturating_sub(before) / count as usize;
    ensure!(pod.info().used == count + 1, "not all are live");
    Ok(Row::sizes(what, each, "the pages that its cell has changed", changed, aim))
}

/// Ten thousand sessions that have run a cell, alive at once.
async fn instances(engine: &Engine) -> anyhow::Result<Vec<Row>> {
    let mut first = engine.create(&SETTINGS)?;
    run(&mut first, CELL).await?;
    let changed = first.image().await.pages.len() * dormouse_engine::PAGE_BYTES;
    let alone = Samples::take(CREATES, || drop(engine.create(&SETTINGS)));
    let before = private_bytes()?;
    let mut live = Vec::with_capacity(SESSIONS);
    let mut creates = Vec::with_capacity(SESSIONS);
    for _ in 0..SESSIONS {
        let start = Instant::now();
        let mut instance = engine.create(&SETTINGS)?;
        creates.push(start.elapsed());
        run(&mut instance, CELL).await?;
        instance.delta().await;
        instance.mark_committed();
        // As the kernel pod does with a session that rests.
        instance.give_back();
        live.push(instance);
    }
    let full = private_bytes()?;
    // Alive, not only mapped.
    for instance in live.iter_mut().step_by(1000) {
        run(instance, "f()").await?;
    }
    drop(live);
    dormouse_engine::give_back_freed();
    let after = private_bytes()?;
    let each = full.saturating_sub(before) / SESSIONS;
    let kept = after.saturating_sub(before) / SESSIONS;
    Ok(vec![
        Row::times("create a session beside up to 10,000 live ones", &Samples::of(creates), "create it alone", &alone, "≤ 0.05 ms"),
        Row::sizes("memory of an idle live session, 10,000 of them", each, "the pages that its cell has changed", changed, "≤ 268.4 KB"),
        Row::sizes("what is left of it when all are freed", kept, "the session when live", each, "–"),
    ])
}

/// Memory that is this process's own, page tables included; the base image is shared by all sessions.
fn private_bytes() -> anyhow::Result<usize> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let field = |name: &str| -> anyhow::Result<usize> {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).with_context(|| format!("no {name}"))?;
        Ok(line.split_whitespace().next().context("no number")?.parse::<usize>()? * 1024)
    };
    Ok(field("RssAnon:")? + field("VmPTE:")?)
}
