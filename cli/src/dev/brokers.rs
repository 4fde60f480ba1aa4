//! A broker for each ToolBroker manifest, on a loopback port of its own.

use std::{collections::HashMap, path::PathBuf};

use anyhow::Context as _;
use async_trait::async_trait;
use dormouse_broker::{Broker, BrokerStore};
use dormouse_crds::broker::Offload;
use dormouse_crds::manifest::Document;
use dormouse_crds::webhooks::EventKind;
use dormouse_gateway::directory::folder::POOL;
use dormouse_kernel::{BodyParts, BrokerTools, Tools};
use dormouse_protocol::{
    ApiError, ErrorCode,
    broker::{BodyAnswer, BodyCall, CloseCall, FetchCall, ModulesAnswer, ModulesCall, Notice, ToolAnswer, ToolCall},
};
use dormouse_service::{
    Metrics,
    tls::{PeerClient, Process},
};
use tokio::net::TcpListener;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{POD, certificates::Authority, sessions, values};

/// Serves the brokers of the files, which store what outlives them where `store` says.
pub(super) async fn start(
    files: &[PathBuf],
    namespace: &str,
    store: &BrokerStore,
    authority: &Authority,
    shutdown: &CancellationToken,
    tasks: &TaskTracker,
) -> anyhow::Result<DevTools> {
    let documents = sessions::read(files, namespace)?;
    let secrets = values::following(files, namespace, &documents);
    let (mut brokers, mut addresses) = (HashMap::new(), HashMap::new());
    for document in documents {
        let Document::Broker(metadata, spec) = document else { continue };
        let store = BrokerStore { broker: metadata.name.clone(), ..store.clone() };
        let broker = Broker::with_store(&spec, secrets.clone(), &Metrics::new(), Some(store))
            .with_context(|| format!("ToolBroker {}", metadata.name))?;
        broker.look_now().await;
        tasks.spawn(shutdown.clone().run_until_cancelled_owned(broker.clone().keep_looking()));
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let client = PeerClient::new(authority.issue_kernel(namespace, POOL, POD)?)?;
        let address = listener.local_addr()?.to_string();
        let tools = BrokerTools::new(client, address.clone());
        addresses.insert(metadata.name.clone(), address);
        let tls = authority.issue(Process::Broker, namespace, &metadata.name)?;
        let shutdown = shutdown.clone();
        tasks.spawn(async move { broker.serve(listener, tls, shutdown).await });
        brokers.insert(metadata.name, tools);
    }
    Ok(DevTools { brokers, addresses })
}

/// The way to the brokers: as in a cluster, but each has a port and not a DNS name.
pub(super) struct DevTools {
    /// By name. The pod runs sessions of one namespace only.
    brokers: HashMap<String, BrokerTools>,
    /// Where they listen.
    addresses: HashMap<String, String>,
}

impl DevTools {
    /// Where each listens.
    pub(super) fn addresses(&self) -> HashMap<String, String> {
        self.addresses.clone()
    }

    /// The brokers' names, for people.
    pub(super) fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.brokers.keys().cloned().collect();
        names.sort_unstable();
        names
    }
}

impl DevTools {
    fn named(&self, broker: &str) -> Result<&BrokerTools, ApiError> {
        self.brokers.get(broker).ok_or_else(|| {
            let message = format!("there is no ToolBroker {broker}: start `dormouse dev` with a --broker FILE.yaml that has it");
            ApiError::new(ErrorCode::ToolNotFound, message)
        })
    }
}

#[async_trait]
impl Tools for DevTools {
    async fn call(&self, broker: &str, call: ToolCall) -> Result<ToolAnswer, ApiError> {
        self.named(broker)?.call(broker, call).await
    }

    async fn upload(&self, broker: &str, call: ToolCall, body: BodyParts) -> Result<ToolAnswer, ApiError> {
        self.named(broker)?.upload(broker, call, body).await
    }

    async fn fetch(&self, broker: &str, call: FetchCall) -> Result<ToolAnswer, ApiError> {
        self.named(broker)?.fetch(broker, call).await
    }

    async fn body(&self, broker: &str, call: BodyCall) -> Result<BodyAnswer, ApiError> {
        self.named(broker)?.body(broker, call).await
    }

    async fn modules(&self, broker: &str, call: ModulesCall) -> Result<ModulesAnswer, ApiError> {
        self.named(broker)?.modules(broker, call).await
    }

    fn page(&self, session_uid: &str) -> Option<String> {
        // They share one store, and a session has one page there.
        self.brokers.values().find_map(|tools| tools.page(session_uid))
    }

    fn forget_page(&self, session_uid: &str) {
        self.brokers.values().for_each(|tools| tools.forget_page(session_uid));
    }

    fn wants(&self, namespace: &str, broker: &str, event: EventKind) -> bool {
        self.named(broker).map_or(true, |tools| tools.wants(namespace, broker, event))
    }

    fn tells(&self, namespace: &str, broker: &str, event: EventKind) -> Option<bool> {
        self.named(broker).ok()?.tells(namespace, broker, event)
    }

    async fn learn_events(&self, namespace: &str, broker: &str) -> bool {
        match self.named(broker) {
            Ok(tools) => tools.learn_events(namespace, broker).await,
            Err(_) => false,
        }
    }

    fn offload(&self, namespace: &str, broker: &str) -> Offload {
        self.named(broker).map_or_else(|_| Offload::default(), |tools| tools.offload(namespace, broker))
    }

    async fn notify(&self, broker: &str, notice: Notice) -> Result<(), ApiError> {
        self.named(broker)?.notify(broker, notice).await
    }

    async fn close(&self, broker: &str, call: CloseCall) {
        if let Ok(tools) = self.named(broker) {
            tools.close(broker, call).await;
        }
    }
}
