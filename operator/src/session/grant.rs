//! What a session needs in a pod that has nothing: credentials of its storage, and a certificate for what it asks. The pod is sent them once the session is
//! placed on it, and again before they end; what it says itself decides nothing. This is on the way of the session's wake.
//!
//! A pod that was given to a session is that one's for its life, which ends with its process (`pool::spent`).

use std::{sync::Arc, time::Duration};

use dormouse_control::{pool::granted::GrantedTo, session::Key};
use dormouse_crds::{
    labels::{GRANTED, MANAGER, POOL},
    pool::{Isolation, KernelPool},
    session::{KernelSession, Placement},
};
use dormouse_protocol::kernel::{Grant, GrantedCertificate, GrantedStorage, KERNEL_PORT};
use dormouse_service::{ca::CertPem, tls::Identity};
use dormouse_store::{Credentials, rights::Rights};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, ResourceExt as _,
    api::{Patch, PatchParams},
    runtime::reflector::ObjectRef,
};
use reqwest::{Method, StatusCode};
use serde_json::json;

use crate::{
    ca::wait_until,
    context::Context,
    credentials::{self, Reach},
    error::ReconcileError,
    grants::Given,
    leaf::names_of_session,
    pods::{address_of, container, granted_to, is_dedicated, is_over, is_reader_of, is_ready},
    storage::{self, Target},
};

/// How long it may take from the first question to the pod's answer. It holds one of the namespace's turns meanwhile.
const GRANT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the pod may take to take it.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(3);
/// How soon it is tried again where something is in the way.
const AGAIN: Duration = Duration::from_secs(1);
/// Attempts to note in a pod whose it is, while others write it.
const NOTES_MAX: u32 = 5;
/// How often a session is looked at whose grant is due much later.
const LOOK_MAX: Duration = Duration::from_secs(3_600);

/// Why a pod was given nothing.
#[derive(Debug, thiserror::Error)]
enum Stop {
    /// There is no such process any more, or it needs nothing: what is placed there learns of it in another way.
    #[error("the process is gone")]
    Gone,
    /// The kubelet has not told of the container yet.
    #[error("the kubelet has not told yet in which container it runs")]
    Wait,
    /// Nobody knows yet whether the store keeps its promises.
    #[error("the reader of its pool has not probed the store yet")]
    Unprobed,
    /// It is another session's.
    #[error("it was given to another session")]
    Refused,
    /// There is nothing to give, or nobody to ask.
    #[error(transparent)]
    Failed(#[from] ReconcileError),
}

impl From<kube::Error> for Stop {
    fn from(error: kube::Error) -> Self {
        Self::Failed(error.into())
    }
}

/// A session that is placed.
struct Placed<'a> {
    session: &'a KernelSession,
    namespace: String,
    uid: String,
    placement: &'a Placement,
    context: &'a Context,
}

/// Makes sure that the process of a session has what it needs, if it is one that has nothing by itself. The answer is when to look again for that. What goes
/// wrong is in the log, and tried again.
pub(super) async fn ensure(session: &KernelSession, context: &Context) -> Option<Duration> {
    let placement = session.status.as_ref()?.placement.as_ref()?;
    let (namespace, uid) = (session.namespace().unwrap_or_default(), session.stored_uid());
    let placed = Placed { session, namespace, uid, placement, context };
    let name = session.name_any();
    match tokio::time::timeout(GRANT_TIMEOUT, placed.attempt()).await {
        Ok(Ok(due)) => Some(wait_until(due?, LOOK_MAX)),
        Ok(Err(Stop::Gone)) => None,
        Ok(Err(stop @ (Stop::Wait | Stop::Unprobed | Stop::Refused))) => {
            tracing::debug!(namespace = placed.namespace, name, pod = placement.pod, %stop, "a pod is not given a session yet");
            Some(AGAIN)
        }
        Ok(Err(Stop::Failed(error))) => {
            tracing::warn!(namespace = placed.namespace, name, pod = placement.pod, %error, "a pod is not given what its session needs");
            Some(AGAIN)
        }
        Err(_) => {
            tracing::warn!(namespace = placed.namespace, name, pod = placement.pod, "giving a pod what its session needs takes too long");
            Some(AGAIN)
        }
    }
}

