//! The watches that keep what [`super::kubernetes`] knows of sessions and kernel pods.

use std::{collections::BTreeMap, sync::Arc};

use dormouse_crds::{labels::COMPONENT, session::KernelSession};
use dormouse_watch::watch;
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, ResourceExt as _, api::ListParams, core::error_boundary::DeserializeGuard, runtime::watcher};
use tokio::sync::watch::Receiver;

use super::{
    KernelPod, Key, Record,
    cached::{REVISION_AGAIN, REVISION_POLL, version},
    kubernetes::{API_TIMEOUT, Shared, record},
    pods,
    specs::Specs,
};

/// Objects that a list asks for at once: they are in memory whole, however large somebody made them.
const LIST_PAGE_OBJECTS: u32 = 100;

/// Ends when the API server has gone back: its watches hear nothing more.
pub(crate) async fn went_back(rollbacks: &mut Receiver<u64>) {
    if rollbacks.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}

pub(super) async fn watch_sessions(apis: Vec<Api<DeserializeGuard<KernelSession>>>, shared: Arc<Shared>) {
    let mut rollbacks = shared.sessions.rollbacks();
    loop {
        tokio::select! {
            () = follow_sessions(apis.clone(), &shared) => return,
            () = went_back(&mut rollbacks) => shared.specs.forget_all(),
        }
    }
}

async fn follow_sessions(apis: Vec<Api<DeserializeGuard<KernelSession>>>, shared: &Shared) {
    let mut events = std::pin::pin!(watch(apis, watcher::Config::default().page_size(LIST_PAGE_OBJECTS)));
    let mut unlisted = BTreeMap::new();
    while let Some(event) = events.next().await {
        match event {
            Ok(watcher::Event::Init) => unlisted = shared.sessions.known(),
            Ok(watcher::Event::InitApply(object)) => {
                if let Some(record) = readable(object) {
                    shared.sessions.list(record, &mut unlisted);
                }
            }
            Ok(watcher::Event::InitDone) => shared.sessions.listed(std::mem::take(&mut unlisted)),
            Ok(watcher::Event::Apply(object)) => drop(readable(object).map(|record| shared.sessions.note(record))),
            Ok(watcher::Event::Delete(object)) => {
                let key = Key::new(object.namespace().unwrap_or_default(), object.name_any());
                saw(shared, object.resource_version());
                shared.sessions.forget(&key, object.uid().as_deref());
            }
            Err(error) => tracing::warn!(error = %crate::chain::chain(&error), "the watch of sessions failed; it goes on"),
        }
    }
}

pub(super) async fn watch_pods(apis: Vec<Api<Pod>>, shared: Arc<Shared>) {
    let mut rollbacks = shared.sessions.rollbacks();
    loop {
        tokio::select! {
            () = follow_pods(apis.clone(), &shared) => return,
            () = went_back(&mut rollbacks) => {}
        }
    }
}

async fn follow_pods(apis: Vec<Api<Pod>>, shared: &Shared) {
    let config = watcher::Config::default().labels(&format!("{COMPONENT}=kernel"));
    let mut events = std::pin::pin!(watch(apis, config));
    let mut listed: BTreeMap<Key, KernelPod> = BTreeMap::new();
    let key = |pod: &Pod| Key::new(pod.namespace().unwrap_or_default(), pod.name_any());
    while let Some(event) = events.next().await {
        if let Ok(watcher::Event::InitApply(pod) | watcher::Event::Apply(pod) | watcher::Event::Delete(pod)) = &event {
            saw(shared, pod.resource_version());
        }
        match event {
            Ok(watcher::Event::Init) => listed.clear(),
            Ok(watcher::Event::InitApply(pod)) => listed.extend(pods::read(&pod).map(|read| (key(&pod), read))),
            Ok(watcher::Event::InitDone) => {
                let listed = std::mem::take(&mut listed);
                shared.change_pods(|cache| (cache.pods, cache.synced) = (listed, true));
                shared.sessions.saw_list();
            }
            Ok(watcher::Event::Apply(pod)) => shared.change_pods(|cache| match pods::read(&pod) {
                Some(read) => drop(cache.pods.insert(key(&pod), read)),
                None => drop(cache.pods.remove(&key(&pod))),
            }),
            Ok(watcher::Event::Delete(pod)) => shared.change_pods(|cache| drop(cache.pods.remove(&key(&pod)))),
            Err(error) => tracing::warn!(error = %crate::chain::chain(&error), "the watch of kernel pods failed; it goes on"),
        }
    }
}

fn saw(shared: &Shared, resource_version: Option<String>) {
    // What is no number is `u128::MAX`, which nothing may be compared with.
    if let Some(revision) = resource_version.as_deref().map(version).filter(|revision| *revision != u128::MAX) {
        shared.sessions.saw(revision);
    }
}

/// A list of one object tells the revision, as etcd has it now.
pub(super) async fn watch_revision(apis: Vec<Api<KernelSession>>, shared: Arc<Shared>) {
    let Some(api) = apis.into_iter().next() else { return };
    let params = ListParams::default().limit(1);
    let mut lists = shared.sessions.lists();
    // The first may have come already.
    lists.mark_changed();
    let mut pause = REVISION_POLL;
    loop {
        // A full list, and the end of the pause, mean the same.
        let _ = tokio::time::timeout(pause, lists.changed()).await;
        let seen = shared.sessions.revision();
        pause = REVISION_AGAIN;
        match tokio::time::timeout(API_TIMEOUT, api.list_metadata(&params)).await {
            Ok(Ok(list)) => {
                let found = list.metadata.resource_version.as_deref().map_or(u128::MAX, version);
                if found != u128::MAX {
                    shared.sessions.compare_revision(seen, found);
                }
                pause = REVISION_POLL;
            }
            Ok(Err(error)) => tracing::debug!(%error, "the revision of the API server is not known"),
            Err(_) => tracing::debug!("the API server does not tell its revision in time"),
        }
    }
}

/// One object that cannot be read must not hide the others.
fn readable(object: DeserializeGuard<KernelSession>) -> Option<Record> {
    match object.0 {
        Ok(object) => record(object).map(Specs::cut),
        Err(error) => {
            let key = Key::new(error.metadata.namespace.unwrap_or_default(), error.metadata.name.unwrap_or_default());
            tracing::error!(session = %key, error = %error.error, "a KernelSession cannot be read; it is left out");
            None
        }
    }
}
