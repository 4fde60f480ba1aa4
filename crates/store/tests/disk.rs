//! The cache on disk: it saves reads, and is never believed.

use std::{
    path::Path,
    process::Command,
    sync::{Arc, Mutex},
};

use bytes::Bytes;
use dormouse_store::disk::{CACHED_ETAG, CacheEvent, Immutable, Watch};
use dormouse_store::{Condition, DiskCache, DiskCacheOptions, PutError, SnapshotStore};
use dormouse_testkit::{again::again_on_a_disk, store::Faulty};
use sha2::{Digest as _, Sha256};

const BYTES_MAX: u64 = 64 << 10;

/// Keys that end in the hash of their object.
struct ByHash;

impl Immutable for ByHash {
    fn name(&self, key: &str) -> Option<String> {
        key.rsplit('/').next().filter(|name| name.len() == 64).map(str::to_owned)
    }
}

#[derive(Default)]
struct Told(Mutex<(Vec<CacheEvent>, u64)>);

impl Watch for Told {
    fn counted(&self, event: CacheEvent, bytes: u64) {
        let mut told = self.0.lock().unwrap();
        told.0.push(event);
        told.1 = bytes;
    }
}

impl Told {
    fn count(&self, wanted: CacheEvent) -> usize {
        self.0.lock().unwrap().0.iter().filter(|event| **event == wanted).count()
    }
}

struct World {
    store: Arc<Faulty>,
    told: Arc<Told>,
    cache: DiskCache,
}

fn open(store: &Arc<Faulty>, folder: &Path) -> World {
    let (store, told) = (Arc::clone(store), Arc::new(Told::default()));
    let options = DiskCacheOptions { folder: folder.to_owned(), bytes_max: BYTES_MAX };
    let cache = DiskCache::open(Arc::<Faulty>::clone(&store), options, Arc::new(ByHash), Arc::<Told>::clone(&told));
    World { store, told, cache }
}

fn object(fill: u8, bytes: usize) -> (String, Bytes) {
    let bytes = Bytes::from(vec![fill; bytes]);
    (format!("p/{}", hex::encode(Sha256::digest(&bytes))), bytes)
}

impl World {
    /// Puts an object and waits until it is kept.
    async fn put(&self, fill: u8, bytes: usize) -> String {
        let (key, bytes) = object(fill, bytes);
        self.cache.put(&key, bytes, Condition::Absent).await.unwrap();
        self.cache.settled().await;
        key
    }

    /// Reads an object; answers whether it came from the store.
    async fn reads_store(&self, key: &str, fill: u8) -> bool {
        let before = self.store.gets();
        let found = self.cache.get(key).await.unwrap().expect("it is there");
        assert!(found.bytes.iter().all(|byte| *byte == fill), "what was put is read");
        self.cache.settled().await;
        let asked = self.store.gets() > before;
        assert_eq!(found.etag == CACHED_ETAG, !asked);
        asked
    }
}

#[tokio::test]
async fn what_was_put_or_read_is_not_asked_for_again() {
    let (store, dir) = (Arc::<Faulty>::default(), tempfile::tempdir().unwrap());
    let folder = dir.path().join("cache");
    let first = open(&store, &folder);
    let put = first.put(1, 5000).await;
    let (read, bytes) = object(2, 700);
    store.put(&read, bytes, Condition::None).await.unwrap();
    assert!(!first.reads_store(&put, 1).await && first.reads_store(&read, 2).await && !first.reads_store(&read, 2).await);
    assert_eq!(first.told.0.lock().unwrap().1, 5700);
    drop(first);
    std::fs::write(folder.join(".cut-off"), "x").unwrap();
    let second = open(&store, &folder);
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0, "nobody remembers what an earlier process has left");
    assert!(second.reads_store(&put, 1).await && !second.reads_store(&put, 1).await);
    second.cache.delete(&put).await.unwrap();
    assert_eq!(second.cache.get(&put).await.unwrap(), None);
}

#[tokio::test]
async fn what_may_change_is_never_kept() {
    let (store, dir) = (Arc::<Faulty>::default(), tempfile::tempdir().unwrap());
    let world = open(&store, dir.path());
    let etag = world.cache.put("p/head", Bytes::from_static(b"one"), Condition::Absent).await.unwrap();
    world.cache.get("p/head").await.unwrap();
    store.put("p/head", Bytes::from_static(b"two"), Condition::Matches(etag)).await.unwrap();
    assert_eq!(world.cache.get("p/head").await.unwrap().unwrap().bytes, "two");
    let (key, bytes) = object(1, 100);
    world.cache.put(&key, bytes, Condition::Absent).await.unwrap();
    let refused = world.cache.put(&key, Bytes::from_static(b"other"), Condition::Matches(CACHED_ETAG.to_owned())).await;
    assert!(matches!(refused, Err(PutError::Refused)), "the version of a cached object is none");
}

