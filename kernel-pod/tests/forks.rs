//! A fork storm over a real MinIO: what children of one parent share, and what they must not; and a parent that commits meanwhile.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::common::{World, assign, assign_spec, metric, ready, spec, try_eval, value};
use async_trait::async_trait;
use bytes::Bytes;
use dormouse_crds::session::{KernelSessionSpec, Source};
use dormouse_engine::{EngineOptions, Engines};
use dormouse_kernel::{Pod, PodConfig};
use dormouse_lifecycle::{Head, PAGE_BYTES, Page, assemble, keys};
use dormouse_protocol::ErrorCode;
use dormouse_protocol::kernel::Assignment;
use dormouse_store::{Condition, ETag, Object, PutError, S3, SnapshotStore, StoreError};
use dormouse_testkit::minio::Minio;
use dormouse_testkit::soak;
use futures::{StreamExt as _, TryStreamExt as _};

/// Children that are made at the same time.
const AT_ONCE: usize = 8;

/// What an own copy costs beyond its pages.
const COPY_BYTES: u64 = 4096;

/// A heap that needs a segment, and a generator that has been used.
const PARENT: &str = "const words = Array.from({ length: 100000 }, () => Math.random()); Math.random(); words.length";

/// Two 128-bit values, and 128 bits of what is no good source of them.
const DRAW: &str = "const bits = () => Array.from({ length: 4 }, () => (Math.random() * 2 ** 32 >>> 0).toString(16).padStart(8, '0')).join('');
    [crypto.randomUUID(), Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join(''), bits()]";

/// A session as it is stored.
struct Stored {
    head_bytes: u64,
    pages: BTreeMap<u32, Page>,
    /// Bytes of segments by the digits of their content.
    segments: BTreeMap<String, u64>,
}

impl Stored {
    async fn read(store: &S3, uid: &str) -> Self {
        let bytes = store.get(&format!("p/t/team/s/default/{uid}/head")).await.unwrap().expect("it has a head").bytes;
        let head = Head::decode(&bytes).unwrap();
        let mut segments = Vec::new();
        for segment in &head.segments {
            assert!(segment.key.starts_with(&format!("p/t/team/s/default/{uid}/")), "its prefix is self-contained");
            segments.push(store.get(&segment.key).await.unwrap().expect("what it names is there").bytes);
        }
        let named = head.segments.iter().map(|segment| (keys::name_hash(&segment.key).unwrap().to_owned(), segment.bytes)).collect();
        Self { head_bytes: bytes.len() as u64, pages: assemble(&head, &segments).unwrap(), segments: named }
    }

    fn page_bytes(&self) -> u64 {
        (self.pages.len() * PAGE_BYTES) as u64
    }

    /// Bytes of the pages that are not the parent's.
    fn own_page_bytes(&self, parent: &Self) -> u64 {
        let own = self.pages.iter().filter(|(number, page)| parent.pages.get(number) != Some(page)).count();
        (own * PAGE_BYTES) as u64
    }

