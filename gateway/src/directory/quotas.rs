//! KernelQuotas as a watch has them, and what is written into their status.

use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError, RwLock},
};

use dormouse_crds::{
    condition::{Condition, EXCEEDED},
    quota::{KernelQuota, KernelQuotaSpec, KernelQuotaStatus},
};
use futures::StreamExt as _;
use jiff::{SignedDuration, Timestamp};
use kube::{
    Api, Client, ResourceExt as _,
    api::{Patch, PatchParams},
    core::error_boundary::DeserializeGuard,
    runtime::watcher,
};

use super::{
    DirectoryError, Key,
    kubernetes::{API_TIMEOUT, FIELD_MANAGER, Shared, failure},
    watches::went_back,
};

/// How long a status counts as new: gateways take turns in writing it.
const TOLD_INTERVAL: SignedDuration = SignedDuration::from_secs(55);

/// The quotas of all namespaces.
#[derive(Default)]
pub(super) struct Quotas(RwLock<BTreeMap<Key, Arc<KernelQuota>>>);

impl Quotas {
    /// The quotas of a namespace.
    pub(super) fn of(&self, namespace: &str) -> Vec<Arc<KernelQuota>> {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let of_namespace = known.range(Key::new(namespace, "")..).take_while(|(key, _)| key.namespace == namespace);
        of_namespace.map(|(_, quota)| Arc::clone(quota)).collect()
    }

    /// What they allow together.
    pub(super) fn limits(&self, namespace: &str) -> KernelQuotaSpec {
        self.of(namespace).iter().map(|quota| quota.spec).fold(KernelQuotaSpec::default(), KernelQuotaSpec::least)
    }

    fn change(&self, change: impl FnOnce(&mut BTreeMap<Key, Arc<KernelQuota>>)) {
        change(&mut self.0.write().unwrap_or_else(PoisonError::into_inner));
    }
}

pub(super) async fn watch(apis: Vec<Api<DeserializeGuard<KernelQuota>>>, shared: Arc<Shared>) {
    let mut rollbacks = shared.sessions.rollbacks();
    loop {
        tokio::select! {
            () = follow(apis.clone(), &shared.quotas) => return,
            () = went_back(&mut rollbacks) => {}
        }
    }
}

async fn follow(apis: Vec<Api<DeserializeGuard<KernelQuota>>>, quotas: &Quotas) {
    let mut events = std::pin::pin!(dormouse_watch::watch(apis, watcher::Config::default()));
    let mut listed: BTreeMap<Key, Arc<KernelQuota>> = BTreeMap::new();
    while let Some(event) = events.next().await {
        match event {
            Ok(watcher::Event::Init) => listed.clear(),
            Ok(watcher::Event::InitApply(object)) => listed.extend(readable(object)),
            Ok(watcher::Event::InitDone) => quotas.change(|known| *known = std::mem::take(&mut listed)),
            Ok(watcher::Event::Apply(object)) => {
                if let Some((key, quota)) = readable(object) {
                    quotas.change(|known| drop(known.insert(key, quota)));
                }
            }
            Ok(watcher::Event::Delete(object)) => {
                let key = Key::new(object.namespace().unwrap_or_default(), object.name_any());
                quotas.change(|known| drop(known.remove(&key)));
            }
            Err(error) => tracing::warn!(error = %crate::chain::chain(&error), "the watch of quotas failed; it goes on"),
        }
    }
}

/// One that cannot be read limits nothing, and must not hide the others.
fn readable(object: DeserializeGuard<KernelQuota>) -> Option<(Key, Arc<KernelQuota>)> {
    match object.0 {
        Ok(quota) => Some((Key::new(quota.namespace().unwrap_or_default(), quota.name_any()), Arc::new(quota))),
        Err(error) => {
            tracing::error!(error = %error.error, "a KernelQuota cannot be read; it limits nothing");
            None
        }
    }
}

