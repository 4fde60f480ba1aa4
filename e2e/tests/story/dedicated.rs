//! Step 6: a pool whose pods run one session each, with credentials that reach no other.

use anyhow::{Context, Result, bail, ensure};
use serde_json::json;

use dormouse_e2e::pods::Pods;

use super::world::{NAMESPACE, WAIT_SECONDS, World};

const POOL: &str = "strict";
/// Sessions that run beside each other.
const SESSIONS: [&str; 2] = ["alone", "apart"];
/// So small that the machine has room for them beside all else.
const MANIFEST: &str = "
apiVersion: dormouse.dev/v1alpha1
kind: KernelPool
metadata: {name: strict}
spec: {isolation: Dedicated, warmPods: 1, maxPods: 3, resources: {requests: {cpu: 1m, memory: 64Mi}, limits: {memory: 512Mi}}}
";
const SESSION: &str = "
apiVersion: dormouse.dev/v1alpha1
kind: KernelSession
metadata: {name: SESSION}
spec: {pool: strict, idleSeconds: 600, toolBrokerRef: {name: tools}}
";
/// Where a pod of a shared pool, and the reader of a dedicated one, have credentials of the store.
const STORAGE_DIR: &str = "/etc/dormouse/storage";

/// The pool, and two sessions that run at the same time, of which one calls a tool.
pub async fn opens(world: &World) -> Result<()> {
    world.kube.apply(MANIFEST).await?;
    world.kube.wait("condition=Ready", &format!("kernelpool/{POOL}"), WAIT_SECONDS).await?;
    for session in SESSIONS {
        world.kube.apply(&SESSION.replace("SESSION", session)).await?;
        world.wait("condition=Ready", session).await?;
        let code = format!("globalThis.name = \"{session}\"; globalThis.n = 0; globalThis.next = () => ++n; next()");
        ensure!(world.api.insist(session, &code, "first", u64::from(WAIT_SECONDS)).await? == 1);
    }
    let widget = world.api.value(SESSIONS[0], "(await callTool(\"getWidget\", { id: \"w1\" })).name").await?;
    ensure!(widget == "Widget w1", "{widget}");
    Ok(())
}

/// Each session has a pod of its own, whose container was given to it, and which mounts no credentials of the store. The pool's reader does.
pub async fn has_its_own(world: &World) -> Result<()> {
    let mut pods = Vec::new();
    for session in SESSIONS {
        granted(world, session).await?;
        let pod = placed(world, session).await?;
        let pid = world.pods.pid(NAMESPACE, &pod, "kernel")?;
        ensure!(!Pods::sees(pid, STORAGE_DIR) && Pods::sees(pid, "/etc/dormouse/tls"), "{pod}");
        pods.push(pod);
    }
    ensure!(pods[0] != pods[1], "{pods:?}");
    let reader = one_reader(world).await?;
    ensure!(Pods::sees(world.pods.pid(NAMESPACE, &reader, "kernel")?, STORAGE_DIR), "{reader}");
    Ok(())
}

/// What is stored of a session that sleeps is told though no process has it, and its pod goes.
pub async fn sleeps(world: &World) -> Result<()> {
    let (session, pod) = (SESSIONS[0], placed(world, SESSIONS[0]).await?);
    world.api.hibernate(session).await?;
    world.wait("condition=Hibernated", session).await?;
    let journal = world.api.journal(session).await?;
    ensure!(!journal.is_empty(), "the journal of a session that sleeps");
    world.kube.wait("delete", &format!("pod/{pod}"), WAIT_SECONDS).await?;
    // The one that waits for sessions is there before, and the one that follows after.
    world.kube.wait("condition=Available", &format!("deployment/dormouse-kernel-{POOL}"), WAIT_SECONDS).await
}

/// It goes on where it was, in a pod that had no other.
pub async fn wakes(world: &World) -> Result<()> {
    ensure!(world.api.insist(SESSIONS[0], "next()", "second", u64::from(WAIT_SECONDS)).await? == 2);
    Ok(())
}

/// The pod that it is in was given to it, and the other session goes on in its own.
pub async fn is_itself(world: &World) -> Result<()> {
    for session in SESSIONS {
        granted(world, session).await?;
        ensure!(world.api.value(session, "name").await? == session);
    }
    ensure!(world.api.value(SESSIONS[1], "next()").await? == 2);
    Ok(())
}

/// A process that is killed has lost nothing that was answered, and its pod goes.
pub async fn survives_sigkill(world: &World) -> Result<()> {
    let (session, pod) = (SESSIONS[1], placed(world, SESSIONS[1]).await?);
    Pods::kill(world.pods.pid(NAMESPACE, &pod, "kernel")?)?;
    ensure!(world.api.insist(session, "next()", "third", u64::from(WAIT_SECONDS)).await? == 3);
    granted(world, session).await?;
    ensure!(placed(world, session).await? != pod, "it is in the pod that has had it");
    world.kube.wait("delete", &format!("pod/{pod}"), WAIT_SECONDS).await
}

/// Sessions and pool go, and nothing of them is left.
pub async fn closes(world: &World) -> Result<()> {
    let uids = [world.uid(SESSIONS[0]).await?, world.uid(SESSIONS[1]).await?];
    let sessions = SESSIONS.join(" ");
    world.kube.kubectl(&format!("delete kernelsession {sessions} --wait --timeout={WAIT_SECONDS}s")).await?;
    world.kube.kubectl(&format!("delete kernelpool {POOL} --wait --timeout={WAIT_SECONDS}s")).await?;
    for deployment in [format!("dormouse-kernel-{POOL}"), format!("dormouse-reader-{POOL}")] {
        world.kube.kubectl(&format!("wait --for=delete deployment/{deployment} --timeout={WAIT_SECONDS}s")).await?;
    }
    let left = world.bucket.objects().await?;
    let left: Vec<&String> = left.keys().filter(|key| uids.iter().any(|uid| key.contains(uid))).collect();
    ensure!(left.is_empty(), "left in the bucket: {left:?}");
    Ok(())
}

/// The pod of a session that runs.
async fn placed(world: &World, session: &str) -> Result<String> {
    Ok(world.api.session(session).await?.status.placement.context("placement")?.pod)
}

/// The pod of a session was given to this session, in the container that runs.
async fn granted(world: &World, session: &str) -> Result<()> {
    let (pod, uid) = (placed(world, session).await?, world.uid(session).await?);
    let object = world.kube.get(&format!("pod {pod} -n {NAMESPACE}")).await?;
    let container = object["status"]["containerStatuses"][0]["containerID"].as_str().context("containerID")?;
    let granted = &object["metadata"]["annotations"]["dormouse.dev/granted"];
    ensure!(*granted == json!(format!("{container} {uid}")), "{granted}, and the container is {container}, the session {uid}");
    Ok(())
}

async fn one_reader(world: &World) -> Result<String> {
    world.kube.wait("condition=Available", &format!("deployment/dormouse-reader-{POOL}"), WAIT_SECONDS).await?;
    let of = format!("pods -n {NAMESPACE} -l dormouse.dev/pool={POOL},dormouse.dev/role=reader --field-selector=status.phase=Running");
    let readers = world.kube.get(&of).await?;
    let [reader] = readers["items"].as_array().context("items")?.as_slice() else { bail!("not one reader: {readers}") };
    Ok(reader["metadata"]["name"].as_str().context("name")?.to_owned())
}
