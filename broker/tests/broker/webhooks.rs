//! Messages about events: in virtual time, against receivers that fail, and checked with the published library.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
    time::Duration,
};

use base64::Engine as _;
use dormouse_broker::{Broker, BrokerStore, FetchClients, Secrets, Surroundings};
use dormouse_crds::webhooks::EventKind;
use dormouse_protocol::{
    ErrorCode,
    broker::{DeliveriesCall, Notice, RedeliverCall},
    eval::{EvalWebhook, SecretKeyRef},
    webhook::{Delivery, DeliveryState},
};
use dormouse_seal::Seal;
use dormouse_service::{
    Clock, Ids, Metrics,
    wire::{Http, SendError, Wire},
};
use dormouse_store::{Memory, SnapshotStore};
use futures::future::BoxFuture;
use serde_json::{Value, json};
use standardwebhooks::Webhook;

/// What lets a message in where it arrives.
const DOOR: &str = "Bearer let-me-in-4711";
const URL: &str = "http://events.acme.example/hook";

fn secret() -> String {
    format!("whsec_{}", base64::engine::general_purpose::STANDARD.encode("a key of four and twenty by"))
}

/// One message as the far side got it.
#[derive(Debug, Clone)]
struct Got {
    headers: http::HeaderMap,
    body: Vec<u8>,
}

impl Got {
    fn id(&self) -> String {
        self.headers["webhook-id"].to_str().unwrap().to_owned()
    }

    fn verified(&self) -> bool {
        Webhook::new(&secret()).unwrap().verify(&self.body, &self.headers).is_ok()
    }
}

/// Answers by the number of the request, from 0.
type Answer = Box<dyn Fn(usize) -> Option<u16> + Send + Sync>;

/// A far side. A request that has no answer hangs.
struct Receiver {
    answer: Answer,
    got: Mutex<Vec<(Got, Option<u16>)>>,
}

impl std::fmt::Debug for Receiver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Receiver")
    }
}

impl Wire for Receiver {
    fn carry(&self, request: reqwest::Request) -> BoxFuture<'static, Result<reqwest::Response, SendError>> {
        let body = request.body().and_then(reqwest::Body::as_bytes).unwrap_or_default().to_vec();
        let got = Got { headers: request.headers().clone(), body };
        let status = {
            let mut all = self.got.lock().unwrap();
            let status = (self.answer)(all.len());
            all.push((got, status));
            status
        };
        Box::pin(async move {
            match status {
                Some(0) => Err(SendError::Unreachable("nobody".into())),
                Some(status) => {
                    let mut response = http::Response::new(reqwest::Body::from("noted"));
                    *response.status_mut() = http::StatusCode::from_u16(status).unwrap();
                    Ok(response.into())
                }
                None => std::future::pending().await,
            }
        })
    }
}

struct World {
    store: Arc<Memory>,
    receiver: Arc<Receiver>,
    clock: Clock,
}

impl World {
    fn new(answer: impl Fn(usize) -> Option<u16> + Send + Sync + 'static) -> Self {
        dormouse_service::telemetry::install_tls_provider();
        let receiver = Receiver { answer: Box::new(answer), got: Mutex::default() };
        let clock = Clock::following_runtime("2030-01-01T00:00:00Z".parse().unwrap());
        Self { store: Arc::default(), receiver: Arc::new(receiver), clock }
    }

    /// A broker over the store: a replica, or the next process.
    fn broker(&self) -> Broker {
        self.with_headers(json!([])).unwrap()
    }

    /// The same, whose messages carry these headers; or what is wrong with them.
    fn with_headers(&self, headers: Value) -> Result<Broker, String> {
        let mut hook = json!({ "url": URL, "events": ["completed", "failed"], "secretRef": { "name": "events", "key": "secret" } });
        hook["secretHeaders"] = headers;
        let spec = json!({ "webhooks": [hook] });
        let place = BrokerStore {
            store: Arc::clone(&self.store) as Arc<dyn SnapshotStore>,
            prefix: "p/".to_owned(),
            namespace: "team-a".to_owned(),
            broker: "tools".to_owned(),
            seal: Arc::new(Seal::none()),
        };
        let values = [("secret", secret()), ("door", DOOR.to_owned()), ("torn", "a\nb".to_owned())];
        let values = values.map(|(key, value)| (key.to_owned(), value.into_bytes())).into_iter().collect();
        let secrets = Secrets::memory([("events".to_owned(), values)].into_iter().collect());
        let http = Http::over(reqwest::Client::builder().build().unwrap(), Arc::clone(&self.receiver) as Arc<dyn Wire>);
        let world = Surroundings { http, fetches: FetchClients::new().unwrap(), ids: Ids::random(), clock: self.clock };
        let broker = Broker::over(&serde_json::from_value(spec).unwrap(), secrets, &Metrics::new(), Some(place), world);
        broker.map_err(|error| error.to_string())
    }

