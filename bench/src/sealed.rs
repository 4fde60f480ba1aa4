//! What encryption at rest adds to a commit: the same cells in two pods over one S3 server (MinIO), of which one has keys.

use std::sync::Arc;

use anyhow::ensure;
use dormouse_engine::{EngineOptions, Engines};
use dormouse_kernel::Pod;
use dormouse_protocol::eval::Woke;
use dormouse_seal::{Keyring, Keys, Name, Seal};
use dormouse_store::SnapshotStore;
use dormouse_testkit::minio::Minio;

use crate::{
    engine::TYPICAL,
    storage::{NoTools, assignment, config, eval},
    table::{Row, Samples},
};

const RUNS: usize = 200;

/// Bytes of the object that is sealed and opened without a store.
const OBJECT_BYTES: usize = 1 << 20;

/// All rows of this part.
pub async fn rows() -> anyhow::Result<Vec<Row>> {
    let minio = Minio::start().await?;
    let store: Arc<dyn SnapshotStore> = Arc::new(minio.create_bucket("bench").await?);
    let engines = tokio::task::spawn_blocking(|| Engines::new(EngineOptions::default())).await??;
    let plain = Pod::new(config(), engines.clone(), Arc::clone(&store), Arc::new(NoTools))?;
    let sealing = Pod::sealing(config(), engines, Arc::clone(&store), Arc::new(NoTools), seal()?)?;
    let (in_clear, encrypted) = (assignment(&plain, "u"), assignment(&sealing, "v"));
    eval(&plain, &in_clear, TYPICAL, Woke::No).await?;
    eval(&sealing, &encrypted, TYPICAL, Woke::No).await?;
    let head = store.get("t/bench/s/default/v/head").await?;
    ensure!(head.is_some_and(|head| head.bytes.starts_with(b"DMSEAL")), "the head is not encrypted");
    let (mut plains, mut sealeds, mut resumes, mut sealed_resumes) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..RUNS {
        plains.push(eval(&plain, &in_clear, "closures[0]()", Woke::No).await?);
        sealeds.push(eval(&sealing, &encrypted, "closures[0]()", Woke::No).await?);
        plain.forget(in_clear.clone()).await?;
        sealing.forget(encrypted.clone()).await?;
        resumes.push(eval(&plain, &in_clear, "closures[0]()", Woke::Storage).await?);
        sealed_resumes.push(eval(&sealing, &encrypted, "closures[0]()", Woke::Storage).await?);
    }
    let (sealing_times, opening_times, hashing_times) = objects().await?;
    Ok(vec![
        Row::times(
            "a small cell in a live session, committed encrypted",
            &Samples::of(sealeds),
            "the same, not encrypted",
            &Samples::of(plains),
            "≤ 1.1",
        ),
        Row::times(
            "resume from storage, one cell, commit, encrypted",
            &Samples::of(sealed_resumes),
            "the same, not encrypted",
            &Samples::of(resumes),
            "≤ 1.1",
        ),
        Row::times("encrypt an object of 1 MiB", &Samples::of(sealing_times), "sha256 of it", &Samples::of(hashing_times.clone()), "≤ 1"),
        Row::times("decrypt an object of 1 MiB", &Samples::of(opening_times), "sha256 of it", &Samples::of(hashing_times), "≤ 1"),
    ])
}

fn seal() -> anyhow::Result<Seal> {
    let entries: [(&str, &[u8]); 2] = [("k", &[0xa7; 32]), ("current", b"k")];
    Ok(Seal::new("bench", Keys::fixed(Keyring::parse(entries)?)))
}

type Times = Vec<std::time::Duration>;

/// Times to seal, to open, and to hash an object.
async fn objects() -> anyhow::Result<(Times, Times, Times)> {
    let (seal, object) = (seal()?, vec![7; OBJECT_BYTES]);
    let writer = seal.writer().await?.ok_or_else(|| anyhow::anyhow!("no key is current"))?;
    let name = Name { session: "u", object: "1-1-ab", engine: "e" };
    let (mut sealing, mut opening, mut hashing) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..RUNS {
        let start = std::time::Instant::now();
        let sealed = writer.seal(name, &object)?;
        sealing.push(start.elapsed());
        let start = std::time::Instant::now();
        let opened = seal.open(sealed).await?;
        opening.push(start.elapsed());
        ensure!(opened.bytes == object, "it opens as something else");
        let start = std::time::Instant::now();
        ensure!(dormouse_lifecycle::segment::sha256_hex(&object).len() == 64, "a hash has 64 digits");
        hashing.push(start.elapsed());
    }
    Ok((sealing, opening, hashing))
}
