//! Whether the API server takes sessions. It looks every five seconds for the kinds that its MutatingAdmissionPolicies write, so for some seconds after
//! the CRDs were made it refuses whatever the chart's policy matches: whoever waits for the operator need not know that.

use std::time::Duration;

use dormouse_crds::{
    labels::MANAGER,
    session::{KernelSession, KernelSessionSpec, ToolBrokerRef},
};
use dormouse_service::Gate;
use kube::{Api, Client, api::PostParams};

/// Pause between two questions.
const AGAIN: Duration = Duration::from_millis(250);
/// What an API server answers that does not know a kind yet.
const UNAVAILABLE: u16 = 503;
/// The session that is asked about, and its ToolBroker. Neither is made.
const NAME: &str = "dormouse-is-a-session-taken";

/// Opens `gate` once a session that names a ToolBroker is not refused because it is too early. Any other answer is one: `use` is asked for after that.
/// `client` must not ask again by itself: it would do so ever more seldom.
pub async fn tell_when_sessions_are_taken(client: Client, namespace: &str, gate: Gate) {
    let sessions: Api<KernelSession> = Api::namespaced(client, namespace);
    let names_a_broker = KernelSessionSpec { tool_broker_ref: Some(ToolBrokerRef::new(NAME)), ..KernelSessionSpec::default() };
    let session = KernelSession::new(NAME, names_a_broker);
    let asked = PostParams { dry_run: true, field_manager: Some(MANAGER.to_owned()) };
    loop {
        match sessions.create(&asked, &session).await {
            Err(kube::Error::Api(status)) if status.code == UNAVAILABLE => {
                gate.not_ready(format!("the API server takes no sessions yet: {}", status.message));
            }
            Ok(_) | Err(kube::Error::Api(_)) => return gate.ready(),
            Err(error) => gate.not_ready(format!("whether the API server takes sessions: {error}")),
        }
        tokio::time::sleep(AGAIN).await;
    }
}
