//! A broker in this process, and pods whose sessions use what its registry has.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use async_trait::async_trait;
use dormouse_broker::{Broker, Secrets};
use dormouse_crds::session::KernelSessionSpec;
use dormouse_engine::{Engine, EngineOptions};
use dormouse_kernel::{Pod, PodConfig, Tools};
use dormouse_protocol::broker::{ModulesAnswer, ModulesCall, ToolAnswer, ToolCall};
use dormouse_protocol::kernel::Assignment;
use dormouse_protocol::{ApiError, ErrorCode};
use dormouse_testkit::registry::Registry;
use serde_json::json;

use crate::common::{World, assign_spec, eval, spec};

pub static ENGINE: LazyLock<Engine> = LazyLock::new(|| Engine::new(EngineOptions::for_user()).unwrap());

/// The way to a broker in this process.
pub struct Direct(Broker);

#[async_trait]
impl Tools for Direct {
    async fn call(&self, _: &str, _: ToolCall) -> Result<ToolAnswer, ApiError> {
        Err(ApiError::new(ErrorCode::ToolNotFound, "there are no tools"))
    }

    async fn modules(&self, _: &str, call: ModulesCall) -> Result<ModulesAnswer, ApiError> {
        self.0.modules(call).await
    }
}

/// A registry, pods that reach it, and sessions that may use what it has.
pub struct Place {
    pub world: World,
    pub registry: Registry,
    tools: Arc<Direct>,
}

impl Place {
    pub async fn new() -> Self {
        let registry = Registry::start().await.unwrap();
        let tools = Arc::new(Direct(broker(&registry.url())));
        Self { world: World::default(), registry, tools }
    }

    pub fn pod(&self, name: &str) -> Pod {
        self.pod_of(name, ENGINE.clone())
    }

    pub fn pod_of(&self, name: &str, engine: Engine) -> Pod {
        pod(name, engine, &self.world, Arc::<Direct>::clone(&self.tools))
    }
}

/// A broker whose packages come from the registry at `url`.
pub fn broker(url: &str) -> Broker {
    let spec = serde_json::from_value(json!({"modules": {"registry": url}})).unwrap();
    Broker::new(spec, Secrets::memory(BTreeMap::new())).unwrap()
}

/// A pod over the world's store that reaches a broker so.
pub fn pod(name: &str, engine: Engine, world: &World, tools: Arc<dyn Tools>) -> Pod {
    let config = PodConfig {
        pod: name.to_owned(),
        namespace: "team".to_owned(),
        pool: "default".to_owned(),
        slots: 10,
        cache_bytes: 64 << 20,
        store_prefix: "p/".to_owned(),
        role: dormouse_kernel::Role::Shared,
    };
    Pod::new(config, engine, world.store.clone(), tools).unwrap()
}

pub fn assign(pod: &Pod, uid: &str, epoch: u64, allow: &[&str]) -> Assignment {
    let modules = serde_json::from_value(json!({ "allow": allow })).unwrap();
    assign_spec(pod, uid, epoch, KernelSessionSpec { modules: Some(modules), ..spec() })
}

/// What a cell fails with: name and message.
pub async fn failure(pod: &Pod, session: &Assignment, code: &str) -> (String, String) {
    let error = eval(pod, session, code).await.error.expect("the cell fails");
    (error.name, error.message)
}
