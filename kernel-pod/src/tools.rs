//! Calls to the session's broker.

use std::time::Duration;

use async_trait::async_trait;
use dormouse_protocol::broker::{BodyAnswer, BodyCall, CloseCall, FetchCall, ModulesAnswer, ModulesCall, ToolAnswer, ToolCall};
use dormouse_protocol::{ApiError, ErrorBody, ErrorCode};
use dormouse_service::tls::{Identity, PeerClient, Process};
use dormouse_service::wire::SendError;
use serde::{Serialize, de::DeserializeOwned};

/// Wait before the first repetition of a call that met no broker.
const RETRY_FIRST: Duration = Duration::from_millis(100);

/// The longest wait between two repetitions.
const RETRY_WAIT_MAX: Duration = Duration::from_secs(5);

/// Repetitions of a call that meets no broker: about ten minutes, longer than a broker's rollout.
const RETRIES_MAX: u32 = 120;

/// How long one attempt may take; a tool's own timeout is the broker's matter and is shorter.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(300);

/// What a session can ask of the world.
#[async_trait]
pub trait Tools: Send + Sync {
    /// Makes the call at the ToolBroker named `broker`. The same call may be made again, with the same number, after a lost pod or answer;
    /// whoever implements this answers a repetition from its journal.
    ///
    /// # Errors
    /// The broker refuses the call, or cannot be reached for a long while. `SessionGone`: a later epoch has been seen.
    async fn call(&self, broker: &str, call: ToolCall) -> Result<ToolAnswer, ApiError>;

    /// Makes a request of `fetch`, as [`Tools::call`] makes a call.
    ///
    /// # Errors
    /// As those of a call.
    async fn fetch(&self, _broker: &str, _call: FetchCall) -> Result<ToolAnswer, ApiError> {
        Err(ApiError::new(ErrorCode::NotSupported, "this process makes no requests"))
    }

    /// The next part of a response's body.
    ///
    /// # Errors
    /// As those of a call.
    async fn body(&self, _broker: &str, _call: BodyCall) -> Result<BodyAnswer, ApiError> {
        Err(ApiError::new(ErrorCode::NotSupported, "this process makes no requests"))
    }

    /// Gives a fetch up, or closes its body. A broker that does not hear of it finds out by itself.
    async fn close(&self, _broker: &str, _call: CloseCall) {}

    /// A package of npm and all that it needs.
    ///
    /// # Errors
    /// The broker has no registry, finds no such package, or cannot be reached for a long while.
    async fn modules(&self, _broker: &str, _call: ModulesCall) -> Result<ModulesAnswer, ApiError> {
        Err(ApiError::new(ErrorCode::NotSupported, "this process loads no packages"))
    }
}

/// Brokers behind mTLS.
#[derive(Debug, Clone)]
pub struct BrokerTools {
    client: PeerClient,
    address: String,
}

impl BrokerTools {
    /// Brokers at `address`, in which `{name}` and `{namespace}` are replaced.
    #[must_use]
    pub fn new(client: PeerClient, address: impl Into<String>) -> Self {
        Self { client, address: address.into() }
    }

    /// One sending.
    async fn attempt<A: DeserializeOwned>(&self, way: Way<'_>, call: &impl Serialize) -> Result<A, Attempt> {
        let Way { broker, namespace, path } = way;
        let address = self.address.replace("{name}", broker).replace("{namespace}", namespace);
        let peer = Identity::new(Process::Broker, namespace, broker);
        let request = self.client.request(http::Method::POST, &peer, &address, path);
        let response = self.client.send(request.timeout(ATTEMPT_TIMEOUT).json(call)).await.map_err(|error| match error {
            SendError::Unreachable(cause) => Attempt::Again(cause.to_string()),
            SendError::Lost(cause) => Attempt::Lost(cause.to_string()),
        })?;
        let status = response.status();
        let body = response.bytes().await.map_err(|error| Attempt::Lost(error.to_string()))?;
        if status.is_success() {
            return serde_json::from_slice(&body).map_err(|error| {
                Attempt::Refused(ApiError::new(ErrorCode::Internal, format!("the answer of broker {broker} does not parse: {error}")))
            });
        }
        match serde_json::from_slice::<ErrorBody>(&body) {
            Ok(ErrorBody { error }) if error.code == ErrorCode::SessionGone => Err(Attempt::Refused(error)),
            Ok(ErrorBody { error }) if error.retryable => Err(Attempt::Again(error.to_string())),
            Ok(ErrorBody { error }) => Err(Attempt::Refused(error)),
            Err(_) => Err(Attempt::Lost(format!("broker {broker} answered {status}"))),
        }
    }

    /// Sends a call until it is answered or refused. `repeated` marks one that may have arrived before.
    async fn send<C: Serialize, A: DeserializeOwned>(&self, way: Way<'_>, mut call: C, repeated: impl Fn(&mut C)) -> Result<A, ApiError> {
        let mut wait = RETRY_FIRST;
        let mut last = String::new();
        for attempt in 0..RETRIES_MAX {
            match self.attempt(way, &call).await {
                Ok(answer) => return Ok(answer),
                Err(Attempt::Refused(error)) => return Err(error),
                Err(Attempt::Again(reason)) => last = reason,
                Err(Attempt::Lost(reason)) => {
                    repeated(&mut call);
                    last = reason;
                }
            }
            if attempt == 0 {
                tracing::warn!(broker = way.broker, path = way.path, reason = last, "the broker did not answer; trying again");
            }
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(RETRY_WAIT_MAX);
        }
        Err(ApiError::new(ErrorCode::ToolResultInvalid, format!("broker {} could not be reached: {last}", way.broker)))
    }
}

/// Where a message to a broker goes.
#[derive(Debug, Clone, Copy)]
struct Way<'a> {
    broker: &'a str,
    namespace: &'a str,
    path: &'a str,
}

enum Attempt {
    /// It did not arrive; it may the next time.
    Again(String),
    /// It may have arrived, and the answer did not.
    Lost(String),
    /// It will not.
    Refused(ApiError),
}

#[async_trait]
impl Tools for BrokerTools {
    async fn call(&self, broker: &str, call: ToolCall) -> Result<ToolAnswer, ApiError> {
        let namespace = call.namespace.clone();
        let way = Way { broker, namespace: &namespace, path: "/v1/call" };
        self.send(way, call, |call| call.repeated = true).await
    }

    async fn fetch(&self, broker: &str, call: FetchCall) -> Result<ToolAnswer, ApiError> {
        let namespace = call.call.namespace.clone();
        let way = Way { broker, namespace: &namespace, path: "/v1/fetch" };
        self.send(way, call, |call| call.call.repeated = true).await
    }

    async fn body(&self, broker: &str, call: BodyCall) -> Result<BodyAnswer, ApiError> {
        let namespace = call.namespace.clone();
        self.send(Way { broker, namespace: &namespace, path: "/v1/body" }, call, |_| {}).await
    }

    async fn modules(&self, broker: &str, call: ModulesCall) -> Result<ModulesAnswer, ApiError> {
        let namespace = call.namespace.clone();
        self.send(Way { broker, namespace: &namespace, path: "/v1/modules" }, call, |_| {}).await
    }

    async fn close(&self, broker: &str, call: CloseCall) {
        let namespace = call.namespace.clone();
        let way = Way { broker, namespace: &namespace, path: "/v1/close" };
        if let Err(Attempt::Again(reason) | Attempt::Lost(reason)) = self.attempt::<()>(way, &call).await {
            tracing::debug!(broker, reason, "the broker does not know that a fetch is given up");
        }
    }
}
