//! Fetches against a real HTTP server on loopback, which the broker's rules name as private.
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use dormouse_broker::Broker;
use dormouse_protocol::{
    ApiError, ErrorCode,
    broker::{BodyAnswer, BodyCall, CloseCall, FETCH, FetchCall, FetchOutcome, FetchResponse, NetworkFailure, ToolAnswer},
};
use dormouse_testkit::{wait::eventually, web::Web};
use serde_json::{Value, json};

use crate::world::{TOKEN, call, secrets, spec};

/// How long the broker waits for a body that it could send with the head.
const INLINE_WAIT: Duration = Duration::from_millis(100);

/// A server, and a broker whose rules hold it and nothing else of this machine.
async fn world() -> (Web, Broker) {
    let web = Web::start().await.unwrap();
    let broker = broker_for(&web);
    (web, broker)
}

fn broker_for(web: &Web) -> Broker {
    let mut spec = spec(&web.url());
    let methods = json!(["GET", "HEAD", "POST", "PUT", "DELETE"]);
    spec.egress = serde_json::from_value(json!({"allow": [
        {"host": web.address.to_string(), "methods": methods, "private": true}, {"host": "*:*"},
    ]}))
    .unwrap();
    Broker::new(spec, secrets()).unwrap()
}

fn fetch(number: u64, request: Value) -> FetchCall {
    let allow = serde_json::from_value(json!([{"host": "*:*", "methods": ["GET", "HEAD", "POST", "PUT", "DELETE"]}])).unwrap();
    FetchCall { call: call(number, FETCH, request), allow }
}

async fn outcome(broker: &Broker, call: FetchCall) -> Result<FetchOutcome, ApiError> {
    match broker.fetch(call).await.unwrap().as_ref() {
        ToolAnswer::Ok { value } => Ok(serde_json::from_value(value.clone()).unwrap()),
        ToolAnswer::Err { error } => Err(error.clone()),
        other @ (ToolAnswer::Parked { .. } | ToolAnswer::Stream { .. } | ToolAnswer::Send { .. }) => panic!("{other:?}"),
    }
}

async fn response(broker: &Broker, call: FetchCall) -> FetchResponse {
    match outcome(broker, call).await.unwrap() {
        FetchOutcome::Response(response) => response,
        FetchOutcome::Failed(failure) => panic!("{failure:?}"),
    }
}

async fn failure(broker: &Broker, request: Value) -> NetworkFailure {
    match outcome(broker, fetch(1, request)).await.unwrap() {
        FetchOutcome::Response(response) => panic!("{response:?}"),
        FetchOutcome::Failed(failure) => failure,
    }
}

/// The body: what came with the head, and then the rest, of which there is some when the machine was busy.
async fn whole(broker: &Broker, response: &FetchResponse) -> Vec<u8> {
    let mut all = STANDARD.decode(&response.body).unwrap();
    if let Some(stream) = response.stream {
        let (more, end) = rest(broker, stream).await;
        assert!(matches!(end, BodyAnswer::Part { .. }), "{end:?}");
        all.extend(more);
    }
    all
}

async fn text(broker: &Broker, response: &FetchResponse) -> String {
    String::from_utf8(whole(broker, response).await).unwrap()
}

fn get(url: String) -> Value {
    json!({"method": "GET", "url": url})
}

/// The rest of a body, and how it ended.
async fn rest(broker: &Broker, stream: u64) -> (Vec<u8>, BodyAnswer) {
    let mut all = Vec::new();
    for part in 0.. {
        let call = BodyCall { namespace: "team-a".into(), session_uid: "u-1".into(), epoch: 1, stream, part };
        match broker.body(call).await.unwrap() {
            BodyAnswer::Part { bytes, last: false } => all.extend(STANDARD.decode(bytes).unwrap()),
            BodyAnswer::Part { bytes, last: true } => {
                all.extend(STANDARD.decode(&bytes).unwrap());
                return (all, BodyAnswer::Part { bytes: String::new(), last: true });
            }
            end => return (all, end),
        }
    }
    unreachable!("parts do not end")
}

