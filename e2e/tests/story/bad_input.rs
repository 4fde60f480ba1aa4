//! What is wrong gets a sentence and a type, and nothing else suffers.

use anyhow::{Result, ensure};

use dormouse_protocol::ErrorCode;

use super::world::{SESSION, WAIT_SECONDS, World};

/// An S3 store that looks at a condition first and writes afterwards.
const CARELESS_STORE: &str = include_str!("../../manifests/careless-store.yaml");

/// 401 and 403 tell nothing about what exists.
pub async fn strangers_are_refused(world: &World) -> Result<()> {
    let nobody = world.api.with_token("not-a-token")?.refused(SESSION, "1").await?;
    ensure!(nobody.status == 401 && nobody.error.code == ErrorCode::Unauthenticated, "{nobody:?}");
    let token = world.kube.kubectl("create token stranger --audience dormouse").await?;
    let stranger = world.api.with_token(token.trim())?;
    let existing = stranger.refused(SESSION, "1").await?;
    let missing = stranger.refused("no-such-session", "1").await?;
    ensure!(existing.status == 403 && existing.error.code == ErrorCode::Forbidden, "{existing:?}");
    ensure!(existing.status == missing.status && existing.error.code == missing.error.code, "{existing:?} {missing:?}");
    let other_audience = world.kube.kubectl("create token app --audience somebody-else").await?;
    let elsewhere = world.api.with_token(other_audience.trim())?.refused(SESSION, "1").await?;
    ensure!(elsewhere.status == 401, "a token for another audience was taken: {elsewhere:?}");
    Ok(())
}

/// A cell that throws, loops, exhausts memory or overflows the stack gets its typed error, and the session lives on.
pub async fn cells_that_fail(world: &World) -> Result<()> {
    let name = "rough";
    let spec = serde_json::json!({ "limits": { "evalTimeoutMs": 1000, "heapBytes": 16 << 20 } });
    world.api.create(name, spec).await?;
    ensure!(world.api.value(name, "let alive = 1; alive").await? == 1);
    let cases = [
        ("throw new TypeError('no')", ErrorCode::UncaughtException),
        ("for (;;) {}", ErrorCode::TimeoutError),
        ("const hoard: string[] = []; for (;;) hoard.push('x'.repeat(65536) + hoard.length)", ErrorCode::MemoryLimitError),
        ("const down = (n: number): number => down(n + 1) + 1; down(0)", ErrorCode::StackOverflow),
        ("const = 1", ErrorCode::SyntaxError),
    ];
    for (code, expected) in cases {
        let result = world.api.eval(name, code).await?;
        ensure!(!result.ok && result.error.as_ref().is_some_and(|error| error.code == expected), "{code}: {result:?}");
        ensure!(world.api.value(name, "alive").await? == 1, "{code}: the session did not live on");
    }
    world.api.delete(name).await?;
    world.kube.kubectl(&format!("wait --for=delete kernelsession/{name} --timeout={WAIT_SECONDS}s")).await?;
    Ok(())
}

/// CEL refuses with a message that says what to write.
pub async fn invalid_objects(world: &World) -> Result<()> {
    let cases = [
        ("KernelSession", "idleSeconds: 0", "idleSeconds is out of range: write 1 to"),
        ("ToolBroker", "tools: [{name: lost, service: nowhere, path: /x}]", "write the name of one of spec.services in tools[].service"),
        (
            "ToolBroker",
            "services: [{name: s, baseUrl: 'http://user:password@host'}]",
            "baseUrl: write an http:// or https:// URL, without user",
        ),
        (
            "ToolBroker",
            r"services: [{name: s, baseUrl: 'http://\/user:password@host'}]",
            "baseUrl: write an http:// or https:// URL, without user",
        ),
        (
            "ToolBroker",
            "modules: {registry: 'https://user:password@host/npm/'}",
            "modules.registry: write the http:// or https:// URL of an npm",
        ),
        ("ToolBroker", "modules: {registry: 'https://host/npm?token=x'}", "modules.registry: write the http:// or https:// URL of an npm"),
        (
            "KernelPool",
            "storage: {bucket: abc, endpoint: 'https://user:password@host'}",
            "endpoint: write the URL of the object store, without",
        ),
        (
            "KernelPool",
            "storage: {bucket: abc, endpoint: 'https://host', credentialsSecretRef: {name: s3}, webIdentity: {audience: sts}}",
            "write credentialsSecretRef or webIdentity, and not both",
        ),
        (
            "KernelPool",
            "storage: {bucket: abc, endpoint: 'https://host', webIdentity: {audience: sts, stsEndpoint: 'https://user:password@host'}}",
            "stsEndpoint: write the URL of the STS service, without",
        ),
    ];
    for (kind, spec, sentence) in cases {
        let object = format!("{{apiVersion: dormouse.dev/v1alpha1, kind: {kind}, metadata: {{name: bad}}, spec: {{{spec}}}}}");
        let refusal = world.kube.apply(&object).await.map_err(|error| error.to_string());
        ensure!(refusal.as_ref().is_err_and(|error| error.contains(sentence)), "{refusal:?} does not say `{sentence}`");
    }
    Ok(())
}

