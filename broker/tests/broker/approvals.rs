//! Decisions about calls and fetches that wait: which release them, and that no other does.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use axum::{Json, Router, extract::State, routing::post};
use dormouse_broker::{Broker, BrokerStore};
use dormouse_protocol::{
    ErrorCode,
    broker::{DecideCall, FETCH, FetchCall, FetchOutcome, ToolAnswer, ToolCall, Waits, digest},
};
use dormouse_seal::Seal;
use dormouse_service::Metrics;
use dormouse_store::{Memory, SnapshotStore};
use dormouse_testkit::web::Web;
use serde_json::{Value, json};

use crate::world::{audit, call, secrets};

/// Decisions of the long test; a soak has more.
const DECISIONS: &str = "DORMOUSE_TEST_DECISIONS";

pub fn place(store: &Arc<Memory>) -> BrokerStore {
    BrokerStore {
        store: Arc::clone(store) as Arc<dyn SnapshotStore>,
        prefix: "p/".to_owned(),
        namespace: "team-a".to_owned(),
        broker: "tools".to_owned(),
        seal: Arc::new(Seal::none()),
    }
}

fn broker(store: &Arc<Memory>, spec: Value) -> Broker {
    Broker::with_store(&serde_json::from_value(spec).unwrap(), secrets(), &Metrics::new(), Some(place(store))).unwrap()
}

pub fn decision(number: u64, tool: &str, args: &Value, id: &str) -> DecideCall {
    DecideCall {
        namespace: "team-a".to_owned(),
        session: "analyst".to_owned(),
        session_uid: "u-1".to_owned(),
        epoch: 1,
        call: number,
        tool: tool.to_owned(),
        digest: digest(tool, args),
        id: id.to_owned(),
        approve: true,
        reason: None,
        arguments: None,
        by: "somebody".to_owned(),
    }
}

/// A service that counts what it was made to do.
async fn counting() -> (String, Arc<AtomicUsize>) {
    let done = Arc::new(AtomicUsize::new(0));
    let pay =
        async |State(done): State<Arc<AtomicUsize>>, Json(_): Json<Value>| Json(json!({ "paid": done.fetch_add(1, Ordering::SeqCst) + 1 }));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let routes = Router::new().route("/pay", post(pay)).with_state(Arc::clone(&done));
    tokio::spawn(async move { axum::serve(listener, routes).await });
    (url, done)
}

fn genuine(of: &ToolCall, id: &str) -> DecideCall {
    DecideCall { session_uid: of.session_uid.clone(), ..decision(of.call, &of.tool, &of.args, id) }
}

/// Calls of a session in the test: a page of calls holds so many decisions that nobody takes.
const SESSION_CALLS: u64 = 100;

