//! A session's own MCP server: what its functions ask their client, which may come back to another process; what they print; and what changes.

use std::{cell::Cell, time::Duration};

use crate::support::Dev;
use futures::StreamExt as _;
use serde_json::{Value, json};

const OWN: &str = "/v1/namespaces/default/sessions/s/mcp";
const STATELESS: &str = "2026-07-28";
const STATEFUL: &str = "2025-11-25";
const WAIT: Duration = Duration::from_secs(60);

/// A client of a server.
pub(crate) struct Client {
    http: reqwest::Client,
    url: String,
    /// What it says that it can.
    can: Value,
    session: Option<String>,
    requests: Cell<u64>,
}

impl Client {
    pub(crate) fn new(dev: &Dev, can: Value) -> Self {
        dormouse_service::telemetry::install_tls_provider();
        let http = reqwest::Client::builder().timeout(WAIT).build().unwrap();
        Self { http, url: format!("{}{OWN}", dev.server), can, session: None, requests: Cell::new(0) }
    }

    /// One that has begun as revisions before the stateless one have it.
    async fn begun(dev: &Dev, can: Value) -> Self {
        let mut client = Self::new(dev, can);
        let params = json!({ "protocolVersion": STATEFUL, "capabilities": client.can, "clientInfo": { "name": "test", "version": "1" } });
        let answer = client.post(json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params })).await;
        client.session = Some(answer.headers()["mcp-session-id"].to_str().unwrap().to_owned());
        assert_eq!(answer.json::<Value>().await.unwrap()["result"]["capabilities"]["prompts"]["listChanged"], true);
        client
    }

    async fn post(&self, message: Value) -> reqwest::Response {
        let request = self.http.post(&self.url).header("accept", "application/json, text/event-stream").json(&message);
        let request = match &self.session {
            Some(session) => request.header("mcp-session-id", session).header("mcp-protocol-version", STATEFUL),
            None => request,
        };
        request.send().await.unwrap()
    }

    /// A request of the stateless revision, and its answer.
    pub(crate) async fn ask(&self, method: &str, params: Value) -> (u16, Value) {
        let answer = self.stateless(method, params).await;
        (answer.status().as_u16(), answer.json().await.unwrap())
    }

    pub(crate) async fn stateless(&self, method: &str, mut params: Value) -> reqwest::Response {
        self.requests.set(self.requests.get() + 1);
        params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!(STATELESS);
        params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = self.can.clone();
        let name = ["name", "uri", "taskId"].into_iter().find_map(|name| params[name].as_str()).unwrap_or_default();
        let request = self.http.post(&self.url).header("accept", "application/json, text/event-stream");
        let request = request.header("mcp-protocol-version", STATELESS).header("mcp-method", method).header("mcp-name", name);
        request.json(&json!({ "jsonrpc": "2.0", "id": self.requests.get(), "method": method, "params": params })).send().await.unwrap()
    }

    pub(crate) async fn result(&self, method: &str, params: Value) -> Value {
        let (status, answer) = self.ask(method, params).await;
        assert_eq!(status, 200, "{answer}");
        answer["result"].clone()
    }

    /// A call of a tool in a revision before, as a stream of its messages.
    async fn call(&self, id: u64, name: &str) -> Stream {
        let params = json!({ "name": name, "arguments": {} });
        Stream::of(self.post(json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params })).await)
    }

    async fn listen(&self, last: Option<&str>) -> Stream {
        let request =
            self.http.get(&self.url).header("accept", "text/event-stream").header("mcp-session-id", self.session.as_ref().unwrap());
        let request = match last {
            Some(last) => request.header("last-event-id", last),
            None => request,
        };
        Stream::of(request.send().await.unwrap())
    }
}

/// Server-sent events.
pub(crate) struct Stream {
    chunks: std::pin::Pin<Box<dyn futures::Stream<Item = reqwest::Result<bytes::Bytes>>>>,
    rest: String,
    /// The last event's id.
    last: Option<String>,
}

impl Stream {
    pub(crate) fn of(response: reqwest::Response) -> Self {
        assert_eq!(response.headers()["content-type"], "text/event-stream", "{response:?}");
        Self { chunks: Box::pin(response.bytes_stream()), rest: String::new(), last: None }
    }

