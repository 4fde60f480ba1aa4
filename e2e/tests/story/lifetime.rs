//! Steps 4 to 7: sleep, move, crash, restart, delete.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::json;

use dormouse_e2e::pods::Pods;
use dormouse_protocol::{ErrorCode, eval::Woke};

use super::world::{NAMESPACE, SESSION, WAIT_SECONDS, World};

/// Pause between two looks at the bucket.
const POLL: Duration = Duration::from_millis(100);

/// Sessions that move in the rolling restart, beside the README's.
const MOVING_SESSIONS: usize = 8;

/// Left idle it hibernates: the head is in the bucket.
pub async fn falls_asleep(world: &World) -> Result<()> {
    world.kube.kubectl_args(&["patch", "kernelsession", SESSION, "--type=merge", "-p", r#"{"spec":{"idleSeconds":2}}"#]).await?;
    world.wait("condition=Hibernated", SESSION).await?;
    let row = world.row(SESSION).await?;
    ensure!(row["READY"] == "True" && row["STATE"] == "Hibernated" && row["MODE"] == "Auto", "{row:?}");
    ensure!(!row["HEAP"].is_empty() && row["SNAPSHOT"].parse::<u64>().is_ok_and(|sequence| sequence > 0), "{row:?}");
    ensure!(!row["IDLE"].is_empty() && !row["AGE"].is_empty(), "{row:?}");
    let head = world.bucket.head(&world.uid(SESSION).await?).await?.context("no head in the bucket")?;
    ensure!(row["SNAPSHOT"] == head.sequence.to_string(), "status says {row:?}, the head says {}", head.sequence);
    Ok(())
}

/// No live session holds a slot any more. Returns the pod that ran the README's session.
pub async fn slot_is_free(world: &World) -> Result<String> {
    world.kube.wait("jsonpath={.status.sessions}=0", "kernelpool/default", WAIT_SECONDS).await?;
    let session = world.kube.get(&format!("kernelsession {SESSION}")).await?;
    Ok(session["status"]["placement"]["pod"].as_str().context("a session that sleeps in place keeps its placement")?.to_owned())
}

/// The pod that ran it is deleted; its Deployment makes another. The session stays Hibernated and shows no pod.
pub async fn delete_pod(world: &World, pod: &str) -> Result<()> {
    world.kube.kubectl(&format!("delete pod {pod} --wait --timeout={WAIT_SECONDS}s")).await?;
    world.kube.kubectl(&format!("rollout status deployment/dormouse-kernel-default --timeout={WAIT_SECONDS}s")).await?;
    let row = world.row_until(SESSION, |row| row["POD"].is_empty()).await?;
    ensure!(row["STATE"] == "Hibernated" && row["READY"] == "True", "{row:?}");
    Ok(())
}

/// One request; the closure counts on.
pub async fn wakes_elsewhere(world: &World, old: &str) -> Result<()> {
    let woken = world.api.eval(SESSION, "count()").await?;
    ensure!(woken.value == Some(json!(2)), "{woken:?}");
    ensure!(woken.stats.woke == Woke::Storage, "{woken:?}");
    let session = world.api.session(SESSION).await?;
    let placement = session.status.placement.context("a live session has a placement")?;
    ensure!(placement.pod != old, "it is still on {old}");
    let row = world.row(SESSION).await?;
    ensure!(row["POD"] == placement.pod, "{row:?}");
    Ok(())
}

/// The class instance, the Map, the promise; the tool was called once in total.
pub async fn heap_is_whole(world: &World) -> Result<()> {
    let api = &world.api;
    ensure!(api.value(SESSION, "account.deposit(2).balance").await? == 42);
    ensure!(api.value(SESSION, "account instanceof Account && [...seen.keys()].join()").await? == "first");
    ensure!(api.value(SESSION, "release(\"woken\"); await pending").await? == "woken");
    ensure!(api.value(SESSION, "arrived").await? == "woken", "what was chained before the sleep did not run");
    ensure!(api.value(SESSION, "widget.name").await? == "Widget w1");
    ensure!(world.widget_calls().await? == (1, 0), "{:?}", world.widget_calls().await?);
    Ok(())
}

/// `kubectl patch` to Hibernated and back.
pub async fn operating_mode(world: &World) -> Result<()> {
    set_mode(world, "Hibernated").await?;
    world.wait("condition=Hibernated", SESSION).await?;
    let row = world.row(SESSION).await?;
    ensure!(row["MODE"] == "Hibernated" && row["STATE"] == "Hibernated", "{row:?}");
    let refusal = world.api.refused(SESSION, "count()").await?;
    ensure!(refusal.error.code == ErrorCode::Conflict && refusal.error.message.contains("operatingMode"), "{refusal:?}");
    set_mode(world, "Running").await?;
    world.wait("condition=Hibernated=false", SESSION).await?;
    let row = world.row(SESSION).await?;
    ensure!(row["MODE"] == "Running" && row["READY"] == "True" && !row["POD"].is_empty(), "{row:?}");
    set_mode(world, "Auto").await?;
    ensure!(world.api.value(SESSION, "count()").await? == 3);
    Ok(())
}

async fn set_mode(world: &World, mode: &str) -> Result<()> {
    let patch = format!("{{\"spec\":{{\"operatingMode\":\"{mode}\"}}}}");
    world.kube.kubectl_args(&["patch", "kernelsession", SESSION, "--type=merge", "-p", &patch]).await?;
    Ok(())
}

/// SIGKILL of the kernel process right after an acked eval loses nothing.
pub async fn survives_sigkill(world: &World) -> Result<()> {
    let kept = world.api.value(SESSION, "const kept = { after: count() }; kept.after").await?;
    let pod = world.api.session(SESSION).await?.status.placement.context("placement")?.pod;
    Pods::kill(world.pods.pid(NAMESPACE, &pod, "kernel")?)?;
    ensure!(world.api.value(SESSION, "kept.after").await? == kept);
    ensure!(world.api.value(SESSION, "count()").await? == kept.as_u64().unwrap_or_default() + 1);
    Ok(())
}

/// SIGTERM of every kernel pod, one after the other, under live sessions: each goes on elsewhere with what it had.
pub async fn survives_rolling_restart(world: &World) -> Result<()> {
    let names: Vec<String> = (0..MOVING_SESSIONS).map(|index| format!("moving-{index}")).collect();
    for (index, name) in names.iter().enumerate() {
        world.api.create(name, json!({})).await?;
        ensure!(
            world.api.value(name, &format!("let total = {index}; const add = (x: number) => (total += x); add(100)")).await? == 100 + index
        );
    }
    let before = world.kernel_pods().await?;
    world.kube.kubectl("rollout restart deployment/dormouse-kernel-default").await?;
    world.kube.kubectl(&format!("rollout status deployment/dormouse-kernel-default --timeout={WAIT_SECONDS}s")).await?;
    for pod in &before {
        world.kube.kubectl(&format!("wait --for=delete pod/{pod} --timeout={WAIT_SECONDS}s")).await?;
    }
    for (index, name) in names.iter().enumerate() {
        ensure!(world.api.value(name, "add(1)").await? == 101 + index, "{name} lost something");
        let pod = world.api.session(name).await?.status.placement.context("placement")?.pod;
        ensure!(!before.contains(&pod), "{name} is on {pod}, which is gone");
    }
    ensure!(world.api.value(SESSION, "widget.name").await? == "Widget w1");
    ensure!(world.widget_calls().await? == (1, 0), "a move called the tool again");
    Ok(())
}

/// All sessions asleep, the pool lets its last pod go; the next request has one made, and finds what the session was.
pub async fn scales_to_zero_and_back(world: &World) -> Result<()> {
    let count = world.api.value(SESSION, "count()").await?.as_u64().unwrap_or_default();
    let warm = |pods: u32| format!("{{\"spec\":{{\"warmPods\":{pods}}}}}");
    world.kube.kubectl_args(&["patch", "kernelpool", "default", "--type=merge", "-p", &warm(0)]).await?;
    let asleep = r#"{"spec":{"operatingMode":"Auto","idleSeconds":2}}"#;
    for index in 0..MOVING_SESSIONS {
        world.kube.kubectl_args(&["patch", "kernelsession", &format!("moving-{index}"), "--type=merge", "-p", asleep]).await?;
    }
    for round in 1..=2 {
        for pod in world.kernel_pods().await? {
            world.kube.kubectl(&format!("wait --for=delete pod/{pod} --timeout={WAIT_SECONDS}s")).await?;
        }
        let ready = r#"jsonpath={.status.conditions[?(@.type=="Ready")].reason}=ScaledToZero"#;
        world.kube.wait(ready, "kernelpool/default", WAIT_SECONDS).await?;
        let row = world.row_until(SESSION, |row| row["POD"].is_empty()).await?;
        ensure!(row["STATE"] == "Hibernated" && row["READY"] == "True", "{row:?}");
        ensure!(world.api.value(SESSION, "count()").await? == count + round, "it lost something");
    }
    world.kube.kubectl_args(&["patch", "kernelpool", "default", "--type=merge", "-p", &warm(1)]).await?;
    Ok(())
}

/// After `kubectl delete kernelsession` no object is in the bucket.
pub async fn delete_leaves_nothing(world: &World) -> Result<()> {
    ensure!(!world.bucket.objects().await?.is_empty(), "the bucket was empty before the deletion");
    world.kube.kubectl(&format!("delete kernelsession --all --wait --timeout={WAIT_SECONDS}s")).await?;
    let left = world.bucket.sessions().await?;
    ensure!(left.is_empty(), "left in the bucket: {left:?}");
    Ok(())
}

/// What a process stores that was cut off, and goes on when its session is gone, is removed by the operator's next sweep.
pub async fn nothing_stays_of_the_dead(world: &World) -> Result<()> {
    world.bucket.leave(NAMESPACE).await?;
    let deadline = Instant::now() + Duration::from_secs(u64::from(WAIT_SECONDS));
    loop {
        let left = world.bucket.sessions().await?;
        if left.is_empty() {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "still in the bucket: {left:?}");
        tokio::time::sleep(POLL).await;
    }
}
