//! Documents that sessions search and read: from a ConfigMap, from the bucket and from URLs, and nothing beside them.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use axum::{Router, extract::State, http::StatusCode, response::IntoResponse as _, routing::get};
use bytes::Bytes;
use dormouse_broker::{Broker, BrokerStore, ConfigError, Secrets};
use dormouse_protocol::ErrorCode;
use dormouse_seal::Seal;
use dormouse_service::Metrics;
use dormouse_store::{Condition, Memory, SnapshotStore};
use serde_json::{Value, json};

use crate::world::{call, failure, value};

const GUIDE: &str =
    "# Tea\nAll about it.\n## Brewing\nGreen tea wants 70 degrees.\n### Longer\nThree minutes.\n## Prices\nA cup costs two.\n";

const WIKI_TOKEN: &str = "a-token-of-the-wiki";

fn broker_in(store: &Arc<Memory>, knowledge: Value) -> Result<Broker, ConfigError> {
    let map = [("guide.md", GUIDE), ("prices.csv", "tea,price\ngreen,2\nblack,3\n"), ("logo.png", "?")];
    let map = map.into_iter().map(|(name, text)| (name.to_owned(), text.as_bytes().to_vec())).collect();
    let wiki = [("token".to_owned(), WIKI_TOKEN.as_bytes().to_vec())].into_iter().collect();
    let secrets = Secrets::memory([("wiki".to_owned(), wiki)].into_iter().collect())
        .with_config_maps([("docs".to_owned(), map)].into_iter().collect());
    let place = BrokerStore {
        store: Arc::clone(store) as Arc<dyn SnapshotStore>,
        prefix: "p/".to_owned(),
        namespace: "team-a".to_owned(),
        broker: "tools".to_owned(),
        seal: Arc::new(Seal::none()),
    };
    Broker::with_store(&serde_json::from_value(json!({ "knowledge": knowledge })).unwrap(), secrets, &Metrics::new(), Some(place))
}

async fn broker(store: &Arc<Memory>, knowledge: Value) -> (Broker, Vec<String>) {
    let broker = broker_in(store, knowledge).unwrap();
    let missing = broker.look_for_tools().await.unwrap();
    (broker, missing)
}

fn from_map() -> Value {
    json!([{ "name": "docs", "description": "About tea", "configMapRef": { "name": "docs" } }])
}

#[tokio::test]
async fn passages_are_found_with_where_they_stand_and_are_read_there() {
    let (broker, missing) = broker(&Arc::new(Memory::new()), from_map()).await;
    assert!(missing.len() == 1 && missing[0].contains("logo.png"), "{missing:?}");
    let listed = value(&broker, call(1, "knowledge.list", json!({}))).await;
    assert_eq!(
        listed[0],
        json!({ "base": "docs", "document": "guide.md", "title": "Tea", "bytes": GUIDE.len(),
                "sections": ["Tea", "Tea > Brewing", "Tea > Brewing > Longer", "Tea > Prices"] })
    );
    let found = value(&broker, call(2, "knowledge.search", json!({ "query": "how many degrees for green tea?" }))).await;
    assert_eq!((&found[0]["document"], &found[0]["section"]), (&json!("guide.md"), &json!("Tea > Brewing")), "{found}");
    let (start, end) = (found[0]["start"].as_u64().unwrap(), found[0]["end"].as_u64().unwrap());
    let read = async |number, args| value(&broker, call(number, "knowledge.read", args)).await;
    let part = read(3, json!({ "base": "docs", "document": "guide.md", "start": start, "end": end })).await;
    assert_eq!(part["text"], found[0]["snippet"]);
    assert_eq!(read(4, json!({ "base": "docs", "document": "guide.md" })).await["text"], json!(GUIDE));
    let section = read(5, json!({ "base": "docs", "document": "guide.md", "section": "Tea > Brewing" })).await;
    assert_eq!(section["text"], json!("## Brewing\nGreen tea wants 70 degrees.\n### Longer\nThree minutes.\n"), "with what is below it");
    let row = value(&broker, call(6, "knowledge.search", json!({ "query": "black price", "limit": 1, "base": "docs" }))).await;
    assert!(row[0]["snippet"].as_str().unwrap().contains("tea: black; price: 3") && row[1].is_null(), "{row}");
    assert_eq!(value(&broker, call(7, "knowledge.search", json!({ "query": "zebra" }))).await, json!([]));
    let listed = value(&broker, call(8, "tools.list", json!({}))).await;
    let names: Vec<&str> = listed.as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["knowledge.search", "knowledge.read", "knowledge.list"]);
    // What a search calls a passage is enough to read it.
    assert_eq!(found[0]["ref"], "docs/guide.md#Tea > Brewing");
    assert_eq!(read(9, json!({ "ref": found[0]["ref"] })).await["text"], section["text"]);
    assert_eq!(read(10, json!({ "ref": "docs/guide.md" })).await["text"], json!(GUIDE));
    for (number, wrong) in (11..).zip(["docs/other.md", "docs/guide.md#Coffee", "other/guide.md", "docs", "/guide.md", "../docs/guide.md"])
    {
        let refused = failure(&broker, call(number, "knowledge.read", json!({ "ref": wrong }))).await;
        assert_eq!(refused.code, ErrorCode::FileNotFound, "{wrong}");
    }
    for (number, wrong) in
        (21..).zip([json!({}), json!({ "ref": "docs/guide.md", "base": "docs", "document": "guide.md" }), json!({ "base": "docs" })])
    {
        assert_eq!(failure(&broker, call(number, "knowledge.read", wrong)).await.code, ErrorCode::ToolArgsInvalid);
    }
    let both = value(&broker, call(31, "knowledge.search", json!({ "query": "black price", "bases": ["docs"] }))).await;
    assert_eq!(both[0], row[0]);
    let unknown = failure(&broker, call(32, "knowledge.search", json!({ "query": "black", "bases": ["theirs"] }))).await;
    assert_eq!(unknown.code, ErrorCode::ToolArgsInvalid);
}

