//! CEL rules of the schemas: what an API server refuses, and the sentence that says what to write instead.
//!
//! The bounds that rules count with (lengths of lists and strings) are set beside the fields, so that the API server can bound a rule's cost.

use serde_json::{Value, json};

use crate::{
    broker::{APPROVAL_SECONDS_MAX, PREVIEW_CHARS_MAX, TOOL_TIMEOUT_MS_MAX},
    models::MODEL_TOKENS_MAX,
    service::{BODY_BYTES_MAX, LIMIT_MAX, OPEN_SECONDS_MAX, REQUEST_BYTES_MAX, RESERVED_HEADERS, RETRIES_MAX},
    url,
};

/// Least heap of a session.
pub(crate) const HEAP_BYTES_MIN: u64 = 8 << 20;
/// Largest heap of a session.
pub(crate) const HEAP_BYTES_MAX: u64 = 1 << 30;
/// Longest stretch of a cell, milliseconds.
pub(crate) const EVAL_TIMEOUT_MS_MAX: u64 = 3_600_000;
/// Longest wait before sleep, seconds: a year.
const IDLE_SECONDS_MAX: u64 = 31_536_000;
/// Longest life of a session that nobody uses, seconds: a hundred years.
const TTL_SECONDS_MAX: u64 = 3_153_600_000;
/// Most live sessions of one pod.
const SLOTS_PER_POD_MAX: u64 = 100_000;
/// Most pods of one pool.
const PODS_MAX: u64 = 1_000;
/// Most output of a cell, bytes.
const OUTPUT_BYTES_MAX: u64 = 64 << 20;

/// Sessions of a pool are where its status says: its spec must not name another place.
pub(crate) const SAME_STORE: &str = "!has(oldSelf.status) || !has(oldSelf.status.storedIn) || (has(self.spec.storage) \
    ? self.spec.storage.bucket == oldSelf.status.storedIn.bucket && self.spec.storage.prefix == oldSelf.status.storedIn.prefix \
    : !has(oldSelf.spec.storage))";
/// What to do instead.
pub(crate) const SAME_STORE_MESSAGE: &str = "storage: sessions of this pool are stored in the bucket and under the prefix of status.storedIn, and \
    would not be found elsewhere: leave both as they are, make another pool, or delete the pool's sessions first";

/// Rules as the value of `x-kubernetes-validations`.
fn rules<const N: usize>(list: [(String, String); N]) -> Value {
    Value::Array(list.into_iter().map(|(rule, message)| json!({ "rule": rule, "message": message })).collect())
}

/// One rule from literals.
fn rule(rule: &str, message: &str) -> (String, String) {
    (rule.to_owned(), message.to_owned())
}

/// `field` between two numbers, with the unit in the message.
fn between(field: &str, min: u64, max: u64, unit: &str) -> (String, String) {
    (format!("self.{field} >= {min} && self.{field} <= {max}"), format!("{field} is out of range: write {min} to {max} ({unit})"))
}

/// `field` is a URL of `scheme` that carries nothing beside its place.
fn plain_url(field: &str, scheme: &str, message: &str) -> (String, String) {
    (format!("self.{field}.matches(r'{}')", url::plain(scheme)), message.to_owned())
}

pub(crate) fn session() -> Value {
    rules([
        between("idleSeconds", 1, IDLE_SECONDS_MAX, "seconds"),
        rule(
            "has(self.source) == has(oldSelf.source) && (!has(self.source) || self.source == oldSelf.source)",
            "source: a session is forked when it is made: leave source as it is, or make another session",
        ),
        rule(
            "self.pool == oldSelf.pool",
            "pool: a session is stored where its pool says, and stays there: leave pool as it is, or make another session in that pool",
        ),
    ])
}

pub(crate) fn ttl() -> Value {
    rules([
        between("activeSeconds", 0, TTL_SECONDS_MAX, "seconds; 0 for never"),
        between("retainedSeconds", 0, TTL_SECONDS_MAX, "seconds; 0 for ever"),
        rule(
            "self.retainedSeconds == 0 || self.activeSeconds > 0",
            "ttl.retainedSeconds counts from the end of activeSeconds: write both, or neither",
        ),
    ])
}

pub(crate) fn bootstrap() -> Value {
    rules([
        rule(
            "(has(self.code) && self.code != '') != has(self.configMapRef)",
            "bootstrap: write either code, or configMapRef: {name: …, key: …}",
        ),
        rule(
            "!has(self.configMapRef) || has(self.configMapRef.key)",
            "bootstrap.configMapRef needs a key: write the key of the ConfigMap that holds the code",
        ),
        rule(
            &format!("!has(self.code) || bytes(self.code).size() <= {}", crate::session::BOOTSTRAP_BYTES_MAX),
            "bootstrap.code has at most 262144 bytes: import what is large",
        ),
    ])
}

