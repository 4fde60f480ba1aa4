//! Sessions in the archive, over HTTP: how they are listed, and what is said while nobody knows which there are.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, Ordering},
};

use async_trait::async_trait;
use dormouse_control::archive::{Archived, ArchivedPage};
use dormouse_crds::session::Placement;
use dormouse_gateway::{
    Directory,
    directory::{Change, DirectoryError, KernelPod, Key, NewSession, Record, Seen, SessionPatch, folder::FolderDirectory},
};
use serde_json::{Value, json};
use tokio::sync::broadcast;

use crate::support::{Client, FakePod, Trust, directory, serve};

const SESSIONS: &str = "/v1/namespaces/default/sessions";

/// A directory with sessions in an archive, whose cursor is a number.
struct WithArchive {
    live: Arc<FolderDirectory>,
    archived: Vec<Archived>,
    is_down: AtomicBool,
    /// Sessions that are listed, and have gone when they are read.
    gone: Mutex<Vec<&'static str>>,
}

fn archived(name: &str) -> Archived {
    Archived {
        key: Key::new("default", name),
        uid: format!("uid-{name}"),
        labels: [("app".to_owned(), name.get(..1).unwrap().to_owned())].into(),
        annotations: Default::default(),
        created_time: None,
        archived_time: "2026-01-01T00:00:00Z".to_owned(),
        spec: Default::default(),
        status: Default::default(),
    }
}

impl WithArchive {
    fn answers(&self) -> Result<(), DirectoryError> {
        if self.is_down.load(Ordering::SeqCst) { Err(DirectoryError::Archive("nobody is there".to_owned())) } else { Ok(()) }
    }
}

#[async_trait]
impl Directory for WithArchive {
    fn get(&self, key: &Key) -> Option<Arc<Record>> {
        self.live.get(key)
    }

    async fn read(&self, key: &Key) -> Result<Arc<Record>, DirectoryError> {
        self.live.read(key).await
    }

    async fn look(&self, key: &Key) -> Result<Seen, DirectoryError> {
        self.answers()?;
        match self.archived.iter().find(|archived| archived.key == *key) {
            Some(archived) => Ok(Seen { record: Arc::new(archived.clone().record()), archived: true }),
            None => Ok(Seen { record: self.live.read(key).await?, archived: false }),
        }
    }

    async fn whole(&self, record: &Arc<Record>) -> Result<Arc<Record>, DirectoryError> {
        if self.gone.lock().unwrap().contains(&record.key.name.as_str()) { Err(DirectoryError::NotFound) } else { Ok(Arc::clone(record)) }
    }

    async fn archived(&self, _: &str, after: Option<String>, limit: usize) -> Result<ArchivedPage, DirectoryError> {
        self.answers()?;
        let from = after.map_or(0, |after| after.parse::<usize>().unwrap());
        let sessions: Vec<Archived> = self.archived.iter().skip(from).take(limit.min(2)).cloned().collect();
        let to = from + sessions.len();
        Ok(ArchivedPage { sessions, next: (to < self.archived.len()).then(|| to.to_string()) })
    }

    fn has_archive(&self) -> bool {
        true
    }

    fn list(&self, namespace: Option<&str>) -> Vec<Arc<Record>> {
        self.live.list(namespace)
    }

    async fn create(&self, new: NewSession) -> Result<Arc<Record>, DirectoryError> {
        if self.archived.iter().any(|archived| archived.key == new.key) && self.live.get(&new.key).is_none() {
            return Err(DirectoryError::AlreadyExists);
        }
        self.live.create(new).await
    }

    async fn patch(&self, key: &Key, patch: SessionPatch) -> Result<Arc<Record>, DirectoryError> {
        self.live.patch(key, patch).await
    }

    async fn delete(&self, key: &Key) -> Result<(), DirectoryError> {
        self.live.delete(key).await
    }

    async fn assign(&self, seen: &Record, placement: Placement) -> Result<Arc<Record>, DirectoryError> {
        self.live.assign(seen, placement).await
    }

    fn pods(&self, namespace: &str, pool: &str) -> Vec<KernelPod> {
        self.live.pods(namespace, pool)
    }

    fn pod(&self, namespace: &str, placement: &Placement) -> Option<KernelPod> {
        self.live.pod(namespace, placement)
    }

    fn changes(&self) -> broadcast::Receiver<Change> {
        self.live.changes()
    }

    fn pending(&self) -> Vec<&'static str> {
        self.live.pending()
    }
}

struct World {
    _folder: tempfile::TempDir,
    directory: Arc<WithArchive>,
    client: Client,
}

async fn world(live_names: &[&str], archived_names: &[&str]) -> World {
    world_with(&Trust::new(), &[], live_names, archived_names).await
}

async fn world_with(trust: &Trust, pods: &[&Arc<FakePod>], live_names: &[&str], archived_names: &[&str]) -> World {
    let (folder, live) = directory(trust, pods).await;
    for name in live_names {
        let labels = [("app".to_owned(), "live".to_owned())].into();
        live.create(NewSession { key: Key::new("default", *name), labels, spec: Default::default() }).await.unwrap();
    }
    let archived = archived_names.iter().map(|name| archived(name)).collect();
    let directory = Arc::new(WithArchive { live, archived, is_down: AtomicBool::new(false), gone: Mutex::default() });
    let client = serve(trust, Arc::clone(&directory) as Arc<dyn Directory>).await;
    World { _folder: folder, directory, client }
}