#[tokio::test]
async fn what_no_base_names_is_not_there_whatever_is_written() {
    let store = Arc::new(Memory::new());
    for (key, text) in [
        ("p/t/team-a/knowledge/hr/a.md", "# Leave\nmine"),
        ("p/t/team-a/knowledge/hr/more/b.txt", "leave below"),
        ("p/t/team-a/knowledge/hr-secret/c.md", "leave secret"),
        ("p/t/team-b/knowledge/hr/d.md", "leave theirs"),
        ("p/t/team-a/b/u-1/calls", "leave page"),
        ("p/t/team-a/knowledge/hr/", ""),
    ] {
        store.put(key, Bytes::from_static(text.as_bytes()), Condition::None).await.unwrap();
    }
    let (broker, missing) = broker(&store, json!([{ "name": "hr", "prefix": "hr" }])).await;
    assert!(missing.is_empty(), "{missing:?}");
    let found = value(&broker, call(1, "knowledge.search", json!({ "query": "leave", "limit": 50 }))).await;
    let mut names: Vec<&str> = found.as_array().unwrap().iter().map(|one| one["document"].as_str().unwrap()).collect();
    names.sort_unstable();
    assert_eq!(names, ["a.md", "more/b.txt"]);
    for (number, document) in
        (2..).zip(["../hr-secret/c.md", "hr-secret/c.md", "/etc/passwd", "a.md/", "../../../b/u-1/calls", "..%2fhr-secret/c.md"])
    {
        let refused = failure(&broker, call(number, "knowledge.read", json!({ "base": "hr", "document": document }))).await;
        assert_eq!(refused.code, ErrorCode::FileNotFound, "{document}");
    }
    // One that is too large is told of, and takes nobody the others.
    let large = Bytes::from(vec![b'x'; dormouse_crds::knowledge::KNOWLEDGE_DOCUMENT_BYTES_MAX + 1]);
    store.put("p/t/team-a/knowledge/hr/large.txt", large, Condition::None).await.unwrap();
    let missing = broker.look_for_tools().await.unwrap();
    assert!(missing.len() == 1 && missing[0].contains("`large.txt` has more than"), "{missing:?}");
    let read = |args: Value| async { failure(&broker, call(50 + args.to_string().len() as u64, "knowledge.read", args)).await.code };
    assert_eq!(read(json!({ "base": "other", "document": "a.md" })).await, ErrorCode::ToolArgsInvalid);
    assert_eq!(read(json!({ "base": "hr", "document": "a.md", "section": "x" })).await, ErrorCode::FileNotFound);
    assert_eq!(read(json!({ "base": "hr", "document": "a.md", "start": 9, "end": 8 })).await, ErrorCode::RangeNotSatisfiable);
    assert_eq!(read(json!({ "base": "hr", "document": "a.md", "end": 1_000 })).await, ErrorCode::RangeNotSatisfiable);
    for prefix in ["..", "hr/../..", "/hr", "hr/", "a//b", "hr secret"] {
        let refused = broker_in(&store, json!([{ "name": "hr", "prefix": prefix }])).unwrap_err().to_string();
        assert!(refused.contains("spec.knowledge[0].prefix"), "{prefix}: {refused}");
    }
    for wrong in [json!([{ "name": "a" }]), json!([{ "name": "a", "prefix": "a", "urls": ["http://a.example/"] }])] {
        assert!(broker_in(&store, wrong).unwrap_err().to_string().contains("write configMapRef, prefix or urls"));
    }
}

