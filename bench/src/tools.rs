//! A tool's call through a broker, over mTLS as kernel pods make it, beside the bare request to its service.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use axum::{Router, routing::get};
use dormouse_broker::{Broker, Secrets};
use dormouse_protocol::broker::ToolCall;
use dormouse_service::{
    ca::{Ca, LEAF_VALIDITY},
    tls::{Identity, PeerClient, Process, TlsFiles},
};
use serde_json::json;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::table::{Row, Samples};

const RUNS: u64 = 5_000;
/// How long an answer may take.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Calls that are not counted.
const WARM: u64 = 500;

/// All rows of this part.
pub async fn rows() -> anyhow::Result<Vec<Row>> {
    let service = serve(Router::new().route("/thing", get(async || r#"{"price":12}"#))).await?;
    let shutdown = CancellationToken::new();
    let (broker, kernel) = broker(service, &shutdown).await?;
    let bare = reqwest::Client::builder().no_proxy().timeout(ANSWER_TIMEOUT).build()?;
    let url = format!("http://{service}/thing");
    let (mut calls, mut floor, mut beyond) = (Vec::new(), Vec::new(), Vec::new());
    for number in 1..=WARM + RUNS {
        let began = Instant::now();
        ensure!(bare.get(&url).send().await?.bytes().await?.len() == 12, "the service answers");
        let bare_took = began.elapsed();
        let call = call(number)?;
        let began = Instant::now();
        let own = Identity::new(Process::Broker, "bench", "tools");
        let answer = kernel.request(reqwest::Method::POST, &own, &broker.to_string(), "/v1/call").json(&call).send().await?;
        let status = answer.status();
        let body = answer.bytes().await?;
        let took = began.elapsed();
        ensure!(status.is_success() && body.windows(5).any(|part| part == b"price"), "the call failed: {status}");
        if number > WARM {
            floor.push(bare_took);
            calls.push(took);
            beyond.push(took.saturating_sub(bare_took));
        }
    }
    shutdown.cancel();
    let (floor, half) = (Samples::of(floor), Samples::of([Duration::from_micros(500)]));
    Ok(vec![
        Row::times("a tool's call of a safe method, through a broker", &Samples::of(calls), "the bare request", &floor, "–"),
        Row::times("what that takes beyond the request beside it", &Samples::of(beyond), "half a millisecond", &half, "≤ 1"),
    ])
}

async fn serve(router: Router) -> anyhow::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move { axum::serve(listener, router).await });
    Ok(address)
}

/// A broker whose one tool is at `service`, and a pod's client.
async fn broker(service: SocketAddr, shutdown: &CancellationToken) -> anyhow::Result<(SocketAddr, PeerClient)> {
    let spec = json!({
        "services": [{ "name": "shop", "baseUrl": format!("http://{service}"), "allowedMethods": ["GET"] }],
        "tools": [{ "name": "price", "service": "shop", "path": "/thing", "input": { "type": "object", "properties": { "id": { "type": "number" } } } }],
    });
    let broker = Broker::new(serde_json::from_value(spec)?, Secrets::memory(std::collections::BTreeMap::default()))?;
    let ca = Ca::generate().context("a certificate authority")?;
    let issue = |name: String| ca.issue(&[name], LEAF_VALIDITY).context("a certificate");
    let tls = TlsFiles::from_pem(&issue(Identity::new(Process::Broker, "bench", "tools").dns_name())?)?;
    let kernel = PeerClient::new(TlsFiles::from_pem(&issue(Identity::of_pool("bench", "default"))?)?)?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(broker.serve(listener, tls, shutdown.clone()));
    Ok((address, kernel))
}

fn call(number: u64) -> anyhow::Result<ToolCall> {
    let call = json!({
        "namespace": "bench", "session": "bench", "sessionUid": "u", "epoch": 1, "call": number, "tool": "price", "args": { "id": number },
        "settledBelow": number,
    });
    Ok(serde_json::from_value(call)?)
}
