//! Tools of MCP servers: of one that speaks the newest revision, of one that wants to be introduced, and of the official SDK's.

use std::{
    collections::BTreeMap,
    process::Command,
    sync::{Arc, Mutex},
};

use axum::{
    Json, Router,
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse as _, Response},
    routing::post,
};
use dormouse_broker::{Broker, Secrets};
use dormouse_protocol::{
    ErrorCode,
    broker::{DecideCall, ToolAnswer, ToolCall, Waits},
};
use dormouse_service::Metrics;
use dormouse_store::Memory;
use dormouse_testkit::{
    process::{Process, free_port},
    wait::eventually,
};
use serde_json::{Value, json};

use crate::{
    approvals, packages,
    world::{call, failure, value},
};

/// A server of one revision, and what it was sent.
#[derive(Clone, Default)]
struct Server {
    /// It wants to be introduced, and calls sessions by this number.
    sessions: Option<Arc<Mutex<u64>>>,
    /// The token that it takes.
    token: Arc<Mutex<String>>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Server {
    async fn start(&self) -> String {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().route("/mcp", post(answer)).with_state(self.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        format!("http://{address}/mcp")
    }

    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut *self.asked.lock().unwrap())
    }
}

fn tools() -> Value {
    let input = json!({ "type": "object", "properties": { "city": { "type": "string" } }, "required": ["city"] });
    json!([
        { "name": "weather", "description": "Looks out of the window", "inputSchema": input, "annotations": { "readOnlyHint": true } },
        { "name": "rain", "inputSchema": input },
        { "name": "snow", "inputSchema": { "type": "object" } },
    ])
}