pub(crate) fn source() -> Value {
    rules([rule(
        "self.session.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",
        "source.session: write the name of a session in this namespace: at most 63 characters of a-z, 0-9 and '-'",
    )])
}

pub(crate) fn checkpoints() -> Value {
    rules([between("keep", 0, u64::from(crate::session::CHECKPOINTS_KEEP_MAX), "checkpoints")])
}

pub(crate) fn pool_name() -> Value {
    rules([rule(
        "self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$') && self.size() <= 30",
        "pool is the name of a KernelPool in this namespace: write at most 30 characters of a-z, 0-9 and '-'",
    )])
}

pub(crate) fn timestamp() -> Value {
    rules([rule(
        "self.matches('^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})$')",
        "epoch: write a time as RFC 3339 has it, such as 2026-01-01T00:00:00Z",
    )])
}

pub(crate) fn limits() -> Value {
    rules([
        between("heapBytes", HEAP_BYTES_MIN, HEAP_BYTES_MAX, "bytes; 8 MiB to 1 GiB"),
        between("evalTimeoutMs", 1, EVAL_TIMEOUT_MS_MAX, "milliseconds; up to an hour"),
        between("outputBytes", 0, OUTPUT_BYTES_MAX, "bytes; up to 64 MiB"),
        between("pendingOperations", 1, 65_536, "operations"),
        between("toolCalls", 0, 1_000_000, "calls of one cell"),
    ])
}

pub(crate) fn pool() -> Value {
    rules([
        between("slotsPerPod", 1, SLOTS_PER_POD_MAX, "live sessions"),
        between("maxPods", 1, PODS_MAX, "pods"),
        rule("self.minPods <= self.maxPods", "minPods is greater than maxPods: write a minPods of at most maxPods"),
        rule("self.warmPods <= self.maxPods", "warmPods is greater than maxPods: write a warmPods of at most maxPods"),
    ])
}

pub(crate) fn quota() -> Value {
    let fields = ["sessions", "liveHeapBytes", "storedBytes", "evalsPerSecond", "cpuSecondsPerHour", "egressBytesPerDay"];
    let any = fields.map(|field| format!("has(self.{field})")).join(" || ");
    rules([rule(
        &any,
        "a quota limits something: write one of sessions, liveHeapBytes, storedBytes, evalsPerSecond, cpuSecondsPerHour, egressBytesPerDay",
    )])
}

pub(crate) fn storage() -> Value {
    rules([
        plain_url("endpoint", "https?", "endpoint: write the URL of the object store, without user and query, such as https://s3.example"),
        rule("self.bucket.size() >= 3", "bucket: write the name of a bucket, at least 3 characters"),
        rule(
            "self.prefix == '' || (self.prefix.endsWith('/') && !self.prefix.startsWith('/'))",
            "prefix: write nothing, or a prefix that ends in '/' and does not begin with it",
        ),
    ])
}

pub(crate) fn encryption() -> Value {
    rules([rule("has(self.keySecretRef) || has(self.kms)", "encryption needs its keys: write keySecretRef: {name: …}, kms: {…}, or both")])
}

pub(crate) fn kms() -> Value {
    rules([
        plain_url("url", "https", "url: write the https:// URL of the KMS, without user and query, such as https://vault.example:8200"),
        rule(
            "self.mount.matches('^[A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*$')",
            "mount: write the path of the Transit engine, without '/' at its ends, such as transit",
        ),
        rule("self.key.matches('^[A-Za-z0-9_-][A-Za-z0-9._-]*$')", "key: write the name of a key: letters, digits, '-', '_' and '.'"),
    ])
}

pub(crate) fn broker() -> Value {
    rules([
        between("replicas", 0, PODS_MAX, "pods"),
        rule(
            "self.tools.all(t, has(t.webhook) || has(t.runner) || (has(t.service) && self.services.exists(s, s.name == t.service)))",
            "a tool's service does not exist: write the name of one of spec.services in tools[].service",
        ),
        rule(
            "self.tools.all(t, !has(t.service) || self.services.all(s, s.name != t.service || t.method in s.allowedMethods))",
            "a tool's method is not allowed by its service: write the method into the service's allowedMethods, or another tools[].method",
        ),
    ])
}

