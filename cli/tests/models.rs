//! A program that asks models about more than fits one question, against a real `dormouse dev` and a scripted model.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use crate::support::Dev;
use axum::{Json, Router, extract::State, http::HeaderMap, response::IntoResponse as _, routing::post};
use serde_json::{Value, json};

/// Bytes of the questions, and the keys that came with them.
type Asked = Arc<Mutex<Vec<(usize, String)>>>;

const NEEDLE: &str = "the magic number is 7213";

/// A model that finds the needle in what it is shown, and reads a number out of a note.
async fn model() -> (SocketAddr, Asked) {
    let asked = Asked::default();
    let answer = async |State(asked): State<Asked>, headers: HeaderMap, Json(body): Json<Value>| {
        if body["stream"] == true {
            let words = ["one ", "two ", "three"].map(|word| json!({ "choices": [{ "delta": { "content": word } }] }).to_string());
            let usage = json!({ "choices": [], "usage": { "prompt_tokens": 5, "completion_tokens": 3 } }).to_string();
            let events: String = words.into_iter().chain([usage, "[DONE]".to_owned()]).map(|data| format!("data: {data}\n\n")).collect();
            return ([("content-type", "text/event-stream")], events).into_response();
        }
        let question = body["messages"][0]["content"].as_str().unwrap();
        asked.lock().unwrap().push((question.len(), headers["authorization"].to_str().unwrap().to_owned()));
        let text = match question.split_once("Which number? ") {
            Some((_, notes)) => notes.rsplit(' ').next().unwrap(),
            None if question.contains(NEEDLE) => NEEDLE,
            None => "none",
        };
        let usage = json!({ "prompt_tokens": question.len() / 4, "completion_tokens": 5 });
        Json(json!({ "choices": [{ "message": { "role": "assistant", "content": text } }], "usage": usage })).into_response()
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let routes = Router::new().route("/chat/completions", post(answer)).with_state(Arc::clone(&asked));
    tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
    (address, asked)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_needle_in_four_megabytes_is_found_without_a_key_in_sight() {
    let data = tempfile::tempdir().unwrap();
    let (model, asked) = model().await;
    let path = data.path().join("lab.yaml");
    let text = format!(
        "apiVersion: v1\nkind: Secret\nmetadata: {{name: lab}}\nstringData: {{key: sk-canary-for-the-lab}}\n---\n\
         apiVersion: dormouse.dev/v1alpha1\nkind: ToolBroker\nmetadata: {{name: lab}}\nspec:\n  models:\n    - name: reader\n      api: openai\n      \
         baseUrl: http://{model}\n      model: small\n      auth: {{type: bearer, secretRef: {{name: lab, key: key}}}}\n      budget: {{tokensPerSession: 2000000}}\n---\n\
         apiVersion: dormouse.dev/v1alpha1\nkind: KernelSession\nmetadata: {{name: agent}}\nspec:\n  toolBrokerRef: {{name: lab}}\n"
    );
    std::fs::write(&path, text).unwrap();
    let dev = Dev::start_of(data.path(), &path);
    dormouse_service::telemetry::install_tls_provider();
    let client = reqwest::Client::builder().timeout(Duration::from_secs(120)).build().unwrap();
    let eval = async |code: &str| -> Value {
        let path = format!("{}/v1/namespaces/default/sessions/agent/eval", dev.server);
        client.post(path).json(&json!({ "code": code })).send().await.unwrap().json().await.unwrap()
    };
    let put = format!(
        "for (let i = 0; i < 4; i++) host.ctx.append('book', 'some hay '.repeat(116508)); host.ctx.append('book', ' {NEEDLE}. '); \
         for (let i = 0; i < 40; i++) host.ctx.append('book', 'more hay '.repeat(100)); host.ctx.size('book')"
    );
    let size = eval(&put).await["value"].as_u64().unwrap();
    assert!(size > 4 << 20, "{size}");
    let program = "
        const parts = [];
        for (let at = 0; at < host.ctx.size('book'); at += 250_000) parts.push(host.ctx.slice('book', at, at + 250_100));
        const notes = await Promise.all(parts.map((part) => host.subLM({ model: 'reader', messages: [{ role: 'user', content: part }] })));
        const found = [...new Set(notes.filter((note) => note !== 'none'))];
        host.final(await host.subLM({ prompt: `Which number? ${found.join(' ')}` }));
        'not this'";
    let answer = eval(program).await;
    assert_eq!(answer["value"], "7213", "{answer}");
    let pieces =
        eval("const pieces = []; for await (const piece of host.subLM({ prompt: 'count', stream: true })) pieces.push(piece); pieces")
            .await;
    assert_eq!(
        pieces["value"].as_array().unwrap().iter().map(|piece| piece.as_str().unwrap()).collect::<String>(),
        "one two three",
        "{pieces}"
    );
    let refused =
        eval("try { for await (const piece of host.subLM({ model: 'gone', prompt: 'x', stream: true })); } catch (error) { error.code }")
            .await;
    assert_eq!(refused["value"], "ToolNotFound", "{refused}");
    let asked = asked.lock().unwrap().clone();
    assert_eq!(asked.len(), 17 + 1);
    assert!(asked.iter().all(|(bytes, key)| *bytes < 251_000 && key == "Bearer sk-canary-for-the-lab"));
    assert!(!answer.to_string().contains("sk-canary"));
    // A reserve is of the question's bytes, so the same again is too much for the budget, and says so.
    let again = eval(&format!("const again = async () => {{ {program} }}; try {{ await again() }} catch (error) {{ error.code }}")).await;
    assert_eq!(again["value"], "ModelBudgetExceeded", "{again}");
}
