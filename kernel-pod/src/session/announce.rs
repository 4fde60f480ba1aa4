//! What others are told of the session itself: that it is stored for the first time, that its code runs again after it slept, that it falls asleep, and
//! that it cannot go on.
//!
//! Nothing is taken down before the ToolBroker has said that it tells somebody: a session whose broker tells nobody pays nothing for this, and one
//! whose broker is not there does not wake for it. What is taken down is stored with what it is about, as runs are. To fall asleep is told before it is
//! stored, since nobody is awake to tell it afterwards. A failure cannot be stored: this process tells it, as long as it lives.

use std::time::Duration;

use dormouse_crds::webhooks::EventKind;
use dormouse_protocol::ApiError;
use dormouse_protocol::broker::Notice;
use serde_json::json;

use super::Fault;
use super::actor::Actor;
use super::phase::Moved;

/// How long a session that falls asleep waits for its ToolBroker, twice at most: to say whether it tells anybody, and to take it down.
const ASLEEP_TOLD_TIMEOUT: Duration = Duration::from_secs(2);

/// The waits before each time that a ToolBroker is told that a session cannot go on. After the last it is told no more.
const FAILED_TOLD_AFTER: [Duration; 5] =
    [Duration::ZERO, Duration::from_secs(1), Duration::from_secs(10), Duration::from_secs(60), Duration::from_secs(5 * 60)];

/// Characters of a failure that are told.
const MESSAGE_CHARS_MAX: usize = 1_000;

/// What was noted since the session slept last.
#[derive(Debug, Default)]
pub(super) struct Announced {
    /// Whether its creation was, or that it runs again.
    awake: bool,
    /// What is not taken down yet: whether anybody is told of it is not known.
    owed: Option<Notice>,
    /// Whether its failure was, and it has not gone on since.
    failed: bool,
}

impl Actor {
    /// Notes before a commit what the session has become with it. Answers what is taken down with it.
    pub(super) fn announce(&mut self) -> Option<Notice> {
        self.announced.failed = false;
        self.assignment.spec.tool_broker_ref.as_ref()?;
        let live = self.phase.live()?;
        if !self.announced.awake {
            let event = match (&live.owned.head, live.ran) {
                (None, _) => EventKind::SessionCreated,
                (Some(_), true) => EventKind::SessionWoken,
                (Some(_), false) => return None,
            };
            self.announced = Announced { awake: true, owed: Some(self.session_notice(event)), failed: false };
        }
        let owed = self.announced.owed.take()?;
        let (caller, now_ms) = (self.caller()?, self.host.environment.clock.now_ms());
        let live = self.phase.live_mut()?;
        match caller.tells(owed.event) {
            Some(true) => {
                live.state.notice_session(&owed, now_ms, false);
                Some(owed)
            }
            Some(false) => None,
            None => {
                live.in_flight.learn(&caller);
                self.announced.owed = Some(owed);
                None
            }
        }
    }

    /// The commit that was to store it has failed: it is taken down with the next. If it did store it, that changes nothing.
    pub(super) fn announce_again(&mut self, notice: Option<Notice>) {
        if notice.is_some() {
            self.announced.owed = notice;
        }
    }

    /// The ToolBroker has said of which events it tells anybody, or does not say it now.
    pub(super) async fn on_learnt(&mut self) -> Result<(), Fault> {
        let owed = self.announced.owed.as_ref().map(|notice| notice.event);
        let told = |event| self.caller().is_some_and(|caller| caller.tells(event) == Some(true));
        if owed.is_some_and(told) {
            if let Some(live) = self.phase.live_mut() {
                live.moved = Moved::Ran;
            }
            self.commit().await?;
        }
        self.release();
        Ok(())
    }

    /// Tells that the session falls asleep, and what is owed. What the ToolBroker does not take down is told later, by whoever has the session then.
    pub(super) async fn announce_sleep(&mut self) {
        if self.phase.live().is_some_and(|live| live.owned.head.is_none()) {
            self.announce();
        }
        let owed = self.announced.owed.take();
        let Some(caller) = self.sender().filter(|_| self.announced.awake) else { return };
        let asleep = self.session_notice(EventKind::SessionHibernated);
        let _ = tokio::time::timeout(ASLEEP_TOLD_TIMEOUT, caller.tools.learn_events(&caller.namespace, &caller.broker)).await;
        for notice in owed.into_iter().chain([asleep]).filter(|notice| caller.tells(notice.event) == Some(true)) {
            let told = tokio::time::timeout(ASLEEP_TOLD_TIMEOUT, caller.tools.notify(&caller.broker, notice.clone())).await;
            if matches!(told, Ok(Ok(()))) {
                continue;
            }
            let now_ms = self.host.environment.clock.now_ms();
            if let Some(live) = self.phase.live_mut() {
                live.state.notice_session(&notice, now_ms, true);
                live.moved = Moved::Ran;
            }
        }
    }

    /// It sleeps: what it becomes from here on is noted anew.
    pub(super) fn announced_sleep(&mut self) {
        self.announced = Announced::default();
    }

    /// Tells that the session cannot go on, once until it does.
    pub(super) fn announce_failure(&mut self, failure: Option<&ApiError>) {
        let told = std::mem::replace(&mut self.announced.failed, true);
        let wanted = |caller: &crate::tools::Caller| caller.tells(EventKind::SessionFailed) != Some(false);
        let Some(caller) = self.sender().filter(|caller| !told && wanted(caller)) else { return };
        let mut notice = self.session_notice(EventKind::SessionFailed);
        if let Some(error) = failure {
            let message: String = error.message.chars().take(MESSAGE_CHARS_MAX).collect();
            notice.data.insert("error".to_owned(), json!({ "code": error.code, "message": message }));
        }
        tokio::spawn(async move {
            for wait in FAILED_TOLD_AFTER {
                tokio::time::sleep(wait).await;
                let Err(error) = caller.tools.notify(&caller.broker, notice.clone()).await else { return };
                tracing::warn!(broker = caller.broker, session = notice.session, %error, "the ToolBroker does not take a failure now");
            }
        });
    }

    /// An event of the session itself, which happens now.
    fn session_notice(&self, event: EventKind) -> Notice {
        let now = self.host.environment.clock.now();
        let cells = self.phase.live().map(|live| json!({ "cells": live.state.cells }));
        let data = cells.and_then(|data| data.as_object().cloned()).unwrap_or_default();
        Notice {
            namespace: self.assignment.namespace.clone(),
            session: self.assignment.name.clone(),
            session_uid: self.assignment.uid.clone(),
            number: 0,
            // Of a kind there is one at a time, and an epoch is one process's.
            key: Some(format!("{} {} {}", event.name(), self.assignment.epoch, now.as_millisecond())),
            event,
            time: now.to_string(),
            data,
            webhook: None,
        }
    }
}