pub(crate) fn service() -> Value {
    rules([
        rule("self.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')", "name of a service: write at most 63 characters of a-z, 0-9 and '-'"),
        plain_url("baseUrl", "https?", "baseUrl: write an http:// or https:// URL, without user, password, query and fragment"),
        rule(
            "self.allowedMethods.all(m, m in ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'])",
            "allowedMethods: write some of GET, HEAD, POST, PUT, PATCH, DELETE, in capitals",
        ),
        rule("self.allowedPaths.all(p, p.startsWith('/'))", "allowedPaths: write paths that begin with '/', such as /widgets/*"),
        between("requestBytesMax", 1, REQUEST_BYTES_MAX, "bytes; up to 1 GiB"),
        between("responseBytesMax", 1, BODY_BYTES_MAX, "bytes; up to 64 MiB"),
        between("retries", 0, u64::from(RETRIES_MAX), "repetitions"),
    ])
}

pub(crate) fn call_limits() -> Value {
    rules(["concurrency", "perMinute", "sessionConcurrency", "sessionPerMinute"].map(|field| {
        let rule = format!("!has(self.{field}) || (self.{field} >= 1 && self.{field} <= {LIMIT_MAX})");
        (rule, format!("{field} is out of range: write 1 to {LIMIT_MAX}, or leave it out"))
    }))
}

pub(crate) fn mcp_server() -> Value {
    rules([
        plain_url("url", "https?", "url: write an http:// or https:// URL, without user, password, query and fragment"),
        between("timeoutMs", 1, TOOL_TIMEOUT_MS_MAX, "milliseconds; up to 10 minutes"),
    ])
}

pub(crate) fn webhook() -> Value {
    rules([
        plain_url("url", "https?", "url: write an http:// or https:// URL, without user, password, query and fragment"),
        rule("has(self.secretRef.key)", "secretRef needs a key: write the key of the Secret that holds the signing secret"),
    ])
}

pub(crate) fn event_hook() -> Value {
    let Value::Array(mut all) = webhook() else { return Value::Null };
    let reserved = RESERVED_HEADERS.map(|name| format!("'{name}'")).join(", ");
    let headers = rules([
        rule(
            "!has(self.secretHeaders) || self.secretHeaders.all(header, has(header.secretRef.key))",
            "secretHeaders: each needs secretRef.key: write the key of the Secret that holds the header's value",
        ),
        (
            format!(
                "!has(self.secretHeaders) || self.secretHeaders.all(header, header.name.matches('^[A-Za-z0-9-]+$') && \
                 !(header.name.lowerAscii() in [{reserved}]))"
            ),
            "secretHeaders: a name has letters, digits and '-', and is none that carries or signs the message itself: write Authorization or one of your own"
                .to_owned(),
        ),
    ]);
    all.extend(headers.as_array().cloned().unwrap_or_default());
    Value::Array(all)
}

pub(crate) fn document() -> Value {
    rules([
        rule(
            "[has(self.inline), has(self.configMapRef), has(self.url)].filter(it, it).size() == 1",
            "document: write one of inline, configMapRef and url",
        ),
        rule(
            "!has(self.configMapRef) || has(self.configMapRef.key)",
            "configMapRef needs a key: write the key of the ConfigMap that holds the document",
        ),
        rule("!has(self.url) || self.url.matches('^https?://')", "url: write an http:// or https:// URL"),
    ])
}

pub(crate) fn breaker() -> Value {
    rules([
        between("failures", 0, u64::from(LIMIT_MAX), "failures in a row; 0 for none"),
        between("openSeconds", 1, OPEN_SECONDS_MAX, "seconds"),
    ])
}

/// What rules of sessions and of brokers have in common.
fn egress_rules() -> [(String, String); 3] {
    [
        rule(
            "self.host.matches('^([*]|([*][.])?[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?[.]?|[[][0-9A-Fa-f:.]+[]])(:([0-9]+|[*]))?$')",
            "host: write a host name, an address, *.SUFFIX or *, and :PORT behind it if need be",
        ),
        rule(
            "self.methods.all(m, m in ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'])",
            "methods: write some of GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS, in capitals",
        ),
        rule("self.paths.all(p, p.startsWith('/'))", "paths: write paths that begin with '/', such as /repos/*"),
    ]
}

pub(crate) fn egress() -> Value {
    rules(egress_rules())
}

pub(crate) fn broker_egress() -> Value {
    let [host, methods, paths] = egress_rules();
    let named = rule(
        "!has(self.private) || !self.private || !self.host.matches('^[*](:.*)?$')",
        "private: name the host; a rule for every host reaches public addresses only",
    );
    rules([host, methods, paths, named])
}

pub(crate) fn modules() -> Value {
    rules([rule(
        "self.allow.all(m, m.matches('^(npm:)?(@[A-Za-z0-9_~-][A-Za-z0-9._~-]*/)?[A-Za-z0-9_~-][A-Za-z0-9._~-]*(@[A-Za-z0-9 .^~<>=|*+_-]+)?$'))",
        "modules.allow: write names of packages of npm, such as lodash, or npm:NAME@RANGE, such as npm:zod@^4",
    )])
}

