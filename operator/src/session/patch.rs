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
    use dormouse_crds::session::{SnapshotStatus, StoredAs};

    use super::*;

    #[test]
    fn what_is_gone_is_removed_and_what_others_write_is_left() {
        let whole = json!({
            "observedGeneration": 1, "conditions": [{"type": "Ready", "status": "True", "reason": "Idle", "message": "", "lastTransitionTime": ""}],
            "placement": {"pod": "p", "podUID": "u", "boot": "b", "epoch": 1}, "lastEpoch": 1, "wakeRequestedTime": "w",
            "snapshot": {"epoch": 1, "sequence": 2, "bytes": 3, "engineDigest": "d", "time": "t", "encrypted": true},
            "storedAs": {"uid": "u", "returnedTime": "t"}, "heap": "1Mi", "lastActiveTime": "t", "nextWakeTime": "t", "cells": 1, "toolCalls": 1,
            "pendingApprovals": 1, "pendingJobs": 1, "pendingHostcalls": 1, "mcpTools": 1,
        });
        let status: KernelSessionStatus = serde_json::from_value(whole.clone()).unwrap();
        assert_eq!(json!(status), whole, "every field of a status is here");
        let ours = whole.as_object().unwrap().iter().filter(|(name, _)| !OTHERS.contains(&name.as_str()));
        assert_eq!(patch(&status), Value::Object(ours.map(|(name, value)| (name.clone(), value.clone())).collect()));

        let left = KernelSessionStatus {
            snapshot: Some(SnapshotStatus { encrypted: false, ..status.snapshot.clone().unwrap() }),
            stored_as: Some(StoredAs { uid: "u".into(), created_time: None, returned_time: "t".into() }),
            observed_generation: Some(2),
            ..KernelSessionStatus::default()
        };
        let patch = patch(&left);
        let gone: Vec<_> = patch.as_object().unwrap().iter().filter(|(_, value)| value.is_null()).map(|(name, _)| name.as_str()).collect();
        assert_eq!(gone, ["heap", "mcpTools", "nextWakeTime", "pendingApprovals", "pendingHostcalls", "pendingJobs"]);
        assert_eq!(patch["snapshot"]["encrypted"], Value::Null, "another commit may be in clear");
        assert_eq!(patch["snapshot"]["sequence"], 2);
    }
}