fn names(body: &Value) -> Vec<String> {
    let items = body["items"].as_array().unwrap();
    items.iter().map(|item| format!("{}:{}", item["name"].as_str().unwrap(), item["state"].as_str().unwrap())).collect()
}

/// All pages of `limit`.
async fn all(client: &Client, limit: usize, query: &str) -> Vec<Vec<String>> {
    let (mut pages, mut after) = (Vec::new(), String::new());
    loop {
        let (status, body) = client.get(&format!("{SESSIONS}?limit={limit}{query}{after}")).await;
        assert_eq!(status, 200, "{body}");
        pages.push(names(&body));
        match body["continue"].as_str() {
            Some(token) => after = format!("&continue={token}"),
            None => return pages,
        }
    }
}

#[tokio::test]
async fn archived_sessions_follow_behind_the_others_each_once() {
    let world = world(&["b", "d"], &["c", "a", "d", "e", "f"]).await;
    let archived = ["c:Archived", "a:Archived", "e:Archived", "f:Archived"];
    let every = [&["b:Waking", "d:Waking"], archived.as_slice()].concat();
    for limit in [1, 2, 3, 100] {
        assert_eq!(all(&world.client, limit, "").await.concat(), every, "{limit}: one that has the name now hides what is archived");
    }
    assert_eq!(all(&world.client, 3, "").await[0], ["b:Waking", "d:Waking", "c:Archived"], "a page has both");
    assert_eq!(all(&world.client, 10, "&labelSelector=app%3De").await.concat(), ["e:Archived"]);
    assert_eq!(all(&world.client, 10, "&labelSelector=app%3Dlive").await.concat(), ["b:Waking", "d:Waking"]);
}

#[tokio::test]
async fn a_page_of_sessions_that_went_meanwhile_is_not_the_last() {
    let world = world(&["a", "b", "c", "d"], &[]).await;
    *world.directory.gone.lock().unwrap() = vec!["a", "b"];
    assert_eq!(all(&world.client, 2, "").await.concat(), ["c:Waking", "d:Waking"]);
}

#[tokio::test]
async fn an_archived_session_is_read_where_it_is_and_keeps_its_name() {
    let world = world(&[], &["a"]).await;
    let (status, body) = world.client.get(&format!("{SESSIONS}/a")).await;
    assert_eq!((status, body["state"].as_str(), body["labels"]["app"].as_str()), (200, Some("Archived"), Some("a")), "{body}");
    let (status, body) = world.client.json("POST", SESSIONS, json!({"name": "a"})).await;
    assert_eq!((status, body["state"].as_str()), (200, Some("Archived")), "{body}");
    let refused = world.client.request("POST", SESSIONS).header("if-none-match", "*").json(&json!({"name": "a"})).send().await.unwrap();
    assert_eq!(refused.status(), 409);
    assert!(world.directory.live.list(None).is_empty(), "nothing was made");
}

#[tokio::test]
async fn what_nobody_knows_is_not_told() {
    let world = world(&["b"], &["a"]).await;
    world.directory.is_down.store(true, Ordering::SeqCst);
    let (status, body) = world.client.get(&format!("{SESSIONS}/a")).await;
    assert_eq!((status, body["error"]["code"].as_str()), (503, Some("StorageUnavailable")), "{body}");
    assert_eq!(world.client.get(&format!("{SESSIONS}/b")).await.0, 200, "what is not archived is served as ever");
    let (status, body) = world.client.get(SESSIONS).await;
    assert_eq!((status, names(&body)), (200, vec!["b:Waking".to_owned()]), "{body}");
    let rest = format!("{SESSIONS}?continue={}", body["continue"].as_str().unwrap());
    let (status, body) = world.client.get(&rest).await;
    assert_eq!((status, body["error"]["code"].as_str()), (503, Some("StorageUnavailable")), "and no list ends before its end");
    world.directory.is_down.store(false, Ordering::SeqCst);
    assert_eq!(names(&world.client.get(&rest).await.1), ["a:Archived"]);
}

#[tokio::test]
async fn a_fork_begins_although_its_parent_has_left_for_the_archive_meanwhile() {
    let trust = Trust::new();
    let pod = trust.pod("one", 4).await;
    let world = world_with(&trust, &[&pod], &[], &["parent"]).await;
    let child = json!({"name": "child", "spec": {"source": {"session": "parent"}}});
    assert_eq!(world.client.json("POST", SESSIONS, child).await.0, 201);
    assert_eq!(world.client.json("POST", &format!("{SESSIONS}/child/wake"), json!({})).await.0, 200);
    let told = pod.wakes.lock().unwrap()[0].clone();
    assert_eq!((told.name.as_str(), told.source_uid.as_deref()), ("child", Some("uid-parent")));
    let (_, listed) = world.client.get(SESSIONS).await;
    assert!(names(&listed).contains(&"parent:Archived".to_owned()), "it stays there: {listed}");
}
