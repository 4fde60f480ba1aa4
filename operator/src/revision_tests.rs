use std::sync::{Arc, Mutex};

use axum::{
    Json, Router,
    body::Body,
    extract::{RawQuery, State},
    response::{IntoResponse as _, Response},
};
use kube::{
    Client, Config, ResourceExt as _,
    runtime::{WatchStreamExt as _, reflector::store::Writer, watcher},
};
use serde_json::json;

use super::*;

/// An API server that has sessions of these names at this revision. Its watches hear nothing, as those that wait for a later revision do.
type Etcd = Arc<Mutex<(u64, Vec<&'static str>)>>;

async fn sessions(State(etcd): State<Etcd>, RawQuery(query): RawQuery) -> Response {
    if query.unwrap_or_default().contains("watch=true") {
        return Body::from_stream(stream::pending::<Result<Vec<u8>, std::io::Error>>()).into_response();
    }
    let (revision, names) = etcd.lock().unwrap().clone();
    let item = |name: &&str| {
        json!({
            "apiVersion": "dormouse.dev/v1alpha1", "kind": "KernelSession", "spec": {},
            "metadata": {"name": name, "namespace": "team", "uid": name, "resourceVersion": revision.to_string()},
        })
    };
    let items: Vec<_> = names.iter().map(item).collect();
    Json(json!({
        "apiVersion": "dormouse.dev/v1alpha1", "kind": "KernelSessionList", "metadata": {"resourceVersion": revision.to_string()}, "items": items,
    }))
    .into_response()
}

async fn api(etcd: &Etcd) -> Api<KernelSession> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = Router::new().fallback(sessions).with_state(Arc::clone(etcd));
    tokio::spawn(async move { axum::serve(listener, router).await });
    dormouse_service::telemetry::install_tls_provider();
    Api::all(Client::try_from(Config::new(format!("http://{address}").parse().unwrap())).unwrap())
}

#[tokio::test]
async fn a_cache_follows_an_api_server_that_was_put_back_without_a_restart() {
    let etcd: Etcd = Arc::new(Mutex::new((100, vec!["kept", "made-since-the-backup"])));
    let api = api(&etcd).await;
    let revisions = Arc::new(Revisions::default());
    let writer = Writer::default();
    let cache = writer.as_reader();
    let (watched, seen) = (api.clone(), Arc::clone(&revisions));
    let events = revisions.renewed(move || watcher(watched.clone(), watcher::Config::default()));
    let (lists, mut listed) = watch::channel(0);
    tokio::spawn(async move {
        let mut events = std::pin::pin!(events.reflect(writer));
        while let Some(event) = events.next().await {
            match event.unwrap() {
                watcher::Event::InitApply(object) | watcher::Event::Apply(object) => seen.saw(object.resource_version().as_deref()),
                watcher::Event::InitDone => lists.send_modify(|times| *times += 1),
                watcher::Event::Init | watcher::Event::Delete(_) => {}
            }
        }
    });
    listed.wait_for(|times| *times == 1).await.unwrap();
    assert_eq!(cache.len(), 2);

    revisions.look(&api).await;
    assert_eq!(*listed.borrow(), 1, "the same revision: nothing begins anew");
    *etcd.lock().unwrap() = (60, vec!["kept"]);
    revisions.look(&api).await;
    listed.wait_for(|times| *times == 2).await.unwrap();
    let left: Vec<String> = cache.state().iter().map(|session| session.name_any()).collect();
    assert_eq!(left, ["kept"]);

    *etcd.lock().unwrap() = (61, vec!["kept"]);
    revisions.look(&api).await;
    assert!(!revisions.rollbacks.subscribe().has_changed().unwrap() && *listed.borrow() == 2, "from there on it grows again");
}

#[test]
fn what_a_watch_saw_counts_and_what_came_meanwhile_does_not() {
    let revisions = Revisions::default();
    let mut rollbacks = revisions.rollbacks.subscribe();
    revisions.saw(Some("90"));
    revisions.saw(None);
    revisions.saw(Some("not-a-number"));
    // Asked for before the watch told of 90.
    revisions.compare(80, 85);
    assert!(!rollbacks.has_changed().unwrap() && *revisions.lock() == 90);
    revisions.compare(90, 89);
    assert!(rollbacks.has_changed().unwrap() && *revisions.lock() == 89);
    rollbacks.mark_unchanged();
    revisions.compare(89, 89);
    assert!(!rollbacks.has_changed().unwrap());
}
