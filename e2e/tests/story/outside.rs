//! Steps 3 and 5: `fetch`, where the session's list and the broker's agree.

use anyhow::{Result, ensure};

use super::world::{SESSION, World};

/// `spec.egress.allow` of the README's broker, for this story: one path of the HTTP service, whose address is a private one.
pub const BROKER_RULES: &str = r#"[{"host":"widgets.default.svc","paths":["/calls"],"private":true}]"#;
/// The session's: more of that service than the broker lets through, and a store that the broker does not know.
pub const SESSION_RULES: &str = r#"[{"host":"widgets.default.svc"},{"host":"minio.storage.svc:9000"}]"#;

/// What is on both lists.
const ALLOWED: &str = "http://widgets.default.svc/calls";
/// What is not, and which list lacks it. Each is there, and answers who may reach it.
const REFUSED: [(&str, &str); 3] = [
    ("http://minio.storage.svc:9000/", "a host on the session's list only"),
    ("http://widgets.default.svc/widgets/w1", "a path on the session's list only"),
    ("http://dormouse-gateway.dormouse-system.svc/healthz", "a host on neither list"),
];

/// The service answers what it answers everybody; every other URL is refused with the typed error, and nothing was asked there.
pub async fn fetches(world: &World) -> Result<()> {
    ensure!(fetched(world).await? == (1, 0));
    for (url, why) in REFUSED {
        let code = format!("try {{ await fetch(\"{url}\"); \"answered\" }} catch (error) {{ error.code }}");
        let outcome = world.api.value(SESSION, &code).await?;
        ensure!(outcome == "EgressDenied", "{why}: {url}: {outcome}");
    }
    let uncaught = world.api.eval(SESSION, &format!("await fetch(\"{}\")", REFUSED[0].0)).await?;
    ensure!(uncaught.error.as_ref().is_some_and(|error| error.name == "EgressDenied"), "{uncaught:?}");
    ensure!(fetched(world).await? == (1, 0), "a request that was refused reached the service");
    Ok(())
}

/// On another pod it is the same. What was fetched before is in the heap.
pub async fn fetches_again(world: &World) -> Result<()> {
    ensure!(world.api.value(SESSION, "calls.served").await? == 1);
    ensure!(fetched(world).await? == world.widget_calls().await?);
    Ok(())
}

/// How often the HTTP service was called, as the session hears it: with the right token, without it.
async fn fetched(world: &World) -> Result<(u64, u64)> {
    let code = format!("var calls = await (await fetch(\"{ALLOWED}\")).json(); [calls.served, calls.refused]");
    Ok(serde_json::from_value(world.api.value(SESSION, &code).await?)?)
}
