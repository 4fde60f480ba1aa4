//! The far side of tools: counts what it was asked to do.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use dormouse_service::wire::{SendError, Wire};
use futures::future::BoxFuture;
use reqwest::{Request, Response};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::chaos::{Act, Chaos, Fate};

/// How often what was done, by its id.
#[derive(Clone)]
pub struct Service {
    done: Arc<Mutex<BTreeMap<String, u64>>>,
    chaos: Chaos,
}

impl std::fmt::Debug for Service {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Service")
    }
}

impl Service {
    pub fn new(chaos: Chaos) -> Self {
        Self { done: Arc::default(), chaos }
    }

    pub fn times(&self, id: &str) -> u64 {
        self.done.lock().unwrap().get(id).copied().unwrap_or(0)
    }

    pub fn done(&self) -> BTreeMap<String, u64> {
        self.done.lock().unwrap().clone()
    }
}

impl Wire for Service {
    fn carry(&self, request: Request) -> BoxFuture<'static, Result<Response, SendError>> {
        let this = self.clone();
        Box::pin(async move {
            let body: Value =
                request.body().and_then(|body| body.as_bytes()).and_then(|bytes| serde_json::from_slice(bytes).ok()).unwrap_or_default();
            let asked = request.url().query_pairs().find(|(name, _)| name == "id").map(|(_, id)| id.into_owned());
            let id = body.get("id").and_then(Value::as_str).map(str::to_owned).or(asked).unwrap_or_default();
            let act = Act { from: "broker".into(), to: "service".into(), verb: "CALL", name: id.clone(), bytes: 0 };
            let fate = this.chaos.decide(&act);
            let make = |this: &Self| {
                let mut done = this.done.lock().unwrap();
                let times = done.entry(id.clone()).or_default();
                *times += 1;
                *times
            };
            let (times, after) = match fate {
                Fate::Arrives { before, after } => {
                    sleep(Duration::from_millis(before)).await;
                    (make(&this), after)
                }
                Fate::ReplyLost { before } => {
                    sleep(Duration::from_millis(before)).await;
                    make(&this);
                    return std::future::pending().await;
                }
                Fate::RequestLost | Fate::ArrivesLate { .. } => return std::future::pending().await,
                Fate::Busy | Fate::Conflict | Fate::Refused => {
                    let mut refused = http::Response::new(reqwest::Body::from("later"));
                    *refused.status_mut() = http::StatusCode::SERVICE_UNAVAILABLE;
                    return Ok(Response::from(refused));
                }
            };
            sleep(Duration::from_millis(after)).await;
            let answer = json!({"id": id, "times": times}).to_string();
            Ok(Response::from(http::Response::new(reqwest::Body::from(answer))))
        })
    }
}
