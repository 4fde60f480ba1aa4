//! Fetches and bodies as a pod deals with them: what leaves, when, and again after the pod is lost.

use std::sync::Arc;

use crate::common::{PATIENCE, World, assign_spec, spec, value};
use async_trait::async_trait;
use dormouse_crds::session::KernelSessionSpec;
use dormouse_engine::{Engine, EngineOptions};
use dormouse_kernel::{Pod, PodConfig, Tools};
use dormouse_protocol::broker::{BodyAnswer, BodyCall, CloseCall, FETCH, FetchCall, ToolAnswer, ToolCall};
use dormouse_protocol::kernel::Assignment;
use dormouse_protocol::{ApiError, ErrorCode};
use serde_json::{Value, json};
use tokio::sync::watch;

/// What a broker was told.
#[derive(Debug, Clone)]
#[expect(clippy::large_enum_variant, reason = "there are a few in a test")]
enum Told {
    Fetch(FetchCall),
    Body(BodyCall),
    Close(CloseCall),
}

/// A network whose `/hang` and whose parts wait until it is open; `/long` has three parts of one byte each.
struct Net {
    told: watch::Sender<Vec<Told>>,
    open: watch::Sender<bool>,
}

impl Net {
    fn new(open: bool) -> Arc<Self> {
        Arc::new(Self { told: watch::channel(Vec::new()).0, open: watch::channel(open).0 })
    }

    fn tell(&self, told: Told) {
        self.told.send_modify(|all| all.push(told));
    }

    async fn opened(&self) {
        self.open.subscribe().wait_for(|open| *open).await.unwrap();
    }

    /// Waits until it was told so much.
    async fn until_told(&self, count: usize) -> Vec<Told> {
        let mut told = self.told.subscribe();
        tokio::time::timeout(PATIENCE, told.wait_for(|told| told.len() >= count)).await.expect("the broker is told").unwrap().clone()
    }
}

#[async_trait]
impl Tools for Net {
    async fn call(&self, _: &str, _: ToolCall) -> Result<ToolAnswer, ApiError> {
        Err(ApiError::new(ErrorCode::ToolNotFound, "there are no tools"))
    }

    async fn fetch(&self, broker: &str, call: FetchCall) -> Result<ToolAnswer, ApiError> {
        assert_eq!(broker, "tools");
        let (url, number) = (call.call.args["url"].as_str().unwrap().to_owned(), call.call.call);
        self.tell(Told::Fetch(call));
        if url.ends_with("/hang") {
            self.opened().await;
        }
        let stream = url.ends_with("/long").then_some(number);
        let response =
            json!({"status": 200, "statusText": "OK", "url": url, "redirected": false, "headers": [], "body": "", "stream": stream});
        Ok(ToolAnswer::Ok { value: json!({ "response": response }) })
    }

    async fn body(&self, _: &str, call: BodyCall) -> Result<BodyAnswer, ApiError> {
        let last = call.part == 2;
        self.tell(Told::Body(call));
        self.opened().await;
        Ok(BodyAnswer::Part { bytes: "eA==".to_owned(), last })
    }

    async fn close(&self, _: &str, call: CloseCall) {
        self.tell(Told::Close(call));
    }
}

fn pod(world: &World, name: &str, net: &Arc<Net>) -> Pod {
    let config = PodConfig {
        pod: name.to_owned(),
        namespace: "team".to_owned(),
        pool: "default".to_owned(),
        slots: 10,
        cache_bytes: 64 << 20,
        store_prefix: "p/".to_owned(),
        role: dormouse_kernel::Role::Shared,
    };
    let engine = Engine::new(EngineOptions::for_user()).unwrap();
    Pod::new(config, engine, world.store.clone(), Arc::<Net>::clone(net)).unwrap()
}

