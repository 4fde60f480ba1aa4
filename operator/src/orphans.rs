//! What is stored of sessions that do not exist any more: looked for in every store, from time to time.
//!
//! A deletion leaves nothing, but a process that was cut off before its session's first commit can go on after the deletion has ended, and store
//! what nobody will ever read. Which uids are known is asked of the API server after the store was listed, and never of a watch cache.

use std::{collections::HashSet, sync::Arc, time::Duration};

use anyhow::Context as _;
use dormouse_crds::{broker::ToolBroker, pool::Storage, session::KernelSession};
use dormouse_erasure::orphans::{Known, OrphansError, Scope, Swept, sweep};
use dormouse_lifecycle::clusters::Left;
use dormouse_watch::WatchScope;
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, Client, ResourceExt as _,
    api::ListParams,
    core::{NamespaceResourceScope, PartialObjectMeta},
};
use tokio_util::sync::CancellationToken;

use crate::{
    config::StorageArgs,
    context::Context,
    storage::{self, StorageError},
};

/// The namespace whose uid names a cluster: every cluster has it, and it lies where the uids of sessions do.
const CLUSTER_NAMESPACE: &str = "kube-system";
/// Objects in one answer of the API server.
const OBJECTS_PAGE: u32 = 500;

/// Why a store was not swept to the end.
#[derive(Debug, thiserror::Error)]
enum SweepError {
    #[error(transparent)]
    Storage(#[from] StorageError),
    #[error(transparent)]
    Orphans(#[from] OrphansError),
}

/// The name under which this cluster stands in object stores.
///
/// # Errors
/// The API server does not tell: the ClusterRole of the chart allows it.
pub async fn cluster(client: Client) -> anyhow::Result<String> {
    let namespaces: Api<Namespace> = Api::all(client);
    let namespace = namespaces.get_metadata(CLUSTER_NAMESPACE).await;
    let namespace = namespace.context("the ClusterRole of the chart lets the operator get the namespace kube-system: is it up to date?")?;
    namespace.uid().context("the namespace kube-system has no uid")
}

/// Sweeps at the start, and again whenever the interval is over, until `shutdown`.
pub async fn run(context: Arc<Context>, shutdown: CancellationToken) {
    let seconds = context.config.orphan_sweep_interval_seconds;
    // An error means that the writer is gone, and with it this process.
    let _ = context.caches.pools.wait_until_ready().await;
    let mut said = HashSet::new();
    if seconds == 0 {
        return;
    }
    loop {
        if shutdown.run_until_cancelled(pass(&context, &mut said)).await.is_none() {
            return;
        }
        if shutdown.run_until_cancelled(tokio::time::sleep(Duration::from_secs(seconds))).await.is_none() {
            return;
        }
    }
}

/// One sweep of every store. A store that fails keeps no other from being swept.
async fn pass(context: &Context, said: &mut HashSet<String>) {
    let pools = context.caches.pools.state();
    let named = pools.iter().filter_map(|pool| Some((pool.namespace()?, pool.spec.storage.clone()?)));
    let mut left = 0;
    for visit in visits(named, &context.config.storage, &context.scope) {
        let outcome = match sweep_one(context, &visit).await {
            Ok(swept) => {
                context.metrics.orphans_erased.inc_by(swept.sessions);
                context.metrics.orphan_objects_erased.inc_by(swept.objects);
                left += swept.left.iter().map(|(_, _, sessions)| sessions).sum::<u64>();
                tell(&visit, &swept, said);
                "done"
            }
            Err(error) => {
                let Visit { namespace, bucket, .. } = &visit;
                tracing::warn!(%error, bucket, namespace, "what is stored of sessions that are gone stays for now");
                "failed"
            }
        };
        context.metrics.orphan_sweeps.with_label_values(&[outcome]).inc();
    }
    context.metrics.orphans_left.set(i64::try_from(left).unwrap_or(i64::MAX));
}

/// A store to sweep.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Visit {
    /// Whose part of it is swept; `None`: all tenants'.
    namespace: Option<String>,
    spec: Option<Storage>,
    bucket: String,
}

/// Each store once: the operator's own, and of every other that a pool names the tenant's part, which is what its credentials reach. Who looks after some
/// namespaces only knows the sessions of those, and sweeps no others.
fn visits(named: impl IntoIterator<Item = (String, Storage)>, own: &StorageArgs, scope: &WatchScope) -> Vec<Visit> {
    let own_target = storage::target(None, own).ok();
    let tenants = match scope.named() {
        None => vec![None],
        Some(namespaces) => namespaces.iter().filter(|namespace| scope.is_ours(namespace)).cloned().map(Some).collect(),
    };
    let mut visits = Vec::new();
    if let Some(target) = &own_target {
        visits.extend(tenants.into_iter().map(|namespace| Visit { namespace, spec: None, bucket: target.bucket.clone() }));
    }
    let mut seen = HashSet::new();
    for (namespace, spec) in named {
        let Ok(target) = storage::target(Some(&spec), own) else { continue };
        let covered = target.shared && own_target.is_some();
        if !covered && seen.insert((target.endpoint, target.bucket.clone(), target.prefix, namespace.clone())) {
            visits.push(Visit { namespace: Some(namespace), spec: Some(spec), bucket: target.bucket });
        }
    }
    visits
}

async fn sweep_one(context: &Context, visit: &Visit) -> Result<Swept, SweepError> {
    let own = &context.config.storage;
    let namespace = visit.namespace.as_deref();
    let opened = context.stores.open(&context.client, own, namespace.unwrap_or_default(), visit.spec.as_ref()).await?;
    let is_ours = |tenant: &str| context.scope.is_ours(tenant);
    let scope =
        Scope { store_prefix: &opened.prefix, tenant: namespace, is_ours: &is_ours, now_ms: jiff::Timestamp::now().as_millisecond() };
    let cluster = own.cluster.as_deref().unwrap_or_default();
    Ok(sweep(&*opened.store, scope, cluster, async || Ok(known(context, namespace).await?)).await?)
}

/// The sessions and ToolBrokers of a namespace, or all, those under deletion included, as etcd has them now: a list that names no resourceVersion is
/// a quorum read, and its pages are of one moment. Only metadata, so that an object which cannot be read counts, too. What is stored for a namespace
/// is of none but its own.
async fn known(context: &Context, namespace: Option<&str>) -> Result<Known, kube::Error> {
    let mut known = Known::default();
    each(context, namespace, |session: PartialObjectMeta<KernelSession>| known.sessions.extend(session.uid())).await?;
    each(context, namespace, |broker: PartialObjectMeta<ToolBroker>| {
        known.brokers.insert((broker.namespace().unwrap_or_default(), broker.name_any()));
    })
    .await?;
    Ok(known)
}

async fn each<K>(context: &Context, namespace: Option<&str>, mut take: impl FnMut(PartialObjectMeta<K>)) -> Result<(), kube::Error>
where
    K: kube::Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    let apis = match namespace {
        Some(namespace) => vec![Api::namespaced(context.client.clone(), namespace)],
        None => context.scope.apis::<K>(&context.client),
    };
    for api in apis {
        each_of(&api, &mut take).await?;
    }
    Ok(())
}

