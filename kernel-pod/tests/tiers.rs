//! Memory, disk, storage: where a session that wakes comes from, and that no tier is believed.

use std::path::Path;
use std::sync::Arc;

use crate::common::{Faulty, World, assign, assign_spec, eval, metric, spec, value};
use dormouse_crds::session::{KernelSessionSpec, Source};
use dormouse_kernel::Pod;
use dormouse_kernel::disk::{DiskCacheMetrics, cached};
use dormouse_protocol::eval::Woke;
use dormouse_protocol::kernel::Assignment;
use dormouse_store::{DiskCache, DiskCacheOptions};
use serde_json::json;

/// Enough to need a segment, of which no compression makes a small one.
const LARGE: &str = "const words = Array.from({ length: 20000 }, () => Math.random()); let n = 1; words.length";

struct Cached {
    pod: Pod,
    cache: Arc<DiskCache>,
}

fn pod(world: &World, name: &str, folder: &Path) -> Cached {
    let metrics = DiskCacheMetrics::new().unwrap();
    let options = DiskCacheOptions { folder: folder.to_owned(), bytes_max: 64 << 20 };
    let cache = Arc::new(cached(Arc::<Faulty>::clone(&world.store), options, metrics.clone()));
    let pod = world.pod_over(name, Arc::<DiskCache>::clone(&cache));
    metrics.register(&pod.metrics()).unwrap();
    Cached { pod, cache }
}

impl Cached {
    fn wakes(&self) -> [u64; 4] {
        ["fresh", "memory", "disk", "storage"].map(|source| metric(&self.pod, &format!("kernel_wakes_total{{source=\"{source}\"}}")))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_tier_is_counted_and_what_does_not_verify_is_read_from_the_next() {
    let (world, dir) = (World::default(), tempfile::tempdir().unwrap());
    let first = pod(&world, "a", dir.path());
    let session = assign(&first.pod, "u1", 1);
    value(&first.pod, &session, LARGE).await;
    first.pod.hibernate(session.clone()).await.unwrap();
    assert_eq!(eval(&first.pod, &session, "n").await.stats.woke, Woke::Cache);
    assert_eq!(first.wakes(), [1, 1, 0, 0]);
    first.cache.settled().await;

    // Without the copy in memory.
    first.pod.forget(session.clone()).await.unwrap();
    let woke = eval(&first.pod, &session, "n + words.length").await;
    assert_eq!((woke.value, woke.stats.woke), (Some(json!(20001)), Woke::Storage), "the head was read from there");
    assert!(woke.stats.served.to_string().starts_with("disk; dur="), "as the header of the answer has it: {}", woke.stats.served);
    assert_eq!(first.wakes(), [1, 1, 1, 0]);
    assert!(metric(&first.pod, "kernel_disk_cache_events_total{event=\"hit\"}") >= 1);

    for entry in std::fs::read_dir(dir.path()).unwrap() {
        let path = entry.unwrap().path();
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[40] ^= 1;
        std::fs::write(path, bytes).unwrap();
    }
    first.pod.forget(session.clone()).await.unwrap();
    assert_eq!(value(&first.pod, &session, "n + words.length").await, json!(20001));
    assert_eq!(first.wakes(), [1, 1, 1, 1]);
    assert!(metric(&first.pod, "kernel_disk_cache_events_total{event=\"mismatch\"}") >= 1);

    // The next process begins with an empty one.
    first.pod.drain().await;
    let second = pod(&world, "b", dir.path());
    assert_eq!(value(&second.pod, &assign(&second.pod, "u1", 2), "n + words.length").await, json!(20001));
    assert_eq!(second.wakes(), [0, 0, 0, 1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_finds_its_parents_segment_on_the_disk() {
    let (world, dir) = (World::default(), tempfile::tempdir().unwrap());
    let pod = pod(&world, "a", dir.path());
    let parent = assign(&pod.pod, "parent", 1);
    value(&pod.pod, &parent, LARGE).await;
    pod.cache.settled().await;
    let source = Source { session: parent.name.clone(), checkpoint: None };
    for uid in ["c1", "c2"] {
        let forked = KernelSessionSpec { source: Some(source.clone()), ..spec() };
        let child = Assignment { source_uid: Some("parent".to_owned()), ..assign_spec(&pod.pod, uid, 1, forked) };
        assert_eq!(value(&pod.pod, &child, "words.length").await, json!(20000));
    }
    assert_eq!(pod.wakes(), [1, 0, 2, 0]);
    assert_eq!(metric(&pod.pod, "kernel_disk_cache_events_total{event=\"miss\"}"), 0);
}
