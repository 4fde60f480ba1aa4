//! Calls that wait for a person, as objects that `kubectl` lists and decides.
//!
//! Every gateway does this for every session: names follow from the calls, so what two make is one object; a decision goes by the object's uid, so
//! what two carry out is one decision. An object is nothing that anybody relies on: the session and its page of calls are what counts.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use dormouse_crds::{
    approval::{ApprovalDecision, ApprovalState, ToolApproval, ToolApprovalSpec, ToolApprovalStatus},
    session::KernelSession,
};
use dormouse_protocol::{
    ApiError, ErrorCode,
    approval::{Approval, ApprovalList, Decide, Decided, Verdict},
};
use dormouse_watch::{WatchScope, watch};
use futures::StreamExt as _;
use kube::{
    Api, Client, Resource as _, ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions},
    core::error_boundary::DeserializeGuard,
    runtime::watcher,
};
use tokio::{sync::Notify, time::Instant};

use crate::{
    approvals,
    directory::{Directory, Key, Record, kubernetes::FIELD_MANAGER},
    router::Router,
};

/// How often it is looked what waits.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// Bytes of arguments that an object holds, as JSON.
const ARGS_BYTES_MAX: usize = 64 << 10;
/// Objects of one session.
const SESSION_OBJECTS_MAX: usize = 64;
/// Sessions that are looked at in one round; the others are in the next.
const SESSIONS_MAX: usize = 100;

/// What is asked of sessions.
#[async_trait]
pub trait Approvals: Send + Sync {
    /// The calls of a session that wait.
    ///
    /// # Errors
    /// They cannot be read now.
    async fn waiting(&self, key: &Key) -> Result<ApprovalList, ApiError>;

    /// Decides about one.
    ///
    /// # Errors
    /// It is refused, or cannot be decided now.
    async fn decide(&self, key: &Key, id: &str, body: Decide, by: &str, decision: String) -> Result<Decided, ApiError>;
}

#[async_trait]
impl Approvals for Router {
    async fn waiting(&self, key: &Key) -> Result<ApprovalList, ApiError> {
        approvals::list(self, key).await
    }

    async fn decide(&self, key: &Key, id: &str, body: Decide, by: &str, decision: String) -> Result<Decided, ApiError> {
        approvals::decide(self, key, id, body, by, decision).await
    }
}

/// Which state of a session was looked at.
type Seen = (String, Option<(u64, u64)>);

/// Keeps objects and decisions as they should be.
pub struct ApprovalObjects {
    client: Client,
    scope: WatchScope,
    directory: Arc<dyn Directory>,
    approvals: Arc<dyn Approvals>,
    changed: Arc<Notify>,
    /// The objects that there are, by namespace and name.
    objects: BTreeMap<Key, ToolApproval>,
    /// What was looked at of each session that has something waiting, or has objects.
    seen: BTreeMap<Key, Seen>,
}

impl ApprovalObjects {
    /// Objects of these namespaces.
    #[must_use]
    pub fn new(client: Client, scope: WatchScope, directory: Arc<dyn Directory>, approvals: Arc<dyn Approvals>) -> Self {
        Self { client, scope, directory, approvals, changed: Arc::default(), objects: BTreeMap::new(), seen: BTreeMap::new() }
    }