/// Storage that a pool cannot use, and what is to be said about it.
struct Unusable {
    namespace: &'static str,
    service: &'static str,
    bucket: &'static str,
    secret_key: &'static str,
    reason: &'static str,
    word: &'static str,
}

/// A bucket that is not there, credentials that are wrong, a store whose conditional writes are not atomic: the pool says which, in its
/// condition and its pod's log, and nothing crash-loops.
pub async fn unusable_storage(world: &World) -> Result<()> {
    world.kube.apply(CARELESS_STORE).await?;
    world.kube.kubectl(&format!("wait --for=condition=Available --timeout={WAIT_SECONDS}s deployment/careless -n storage")).await?;
    let good = Unusable {
        namespace: "",
        service: "minio",
        bucket: "dormouse",
        secret_key: "story-secret-key",
        reason: "StorageUnavailable",
        word: "",
    };
    says_why(world, &Unusable { namespace: "no-bucket", bucket: "not-there", word: "not-there", ..good }).await?;
    says_why(world, &Unusable { namespace: "no-rights", secret_key: "not-the-secret-key", word: "credentials", ..good }).await?;
    says_why(world, &Unusable { namespace: "no-atomicity", service: "careless", reason: "StorageUnsafe", word: "atomic", ..good }).await
}

/// A namespace whose pool has this storage is not ready, and says why.
async fn says_why(world: &World, storage: &Unusable) -> Result<()> {
    let Unusable { namespace, service, bucket, secret_key, reason, word } = storage;
    let objects = format!(
        "\
apiVersion: v1
kind: Namespace
metadata: {{name: {namespace}}}
---
apiVersion: v1
kind: Secret
metadata: {{name: s3, namespace: {namespace}}}
stringData: {{accessKeyId: story-access, secretAccessKey: {secret_key}}}
---
apiVersion: dormouse.dev/v1alpha1
kind: KernelPool
metadata: {{name: default, namespace: {namespace}}}
spec:
  storage: {{bucket: {bucket}, endpoint: \"http://{service}.storage.svc:9000\", credentialsSecretRef: {{name: s3}}}}
"
    );
    world.kube.apply(&objects).await?;
    let is_said = format!("jsonpath={{.status.conditions[?(@.type==\"Ready\")].reason}}={reason}");
    world.kube.wait(&is_said, &format!("kernelpool/default -n {namespace}"), WAIT_SECONDS).await?;
    let pool = world.kube.get(&format!("kernelpool default -n {namespace}")).await?;
    let ready = pool["status"]["conditions"].as_array().and_then(|all| all.iter().find(|condition| condition["type"] == "Ready")).cloned();
    let message = ready.as_ref().and_then(|condition| condition["message"].as_str()).unwrap_or_default();
    ensure!(ready.as_ref().is_some_and(|condition| condition["status"] == "False") && message.contains(*word), "{ready:?}");
    let pods = world.kube.get(&format!("pods -n {namespace} -l dormouse.dev/component=kernel")).await?;
    let restarts = pods["items"][0]["status"]["containerStatuses"][0]["restartCount"].clone();
    ensure!(restarts == 0, "a crash loop: {restarts} restarts");
    let log = world.kube.kubectl(&format!("logs -n {namespace} -l dormouse.dev/component=kernel --tail=-1")).await?;
    ensure!(log.contains(*word), "the log does not say {word}:\n{log}");
    Ok(())
}