#[tokio::test]
async fn what_somebody_else_has_written_is_dropped_and_counted() {
    let (store, dir) = (Arc::<Faulty>::default(), tempfile::tempdir().unwrap());
    let folder = dir.path().join("cache");
    let world = open(&store, &folder);
    let key = world.put(7, 4000).await;
    let file = folder.join(key.strip_prefix("p/").unwrap());
    let other = dir.path().join("other");
    std::fs::write(&other, vec![7; 4000]).unwrap();
    type Damage<'a> = &'a dyn Fn(&Path);
    let damages: [(&str, Damage<'_>); 6] = [
        ("flipped", &|file| std::fs::write(file, [vec![7; 3999], vec![8]].concat()).unwrap()),
        ("shorter", &|file| std::fs::write(file, vec![7; 3999]).unwrap()),
        ("longer", &|file| std::fs::write(file, vec![7; 4001]).unwrap()),
        ("gone", &|file| std::fs::remove_file(file).unwrap()),
        ("a link", &|file| {
            std::fs::remove_file(file).unwrap();
            std::os::unix::fs::symlink(&other, file).unwrap();
        }),
        ("a pipe", &|file| {
            std::fs::remove_file(file).unwrap();
            assert!(Command::new("mkfifo").arg(file).status().unwrap().success());
        }),
    ];
    for (at, (name, damage)) in damages.iter().enumerate() {
        assert!(!world.reads_store(&key, 7).await, "before it is {name}");
        damage(&file);
        assert!(world.reads_store(&key, 7).await, "{name}");
        assert_eq!(world.told.count(CacheEvent::Mismatch), at + 1, "{name}");
    }
    // Planted before the process starts.
    drop(world);
    std::fs::write(&file, vec![9; 4000]).unwrap();
    std::os::unix::fs::symlink(&other, folder.join("ab")).unwrap();
    let world = open(&store, &folder);
    assert!(world.reads_store(&key, 7).await && !world.reads_store(&key, 7).await);
    assert!(!folder.join("ab").exists() && other.exists());
}

#[tokio::test]
async fn its_bytes_are_bounded_and_the_least_recently_used_go() {
    let (store, dir) = (Arc::<Faulty>::default(), tempfile::tempdir().unwrap());
    let world = open(&store, dir.path());
    let quarter = usize::try_from(BYTES_MAX / 4).unwrap();
    let [a, b, c, d] = [world.put(1, quarter).await, world.put(2, quarter).await, world.put(3, quarter).await, world.put(4, quarter).await];
    assert_eq!((world.told.count(CacheEvent::Evicted), world.told.0.lock().unwrap().1), (0, BYTES_MAX), "exactly as many bytes as fit");
    assert!(!world.reads_store(&a, 1).await);
    let e = world.put(5, 1).await;
    assert_eq!(world.told.count(CacheEvent::Evicted), 1);
    for (key, fill) in [(&a, 1), (&c, 3), (&d, 4), (&e, 5)] {
        assert!(!world.reads_store(key, fill).await);
    }
    let larger = world.put(6, quarter + 1).await;
    assert!(world.reads_store(&larger, 6).await && world.reads_store(&larger, 6).await, "an object beyond its share is not kept");
    assert!(world.reads_store(&b, 2).await, "it went");
    let on_disk: u64 = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum();
    assert!(on_disk <= BYTES_MAX && on_disk == world.told.0.lock().unwrap().1, "{on_disk}");
}

/// Names the small disk; set for the run inside the namespace.
const DISK_ENV: &str = "DORMOUSE_TEST_CACHE_DISK";

#[tokio::test]
async fn a_disk_that_is_full_or_no_disk_at_all_is_no_error() {
    if let Some(disk) = std::env::var_os(DISK_ENV) {
        return on_a_full_disk(Path::new(&disk)).await;
    }
    let (store, dir) = (Arc::<Faulty>::default(), tempfile::tempdir().unwrap());
    let file = dir.path().join("file");
    std::fs::write(&file, "no folder").unwrap();
    let world = open(&store, &file);
    let key = world.put(1, 100).await;
    assert!(world.reads_store(&key, 1).await && world.reads_store(&key, 1).await);
    assert_eq!((world.told.count(CacheEvent::Failed), world.told.count(CacheEvent::Kept)), (1, 0));

    again_on_a_disk(dir.path(), 32, DISK_ENV, "disk::a_disk_that_is_full_or_no_disk_at_all_is_no_error").unwrap();
}

async fn on_a_full_disk(disk: &Path) {
    let store = Arc::<Faulty>::default();
    let world = open(&store, &disk.join("cache"));
    let first = world.put(1, 12 << 10).await;
    let second = world.put(2, 16 << 10).await;
    let third = world.put(3, 16 << 10).await;
    assert_eq!(world.told.count(CacheEvent::Failed), 1, "32 KiB do not hold 44");
    assert!(world.reads_store(&third, 3).await && world.reads_store(&third, 3).await, "nothing more is kept");
    assert!(!world.reads_store(&first, 1).await && !world.reads_store(&second, 2).await, "what is there is read");
    assert!(std::fs::read_dir(disk.join("cache")).unwrap().all(|entry| !entry.unwrap().file_name().to_string_lossy().starts_with('.')));
}
