//! Step 6: a broker that waits and reaches. A call waits for a person while its session sleeps, `kubectl` lists and decides it; a session's calls have
//! credentials of their own, and a value that changes in their Secret is in use soon.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use dormouse_protocol::session::State;
use serde_json::{Value, json};

use super::world::{NAMESPACE, TOKEN, WAIT_SECONDS, World};

const BROKER: &str = "bank";
/// Calls that a person has to agree to.
const CAREFUL: &str = "careful";
/// Has a Secret of its own.
const ANN: &str = "ann";
/// Seconds for a call that waits for somebody, or for a pod.
const CALL_SECONDS: u64 = 80;
/// Pause between two calls.
const POLL: Duration = Duration::from_millis(500);

const MANIFEST: &str = include_str!("../../manifests/bank.yaml");

/// A second broker, whose service allows a session to name another Secret, and the sessions.
pub async fn opens(world: &World) -> Result<()> {
    world.kube.apply(MANIFEST).await?;
    world.kube.wait("condition=Ready", &format!("toolbroker/{BROKER}"), WAIT_SECONDS).await?;
    for session in [CAREFUL, ANN] {
        world.wait("condition=Ready", session).await?;
        // By the cluster's admission, and whoever it is was asked about before the session had a place.
        let broker = &world.kube.get(&format!("kernelsession {session}")).await?["spec"]["toolBrokerRef"];
        ensure!(broker["namedBy"]["user"].as_str().is_some_and(|user| !user.is_empty()), "{broker}");
    }
    Ok(())
}

/// A call waits in a session that sleeps, is an object of the cluster, and is made once when somebody patches that object.
pub async fn kubectl_decides(world: &World) -> Result<()> {
    let (served, refused) = world.widget_calls().await?;
    for (number, decision, value) in [(1, json!({ "decision": "approve" }), "Widget w7"), (2, denied(), "ApprovalDenied: not today")] {
        let code = "await callTool(\"readCarefully\", { id: \"w7\" }).then((widget) => widget.name, (error) => \
                    `${error.name}: ${error.message.split(\": \").at(-1)}`)";
        let key = format!("carefully-{number}");
        let decides = async {
            let name = format!("{CAREFUL}.a-{number}");
            waits(world, &name).await?;
            world.wait("condition=Hibernated", CAREFUL).await?;
            let session = world.api.session(CAREFUL).await?;
            ensure!(session.state == State::WaitingForApproval, "{session:?}");
            let object = world.kube.get(&format!("toolapproval {name}")).await?;
            ensure!(object["spec"]["epoch"].as_u64().is_some_and(|epoch| epoch > 0), "{object}");
            ensure!(object["spec"]["toolName"] == "readCarefully" && object["spec"]["args"] == json!({ "id": "w7" }), "{object}");
            ensure!(world.widget_calls().await?.0 == served + number - 1, "it was called before anybody agreed");
            let patch = json!({ "spec": decision }).to_string();
            world.kube.kubectl_args(&["patch", "toolapproval", &name, "--type=merge", "-p", &patch]).await
        };
        let (answer, decided) = tokio::join!(world.api.insist(CAREFUL, code, &key, CALL_SECONDS), decides);
        decided.context("the decision")?;
        let answer = answer?;
        ensure!(answer == value, "{answer}");
    }
    ensure!(world.widget_calls().await? == (served + 1, refused), "{:?}", world.widget_calls().await?);
    Ok(())
}

fn denied() -> Value {
    json!({ "decision": "deny", "reason": "not today" })
}

/// Waits until the call is an object. `kubectl wait` fails at once where there is none, but with `--for=create`.
async fn waits(world: &World, name: &str) -> Result<()> {
    world.kube.wait("create", &format!("toolapproval/{name}"), WAIT_SECONDS).await
}

/// The service refuses what the session's Secret holds; another value is in use with a later call. Every call is answered meanwhile, though the broker's
/// pods are replaced.
pub async fn rotates(world: &World) -> Result<()> {
    let (_, refused) = world.widget_calls().await?;
    let code = "await callTool(\"readWidget\", { id: \"w8\" }).then((widget) => widget.name, (error) => error.name)";
    ensure!(world.api.value(ANN, code).await? == "ToolDenied");
    ensure!(world.widget_calls().await?.1 > refused, "it was called with the broker's own Secret");
    let patch = json!({ "stringData": { "token": TOKEN } }).to_string();
    world.kube.kubectl_args(&["patch", "secret", ANN, "-p", &patch]).await?;
    // A kubelet brings it within its period of synchronization, or the operator a new pod.
    let deadline = Instant::now() + Duration::from_secs(CALL_SECONDS);
    loop {
        let said = world.api.value(ANN, code).await?;
        if said == "Widget w8" {
            break;
        }
        ensure!(said == "ToolDenied" && Instant::now() < deadline, "{said}");
        tokio::time::sleep(POLL).await;
    }
    Ok(())
}

/// The sessions and the broker go, and what the broker ran on goes with it.
pub async fn closes(world: &World) -> Result<()> {
    world.kube.kubectl(&format!("delete -n {NAMESPACE} kernelsession/{CAREFUL} kernelsession/{ANN} toolbroker/{BROKER}")).await?;
    world.kube.kubectl(&format!("wait --for=delete deployment/{BROKER}-broker --timeout={WAIT_SECONDS}s")).await?;
    Ok(())
}