/// Writes what is used of a quota, unless that is known, or was told a moment ago.
pub(super) async fn tell(
    client: &Client,
    quota: &KernelQuota,
    used: KernelQuotaSpec,
    exceeded: Option<&str>,
) -> Result<(), DirectoryError> {
    let now = Timestamp::now();
    let Some(status) = next_status(quota, used, exceeded, now) else { return Ok(()) };
    let api: Api<KernelQuota> = Api::namespaced(client.clone(), &quota.namespace().unwrap_or_default());
    // Another gateway may be telling the same: one of them wins.
    let patch = Patch::Merge(serde_json::json!({
        "metadata": { "resourceVersion": quota.metadata.resource_version, "uid": quota.metadata.uid },
        "status": status,
    }));
    let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
    let name = quota.name_any();
    let told = tokio::time::timeout(API_TIMEOUT, api.patch_status(&name, &params, &patch)).await;
    match told.map_err(DirectoryError::unavailable)?.map_err(failure) {
        Ok(_) | Err(DirectoryError::Conflict | DirectoryError::NotFound) => Ok(()),
        Err(error) => Err(error),
    }
}

fn next_status(quota: &KernelQuota, used: KernelQuotaSpec, exceeded: Option<&str>, now: Timestamp) -> Option<KernelQuotaStatus> {
    let old = quota.status.clone().unwrap_or_default();
    // Of cells a second nothing is told: they are counted and forgotten.
    let used = Some(used.only(&quota.spec)).filter(|used| *used != KernelQuotaSpec::default());
    let generation = quota.metadata.generation;
    let before = old.conditions.iter().find(|condition| condition.type_ == EXCEEDED);
    let truth = if exceeded.is_some() { "True" } else { "False" };
    let turned = before.is_none_or(|before| before.status != truth);
    let told = old.time.as_deref().and_then(|time| time.parse::<Timestamp>().ok());
    let recent = told.is_some_and(|told| now.duration_since(told) < TOLD_INTERVAL);
    let same = old.used == used && old.observed_generation == generation;
    if !turned && (same || recent) {
        return None;
    }
    let condition = Condition {
        type_: EXCEEDED.to_owned(),
        status: truth.to_owned(),
        reason: if exceeded.is_some() { "LimitReached" } else { "WithinLimits" }.to_owned(),
        message: exceeded.unwrap_or("nothing is used up").to_owned(),
        last_transition_time: before.filter(|_| !turned).map_or_else(|| now.to_string(), |before| before.last_transition_time.clone()),
        observed_generation: generation,
    };
    Some(KernelQuotaStatus { observed_generation: generation, conditions: vec![condition], used, time: Some(now.to_string()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_written_when_it_changes_and_at_most_once_a_minute_unless_a_limit_is_reached() {
        let mut quota = KernelQuota::new("q", KernelQuotaSpec { sessions: Some(2), ..KernelQuotaSpec::default() });
        let used = |sessions| KernelQuotaSpec { sessions: Some(sessions), live_heap_bytes: Some(9), ..KernelQuotaSpec::default() };
        let at = |seconds| Timestamp::from_second(seconds).unwrap();
        let first = next_status(&quota, used(1), None, at(0)).unwrap();
        assert_eq!(first.used, Some(KernelQuotaSpec { sessions: Some(1), ..KernelQuotaSpec::default() }), "only what is limited");
        quota.status = Some(first);
        assert_eq!(next_status(&quota, used(1), None, at(100)), None);
        assert_eq!(next_status(&quota, used(2), None, at(10)), None);
        let exceeded = next_status(&quota, used(2), Some("sessions: 2 of 2"), at(10)).unwrap();
        assert_eq!((exceeded.conditions[0].status.as_str(), exceeded.conditions[0].reason.as_str()), ("True", "LimitReached"));
        assert!(next_status(&quota, used(2), None, at(60)).is_some());
    }
}