    /// The next message; `None` at the end.
    async fn next(&mut self) -> Option<Value> {
        loop {
            while let Some((event, rest)) = self.rest.split_once("\n\n") {
                let field = |name: &str| event.lines().find_map(|line| line.strip_prefix(name)).map(|value| value.trim().to_owned());
                let (id, data) = (field("id:"), field("data:").unwrap_or_default());
                self.rest = rest.to_owned();
                self.last = id.or(self.last.take());
                if !data.is_empty() {
                    return Some(serde_json::from_str(&data).unwrap());
                }
            }
            let chunk = self.chunks.next().await?.unwrap();
            self.rest.push_str(std::str::from_utf8(&chunk).unwrap());
        }
    }

    /// Reads on until a message of this method.
    pub(crate) async fn until(&mut self, method: &str) -> Value {
        loop {
            let message = self.next().await.unwrap_or_else(|| panic!("{method}: the stream has ended"));
            if message["method"] == method {
                return message["params"].clone();
            }
        }
    }
}

/// Functions that ask. `began` counts how often one was begun.
const FUNCTIONS: &str = "let began = 0; const form = { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] }; \
    mcp.tool('greet', {}, async () => { began += 1; const { action, content } = await mcp.elicit({ key: 'who', message: 'Who?', requestedSchema: form }); \
      return { began, action, name: content?.name }; }); \
    mcp.tool('think', {}, async () => (await mcp.sample({ messages: [], maxTokens: 5 })).content.text); \
    mcp.tool('careful', {}, () => mcp.sample({ messages: [], maxTokens: 5 }).then(() => 'asked', (error) => `${error.code}`)); \
    mcp.prompt('page', { arguments: { topic: { required: true, complete: (typed) => [typed + '!'] } } }, ({ topic }) => `Write of ${topic}`); \
    mcp.resource('notes://{day}', { name: 'day' }, (uri, { day }) => ({ day })); began";

fn accept(name: &str) -> Value {
    json!({ "who": { "action": "accept", "content": { "name": name } } })
}

