//! Who is told that a session is deleted: the session's ToolBroker, if a webhook of it names that event, before the finalizer goes. So a deletion that is
//! cut short tells again, and a broker takes one message of it, whoever tells it how often.

use std::time::Duration;

use dormouse_crds::{broker::ToolBroker, session::KernelSession, webhooks::EventKind};
use dormouse_lifecycle::keys::broker_name;
use dormouse_protocol::broker::{Notice, SESSION_NOTICES};
use dormouse_service::tls::{Identity, PeerClient, Process};
use jiff::Timestamp;
use kube::ResourceExt as _;
use reqwest::{Method, StatusCode};

use crate::error::ReconcileError;

/// How long a ToolBroker may take to store a message.
const TOLD_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the end of a session waits for a ToolBroker that does not take its message.
pub(super) const TOLD_PATIENCE: Duration = Duration::from_secs(10 * 60);

/// Whether a ToolBroker tells anybody of sessions that are deleted. One that goes itself, as all do with their namespace, tells nobody.
fn tells(broker: &ToolBroker) -> bool {
    let wants = broker.spec.webhooks.iter().any(|hook| hook.events.contains(&EventKind::SessionDeleted));
    wants && broker.metadata.deletion_timestamp.is_none()
}

/// One without a store for messages (501) never does.
fn may_take_it_later(status: StatusCode) -> bool {
    status == StatusCode::TOO_MANY_REQUESTS || (status.is_server_error() && status != StatusCode::NOT_IMPLEMENTED)
}