#[tokio::test]
async fn a_request_goes_out_as_the_cell_wrote_it_and_without_a_credential() {
    let (web, broker) = world().await;
    let request = json!({
        "method": "POST", "url": format!("{}/echo?q=1#part", web.url()), "body": STANDARD.encode("über"),
        "headers": [["x-own", "1"], ["content-type", "text/plain"], ["host", "elsewhere"], ["proxy-authorization", "x"], ["connection", "close"]],
    });
    let answer = response(&broker, fetch(1, request)).await;
    assert_eq!((answer.status, answer.status_text.as_str(), answer.redirected), (200, "OK", false));
    assert_eq!(answer.url, format!("{}/echo?q=1", web.url()));
    let told: Value = serde_json::from_str(&text(&broker, &answer).await).unwrap();
    assert_eq!((&told["method"], &told["uri"], &told["body"]), (&json!("POST"), &json!("/echo?q=1"), &json!("über")));
    let headers = told["headers"].as_object().unwrap();
    assert_eq!((&headers["x-own"], &headers["host"]), (&json!("1"), &json!(web.address.to_string())));
    let mut names: Vec<&str> = headers.keys().map(String::as_str).collect();
    names.sort_unstable();
    assert_eq!(names, ["accept", "accept-encoding", "content-length", "content-type", "host", "user-agent", "x-own"]);
    assert!(!told.to_string().contains(TOKEN));
}

#[tokio::test]
async fn statuses_headers_and_compressed_bodies_come_back() {
    let (web, broker) = world().await;
    let refused = response(&broker, fetch(1, get(format!("{}/status/404", web.url())))).await;
    assert_eq!((refused.status, refused.status_text.as_str(), text(&broker, &refused).await.as_str()), (404, "Not Found", "status 404"));
    let cookies = response(&broker, fetch(2, get(format!("{}/cookies", web.url())))).await;
    let of = |wanted: &str| cookies.headers.iter().filter(|(name, _)| name == wanted).map(|(_, value)| value.as_str()).collect::<Vec<_>>();
    assert_eq!((of("set-cookie"), of("x-latin")), (vec!["a=1; Path=/", "b=2"], vec!["café"]));
    let packed = response(&broker, fetch(3, get(format!("{}/gzip", web.url())))).await;
    assert_eq!(text(&broker, &packed).await, "compressed ".repeat(100));
}

#[tokio::test]
async fn a_repeated_fetch_is_answered_from_the_journal_and_an_unsafe_one_is_not_made_again() {
    let (web, broker) = world().await;
    let post = |repeated| {
        let mut call = fetch(1, json!({"method": "POST", "url": format!("{}/echo", web.url())}));
        call.call.repeated = repeated;
        call
    };
    let first = broker.fetch(post(false)).await.unwrap();
    assert!(Arc::ptr_eq(&first, &broker.fetch(post(true)).await.unwrap()));
    assert_eq!(web.seen().len(), 1);

    // Another process of the broker knows nothing of it.
    let other = broker_for(&web);
    assert_eq!(other.fetch(post(true)).await.unwrap_err().code, ErrorCode::OutcomeUnknown);
    let mut safe = fetch(2, get(format!("{}/echo", web.url())));
    safe.call.repeated = true;
    assert!(matches!(outcome(&other, safe).await, Ok(FetchOutcome::Response(_))));
    assert_eq!(web.seen(), ["POST /echo", "GET /echo"]);
}

#[tokio::test]
async fn what_no_rule_holds_is_not_connected_to() {
    let (web, broker) = world().await;
    let port = web.address.port();
    let requests = [
        (get(format!("http://localhost:{port}/echo")), "no public address"),
        (get(format!("http://[::1]:{port}/echo")), "no public address"),
        (get(format!("http://127.0.0.2:{port}/echo")), "no public address"),
        (get(format!("http://169.254.169.254:{port}/latest")), "no public address"),
        (json!({"method": "PATCH", "url": format!("{}/echo", web.url())}), "the session's"),
        (get("file:///etc/passwd".to_owned()), "http and https"),
    ];
    for (number, (request, part)) in (1..).zip(requests) {
        let error = outcome(&broker, fetch(number, request.clone())).await.unwrap_err();
        assert_eq!(error.code, ErrorCode::EgressDenied, "{request}");
        assert!(error.message.contains(part), "{request}: {}", error.message);
    }
    let nothing = FetchCall { allow: Vec::new(), ..fetch(100, get(format!("{}/echo", web.url()))) };
    assert_eq!(outcome(&broker, nothing).await.unwrap_err().code, ErrorCode::EgressDenied, "the session allows nothing");
    broker.reconfigure(&spec(&web.url())).await.unwrap();
    let by_session = fetch(101, get(format!("{}/echo", web.url())));
    assert_eq!(outcome(&broker, by_session).await.unwrap_err().code, ErrorCode::EgressDenied, "nor does a broker without rules");
    assert!(web.seen().is_empty());
}

