//! What must be true when faults have stopped; and events, which must be so at any time.

use std::time::Duration;

use dormouse_crds::session::Durability;
use http::Method;
use serde_json::Value;
use tokio::time::sleep;

use super::{LOOKS, Player, files::FILES};
use crate::world::key;

impl Player {
    /// At rest: everything that was acked is there, timers have fired, and nothing that was made is there twice.
    pub async fn finish(&mut self) {
        self.look_for_losses();
        if self.straight && self.durability == Durability::PerEval && !self.gateways.status_went_back() {
            for timer in &self.timers {
                assert!(self.world.service.times(&format!("{LOOKS}{timer}")) > 0, "a timer fires though nobody asks: {timer}");
            }
        }
        if self.durability != Durability::PerEval {
            // That a cell was interrupted may be lost with its process, and then it awaits again.
            self.order("interrupt").await;
        }
        let id = self.id("end");
        let answer = self.cell(&id, "globalThis.log ??= []; log.join()", &[]).await;
        assert!(answer.json["ok"] == true, "every session runs when faults stop: {} {} {}", self.name, answer.status, answer.json);
        for file in FILES {
            self.read_file(file).await;
        }
        for session in std::mem::take(&mut self.wedged) {
            if self.client.may_still_arrive(&session) {
                // It may have been made once more, behind its end.
                let deleted = self.insist(Method::DELETE, &format!("/{session}"), None).await;
                assert!(deleted.is_ok() || deleted.status == 404, "a session can be deleted: {} {}", deleted.status, deleted.json);
                sleep(Duration::from_secs(60)).await;
            }
            assert_eq!(self.world.status.get(&key(&session)), None, "a session whose bootstrap never ends can be deleted: {session}");
        }
        if self.straight && self.durability == Durability::PerEval {
            let id = self.id("end");
            let answer = self.run(&id, "(globalThis.fired ?? []).join()").await;
            let fired: Vec<&str> = answer.value().as_str().unwrap_or_default().split(',').collect();
            for timer in &self.timers {
                let times = fired.iter().filter(|it| *it == timer).count();
                assert_eq!(times, 1, "a timer fires once, whatever dies: {timer}");
            }
            self.check_journal().await;
        }
        let last = self.events.keys().next_back().copied().unwrap_or(0);
        assert!(self.read_events().await >= last, "an event that was read is not taken back: {last} of {}", self.name);
        self.check_events().await;
        for mut fork in std::mem::take(&mut self.forks) {
            Box::pin(fork.finish()).await;
            self.acked += fork.acked;
        }
    }

    /// Goes on reading events behind the last one: what was read once is there for ever, whoever dies, and what comes next has the next number.
    pub(super) async fn read_events(&mut self) -> u64 {
        // Sometimes from further back.
        let last = self.events.keys().next_back().copied().unwrap_or(0);
        let after = last.saturating_sub(self.random.below(3));
        let answer = self.insist(Method::GET, &format!("/{}/events?follow=false&after={after}", self.name), None).await;
        if answer.code() == "EventsExpired" {
            return last;
        }
        assert!(answer.is_ok(), "events are read: {} {}", answer.status, answer.json);
        let text = String::from_utf8(answer.body).expect("events are text");
        for (at, line) in text.lines().enumerate() {
            let event: Value = serde_json::from_str(line).expect("an event is JSON");
            let seq = event["seq"].as_u64().expect("a number");
            assert_eq!(seq, after + 1 + at as u64, "events have no gap: {line} of {}", self.name);
            let known = self.events.entry(seq).or_insert_with(|| event.clone());
            assert_eq!(*known, event, "an event that was read stays what it was: {seq} of {}", self.name);
        }
        after + text.lines().count() as u64
    }

    /// Events have no gap and none is there twice; the end of a cell that was acked is among them, once.
    pub(super) async fn check_events(&mut self) {
        let answer = self.insist(Method::GET, &format!("/{}/events?follow=false", self.name), None).await;
        assert!(answer.is_ok(), "events are read: {} {}", answer.status, answer.json);
        let text = String::from_utf8(answer.body).expect("events are text");
        let events: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("an event is JSON")).collect();
        let seqs: Vec<u64> = events.iter().map(|event| event["seq"].as_u64().expect("a number")).collect();
        assert!(seqs.windows(2).all(|pair| pair[1] == pair[0] + 1), "events are numbered without a gap: {seqs:?} of {}", self.name);
        let ended = |key: &str| events.iter().filter(|event| event["type"] == "final" && event["payload"]["idempotencyKey"] == key).count();
        let kept = self.straight && self.durability == Durability::PerEval && seqs.first() == Some(&1);
        for (key, _, first) in &self.answered {
            assert!(ended(key) <= 1, "no cell ends twice: {key} of {}", self.name);
            assert!(!kept || first.json["ok"] != true || ended(key) == 1, "the end of what was acked is an event: {key} of {}", self.name);
        }
    }

    /// Every key that was answered stands in the journal once.
    pub(super) async fn check_journal(&mut self) {
        let answer = self.insist(Method::GET, &format!("/{}/journal?limit=1000", self.name), None).await;
        let Some(items) = answer.json["entries"].as_array() else { panic!("the journal is read: {} {}", answer.status, answer.json) };
        for (key, _, first) in &self.answered {
            let begun = items.iter().filter(|entry| entry["idempotencyKey"] == key.as_str()).count();
            assert!(begun <= 1, "no cell is begun twice: {key} of {}", self.name);
            assert!(first.json["ok"] != true || begun == 1, "what was acked is in the journal: {key} of {}", self.name);
        }
    }
}
