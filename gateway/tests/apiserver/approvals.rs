//! Calls that wait for a person, as objects that kubectl lists and decides.

use std::sync::{Arc, Mutex};

use dormouse_gateway::{
    Directory,
    directory::{Key, kubernetes::KubernetesDirectory},
    objects::{ApprovalObjects, Approvals},
};
use dormouse_protocol::{
    ApiError, ErrorCode,
    approval::{Approval, ApprovalList, Decide, Decided, Verdict},
};
use dormouse_testkit::{apiserver::ApiServer, wait::eventually};
use dormouse_watch::WatchScope;

use super::new;

/// A session with calls that wait, and what was decided about them.
#[derive(Default)]
struct Waiting {
    calls: Mutex<Vec<Approval>>,
    decided: Mutex<Vec<(String, Verdict, String)>>,
    /// What was made of the arguments.
    changed: Mutex<Vec<(String, serde_json::Value)>>,
}

#[async_trait::async_trait]
impl Approvals for Waiting {
    async fn waiting(&self, _: &Key) -> Result<ApprovalList, ApiError> {
        Ok(ApprovalList { items: self.calls.lock().unwrap().clone(), truncated: false })
    }

    async fn decide(&self, _: &Key, id: &str, body: Decide, _: &str, decision: String) -> Result<Decided, ApiError> {
        assert_eq!(body.epoch, Some(3), "the object's");
        let mut decided = self.decided.lock().unwrap();
        if !decided.iter().any(|(_, _, known)| *known == decision) {
            decided.push((id.to_owned(), body.decision, decision));
            self.changed.lock().unwrap().extend(body.arguments.map(|arguments| (id.to_owned(), arguments)));
        }
        match id {
            "a_8" => Err(ApiError::new(ErrorCode::ApprovalUsed, "somebody was first")),
            _ => Ok(Decided { id: id.to_owned(), decision: body.decision, told: true }),
        }
    }
}

fn approval(call: u64) -> Approval {
    Approval {
        id: format!("a_{call}"),
        session: "asks".into(),
        tool_name: "pay".into(),
        args: serde_json::json!({ "to": "a", "amount": [1, { "of": 2 }] }),
        call_id: call.to_string(),
        epoch: 3,
        created_at: "2030-01-01T00:00:00Z".into(),
        expires_at: "2030-01-08T00:00:00Z".into(),
        editable: false,
        state: Default::default(),
    }
}

pub(super) async fn kubectl_lists_and_decides_calls_that_wait(
    server: &ApiServer,
    client: kube::Client,
    directory: &Arc<KubernetesDirectory>,
) {
    let (key, waiting) = (Key::new("team", "asks"), Arc::new(Waiting::default()));
    directory.create(new(&key)).await.unwrap();
    let say = |pending: u32, sequence: u32| {
        let snapshot = format!(r#"{{"epoch":1,"sequence":{sequence},"bytes":1,"engineDigest":"d","time":"2030-01-01T00:00:00Z"}}"#);
        let status = format!(r#"{{"status":{{"pendingApprovals":{pending},"snapshot":{snapshot}}}}}"#);
        server.kubectl(&["patch", "kernelsession", "-n", "team", "asks", "--subresource=status", "--type=merge", "-p", &status]).unwrap();
    };
    let objects = || {
        ApprovalObjects::new(
            client.clone(),
            WatchScope::default(),
            Arc::clone(directory) as Arc<dyn Directory>,
            Arc::clone(&waiting) as Arc<dyn Approvals>,
        )
    };
    // Two gateways.
    let running = [tokio::spawn(objects().run()), tokio::spawn(objects().run())];
    *waiting.calls.lock().unwrap() = vec![approval(7), approval(8), Approval { editable: true, ..approval(9) }];
    say(3, 1);
    let shown = || server.kubectl(&["get", "ta", "-n", "team", "--no-headers"]).unwrap_or_default();
    eventually("the calls are shown", async || shown().lines().filter(|line| line.contains("asks") && line.contains("pay")).count() == 3)
        .await;
    let args = server.kubectl(&["get", "ta", "-n", "team", "asks.a-7", "-o", "jsonpath={.spec.args.amount[1].of}"]).unwrap();
    assert_eq!(args, "2", "as the call has them");
    let epoch = server.kubectl(&["get", "ta", "-n", "team", "asks.a-7", "-o", "jsonpath={.spec.epoch}"]).unwrap();
    assert_eq!(epoch, "3", "the one in which it was made");

    let patch = |name: &str, spec: &str| {
        server.kubectl(&["patch", "ta", "-n", "team", name, "--type=merge", "-p", &format!(r#"{{"spec":{spec}}}"#)])
    };
    for wrong in [r#"{"toolName":"other"}"#, r#"{"epoch":4}"#, r#"{"arguments":{"to":"b"}}"#, r#"{"decision":"perhaps"}"#] {
        assert!(patch("asks.a-7", wrong).is_err(), "{wrong}");
    }
    patch("asks.a-7", r#"{"decision":"approve"}"#).unwrap();
    patch("asks.a-8", r#"{"decision":"deny","reason":"no"}"#).unwrap();
    let edited = r#"{"decision":"approve","arguments":{"to":"b","amount":[2]}}"#;
    patch("asks.a-9", edited).unwrap();
    let state = |name: &str| {
        server.kubectl(&["get", "ta", "-n", "team", name, "-o", "jsonpath={.status.state} {.status.message}"]).unwrap_or_default()
    };
    let told =
        async || ["asks.a-7", "asks.a-9"].iter().all(|it| state(it).starts_with("Decided")) && state("asks.a-8").starts_with("Refused");
    eventually("what came of it is told", told).await;
    assert!(state("asks.a-8").contains("somebody was first"));
    let mut decided: Vec<(String, Verdict)> =
        waiting.decided.lock().unwrap().iter().map(|(id, verdict, _)| (id.clone(), *verdict)).collect();
    decided.sort_by(|one, other| one.0.cmp(&other.0));
    let each = [("a_7", Verdict::Approve), ("a_8", Verdict::Deny), ("a_9", Verdict::Approve)].map(|(id, verdict)| (id.to_owned(), verdict));
    assert_eq!(decided, each, "each once, by whichever gateway");
    assert_eq!(*waiting.changed.lock().unwrap(), [("a_9".to_owned(), serde_json::json!({ "to": "b", "amount": [2] }))]);
    assert!(patch("asks.a-7", r#"{"decision":"deny"}"#).is_err(), "the first decision stands");

    waiting.calls.lock().unwrap().clear();
    say(0, 2);
    eventually("what does not wait is not shown", async || !shown().contains("asks")).await;
    running.iter().for_each(tokio::task::JoinHandle::abort);
}
