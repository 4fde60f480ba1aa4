//! KernelQuotas as a watch has them, and how their status is written.

use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError, RwLock},
};

use dormouse_control::quota::Limit;
use dormouse_crds::quota::{KernelQuota, KernelQuotaSpec, KernelQuotaStatus};
use futures::StreamExt as _;
use kube::{
    Api, Client, ResourceExt as _,
    api::{Patch, PatchParams},
    core::error_boundary::DeserializeGuard,
    runtime::watcher,
};

use super::{
    Change, DirectoryError, Key, Quota,
    kubernetes::{API_TIMEOUT, FIELD_MANAGER, Shared, failure},
    watches::went_back,
};

/// The quotas of all namespaces; `None` before the first list of them.
#[derive(Default)]
pub(super) struct Quotas(RwLock<Option<BTreeMap<Key, Arc<Quota>>>>);

impl Quotas {
    /// The quotas of a namespace, or all.
    pub(super) fn of(&self, namespace: Option<&str>) -> Vec<Arc<Quota>> {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let Some(known) = &*known else { return Vec::new() };
        let Some(namespace) = namespace else { return known.values().cloned().collect() };
        let of_namespace = known.range(Key::new(namespace, "")..).take_while(|(key, _)| key.namespace == namespace);
        of_namespace.map(|(_, quota)| Arc::clone(quota)).collect()
    }

    /// What they allow together.
    pub(super) fn limits(&self, namespace: &str) -> KernelQuotaSpec {
        self.of(Some(namespace)).iter().map(|quota| quota.limits).fold(KernelQuotaSpec::default(), KernelQuotaSpec::least)
    }

    /// Whether a full list has come: before that nothing is limited.
    pub(super) fn is_synced(&self) -> bool {
        self.0.read().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    fn replace(&self, listed: BTreeMap<Key, Arc<Quota>>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some(listed);
    }

    fn change(&self, change: impl FnOnce(&mut BTreeMap<Key, Arc<Quota>>)) {
        change(self.0.write().unwrap_or_else(PoisonError::into_inner).get_or_insert_default());
    }
}

pub(super) async fn watch(apis: Vec<Api<DeserializeGuard<KernelQuota>>>, shared: Arc<Shared>) {
    let mut rollbacks = shared.sessions.rollbacks();
    loop {
        tokio::select! {
            () = follow(apis.clone(), &shared) => return,
            () = went_back(&mut rollbacks) => {}
        }
    }
}

async fn follow(apis: Vec<Api<DeserializeGuard<KernelQuota>>>, shared: &Shared) {
    let mut events = std::pin::pin!(dormouse_watch::watch(apis, watcher::Config::default()));
    let mut listed: BTreeMap<Key, Arc<Quota>> = BTreeMap::new();
    let changed = |key: Key| shared.sessions.notify(Change::Quotas(Some(key.namespace)));
    while let Some(event) = events.next().await {
        match event {
            Ok(watcher::Event::Init) => listed.clear(),
            Ok(watcher::Event::InitApply(object)) => listed.extend(readable(object)),
            Ok(watcher::Event::InitDone) => {
                shared.quotas.replace(std::mem::take(&mut listed));
                shared.sessions.notify(Change::Quotas(None));
            }
            Ok(watcher::Event::Apply(object)) => {
                if let Some((key, quota)) = readable(object) {
                    shared.quotas.change(|known| drop(known.insert(key.clone(), quota)));
                    changed(key);
                }
            }
            Ok(watcher::Event::Delete(object)) => {
                let key = Key::new(object.namespace().unwrap_or_default(), object.name_any());
                shared.quotas.change(|known| drop(known.remove(&key)));
                changed(key);
            }
            Err(error) => tracing::warn!(error = %crate::chain::chain(&error), "the watch of quotas failed; it goes on"),
        }
    }
}

/// One that cannot be read limits nothing, and must not hide the others.
fn readable(object: DeserializeGuard<KernelQuota>) -> Option<(Key, Arc<Quota>)> {
    match object.0 {
        Ok(quota) => {
            let key = Key::new(quota.namespace().unwrap_or_default(), quota.name_any());
            let meta = quota.metadata;
            let quota = Quota {
                key: key.clone(),
                object_uid: meta.uid.unwrap_or_default(),
                resource_version: meta.resource_version.unwrap_or_default(),
                generation: meta.generation,
                limits: quota.spec,
                status: quota.status.unwrap_or_default(),
            };
            Some((key, Arc::new(quota)))
        }
        Err(error) => {
            tracing::error!(error = %error.error, "a KernelQuota cannot be read; it limits nothing");
            None
        }
    }
}

/// Writes the status of a quota that is still what was seen.
pub(super) async fn write(client: &Client, seen: &Quota, status: &KernelQuotaStatus) -> Result<(), DirectoryError> {
    let api: Api<KernelQuota> = Api::namespaced(client.clone(), &seen.key.namespace);
    let patch = Patch::Merge(patch(seen, status));
    let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
    let written = tokio::time::timeout(API_TIMEOUT, api.patch_status(&seen.key.name, &params, &patch)).await;
    written.map_err(DirectoryError::unavailable)?.map_err(failure).map(drop)
}

fn patch(seen: &Quota, status: &KernelQuotaStatus) -> serde_json::Value {
    let mut patch = serde_json::json!({
        "metadata": { "resourceVersion": seen.resource_version, "uid": seen.object_uid },
        "status": status,
    });
    // What is not limited any more would stay otherwise.
    patch["status"]["used"] = match &status.used {
        Some(used) => Limit::ALL.into_iter().map(|limit| (limit.name(), limit.of(used))).collect(),
        None => serde_json::Value::Null,
    };
    patch
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_limited_any_more_leaves_the_status() {
        let limits = KernelQuotaSpec { sessions: Some(2), ..KernelQuotaSpec::default() };
        let used = KernelQuotaSpec { sessions: Some(1), stored_bytes: Some(9), ..KernelQuotaSpec::default() };
        let before = KernelQuotaStatus { used: Some(used), ..KernelQuotaStatus::default() };
        let seen = Quota {
            key: Key::new("team", "q"),
            object_uid: "u".to_owned(),
            resource_version: "7".to_owned(),
            generation: Some(2),
            limits,
            status: before.clone(),
        };
        let after = KernelQuotaStatus { used: Some(used.only(&limits)), ..KernelQuotaStatus::default() };
        let mut written = serde_json::json!({ "status": before });
        crate::directory::merge_patch(&mut written, &patch(&seen, &after));
        assert_eq!(written["status"]["used"], serde_json::json!({ "sessions": 1 }));
        assert_eq!((&written["metadata"]["resourceVersion"], &written["metadata"]["uid"]), (&"7".into(), &"u".into()));
        crate::directory::merge_patch(&mut written, &patch(&seen, &KernelQuotaStatus::default()));
        assert_eq!(written["status"].get("used"), None);
    }
}
