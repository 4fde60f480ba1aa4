//! A message as it is stored, and what an attempt makes of it. Pure.

use std::time::Duration;

use dormouse_crds::KeyRef;
use dormouse_protocol::{
    broker::Notice,
    webhook::{Delivery, DeliveryAttempt, DeliveryState},
};
use dormouse_store::ETag;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// When each attempt follows the one before.
const RETRIES: [Duration; 5] =
    [Duration::ZERO, Duration::from_secs(10), Duration::from_secs(60), Duration::from_secs(5 * 60), Duration::from_secs(30 * 60)];
/// The longest that the far side may ask to be left alone.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(60 * 60);
/// Attempts that a message remembers.
const ATTEMPTS_KEPT_MAX: usize = 20;

/// A message to one URL.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Message {
    /// As people see it.
    pub(crate) view: Delivery,
    /// What goes out, to the byte: every attempt is signed over the same.
    pub(crate) body: String,
    /// What signs it.
    pub(crate) secret: KeyRef,
    /// Whether a cell's request names the URL, and not the ToolBroker.
    pub(crate) from_eval: bool,
    pub(crate) created_ms: i64,
    /// When it is tried next.
    pub(super) next_ms: i64,
    /// Attempts since it was taken, or asked for again.
    pub(super) round: usize,
    /// Who tries it now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) lease: Option<Lease>,
}

/// The right to try a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Lease {
    pub(super) by: String,
    pub(super) until_ms: i64,
}

/// A message that this process may try.
pub(crate) struct Leased {
    pub(crate) message: Message,
    pub(super) etag: ETag,
}

/// Whether a message is tried.
pub(crate) enum Order {
    Now(Box<Leased>),
    /// Not before this time, in milliseconds since the Unix epoch.
    Later(i64),
}

/// What came of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sent {
    pub(crate) attempt: DeliveryAttempt,
    pub(crate) verdict: Verdict,
}

/// What an attempt means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Delivered,
    /// It will never be taken.
    Refused,
    /// It may be taken later: not before that time, if the far side has said one.
    Again(Option<Duration>),
}

impl Verdict {
    /// What a status means.
    pub(crate) fn of_status(status: u16, retry_after: Option<Duration>) -> Self {
        match status {
            200..=299 => Self::Delivered,
            408 | 429 | 500.. => Self::Again(retry_after),
            _ => Self::Refused,
        }
    }
}

impl Message {
    pub(crate) fn new(id: String, notice: &Notice, url: String, secret: KeyRef, from_eval: bool, now_ms: i64) -> Self {
        let mut data = notice.data.clone();
        data.insert("namespace".to_owned(), json!(notice.namespace));
        data.insert("session".to_owned(), json!(notice.session));
        let event = notice.event.name();
        // The event's own time: whoever tells of it again tells of the same message.
        let created_ms = notice.time.parse::<jiff::Timestamp>().map_or(now_ms, |time| time.as_millisecond().min(now_ms));
        let body = json!({ "type": event, "timestamp": notice.time, "data": data }).to_string();
        let view = Delivery {
            id,
            event: event.to_owned(),
            session: notice.session.clone(),
            url,
            state: DeliveryState::Pending,
            created_at: time(created_ms),
            next_attempt_at: Some(time(now_ms)),
            attempts: Vec::new(),
        };
        Self { view, body, secret, from_eval, created_ms, next_ms: now_ms, round: 0, lease: None }
    }