pub(crate) fn registry() -> Value {
    let message = "modules.registry: write the http:// or https:// URL of an npm registry, without user, password, query and fragment";
    rules([plain_url("registry", "https?", message)])
}

pub(crate) fn auth() -> Value {
    rules([
        rule(
            "self.type in ['none', 'custom'] || has(self.secretRef)",
            "auth needs its credential: write secretRef: {name: …, key: …} (basic and oauth2ClientCredentials: only name; the Secret has the keys user and \
             password, or clientId and clientSecret)",
        ),
        rule(
            "!(self.type in ['bearer', 'header', 'webhook']) || !has(self.secretRef) || has(self.secretRef.key)",
            "secretRef needs a key: write the key of the Secret that holds the credential",
        ),
        rule(
            "self.type != 'oauth2ClientCredentials' || has(self.tokenUrl)",
            "auth of type oauth2ClientCredentials needs tokenUrl: write the URL that answers tokens",
        ),
        rule("self.type != 'custom' || has(self.hook)", "auth of type custom needs its hook: write hook: {url: …}"),
        rule("self.type != 'header' || has(self.headerName)", "auth of type header needs headerName: write the name of the header to set"),
        rule(
            "!has(self.headerName) || self.headerName.matches('^[A-Za-z0-9-]+$')",
            "headerName: write letters, digits and '-', such as X-Api-Key",
        ),
    ])
}

pub(crate) fn offload() -> Value {
    rules([
        between("thresholdBytes", 1, BODY_BYTES_MAX, "bytes; up to 64 MiB"),
        between("previewChars", 0, u64::from(PREVIEW_CHARS_MAX), "characters"),
    ])
}

pub(crate) fn model() -> Value {
    rules([
        between("maxTokens", 1, MODEL_TOKENS_MAX, "tokens of an answer"),
        between("timeoutMs", 1, TOOL_TIMEOUT_MS_MAX, "milliseconds; up to 10 minutes"),
    ])
}

pub(crate) fn approval() -> Value {
    rules([
        rule(
            "self.session == oldSelf.session && self.sessionUid == oldSelf.sessionUid && self.epoch == oldSelf.epoch && self.approvalId == oldSelf.approvalId && self.toolName == \
             oldSelf.toolName && self.expiresAt == oldSelf.expiresAt && self.editable == oldSelf.editable",
            "a ToolApproval is about one call: write decision, reason and arguments, and leave the rest as it is",
        ),
        rule(
            "!has(oldSelf.decision) || (has(self.decision) && self.decision == oldSelf.decision)",
            "decision: it was decided, and the first decision stands",
        ),
        rule("!has(self.arguments) || self.editable", "arguments: those of this call may not be changed, it is not editable"),
    ])
}

pub(crate) fn knowledge() -> Value {
    rules([
        rule(
            "[has(self.configMapRef), has(self.prefix), has(self.urls) && self.urls.size() > 0].filter(it, it).size() == 1",
            "a base of documents is in one place: write configMapRef, prefix or urls",
        ),
        rule(
            "!has(self.prefix) || self.prefix.matches('^[A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*$')",
            "prefix: write names of letters, digits, '-', '_' and '.' that begin with no '.', with '/' between them",
        ),
        rule("!has(self.urls) || self.urls.all(u, u.matches('^https?://'))", "urls: write http:// or https:// URLs"),
        rule("!has(self.secretHeaders) || has(self.urls)", "secretHeaders: only urls are asked for with headers"),
    ])
}

pub(crate) fn runner() -> Value {
    rules([
        rule("self.capability.matches('^[A-Za-z0-9-]+$')", "capability: write letters, digits and '-', such as browser"),
        between("expiresSeconds", 1, APPROVAL_SECONDS_MAX, "seconds; up to ten years"),
    ])
}

pub(crate) fn tool() -> Value {
    rules([
        rule(
            "self.name.matches('^[A-Za-z_][A-Za-z0-9_.-]*$')",
            "name of a tool: write a letter or '_', then letters, digits, '_', '.' and '-', such as getWidget",
        ),
        rule(
            "(has(self.webhook) ? 1 : 0) + (has(self.runner) ? 1 : 0) + (has(self.service) && self.service != '' ? 1 : 0) == 1 && ((has(self.service) && self.service != '') || !has(self.path) || self.path == '')",
            "a tool calls a service, a webhook or a runner: write service and path, or webhook, or runner",
        ),
        rule(
            "has(self.webhook) || has(self.runner) || (has(self.path) && self.path.startsWith('/'))",
            "path: write a path below the service's baseUrl that begins with '/', such as /widgets/{id}",
        ),
        between("timeoutMs", 1, TOOL_TIMEOUT_MS_MAX, "milliseconds; up to 10 minutes"),
    ])
}
