//! Models behind services: each API's own form, and budgets that replicas share and restarts keep.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicU64, Ordering},
};

use axum::{
    Json, Router,
    extract::{Request, State},
    http::StatusCode,
    response::{IntoResponse as _, Response},
};
use base64::Engine as _;
use dormouse_broker::{Broker, BrokerStore, ConfigError, Secrets};
use dormouse_protocol::{
    ErrorCode,
    broker::{BodyAnswer, BodyCall, FETCH, FetchCall, ToolAnswer},
};
use dormouse_seal::Seal;
use dormouse_service::Metrics;
use dormouse_store::{Memory, SnapshotStore};
use serde_json::{Value, json};

use crate::world::{audit, call, failure, value};

/// A service of models: what it was asked, and what it answers.
#[derive(Clone, Default)]
struct Models {
    asked: Arc<Mutex<Vec<(String, Value, Value)>>>,
    /// It refuses so many.
    refuses: Arc<AtomicU64>,
}

impl Models {
    async fn start(&self) -> String {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().fallback(answer).with_state(self.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        format!("http://{address}/v1")
    }

    fn asked(&self) -> Vec<(String, Value, Value)> {
        self.asked.lock().unwrap().clone()
    }
}

async fn answer(State(models): State<Models>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body: Value = serde_json::from_slice(&axum::body::to_bytes(body, usize::MAX).await.unwrap()).unwrap();
    let header = |name: &str| parts.headers.get(name).map(|value| value.to_str().unwrap().to_owned());
    let headers = json!({ "authorization": header("authorization"), "anthropic-version": header("anthropic-version") });
    models.asked.lock().unwrap().push((parts.uri.path().to_owned(), headers, body.clone()));
    if models.refuses.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok() {
        return (StatusCode::BAD_REQUEST, "no").into_response();
    }
    if body["stream"] == true {
        return streamed(parts.uri.path(), &body);
    }
    Json(match parts.uri.path() {
        "/v1/chat/completions" => json!({
            "choices": [{ "message": { "role": "assistant", "content": "chat" } }], "usage": { "prompt_tokens": 30, "completion_tokens": 10 },
        }),
        "/v1/responses" => json!({
            "output": [{ "type": "reasoning" }, { "type": "message", "content": [{ "type": "output_text", "text": "resp" }, { "type": "output_text", "text": "onse" }] }],
            "usage": { "input_tokens": 3, "output_tokens": 4 },
        }),
        "/v1/messages" => json!({ "content": [{ "type": "text", "text": "message" }], "usage": { "input_tokens": 5, "output_tokens": 6 } }),
        "/v1/embeddings" => json!({ "data": [{ "index": 1, "embedding": [2.5] }, { "index": 0, "embedding": [1.5] }], "usage": { "prompt_tokens": 7 } }),
        other => json!({ "strange": other }),
    })
    .into_response()
}

/// An answer as each API streams it, a few bytes at a time. One that is asked to break off does.
fn streamed(path: &str, body: &Value) -> Response {
    let events: &[&str] = match path {
        "/v1/chat/completions" if body["stream_options"]["include_usage"] == true => &[
            r#"{"choices":[{"delta":{"role":"assistant","content":""}}]}"#,
            r#"{"choices":[{"delta":{"content":"ch"}}]}"#,
            r#"{"choices":[{"delta":{"content":"ät"}}]}"#,
            r#"{"choices":[],"usage":{"prompt_tokens":30,"completion_tokens":10}}"#,
            "[DONE]",
        ],
        "/v1/responses" => &[
            r#"{"type":"response.output_text.delta","delta":"re"}"#,
            r#"{"type":"response.output_text.delta","delta":"sponse"}"#,
            r#"{"type":"response.completed","response":{"usage":{"input_tokens":3,"output_tokens":4}}}"#,
        ],
        "/v1/messages" => &[
            r#"{"type":"message_start","message":{"usage":{"input_tokens":5,"output_tokens":1}}}"#,
            r#"{"type":"content_block_delta","delta":{"type":"text_delta","text":"message"}}"#,
            r#"{"type":"message_delta","usage":{"output_tokens":6}}"#,
            r#"{"type":"message_stop"}"#,
        ],
        _ => &["{}"],
    };
    let breaks = body.to_string().contains("break off");
    let events = if breaks { &events[..2] } else { events };
    let text: String = events.iter().map(|data| format!("event: x\r\ndata: {data}\r\n\r\n")).collect();
    let chunks: Vec<_> = text.into_bytes().chunks(7).map(|chunk| Ok::<_, std::io::Error>(chunk.to_vec())).collect();
    let body = axum::body::Body::from_stream(futures::stream::iter(chunks));
    ([("content-type", "text/event-stream")], body).into_response()
}

/// Asks for a stream, as a session does; answers its lines.
async fn lines(broker: &Broker, number: u64, model: &str, question: Value) -> Result<Vec<Value>, ErrorCode> {
    let body = base64::engine::general_purpose::STANDARD.encode(question.to_string());
    let args = json!({ "method": "POST", "url": format!("model:{model}"), "headers": [], "body": body, "redirect": "follow" });
    let asked = FetchCall { call: call(number, FETCH, args), allow: Vec::new() };
    let value = match broker.fetch(asked).await.unwrap().as_ref() {
        ToolAnswer::Ok { value } => value.clone(),
        ToolAnswer::Err { error } => return Err(error.code),
        other => panic!("{other:?}"),
    };
    assert_eq!(value["response"]["stream"], number, "{value}");
    let mut read = Vec::new();
    for part in 0.. {
        let call = BodyCall { namespace: "team-a".into(), session_uid: "u-1".into(), epoch: 1, stream: number, part };
        let BodyAnswer::Part { bytes, last } = broker.body(call).await.unwrap() else { panic!("the body is lost") };
        read.extend(base64::engine::general_purpose::STANDARD.decode(bytes).unwrap());
        if last {
            break;
        }
    }
    Ok(String::from_utf8(read).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

async fn spent(store: &Memory) -> Value {
    let stored = store.get("t/team-a/b/u-1/spent").await.unwrap().unwrap();
    serde_json::from_slice::<Value>(&stored.bytes).unwrap()["models"].clone()
}

#[tokio::test]
async fn an_answer_is_read_as_it_comes_and_costs_what_it_used() {
    let models = Models::default();
    let (store, metrics) = (Arc::new(Memory::default()), Metrics::new());
    let broker = counted(spec(&models.start().await, json!({ "tokensPerSession": 1_000 })), Some(&store), &metrics).unwrap();
    for (number, model, text, used) in
        [(1, "chat", "chät", (30, 10)), (2, "response", "response", (3, 4)), (3, "message", "message", (5, 6))]
    {
        let told = lines(&broker, number, model, json!({ "prompt": "hi" })).await.unwrap();
        let pieces: String = told.iter().filter_map(|line| line["text"].as_str()).collect();
        assert_eq!(pieces, text);
        assert_eq!(told.last(), Some(&json!({ "usage": { "inputTokens": used.0, "outputTokens": used.1 } })));
        assert_eq!(spent(&store).await[model]["tokens"], used.0 + used.1, "what it did not use is given back");
    }
    assert!(models.asked().iter().all(|(_, headers, _)| headers["authorization"] == "Bearer sk-for-the-lab"));
    // Of one that breaks off nobody knows what it used.
    let told = lines(&broker, 4, "chat", json!({ "prompt": "break off" })).await.unwrap();
    assert_eq!((&told[0], &told[1]["error"]["code"]), (&json!({ "text": "ch" }), &json!("ToolResultInvalid")), "{told:?}");
    assert!(spent(&store).await["chat"]["tokens"].as_u64().unwrap() > 40 + 100, "its reserve stays counted");
    models.refuses.store(1, Ordering::SeqCst);
    let before = spent(&store).await;
    assert_eq!(lines(&broker, 5, "chat", json!({ "prompt": "hi" })).await, Err(ErrorCode::ToolResultInvalid));
    assert_eq!(spent(&store).await, before, "a refusal costs nothing");
    for (number, model, question, code) in [
        (6, "gone", json!({ "prompt": "hi" }), ErrorCode::ToolNotFound),
        (7, "", json!({ "prompt": "hi" }), ErrorCode::ToolNotFound),
        (8, "vector", json!({ "input": "hi" }), ErrorCode::ToolArgsInvalid),
        (9, "chat", json!([]), ErrorCode::ToolArgsInvalid),
        (10, "chat", json!({ "prompt": "hi", "maxTokens": 101 }), ErrorCode::ToolArgsInvalid),
    ] {
        assert_eq!(lines(&broker, number, model, question).await, Err(code), "{number}");
    }
    // The audit says which model was asked, also of a question whose answer comes whole.
    value(&broker, call(11, "host.subLM", json!({ "model": "response", "prompt": "hi" }))).await;
    broker.store_audit().await;
    let lines = audit(&store, "").await;
    let of = |number: u64| lines.iter().find(|line| line["call"] == number).unwrap_or_else(|| panic!("{number}: {lines:?}"));
    for (number, model) in [(1, json!("chat")), (3, json!("message")), (6, json!(null)), (11, json!("response"))] {
        assert_eq!((&of(number)["tool"], &of(number)["model"]), (&json!("host.subLM"), &model), "{number}");
    }
    // They count as questions whose answer comes whole do.
    let counted = metrics.render().unwrap();
    for line in [
        r#"dormouse_broker_calls_total{outcome="ok",tool="host.subLM"} 5"#,
        r#"dormouse_broker_calls_total{outcome="ToolNotFound",tool="other"} 2"#,
        r#"dormouse_broker_call_seconds_count{tool="host.subLM"} 8"#,
    ] {
        assert!(counted.contains(line), "{line}: {counted}");
    }
}

fn spec(base_url: &str, budget: Value) -> Value {
    let model = |name: &str, api: &str| {
        json!({
            "name": name, "api": api, "baseUrl": base_url, "model": format!("lab-{name}"), "maxTokens": 100,
            "auth": { "type": "bearer", "secretRef": { "name": "lab", "key": "key" } },
            "price": { "input": "2", "output": "10.5" }, "budget": budget,
        })
    };
    json!({ "models": [model("chat", "openai"), model("response", "openaiResponses"), model("message", "anthropic"), model("vector", "openaiEmbeddings")] })
}

fn secrets() -> Secrets {
    let lab = [("key".to_owned(), b"sk-for-the-lab".to_vec())].into_iter().collect();
    Secrets::memory([("lab".to_owned(), lab)].into_iter().collect())
}

fn broker(spec: Value, store: Option<&Arc<Memory>>) -> Result<Broker, ConfigError> {
    counted(spec, store, &Metrics::new())
}

fn counted(spec: Value, store: Option<&Arc<Memory>>, metrics: &Metrics) -> Result<Broker, ConfigError> {
    let place = store.map(|store| BrokerStore {
        store: Arc::clone(store) as Arc<dyn SnapshotStore>,
        prefix: String::new(),
        namespace: "team-a".to_owned(),
        broker: "tools".to_owned(),
        seal: Arc::new(Seal::none()),
    });
    Broker::with_store(&serde_json::from_value(spec).unwrap(), secrets(), metrics, place)
}

#[tokio::test]
async fn each_api_is_spoken_in_its_own_form() {
    let models = Models::default();
    let broker = broker(spec(&models.start().await, json!(null)), None).unwrap();
    let messages = json!([{ "role": "system", "content": "be short" }, { "role": "user", "content": "hi" }]);
    let ask = |number, model: &str| {
        call(number, "host.subLM", json!({ "model": model, "messages": messages, "maxTokens": 50, "temperature": 0.5 }))
    };
    assert_eq!(value(&broker, ask(1, "chat")).await, json!({ "output": "chat", "usage": { "inputTokens": 30, "outputTokens": 10 } }));
    assert_eq!(value(&broker, ask(2, "response")).await["output"], "response");
    assert_eq!(value(&broker, ask(3, "message")).await["output"], "message");
    let vectors = call(4, "host.subLM", json!({ "model": "vector", "input": ["a", "b"] }));
    assert_eq!(value(&broker, vectors).await["output"], json!([[1.5], [2.5]]), "in the order of what was asked");
    let user = json!({ "role": "user", "content": "hi" });
    let asked = models.asked();
    let bodies: Vec<&Value> = asked.iter().map(|(_, _, body)| body).collect();
    assert_eq!(
        bodies,
        [
            &json!({ "model": "lab-chat", "messages": messages, "max_completion_tokens": 50, "temperature": 0.5 }),
            &json!({ "model": "lab-response", "instructions": "be short", "input": [user], "max_output_tokens": 50, "temperature": 0.5 }),
            &json!({ "model": "lab-message", "system": "be short", "messages": [user], "max_tokens": 50, "temperature": 0.5 }),
            &json!({ "model": "lab-vector", "input": ["a", "b"], "encoding_format": "float" }),
        ]
    );
    assert!(asked.iter().all(|(_, headers, _)| headers["authorization"] == "Bearer sk-for-the-lab"));
    assert_eq!(asked[2].1["anthropic-version"], "2023-06-01");
}

#[tokio::test]
async fn what_is_no_question_is_refused_before_anybody_is_asked() {
    let models = Models::default();
    let broker = broker(spec(&models.start().await, json!(null)), None).unwrap();
    let code = async |number, args| failure(&broker, call(number, "host.subLM", args)).await.code;
    assert_eq!(code(1, json!({ "model": "gone", "prompt": "hi" })).await, ErrorCode::ToolNotFound);
    assert_eq!(code(2, json!({ "prompt": "hi" })).await, ErrorCode::ToolNotFound, "there are several");
    assert_eq!(code(3, json!({ "model": "chat" })).await, ErrorCode::ToolArgsInvalid);
    assert_eq!(code(4, json!({ "model": "chat", "prompt": "hi", "maxTokens": 101 })).await, ErrorCode::ToolArgsInvalid);
    assert_eq!(code(5, json!({ "model": "chat", "prompt": "hi", "tools": [] })).await, ErrorCode::ToolArgsInvalid);
    assert_eq!(code(6, json!({ "model": "vector", "prompt": "hi" })).await, ErrorCode::ToolArgsInvalid);
    assert_eq!(code(7, json!({ "model": "chat", "prompt": "hi", "stream": true })).await, ErrorCode::NotSupported);
    assert_eq!(models.asked().len(), 0);
}

#[tokio::test]
async fn a_budget_is_shared_by_replicas_and_outlives_them() {
    let models = Models::default();
    // A question of 40 tokens: 30 × 2 + 10 × 10.5 millionths.
    let spec = spec(&models.start().await, json!({ "tokensPerSession": 80, "costPerNamespace": "0.00066" }));
    let store = Arc::new(Memory::default());
    let (one, two) = (broker(spec.clone(), Some(&store)).unwrap(), broker(spec.clone(), Some(&store)).unwrap());
    let ask = |number, session: &str| {
        let mut ask = call(number, "host.subLM", json!({ "model": "chat", "prompt": "hi" }));
        ask.session_uid = format!("0b9f2c1e-6a57-4d3e-8f10-2c7a5b1d9e0{session}");
        ask
    };
    for (number, broker) in [(1, &one), (2, &two)] {
        assert_eq!(value(broker, ask(number, "1")).await["output"], "chat");
    }
    for (number, broker) in [(3, &one), (4, &two)] {
        assert_eq!(failure(broker, ask(number, "1")).await.code, ErrorCode::ModelBudgetExceeded, "the session's is spent");
    }
    let later = broker(spec, Some(&store)).unwrap();
    assert_eq!(failure(&later, ask(5, "1")).await.code, ErrorCode::ModelBudgetExceeded, "a new process knows, too");
    // A refusal costs nothing.
    models.refuses.store(3, Ordering::SeqCst);
    for number in 1..=3 {
        assert_eq!(failure(&later, ask(number, "2")).await.code, ErrorCode::ToolResultInvalid);
    }
    for number in 4..=5 {
        value(&later, ask(number, "2")).await;
    }
    assert_eq!(
        failure(&one, ask(1, "3")).await.code,
        ErrorCode::ModelBudgetExceeded,
        "four questions are 0.00066: the namespace's is spent"
    );
    assert_eq!(models.asked().len(), 7);
    let spent = store.get("t/team-a/b/all/spent").await.unwrap().unwrap();
    let spent: Value = serde_json::from_slice(&spent.bytes).unwrap();
    assert_eq!((&spent["models"]["chat"]["tokens"], &spent["models"]["chat"]["cost"]), (&json!(160), &json!(660_000_000u64)));
}

#[tokio::test]
async fn a_session_has_its_money_and_a_namespace_its_tokens() {
    let models = Models::default();
    // Money of a session for two questions, tokens of all for three: one costs 0.000165 and takes 40.
    let budget = json!({ "costPerSession": "0.00033", "tokensPerNamespace": 120 });
    let broker = broker(spec(&models.start().await, budget), Some(&Arc::new(Memory::default()))).unwrap();
    let ask = |number, session: &str| {
        let mut ask = call(number, "host.subLM", json!({ "model": "chat", "prompt": "hi" }));
        ask.session_uid = session.to_owned();
        ask
    };
    for number in 1..=2 {
        value(&broker, ask(number, "u-1")).await;
    }
    assert_eq!(
        failure(&broker, ask(3, "u-1")).await.code,
        ErrorCode::ModelBudgetExceeded,
        "its money is spent, the others' tokens are not"
    );
    value(&broker, ask(1, "u-2")).await;
    assert_eq!(failure(&broker, ask(2, "u-2")).await.code, ErrorCode::ModelBudgetExceeded, "it has money, and the tokens of all are spent");
    assert_eq!(failure(&broker, ask(1, "u-3")).await.code, ErrorCode::ModelBudgetExceeded);
    assert_eq!(models.asked().len(), 3);
}

#[tokio::test]
async fn a_budget_without_a_store_is_refused_and_what_is_wrong_with_a_model_is_told() {
    let models = Models::default();
    let url = models.start().await;
    let without = broker(spec(&url, json!({ "tokensPerSession": 80 })), None).unwrap();
    let ask = call(1, "host.subLM", json!({ "model": "chat", "prompt": "hi" }));
    assert_eq!(failure(&without, ask).await.code, ErrorCode::NotSupported);
    let mut wrong = spec(&url, json!({ "costPerNamespace": "1e3" }));
    wrong["models"][0]["baseUrl"] = json!("ftp://models");
    wrong["models"][1]["maxTokens"] = json!(0);
    wrong["models"][2]["price"] = json!({ "input": "-1" });
    wrong["models"][3]["auth"]["secretRef"]["name"] = json!("gone");
    wrong["offload"] = json!({ "thresholdBytes": 0 });
    let told = broker(wrong, None).unwrap_err().to_string();
    for part in [
        "models[0].baseUrl: must be an http or https URL",
        "models[1].maxTokens: must be between 1 and 1000000",
        "models[2].price: must be an amount",
        "models[2].budget.costPerNamespace: must be an amount",
        "models[3].auth.secretRef",
        "offload.thresholdBytes: must be between 1",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
}
