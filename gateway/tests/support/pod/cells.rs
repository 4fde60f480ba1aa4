//! How it answers cells, and shows their events.

use axum::{
    Json,
    body::Body,
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use std::sync::{Arc, atomic::Ordering};

use dormouse_protocol::{
    ApiError, ErrorBody, ErrorCode,
    eval::EvalResult,
    event::{Event, EventBody, PROTOCOL_VERSION},
    kernel::{Assignment, CLAIM_HEADER, EvalCall, EventsCall},
    run::RunList,
};
use futures::StreamExt as _;

use super::{Answer, FakePod, broken, refuse, takes};

fn result(preview: &str) -> EvalResult {
    EvalResult {
        ok: true,
        value: None,
        dropped: None,
        value_type: "number".to_owned(),
        preview: preview.to_owned(),
        display: Vec::new(),
        console: Vec::new(),
        error: None,
        cell: 1,
        sequence: 1,
        durable: true,
        idempotency_key: None,
        stats: Default::default(),
    }
}

fn event(assignment: &Assignment, seq: u64, body: EventBody) -> String {
    let session_id = dormouse_protocol::session::session_id(&assignment.uid);
    serde_json::to_string(&Event { protocol_version: PROTOCOL_VERSION, session_id, seq, body }).unwrap() + "\n"
}

/// The whole body; of a claim that is not withdrawn, if it was one.
async fn whole(pod: &Arc<FakePod>, headers: &HeaderMap, body: Body) -> Option<Vec<u8>> {
    let mut claimed = headers.contains_key(CLAIM_HEADER);
    let (mut chunks, mut bytes) = (body.into_data_stream(), Vec::new());
    while let Some(chunk) = chunks.next().await {
        match chunk {
            Ok(chunk) => bytes.extend_from_slice(&chunk),
            Err(_) => {
                pod.withdrawn.send_modify(|withdrawn| *withdrawn += 1);
                return None;
            }
        }
        if std::mem::take(&mut claimed) {
            pod.claims.send_modify(|claims| *claims += 1);
        }
    }
    Some(bytes)
}

pub(super) async fn eval(State(pod): State<Arc<FakePod>>, headers: HeaderMap, body: Body) -> Response {
    // In a task of its own: a handler whose caller has gone is dropped.
    let (reader, sent) = (Arc::clone(&pod), headers.clone());
    let body = tokio::spawn(async move { whole(&reader, &sent, body).await }).await.unwrap();
    let Some(body) = body else { return refuse(ErrorCode::SessionGone) };
    let call: EvalCall = serde_json::from_slice(&body).unwrap();
    if pod.dead.load(Ordering::SeqCst) {
        return broken();
    }
    if !takes(&pod, &call.assignment.uid) {
        return refuse(ErrorCode::CapacityExhausted);
    }
    pod.evals.lock().unwrap().push(call.clone());
    let answer = pod.answers.lock().unwrap().pop_front().unwrap_or(Answer::Ok);
    let streamed = headers.get(header::ACCEPT).is_some_and(|accept| accept == "application/x-ndjson");
    match answer {
        Answer::Refuse(code) => refuse(code),
        Answer::TakenOver(epoch) => {
            let error = ApiError::new(ErrorCode::SessionGone, "as told").with_detail("epoch", epoch);
            (StatusCode::GONE, Json(ErrorBody { error })).into_response()
        }
        Answer::Large(mebibytes) => {
            let end = result(LARGE);
            let whole = if streamed {
                event(&call.assignment, 1, EventBody::Final { result: Box::new(end) })
            } else {
                serde_json::to_string(&end).unwrap()
            };
            large(mebibytes, &whole)
        }
        Answer::DiesAmong(deaths, dying) if deaths.fetch_add(1, Ordering::SeqCst) < dying => {
            pod.dead.store(true, Ordering::SeqCst);
            broken()
        }
        Answer::CutOff => Body::from(event(&call.assignment, 1, log())).into_response(),
        Answer::Waits if streamed => and_then_nothing(event(&call.assignment, 1, log())),
        Answer::Waits => std::future::pending().await,
        Answer::Held(release) => {
            let (first, end) =
                (event(&call.assignment, 1, log()), event(&call.assignment, 2, EventBody::Final { result: Box::new(result(pod.name)) }));
            let end = futures::stream::once(async move {
                release.notified().await;
                end
            });
            Body::from_stream(futures::stream::iter([first]).chain(end).map(Ok::<_, std::convert::Infallible>)).into_response()
        }
        Answer::Ok | Answer::DiesAmong(..) if streamed => {
            let end = EventBody::Final { result: Box::new(result(pod.name)) };
            Body::from(event(&call.assignment, 1, log()) + &event(&call.assignment, 2, end)).into_response()
        }
        Answer::Ok | Answer::DiesAmong(..) => Json(result(pod.name)).into_response(),
    }
}

fn log() -> EventBody {
    EventBody::Log { level: "log".to_owned(), text: "hello".to_owned() }
}

/// A stream that has no end.
fn and_then_nothing(begin: String) -> Response {
    let begin = futures::stream::iter([Ok::<_, std::convert::Infallible>(begin)]);
    Body::from_stream(begin.chain(futures::stream::pending())).into_response()
}

pub(super) async fn events(State(pod): State<Arc<FakePod>>, Json(call): Json<EventsCall>) -> Response {
    let kept = pod.kept.lock().unwrap().clone();
    let next = call.after.map_or(*kept.start(), |after| after + 1);
    if next < *kept.start() {
        let error = ApiError::new(ErrorCode::EventsExpired, "as told").with_detail("oldest", *kept.start());
        return (StatusCode::GONE, Json(ErrorBody { error })).into_response();
    }
    let first = if call.fresh { kept.end() + 1 } else { next };
    let lines: String = (first..=*kept.end()).map(|seq| event(&call.assignment, seq, log())).collect();
    if call.follow { and_then_nothing(lines) } else { Body::from(lines).into_response() }
}

pub(super) async fn runs(State(pod): State<Arc<FakePod>>) -> Json<RunList> {
    Json(RunList { items: pod.runs.lock().unwrap().clone(), ..RunList::default() })
}

/// What stands for a long text.
const LARGE: &str = "large";

fn large(mebibytes: usize, whole: &str) -> Response {
    let (before, after) = whole.split_once(LARGE).unwrap();
    let (before, after) = (before.to_owned(), after.to_owned());
    let block = bytes::Bytes::from(vec![b'x'; 1 << 20]);
    let middle = futures::stream::iter(std::iter::repeat_n(block, mebibytes));
    let start = futures::stream::iter([bytes::Bytes::from(before)]);
    let end = futures::stream::iter([bytes::Bytes::from(after)]);
    Body::from_stream(start.chain(middle).chain(end).map(Ok::<_, std::convert::Infallible>)).into_response()
}