fn assign(pod: &Pod, epoch: u64) -> Assignment {
    let egress = serde_json::from_value(json!({"allow": [{"host": "a.example"}]})).unwrap();
    assign_spec(pod, "u1", epoch, KernelSessionSpec { egress: Some(egress), ..spec() })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pending_fetch_is_asked_for_again_by_its_number_after_a_lost_pod() {
    let (world, net) = (World::default(), Net::new(false));
    let (a, b) = (pod(&world, "a", &net), pod(&world, "b", &net));
    let on_a = assign(&a, 1);
    value(&a, &on_a, "globalThis.answer = fetch('http://a.example/hang', { method: 'POST' }).then((r) => r.status); 0").await;
    net.until_told(1).await;
    a.forget(on_a).await.unwrap();
    let on_b = assign(&b, 2);
    b.wake(on_b.clone()).await.unwrap();
    let told = net.until_told(2).await;
    let [Told::Fetch(first), Told::Fetch(second)] = told.as_slice() else { panic!("{told:?}") };
    assert_eq!((first.call.call, first.call.epoch, first.call.repeated), (1, 1, false));
    assert_eq!((second.call.call, second.call.epoch, second.call.repeated), (1, 2, true));
    assert_eq!((second.call.tool.as_str(), &second.call.args), (FETCH, &first.call.args));
    assert_eq!(serde_json::to_value(&second.allow).unwrap(), json!([{"host": "a.example", "methods": ["GET", "HEAD"], "paths": ["/*"]}]));
    net.open.send_replace(true);
    assert_eq!(value(&b, &on_b, "await answer").await, json!(200));
}

#[tokio::test(flavor = "multi_thread")]
async fn parts_of_a_body_need_no_commit() {
    let (world, net) = (World::default(), Net::new(true));
    let a = pod(&world, "a", &net);
    let on_a = assign(&a, 1);
    let answer = crate::common::eval(&a, &on_a, "const r = await fetch('http://a.example/long'); await r.text()").await;
    assert_eq!(answer.value, Some(json!("xxx")));
    assert_eq!((answer.sequence, answer.stats.tool_calls), (2, 1), "one before the request left, one before the answer");
    let parts: Vec<Value> =
        net.until_told(4).await.iter().map(|told| json!(if let Told::Body(call) = told { Some(call.part) } else { None })).collect();
    assert_eq!(parts, [json!(null), json!(0), json!(1), json!(2)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_part_that_is_awaited_is_asked_for_again_after_a_lost_pod() {
    let (world, net) = (World::default(), Net::new(false));
    let (a, b) = (pod(&world, "a", &net), pod(&world, "b", &net));
    let on_a = assign(&a, 1);
    value(&a, &on_a, "globalThis.r = await fetch('http://a.example/long'); 0").await;
    value(&a, &on_a, "globalThis.text = r.text(); 0").await;
    net.until_told(2).await;
    a.forget(on_a).await.unwrap();
    let on_b = assign(&b, 2);
    b.wake(on_b.clone()).await.unwrap();
    let told = net.until_told(3).await;
    assert!(matches!(&told[2], Told::Body(BodyCall { epoch: 2, stream: 1, part: 0, .. })), "{told:?}");
    net.open.send_replace(true);
    assert_eq!(value(&b, &on_b, "await text").await, json!("xxx"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_given_up_is_closed_at_the_broker() {
    let (world, net) = (World::default(), Net::new(false));
    let a = pod(&world, "a", &net);
    let on_a = assign(&a, 1);
    let begin = "globalThis.control = new AbortController(); globalThis.p = fetch('http://a.example/hang', { signal: control.signal }).catch((e) => e.name); 0";
    value(&a, &on_a, begin).await;
    net.until_told(1).await;
    assert_eq!(value(&a, &on_a, "control.abort(); await p").await, json!("AbortError"));
    let told = net.until_told(2).await;
    assert!(matches!(&told[1], Told::Close(CloseCall { call: 1, epoch: 1, .. })), "{told:?}");

    value(&a, &on_a, "const r = await fetch('http://a.example/long'); await r.body.cancel()").await;
    let told = net.until_told(4).await;
    assert!(matches!(&told[3], Told::Close(CloseCall { call: 2, .. })), "{told:?}");

    let at_once = "const now = new AbortController(); const q = fetch('http://a.example/hang', { signal: now.signal }).catch((e) => e.name); await null; await null; await null; now.abort(); await q";
    assert_eq!(value(&a, &on_a, at_once).await, json!("AbortError"));
    assert_eq!(value(&a, &on_a, "await fetch('http://a.example/x').then((r) => r.status)").await, json!(200));
    let told = net.until_told(5).await;
    assert!(
        matches!(&told[4], Told::Fetch(call) if call.call.args["url"] == "http://a.example/x"),
        "what never left is not closed: {told:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn without_rules_nothing_leaves_the_pod() {
    let (world, net) = (World::default(), Net::new(true));
    let a = pod(&world, "a", &net);
    let without = assign_spec(&a, "u1", 1, spec());
    assert_eq!(value(&a, &without, "await fetch('http://a.example/').catch((e) => e.code)").await, json!("EgressDenied"));
    assert!(net.told.borrow().is_empty());
}