    /// Does so for ever.
    pub async fn run(mut self) {
        let mut watched = Box::pin(watch(self.scope.apis::<DeserializeGuard<ToolApproval>>(&self.client), watcher::Config::default()));
        let mut listed = BTreeMap::new();
        let mut look = Instant::now();
        loop {
            tokio::select! {
                biased;
                event = watched.next() => match event {
                    Some(Ok(watcher::Event::Init)) => listed = BTreeMap::new(),
                    Some(Ok(watcher::Event::InitApply(object))) => drop(object.0.ok().map(|object| listed.insert(key_of(&object), object))),
                    Some(Ok(watcher::Event::InitDone)) => self.objects = std::mem::take(&mut listed),
                    Some(Ok(watcher::Event::Apply(object))) => if let Ok(object) = object.0 {
                        self.carry_out(&object).await;
                        self.objects.insert(key_of(&object), object);
                    },
                    Some(Ok(watcher::Event::Delete(object))) => if let Ok(object) = object.0 {
                        self.objects.remove(&key_of(&object));
                    },
                    Some(Err(error)) => tracing::debug!(%error, "ToolApprovals cannot be watched now"),
                    None => return,
                },
                () = self.changed.notified() => {}
                () = tokio::time::sleep_until(look) => {
                    look = Instant::now() + LOOK_EVERY;
                    self.look().await;
                }
            }
        }
    }

    /// Brings the objects in line with what waits.
    async fn look(&mut self) {
        for object in self.objects.values().cloned().collect::<Vec<_>>() {
            self.carry_out(&object).await;
        }
        let with_objects: BTreeSet<Key> = self.objects.iter().map(|(key, object)| Key::new(&key.namespace, &object.spec.session)).collect();
        let records = self.directory.list(None);
        let waits = |record: &Arc<Record>| record.status.pending_approvals.is_some_and(|waiting| waiting > 0);
        let wanted: Vec<Arc<Record>> = records.into_iter().filter(|record| waits(record) || with_objects.contains(&record.key)).collect();
        let still: BTreeSet<&Key> = wanted.iter().map(|record| &record.key).collect();
        self.seen.retain(|key, _| still.contains(key));
        let news = |record: &&Arc<Record>| self.seen.get(&record.key) != Some(&state_of(record));
        let news: Vec<Arc<Record>> = wanted.iter().filter(news).take(SESSIONS_MAX).cloned().collect();
        for record in news {
            match self.bring_in_line(&record).await {
                Ok(()) => drop(self.seen.insert(record.key.clone(), state_of(&record))),
                Err(error) => tracing::info!(session = %record.key, %error, "the ToolApprovals of a session wait"),
            }
        }
    }