/// Tells the ToolBroker of a session whose objects are gone, at `address`, in which `{name}` and `{namespace}` are replaced.
///
/// # Errors
/// It does not answer, and may still within [`TOLD_PATIENCE`].
pub(super) async fn tell_deleted(
    session: &KernelSession,
    broker: Option<&ToolBroker>,
    client: &PeerClient,
    address: &str,
    now: Timestamp,
) -> Result<(), ReconcileError> {
    let Some(broker) = broker.filter(|broker| tells(broker)) else { return Ok(()) };
    let (namespace, name, broker) = (session.namespace().unwrap_or_default(), session.name_any(), broker.name_any());
    let deleted = session.metadata.deletion_timestamp.as_ref().map_or(now, |time| time.0);
    let uid = broker_name(&session.spec.pool, &session.stored_uid());
    let notice = Notice::of_deletion(&namespace, &name, uid, &deleted.to_string());
    let peer = Identity::new(Process::Broker, &namespace, &broker);
    let address = address.replace("{name}", &broker).replace("{namespace}", &namespace);
    let request = client.request(Method::POST, &peer, &address, SESSION_NOTICES).timeout(TOLD_TIMEOUT).json(&notice);
    let error = match request.send().await {
        Ok(answer) if answer.status().is_success() => return Ok(()),
        Ok(answer) if !may_take_it_later(answer.status()) => {
            tracing::warn!(namespace, name, broker, status = %answer.status(), "nobody is told that a session is deleted");
            return Ok(());
        }
        Ok(answer) => format!("{broker} answers {} to the end of session {name}", answer.status()),
        Err(error) => format!("{broker}: {error}"),
    };
    let waited = Duration::try_from(now.duration_since(deleted)).unwrap_or(Duration::ZERO);
    if waited < TOLD_PATIENCE {
        return Err(ReconcileError::Broker(error));
    }
    tracing::warn!(namespace, name, error, "nobody is told that a session is deleted: its ToolBroker has not taken it for ten minutes");
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use axum::{Json, Router, extract::State, routing::post};
    use dormouse_service::{
        ca::{Ca, LEAF_VALIDITY},
        tls::{Server, TlsFiles},
    };
    use serde_json::json;
    use tokio_util::sync::CancellationToken;

    use super::*;

    /// A ToolBroker of team-a that answers with these statuses in turn, and then takes what comes.
    struct Broker {
        statuses: Mutex<Vec<u16>>,
        told: Mutex<Vec<Notice>>,
    }

    async fn take(State(broker): State<Arc<Broker>>, Json(notice): Json<Notice>) -> StatusCode {
        broker.told.lock().unwrap().push(notice);
        let status = broker.statuses.lock().unwrap().pop();
        status.map_or(StatusCode::NO_CONTENT, |status| StatusCode::from_u16(status).unwrap())
    }

    fn session() -> KernelSession {
        let metadata = json!({
            "name": "agent", "namespace": "team-a", "uid": "u-1", "deletionTimestamp": "2030-01-01T00:00:00Z",
        });
        let spec = json!({ "toolBrokerRef": { "name": "tools" }, "pool": "default" });
        let object = json!({ "apiVersion": "dormouse.dev/v1alpha1", "kind": "KernelSession", "metadata": metadata, "spec": spec });
        serde_json::from_value(object).unwrap()
    }

    fn broker(event: &str, deleted: Option<&str>) -> ToolBroker {
        let hook = json!({ "url": "https://a.example/", "events": [event], "secretRef": { "name": "s", "key": "k" } });
        let metadata = json!({ "name": "tools", "namespace": "team-a", "deletionTimestamp": deleted });
        let spec = json!({ "webhooks": [hook] });
        let object = json!({ "apiVersion": "dormouse.dev/v1alpha1", "kind": "ToolBroker", "metadata": metadata, "spec": spec });
        serde_json::from_value(object).unwrap()
    }

    fn after(seconds: i64) -> Timestamp {
        "2030-01-01T00:00:00Z".parse::<Timestamp>().unwrap() + jiff::SignedDuration::from_secs(seconds)
    }

    #[tokio::test]
    async fn a_toolbroker_that_wants_to_know_is_told_that_a_session_is_deleted_and_waited_for() {
        dormouse_service::telemetry::install_tls_provider();
        let ca = Ca::generate().unwrap();
        let issue = |identity: Identity| TlsFiles::from_pem(&ca.issue(&[identity.dns_name()], LEAF_VALIDITY).unwrap()).unwrap();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let served = Arc::new(Broker { statuses: Mutex::new(vec![501, 503, 503]), told: Mutex::default() });
        let routes = Router::new().route(SESSION_NOTICES, post(take)).with_state(Arc::clone(&served));
        let shutdown = CancellationToken::new();
        let tls = issue(Identity::new(Process::Broker, "team-a", "tools"));
        let serving = tokio::spawn(Server::new(tls).serve(listener, routes, shutdown.clone()));
        let client = PeerClient::new(issue(Identity::operator("dormouse-system"))).unwrap();
        let tell = async |broker: Option<ToolBroker>, at: &str, seconds: i64| {
            tell_deleted(&session(), broker.as_ref(), &client, at, after(seconds)).await.map_err(|error| error.to_string())
        };
        let wants = || Some(broker("session_deleted", None));
        // Nobody is asked who tells nobody.
        for silent in [None, Some(broker("completed", None)), Some(broker("session_deleted", Some("2030-01-01T00:00:00Z")))] {
            tell(silent, &address, 0).await.unwrap();
        }
        assert!(served.told.lock().unwrap().is_empty());
        let patience = i64::try_from(TOLD_PATIENCE.as_secs()).unwrap();
        assert!(tell(wants(), &address, patience - 1).await.unwrap_err().contains("503"), "the session stays");
        tell(wants(), &address, patience).await.unwrap();
        tell(wants(), &address, 0).await.expect("one that never takes it is not waited for");
        tell(wants(), &address, 0).await.unwrap();
        assert!(tell(wants(), "127.0.0.1:1", 0).await.is_err(), "nobody is there");
        tell(wants(), "127.0.0.1:1", patience).await.unwrap();
        let told = served.told.lock().unwrap().clone();
        assert_eq!(told.len(), 4);
        assert!(told.iter().all(|notice| *notice == told[0]), "each time the same: {told:?}");
        let Notice { namespace, session, session_uid, key, time, .. } = &told[0];
        assert_eq!((&**namespace, &**session, &**session_uid), ("team-a", "agent", &*broker_name("default", "u-1")));
        assert_eq!((key.as_deref(), &**time), (Some("session_deleted"), "2030-01-01T00:00:00Z"));
        shutdown.cancel();
        serving.await.unwrap();
    }
}