fn again(asked: &Value, responses: Value) -> Value {
    json!({ "name": "greet", "inputResponses": responses, "requestState": asked["requestState"] })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_function_that_asks_goes_on_where_it_asked_after_a_kill() {
    let data = tempfile::tempdir().unwrap();
    let dev = Dev::start(data.path(), &[]);
    assert_eq!(dev.eval(FUNCTIONS), "0");
    let client = Client::new(&dev, json!({ "elicitation": {} }));
    let asked = client.result("tools/call", json!({ "name": "greet" })).await;
    assert_eq!((&asked["resultType"], &asked["inputRequests"]["who"]["params"]["message"]), (&json!("input_required"), &json!("Who?")));
    assert_eq!(dev.eval("began"), "1", "who is asked holds up nobody");
    dev.kill();

    let dev = Dev::start(data.path(), &[]);
    let client = Client::new(&dev, json!({ "elicitation": {} }));
    // What is no answer to it changes nothing.
    let other = json!({ "name": "think", "inputResponses": accept("A"), "requestState": asked["requestState"] });
    let state = asked["requestState"].as_str().unwrap();
    let mut wrong = vec![
        other,
        again(&asked, json!({ "who": 7 })),
        again(&asked, json!({ "who": { "action": "perhaps" } })),
        again(&asked, json!({ "who": { "action": "accept", "content": {} } })),
    ];
    wrong.extend([format!("{state}0"), format!("0{state}"), "x".to_owned()].map(|state| json!({ "name": "greet", "requestState": state })));
    for wrong in wrong {
        assert_eq!(client.ask("tools/call", wrong.clone()).await.1["error"]["code"], -32602, "{wrong}");
    }
    let next = client.result("tools/call", again(&asked, json!({}))).await;
    assert_eq!((&next["resultType"], &next["inputRequests"]), (&json!("input_required"), &asked["inputRequests"]), "{next}");
    assert_ne!(next["requestState"], asked["requestState"]);
    let expected = json!({ "began": 1, "action": "accept", "name": "A" });
    for _ in 0..2 {
        // The second time it is the same answer: a client may not have had it.
        let done = client.result("tools/call", again(&next, accept("A"))).await;
        assert_eq!((&done["resultType"], &done["structuredContent"]), (&json!("complete"), &expected), "{done}");
    }
    let gone = client.ask("tools/call", again(&next, accept("B"))).await.1;
    assert!(gone["error"]["message"].as_str().unwrap().contains("call again"), "{gone}");
    assert_eq!(
        client.result("tools/call", json!({ "name": "greet", "inputResponses": accept("early") })).await["structuredContent"]["name"],
        "early"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_client_has_not_declared_is_not_asked() {
    let data = tempfile::tempdir().unwrap();
    let dev = Dev::start(data.path(), &[]);
    dev.eval(FUNCTIONS);
    let client = Client::new(&dev, json!({ "elicitation": {} }));
    let (status, refused) = client.ask("tools/call", json!({ "name": "think" })).await;
    assert_eq!((status, &refused["error"]["code"]), (400, &json!(-32021)), "{refused}");
    assert_eq!(refused["error"]["data"]["requiredCapabilities"], json!({ "sampling": {} }));
    assert_eq!(client.result("tools/call", json!({ "name": "careful" })).await["content"][0]["text"], "NotSupported");
    assert_eq!(dev.eval("await mcp.call('careful')"), "'NotSupported'", "a cell is no client");
    let client = Client::begun(&dev, json!({})).await;
    let message = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": "think" } });
    let refused: Value = client.post(message).await.json().await.unwrap();
    assert_eq!(refused["result"]["isError"], true, "{refused}");
    // The oldest of too many calls that wait makes room.
    let client = Client::new(&dev, json!({ "elicitation": {} }));
    let first = client.result("tools/call", json!({ "name": "greet" })).await;
    for _ in 0..64 {
        client.result("tools/call", json!({ "name": "greet" })).await;
    }
    assert_eq!(client.ask("tools/call", again(&first, accept("late"))).await.1["error"]["code"], -32602);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_asks_and_is_gone_on_with_by_another_process() {
    let data = tempfile::tempdir().unwrap();
    let dev = Dev::start(data.path(), &[]);
    dev.eval(FUNCTIONS);
    let client = Client::begun(&dev, json!({ "elicitation": {}, "sampling": {} })).await;
    let mut stream = client.call(1, "think").await;
    let asked = stream.next().await.unwrap();
    assert_eq!((&asked["method"], &asked["params"]["maxTokens"]), (&json!("sampling/createMessage"), &json!(5)), "{asked}");
    let said = json!({ "role": "assistant", "model": "m", "content": { "type": "text", "text": "deep" } });
    for (answer, status) in [(json!({ "role": 7 }), 400), (said, 202)] {
        let answer = json!({ "jsonrpc": "2.0", "id": asked["id"], "result": answer });
        assert_eq!(client.post(answer).await.status(), status);
    }
    let done = stream.next().await.unwrap();
    assert_eq!((&done["id"], &done["result"]["content"][0]["text"]), (&json!(1), &json!("deep")), "{done}");
    assert_eq!(stream.next().await, None);
    let mut stream = client.call(2, "think").await;
    let asked = stream.next().await.unwrap();
    let refusal = json!({ "jsonrpc": "2.0", "id": asked["id"], "error": { "code": -1, "message": "rather not" } });
    assert_eq!(client.post(refusal).await.status(), 202);
    let refused = stream.next().await.unwrap();
    assert!(
        refused["result"]["content"][0]["text"].as_str().unwrap().starts_with("ToolDenied: the MCP client refused: rather not"),
        "{refused}"
    );

    let mut stream = client.call(3, "greet").await;
    let asked = stream.next().await.unwrap();
    let last = stream.last.clone().unwrap();
    dev.kill();
    let dev = Dev::start(data.path(), &[]);
    let client = Client { url: format!("{}{OWN}", dev.server), ..client };
    let mut stream = client.listen(Some(&last)).await;
    let answer = json!({ "jsonrpc": "2.0", "id": asked["id"], "result": accept("B")["who"] });
    assert_eq!(client.post(answer).await.status(), 202);
    let done = loop {
        let message = stream.next().await.unwrap();
        if message.get("result").is_some() {
            break message;
        }
        assert_eq!(message["id"], asked["id"], "the same question");
    };
    assert_eq!((&done["id"], &done["result"]["structuredContent"]), (&json!(3), &json!({ "began": 1, "action": "accept", "name": "B" })));
}

#[tokio::test(flavor = "multi_thread")]
async fn prompts_and_resources_are_listed_asleep_and_got_by_a_cell() {
    let data = tempfile::tempdir().unwrap();
    let dev = Dev::start(data.path(), &[]);
    dev.eval(FUNCTIONS);
    dev.command(&["sessions", "hibernate", "s"], "");
    let client = Client::new(&dev, json!({}));
    let prompts = client.result("prompts/list", json!({})).await;
    assert_eq!(prompts["prompts"][0]["name"], "page", "{prompts}");
    assert_eq!(prompts["prompts"][0]["arguments"], json!([{ "name": "topic", "required": true }]));
    let templates = client.result("resources/templates/list", json!({})).await;
    assert_eq!(templates["resourceTemplates"][0], json!({ "uriTemplate": "notes://{day}", "name": "day" }));
    let missing = client.ask("prompts/get", json!({ "name": "page" })).await.1;
    assert!(missing["error"]["message"].as_str().unwrap().contains("`topic` is missing"), "{missing}");
    assert!(dev.command(&["sessions", "get", "s"], "").out.contains("Hibernated"), "none of that wakes it");
    let page = client.result("prompts/get", json!({ "name": "page", "arguments": { "topic": "mice" } })).await;
    assert_eq!(page["messages"], json!([{ "role": "user", "content": { "type": "text", "text": "Write of mice" } }]));
    let reference = json!({ "ref": { "type": "ref/prompt", "name": "page" }, "argument": { "name": "topic", "value": "mi" } });
    assert_eq!(
        client.result("completion/complete", reference).await["completion"],
        json!({ "values": ["mi!"], "total": 1, "hasMore": false })
    );
    let note = client.result("resources/read", json!({ "uri": "notes://monday" })).await;
    assert_eq!(note["contents"], json!([{ "uri": "notes://monday", "mimeType": "application/json", "text": "{\"day\":\"monday\"}" }]));
    let unknown = client.ask("resources/read", json!({ "uri": "other://x" })).await.1;
    assert_eq!((&unknown["error"]["code"], &unknown["error"]["data"]["uri"]), (&json!(-32602), &json!("other://x")));
    let limits = "const of = (make) => { try { make(); return 'ok' } catch (error) { return error.code ?? error.name } }; const fn = () => 1; \
        [of(() => { for (let n = 0; n < 63; n++) mcp.prompt(`p${n}`, {}, fn) }), of(() => mcp.prompt('p63', {}, fn)), of(() => mcp.prompt('p0', {}, fn)), \
         of(() => mcp.resource('dormouse://x', {}, fn)), of(() => mcp.resource('a://{x}{y}', {}, fn)), of(() => mcp.resource('a://' + 'x'.repeat(1021), {}, fn)), \
         of(() => mcp.resource('a://' + 'x'.repeat(1020), {}, fn)), of(() => mcp.resource('b://x', { description: 'x'.repeat(65536) }, fn)), of(() => mcp.prompt('a b', {}, fn))].join()";
    assert_eq!(dev.eval(limits), "'ok,QuotaExceeded,ok,TypeError,TypeError,TypeError,ok,QuotaExceeded,TypeError'");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_hears_what_is_printed_and_what_changes() {
    let data = tempfile::tempdir().unwrap();
    let dev = Dev::start(data.path(), &[]);
    dev.eval("mcp.tool('say', {}, () => { console.debug('d'); console.log('l'); console.warn('w'); return 'said' }); 0");
    let said = async |stream: &mut Stream| {
        let mut levels = Vec::new();
        loop {
            let message = stream.next().await.unwrap();
            match message["params"]["level"].as_str() {
                Some(level) => levels.push(format!("{level}:{}", message["params"]["data"].as_str().unwrap())),
                None => break levels,
            }
        }
    };
    let client = Client::new(&dev, json!({}));
    let wanted = json!({ "name": "say", "_meta": { "io.modelcontextprotocol/logLevel": "info" } });
    let mut stream = Stream::of(client.stateless("tools/call", wanted).await);
    assert_eq!(said(&mut stream).await, ["info:l", "warning:w"]);
    let wrong = json!({ "name": "say", "_meta": { "io.modelcontextprotocol/logLevel": "loud" } });
    assert_eq!(client.ask("tools/call", wrong).await.1["error"]["code"], -32602);
    let client = Client::begun(&dev, json!({})).await;
    let set = json!({ "jsonrpc": "2.0", "id": 1, "method": "logging/setLevel", "params": { "level": "warning" } });
    assert_eq!(client.post(set).await.json::<Value>().await.unwrap()["result"], json!({}));
    dev.kill();
    let dev = Dev::start(data.path(), &[]);
    let client = Client { url: format!("{}{OWN}", dev.server), ..client };
    assert_eq!(said(&mut client.call(2, "say").await).await, ["warning:w"], "what a client has said once is kept in the session");

    let subscribe = json!({ "jsonrpc": "2.0", "id": 3, "method": "resources/subscribe", "params": { "uri": "notes://a" } });
    assert_eq!(client.post(subscribe).await.json::<Value>().await.unwrap()["result"], json!({}));
    let mut unasked = client.listen(None).await;
    let file = "dormouse://default/s/a.txt";
    let params = json!({ "notifications": { "toolsListChanged": true, "resourceSubscriptions": ["notes://b", file] } });
    let mut listening = Stream::of(Client::new(&dev, json!({})).stateless("subscriptions/listen", params).await);
    let acknowledged = listening.until("notifications/subscriptions/acknowledged").await;
    assert_eq!(acknowledged["_meta"]["io.modelcontextprotocol/subscriptionId"], 1, "{acknowledged}");
    dev.eval("mcp.updated('notes://a'); mcp.updated('notes://b'); 0");
    assert_eq!(listening.until("notifications/resources/updated").await["uri"], "notes://b");
    dev.eval("require('fs').writeFileSync('/a.txt', 'x'); 0");
    assert_eq!(listening.until("notifications/resources/updated").await["uri"], file);
    dev.eval("mcp.remove('say')");
    listening.until("notifications/tools/list_changed").await;
    assert_eq!(unasked.until("notifications/resources/updated").await["uri"], "notes://a");
    unasked.until("notifications/tools/list_changed").await;
}

#[test]
fn a_client_on_standard_input_is_asked() {
    let data = tempfile::tempdir().unwrap();
    let dev = Dev::start(data.path(), &[]);
    dev.eval("mcp.tool('ask', {}, async () => (await mcp.elicit({ message: 'Well?' })).action); 0");
    let initialize = json!({ "protocolVersion": STATEFUL, "capabilities": { "elicitation": {} } });
    let lines = [
        json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": initialize }),
        json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": { "name": "s.ask" } }),
    ];
    let mut child = dev.spawn(&["mcp"]);
    let (mut input, output) = (child.stdin.take().unwrap(), std::io::BufReader::new(child.stdout.take().unwrap()));
    let mut answers = std::io::BufRead::lines(output).map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
    let mut say = |message: &Value| std::io::Write::write_all(&mut input, format!("{message}\n").as_bytes()).unwrap();
    lines.iter().for_each(&mut say);
    assert_eq!(answers.next().unwrap()["result"]["protocolVersion"], STATEFUL);
    let asked = answers.next().unwrap();
    assert_eq!((&asked["method"], &asked["params"]["message"]), (&json!("elicitation/create"), &json!("Well?")), "{asked}");
    say(&json!({ "jsonrpc": "2.0", "id": asked["id"], "result": { "action": "decline" } }));
    assert_eq!(answers.next().unwrap()["result"]["content"][0]["text"], "decline");
    drop(input);
    assert!(child.wait().unwrap().success());
}

/// Registers the functions of the docs.
pub(crate) fn register_documented(dev: &Dev) {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/clients.md")).unwrap();
    for cell in page.split("```js\n").skip(1) {
        dev.eval(cell.split("```").next().unwrap());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_functions_of_the_docs_are_served() {
    let data = tempfile::tempdir().unwrap();
    let dev = Dev::start(data.path(), &[]);
    register_documented(&dev);
    let client = Client::new(&dev, json!({ "elicitation": {}, "sampling": {} }));
    let call = async |name: &str, arguments: Value| client.result("tools/call", json!({ "name": name, "arguments": arguments })).await;
    assert_eq!(call("add", json!({ "n": 2 })).await["structuredContent"], json!({ "sum": 2 }));
    let prompt = client.result("prompts/get", json!({ "name": "review", "arguments": { "text": "x" } })).await;
    assert_eq!(prompt["messages"][0]["content"]["text"], "Review this, kind: x");
    let reference = json!({ "ref": { "type": "ref/prompt", "name": "review" }, "argument": { "name": "tone", "value": "d" } });
    assert_eq!(client.result("completion/complete", reference).await["completion"]["values"], json!(["dry"]));
    for (uri, text) in [("totals://now", "2"), ("totals://3", r#"{"total":6}"#)] {
        assert_eq!(client.result("resources/read", json!({ "uri": uri })).await["contents"][0]["text"], text);
    }
    let model = json!({ "role": "assistant", "model": "m", "content": { "type": "text", "text": "mouse, house" } });
    let person = json!({ "action": "accept", "content": { "n": 3 } });
    for (name, answer, said) in [("order", person, "ordered 3"), ("rhyme", model, "mouse, house")] {
        let asked = call(name, json!({})).await;
        let question = asked["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
        let again = json!({
            "name": name, "arguments": {}, "inputResponses": { question: answer }, "requestState": asked["requestState"],
        });
        assert_eq!(client.result("tools/call", again).await["content"][0]["text"], said);
    }
}
