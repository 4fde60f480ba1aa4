//! What happened and is still to be told to the session's ToolBroker, which tells others.
//!
//! A notice is stored by the very commit that stores what it is about, and waits here until a broker has stored it: so whoever has the session next
//! goes on telling.

use std::collections::VecDeque;

use dormouse_crds::webhooks::EventKind;
use dormouse_protocol::broker::Notice;
use dormouse_protocol::eval::{EvalResult, EvalWebhook};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{ParkedCall, SessionState, shown};

/// Notices that wait. A session with as many takes no further runs, so only its approvals can push some out.
pub(crate) const NOTICES_MAX: usize = 64;
/// Bytes of them, about.
const NOTICES_BYTES_MAX: usize = 512 << 10;
/// Characters of a cell's preview that are told.
const PREVIEW_CHARS_MAX: usize = 1_000;
/// Bytes of a call's arguments that are told.
const ARGS_BYTES_MAX: usize = 16 << 10;
/// Of those, events of the session itself: they leave room for runs.
const SESSION_NOTICES_MAX: usize = 16;
/// The wait before a broker is told again that did not take a notice: doubled each time within these bounds.
const AGAIN_MIN_MS: i64 = 10 * 1_000;
const AGAIN_MAX_MS: i64 = 60 * 60 * 1_000;

/// Those that wait, oldest first.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Notices {
    /// The number of the last.
    last: u64,
    waiting: VecDeque<Waiting>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Waiting {
    number: u64,
    /// See [`Notice::key`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    event: EventKind,
    time: String,
    data: Map<String, Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    webhook: Option<EvalWebhook>,
    /// When the broker is told, in milliseconds since the Unix epoch; and how often it was, in vain.
    due_ms: i64,
    #[serde(default)]
    tries: u32,
}

impl Notices {
    /// Whether nothing was ever to be told.
    pub(crate) fn is_empty(&self) -> bool {
        self.last == 0
    }

    /// Whether as many wait as may.
    pub(crate) fn is_full(&self) -> bool {
        self.waiting.len() >= NOTICES_MAX
    }

    fn push(&mut self, event: EventKind, time: String, now_ms: i64, data: Map<String, Value>, webhook: Option<EvalWebhook>) {
        self.last += 1;
        self.waiting.push_back(Waiting { number: self.last, key: None, event, time, data, webhook, due_ms: now_ms, tries: 0 });
        let size = |waiting: &Waiting| serde_json::to_vec(&waiting.data).map_or(0, |data| data.len());
        let mut bytes: usize = self.waiting.iter().map(size).sum();
        while self.waiting.len() > NOTICES_MAX || (bytes > NOTICES_BYTES_MAX && self.waiting.len() > 1) {
            let Some(lost) = self.waiting.pop_front() else { return };
            bytes -= size(&lost);
            tracing::error!(number = lost.number, event = ?lost.event, "the ToolBroker takes no notices; one is given up");
        }
    }

    /// Adds an event of the session itself, which is told from `due_ms` on. Too many of them push out their oldest.
    fn push_session(&mut self, notice: &Notice, due_ms: i64, tries: u32) {
        self.last += 1;
        let Notice { event, time, data, key, .. } = notice.clone();
        self.waiting.push_back(Waiting { number: self.last, key, event, time, data, webhook: None, due_ms, tries });
        let of_session = |waiting: &Waiting| waiting.key.is_some();
        if self.waiting.iter().filter(|waiting| of_session(waiting)).count() > SESSION_NOTICES_MAX
            && let Some(oldest) = self.waiting.iter().position(of_session)
            && let Some(lost) = self.waiting.remove(oldest)
        {
            tracing::error!(event = ?lost.event, "the ToolBroker takes no notices; one of the session's own is given up");
        }
    }

    /// When the first is due, in milliseconds since the Unix epoch.
    pub(crate) fn due_ms(&self) -> Option<i64> {
        self.waiting.iter().map(|waiting| waiting.due_ms).min()
    }

