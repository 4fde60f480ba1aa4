//! What is inside stays unreached, whatever a tenant writes and whatever a name server answers.
//!
//! The test runs itself again in a network of its own, where every address is this machine's: a connection to any address arrives at its listener, which
//! notes where to. Names are resolved by a real name server, which answers with inside addresses, in clothes, behind aliases, and second.

mod listener;
mod name_server;
mod urls;

use std::{
    net::{IpAddr, Ipv4Addr},
    process::Command,
    sync::Arc,
    time::Duration,
};

use dormouse_broker::{Broker, BrokerStore, Secrets};
use dormouse_crds::webhooks::EventKind;
use dormouse_protocol::{
    broker::{DeliveriesCall, FETCH, FetchCall, Notice},
    eval::{EvalWebhook, SecretKeyRef},
};
use dormouse_seal::Seal;
use dormouse_service::Metrics;
use dormouse_store::{Memory, SnapshotStore};
use dormouse_testkit::{again::again, wait::eventually};
use futures::StreamExt as _;
use serde_json::{Value, json};
use tokio::net::TcpStream;

use crate::world::call;
use listener::{Arrived, listen};
use name_server::serve_names;
use urls::{METADATA_V4, METADATA_V6, V4, V6, name_of, names, vectors};

/// Set for the run inside.
const INSIDE: &str = "DORMOUSE_TEST_INSIDE";
const NAME: &str = "inside::nothing_inside_is_connected_to";
/// The one address that may be reached, and its name.
const PUBLIC: Ipv4Addr = Ipv4Addr::new(93, 184, 216, 34);
const FRONT: &str = "front.example";
const SECRET: &str = "whsec_YSBrZXkgb2YgZm91ciBhbmQgdHdlbnR5IGJ5";
/// Every address is local; names come from the server of the test.
const NETWORK: &str = "ip link set lo up && ip route add local 0.0.0.0/0 dev lo && ip -6 route add local ::/0 dev lo && \
                       mount --bind \"$1\" /etc/resolv.conf && shift && exec \"$@\"";

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A URL of the public server that redirects to `url`.
fn by_way_of_front(url: &str) -> String {
    format!("http://{FRONT}/to/{}", hex(url.as_bytes()))
}

fn broker(spec: Value) -> Broker {
    let values = [
        ("secret".to_owned(), SECRET.as_bytes().to_vec()),
        ("clientId".to_owned(), b"id".to_vec()),
        ("clientSecret".to_owned(), b"s".to_vec()),
    ];
    let secrets = Secrets::memory([("keys".to_owned(), values.into_iter().collect())].into_iter().collect());
    let place = BrokerStore {
        store: Arc::new(Memory::new()) as Arc<dyn SnapshotStore>,
        prefix: String::new(),
        namespace: "team-a".to_owned(),
        broker: "tools".to_owned(),
        seal: Arc::new(Seal::none()),
    };
    Broker::with_store(&serde_json::from_value(spec).unwrap(), secrets, &Metrics::new(), Some(place)).unwrap()
}

fn secret() -> Value {
    json!({ "name": "keys", "key": "secret" })
}

/// Fetches each of these as a cell would, through rules that hold everything.
async fn fetch_all(urls: &[String], rule: Value) {
    let broker = broker(json!({ "egress": { "allow": [rule] } }));
    let allow: Vec<_> = serde_json::from_value(json!([{ "host": "*:*", "methods": ["GET", "POST"] }])).unwrap();
    let fetches = urls.iter().enumerate().map(|(n, url)| {
        let mut call = call(1, FETCH, json!({ "method": "GET", "url": url }));
        call.session_uid = format!("u-{n}");
        let call = FetchCall { call, allow: allow.clone() };
        let broker = broker.clone();
        async move {
            // Whether it fails, and how, is the cell's matter; a URL that is none may be refused as such.
            let _ = broker.fetch(call).await;
        }
    });
    futures::stream::iter(fetches).buffer_unordered(32).collect::<Vec<()>>().await;
}

