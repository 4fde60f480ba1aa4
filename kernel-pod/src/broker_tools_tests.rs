//! What calls of a broker make of losses, and what is known of its events.

use std::sync::atomic::{AtomicU32, Ordering};

use dormouse_service::wire::Wire;
use futures::future::BoxFuture;

use super::*;

/// Loses the first answers, and reaches nobody from then on.
#[derive(Debug)]
struct Losing(AtomicU32);

impl Wire for Losing {
    fn carry(&self, _: reqwest::Request) -> BoxFuture<'static, Result<reqwest::Response, SendError>> {
        let lost = self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok();
        let error = if lost { SendError::Lost("lost".into()) } else { SendError::Unreachable("nobody".into()) };
        Box::pin(async move { Err(error) })
    }
}

async fn called(lost: u32) -> ErrorCode {
    dormouse_service::telemetry::install_tls_provider();
    let former = reqwest::Client::builder().build().unwrap();
    let client = PeerClient::over(former, Arc::new(Losing(AtomicU32::new(lost))));
    let call = ToolCall {
        namespace: "team".to_owned(),
        session: "a".to_owned(),
        session_uid: "u".to_owned(),
        epoch: 1,
        call: 1,
        tool: "pay".to_owned(),
        args: serde_json::Value::Null,
        references: std::collections::BTreeMap::new(),
        repeated: false,
        settled_below: 1,
        page: None,
        waits: Default::default(),
        made_in: None,
        service_secrets: Default::default(),
        knowledge: None,
        body: None,
        stream_above: None,
        by: None,
    };
    let tools = BrokerTools { retries_max: 2, ..BrokerTools::new(client, "broker:7444") };
    tools.call("broker", call).await.unwrap_err().code
}

/// A broker that tells of failures only.
#[derive(Debug)]
struct Telling;

impl Wire for Telling {
    fn carry(&self, _: reqwest::Request) -> BoxFuture<'static, Result<reqwest::Response, SendError>> {
        let answer = http::Response::builder().header(EVENTS_HEADER, events_of_failures()).body("null").unwrap();
        Box::pin(async move { Ok(answer.into()) })
    }
}

fn events_of_failures() -> String {
    dormouse_protocol::broker::events_text(&[EventKind::Failed])
}

#[tokio::test(start_paused = true)]
async fn a_broker_that_has_said_that_it_tells_nobody_of_an_event_is_not_asked_for_a_minute() {
    dormouse_service::telemetry::install_tls_provider();
    let client = PeerClient::over(reqwest::Client::builder().build().unwrap(), Arc::new(Telling));
    let tools = BrokerTools::new(client, "broker:7444");
    let wants = || EventKind::ALL.map(|event| tools.wants("team", "broker", event));
    assert_eq!(wants(), [true; EventKind::ALL.len()], "nothing is known");
    assert_eq!(tools.tells("team", "broker", EventKind::Failed), None);
    let notice = Notice {
        namespace: "team".to_owned(),
        session: "a".to_owned(),
        session_uid: "u".to_owned(),
        number: 1,
        key: None,
        event: EventKind::Completed,
        time: String::new(),
        data: serde_json::Map::new(),
        webhook: None,
    };
    tools.notify("broker", notice).await.unwrap();
    assert_eq!(wants(), EventKind::ALL.map(|event| event == EventKind::Failed));
    assert!(tools.wants("team", "another", EventKind::Completed));
    tokio::time::advance(EVENTS_BELIEVED).await;
    assert_eq!(wants(), [true; EventKind::ALL.len()], "it may name somebody by now");
    let tells = [EventKind::Failed, EventKind::SessionWoken].map(|event| tools.tells("team", "broker", event));
    assert_eq!(tells, [Some(true), Some(false)], "the last word stands");
    assert!(tools.learn_events("team", "broker").await, "it is asked again");
    assert!(!tools.learn_events("team", "broker").await, "and has said so now");
    assert_eq!(wants(), EventKind::ALL.map(|event| event == EventKind::Failed));
}

#[tokio::test]
async fn a_call_that_may_have_arrived_and_is_never_answered_is_unknown_and_not_failed() {
    assert_eq!(called(0).await, ErrorCode::ToolResultInvalid, "it never arrived anywhere");
    assert_eq!(called(1).await, ErrorCode::OutcomeUnknown);
}