async fn answer(State(server): State<Server>, headers: HeaderMap, Json(message): Json<Value>) -> Response {
    let of = |name: &str| headers.get(name).map(|value| value.to_str().unwrap().to_owned()).unwrap_or_default();
    let method = message["method"].as_str().unwrap().to_owned();
    server.asked.lock().unwrap().push(method.clone());
    if of("authorization") != format!("Bearer {}", server.token.lock().unwrap()) {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    // It is offered nothing: neither sampling nor people's answers.
    let offered = match method.as_str() {
        "initialize" => &message["params"]["capabilities"],
        _ => &message["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"],
    };
    assert!(*offered == json!({}) || server.sessions.is_some() && method != "initialize", "{method}: {offered}");
    let rpc = |result: Value| json!({ "jsonrpc": "2.0", "id": message["id"], "result": result });
    if let Some(sessions) = &server.sessions {
        let session = format!("s-{}", sessions.lock().unwrap());
        if method == "initialize" {
            let told = rpc(json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": { "name": "old", "version": "1" } }));
            return ([("mcp-session-id", session)], Json(told)).into_response();
        }
        if of("mcp-session-id").is_empty() {
            let error = json!({ "jsonrpc": "2.0", "id": message["id"], "error": { "code": -32_000, "message": "introduce yourself" } });
            return (StatusCode::BAD_REQUEST, Json(error)).into_response();
        }
        if of("mcp-session-id") != session {
            return StatusCode::NOT_FOUND.into_response();
        }
        assert_eq!(of("mcp-protocol-version"), "2025-11-25");
    } else {
        assert_eq!(message["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
        assert_eq!((of("mcp-protocol-version"), of("mcp-method")), ("2026-07-28".to_owned(), method.clone()));
    }
    let arguments = &message["params"]["arguments"];
    let result = match method.as_str() {
        "notifications/initialized" => return StatusCode::ACCEPTED.into_response(),
        "tools/list" if message["params"]["cursor"].is_null() => json!({ "tools": [tools()[0]], "nextCursor": "more" }),
        "tools/list" => json!({ "tools": [tools()[1], tools()[2]] }),
        "resources/list" if message["params"]["cursor"].is_null() => json!({ "resources": [{ "uri": "file:///a" }], "nextCursor": "more" }),
        "resources/list" => json!({ "resources": [{ "uri": "file:///b" }] }),
        "resources/read" => json!({ "contents": [{ "uri": message["params"]["uri"], "text": "hello" }] }),
        "tools/call" if arguments["city"] == "Atlantis" => {
            json!({ "isError": true, "content": [{ "type": "text", "text": "it is under water" }] })
        }
        "tools/call" => json!({ "structuredContent": { "city": arguments["city"], "said": of("authorization") }, "content": [] }),
        other => panic!("{other}"),
    };
    // In the other form, behind something that the server has to say, and something that it wants a model to say. Nobody answers that.
    let sampling =
        json!({ "jsonrpc": "2.0", "id": message["id"], "method": "sampling/createMessage", "params": { "messages": [], "maxTokens": 1 } });
    let events = format!(
        "event: message\ndata: {{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\"}}\n\ndata: {sampling}\n\ndata: {}\n\n",
        rpc(result)
    );
    ([(header::CONTENT_TYPE, "text/event-stream")], events).into_response()
}

fn spec(url: &str, tools: &[&str]) -> dormouse_crds::broker::ToolBrokerSpec {
    let auth = json!({ "type": "bearer", "secretRef": { "name": "mcp", "key": "token" } });
    serde_json::from_value(json!({ "mcpServers": [{ "name": "weather", "url": url, "auth": auth, "tools": tools }] })).unwrap()
}

fn names(broker: &Broker) -> Vec<String> {
    broker.tools().into_iter().map(|tool| tool.name).collect()
}

async fn use_of(server: Server) {
    *server.token.lock().unwrap() = "first".to_owned();
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("mcp")).unwrap();
    let token = |text: &str| std::fs::write(folder.path().join("mcp/token"), text).unwrap();
    token("first");
    let url = server.start().await;
    let broker = Broker::new(spec(&url, &["weather", "ra*"]), Secrets::directory(folder.path())).unwrap();
    assert_eq!(broker.look_for_tools().await.unwrap(), Vec::<String>::new());
    assert_eq!(names(&broker), ["weather", "rain"], "of both pages, those that are named");
    server.asked();
    let answer = value(&broker, call(1, "weather", json!({ "city": "Bonn" }))).await;
    assert_eq!(answer, json!({ "city": "Bonn", "said": "Bearer [redacted]" }));
    server.asked();
    value(&broker, call(2, "rain", json!({ "city": "Bonn" }))).await;
    assert_eq!(server.asked(), ["tools/call"], "by now it is known how to speak to it");
    assert_eq!(failure(&broker, call(3, "weather", json!({}))).await.code, ErrorCode::ToolArgsInvalid);
    let failed = failure(&broker, call(4, "weather", json!({ "city": "Atlantis" }))).await;
    assert_eq!((failed.code, failed.message.as_str()), (ErrorCode::ToolResultInvalid, "the MCP server: it is under water"));
    server.asked();
    *server.token.lock().unwrap() = "second".to_owned();
    assert_eq!(failure(&broker, call(5, "rain", json!({ "city": "Bonn" }))).await.code, ErrorCode::ToolDenied);
    token("second");
    value(&broker, call(6, "rain", json!({ "city": "Bonn" }))).await;
    assert_eq!(server.asked(), ["tools/call"; 2], "a 401 is repeated where there is another credential");
    if let Some(sessions) = &server.sessions {
        *sessions.lock().unwrap() += 1;
        value(&broker, call(7, "rain", json!({ "city": "Bonn" }))).await;
        assert_eq!(
            server.asked(),
            ["tools/call", "tools/call", "initialize", "notifications/initialized", "tools/call"],
            "its session was over"
        );
    }
}

#[tokio::test]
async fn a_server_of_the_newest_revision_needs_no_introduction() {
    use_of(Server::default()).await;
}

#[tokio::test]
async fn a_server_of_before_is_introduced_to() {
    use_of(Server { sessions: Some(Arc::default()), ..Server::default() }).await;
}

#[tokio::test]
async fn resources_are_listed_and_read_where_the_spec_says_so() {
    let server = Server::default();
    *server.token.lock().unwrap() = "first".to_owned();
    let mut spec = spec(&server.start().await, &["rain"]);
    spec.mcp_servers[0].resources = true;
    let secrets = [("mcp".to_owned(), [("token".to_owned(), b"first".to_vec())].into_iter().collect())].into_iter().collect();
    let broker = Broker::new(spec, Secrets::memory(secrets)).unwrap();
    assert_eq!(broker.look_for_tools().await.unwrap(), Vec::<String>::new());
    assert_eq!(names(&broker), ["rain", "weather.resources", "weather.read"]);
    let listed = value(&broker, call(1, "weather.resources", json!({}))).await;
    assert_eq!(listed, json!([{ "uri": "file:///a" }, { "uri": "file:///b" }]), "of both pages");
    let read = value(&broker, call(2, "weather.read", json!({ "uri": "file:///b" }))).await;
    assert_eq!(read, json!([{ "uri": "file:///b", "text": "hello" }]));
    assert_eq!(failure(&broker, call(3, "weather.read", json!({ "path": "/b" }))).await.code, ErrorCode::ToolArgsInvalid);
}

#[tokio::test]
async fn one_that_cannot_be_asked_is_named_and_the_rest_is_served() {
    let mut spec: dormouse_crds::broker::ToolBrokerSpec =
        serde_json::from_value(json!({ "mcpServers": [{ "name": "gone", "url": "http://127.0.0.1:1/mcp" }] })).unwrap();
    spec.services.push(serde_json::from_value(json!({ "name": "s", "baseUrl": "http://localhost:1" })).unwrap());
    spec.tools.push(serde_json::from_value(json!({ "name": "here", "service": "s", "path": "/x" })).unwrap());
    let broker = Broker::new(spec, Secrets::memory(BTreeMap::new())).unwrap();
    let missing = broker.look_for_tools().await.unwrap();
    assert!(missing[0].starts_with("the tools of the MCP server `gone`: the service cannot be reached"), "{missing:?}");
    assert_eq!(names(&broker), ["here"]);
}

#[tokio::test]
async fn a_call_waits_for_a_person_where_the_spec_says_so() {
    let server = Server::default();
    *server.token.lock().unwrap() = "first".to_owned();
    let mut spec = spec(&server.start().await, &["rain"]);
    spec.mcp_servers[0].approval = serde_json::from_value(json!({ "when": "args.city != 'Bonn'", "editable": true })).unwrap();
    let secrets = [("mcp".to_owned(), [("token".to_owned(), b"first".to_vec())].into_iter().collect())].into_iter().collect();
    let place = approvals::place(&Arc::new(Memory::new()));
    let broker = Broker::with_store(&spec, Secrets::memory(secrets), &Metrics::new(), Some(place)).unwrap();
    assert_eq!(broker.look_for_tools().await.unwrap(), Vec::<String>::new());
    assert!(broker.tools()[0].approval, "code is told");
    assert_eq!(value(&broker, call(1, "rain", json!({ "city": "Bonn" }))).await["city"], "Bonn", "it needs nobody");
    server.asked();
    let waits = call(2, "rain", json!({ "city": "Rome" }));
    let parked = |answer: &ToolAnswer| matches!(answer, ToolAnswer::Parked { parked } if parked.editable && parked.waits_for.is_person());
    assert!(parked(&broker.call(waits.clone()).await.unwrap()));
    assert_eq!(server.asked(), Vec::<String>::new(), "the server has seen nothing");
    let decision = |arguments: Value| DecideCall { arguments: Some(arguments), ..approvals::decision(2, "rain", &waits.args, "d-2") };
    assert_eq!(broker.decide(decision(json!({}))).await.unwrap_err().code, ErrorCode::ToolArgsInvalid, "its inputSchema holds");
    broker.decide(decision(json!({ "city": "Oslo" }))).await.unwrap();
    let again = ToolCall { waits: Waits::Decision, repeated: true, ..waits };
    assert_eq!(value(&broker, again.clone()).await["city"], "Oslo", "what was agreed to");
    assert_eq!(value(&broker, again).await["city"], "Oslo");
    assert_eq!(server.asked(), ["tools/call"], "once");
}

/// What servers of both SDKs offer.
const TOOLS: &str = "
@server.tool()
def add(a: int, b: int) -> int:
    '''Adds'''
    return a + b
@server.tool()
def fail() -> str:
    raise ValueError('not today')
@server.resource('sums://seven')
def seven() -> str:
    return '7'
";

#[tokio::test]
async fn servers_of_the_python_sdks_of_both_eras_are_used() {
    let here = "host='127.0.0.1', port=int(sys.argv[1])";
    let earlier = (
        format!("from mcp.server.fastmcp import FastMCP\nserver = FastMCP('sums', {here})"),
        "server.run(transport='streamable-http')".into(),
    );
    let newest = (
        "from mcp.server.mcpserver import MCPServer\nserver = MCPServer('sums')".into(),
        format!("server.run(transport='streamable-http', {here})"),
    );
    for (package, (begin, run)) in [("mcp==1.25.0", earlier), ("mcp==2.3.0", newest)] {
        let Some(bin) = packages::python("mcp", &[package]) else { continue };
        let port = free_port().unwrap();
        let mut command = Command::new(bin.join("python"));
        command.args(["-c", &format!("import sys\n{begin}{TOOLS}{run}"), &port.to_string()]);
        let logs = tempfile::tempdir().unwrap();
        let _server = Process::start(command, &logs.path().join("server.log")).unwrap();
        let url = format!("http://127.0.0.1:{port}/mcp");
        let spec = serde_json::from_value(json!({ "mcpServers": [{ "name": "sums", "url": url, "resources": true }] })).unwrap();
        let broker = Broker::new(spec, Secrets::memory(BTreeMap::new())).unwrap();
        eventually("it starts", async || broker.look_for_tools().await.unwrap().is_empty()).await;
        assert_eq!(names(&broker), ["add", "fail", "sums.resources", "sums.read"], "{package}");
        assert_eq!(value(&broker, call(1, "add", json!({ "a": 2, "b": 3 }))).await, json!({ "result": 5 }), "{package}");
        let failed = failure(&broker, call(2, "fail", json!({}))).await;
        assert!(failed.message.starts_with("the MCP server: Error executing tool fail"), "{package}: {}", failed.message);
        let listed = value(&broker, call(3, "sums.resources", json!({}))).await;
        assert!(listed.to_string().contains("sums://seven"), "{package}: {listed}");
        let read = value(&broker, call(4, "sums.read", json!({ "uri": "sums://seven" }))).await;
        assert_eq!(read[0]["text"], "7", "{package}: {read}");
        let missing = failure(&broker, call(5, "add", json!({ "a": "two", "b": 3 }))).await;
        assert_eq!(missing.code, ErrorCode::ToolArgsInvalid, "{package}");
    }
}