impl Placed<'_> {
    /// Gives it, if it is due. The answer is when it will be; `None`: the pod is one that needs nothing.
    async fn attempt(&self) -> Result<Option<Timestamp>, Stop> {
        if !self.may_be_vacant().await {
            return Ok(None);
        }
        let (context, placement) = (self.context, self.placement);
        // Read first: of what changes meanwhile the next look is told.
        let (authority, now) = (context.authority.fingerprint(), Timestamp::now());
        if let Some(due) = context.grants.due(&placement.pod_uid, (&self.uid, &placement.boot), &authority, now) {
            return Ok(Some(due));
        }
        let missing = |what: &str| ReconcileError::Pod(format!("KernelPool {} {what}", self.session.spec.pool));
        let pool = self.pool().await.ok_or_else(|| missing("cannot be read"))?;
        let target = storage::former_target(&pool, &context.config.storage).ok_or_else(|| missing("has no storage"))?;
        if !self.is_probed(&pool, &target) {
            return Err(Stop::Unprobed);
        }
        // First: no pod is taken while there is nothing to give.
        let (storage, storage_due) = self.storage(&target).await?;
        let ip = self.note().await?;
        let names = names_of_session(&*pool, &placement.pod, &self.uid);
        let (certificate, certificate_due) = context.authority.issue_client(&names).map_err(ReconcileError::from)?;
        let (session, boot) = (self.uid.clone(), placement.boot.clone());
        let grant = Grant { uid: session.clone(), boot: boot.clone(), storage: granted(storage), certificate: certified(certificate) };
        self.hand_over(&ip, &grant).await?;
        let due = storage_due.min(certificate_due);
        let of = Key::new(self.namespace.clone(), self.session.name_any());
        context.grants.given(&placement.pod_uid, Given { session, boot, authority, due, of });
        context.metrics.grants.inc();
        tracing::debug!(namespace = self.namespace, name = self.session.name_any(), pod = placement.pod, %due, "a pod has what its session needs");
        Ok(Some(due))
    }

    /// Whether the store has passed the probe of the pool's reader: the pods that run sessions have no rights for one.
    fn is_probed(&self, pool: &KernelPool, target: &Target) -> bool {
        let place = format!("{}\n{}\n{}", target.endpoint, target.bucket, target.prefix);
        let of_pool = |pod: &Arc<Pod>| is_reader_of(pod, &self.namespace, &self.session.spec.pool) && is_ready(pod);
        let is_ready = || self.context.caches.pods.state().iter().any(of_pool);
        self.context.grants.is_probed(&pool.uid().unwrap_or_default(), &place, is_ready)
    }

    /// Whether its process may be one that has nothing by itself. A pod knows what it is; its pool may be something else by now.
    async fn may_be_vacant(&self) -> bool {
        let pods = &self.context.caches.pods;
        // An error means that this process ends.
        let _ = pods.wait_until_ready().await;
        let pod = pods.get(&ObjectRef::new(&self.placement.pod).within(&self.namespace));
        match pod.filter(|pod| pod.metadata.uid.as_ref() == Some(&self.placement.pod_uid)) {
            Some(pod) => is_dedicated(&pod),
            None => self.pool().await.is_some_and(|pool| pool.spec.isolation == Isolation::Dedicated),
        }
    }

    async fn pool(&self) -> Option<Arc<KernelPool>> {
        let pools = &self.context.caches.pools;
        let _ = pools.wait_until_ready().await;
        pools.get(&ObjectRef::new(&self.session.spec.pool).within(&self.namespace))
    }

    /// Whether this is a pod that the session may be in, and has nothing by itself.
    fn is_its_pod(&self, pod: &Pod) -> bool {
        let is_same = pod.metadata.uid.as_ref() == Some(&self.placement.pod_uid);
        is_same && !is_over(pod) && is_dedicated(pod) && pod.labels().get(POOL) == Some(&self.session.spec.pool)
    }

    /// Notes in the pod that it is this session's, and in which container its process runs. It is read afresh for that. Answers its address.
    async fn note(&self) -> Result<String, Stop> {
        let (context, placement) = (self.context, self.placement);
        let api: Api<Pod> = Api::namespaced(context.client.clone(), &self.namespace);
        for _ in 0..NOTES_MAX {
            let pod = api.get_opt(&placement.pod).await?.filter(|pod| self.is_its_pod(pod)).ok_or(Stop::Gone)?;
            let ip = pod.status.as_ref().and_then(|status| status.pod_ip.clone()).filter(|ip| !ip.is_empty()).ok_or(Stop::Wait)?;
            match granted_to(&pod) {
                Some(given) if given.session == self.uid => return Ok(ip),
                Some(_) => {
                    context.metrics.grants_refused.inc();
                    return Err(Stop::Refused);
                }
                None => {}
            }
            let note = GrantedTo { container: container(&pod).ok_or(Stop::Wait)?, session: &self.uid };
            let patch = json!({ "metadata": { "resourceVersion": pod.resource_version(), "annotations": { GRANTED: note.to_string() } } });
            let params = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
            match api.patch_metadata(&placement.pod, &params, &Patch::Merge(&patch)).await {
                Ok(_) => return Ok(ip),
                Err(kube::Error::Api(answer)) if answer.is_not_found() => return Err(Stop::Gone),
                // What was read is not so any more: it may be another session's.
                Err(kube::Error::Api(answer)) if answer.is_conflict() => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(ReconcileError::Pod(format!("pod {} changes all the time", placement.pod)).into())
    }

    /// Credentials that reach what is stored of this session, and when others are due.
    async fn storage(&self, target: &Target) -> Result<(Credentials, Timestamp), Stop> {
        let source = self.source();
        let rights =
            Rights::Session { pool: &self.session.spec.pool, uid: &self.uid, source: source.as_deref(), boot: &self.placement.boot };
        let reach = Reach { namespace: &self.namespace, rights, target };
        let minted = credentials::fresh(self.context, &reach).await.map_err(ReconcileError::from)?;
        Ok((minted.credentials, minted.due))
    }

    /// The session that it is forked from, by uid, while it has nothing stored of its own.
    fn source(&self) -> Option<String> {
        if self.session.status.as_ref().is_some_and(|status| status.snapshot.is_some()) {
            return None;
        }
        let source = ObjectRef::new(&self.session.spec.source.as_ref()?.session).within(&self.namespace);
        self.context.caches.sessions.get(&source).map(|source| source.stored_uid())
    }

    async fn hand_over(&self, ip: &str, grant: &Grant) -> Result<(), Stop> {
        let peer = Identity::kernel(&self.namespace, &self.session.spec.pool, &self.placement.pod);
        let request = self.context.peer_client().request(Method::POST, &peer, &address_of(ip, KERNEL_PORT), "/v1/grant");
        let answer = request.timeout(ANSWER_TIMEOUT).json(grant).send().await.map_err(|error| ReconcileError::Pod(error.to_string()))?;
        match answer.status() {
            status if status.is_success() => Ok(()),
            StatusCode::GONE => Err(Stop::Gone),
            status => Err(ReconcileError::Pod(format!("{status} to what its session needs")).into()),
        }
    }
}

fn granted(credentials: Credentials) -> GrantedStorage {
    let Credentials { access_key_id, secret_access_key, session_token, expiration } = credentials;
    GrantedStorage { access_key_id, secret_access_key, session_token, expiration }
}

fn certified(pem: CertPem) -> GrantedCertificate {
    GrantedCertificate { ca: pem.ca, cert: pem.cert, key: pem.key }
}