#[tokio::test]
async fn every_redirect_is_judged() {
    let (web, broker) = world().await;
    let other = Web::start().await.unwrap();
    let to = |code: u16, target: String| format!("{}/redirect/{code}?to={}", web.url(), target.replace('&', "%26"));
    let followed = response(&broker, fetch(1, get(to(302, "/echo?a=1".to_owned())))).await;
    assert_eq!((followed.redirected, followed.url), (true, format!("{}/echo?a=1", web.url())));

    let error = outcome(&broker, fetch(2, get(to(302, format!("{}/echo", other.url()))))).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::EgressDenied, "the other server is private and not named");
    let error = outcome(&broker, fetch(3, get(to(307, "http://169.254.169.254/latest".to_owned())))).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::EgressDenied);
    assert!(other.seen().is_empty());

    let post =
        json!({"method": "POST", "url": to(303, "/echo".to_owned()), "body": STANDARD.encode("x"), "headers": [["authorization", "own"]]});
    let told: Value = serde_json::from_str(&text(&broker, &response(&broker, fetch(4, post)).await).await).unwrap();
    assert_eq!((&told["method"], &told["bytes"], &told["headers"]["authorization"]), (&json!("GET"), &json!(0), &json!("own")));

    let manual = json!({"method": "GET", "url": to(302, "/echo".to_owned()), "redirect": "manual"});
    let answer = response(&broker, fetch(5, manual)).await;
    assert_eq!((answer.status, answer.redirected), (302, false));
    let without = response(&broker, fetch(6, get(format!("{}/redirect/302", web.url())))).await;
    assert_eq!(without.status, 302, "a redirect to nowhere is an answer");
}

#[tokio::test]
async fn another_origin_does_not_see_the_authorization() {
    let (first, second) = (Web::start().await.unwrap(), Web::start().await.unwrap());
    let mut spec = spec(&first.url());
    spec.egress = serde_json::from_value(json!({"allow": [{"host": "127.0.0.1:*", "private": true}]})).unwrap();
    let broker = Broker::new(spec, secrets()).unwrap();
    let headers = json!([["authorization", "own"], ["cookie", "a=1"], ["x-own", "1"]]);
    let request = json!({"method": "GET", "url": format!("{}/redirect/302?to={}/echo", first.url(), second.url()), "headers": headers});
    let told: Value = serde_json::from_str(&text(&broker, &response(&broker, fetch(1, request)).await).await).unwrap();
    assert_eq!(told["headers"].get("authorization"), None);
    assert_eq!(told["headers"].get("cookie"), None);
    assert_eq!(told["headers"]["x-own"], "1");
}

#[tokio::test]
async fn redirects_end() {
    let (web, broker) = world().await;
    let failed = failure(&broker, json!({"method": "GET", "url": format!("{}/redirect/302?to=/x", web.url()), "redirect": "error"})).await;
    assert_eq!(failed.message, "unexpected redirect");
    let (web, broker) = world().await;
    let failed = failure(&broker, get(format!("{}/redirect/302?to=ftp://x/", web.url()))).await;
    assert_eq!(failed.code, "ERR_REDIRECT");
    let (web, broker) = world().await;
    assert_eq!(failure(&broker, get(format!("{}/circle", web.url()))).await.message, "redirect count exceeded");
    assert_eq!(web.seen().len(), 21, "the first and twenty redirects");
}

#[tokio::test]
async fn failures_of_the_network_have_nodes_names() {
    let (web, broker) = world().await;
    let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let mut spec = spec(&web.url());
    spec.egress = serde_json::from_value(json!({"allow": [{"host": "127.0.0.1:*", "private": true}, {"host": "*"}]})).unwrap();
    broker.reconfigure(&spec).await.unwrap();
    assert_eq!(failure(&broker, get(format!("http://{free}/"))).await.code, "ECONNREFUSED");
    let unknown = outcome(&broker, fetch(2, get("http://no-such-host.invalid/".to_owned()))).await.unwrap();
    assert!(matches!(unknown, FetchOutcome::Failed(failure) if failure.code == "ENOTFOUND"));
}

