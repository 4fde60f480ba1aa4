//! Cells that POST their number to a service through real brokers: every number at most once, in the order of the session's log, and none that is
//! not in it.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::{Json, Router, extract::State, http::HeaderMap, routing::post};
use clap::Parser as _;
use dormouse_crds::broker::ToolBrokerSpec;
use dormouse_testkit::process::free_port;
use dormouse_testkit::random::Random;
use dormouse_testkit::soak;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::client::Client;
use super::kernel::{Cluster, Target};
use super::{Load, SESSIONS, SOAK_MAX, total};

/// Sends a random number to the service, and notes it with what came of that.
const CELL: &str = "{ const token = Math.random(); const entry = { token, outcome: 'none' }; (globalThis.log ??= []).push(entry); \
                    try { entry.outcome = (await callTool('post', { token })).seen } catch (error) { entry.outcome = error.name; entry.why = error.message } token }";
/// The flags of a broker process, one a line.
const BROKER_FLAGS: &str = "DORMOUSE_TEST_BROKER_FLAGS";
/// Kills of which one must have come while a call was under way.
const KILLS_TELLING_MIN: u64 = 50;
/// What the service takes for an answer, at most.
const SERVICE_DELAY_MAX: Duration = Duration::from_millis(8);

/// One POST as the service saw it.
#[derive(Debug, Clone)]
struct Posted {
    token: f64,
    key: String,
}

/// A service that counts.
#[derive(Clone)]
pub struct Service {
    posted: Arc<Mutex<Vec<Posted>>>,
    random: Arc<Mutex<Random>>,
}

/// What a session noted about one of its cells.
#[derive(Debug, serde::Deserialize)]
struct Noted {
    token: f64,
    outcome: Value,
    why: Option<String>,
}

impl Service {
    /// Starts it; its URL.
    pub async fn start() -> (Self, String) {
        let service = Self { posted: Arc::default(), random: Arc::new(Mutex::new(Random::new(3))) };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new().route("/post", post(count)).with_state(service.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        (service, url)
    }

    /// Whether every effect is one of a noted cell, once and in order. Answers effects, and why nobody knows the outcome of which calls.
    fn check(&self, logs: &[Vec<Noted>]) -> (usize, Vec<String>) {
        let posted = self.posted.lock().unwrap().clone();
        let (mut unknown, mut effects) = (Vec::new(), 0);
        for log in logs {
            let mine: Vec<&Posted> = posted.iter().filter(|posted| log.iter().any(|noted| noted.token == posted.token)).collect();
            let mut places = BTreeMap::new();
            for (place, posted) in mine.iter().enumerate() {
                let before = places.insert(posted.token.to_bits(), place);
                assert!(before.is_none(), "{posted:?} had two effects");
            }
            let mut last = None;
            for noted in log {
                let place = places.get(&noted.token.to_bits()).copied();
                assert!(place > last || place.is_none(), "{noted:?} had its effect after a later cell's: it was stale");
                last = place.or(last);
                match noted.outcome.as_str() {
                    None => assert!(noted.outcome == json!(1) && place.is_some(), "{noted:?} says that it was made"),
                    Some("OutcomeUnknown") => unknown.push(noted.why.clone().unwrap_or_default()),
                    // Given up by the broker while the service was making it.
                    Some("TimeoutError" | "ToolResultInvalid") => {}
                    // The last cell of a session may still await its answer.
                    Some("none") => assert_eq!(Some(noted.token), log.last().map(|last| last.token), "{noted:?}"),
                    Some(_) => panic!("{noted:?}"),
                }
            }
            effects += mine.len();
        }
        let strange: Vec<&Posted> = posted.iter().filter(|it| logs.iter().flatten().all(|noted| noted.token != it.token)).collect();
        assert!(strange.is_empty(), "effects of cells that no session has: {strange:?}");
        let keys: BTreeMap<&str, f64> = posted.iter().map(|posted| (posted.key.as_str(), posted.token)).collect();
        assert_eq!(keys.len(), posted.len(), "each call has a key of its own");
        (effects, unknown)
    }
}

async fn count(State(service): State<Service>, headers: HeaderMap, Json(body): Json<Value>) -> Json<Value> {
    let token = body["token"].as_f64().unwrap();
    let key = headers.get("idempotency-key").unwrap().to_str().unwrap().to_owned();
    let seen = {
        let mut posted = service.posted.lock().unwrap();
        posted.push(Posted { token, key });
        posted.iter().filter(|posted| posted.token == token).count()
    };
    let delay = service.random.lock().unwrap().duration(SERVICE_DELAY_MAX);
    tokio::time::sleep(delay).await;
    Json(json!({"seen": seen}))
}

/// A broker with one tool, `post`, that is this service.
pub fn spec(url: &str, timeout_ms: u64) -> ToolBrokerSpec {
    serde_json::from_value(json!({
        "services": [{"name": "s", "baseUrl": url, "allowedMethods": ["POST"]}],
        "tools": [{"name": "post", "service": "s", "method": "POST", "path": "/post", "timeoutMs": timeout_ms}],
    }))
    .unwrap()
}

/// This test binary as a broker process. See [`broker_process`].
pub fn broker_command(flags: &[&str]) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "processes::effects::broker_process", "--ignored", "--nocapture"]).env(BROKER_FLAGS, flags.join("\n"));
    command
}