async fn each_of<K>(api: &Api<K>, mut take: impl FnMut(PartialObjectMeta<K>)) -> Result<(), kube::Error>
where
    K: Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    let mut params = ListParams::default().limit(OBJECTS_PAGE);
    loop {
        let page = api.list_metadata(&params).await?;
        page.items.into_iter().for_each(&mut take);
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(()),
        }
    }
}

fn tell(visit: &Visit, swept: &Swept, said: &mut HashSet<String>) {
    let bucket = &visit.bucket;
    if swept.sessions > 0 {
        tracing::info!(bucket, sessions = swept.sessions, objects = swept.objects, "removed what was stored of sessions that are gone");
    }
    if swept.leftovers > 0 {
        tracing::info!(bucket, objects = swept.leftovers, "removed what was kept for ToolBrokers that are gone, or for too long");
    }
    for (tenant, why, sessions) in &swept.left {
        let why = match why {
            Left::Shared => "other clusters store sessions there",
            Left::Unclaimed => "no cluster says there that it stores sessions",
            Left::Unaccounted => "they may be older than the first cluster that says there that it stores sessions",
        };
        if said.insert(format!("{:?} {bucket} {tenant} {why}", visit.spec)) {
            tracing::warn!(bucket, tenant, sessions, why, "sessions that this cluster does not know are stored, and left alone");
        }
    }
}

#[cfg(test)]
mod tests {
    use dormouse_crds::NameRef;

    use super::*;
    use crate::config::CredentialsSource;

    fn own() -> StorageArgs {
        StorageArgs {
            s3_endpoint: Some("http://minio:9000".to_owned()),
            s3_bucket: Some("dormouse".to_owned()),
            s3_region: "us-east-1".to_owned(),
            ..StorageArgs::default()
        }
    }

    fn storage(bucket: &str, secret: &str) -> Storage {
        Storage {
            bucket: bucket.to_owned(),
            endpoint: "http://minio:9000".to_owned(),
            region: "us-east-1".to_owned(),
            prefix: String::new(),
            credentials_secret_ref: Some(NameRef { name: secret.to_owned() }),
            web_identity: None,
        }
    }

    fn seen(named: &[(&str, Storage)], own: &StorageArgs) -> Vec<(Option<String>, String)> {
        let visits = visits(named.iter().map(|(namespace, spec)| ((*namespace).to_owned(), spec.clone())), own, &WatchScope::default());
        visits.into_iter().map(|visit| (visit.namespace, visit.bucket)).collect()
    }

    #[test]
    fn who_looks_after_some_namespaces_sweeps_theirs_only() {
        let visits = visits([], &own(), &WatchScope::of(["team", "other"]));
        let seen: Vec<_> = visits.into_iter().map(|visit| (visit.namespace, visit.bucket)).collect();
        let of = |namespace: &str| (Some(namespace.to_owned()), "dormouse".to_owned());
        assert_eq!(seen, [of("other"), of("team")]);
    }

    #[test]
    fn every_store_is_swept_once_and_a_tenants_own_in_its_part_only() {
        let named = [
            ("team", storage("theirs", "s3")),
            ("team", storage("theirs", "s3-again")),
            ("other", storage("theirs", "s3")),
            ("team", storage("dormouse", "s3")),
            ("team", Storage { credentials_secret_ref: None, ..storage("unusable", "") }),
        ];
        let team = |bucket: &str| (Some("team".to_owned()), bucket.to_owned());
        let theirs = [team("theirs"), (Some("other".to_owned()), "theirs".to_owned())];
        let all = [vec![(None, "dormouse".to_owned())], theirs.to_vec()].concat();
        assert_eq!(seen(&named, &own()), all);
        let fixed = StorageArgs { storage_credentials: CredentialsSource::Static, ..own() };
        assert_eq!(seen(&named, &fixed), [theirs.to_vec(), vec![team("dormouse")]].concat(), "the operator has no credentials of its own");
    }
}