#[tokio::test]
async fn a_long_body_is_read_part_by_part() {
    let (web, broker) = world().await;
    const BYTES: usize = 3 << 20;
    let began = Instant::now();
    let short = response(&broker, fetch(1, get(format!("{}/bytes/{}", web.url(), 1 << 20)))).await;
    // Unless it is not there in time.
    assert!(short.stream.is_none() || began.elapsed() >= INLINE_WAIT, "so much comes with the head");
    assert_eq!(whole(&broker, &short).await.len(), 1 << 20);
    let long = response(&broker, fetch(2, get(format!("{}/bytes/{BYTES}", web.url())))).await;
    let mut all = STANDARD.decode(&long.body).unwrap();
    assert!(all.len() <= 1 << 20);
    let (more, end) = rest(&broker, long.stream.unwrap()).await;
    assert_eq!(end, BodyAnswer::Part { bytes: String::new(), last: true });
    all.extend(more);
    let expected: Vec<u8> = (0..BYTES).map(|at| u8::try_from(at % 251).unwrap()).collect();
    assert!(all == expected, "{} bytes", all.len());
}

#[tokio::test]
async fn a_slow_body_does_not_keep_its_head() {
    let (web, broker) = world().await;
    let slow = response(&broker, fetch(1, get(format!("{}/endless", web.url())))).await;
    let stream = slow.stream.unwrap();
    let call = |part| BodyCall { namespace: "team-a".into(), session_uid: "u-1".into(), epoch: 1, stream, part };
    // What is there soon comes with the head, and else is the first part.
    let (begun, next) = match slow.body.as_str() {
        "" => match broker.body(call(0)).await.unwrap() {
            BodyAnswer::Part { bytes, last: false } => (bytes, 1),
            end => panic!("{end:?}"),
        },
        bytes => (bytes.to_owned(), 0),
    };
    assert_eq!(STANDARD.decode(begun).unwrap(), b"begun");
    web.open();
    assert!(matches!(broker.body(call(next)).await.unwrap(), BodyAnswer::Part { last: false, .. }));
    broker.close(&CloseCall { namespace: "team-a".into(), session_uid: "u-1".into(), epoch: 1, call: stream });
    assert_eq!(broker.body(call(next + 1)).await.unwrap(), BodyAnswer::Lost {}, "it is closed");
}

#[tokio::test]
async fn a_body_that_breaks_off_fails_after_what_came() {
    let (web, broker) = world().await;
    let cut = response(&broker, fetch(1, get(format!("{}/cut", web.url())))).await;
    let (more, end) = rest(&broker, cut.stream.unwrap()).await;
    assert_eq!([STANDARD.decode(&cut.body).unwrap(), more].concat(), b"begun");
    assert!(matches!(end, BodyAnswer::Failed(_)), "{end:?}");
}

#[tokio::test]
async fn a_fetch_that_is_given_up_is_answered_and_not_made_again() {
    let (web, broker) = world().await;
    let call = fetch(1, get(format!("{}/hang", web.url())));
    let waiting = tokio::spawn({
        let (broker, call) = (broker.clone(), call.clone());
        async move { outcome(&broker, call).await }
    });
    web.until_seen("GET /hang").await;
    broker.close(&CloseCall { namespace: "team-a".into(), session_uid: "u-1".into(), epoch: 1, call: 1 });
    assert_eq!(waiting.await.unwrap().unwrap_err().code, ErrorCode::Interrupted);
    assert_eq!(outcome(&broker, call).await.unwrap_err().code, ErrorCode::Interrupted);
    assert_eq!(web.seen().len(), 1);
}

#[tokio::test]
async fn so_many_fetches_of_a_session_are_made_at_once() {
    let (web, broker) = world().await;
    let session = |uid: &'static str, number: u64, path: &str| {
        let mut call = fetch(number, get(format!("{}{path}", web.url())));
        call.call.session_uid = uid.to_owned();
        let broker = broker.clone();
        tokio::spawn(async move { response(&broker, call).await.status })
    };
    let full: Vec<_> = (1..=33).map(|number| session("u-1", number, &format!("/hang?{number}"))).collect();
    let hanging = || web.seen().iter().filter(|one| one.starts_with("GET /hang")).count();
    eventually("as many as may be are made", async || hanging() >= 32).await;
    assert_eq!(session("u-2", 1, "/echo").await.unwrap(), 200, "another session goes on");
    assert_eq!(hanging(), 32);
    web.open();
    for one in full {
        assert_eq!(one.await.unwrap(), 200);
    }
    assert_eq!(hanging(), 33);
}