    /// Those that are due, and the numbers of them.
    pub(crate) fn due(&self, now_ms: i64) -> impl Iterator<Item = u64> {
        self.waiting.iter().filter(move |waiting| waiting.due_ms <= now_ms).map(|waiting| waiting.number)
    }

    /// The broker has it.
    pub(crate) fn told(&mut self, number: u64) {
        self.waiting.retain(|waiting| waiting.number != number);
    }

    /// The broker did not take it.
    pub(crate) fn put_off(&mut self, number: u64, now_ms: i64) {
        if let Some(waiting) = self.waiting.iter_mut().find(|waiting| waiting.number == number) {
            let wait_ms = AGAIN_MIN_MS.saturating_mul(1 << waiting.tries.min(20)).min(AGAIN_MAX_MS);
            (waiting.tries, waiting.due_ms) = (waiting.tries + 1, now_ms.saturating_add(wait_ms));
        }
    }
}

impl SessionState {
    /// The notice of this number, as the broker takes it.
    pub(crate) fn notice(&self, number: u64, session_uid: &str) -> Option<Notice> {
        let waiting = self.notices.waiting.iter().find(|waiting| waiting.number == number)?;
        Some(Notice {
            namespace: self.namespace.clone(),
            session: self.name.clone(),
            session_uid: session_uid.to_owned(),
            number,
            key: waiting.key.clone(),
            event: waiting.event,
            time: waiting.time.clone(),
            data: waiting.data.clone(),
            webhook: waiting.webhook.clone(),
        })
    }

    /// Takes down an event of the session itself: its broker is told with the next commit, or, where it was told `in_vain`, again later.
    pub(crate) fn notice_session(&mut self, notice: &Notice, now_ms: i64, in_vain: bool) {
        let (due_ms, tries) = if in_vain { (now_ms.saturating_add(AGAIN_MIN_MS), 1) } else { (now_ms, 0) };
        self.notices.push_session(notice, due_ms, tries);
    }

    /// Takes down that others are to be told of a cell's end: of a run's whose event the ToolBroker `wants`, and of one whose request names somebody.
    pub(crate) fn notice_end(
        &mut self,
        result: &EvalResult,
        webhook: Option<&EvalWebhook>,
        now: jiff::Timestamp,
        wants: impl FnOnce(EventKind) -> bool,
    ) {
        let key = result.idempotency_key.as_deref().unwrap_or_default();
        let run = self.runs.under(key).map(|run| run.id.clone());
        let event = if result.ok { EventKind::Completed } else { EventKind::Failed };
        if self.spec.tool_broker_ref.is_none() || (webhook.is_none() && (run.is_none() || !wants(event))) {
            return;
        }
        let mut data = Map::new();
        if let Some(run) = run {
            data.insert("run".to_owned(), json!(run));
        }
        data.insert("cell".to_owned(), json!(result.cell));
        data.insert("idempotencyKey".to_owned(), json!(key));
        match &result.error {
            Some(error) => {
                let message: String = error.message.chars().take(PREVIEW_CHARS_MAX).collect();
                data.insert("error".to_owned(), json!({ "code": error.code, "name": error.name, "message": message }));
            }
            None => drop(data.insert("preview".to_owned(), json!(result.preview.chars().take(PREVIEW_CHARS_MAX).collect::<String>()))),
        }
        self.notices.push(event, now.to_string(), now.as_millisecond(), data, webhook.cloned());
    }

