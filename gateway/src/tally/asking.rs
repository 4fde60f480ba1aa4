//! Asking the gateway that counts.

use std::{
    collections::HashMap,
    net::{IpAddr, SocketAddr},
    sync::Mutex,
    time::Duration,
};

use dormouse_service::{
    answer::read_json,
    tls::{Identity, PeerClient},
};
use reqwest::Method;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use tokio::time::Instant;

use super::lock;
use crate::{
    chain::chain,
    peers::{First, Peers},
};

/// How long the gateway that counts may take to answer: it may have to wait for the next second of the clock.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(2_500);
/// For so long one that has not answered is not asked again.
const SILENT_FOR: Duration = Duration::from_secs(5);
/// How often gateways whose lists differ are asked again, and how long.
const LISTS_DIFFER_POLL: Duration = Duration::from_millis(100);
const LISTS_DIFFER_FOR: Duration = Duration::from_secs(3);
/// Bytes of an answer at most.
const ANSWER_BYTES_MAX: usize = 1_024;

/// The other gateways, and how they are asked.
#[derive(Debug)]
pub(super) struct Asking {
    pub(super) peers: Peers,
    client: PeerClient,
    gateway: Identity,
    port: u16,
    /// By name, the gateways that do not answer, and until when they are not asked.
    silent: Mutex<HashMap<String, Instant>>,
}

/// What a gateway answers.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Counted<T> {
    /// `null`: it does not count for this namespace.
    pub(super) counted: Option<T>,
}

impl Asking {
    pub(super) fn new(peers: Peers, client: PeerClient, system_namespace: &str, port: u16) -> Self {
        let gateway = Identity::gateway(system_namespace);
        Self { peers, client, gateway, port, silent: Mutex::default() }
    }

    /// What the gateway that counts for the namespace answers; `None`: nothing, or this one is it by now.
    pub(super) async fn ask<T: DeserializeOwned>(&self, namespace: &str, path: &str, call: &impl Serialize) -> Option<T> {
        let (mut peers, until) = (self.peers.clone(), Instant::now() + LISTS_DIFFER_FOR);
        while Instant::now() < until {
            let First::Other(name, address) = peers.first(namespace) else { return None };
            if lock(&self.silent).get(&name).is_some_and(|until| Instant::now() < *until) {
                return None;
            }
            match self.post(address, path, call).await {
                Ok(Counted { counted: Some(answer) }) => {
                    lock(&self.silent).remove(&name);
                    return Some(answer);
                }
                Ok(Counted { counted: None }) => {
                    let _ = tokio::time::timeout(LISTS_DIFFER_POLL, peers.changed()).await;
                }
                Err(error) => {
                    tracing::warn!(gateway = name, namespace, error, "the gateway that counts does not answer: each counts for itself");
                    lock(&self.silent).insert(name, Instant::now() + SILENT_FOR);
                    return None;
                }
            }
        }
        None
    }

    async fn post<T: DeserializeOwned>(&self, address: IpAddr, path: &str, call: &impl Serialize) -> Result<Counted<T>, String> {
        let address = SocketAddr::new(address, self.port).to_string();
        let request = self.client.request(Method::POST, &self.gateway, &address, path).timeout(ANSWER_TIMEOUT).json(call);
        let response = self.client.send(request).await.map_err(|error| chain(&error))?;
        let response = response.error_for_status().map_err(|error| chain(&error))?;
        read_json(response, ANSWER_BYTES_MAX).await.map_err(|error| chain(&error))
    }
}