/// A decision that somebody altered on its way, or that was made for something else: in one of its fields each.
fn altered(n: u64, of: &ToolCall) -> DecideCall {
    let (number, args) = (of.call, &of.args);
    let genuine = genuine(of, &format!("d-{n}"));
    let mut digits = genuine.digest.clone().into_bytes();
    let at = usize::try_from(n / 9).unwrap() % digits.len();
    digits[at] = if digits[at] == b'0' { b'1' } else { b'0' };
    match n % 9 {
        0 => DecideCall { digest: String::from_utf8(digits).unwrap(), ..genuine },
        1 => DecideCall { digest: digest("pay", &json!({ "to": "b", "amount": n })), ..genuine },
        2 => DecideCall { digest: digest("refund", args), ..genuine },
        3 => DecideCall { session_uid: format!("{}-x", of.session_uid), ..genuine },
        4 => DecideCall { call: number + 1_000_000, ..genuine },
        5 => DecideCall { digest: String::new(), ..genuine },
        6 => DecideCall { digest: genuine.digest.to_uppercase(), ..genuine },
        7 => DecideCall { approve: false, reason: Some("no".to_owned()), ..genuine },
        _ => DecideCall { epoch: 2 + n % 3, ..genuine },
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_altered_and_no_replayed_decision_makes_a_call() {
    let decisions: u64 = std::env::var(DECISIONS).ok().and_then(|text| text.parse().ok()).unwrap_or(10_000);
    let (url, done) = counting().await;
    let store = Arc::new(Memory::new());
    let spec = json!({
        "services": [{ "name": "bank", "baseUrl": url, "allowedMethods": ["POST"] }],
        "tools": [{ "name": "pay", "service": "bank", "method": "POST", "path": "/pay", "approval": "Always" }],
    });
    let broker = broker(&store, spec);
    let args = json!({ "to": "a", "amount": 7 });
    // One that is genuine, made, and then sent again for all that follows.
    let first = call(1, "pay", args.clone());
    assert!(matches!(*broker.call(first.clone()).await.unwrap(), ToolAnswer::Parked { .. }));
    let agreed_to = genuine(&first, "genuine");
    broker.decide(agreed_to.clone()).await.unwrap();
    let agreed = ToolCall { waits: Waits::Decision, repeated: true, ..first.clone() };
    assert_eq!(*broker.call(agreed.clone()).await.unwrap(), ToolAnswer::Ok { value: json!({ "paid": 1 }) });

    for n in 0..decisions {
        let waiting = ToolCall {
            session_uid: format!("s-{}", n / SESSION_CALLS),
            made_in: Some(1),
            ..call(n % SESSION_CALLS + 1, "pay", args.clone())
        };
        if n % 9 == 7 {
            // The one that stands is a denial; an approval that comes later is refused.
            broker.decide(altered(n, &waiting)).await.unwrap();
            let late = broker.decide(genuine(&waiting, &format!("late-{n}"))).await.unwrap_err();
            assert_eq!(late.code, ErrorCode::ApprovalUsed, "{n}");
        } else {
            // What it says may be refused, or written down: nothing comes of it.
            let _ = broker.decide(altered(n, &waiting)).await;
            // A replay of what was agreed to before.
            let _ = broker.decide(agreed_to.clone()).await;
        }
        let answer = broker.call(ToolCall { waits: Waits::Decision, repeated: true, ..waiting }).await.unwrap();
        let refused = match &*answer {
            ToolAnswer::Parked { .. } | ToolAnswer::Stream { .. } | ToolAnswer::Send { .. } => true,
            ToolAnswer::Err { error } => error.code == ErrorCode::ApprovalDenied,
            ToolAnswer::Ok { .. } => false,
        };
        assert!(refused, "{n}: {answer:?}");
    }
    assert_eq!(done.load(Ordering::SeqCst), 1, "of {decisions} none was made");
}

#[tokio::test]
async fn a_decision_about_another_epoch_is_refused_and_one_about_the_calls_own_stands_in_later_ones() {
    let (url, done) = counting().await;
    let store = Arc::new(Memory::new());
    let broker = broker(&store, rules(&url, "Always"));
    let made = ToolCall { epoch: 3, ..call(1, "pay", json!({ "to": "a" })) };
    let made_in = |answer: &ToolAnswer| match answer {
        ToolAnswer::Parked { parked } => parked.made_in,
        other => panic!("{other:?}"),
    };
    assert_eq!(made_in(&broker.call(made.clone()).await.unwrap()), Some(3));
    // Its process ended before it knew, and the next one asks: the call is the earlier one's.
    let next = ToolCall { epoch: 4, repeated: true, ..made.clone() };
    assert_eq!(made_in(&broker.call(next.clone()).await.unwrap()), Some(3));
    for epoch in [0, 2, 4] {
        let refused = broker.decide(DecideCall { epoch, ..genuine(&made, "other") }).await.unwrap_err();
        assert_eq!((refused.code, refused.message.contains("epoch 3")), (ErrorCode::ApprovalMismatch, true), "{epoch}: {refused}");
    }
    let look = ToolCall { epoch: 5, waits: Waits::Decision, made_in: Some(3), ..next };
    assert_eq!(made_in(&broker.call(look.clone()).await.unwrap()), Some(3), "nobody has decided");
    broker.decide(DecideCall { epoch: 3, ..genuine(&made, "own") }).await.unwrap();
    // Whoever says that it made the call in another epoch has made another call.
    let other = ToolCall { made_in: Some(4), ..look.clone() };
    assert_eq!(code(&broker.call(other).await.unwrap()), ErrorCode::ApprovalDenied);
    assert_eq!(done.load(Ordering::SeqCst), 0);
    for again in [look.clone(), ToolCall { epoch: 6, ..look }] {
        assert_eq!(*broker.call(again).await.unwrap(), ToolAnswer::Ok { value: json!({ "paid": 1 }) }, "once, in whichever epoch");
    }
    broker.store_audit().await;
    let told: Vec<_> = audit(&store, "p/").await.into_iter().filter(|line| line["kind"] == "decision").collect();
    let told: Vec<_> = told.iter().map(|line| (line["epoch"].as_u64().unwrap(), line["status"].as_str().unwrap())).collect();
    assert_eq!(told, [(0, "ApprovalMismatch"), (2, "ApprovalMismatch"), (4, "ApprovalMismatch"), (3, "approved")]);
}

/// A tool that pays, and a fetch, under these rules.
fn rules(url: &str, approval: &str) -> Value {
    let egress = json!({ "host": url.trim_start_matches("http://"), "private": true, "methods": ["GET", "POST"], "paths": ["/*"], "approval": approval });
    json!({
        "services": [{ "name": "bank", "baseUrl": url, "allowedMethods": ["POST"] }],
        "tools": [{ "name": "pay", "service": "bank", "method": "POST", "path": "/pay", "approval": approval }],
        "egress": { "allow": [egress] },
    })
}

#[tokio::test]
async fn loosening_the_policy_never_releases_what_already_waits() {
    let (url, done) = counting().await;
    let store = Arc::new(Memory::new());
    let (strict, loose) = (rules(&url, "Always"), rules(&url, "Never"));
    let first = broker(&store, strict);
    let waiting = |answer: &ToolAnswer| matches!(answer, ToolAnswer::Parked { parked } if parked.waits_for.is_person());
    let args = json!({ "to": "a" });
    let calls: Vec<ToolCall> = (1..=3).map(|number| call(number, "pay", args.clone())).collect();
    for one in &calls {
        assert!(waiting(&first.call(one.clone()).await.unwrap()), "{one:?}");
    }
    let request =
        json!({ "method": "POST", "url": format!("{url}/pay"), "headers": [["content-type", "application/json"]], "body": "e30=" });
    let request = fetch(4, request);
    assert!(waiting(&fetched(&first, request.clone()).await));

    // The rule goes, in this process and in the next; in either the session asks anew, and its pod may not have heard that the call waits.
    first.reconfigure(&serde_json::from_value(loose.clone()).unwrap()).await.unwrap();
    let next = broker(&store, loose);
    for at in [&first, &next] {
        for (epoch, waits) in [(1, Waits::Decision), (2, Waits::No), (3, Waits::Decision)] {
            for one in &calls {
                let again = ToolCall { epoch, waits, repeated: true, ..one.clone() };
                assert!(waiting(&at.call(again).await.unwrap()), "{waits:?} {one:?}");
            }
            let again = FetchCall { call: ToolCall { epoch, waits, repeated: true, ..request.call.clone() }, ..request.clone() };
            assert!(waiting(&fetched(at, again).await), "{waits:?} fetch");
        }
    }
    assert_eq!(done.load(Ordering::SeqCst), 0, "nothing is released");

    // What comes under the new rule needs nobody, and what waits is decided about as ever.
    assert_eq!(
        *next.call(ToolCall { epoch: 3, ..call(5, "pay", args.clone()) }).await.unwrap(),
        ToolAnswer::Ok { value: json!({ "paid": 1 }) }
    );
    next.decide(genuine(&calls[0], "yes")).await.unwrap();
    next.decide(DecideCall { approve: false, ..genuine(&calls[1], "no") }).await.unwrap();
    let ask = |one: &ToolCall, waits: Waits| ToolCall { epoch: 3, waits, repeated: true, ..one.clone() };
    for waits in [Waits::No, Waits::Decision] {
        assert_eq!(*next.call(ask(&calls[0], waits)).await.unwrap(), ToolAnswer::Ok { value: json!({ "paid": 2 }) }, "once");
        assert_eq!(code(&next.call(ask(&calls[1], waits)).await.unwrap()), ErrorCode::ApprovalDenied);
    }
    assert_eq!(code(&next.call(ask(&calls[2], Waits::Over)).await.unwrap()), ErrorCode::ApprovalExpired);
    assert_eq!(done.load(Ordering::SeqCst), 2);

    // Who did what, as the bucket tells it.
    let by = Some("anna".to_owned());
    next.call(ToolCall { by: by.clone(), epoch: 3, ..call(6, "pay", args) }).await.unwrap();
    fetched(&next, FetchCall { call: ToolCall { by, epoch: 3, call: 7, ..request.call.clone() }, ..request }).await;
    next.store_audit().await;
    let lines = audit(&store, "p/").await;
    let told = |kind: &str, call: u64| {
        let line =
            lines.iter().find(|line| line["kind"] == kind && line["call"] == call).unwrap_or_else(|| panic!("{kind} {call}: {lines:?}"));
        assert_eq!(
            (line["namespace"].as_str(), line["session"].as_str(), line["sessionUid"].as_str()),
            (Some("team-a"), Some("analyst"), Some("u-1"))
        );
        (line["by"].clone(), line["status"].clone())
    };
    assert_eq!(told("decision", 1), (json!("somebody"), json!("approved")));
    assert_eq!(told("decision", 2), (json!("somebody"), json!("denied")));
    assert_eq!(told("call", 6), (json!("anna"), json!("ok")));
    assert_eq!(told("fetch", 7), (json!("anna"), json!("ok")));
    assert_eq!(told("call", 5), (json!(null), json!("ok")), "nobody's cell");
}

#[tokio::test]
async fn what_is_refused_is_told_of_and_a_look_at_what_waits_is_not() {
    let (url, done) = counting().await;
    let (store, metrics) = (Arc::new(Memory::new()), Metrics::new());
    let mut spec = rules(&url, "Always");
    let free = json!({ "name": "free", "service": "bank", "method": "POST", "path": "/pay" });
    spec["tools"].as_array_mut().unwrap().push(free);
    let broker = Broker::with_store(&serde_json::from_value(spec).unwrap(), secrets(), &metrics, Some(place(&store))).unwrap();
    let args = json!({ "to": "a" });
    let (one, two) = (call(1, "pay", args.clone()), call(2, "pay", args.clone()));
    let post = json!({ "method": "POST", "url": format!("{url}/pay"), "headers": [], "body": "e30=" });
    let request = fetch(3, post);
    let look = |of: &ToolCall| ToolCall { waits: Waits::Decision, repeated: true, ..of.clone() };
    for one in [&one, &two] {
        broker.call(one.clone()).await.unwrap();
    }
    fetched(&broker, request.clone()).await;
    for _ in 0..5 {
        assert!(matches!(*broker.call(look(&one)).await.unwrap(), ToolAnswer::Parked { .. }));
        let again = FetchCall { call: look(&request.call), ..request.clone() };
        assert!(matches!(fetched(&broker, again).await, ToolAnswer::Parked { .. }));
    }
    // Decisions that do not stand: a second one, one that changes what may not be changed, and one that is late.
    broker.decide(genuine(&one, "first")).await.unwrap();
    broker.decide(genuine(&one, "second")).await.unwrap_err();
    broker.decide(DecideCall { arguments: Some(args.clone()), ..genuine(&two, "edits") }).await.unwrap_err();
    broker.call(ToolCall { waits: Waits::Over, repeated: true, ..two.clone() }).await.unwrap();
    broker.decide(genuine(&two, "late")).await.unwrap_err();
    // Calls that are none: of another's number, and of an epoch that is over.
    broker.call(ToolCall { epoch: 2, ..call(4, "free", args.clone()) }).await.unwrap();
    broker.call(ToolCall { epoch: 2, ..call(4, "free", json!({ "to": "b" })) }).await.unwrap_err();
    broker.call(call(5, "free", args)).await.unwrap_err();
    broker.fetch(FetchCall { call: ToolCall { call: 6, args: json!(7), ..request.call.clone() }, ..request }).await.unwrap_err();
    assert_eq!(done.load(Ordering::SeqCst), 1);

    broker.store_audit().await;
    let told: Vec<(String, u64, String)> = audit(&store, "p/")
        .await
        .iter()
        .map(|line| {
            let text = |field: &str| line[field].as_str().unwrap().to_owned();
            (text("kind"), line["call"].as_u64().unwrap(), text("status"))
        })
        .collect();
    let wanted = [
        ("call", 1, "parked"),
        ("call", 2, "parked"),
        ("fetch", 3, "parked"),
        ("decision", 1, "approved"),
        ("decision", 1, "ApprovalUsed"),
        ("decision", 2, "Forbidden"),
        ("call", 2, "ApprovalExpired"),
        ("decision", 2, "ApprovalExpired"),
        ("call", 4, "ok"),
        ("call", 4, "Conflict"),
        ("call", 5, "SessionGone"),
        ("fetch", 6, "InvalidRequest"),
    ];
    assert_eq!(told, wanted.map(|(kind, call, status)| (kind.to_owned(), call, status.to_owned())));
    let counted = metrics.render().unwrap();
    assert!(counted.contains(r#"dormouse_broker_calls_total{outcome="parked",tool="pay"} 2"#), "{counted}");
}

fn fetch(number: u64, request: Value) -> FetchCall {
    let allow = serde_json::from_value(json!([{ "host": "*:*", "methods": ["GET", "POST"] }])).unwrap();
    FetchCall { call: call(number, FETCH, request), allow }
}

async fn fetched(broker: &Broker, call: FetchCall) -> ToolAnswer {
    ToolAnswer::clone(&*broker.fetch(call).await.unwrap())
}

fn status(answer: &ToolAnswer) -> u16 {
    let ToolAnswer::Ok { value } = answer else { panic!("{answer:?}") };
    match serde_json::from_value(value.clone()).unwrap() {
        FetchOutcome::Response(response) => response.status,
        FetchOutcome::Failed(failure) => panic!("{failure:?}"),
    }
}

fn code(answer: &ToolAnswer) -> ErrorCode {
    match answer {
        ToolAnswer::Err { error } => error.code,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_fetch_under_a_rule_that_asks_for_somebody_waits_as_a_call_does() {
    let web = Web::start().await.unwrap();
    let store = Arc::new(Memory::new());
    let rule = |methods: Value, paths: Value, approval: Value| json!({ "host": web.address.to_string(), "private": true, "methods": methods, "paths": paths, "approval": approval });
    let spec = json!({ "egress": { "allow": [
        rule(json!(["GET"]), json!(["/*"]), json!("Never")),
        rule(json!(["POST"]), json!(["/*"]), json!({ "when": "args.body != 'small' && args.path != '/free'", "editable": true, "expiresSeconds": 60 })),
        rule(json!(["GET"]), json!(["/status/*"]), json!("Always")),
    ] } });
    let broker = broker(&store, spec);
    let url = |path: &str| format!("{}{path}", web.url());
    let post = |body: &str| {
        use base64::Engine as _;
        json!({ "method": "POST", "url": url("/echo"), "body": base64::engine::general_purpose::STANDARD.encode(body) })
    };
    assert_eq!(status(&fetched(&broker, fetch(1, json!({ "method": "GET", "url": url("/echo") }))).await), 200, "it needs nobody");
    assert_eq!(status(&fetched(&broker, fetch(2, post("small"))).await), 200);
    let seen = web.seen().len();
    // Another session's list does not hold it: nobody is asked.
    let other = FetchCall { allow: Vec::new(), ..fetch(3, post("large")) };
    assert_eq!(code(&fetched(&broker, other).await), ErrorCode::EgressDenied);

    let large = fetch(4, post("large"));
    assert!(
        matches!(fetched(&broker, large.clone()).await, ToolAnswer::Parked { parked } if parked.editable && parked.expires_seconds == 60)
    );
    let again =
        |call: &FetchCall| FetchCall { call: ToolCall { waits: Waits::Decision, repeated: true, ..call.call.clone() }, ..call.clone() };
    assert!(matches!(fetched(&broker, again(&large)).await, ToolAnswer::Parked { .. }), "nobody has decided");
    assert_eq!(web.seen().len(), seen);
    // Changed to what no rule lets be changed, and to no request at all.
    for (changed, wanted) in
        [(json!({ "method": "GET", "url": url("/status/200") }), ErrorCode::Forbidden), (json!({ "url": 7 }), ErrorCode::ToolArgsInvalid)]
    {
        let decision = DecideCall { arguments: Some(changed), ..decision(4, FETCH, &large.call.args, "x") };
        assert_eq!(broker.decide(decision).await.unwrap_err().code, wanted);
    }
    let mut edited = post("edited");
    edited["url"] = json!(url("/echo?edited"));
    let changed = DecideCall { arguments: Some(edited), ..decision(4, FETCH, &large.call.args, "d-4") };
    broker.decide(changed).await.unwrap();
    let answer = fetched(&broker, again(&large)).await;
    assert_eq!(status(&answer), 200);
    assert_eq!(web.seen().last().map(String::as_str), Some("POST /echo?edited"), "what was agreed to was sent");
    assert_eq!(fetched(&broker, again(&large)).await, answer, "once");
    assert_eq!(web.seen().len(), seen + 1);

    let denied = fetch(5, post("large"));
    fetched(&broker, denied.clone()).await;
    broker.decide(DecideCall { approve: false, ..decision(5, FETCH, &denied.call.args, "d-5") }).await.unwrap();
    assert_eq!(code(&fetched(&broker, again(&denied)).await), ErrorCode::ApprovalDenied);
    let forged = fetch(6, post("large"));
    fetched(&broker, forged.clone()).await;
    broker.decide(decision(6, FETCH, &post("other"), "d-6")).await.unwrap();
    assert_eq!(code(&fetched(&broker, again(&forged)).await), ErrorCode::ApprovalDenied, "somebody saw another one");
    let over = fetch(7, post("large"));
    fetched(&broker, over.clone()).await;
    let late = FetchCall { call: ToolCall { waits: Waits::Over, repeated: true, ..over.call.clone() }, ..over.clone() };
    assert_eq!(code(&fetched(&broker, late).await), ErrorCode::ApprovalExpired);
    // A redirect is a request that nobody has seen.
    let away = fetch(8, json!({ "method": "GET", "url": url(&format!("/redirect/302?to={}", url("/status/200"))) }));
    assert_eq!(code(&fetched(&broker, away).await), ErrorCode::EgressDenied);
    assert_eq!(web.seen().iter().filter(|one| one.starts_with("GET /status")).count(), 0);
    assert_eq!(web.seen().len(), seen + 2);
}
