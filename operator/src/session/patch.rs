//! The operator's part of a session's status, as a merge patch. For server-side apply the API server would keep a list of its fields, which is most of what a
//! session costs in memory there (docs/scale.md).

use dormouse_crds::{
    labels::MANAGER,
    session::{KernelSession, KernelSessionStatus},
};
use kube::{
    Api, Client, ResourceExt as _,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};

use crate::context::Context;

/// Fields that come and go. What is not there now is removed, whatever this process has seen of it.
const PASSING: [&str; 6] = ["heap", "nextWakeTime", "pendingApprovals", "pendingJobs", "pendingHostcalls", "mcpTools"];
/// Fields that others write: the gateway, and whoever brings a session back from the archive.
const OTHERS: [&str; 4] = ["placement", "lastEpoch", "wakeRequestedTime", "storedAs"];

/// Writes `status` to the object that `of` is: one of the same name but another uid is left alone.
///
/// # Errors
/// The API server refuses it or cannot be reached.
pub(super) async fn patch_status(client: &Client, of: &KernelSession, status: &KernelSessionStatus) -> Result<(), kube::Error> {
    let api: Api<KernelSession> = Api::namespaced(client.clone(), &of.namespace().unwrap_or_default());
    let body = json!({ "metadata": { "uid": of.uid() }, "status": patch(status) });
    let params = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
    match api.patch_status(&of.name_any(), &params, &Patch::Merge(&body)).await {
        Err(kube::Error::Api(answer)) if answer.is_not_found() => Ok(()),
        other => other.map(drop),
    }
}

/// Clears the placement that was read. A gateway that placed the session anew meanwhile wins: the write then conflicts.
///
/// # Errors
/// The API server refuses it or cannot be reached.
pub(super) async fn clear_placement(context: &Context, session: &KernelSession) -> Result<(), kube::Error> {
    let api: Api<KernelSession> = Api::namespaced(context.client.clone(), &session.namespace().unwrap_or_default());
    let body = json!({
        "metadata": { "resourceVersion": session.resource_version(), "uid": session.uid() },
        "status": { "placement": null },
    });
    let params = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
    match api.patch_status(&session.name_any(), &params, &Patch::Merge(&body)).await {
        Err(kube::Error::Api(answer)) if answer.is_not_found() => Ok(()),
        other => {
            other?;
            context.metrics.placements_cleared.inc();
            tracing::info!(namespace = session.namespace(), name = session.name_any(), "placement cleared: the process is gone");
            Ok(())
        }
    }
}

fn patch(status: &KernelSessionStatus) -> Value {
    let mut patch = json!(status);
    let Some(fields) = patch.as_object_mut() else { return patch };
    fields.retain(|name, _| !OTHERS.contains(&name.as_str()));
    for name in PASSING {
        fields.entry(name).or_insert(Value::Null);
    }
    if let Some(snapshot) = fields.get_mut("snapshot").and_then(Value::as_object_mut) {
        snapshot.entry("encrypted").or_insert(Value::Null);
    }
    patch
}

#[cfg(test)]
mod tests {
    use dormouse_crds::{
        condition::Condition,
        session::{Placement, SnapshotStatus, StoredAs},
    };

    use super::*;

    /// Fields that stay once they are there.
    const LASTING: [&str; 6] = ["observedGeneration", "conditions", "snapshot", "lastActiveTime", "cells", "toolCalls"];

    /// With every field there is: who adds one has to say here whether it comes and goes.
    fn whole() -> KernelSessionStatus {
        let text = || Some("x".to_owned());
        KernelSessionStatus {
            observed_generation: Some(1),
            conditions: vec![Condition {
                type_: "Ready".into(),
                status: "True".into(),
                reason: "Idle".into(),
                message: String::new(),
                last_transition_time: "t".into(),
                observed_generation: Some(1),
            }],
            placement: Some(Placement { pod: "p".into(), pod_uid: "u".into(), boot: "b".into(), epoch: 1 }),
            last_epoch: Some(1),
            wake_requested_time: text(),
            snapshot: Some(SnapshotStatus {
                epoch: 1,
                sequence: 2,
                bytes: 3,
                engine_digest: "d".into(),
                time: "t".into(),
                encrypted: true,
            }),
            stored_as: Some(StoredAs { uid: "u".into(), created_time: None, returned_time: "t".into() }),
            heap: text(),
            last_active_time: text(),
            next_wake_time: text(),
            cells: Some(1),
            tool_calls: Some(1),
            pending_approvals: Some(1),
            pending_jobs: Some(1),
            pending_hostcalls: Some(1),
            mcp_tools: Some(1),
        }
    }

    fn names(fields: &Value, which: impl Fn(&Value) -> bool) -> Vec<String> {
        let mut names: Vec<String> =
            fields.as_object().unwrap().iter().filter(|(_, value)| which(value)).map(|(name, _)| name.clone()).collect();
        names.sort();
        names
    }

    fn sorted(names: &[&str]) -> Vec<String> {
        let mut names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn what_is_gone_is_removed_and_what_others_write_is_left() {
        let whole = whole();
        let all = [&LASTING[..], &PASSING, &OTHERS].concat();
        assert_eq!(names(&json!(whole), |_| true), sorted(&all), "each field is one of these");
        let all = patch(&whole);
        assert_eq!(names(&all, |value| !value.is_null()), sorted(&[&LASTING[..], &PASSING].concat()));
        assert_eq!(all["snapshot"], json!(whole.snapshot));

        assert_eq!(names(&patch(&KernelSessionStatus::default()), Value::is_null), sorted(&PASSING));
        let clear = whole.snapshot.map(|snapshot| SnapshotStatus { encrypted: false, ..snapshot });
        let clear = patch(&KernelSessionStatus { snapshot: clear, ..KernelSessionStatus::default() });
        assert_eq!(clear["snapshot"]["encrypted"], Value::Null, "another commit may be in clear");
        assert_eq!(clear["snapshot"]["sequence"], 2);
    }
}
