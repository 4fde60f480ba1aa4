//! The folder store: conditions, durability's basics, the lock.

use bytes::Bytes;
use dormouse_durable::LOGGED_BYTES_MAX;
use dormouse_store::{Condition, Folder, ListFrom, PutError, SnapshotStore, StoreError, probe::conditional_writes};

fn text(bytes: &'static str) -> Bytes {
    Bytes::from_static(bytes.as_bytes())
}

#[tokio::test]
async fn it_passes_the_probe_and_is_left_clean() {
    let dir = tempfile::tempdir().unwrap();
    let store = Folder::open(dir.path().join("new/store")).unwrap();
    conditional_writes(&store, "t/a/").await.unwrap();
    assert!(store.list("").await.unwrap().is_empty());
    store.flush().await.unwrap();
    assert!(!dir.path().join("new/store/objects").exists());
}

#[tokio::test]
async fn a_second_process_is_kept_out_until_the_first_lets_go() {
    let dir = tempfile::tempdir().unwrap();
    let store = Folder::open(dir.path()).unwrap();
    let second = Folder::open(dir.path()).unwrap_err();
    assert!(matches!(second, StoreError::FolderInUse { .. }) && second.to_string().contains("in use"), "{second}");
    let etag = store.put("t/a/head", text("1"), Condition::Absent).await.unwrap();
    drop(store);
    let store = Folder::open(dir.path()).unwrap();
    assert_eq!(store.get("t/a/head").await.unwrap().unwrap().etag, etag);
}

#[tokio::test]
async fn a_copy_outlives_what_it_was_made_of() {
    let dir = tempfile::tempdir().unwrap();
    let store = Folder::open(dir.path()).unwrap();
    for pages in [text("pages"), Bytes::from(vec![7; LOGGED_BYTES_MAX + 1])] {
        let etag = store.put("t/a/s/parent/1-1-ab", pages.clone(), Condition::Absent).await.unwrap();
        for _ in 0..2 {
            assert!(store.copy("t/a/s/parent/1-1-ab", "t/a/s/child/1-1-ab").await.unwrap());
        }
        store.put("t/a/s/parent/1-1-ab", text("other"), Condition::Matches(etag)).await.unwrap();
        store.delete("t/a/s/parent/1-1-ab").await.unwrap();
        assert_eq!(store.get("t/a/s/child/1-1-ab").await.unwrap().unwrap().bytes, pages);
        assert!(!store.copy("t/a/s/parent/1-1-ab", "t/a/s/child/1-2-ab").await.unwrap());
        assert_eq!(store.list("").await.unwrap(), ["t/a/s/child/1-1-ab"]);
        store.flush().await.unwrap();
        assert_eq!(std::fs::read_dir(dir.path().join(".log")).unwrap().count(), 0, "nothing is left of making it");
    }
}

#[tokio::test]
async fn a_write_that_a_crash_cut_off_is_never_seen() {
    let dir = tempfile::tempdir().unwrap();
    let store = Folder::open(dir.path()).unwrap();
    let etag = store.put("t/a/head", text("whole"), Condition::Absent).await.unwrap();
    drop(store);
    std::fs::write(dir.path().join(".log/new-7"), "ha").unwrap();
    let store = Folder::open(dir.path()).unwrap();
    assert_eq!(store.list("").await.unwrap(), ["t/a/head"]);
    assert_eq!(std::fs::read_dir(dir.path().join(".log")).unwrap().count(), 0);
    let stale = store.put("t/a/head", text("x"), Condition::Matches("other".into())).await;
    assert!(matches!(stale, Err(PutError::Refused)), "{stale:?}");
    store.put("t/a/head", text("next"), Condition::Matches(etag)).await.unwrap();
    assert_eq!(store.get("t/a/head").await.unwrap().unwrap().bytes, text("next"));
}

#[tokio::test]
async fn deleting_takes_empty_folders_along_and_leaves_neighbours() {
    let dir = tempfile::tempdir().unwrap();
    let store = Folder::open(dir.path()).unwrap();
    for key in ["t/a/s/1/head", "t/a/s/2/head"] {
        store.put(key, text("x"), Condition::None).await.unwrap();
    }
    store.delete("t/a/s/1/head").await.unwrap();
    store.delete("t/a/s/1/head").await.unwrap();
    assert_eq!(store.list("t/a/s/1/").await.unwrap(), Vec::<String>::new());
    assert_eq!(store.list("t/a/").await.unwrap(), ["t/a/s/2/head"]);
    store.flush().await.unwrap();
    assert!(dir.path().join("objects/t/a/s/2").exists() && !dir.path().join("objects/t/a/s/1").exists());
    store.put("t/a/s/1/head", text("again"), Condition::Absent).await.unwrap();
}

#[tokio::test]
async fn a_listing_has_parts_of_the_size_that_is_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let store = Folder::open(dir.path()).unwrap();
    for key in ["t/a/4", "t/a/1", "t/a/3", "t/a/2", "t/b/5"] {
        store.put(key, text("x"), Condition::None).await.unwrap();
    }
    let first = store.list_page("t/a/", ListFrom::Start, Some(2)).await.unwrap();
    assert_eq!(first.keys, ["t/a/1", "t/a/2"]);
    let rest = store.list_page("t/a/", ListFrom::Next(&first.next.unwrap()), Some(2)).await.unwrap();
    assert_eq!((rest.keys, rest.next), (vec!["t/a/3".to_owned(), "t/a/4".to_owned()], None));
    let behind = store.list_page("t/a/", ListFrom::After("t/a/3"), Some(2)).await.unwrap();
    assert_eq!((behind.keys, behind.next), (vec!["t/a/4".to_owned()], None));
    let whole = store.list_page("t/", ListFrom::Start, None).await.unwrap();
    assert_eq!((whole.keys.len(), whole.next), (5, None));
}

#[tokio::test]
async fn keys_cannot_leave_the_folder() {
    let dir = tempfile::tempdir().unwrap();
    let store = Folder::open(dir.path()).unwrap();
    for key in ["../x", "a/../../x", "/etc/passwd", "a//b", "", "a/.lock", "a\\b", "a/"] {
        let put = store.put(key, text("x"), Condition::None).await;
        assert!(matches!(put, Err(PutError::Failed(StoreError::BadKey { .. }))), "{key}: {put:?}");
        assert!(matches!(store.get(key).await, Err(StoreError::BadKey { .. })), "{key}");
    }
}

#[tokio::test]
async fn a_reader_says_how_much_it_takes() {
    let dir = tempfile::tempdir().unwrap();
    let folder = Folder::open(dir.path()).unwrap();
    let memory = dormouse_store::Memory::new();
    for store in [&folder as &dyn SnapshotStore, &memory] {
        store.put("t/a/five", text("12345"), Condition::Absent).await.unwrap();
        assert_eq!(store.get_within("t/a/five", 5).await.unwrap().unwrap().bytes, text("12345"));
        let refused = store.get_within("t/a/five", 4).await.unwrap_err();
        assert!(matches!(refused, StoreError::TooLarge { bytes: 5, bytes_max: 4, .. }), "{refused}");
        assert_eq!(store.get_within("t/a/none", 4).await.unwrap(), None);
    }
}