    /// Notes an attempt that ended now.
    pub(super) fn note(&mut self, sent: Sent, now_ms: i64) {
        self.lease = None;
        self.view.attempts.push(sent.attempt);
        while self.view.attempts.len() > ATTEMPTS_KEPT_MAX {
            self.view.attempts.remove(0);
        }
        self.round += 1;
        let next = match sent.verdict {
            Verdict::Delivered => None,
            Verdict::Refused => None,
            Verdict::Again(after) => RETRIES.get(self.round).map(|wait| (*wait).max(after.unwrap_or_default().min(RETRY_AFTER_MAX))),
        };
        self.view.state = match (sent.verdict, next) {
            (Verdict::Delivered, _) => DeliveryState::Delivered,
            (_, Some(_)) => DeliveryState::Pending,
            (_, None) => DeliveryState::Failed,
        };
        self.next_ms = next.map_or(now_ms, |wait| now_ms.saturating_add(i64::try_from(wait.as_millis()).unwrap_or(i64::MAX)));
        self.view.next_attempt_at = next.map(|_| time(self.next_ms));
    }

    /// Has it tried from the beginning.
    pub(super) fn begin_again(&mut self, now_ms: i64) {
        (self.round, self.next_ms, self.lease) = (0, now_ms, None);
        self.view.state = DeliveryState::Pending;
        self.view.next_attempt_at = Some(time(now_ms));
    }

    pub(super) fn is_over(&self) -> bool {
        self.view.state != DeliveryState::Pending
    }
}

pub(crate) fn time(ms: i64) -> String {
    jiff::Timestamp::from_millisecond(ms).map(|time| time.to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use dormouse_crds::webhooks::EventKind;

    use super::*;

    fn message() -> Message {
        let notice = Notice {
            namespace: "team-a".to_owned(),
            session: "agent".to_owned(),
            session_uid: "u".to_owned(),
            number: 1,
            key: None,
            event: EventKind::Completed,
            time: "2030-01-01T00:00:00Z".to_owned(),
            data: serde_json::Map::new(),
            webhook: None,
        };
        Message::new("msg_1".to_owned(), &notice, "http://a.example/".to_owned(), KeyRef::default(), false, 0)
    }

    fn sent(status: u16, after: Option<u64>) -> Sent {
        let attempt = DeliveryAttempt { time: String::new(), status: Some(status), error: None, milliseconds: 1 };
        Sent { attempt, verdict: Verdict::of_status(status, after.map(Duration::from_secs)) }
    }

    #[test]
    fn an_attempt_follows_at_each_of_the_times_and_then_none() {
        for again in [408, 429, 500, 503, 599] {
            let mut message = message();
            for wait_ms in [10_000, 60_000, 300_000, 1_800_000] {
                message.note(sent(again, None), 0);
                assert_eq!((message.next_ms, message.is_over()), (wait_ms, false), "{again}");
            }
            message.note(sent(again, None), 0);
            assert_eq!((message.view.state, &message.view.next_attempt_at), (DeliveryState::Failed, &None), "{again}");
        }
    }

    #[test]
    fn what_is_refused_is_over_and_what_is_taken_is_delivered() {
        for (status, state) in [
            (200, DeliveryState::Delivered),
            (204, DeliveryState::Delivered),
            (410, DeliveryState::Failed),
            (302, DeliveryState::Failed),
            (404, DeliveryState::Failed),
        ] {
            let mut message = message();
            message.note(sent(status, None), 0);
            assert_eq!(message.view.state, state, "{status}");
        }
    }

    #[test]
    fn who_asks_to_be_left_alone_longer_is_within_a_bound() {
        for (after, next_ms) in [(5, 10_000), (20, 20_000), (1 << 40, 3_600_000)] {
            let mut message = message();
            message.note(sent(429, Some(after)), 0);
            assert_eq!(message.next_ms, next_ms);
        }
    }

    #[test]
    fn asked_for_again_it_begins_anew_and_remembers_so_many_attempts() {
        let mut message = message();
        for _ in 0..10 {
            for _ in 0..5 {
                message.note(sent(500, None), 0);
            }
            assert!(message.is_over());
            message.begin_again(7);
            assert_eq!((message.next_ms, message.round), (7, 0));
        }
        assert_eq!(message.view.attempts.len(), ATTEMPTS_KEPT_MAX);
    }
}