/// Has the broker ask each of these URLs as what a ToolBroker names them for, with `egress` as its rules.
async fn ask_all_as_services(urls: &[String], egress: &Value) {
    let plain: Vec<&String> = urls.iter().filter(|url| !url.contains('@')).collect();
    let each = |make: &dyn Fn(usize, &str) -> Value| plain.iter().enumerate().map(|(n, url)| make(n, url)).collect::<Vec<Value>>();
    let service = |n: usize, base: &str, auth: Value| json!({ "name": format!("s{n}"), "baseUrl": base, "auth": auth, "direct": { "timeoutMs": 5_000 }, "retries": 0 });
    let front = format!("http://{FRONT}");
    let specs = [
        json!({ "services": each(&|n, url| service(n, url.trim_end_matches('/'), json!({}))) }),
        json!({ "services": each(&|n, url| service(n, &front, json!({ "type": "custom", "hook": { "url": url } }))) }),
        json!({ "services": each(&|n, url| service(n, &front, json!({ "type": "oauth2ClientCredentials", "tokenUrl": url, "secretRef": { "name": "keys" } }))) }),
    ];
    for mut spec in specs {
        spec["egress"] = egress.clone();
        let broker = broker(spec);
        let calls = (0..plain.len()).map(|n| {
            let mut call = call(1, "callService", json!({ "service": format!("s{n}"), "path": "/" }));
            call.session_uid = format!("u-{n}");
            let broker = broker.clone();
            async move { drop(broker.call(call).await) }
        });
        futures::stream::iter(calls).buffer_unordered(32).collect::<Vec<()>>().await;
    }
    let sources = json!({
        "services": [service(0, &front, json!({}))],
        "openapi": each(&|n, url| json!({ "name": format!("o{n}"), "service": "s0", "document": { "url": url } })),
        "knowledge": plain.chunks(64).enumerate().map(|(n, urls)| json!({ "name": format!("k{n}"), "urls": urls })).collect::<Vec<Value>>(),
        "mcpServers": each(&|n, url| json!({ "name": format!("m{n}"), "url": url, "timeoutMs": 5_000 })),
        "egress": egress,
    });
    drop(broker(sources).look_for_tools().await);
    let hooks = json!({
        "webhooks": each(&|_, url| json!({ "url": url, "events": ["completed"], "secretRef": secret() })), "egress": egress,
    });
    deliver(&broker(hooks), vec![notice(1, None)], plain.len()).await;
}

fn notice(number: u64, url: Option<&str>) -> Notice {
    let secret_ref = SecretKeyRef { name: "keys".to_owned(), key: "secret".to_owned() };
    Notice {
        namespace: "team-a".to_owned(),
        session: "agent".to_owned(),
        session_uid: "u-1".to_owned(),
        number,
        key: None,
        event: if url.is_some() { EventKind::ApprovalRequired } else { EventKind::Completed },
        time: String::new(),
        data: serde_json::Map::new(),
        webhook: url.map(|url| EvalWebhook { url: url.to_owned(), secret_ref }),
    }
}

/// Waits until every message was tried.
async fn deliver(broker: &Broker, notices: Vec<Notice>, messages: usize) {
    for notice in notices {
        broker.take_notice(notice).await.unwrap();
    }
    let delivering = tokio::spawn(broker.clone().keep_delivering());
    eventually("every message was tried", async || {
        let call = DeliveriesCall { namespace: "team-a".to_owned(), session: None, limit: 500 };
        let items = broker.deliveries(&call).await.unwrap().items;
        items.len() == messages && items.iter().all(|item| !item.attempts.is_empty())
    })
    .await;
    delivering.abort();
}