    /// Bytes of segments, the parent's and its own.
    fn segment_bytes(&self, parent: &Self) -> (u64, u64) {
        let (copied, own): (Vec<_>, Vec<_>) = self.segments.iter().partition(|(content, _)| parent.segments.contains_key(*content));
        (copied.into_iter().map(|(_, bytes)| bytes).sum(), own.into_iter().map(|(_, bytes)| bytes).sum())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn children_of_one_parent_draw_nothing_twice_and_cost_what_they_changed() {
    let minio = Minio::start().await.unwrap();
    let store = minio.create_bucket("sessions").await.unwrap();
    let config = PodConfig {
        pod: "a".into(),
        namespace: "team".into(),
        pool: "default".to_owned(),
        slots: 20,
        cache_bytes: 2 << 30,
        store_prefix: "p/".into(),
        role: dormouse_kernel::Role::Shared,
    };
    let tools = Arc::clone(&World::default().tools);
    let pod = Pod::new(config, Engines::new(EngineOptions::for_user()).unwrap(), Arc::new(store.clone()), tools).unwrap();
    ready(&pod).await;
    let parent = assign(&pod, "parent", 1);
    value(&pod, &parent, PARENT).await;
    let children = soak::count(24, 1_000);
    let made: Vec<(Assignment, serde_json::Value, u64)> = futures::stream::iter(0..children)
        .map(|n| {
            let source = Source { session: parent.name.clone(), checkpoint: None };
            let forked = KernelSessionSpec { source: Some(source), ..spec() };
            let child = Assignment { source_uid: Some(parent.uid.clone()), ..assign_spec(&pod, &format!("c{n}"), 1, forked) };
            let pod = &pod;
            async move {
                pod.wake(child.clone()).await?;
                let drawn = crate::common::eval(pod, &child, DRAW).await;
                pod.hibernate(child.clone()).await?;
                Ok::<_, dormouse_protocol::ApiError>((child, drawn.value.expect("it drew"), drawn.stats.committed_bytes))
            }
        })
        .buffer_unordered(AT_ONCE)
        .try_collect()
        .await
        .unwrap();

    let mut seen = HashSet::new();
    let mut drawn = |values: &serde_json::Value| {
        for value in values.as_array().unwrap() {
            let text: String = value.as_str().unwrap().chars().filter(char::is_ascii_hexdigit).collect();
            assert!(text.len() == 32 && seen.insert(text), "{value} came twice");
        }
    };
    made.iter().for_each(|(_, values, _)| drawn(values));
    let before = Stored::read(&store, "parent").await;
    drawn(&value(&pod, &parent, DRAW).await);
    let asleep = metric(&pod, "kernel_copies_bytes");

    let (mut own_pages, mut written, mut heads, mut copied) = (0, 0, 0, 0);
    for (child, _, committed) in &made {
        let stored = Stored::read(&store, &child.uid).await;
        let own = stored.own_page_bytes(&before);
        assert!(
            0 < own && own < before.page_bytes() / 2,
            "a child has most of its parent's pages: {own} of {} are its own",
            before.page_bytes()
        );
        let (copies, segments) = stored.segment_bytes(&before);
        assert!(segments <= own, "segments of its own are of what it changed: {segments} for {own}");
        assert!(*committed <= own, "one draw writes at most what it changed: {committed} for {own}");
        (own_pages, written, heads, copied) = (own_pages + own, written + committed, heads + stored.head_bytes, copied + copies);
    }
    // The first child brings the parent's pages, the others share them.
    let whole = before.page_bytes();
    assert!(asleep <= own_pages + whole + children * COPY_BYTES, "{asleep} for {own_pages} of their own and {whole} of the parent");
    soak::report(&format!(
        "{children} children: {} values of 128 bits, 0 twice; each has changed {} bytes of pages (of {whole}), writes {} with its first cell, has a head of \
         {} and, by copies inside the store, {} of its parent's segments; asleep they take {} of memory each",
        seen.len(),
        own_pages / children,
        written / children,
        heads / children,
        copied / children,
        asleep / children,
    ));
}

/// A store in which the parent has committed, and its segments are gone with that, between any two requests about it.
struct Racing {
    store: Arc<dyn SnapshotStore>,
    commits: AtomicUsize,
    /// Copies after which the parent rests.
    races: usize,
    copies: AtomicUsize,
}

#[async_trait]
impl SnapshotStore for Racing {
    async fn get(&self, key: &str) -> Result<Option<Object>, StoreError> {
        let found = self.store.get(key).await?;
        Ok(found.map(|Object { bytes, etag }| match key {
            "p/t/team/s/default/parent/head" => Object { bytes, etag: format!("{etag}-{}", self.commits.fetch_add(1, Ordering::SeqCst)) },
            _ => Object { bytes, etag },
        }))
    }

    async fn put(&self, key: &str, bytes: Bytes, condition: Condition) -> Result<ETag, PutError> {
        self.store.put(key, bytes, condition).await
    }

    async fn copy(&self, from: &str, to: &str) -> Result<bool, StoreError> {
        if self.copies.fetch_add(1, Ordering::SeqCst) < self.races { Ok(false) } else { self.store.copy(from, to).await }
    }

    async fn delete(&self, key: &str) -> Result<(), StoreError> {
        self.store.delete(key).await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<String>, StoreError> {
        self.store.list(prefix).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parent_that_commits_faster_than_it_can_be_copied_is_busy_and_not_damaged() {
    for (races, expected) in [(4, None), (usize::MAX, Some(ErrorCode::SessionBusy))] {
        let world = World::default();
        let pod = world.pod("a");
        let parent = assign(&pod, "parent", 1);
        value(&pod, &parent, PARENT).await;
        pod.drain().await;
        let racing = Racing {
            store: Arc::<crate::common::Faulty>::clone(&world.store),
            commits: AtomicUsize::new(0),
            races,
            copies: AtomicUsize::new(0),
        };
        let pod = world.pod_over("b", Arc::new(racing));
        let source = Source { session: parent.name.clone(), checkpoint: None };
        let forked = KernelSessionSpec { source: Some(source), ..spec() };
        let child = Assignment { source_uid: Some(parent.uid.clone()), ..assign_spec(&pod, "child", 1, forked) };
        match (try_eval(&pod, &child, "words.length").await, expected) {
            (Ok(result), None) => assert_eq!(result.value, Some(serde_json::json!(100_000)), "the last attempt gets it"),
            (Err(error), Some(code)) => assert!(error.code == code && error.retryable, "{error:?}"),
            (result, expected) => panic!("{races} races: {result:?}, not {expected:?}"),
        }
    }
}
