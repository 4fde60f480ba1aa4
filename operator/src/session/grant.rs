//! What a session needs in a pod that has nothing: credentials of its storage, and a certificate for what it asks. The pod is sent them once the session is
//! placed on it, and again before they end; what it says itself decides nothing. This is on the way of the session's wake.

use std::{sync::Arc, time::Duration};

use dormouse_control::session::Key;
use dormouse_crds::{
    labels::{GRANTED, MANAGER, POOL},
    pool::{Isolation, KernelPool},
    session::{KernelSession, Placement},
};
use dormouse_protocol::kernel::{Grant, GrantedCertificate, GrantedStorage, KERNEL_PORT, RetireCall};
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
use serde::Serialize;
use serde_json::json;

use crate::{
    ca::wait_until,
    context::Context,
    credentials::{self, Reach},
    error::ReconcileError,
    grants::{Given, Observed, Step},
    leaf::names_of_session,
    pods::{address_of, container, is_dedicated, is_over},
    storage,
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
    /// The container had another session.
    #[error("its container was given to another session")]
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

/// Where a process is whose container is noted as a session's.
struct Noted {
    ip: String,
    container: String,
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
        Ok(Err(stop @ (Stop::Wait | Stop::Refused))) => {
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
        let known = self.known_pod().await;
        if !self.may_be_vacant(known.as_deref()).await {
            return Ok(None);
        }
        let (context, placement) = (self.context, self.placement);
        // Read first: of what changes meanwhile the next look is told.
        let (authority, now) = (context.authority.fingerprint(), Timestamp::now());
        let container = known.as_deref().and_then(container);
        if let Some(due) = context.grants.due(&placement.pod_uid, (&self.uid, &placement.boot), container, &authority, now) {
            return Ok(Some(due));
        }
        let missing = || ReconcileError::Pod(format!("there is no KernelPool {} that can be read", self.session.spec.pool));
        let pool = self.pool().await.ok_or_else(missing)?;
        // At the same time: somebody waits. Where the pod is refused, nobody waits for the other.
        let (noted, (storage, storage_due)) = tokio::try_join!(self.note(), self.storage(&pool))?;
        let names = names_of_session(&*pool, &placement.pod, &self.uid);
        let (certificate, certificate_due) = context.authority.issue_client(&names).map_err(ReconcileError::from)?;
        let (uid, boot) = (self.uid.clone(), placement.boot.clone());
        let grant = Grant { uid: uid.clone(), boot: boot.clone(), storage: granted(storage), certificate: certified(certificate) };
        self.hand_over(&noted.ip, &grant).await?;
        let due = storage_due.min(certificate_due);
        let of = Key::new(self.namespace.clone(), self.session.name_any());
        let given = Given { session: uid, boot, authority, container: noted.container, at: Timestamp::now(), due, of };
        context.grants.given(&placement.pod_uid, given);
        context.metrics.grants.inc();
        tracing::debug!(namespace = self.namespace, name = self.session.name_any(), pod = placement.pod, %due, "a pod has what its session needs");
        Ok(Some(due))
    }

    /// The pod, as the watch has told of it.
    async fn known_pod(&self) -> Option<Arc<Pod>> {
        let pods = &self.context.caches.pods;
        // An error means that this process ends.
        let _ = pods.wait_until_ready().await;
        let pod = pods.get(&ObjectRef::new(&self.placement.pod).within(&self.namespace));
        pod.filter(|pod| pod.metadata.uid.as_ref() == Some(&self.placement.pod_uid))
    }

    /// Whether its process may be one that has nothing by itself. A pod knows what it is; its pool may be something else by now.
    async fn may_be_vacant(&self, known: Option<&Pod>) -> bool {
        match known {
            Some(pod) => is_dedicated(pod),
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

    /// Notes in the pod that its container is this session's, which is read afresh for that.
    async fn note(&self) -> Result<Noted, Stop> {
        let (context, placement) = (self.context, self.placement);
        let api: Api<Pod> = Api::namespaced(context.client.clone(), &self.namespace);
        for _ in 0..NOTES_MAX {
            let pod = api.get_opt(&placement.pod).await?.filter(|pod| self.is_its_pod(pod)).ok_or(Stop::Gone)?;
            let ip = pod.status.as_ref().and_then(|status| status.pod_ip.clone()).filter(|ip| !ip.is_empty()).ok_or(Stop::Wait)?;
            let container = container(&pod).ok_or(Stop::Wait)?.id.to_owned();
            let observed = Observed {
                session: &self.uid,
                annotation: pod.annotations().get(GRANTED).map(String::as_str),
                container: &container,
                of_another: context.grants.is_of_another(&placement.pod_uid, &container, &placement.boot),
                refused_since: context.grants.refused_since(&placement.pod_uid, &placement.boot),
                now: Timestamp::now(),
            };
            let note = match observed.step() {
                Step::Give => return Ok(Noted { ip, container }),
                step @ (Step::Refuse | Step::Retire) => {
                    context.grants.refuse(&placement.pod_uid, &placement.boot, observed.now);
                    if step == Step::Retire {
                        self.retire(&ip).await;
                    }
                    return Err(Stop::Refused);
                }
                Step::Note(note) => note,
            };
            let patch = json!({ "metadata": { "resourceVersion": pod.resource_version(), "annotations": { GRANTED: note } } });
            let params = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
            match api.patch_metadata(&placement.pod, &params, &Patch::Merge(&patch)).await {
                Ok(_) => return Ok(Noted { ip, container }),
                Err(kube::Error::Api(answer)) if answer.is_not_found() => return Err(Stop::Gone),
                // What was read is not so any more: the container may be another one.
                Err(kube::Error::Api(answer)) if answer.is_conflict() => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(ReconcileError::Pod(format!("pod {} changes all the time", placement.pod)).into())
    }

    /// Credentials that reach what is stored of this session, and when others are due.
    async fn storage(&self, pool: &KernelPool) -> Result<(Credentials, Timestamp), Stop> {
        let own = &self.context.config.storage;
        let target = storage::former_target(pool, own);
        let target = target.ok_or_else(|| ReconcileError::Pod(format!("KernelPool {} has no storage", pool.name_any())))?;
        let source = self.source();
        let rights =
            Rights::Session { pool: &self.session.spec.pool, uid: &self.uid, source: source.as_deref(), boot: &self.placement.boot };
        let reach = Reach { namespace: &self.namespace, rights, target: &target };
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
        let answer = self.ask(ip, "/v1/grant", grant).await.map_err(|error| ReconcileError::Pod(error.to_string()))?;
        match answer {
            status if status.is_success() => Ok(()),
            StatusCode::GONE => Err(Stop::Gone),
            status => Err(ReconcileError::Pod(format!("{status} to what its session needs")).into()),
        }
    }

    /// Has a process end whose container was another session's.
    async fn retire(&self, ip: &str) {
        let (namespace, name, pod) = (&self.namespace, self.session.name_any(), &self.placement.pod);
        match self.ask(ip, "/v1/retire", &RetireCall { boot: self.placement.boot.clone() }).await {
            // It has ended by itself.
            Ok(StatusCode::GONE) => {}
            Ok(status) => {
                if self.context.grants.retire(&self.placement.pod_uid, &self.placement.boot) {
                    self.context.metrics.grants_refused.inc();
                    tracing::warn!(namespace, name, pod, %status, "a session was placed in a container that has had another: that is told to end");
                }
            }
            Err(error) => tracing::warn!(namespace, name, pod, %error, "a container that has had another session cannot be told to end"),
        }
    }

    async fn ask(&self, ip: &str, path: &str, body: &(impl Serialize + Sync)) -> Result<StatusCode, reqwest::Error> {
        let peer = Identity::kernel(&self.namespace, &self.session.spec.pool, &self.placement.pod);
        let request = self.context.peer_client().request(Method::POST, &peer, &address_of(ip, KERNEL_PORT), path);
        Ok(request.timeout(ANSWER_TIMEOUT).json(body).send().await?.status())
    }
}

fn granted(credentials: Credentials) -> GrantedStorage {
    let Credentials { access_key_id, secret_access_key, session_token, expiration } = credentials;
    GrantedStorage { access_key_id, secret_access_key, session_token, expiration }
}

fn certified(pem: CertPem) -> GrantedCertificate {
    GrantedCertificate { ca: pem.ca, cert: pem.cert, key: pem.key }
}