#[tokio::test]
async fn a_session_that_names_bases_or_folders_reaches_nothing_else() {
    let store = Arc::new(Memory::new());
    for (key, text) in [
        ("hr/leave/a.md", "# Leave\nmine"),
        ("hr/pay/b.md", "leave pay"),
        ("hr/leave-secret/c.md", "leave secret"),
        ("law/d.md", "leave law"),
    ] {
        store.put(&format!("p/t/team-a/knowledge/{key}"), Bytes::from_static(text.as_bytes()), Condition::None).await.unwrap();
    }
    let (broker, missing) = broker(&store, json!([{ "name": "hr", "prefix": "hr" }, { "name": "law", "prefix": "law" }])).await;
    assert!(missing.is_empty(), "{missing:?}");
    let ask = |number, tool: &str, args: Value, named: &[&str]| {
        let knowledge = Some(named.iter().map(|name| (*name).to_owned()).collect());
        dormouse_protocol::broker::ToolCall { knowledge, ..call(number, tool, args) }
    };
    let documents = |found: &Value| {
        let mut names: Vec<String> = found.as_array().unwrap().iter().map(|one| one["document"].as_str().unwrap().to_owned()).collect();
        names.sort_unstable();
        names
    };
    let cases: [(&[&str], &[&str]); 4] = [
        (&["hr"], &["leave-secret/c.md", "leave/a.md", "pay/b.md"]),
        (&["hr/leave", "law"], &["d.md", "leave/a.md"]),
        (&["hr/pay/b.md"], &["pay/b.md"]),
        (&[], &[]),
    ];
    for (number, (named, wanted)) in (1..).step_by(2).zip(cases) {
        // As many are asked for as there are: what is not the session's takes no place from what is.
        let limit = wanted.len().max(1);
        let found = value(&broker, ask(number, "knowledge.search", json!({ "query": "leave", "limit": limit }), named)).await;
        assert_eq!(documents(&found), wanted, "{named:?}");
        let listed = value(&broker, ask(number + 1, "knowledge.list", json!({}), named)).await;
        assert_eq!(documents(&listed), wanted, "{named:?}");
    }
    let leave = ["hr/leave"];
    let mine = value(&broker, ask(21, "knowledge.read", json!({ "ref": "hr/leave/a.md#Leave" }), &leave)).await;
    assert_eq!(mine["text"], "# Leave\nmine");
    for (number, (tool, args)) in (22..).zip([
        ("knowledge.read", json!({ "ref": "hr/pay/b.md" })),
        ("knowledge.read", json!({ "base": "hr", "document": "leave-secret/c.md" })),
        ("knowledge.read", json!({ "base": "law", "document": "d.md" })),
        ("knowledge.read", json!({ "ref": "law/d.md" })),
        ("knowledge.search", json!({ "query": "leave", "bases": ["hr", "law"] })),
        ("knowledge.list", json!({ "base": "law" })),
    ]) {
        assert_eq!(failure(&broker, ask(number, tool, args.clone(), &leave)).await.code, ErrorCode::FileNotFound, "{tool} {args}");
    }
}

