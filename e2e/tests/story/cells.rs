//! Step 3: cells that define what must survive, and a tool whose secret they never see.

use anyhow::{Result, ensure};

use dormouse_e2e::pods::Pods;

use super::world::{BROKER, NAMESPACE, SESSION, SYSTEM, TOKEN, World};

/// A string that lies in the session's heap, so that the search for the token is known to look at the right bytes.
pub const MARKER: &str = "marker-of-the-heap-51d0";

/// A closure, a class, a Map and a promise that is left pending.
pub async fn define(world: &World) -> Result<()> {
    let api = &world.api;
    ensure!(api.value(SESSION, "let hits: number = 0; const count = (): number => ++hits; count()").await? == 1);
    let class = "class Account { #balance = 0; deposit(x: number): this { this.#balance += x; return this; } get balance(): number { return this.#balance; } }
        const account = new Account().deposit(40);
        account.balance";
    ensure!(api.value(SESSION, class).await? == 40);
    let map = "interface Seen { at: number }
        const seen = new Map<string, Seen>([[\"first\", { at: 1 }]]);
        seen.get(\"first\")!.at";
    ensure!(api.value(SESSION, map).await? == 1);
    let promise = "let release: (value: string) => void = () => {};
        const pending = new Promise<string>((resolve) => { release = resolve; });
        let arrived: string | undefined;
        void pending.then((value) => { arrived = value; });
        typeof arrived";
    ensure!(api.value(SESSION, promise).await? == "undefined");
    ensure!(api.value(SESSION, &format!("const marker = \"{MARKER}\"; marker.length")).await? == MARKER.len());

    let row = world.row(SESSION).await?;
    ensure!(row["READY"] == "True" && row["MODE"] == "Auto", "{row:?}");
    let logged = api.eval(SESSION, "console.log('seen', 1 + 1); count").await?;
    ensure!(logged.value_type == "function" && logged.console.iter().any(|line| line.text == "seen 2"), "{logged:?}");
    Ok(())
}

/// `callTool` returns the service's answer, and the service was called once.
pub async fn call_tool(world: &World) -> Result<()> {
    let name = world.api.value(SESSION, "const widget = await callTool(\"getWidget\", { id: \"w1\" }); widget.name").await?;
    ensure!(name == "Widget w1", "{name}");
    ensure!(world.widget_calls().await? == (1, 0), "{:?}", world.widget_calls().await?);
    let refused = world.api.eval(SESSION, "await callTool(\"getWidget\", { id: 7 })").await?;
    ensure!(refused.error.as_ref().is_some_and(|error| error.name == "ToolArgsInvalid"), "{refused:?}");
    ensure!(world.widget_calls().await? == (1, 0), "bad arguments reached the service");
    Ok(())
}

/// Not in a kernel pod's environment, not in any log, not in the stored bytes; and the same search finds what is there.
pub async fn token_is_nowhere(world: &World) -> Result<()> {
    for pod in world.kernel_pods().await? {
        let environment = Pods::environment(world.pods.pid(NAMESPACE, &pod, "kernel")?)?;
        ensure!(environment.iter().any(|line| line == &format!("DORMOUSE_POD={pod}")), "not the kernel's environment: {environment:?}");
        ensure!(!environment.iter().any(|line| line.contains(TOKEN)), "{pod}: {environment:?}");
        let mounted = world.kube.get(&format!("pod {pod}")).await?.to_string();
        ensure!(!mounted.contains("\"widgets\"") && !mounted.contains(TOKEN), "the kernel pod names the tool's Secret: {mounted}");
    }
    // The image has it compiled, so that a pod starts at once.
    let log = world.kube.kubectl(&format!("logs -n {NAMESPACE} -l dormouse.dev/component=kernel --tail=-1")).await?;
    ensure!(!log.contains("compiling the engine"), "{log}");
    for selector in ["dormouse.dev/component=kernel", "dormouse.dev/component=broker"] {
        no_token_in_logs(world, &format!("-n {NAMESPACE} -l {selector}")).await?;
    }
    for deployment in ["dormouse-gateway", "dormouse-operator"] {
        no_token_in_logs(world, &format!("-n {SYSTEM} deployment/{deployment}")).await?;
    }
    let heap = world.bucket.heap(&world.uid(SESSION).await?).await?;
    ensure!(heap.contains(MARKER.as_bytes()), "the heap that was read back does not hold what a cell put there");
    ensure!(!heap.contains(TOKEN.as_bytes()), "the token is in the session's stored heap or state");
    for (key, bytes) in world.bucket.objects().await? {
        ensure!(!bytes.windows(TOKEN.len()).any(|window| window == TOKEN.as_bytes()), "the token is in {key}");
    }
    let config = world.kube.get(&format!("configmap {BROKER}-broker")).await?.to_string();
    ensure!(!config.contains(TOKEN), "the token is in the broker's ConfigMap");
    Ok(())
}

async fn no_token_in_logs(world: &World, args: &str) -> Result<()> {
    let text = world.kube.kubectl(&format!("logs --all-containers --tail=-1 {args}")).await?;
    ensure!(!text.is_empty(), "no log of {args}: the search would find nothing anyway");
    ensure!(!text.contains(TOKEN), "the token is in the log of {args}");
    Ok(())
}
