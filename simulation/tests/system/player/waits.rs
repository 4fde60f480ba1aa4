//! Cells that wait while their client does something else: runs, calls that a person decides about, and cells that somebody interrupts.

use std::time::Duration;

use dormouse_crds::session::Durability;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{PATIENCE, Player};
use crate::{
    client::{Answer, BUDGET},
    model::Step,
};

impl Player {
    /// A cell that nobody waits for, until it has ended; or until it is cancelled, from when on nothing of it goes on.
    pub(super) async fn background(&mut self) {
        let (id, wait) = (self.id("r"), self.random.between(1, 20_000));
        let code = format!("globalThis.log ??= []; log.push('{id}'); await sleep({wait}); log.push('{id}+'); log.join()");
        let steps = [Step::Push(id.clone()), Step::Push(format!("{id}+"))];
        let Some(path) = self.accepted(&id, &code).await else { return self.model.cut_short(&steps) };
        let until = Instant::now() + PATIENCE;
        let mut cancel = self.random.below(2) == 0;
        let ended = loop {
            assert!(Instant::now() < until, "what was accepted ends: {path}");
            self.end_what_awaits_again(until).await;
            let answer = if cancel {
                tokio::time::sleep(Duration::from_millis(self.random.between(1, 20_000))).await;
                self.insist(Method::POST, &format!("{path}/cancel"), None).await
            } else {
                self.insist(Method::GET, &format!("{path}?waitSeconds=30"), None).await
            };
            cancel = false;
            self.look_for_losses();
            if has_ended(&answer) {
                break answer.json;
            }
            assert_ne!(answer.code(), "RunNotFound", "what was accepted is known: {path}");
            tokio::time::sleep(Duration::from_millis(self.random.between(1, 2_000))).await;
        };
        self.run_ended(&ended, &steps);
    }

    /// A cell that nobody waits for, as a run; `None` when it may not have been accepted.
    pub(super) async fn accepted(&mut self, key: &str, code: &str) -> Option<String> {
        let body = json!({"code": code, "idempotencyKey": key}).to_string().into_bytes();
        let headers = HeaderMap::from_iter([(HeaderName::from_static("prefer"), HeaderValue::from_static("respond-async"))]);
        let (until, path) = (Instant::now() + PATIENCE, format!("/{}/eval", self.name));
        let accepted = loop {
            let answer = self.sender().insist_with(Method::POST, &path, Some(body.clone()), BUDGET, headers.clone()).await;
            // Pods ended beneath it, and it may have been accepted: its key finds it again.
            if answer.code() != "OutcomeUnknown" || Instant::now() >= until {
                break answer;
            }
        };
        self.look_for_losses();
        let run = accepted.json["run"].as_str();
        assert!(run.is_some() || !accepted.is_ok(), "what is accepted has a run: {}", accepted.json);
        Some(format!("/{}/runs/{}", self.name, run?))
    }

    /// A call that waits for a person, who agrees or does not; meanwhile no process is needed for it.
    pub(super) async fn ask(&mut self) {
        let id = self.id("g");
        let code = format!(
            "globalThis.log ??= []; log.push('{id}'); const told = await callTool('transfer', {{id: '{id}'}}).then((it) => it.times, (error) => error.name); log.push('{id}+'); told"
        );
        let steps = [Step::Push(id.clone()), Step::Push(format!("{id}+"))];
        let Some(path) = self.accepted(&id, &code).await else { return self.model.cut_short(&steps) };
        let (agrees, until) = (self.random.below(2) == 0, Instant::now() + PATIENCE);
        let decision = json!({"decision": if agrees { "approve" } else { "deny" }, "idempotencyKey": format!("{id}-decided")});
        let mut decided = false;
        let ended = loop {
            assert!(Instant::now() < until, "what somebody decided about ends: {path}");
            self.end_what_awaits_again(until).await;
            if !decided {
                tokio::time::sleep(Duration::from_millis(self.random.between(1, 20_000))).await;
                let waiting = self.insist(Method::GET, &format!("/{}/approvals", self.name), None).await;
                let ours = waiting.json["items"].as_array().and_then(|items| items.iter().find(|item| item["args"]["id"] == *id));
                if let Some(approval) = ours.and_then(|item| item["id"].as_str()) {
                    let at = format!("/{}/approvals/{approval}", self.name);
                    decided = self.insist(Method::POST, &at, Some(decision.to_string().into_bytes())).await.is_ok();
                }
            }
            let answer = self.insist(Method::GET, &format!("{path}?waitSeconds=10"), None).await;
            self.look_for_losses();
            if has_ended(&answer) {
                break answer.json;
            }
            assert_ne!(answer.code(), "RunNotFound", "what was accepted is known: {path}");
        };
        let times = self.world.service.times(&id);
        assert!(times <= u64::from(agrees), "a call is made with a decision only: {id} {times} times");
        let told = &ended["result"]["value"];
        assert!(*told != 1 || times == 1, "what was told has been: {id}: {ended}");
        self.run_ended(&ended, &steps);
    }

    /// That a cell was interrupted may be lost with its process where ends are told ahead of storage; then it awaits again, and all that came later waits
    /// behind it. Whoever has waited for long interrupts once more.
    async fn end_what_awaits_again(&mut self, until: Instant) {
        if self.durability != Durability::PerEval && Instant::now() + PATIENCE / 2 >= until {
            self.order("interrupt").await;
        }
    }

    /// Takes into the model how a run ended.
    pub(super) fn run_ended(&mut self, ended: &Value, steps: &[Step]) {
        let durable = self.durability == Durability::PerEval;
        if ended["state"] == "Succeeded" && (durable || Instant::now() >= self.outdated_until) {
            self.acked += 1;
            self.model.done(steps, durable);
        } else if durable {
            self.model.cut_short(steps);
        } else {
            // What is stored, and forked, may have it under way.
            self.model.done_by_whoever(steps);
        }
    }

    /// Ends a cell that would wait for years.
    pub(super) async fn interrupt(&mut self) {
        let id = self.id("i");
        let code = format!("globalThis.log ??= []; log.push('{id}'); await sleep(1e11); log.push('never')");
        let body = json!({"code": code, "idempotencyKey": id}).to_string().into_bytes();
        let until = Instant::now() + PATIENCE;
        let answer = loop {
            let (mut sender, path, body) = (self.sender(), format!("/{}/eval", self.name), body.clone());
            // A cell that waits is no request that hangs.
            let waiting = tokio::spawn(async move { sender.insist(Method::POST, &path, Some(body), PATIENCE).await });
            while !waiting.is_finished() {
                assert!(Instant::now() < until, "a cell that awaits can be interrupted: {id}");
                let pause = self.random.between(200, 4_000);
                tokio::time::sleep(Duration::from_millis(pause)).await;
                self.order("interrupt").await;
            }
            let answer = waiting.await.expect("a cell's client");
            // Pods died beneath it, and it may still await: its key finds it again.
            if answer.code() != "OutcomeUnknown" {
                break answer;
            }
        };
        assert!(answer.json["ok"] != true, "it was interrupted: {}", answer.json);
        self.look_for_losses();
        self.model.cut_short(&[Step::Push(id)]);
    }
}

/// Whether a run has come to its end.
fn has_ended(run: &Answer) -> bool {
    ["Succeeded", "Failed", "Cancelled"].iter().any(|end| run.json["state"] == *end)
}
