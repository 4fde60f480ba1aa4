//! Sockets that outlive what runs behind them.

use crate::support::{Dev, http, sockets};
use dormouse_testkit::wait::eventually;
use serde_json::{Value, json};

const SESSIONS: &str = "/v1/namespaces/default/sessions";

async fn state(dev: &Dev) -> String {
    let session: Value = http().get(format!("{}{SESSIONS}/s", dev.server)).send().await.unwrap().json().await.unwrap();
    session["state"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_sleeps_while_sockets_are_connected_to_it_and_their_next_cell_wakes_it() {
    let data = tempfile::tempdir().unwrap();
    let dev = Dev::start(data.path(), &[]);
    sockets::create(&dev, json!({ "idleSeconds": 1 })).await;
    let mut frames = sockets::connect(&dev, &format!("{SESSIONS}/s/ws")).await;
    let mut notebook = sockets::connect(&dev, &sockets::notebook(&dev, "s").await).await;
    let mut count = async |id: &str, as_notebook: bool| {
        let code = "globalThis.n = (globalThis.n ?? 0) + 1";
        if as_notebook {
            let result = sockets::ask(&mut notebook, sockets::execute(id, code), sockets::is("execute_result")).await;
            result["content"]["data"]["text/plain"].as_str().unwrap().parse::<u64>().unwrap()
        } else {
            let result = sockets::ask(&mut frames, json!({ "t": "eval", "id": id, "code": code }), |frame| frame["id"] == id).await;
            result["value"].as_u64().unwrap()
        }
    };
    assert_eq!((count("a", false).await, count("b", true).await), (1, 2));
    for (round, as_notebook) in [(3_u64, false), (4, true)] {
        eventually("it sleeps", async || state(&dev).await == "Hibernated").await;
        assert_eq!(count(&round.to_string(), as_notebook).await, round);
    }
    // What is no cell wakes nothing.
    eventually("it sleeps", async || state(&dev).await == "Hibernated").await;
    let pong = sockets::ask(&mut frames, json!({ "t": "ping", "id": "ping" }), |frame| frame["id"] == "ping").await;
    assert_eq!(pong["ok"], true);
    sockets::ask(&mut notebook, sockets::request("info", "kernel_info_request", json!({})), sockets::is("kernel_info_reply")).await;
    assert_eq!(state(&dev).await, "Hibernated");
}