#[tokio::test]
async fn documents_are_looked_for_again_and_what_is_away_leaves_what_was_there() {
    let away = Arc::new(AtomicBool::new(false));
    let page = async |State(away): State<Arc<AtomicBool>>| match away.load(Ordering::SeqCst) {
        true => StatusCode::BAD_GATEWAY.into_response(),
        false => axum::response::Response::builder()
            .header("content-type", "text/html")
            .body(axum::body::Body::from("<h1>Opening hours</h1><p>From <b>nine</b> to five</p><script>nine()</script>"))
            .unwrap(),
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hours", listener.local_addr().unwrap());
    let routes = Router::new().route("/hours", get(page)).with_state(Arc::clone(&away));
    tokio::spawn(async move { axum::serve(listener, routes).await });
    let (broker, missing) = broker(&Arc::new(Memory::new()), json!([{ "name": "site", "urls": [url] }])).await;
    assert!(missing.is_empty(), "{missing:?}");
    let search = async |number| value(&broker, call(number, "knowledge.search", json!({ "query": "nine" }))).await;
    let found = search(1).await;
    assert_eq!((&found[0]["document"], &found[0]["section"]), (&json!(url), &json!("Opening hours")));
    assert_eq!(found[0]["snippet"], json!("Opening hours\nFrom nine to five\n"));
    away.store(true, Ordering::SeqCst);
    assert_eq!(broker.look_for_tools().await.unwrap().len(), 1);
    assert_eq!(search(2).await, found, "as it was");
    let (broker, missing) = self::broker(&Arc::new(Memory::new()), json!([{ "name": "site", "urls": [url] }])).await;
    assert!(missing[0].contains("502"), "{missing:?}");
    assert_eq!(failure(&broker, call(1, "knowledge.read", json!({ "base": "site", "document": url }))).await.code, ErrorCode::FileNotFound);
}

#[tokio::test]
async fn urls_are_asked_with_the_headers_of_their_base_and_nothing_of_them_is_told() {
    let page =
        async |headers: axum::http::HeaderMap| match headers.get("x-wiki-token").map(|token| token.as_bytes() == WIKI_TOKEN.as_bytes()) {
            Some(true) => ([("content-type", "text/plain")], format!("nine, asked with {WIKI_TOKEN}")).into_response(),
            _ => StatusCode::UNAUTHORIZED.into_response(),
        };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/page.txt", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, Router::new().route("/page.txt", get(page))).await });
    let store = Arc::new(Memory::new());
    let headers = |secret: &str, key: &str| json!([{ "name": "X-Wiki-Token", "secretRef": { "name": secret, "key": key } }]);
    let (broker, missing) = broker(&store, json!([{ "name": "wiki", "urls": [url], "secretHeaders": headers("wiki", "token") }])).await;
    assert!(missing.is_empty(), "{missing:?}");
    let found = value(&broker, call(1, "knowledge.search", json!({ "query": "nine" }))).await;
    assert_eq!(found[0]["ref"], format!("wiki/{url}"));
    assert_eq!(found[0]["snippet"], "nine, asked with [redacted]", "a page that shows its request");
    let (_, missing) = self::broker(&store, json!([{ "name": "wiki", "urls": [url] }])).await;
    assert!(missing[0].contains("401"), "{missing:?}");
    for (secret, key) in [("gone", "token"), ("wiki", "gone")] {
        let spec = json!([{ "name": "wiki", "urls": [url], "secretHeaders": headers(secret, key) }]);
        let refused = broker_in(&store, spec).unwrap_err().to_string();
        assert!(refused.contains("spec.knowledge[0].secretHeaders"), "{refused}");
    }
}

#[tokio::test]
async fn so_many_documents_of_such_a_size_and_no_more() {
    use dormouse_crds::knowledge::{DOCUMENTS_MAX, KNOWLEDGE_DOCUMENT_BYTES_MAX};
    let store = Arc::new(Memory::new());
    for n in 0..=DOCUMENTS_MAX {
        store.put(&format!("p/t/team-a/knowledge/many/{n:05}.txt"), Bytes::from(format!("word{n}")), Condition::None).await.unwrap();
    }
    let word = |bytes: usize| Bytes::from("ab ".repeat(bytes / 3 + 1)).slice(..bytes);
    store.put("p/t/team-a/knowledge/large/fits.txt", word(KNOWLEDGE_DOCUMENT_BYTES_MAX), Condition::None).await.unwrap();
    store.put("p/t/team-a/knowledge/large/not.txt", word(KNOWLEDGE_DOCUMENT_BYTES_MAX + 1), Condition::None).await.unwrap();
    let (broker, missing) = broker(&store, json!([{ "name": "many", "prefix": "many" }, { "name": "large", "prefix": "large" }])).await;
    assert_eq!(missing.len(), 2, "{missing:?}");
    assert!(missing[0].contains("02000.txt") && missing[1].contains("not.txt"), "{missing:?}");
    let listed = value(&broker, call(1, "knowledge.list", json!({ "base": "large" }))).await;
    assert_eq!((listed[0]["bytes"].as_u64(), listed[1].is_null()), (Some(KNOWLEDGE_DOCUMENT_BYTES_MAX as u64), true));
    assert_eq!(value(&broker, call(2, "knowledge.search", json!({ "query": "word1999" }))).await[0]["document"], json!("01999.txt"));
    let refused = failure(&broker, call(3, "knowledge.search", json!({ "query": "x".repeat(4_097) }))).await;
    assert_eq!(refused.code, ErrorCode::ToolArgsInvalid);
    assert_eq!(failure(&broker, call(4, "knowledge.search", json!({ "query": "x", "limit": 51 }))).await.code, ErrorCode::ToolArgsInvalid);
}