    /// Takes down that others are to be told of a call that waits for a person.
    pub(crate) fn notice_approval(&mut self, parked: &ParkedCall, now: jiff::Timestamp, wants: impl FnOnce(EventKind) -> bool) {
        let webhook = self.running.as_ref().and_then(|running| running.request.webhook.clone());
        if self.spec.tool_broker_ref.is_none() || (webhook.is_none() && !wants(EventKind::ApprovalRequired)) {
            return;
        }
        let view = parked.view();
        let mut data = Map::new();
        data.insert("approvalId".to_owned(), json!(view.id));
        data.insert("callId".to_owned(), json!(view.call_id));
        data.insert("toolName".to_owned(), json!(view.tool_name));
        data.insert("epoch".to_owned(), json!(view.epoch));
        data.insert("expiresAt".to_owned(), json!(view.expires_at));
        // Large ones are read where the call is decided.
        if serde_json::to_vec(&view.args).is_ok_and(|args| args.len() <= ARGS_BYTES_MAX) {
            data.insert("args".to_owned(), if parked.fetch { shown(&view.args) } else { view.args });
        }
        self.notices.push(EventKind::ApprovalRequired, now.to_string(), now.as_millisecond(), data, webhook);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(notices: &mut Notices, bytes: usize) {
        let data = [("x".to_owned(), json!("x".repeat(bytes)))].into_iter().collect();
        notices.push(EventKind::Completed, String::new(), 5, data, None);
    }

    #[test]
    fn a_notice_waits_until_a_broker_has_it_and_is_told_again_later_and_later() {
        let mut notices = Notices::default();
        assert!(notices.is_empty());
        push(&mut notices, 1);
        push(&mut notices, 1);
        assert_eq!(notices.due(5).collect::<Vec<_>>(), [1, 2]);
        notices.told(1);
        let mut notices: Notices = serde_json::from_value(serde_json::to_value(&notices).unwrap()).unwrap();
        for wait_ms in [10_000, 20_000, 40_000] {
            notices.put_off(2, 5);
            assert_eq!((notices.due_ms(), notices.due(5).count()), (Some(5 + wait_ms), 0));
        }
        for _ in 0..60 {
            notices.put_off(2, 5);
        }
        assert_eq!(notices.due_ms(), Some(5 + AGAIN_MAX_MS));
        notices.told(2);
        assert!(notices.due_ms().is_none() && !notices.is_empty(), "its numbers go on");
    }

    #[test]
    fn so_many_wait_with_so_many_bytes_and_the_oldest_goes() {
        let mut notices = Notices::default();
        for n in 0..NOTICES_MAX {
            assert!(!notices.is_full(), "{n}");
            push(&mut notices, 1);
        }
        assert!(notices.is_full());
        push(&mut notices, 1);
        assert_eq!((notices.waiting.len(), notices.due(5).next()), (NOTICES_MAX, Some(2)));
        push(&mut notices, NOTICES_BYTES_MAX);
        assert_eq!(notices.waiting.len(), 1, "the newest stays");
    }

    #[test]
    fn events_of_the_session_itself_leave_room_for_runs_and_keep_their_names() {
        let mut notices = Notices::default();
        push(&mut notices, 1);
        let named = |n: u64| Notice {
            namespace: "n".to_owned(),
            session: "s".to_owned(),
            session_uid: "u".to_owned(),
            number: 0,
            key: Some(format!("woken {n}")),
            event: EventKind::SessionWoken,
            time: String::new(),
            data: Map::new(),
            webhook: None,
        };
        for n in 0..=SESSION_NOTICES_MAX {
            notices.push_session(&named(n as u64), 7, 0);
        }
        let keys: Vec<_> = notices.waiting.iter().map(|waiting| waiting.key.clone()).collect();
        assert_eq!((keys.len(), &keys[0], &keys[1]), (SESSION_NOTICES_MAX + 1, &None, &Some("woken 1".to_owned())), "the run's stays");
        assert!(!notices.is_full());
        assert_eq!(notices.due(5).collect::<Vec<_>>(), [1], "the others are due later");
        let read: Notices = serde_json::from_value(serde_json::to_value(&notices).unwrap()).unwrap();
        assert_eq!(read, notices);
    }
}
