//! The folder store on a disk that is full: what was acknowledged stays whole, and room that is made can be used.
//!
//! The disk is a tmpfs in a mount namespace of the test's own, so the test runs itself again inside it.

use std::{io::ErrorKind, path::Path};

use bytes::Bytes;
use dormouse_store::{Condition, Folder, PutError, SnapshotStore as _, StoreError};
use dormouse_testkit::{again::again_on_a_disk, soak};

/// Names the folder on the small disk; set for the run inside the namespace.
const DISK_ENV: &str = "DORMOUSE_TEST_DISK";
/// Size of the disk, in MiB.
const DISK_MIB: usize = 64;
/// Bytes of a segment.
const SEGMENT_BYTES: usize = 3 << 20;
/// More than fit.
const WRITES_MAX: u64 = 100_000;
/// Bytes of a head.
const HEAD_BYTES: usize = 96 << 10;

#[test]
fn a_full_disk_damages_no_head() {
    if let Some(disk) = std::env::var_os(DISK_ENV) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        return runtime.block_on(fill_again_and_again(Path::new(&disk)));
    }
    let dir = tempfile::tempdir().unwrap();
    again_on_a_disk(dir.path(), DISK_MIB << 10, DISK_ENV, "full_disk::a_full_disk_damages_no_head").unwrap();
}

/// Bytes that name the write they come from in each of their parts.
fn content(round: u64, write: u64, bytes: usize) -> Bytes {
    format!("{round:08}-{write:08};").into_bytes().into_iter().cycle().take(bytes).collect()
}

fn is_full<T: std::fmt::Debug>(result: &Result<T, PutError>) -> bool {
    matches!(result, Err(PutError::Failed(StoreError::Io { source, .. })) if source.kind() == ErrorKind::StorageFull)
}

async fn fill_again_and_again(disk: &Path) {
    let rounds = soak::count(5, 100);
    let (mut refused, mut writes) = (0, 0);
    let folder = disk.join("store");
    let mut stored: Option<(Bytes, String)> = None;
    for round in 0..rounds {
        let store = Folder::open(&folder).unwrap();
        let mut segments = Vec::new();
        loop {
            writes += 1;
            let segment = format!("t/a/s/u/{round}-{writes}-ab");
            let put = store.put(&segment, content(round, writes, SEGMENT_BYTES), Condition::Absent).await;
            if is_full(&put) {
                assert_eq!(store.get(&segment).await.unwrap(), None, "what did not fit is not there");
                break;
            }
            put.unwrap();
            segments.push(segment);
            stored = Some(commit(&store, stored, content(round, writes, HEAD_BYTES)).await.expect("there is room for a head"));
        }
        // The rest of the disk goes too, so that not even a head fits.
        let mut filler = 0;
        while std::fs::write(disk.join(format!("filler-{filler}")), vec![0; 32 << 10]).is_ok() {
            filler += 1;
        }
        let mut refused_now = 0;
        while refused_now < 4 {
            writes += 1;
            assert!(writes < WRITES_MAX, "there is no room");
            let before = stored.clone();
            match commit(&store, stored.clone(), content(round, writes, HEAD_BYTES)).await {
                // The room of the log was taken before.
                Some(kept) => {
                    stored = Some(kept);
                    continue;
                }
                None => refused_now += 1,
            }
            refused += 1;
            let found = store.get("t/a/s/u/head").await.unwrap();
            assert_eq!(found.map(|object| (object.bytes, object.etag)), before, "the head is the one that was acknowledged");
        }
        drop(store);
        let store = Folder::open(&folder).unwrap();
        let found = store.get("t/a/s/u/head").await.unwrap();
        assert_eq!(found.map(|object| (object.bytes, object.etag)), stored, "also for the next process");
        for at in 0..=filler {
            let _ = std::fs::remove_file(disk.join(format!("filler-{at}")));
        }
        for segment in segments {
            store.delete(&segment).await.unwrap();
        }
        stored = Some(commit(&store, stored, content(round, 0, HEAD_BYTES)).await.expect("room that was made is used"));
    }
    soak::report(&format!("a disk of {DISK_MIB} MiB was filled {rounds} times, {refused} heads did not fit, 0 were damaged"));
}

/// Puts a head over the last one. `None` when it does not fit.
async fn commit(store: &Folder, before: Option<(Bytes, String)>, bytes: Bytes) -> Option<(Bytes, String)> {
    let condition = before.map_or(Condition::Absent, |(_, etag)| Condition::Matches(etag));
    let put = store.put("t/a/s/u/head", bytes.clone(), condition).await;
    if is_full(&put) { None } else { Some((bytes, put.unwrap())) }
}