    async fn bring_in_line(&mut self, record: &Arc<Record>) -> Result<(), ObjectError> {
        let waiting = match self.approvals.waiting(&record.key).await {
            Err(error) if error.code == ErrorCode::SessionNotFound => ApprovalList::default(),
            waiting => waiting?,
        };
        let api: Api<ToolApproval> = Api::namespaced(self.client.clone(), &record.key.namespace);
        let mut names = BTreeSet::new();
        for approval in waiting.items.into_iter().take(SESSION_OBJECTS_MAX) {
            let object = object(record, &approval);
            let key = key_of(&object);
            names.insert(key.name.clone());
            if self.objects.get(&key).is_some_and(|there| there.spec.session_uid == record.uid) {
                continue;
            }
            match api.create(&PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() }, &object).await {
                Ok(made) => drop(self.objects.insert(key, made)),
                Err(kube::Error::Api(refused)) if refused.is_already_exists() => {}
                Err(error) => return Err(error.into()),
            }
        }
        let over: Vec<Key> = self
            .objects
            .iter()
            .filter(|(key, object)| key.namespace == record.key.namespace && object.spec.session == record.key.name)
            .filter(|(key, object)| !names.contains(&key.name) || object.spec.session_uid != record.uid)
            .map(|(key, _)| key.clone())
            .collect();
        for key in over {
            let Some(object) = self.objects.get(&key) else { continue };
            let exactly = Preconditions { uid: object.uid(), resource_version: None };
            match api.delete(&key.name, &DeleteParams { preconditions: Some(exactly), ..DeleteParams::default() }).await {
                Ok(_) => {}
                Err(kube::Error::Api(refused)) if refused.is_not_found() || refused.is_conflict() => {}
                Err(error) => return Err(error.into()),
            }
            self.objects.remove(&key);
        }
        Ok(())
    }

    /// Carries out what somebody has written, once.
    async fn carry_out(&self, object: &ToolApproval) {
        let (Some(decision), generation) = (object.spec.decision, object.metadata.generation) else { return };
        let done = object.status.as_ref().is_some_and(|status| status.state.is_some() && status.observed_generation == generation);
        if done || object.meta().deletion_timestamp.is_some() {
            return;
        }
        let (key, spec) = (key_of(object), &object.spec);
        let session = Key::new(&key.namespace, &spec.session);
        let body = Decide {
            decision: match decision {
                ApprovalDecision::Approve => Verdict::Approve,
                ApprovalDecision::Deny => Verdict::Deny,
            },
            reason: spec.reason.clone(),
            epoch: Some(spec.epoch),
            arguments: spec.arguments.clone(),
            idempotency_key: None,
        };
        let same = self.directory.get(&session).is_some_and(|record| record.uid == spec.session_uid);
        let by = format!("ToolApproval {}", key.name);
        let id = format!("object-{}", object.uid().unwrap_or_default());
        let decided = match same {
            true => self.approvals.decide(&session, &spec.approval_id, body, &by, id).await,
            false => Err(ApiError::new(ErrorCode::SessionNotFound, "the session is not there any more")),
        };
        let (state, message) = match decided {
            Ok(_) => (ApprovalState::Decided, None),
            Err(error) if error.retryable || error.code == ErrorCode::StorageUnavailable => {
                tracing::info!(object = %key, %error, "a decision waits");
                return;
            }
            Err(error) => (ApprovalState::Refused, Some(error.to_string())),
        };
        let status = ToolApprovalStatus { observed_generation: generation, state: Some(state), message };
        let api: Api<ToolApproval> = Api::namespaced(self.client.clone(), &key.namespace);
        let patch = serde_json::json!({ "status": status });
        if let Err(error) = api.patch_status(&key.name, &PatchParams::default(), &Patch::Merge(&patch)).await {
            tracing::info!(object = %key, %error, "what came of a decision is not told yet");
        }
    }
}

/// Why objects are not as they should be.
#[derive(Debug, thiserror::Error)]
enum ObjectError {
    /// The session cannot be asked.
    #[error(transparent)]
    Session(#[from] ApiError),
    /// The API server refuses, or cannot be reached.
    #[error(transparent)]
    Api(#[from] kube::Error),
}

fn key_of(object: &ToolApproval) -> Key {
    Key::new(object.namespace().unwrap_or_default(), object.name_any())
}

fn state_of(record: &Record) -> Seen {
    (record.uid.clone(), record.status.snapshot.as_ref().map(|snapshot| (snapshot.epoch, snapshot.sequence)))
}

/// The object of a call.
fn object(record: &Record, approval: &Approval) -> ToolApproval {
    let fits = serde_json::to_vec(&approval.args).is_ok_and(|args| args.len() <= ARGS_BYTES_MAX);
    let spec = ToolApprovalSpec {
        session: record.key.name.clone(),
        session_uid: record.uid.clone(),
        epoch: approval.epoch,
        approval_id: approval.id.clone(),
        tool_name: approval.tool_name.clone(),
        args: fits.then(|| approval.args.clone()),
        expires_at: approval.expires_at.clone(),
        editable: approval.editable,
        decision: None,
        reason: None,
        arguments: None,
    };
    // A label of a name cannot begin or end with anything but a letter or a digit, nor hold `_`.
    let mut object = ToolApproval::new(&format!("{}.a-{}", record.key.name, approval.call_id), spec);
    object.metadata.namespace = Some(record.key.namespace.clone());
    let owner = serde_json::json!({
        "apiVersion": KernelSession::api_version(&()), "kind": KernelSession::kind(&()), "name": record.key.name, "uid": record.object_uid,
    });
    object.metadata.owner_references = serde_json::from_value(owner).ok().map(|owner| vec![owner]);
    object
}