#[test]
#[ignore = "the body of a broker process, which the tests start"]
fn broker_process() {
    let flags = std::env::var(BROKER_FLAGS).expect("it is started with the flags of a broker");
    let args = dormouse_broker::Args::parse_from(["dormouse-broker"].into_iter().chain(flags.lines()));
    dormouse_service::telemetry::install_tls_provider();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(dormouse_broker::run(args, CancellationToken::new())).unwrap();
}

/// What every session noted.
async fn logs(clients: &[Client], target: &Target) -> Vec<Vec<Noted>> {
    let mut logs = Vec::new();
    for client in clients {
        let log: Vec<Noted> = serde_json::from_value(client.value(target, "log").await).unwrap();
        let tokens: Vec<f64> = log.iter().map(|noted| noted.token).collect();
        assert_eq!(tokens[..client.tokens.len()], client.tokens, "{}", client.uid);
        assert!(tokens.len() <= client.tokens.len() + 1, "{}: {} cells for {} answers", client.uid, tokens.len(), client.tokens.len());
        logs.push(log);
    }
    logs
}

/// Each of the two kernel pods reaches another replica of the broker, so what one has done the other learns from the store.
#[tokio::test(flavor = "multi_thread")]
async fn stopped_replaced_and_woken_again_a_process_has_no_stale_effect() {
    let cluster = Arc::new(Cluster::start().await);
    let (service, url) = Service::start().await;
    let ports = [free_port().unwrap(), free_port().unwrap()];
    let spec = spec(&url, 5_000);
    let _brokers = [cluster.broker("broker-a", ports[0], &spec).await, cluster.broker("broker-b", ports[1], &spec).await];
    let at_broker = |n: usize| format!("127.0.0.1:{}", ports[n]);
    let kernels = [cluster.kernel_with("a", &at_broker(0)).await, cluster.kernel_with("b", &at_broker(1)).await];
    let (tell, at) = watch::channel(None);
    let mut load = Load::start(&cluster, &at, CELL);
    let (rounds, target) = load.taken_over(&tell, &kernels, Random::new(11), Duration::from_millis(25)).await;
    let clients = load.end().await;
    let (effects, unknown) = service.check(&logs(&clients, &target).await);
    assert!(unknown.is_empty(), "no broker ended, so each learns from the store what the other has done: {unknown:?}");
    soak::report(&format!(
        "SIGSTOP with effects: {rounds} owners stopped, replaced and continued before two replicas of a broker, {} cells acked over {SESSIONS} \
         sessions, {effects} POSTs, 0 of them stale, 0 doubled, 0 outcomes unknown",
        total(&clients, Client::acked),
    ));
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_in_the_middle_of_calls_a_broker_makes_none_twice() {
    let cluster = Arc::new(Cluster::start().await);
    let (service, url) = Service::start().await;
    let port = free_port().unwrap();
    let spec = spec(&url, 250);
    let kernel = cluster.kernel_with("a", &format!("127.0.0.1:{port}")).await;
    let (tell, at) = watch::channel(Some(kernel.target(1)));
    let mut broker = cluster.broker("broker", port, &spec).await;
    let mut load = Load::start(&cluster, &at, CELL);
    let (mut random, began, wanted) = (Random::new(13), Instant::now(), soak::count(6, 200));
    let mut kills = 0;
    while kills < wanted && began.elapsed() < SOAK_MAX {
        load.acks(SESSIONS as u64).await;
        tokio::time::sleep(random.duration(Duration::from_millis(10))).await;
        broker.kill();
        kills += 1;
        broker = cluster.broker("broker", port, &spec).await;
    }
    load.acks(SESSIONS as u64).await;
    let clients = load.end().await;
    drop(tell);
    let (effects, unknown) = service.check(&logs(&clients, &kernel.target(1)).await);
    // A few kills may all come between calls.
    assert!(!unknown.is_empty() || kills < KILLS_TELLING_MIN, "no kill of {kills} came while a call was under way");
    soak::report(&format!(
        "SIGKILL of a broker: {kills} processes killed, {} cells acked over {SESSIONS} sessions, {effects} POSTs, 0 doubled, {} outcomes \
         unknown",
        total(&clients, Client::acked),
        unknown.len(),
    ));
}
