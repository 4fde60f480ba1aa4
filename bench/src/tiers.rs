//! Resume of a large session whose segments are on the pod's disk, beside the same from a real S3 server (MinIO).

use std::{path::Path, sync::Arc};

use dormouse_engine::{EngineOptions, Engines};
use dormouse_kernel::{
    Pod,
    disk::{DiskCacheMetrics, cached},
};
use dormouse_protocol::eval::Woke;
use dormouse_store::{DiskCacheOptions, SnapshotStore};
use dormouse_testkit::minio::Minio;

use crate::{
    storage::{NoTools, assignment, config, eval},
    table::{Row, Samples},
};

const RUNS: usize = 100;

/// 5 MiB that no compression makes smaller.
const LARGE: &str = "const noise = new Uint8Array(5 << 20); for (let at = 0; at < noise.length; at += 65536) crypto.getRandomValues(noise.subarray(at, at + 65536)); 0";

/// All rows of this part.
pub async fn rows() -> anyhow::Result<Vec<Row>> {
    let minio = Minio::start().await?;
    let store: Arc<dyn SnapshotStore> = Arc::new(minio.create_bucket("bench").await?);
    let folder = tempfile::tempdir()?;
    let engines = tokio::task::spawn_blocking(|| Engines::new(EngineOptions::default())).await??;
    let from_disk = resumes(&engines, before(Arc::clone(&store), folder.path())?, "disk").await?;
    let from_storage = resumes(&engines, store, "storage").await?;
    Ok(vec![Row::times(
        "resume of a session of 5 MiB, its segment on the pod's disk",
        &Samples::of(from_disk),
        "the same, its segment in storage",
        &Samples::of(from_storage),
        "≤ 1",
    )])
}

fn before(store: Arc<dyn SnapshotStore>, folder: &Path) -> anyhow::Result<Arc<dyn SnapshotStore>> {
    let options = DiskCacheOptions { folder: folder.to_owned(), bytes_max: 256 << 20 };
    Ok(Arc::new(cached(store, options, DiskCacheMetrics::new()?)))
}

async fn resumes(engines: &Engines, store: Arc<dyn SnapshotStore>, uid: &str) -> anyhow::Result<Vec<std::time::Duration>> {
    let pod = Pod::new(config(), engines.clone(), store, Arc::new(NoTools))?;
    let session = assignment(&pod, uid);
    eval(&pod, &session, LARGE, Woke::No).await?;
    let mut took = Vec::with_capacity(RUNS);
    for _ in 0..RUNS {
        pod.forget(session.clone()).await?;
        took.push(eval(&pod, &session, "noise[0] >= 0", Woke::Storage).await?);
    }
    Ok(took)
}