    fn got(&self) -> Vec<(Got, Option<u16>)> {
        self.receiver.got.lock().unwrap().clone()
    }

    /// Waits until the broker has said so of its only message.
    async fn until(&self, broker: &Broker, holds: impl Fn(&Delivery) -> bool) -> Delivery {
        loop {
            if let [one] = &all(broker).await[..]
                && holds(one)
            {
                return one.clone();
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }
}

async fn all(broker: &Broker) -> Vec<Delivery> {
    let call = DeliveriesCall { namespace: "team-a".to_owned(), session: None, limit: 500 };
    broker.deliveries(&call).await.unwrap().items
}

fn notice(number: u64, event: EventKind) -> Notice {
    let data = json!({ "run": format!("r_{number}"), "cell": number });
    Notice {
        namespace: "team-a".to_owned(),
        session: "agent".to_owned(),
        session_uid: "u-1".to_owned(),
        number,
        key: None,
        event,
        time: "2030-01-01T00:00:00Z".to_owned(),
        data: data.as_object().unwrap().clone(),
        webhook: None,
    }
}

#[tokio::test(start_paused = true)]
async fn of_ten_thousand_messages_at_one_failure_in_five_none_is_lost() {
    const MESSAGES: u64 = 10_000;
    // Fails as nobody there, as too busy, and as broken.
    let world = World::new(|n| Some(if n % 5 == 3 { [0, 429, 503][n / 5 % 3] } else { 204 }));
    let broker = world.broker();
    for number in 1..=MESSAGES {
        broker.take_notice(notice(number, EventKind::Completed)).await.unwrap();
        if number % 7 == 0 {
            broker.take_notice(notice(number, EventKind::Completed)).await.unwrap();
        }
    }
    let delivering = tokio::spawn(broker.clone().keep_delivering());
    // Whoever is not reached by five attempts is reached by asking for it: nothing is forgotten.
    let mut asked = BTreeSet::new();
    loop {
        tokio::time::sleep(Duration::from_secs(60)).await;
        let mut seen: BTreeMap<String, (usize, usize)> = BTreeMap::new();
        for (got, status) in world.got() {
            let (tried, taken) = seen.entry(got.id()).or_default();
            (*tried, *taken) = (*tried + 1, *taken + usize::from(status == Some(204)));
        }
        for (id, _) in seen.iter().filter(|(_, (tried, taken))| *tried == 5 && *taken == 0) {
            if asked.insert(id.clone()) {
                let call = RedeliverCall { namespace: "team-a".to_owned(), id: id.clone() };
                while broker.redeliver(&call).await.is_err() {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
            }
        }
        if seen.len() == usize::try_from(MESSAGES).unwrap() && seen.values().all(|(_, taken)| *taken > 0) {
            break;
        }
    }
    assert!(asked.len() < 50, "one in three thousand fails five times: {}", asked.len());
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    delivering.abort();
    let mut by_id: BTreeMap<String, (Value, usize)> = BTreeMap::new();
    for (got, status) in world.got() {
        assert!(got.verified(), "{got:?}");
        let body: Value = serde_json::from_slice(&got.body).unwrap();
        let (before, taken) = by_id.entry(got.id()).or_insert_with(|| (body.clone(), 0));
        assert_eq!(*before, body, "every attempt says the same");
        *taken += usize::from(status == Some(204));
    }
    assert!(by_id.values().all(|(_, taken)| *taken == 1), "each is taken once");
    let runs: BTreeSet<&str> = by_id.values().map(|(body, _)| body["data"]["run"].as_str().unwrap()).collect();
    assert_eq!(runs.len(), usize::try_from(MESSAGES).unwrap());
    let one = &by_id.values().next().unwrap().0;
    assert_eq!(
        (&one["type"], &one["data"]["session"], &one["data"]["namespace"]),
        (&json!("completed"), &json!("agent"), &json!("team-a"))
    );
}

#[tokio::test(start_paused = true)]
async fn a_message_that_a_broker_took_is_delivered_by_the_next_whatever_it_was_doing() {
    // The first one ends while the far side does not answer.
    let world = World::new(|n| if n == 0 { None } else { Some(200) });
    let first = world.broker();
    first.take_notice(notice(1, EventKind::Failed)).await.unwrap();
    first.take_notice(notice(2, EventKind::ApprovalRequired)).await.unwrap();
    let trying = tokio::spawn(first.clone().keep_delivering());
    while world.got().is_empty() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    trying.abort();
    drop(first);
    let next = world.broker();
    let delivering = tokio::spawn(next.clone().keep_delivering());
    let delivered = world.until(&next, |it| it.state == DeliveryState::Delivered).await;
    delivering.abort();
    let got = world.got();
    assert!(
        got.len() >= 2 && got.iter().all(|(got, _)| got.id() == delivered.id && got.verified()),
        "nobody asked to be told of approvals"
    );
}

#[tokio::test(start_paused = true)]
async fn an_event_that_is_told_again_when_its_message_is_over_is_not_delivered_again() {
    let world = World::new(|_| Some(200));
    let broker = world.broker();
    broker.take_notice(notice(1, EventKind::Completed)).await.unwrap();
    let delivering = tokio::spawn(broker.clone().keep_delivering());
    world.until(&broker, |it| it.state == DeliveryState::Delivered).await;
    broker.take_notice(notice(1, EventKind::Completed)).await.unwrap();
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    assert_eq!((world.got().len(), all(&broker).await.len()), (1, 1));
    delivering.abort();
}

#[tokio::test(start_paused = true)]
async fn what_is_refused_is_told_so_and_is_delivered_again_on_request() {
    let world = World::new(|n| Some(if n == 0 { 410 } else { 200 }));
    let broker = world.broker();
    broker.take_notice(notice(1, EventKind::Completed)).await.unwrap();
    let delivering = tokio::spawn(broker.clone().keep_delivering());
    let failed = world.until(&broker, |it| it.state == DeliveryState::Failed).await;
    assert_eq!((failed.attempts.len(), failed.attempts[0].status, &failed.next_attempt_at), (1, Some(410), &None));
    tokio::time::sleep(Duration::from_secs(7_200)).await;
    assert_eq!(world.got().len(), 1, "gone is gone");
    let again = RedeliverCall { namespace: "team-a".to_owned(), id: failed.id.clone() };
    assert_eq!(broker.redeliver(&again).await.unwrap().state, DeliveryState::Pending);
    let delivered = world.until(&broker, |it| it.state == DeliveryState::Delivered).await;
    assert_eq!((delivered.id == failed.id, delivered.attempts.len()), (true, 2));
    for wrong in ["msg_0", "msg_../x", ""] {
        let call = RedeliverCall { namespace: "team-a".to_owned(), id: wrong.to_owned() };
        assert_eq!(broker.redeliver(&call).await.unwrap_err().code, ErrorCode::DeliveryNotFound, "{wrong}");
    }
    // It is kept for thirty days, and looked for once an hour.
    tokio::time::sleep(Duration::from_secs(29 * 24 * 3_600)).await;
    assert_eq!(all(&broker).await.len(), 1);
    tokio::time::sleep(Duration::from_secs(24 * 3_600 + 3_700)).await;
    assert!(all(&broker).await.is_empty() && world.store.list("p/t/team-a/webhooks/").await.unwrap().is_empty());
    delivering.abort();
}

#[tokio::test(start_paused = true)]
async fn a_cells_own_webhook_goes_to_public_addresses_and_is_signed_with_a_named_secret_only() {
    let world = World::new(|_| Some(200));
    let broker = world.broker();
    let delivering = tokio::spawn(broker.clone().keep_delivering());
    let cases = [
        ("http://127.0.0.1:9/hook", "events", "no public address"),
        ("http://169.254.169.254/latest", "events", "no public address"),
        ("http://[::ffff:10.0.0.1]/", "events", "no public address"),
        ("ftp://files.example/", "events", "only http and https"),
        ("http://other.example/hook", "widgets", "no webhook of the ToolBroker names this secret"),
    ];
    for (number, (url, secret, _)) in (1..).zip(cases) {
        let secret_ref = SecretKeyRef { name: secret.to_owned(), key: "secret".to_owned() };
        let own = Some(EvalWebhook { url: url.to_owned(), secret_ref });
        broker.take_notice(Notice { webhook: own, ..notice(number, EventKind::ApprovalRequired) }).await.unwrap();
    }
    let good = EvalWebhook {
        url: "http://other.example/hook".to_owned(),
        secret_ref: SecretKeyRef { name: "events".to_owned(), key: "secret".to_owned() },
    };
    broker.take_notice(Notice { webhook: Some(good), ..notice(99, EventKind::ApprovalRequired) }).await.unwrap();
    while all(&broker).await.iter().any(|it| it.state == DeliveryState::Pending) {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let ended = all(&broker).await;
    for (url, _, why) in &cases[..4] {
        let refused = ended.iter().find(|it| it.url == *url).unwrap();
        let said = refused.attempts[0].error.as_deref().unwrap_or_default();
        assert!(refused.state == DeliveryState::Failed && said.contains(why), "{url}: {said}");
    }
    assert!(ended.iter().any(|it| it.attempts[0].error.as_deref() == Some(cases[4].2)));
    let got = world.got();
    assert_eq!((got.len(), got[0].0.verified()), (1, true), "one was sent");
    delivering.abort();
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_forged_messages_are_refused_by_the_published_library() {
    let world = World::new(|_| Some(200));
    let broker = world.broker();
    broker.take_notice(notice(1, EventKind::Completed)).await.unwrap();
    let delivering = tokio::spawn(broker.clone().keep_delivering());
    world.until(&broker, |it| it.state == DeliveryState::Delivered).await;
    delivering.abort();
    let (genuine, _) = world.got().remove(0);
    assert!(genuine.verified());
    let signature = genuine.headers["webhook-signature"].to_str().unwrap().to_owned();
    for n in 0..10_000_usize {
        let mut forged = genuine.clone();
        match n % 4 {
            0 => {
                let at = n / 4 % forged.body.len();
                forged.body[at] ^= 1 << (n % 7);
            }
            1 => drop(forged.headers.insert("webhook-id", format!("msg_{n:032x}").parse().unwrap())),
            2 => {
                let time: i64 = genuine.headers["webhook-timestamp"].to_str().unwrap().parse().unwrap();
                forged.headers.insert("webhook-timestamp", (time + 1 + i64::try_from(n / 4 % 200).unwrap()).to_string().parse().unwrap());
            }
            _ => {
                // Behind `v1,`; one character that base64 knows for another.
                let at = 3 + n / 4 % (signature.len() - 5);
                let mut bytes = signature.clone().into_bytes();
                bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
                forged.headers.insert("webhook-signature", String::from_utf8(bytes).unwrap().parse().unwrap());
            }
        }
        assert!(!forged.verified(), "{n}: {forged:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_message_carries_headers_of_the_receivers_own_and_none_that_are_the_messages() {
    let of = |name: &str, key: &str| json!({ "name": name, "secretRef": { "name": "events", "key": key } });
    let world = World::new(|number| Some(if number == 0 { 503 } else { 204 }));
    let broker = world.with_headers(json!([of("Authorization", "door"), of("X-Tenant", "door")])).unwrap();
    let delivering = tokio::spawn(broker.clone().keep_delivering());
    broker.take_notice(notice(1, EventKind::Completed)).await.unwrap();
    let delivered = world.until(&broker, |one| one.state == DeliveryState::Delivered).await;
    let got = world.got();
    assert_eq!(got.len(), 2, "and once more after the first was refused");
    for (got, _) in &got {
        assert!(got.headers["authorization"] == DOOR && got.headers["x-tenant"] == DOOR);
        assert!(got.verified() && got.headers.get_all("webhook-id").iter().count() == 1);
        assert!(!String::from_utf8_lossy(&got.body).contains("let-me-in"));
    }
    assert!(!serde_json::to_string(&delivered).unwrap().contains("let-me-in"), "nobody is shown it: {delivered:?}");
    for key in world.store.list("p/").await.unwrap() {
        let stored = world.store.get(&key).await.unwrap().unwrap().bytes;
        assert!(!String::from_utf8_lossy(&stored).contains("let-me-in"), "{key}");
    }
    delivering.abort();

    for name in dormouse_crds::service::RESERVED_HEADERS.into_iter().chain(["Webhook-Signature", "not a name", ""]) {
        let wrong = world.with_headers(json!([of(name, "door")])).unwrap_err();
        assert!(wrong.contains("webhooks[0].secretHeaders[0].name"), "{name}: {wrong}");
    }
    let absent = world.with_headers(json!([of("X-Tenant", "absent")])).unwrap_err();
    assert!(absent.contains("webhooks[0].secretHeaders[0].secretRef"), "{absent}");
    let torn = world.with_headers(json!([of("X-Tenant", "torn")])).unwrap_err();
    assert!(torn.contains("webhooks[0].secretHeaders[0].secretRef") && torn.contains("torn") && !torn.contains("a\nb"), "{torn}");
}