async fn all_of_it() {
    let arrived = Arrived::default();
    tokio::spawn(serve_names());
    for port in [80, 443, 8_080] {
        listen(port, Arc::clone(&arrived)).await;
    }
    // The listener sees what goes inside, or it would prove nothing.
    for inside in ["10.0.0.1:80", "169.254.169.254:443", "[fd00:ec2::254]:8080", "[64:ff9b::a9fe:a9fe]:80", "[::1]:80"] {
        drop(TcpStream::connect(inside).await.unwrap_or_else(|error| panic!("{inside}: {error}")));
    }
    for name in [name_of("at", IpAddr::from([10, 0, 0, 1])), name_of("alias", IpAddr::from([10, 0, 0, 1]))] {
        let found: Vec<_> = tokio::net::lookup_host((name.as_str(), 80)).await.unwrap().map(|address| address.ip()).collect();
        assert_eq!(found, [IpAddr::from([10, 0, 0, 1])], "{name}");
    }
    eventually("they are seen", async || arrived.lock().unwrap().len() == 5).await;
    arrived.lock().unwrap().clear();

    let direct = vectors();
    assert!(direct.len() >= 300, "{}", direct.len());
    let redirected: Vec<String> = direct.iter().map(|url| by_way_of_front(url)).collect();
    let everything = json!({ "host": "*:*", "methods": ["GET", "POST"] });
    let outside = |what: &str, least: usize| {
        let arrived: Vec<IpAddr> = std::mem::take(&mut *arrived.lock().unwrap());
        let inside: Vec<&IpAddr> = arrived.iter().filter(|address| **address != IpAddr::V4(PUBLIC)).collect();
        assert!(inside.is_empty(), "{what}: {inside:?}");
        assert!(arrived.len() >= least, "{what}: {} arrived at the public address, which shows that it was tried", arrived.len());
    };
    // What of them has the public address, too, is reached there.
    let also_public = direct.iter().filter(|url| url.contains("both-") || url.contains("later-")).count();
    fetch_all(&direct, everything.clone()).await;
    outside("fetch", also_public / 2);
    fetch_all(&direct, everything.clone()).await;
    outside("fetch, again: names have moved inside", 1);
    fetch_all(&redirected, everything).await;
    outside("redirects of fetch", direct.len());
    for chunk in direct.chunks(400) {
        let notices: Vec<Notice> = (1..).zip(chunk).map(|(number, url)| notice(number, Some(url))).collect();
        deliver(
            &broker(json!({ "webhooks": [{ "url": format!("http://{FRONT}/"), "events": ["completed"], "secretRef": secret() }] })),
            notices,
            chunk.len(),
        )
        .await;
    }
    outside("webhooks of cells", 1);
    for chunk in redirected.chunks(400) {
        ask_all_as_services(chunk, &json!({})).await;
    }
    outside("redirects of services, hooks, tokens, documents, bases, MCP servers and webhooks", direct.len() * 6);

    // A name may come to stand for what is inside, wherever it is written; `later` does while it is looked at.
    let mut named: Vec<String> = direct.iter().filter(|url| url.contains(".evil.example")).cloned().collect();
    // `::` is also what 0.0.0.0 is in clothes; a message goes to a URL once.
    named.sort();
    named.dedup();
    assert!(named.len() >= 200, "{}", named.len());
    for chunk in named.chunks(400) {
        ask_all_as_services(chunk, &json!({})).await;
    }
    outside("names of services, hooks, tokens, documents, bases, MCP servers and webhooks", 1);

    // An administrator may name what is private, but not where clouds keep their metadata.
    let metadata: Vec<IpAddr> = V4[METADATA_V4..]
        .iter()
        .map(|octets| IpAddr::from(*octets))
        .chain(V6[METADATA_V6..METADATA_V6 + 2].iter().map(|text| text.parse().unwrap()))
        .collect();
    let names: Vec<String> = metadata.into_iter().flat_map(names).map(|host| format!("http://{host}/")).collect();
    fetch_all(&names, json!({ "host": "*.evil.example", "private": true })).await;
    outside("fetch by a rule for private addresses", 1);
    ask_all_as_services(&names, &json!({ "allow": [{ "host": "*.evil.example", "private": true }] })).await;
    outside("services and all the others at the addresses of metadata", 1);
}

#[test]
fn nothing_inside_is_connected_to() {
    if std::env::var_os(INSIDE).is_some() {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        return runtime.block_on(async { tokio::time::timeout(Duration::from_secs(500), all_of_it()).await.expect("it ends") });
    }
    let dir = tempfile::tempdir().unwrap();
    let names = dir.path().join("resolv.conf");
    std::fs::write(&names, "nameserver 127.0.0.1\noptions timeout:5\n").unwrap();
    let mut inside = Command::new("unshare");
    inside.args(["--map-root-user", "--net", "--mount", "sh", "-c", NETWORK, "sh"]).arg(&names).env(INSIDE, "yes");
    again(inside, NAME).unwrap();
}
