//! KernelSession: a durable JavaScript/TypeScript REPL.

#[cfg(feature = "kubernetes")]
mod rules;
mod status;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use status::{KernelSessionStatus, Placement, SnapshotStatus, StoredAs};

use crate::{KeyRef, egress::Egress, modules::Modules};

/// Whether the session may sleep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "kubernetes", derive(schemars::JsonSchema))]
pub enum OperatingMode {
    /// Sleeps when idle, wakes when asked.
    #[default]
    Auto,
    /// Always live.
    Running,
    /// Asleep; requests are refused until the mode changes.
    Hibernated,
}

/// When what a cell changed is in the store. Whatever the choice, a tool call leaves only after the heap that waits for it is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "kubernetes", derive(schemars::JsonSchema))]
pub enum Durability {
    /// Before the answer.
    #[default]
    PerEval,
    /// At most half a second after the answer; the cells of that time share one write. A pod that is lost takes them with it.
    Batched,
    /// When the session goes to sleep or its pod stops. A pod that is lost takes everything since then with it.
    OnIdle,
}

/// Desired state of a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "kubernetes", derive(kube::CustomResource, schemars::JsonSchema))]
#[cfg_attr(
    feature = "kubernetes",
    kube(
        group = "dormouse.dev",
        version = "v1alpha1",
        kind = "KernelSession",
        plural = "kernelsessions",
        shortname = "ks",
        namespaced,
        status = "KernelSessionStatus",
        derive = "PartialEq",
        validation = kube::core::Rule::new("self.metadata.name.size() <= 63 && !self.metadata.name.contains('.')")
            .message("metadata.name must be a DNS label: write at most 63 characters of a-z, 0-9 and '-', without dots"),
        printcolumn = r#"{"name":"Ready","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].status"}"#,
        printcolumn = r#"{"name":"Mode","type":"string","jsonPath":".spec.operatingMode"}"#,
        printcolumn = r#"{"name":"State","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].reason","priority":1}"#,
        printcolumn = r#"{"name":"Pod","type":"string","jsonPath":".status.placement.pod"}"#,
        printcolumn = r#"{"name":"Heap","type":"string","jsonPath":".status.heap"}"#,
        printcolumn = r#"{"name":"Snapshot","type":"integer","jsonPath":".status.snapshot.sequence"}"#,
        printcolumn = r#"{"name":"Idle","type":"date","jsonPath":".status.lastActiveTime"}"#,
        printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
    )
)]
#[cfg_attr(feature = "kubernetes", schemars(extend("x-kubernetes-validations" = rules::session())))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KernelSessionSpec {
    /// Name of the KernelPool whose pods run the session.
    #[serde(default = "default_pool")]
    #[cfg_attr(feature = "kubernetes", schemars(length(max = 253), extend("x-kubernetes-validations" = rules::pool_name())))]
    pub pool: String,
    /// Whether the session may sleep.
    #[serde(default)]
    pub operating_mode: OperatingMode,
    /// Seconds without a request after which the session goes to sleep.
    #[serde(default = "default_idle_seconds")]
    pub idle_seconds: u32,
    /// How long a session lives that nobody uses.
    #[serde(default, skip_serializing_if = "Ttl::is_never")]
    pub ttl: Ttl,
    /// Seconds that it may be asleep in etcd: then it is kept in the object store only, listed and read as before, and comes back when it is asked for
    /// over HTTP. 0: for ever.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub archive_after_seconds: u64,
    /// When a cell's effects are in the store.
    #[serde(default)]
    pub durability: Durability,
    /// Budgets of the session.
    #[serde(default)]
    pub limits: Limits,
    /// Fixed time and randomness; absent for the real ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub determinism: Option<Determinism>,
    /// The ToolBroker that answers `callTool` and makes the requests of `fetch`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_broker_ref: Option<ToolBrokerRef>,
    /// By service of the ToolBroker: the Secret whose credentials its calls get, of those that the service's `sessionSecrets` allow.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[cfg_attr(feature = "kubernetes", schemars(extend("maxProperties" = 16)))]
    pub service_secrets: BTreeMap<String, String>,
    /// Of the ToolBroker's bases of documents, those that the session searches and reads: each `BASE`, or `BASE/FOLDER`. Absent: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "kubernetes", schemars(length(max = 64), inner(length(min = 1, max = 512))))]
    pub knowledge: Option<Vec<String>>,
    /// Tools that clients of the session make, over a WebSocket.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(
        feature = "kubernetes",
        schemars(length(max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))
    )]
    pub client_tools: Vec<ClientTool>,
    /// Where `fetch` may go, through the ToolBroker. Absent: nowhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub egress: Option<Egress>,
    /// Packages of npm that cells may import, through the ToolBroker. Absent: those that every session has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modules: Option<Modules>,
    /// Code that runs once, before the first cell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bootstrap: Option<Bootstrap>,
    /// What the session begins as, instead of empty. Never changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Source>,
    /// Earlier states that are kept.
    #[serde(default)]
    pub checkpoints: Checkpoints,
}

impl Default for KernelSessionSpec {
    fn default() -> Self {
        Self {
            pool: default_pool(),
            operating_mode: OperatingMode::default(),
            idle_seconds: default_idle_seconds(),
            ttl: Ttl::default(),
            archive_after_seconds: 0,
            durability: Durability::default(),
            limits: Limits::default(),
            determinism: None,
            tool_broker_ref: None,
            service_secrets: BTreeMap::new(),
            knowledge: None,
            client_tools: Vec::new(),
            egress: None,
            modules: None,
            bootstrap: None,
            source: None,
            checkpoints: Checkpoints::default(),
        }
    }
}

impl KernelSessionSpec {
    /// Leaves out what is read only when the session is placed, and may be as large as an object may: code, rules, packages, tools of clients,
    /// credentials, and who named the ToolBroker.
    pub fn leave_out(&mut self) {
        let Self { bootstrap, egress, modules, client_tools, service_secrets, tool_broker_ref, .. } = self;
        (*bootstrap, *egress, *modules) = (None, None, None);
        (*client_tools, *service_secrets) = (Vec::new(), BTreeMap::new());
        if let Some(broker) = tool_broker_ref {
            broker.named_by = None;
        }
    }

    /// The same as pods are told it: who named the ToolBroker is nothing that they must know.
    #[must_use]
    pub fn for_pod(&self) -> Self {
        let tool_broker_ref = self.tool_broker_ref.as_ref().map(|broker| ToolBrokerRef::new(&broker.name));
        Self { tool_broker_ref, ..self.clone() }
    }
}

#[cfg(feature = "kubernetes")]
impl KernelSession {
    /// The session's identity, under which it is stored: its uid, or that of its first object if it was archived since. Preconditions of the API server
    /// are about `metadata.uid` instead.
    #[must_use]
    pub fn stored_uid(&self) -> String {
        let stored = self.status.as_ref().and_then(|status| status.stored_as.as_ref()).map(|stored| stored.uid.clone());
        stored.or_else(|| self.metadata.uid.clone()).unwrap_or_default()
    }

    /// The identity that the object says it had in the archive, as long as the operator has not confirmed it.
    #[must_use]
    pub fn returning(&self) -> Option<&str> {
        let confirmed = self.status.as_ref().is_some_and(|status| status.stored_as.is_some());
        let said = self.metadata.annotations.as_ref().and_then(|all| all.get(crate::labels::ARCHIVED_AS));
        said.map(String::as_str).filter(|_| !confirmed)
    }
}

/// The ToolBroker of a session, in its namespace.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "kubernetes", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ToolBrokerRef {
    /// Name of the ToolBroker.
    #[cfg_attr(feature = "kubernetes", schemars(length(min = 1, max = 253)))]
    pub name: String,
    /// Who named it: written by the gateway, or by the cluster's admission, for whoever wrote the name. Each time the session is placed, they need the verb
    /// `use` on it. Absent where it is not known: then nobody is asked about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub named_by: Option<Subject>,
}

impl ToolBrokerRef {
    /// By somebody who is not known.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), named_by: None }
    }
}

/// Somebody, as the API server knows them.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "kubernetes", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Subject {
    /// User name. For a session that was made with an API key: of whoever made the key.
    #[cfg_attr(feature = "kubernetes", schemars(length(min = 1)))]
    pub user: String,
    /// Their groups at that time.
    #[serde(default)]
    #[cfg_attr(feature = "kubernetes", schemars(extend("x-kubernetes-list-type" = "atomic")))]
    pub groups: Vec<String>,
}

fn default_pool() -> String {
    "default".to_owned()
}

fn default_idle_seconds() -> u32 {
    300
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(seconds: &u64) -> bool {
    *seconds == 0
}

/// How long a session lives that nobody uses. A cell, or a run, is use; a timer is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "kubernetes", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "kubernetes", schemars(extend("x-kubernetes-validations" = rules::ttl())))]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Ttl {
    /// Seconds without use after which it is expired: it sleeps and can be read, and cells are refused with `SessionExpired`. 0: never.
    pub active_seconds: u64,
    /// Seconds that an expired session is kept; then it is deleted. 0: for ever.
    pub retained_seconds: u64,
}

impl Ttl {
    /// Whether it never expires.
    #[must_use]
    pub fn is_never(&self) -> bool {
        *self == Self::default()
    }
}

/// Budgets of a session. Each has a typed error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "kubernetes", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "kubernetes", schemars(extend("x-kubernetes-validations" = rules::limits())))]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Limits {
    /// Bytes that the JavaScript heap may hold.
    pub heap_bytes: u64,
    /// Milliseconds that one stretch of a cell may run.
    pub eval_timeout_ms: u64,
    /// Interrupt ticks that a cell may use; 0 for no limit.
    pub eval_ticks: u64,
    /// Bytes of console and display output of a cell.
    pub output_bytes: u64,
    /// Tool calls and fetches of a cell.
    pub tool_calls: u32,
    /// Timers, calls and fetches that a session may have in flight.
    pub pending_operations: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            heap_bytes: 64 << 20,
            eval_timeout_ms: 30_000,
            eval_ticks: 0,
            output_bytes: 1 << 20,
            tool_calls: 100,
            pending_operations: 256,
        }
    }
}

/// Fixed sources of time and randomness: the same cells then give the same memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "kubernetes", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Determinism {
    /// Seed of `Math.random` and of entropy.
    pub seed: u64,
    /// RFC 3339: where the session's clock begins.
    #[serde(default = "default_determinism_epoch")]
    #[cfg_attr(feature = "kubernetes", schemars(length(max = 40), extend("x-kubernetes-validations" = rules::timestamp())))]
    pub epoch: String,
}

fn default_determinism_epoch() -> String {
    "2026-01-01T00:00:00Z".to_owned()
}

/// Code that runs once, before the first cell.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "kubernetes", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "kubernetes", schemars(extend("x-kubernetes-validations" = rules::bootstrap())))]
#[serde(default, deny_unknown_fields)]
pub struct Bootstrap {
    /// The source, TypeScript.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[cfg_attr(feature = "kubernetes", schemars(length(max = 262_144)))]
    pub code: String,
    /// A ConfigMap of this namespace that has it, read when the session first starts: what is changed there later does not run.
    #[serde(rename = "configMapRef", skip_serializing_if = "Option::is_none")]
    pub config_map_ref: Option<KeyRef>,
}

/// Bytes of a bootstrap's code.
pub const BOOTSTRAP_BYTES_MAX: usize = 262_144;

/// The session that another one is forked from.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "kubernetes", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "kubernetes", schemars(extend("x-kubernetes-validations" = rules::source())))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Source {
    /// Name of a session in this namespace. The fork copies what it needs at its first start; afterwards the parent may go.
    #[cfg_attr(feature = "kubernetes", schemars(length(max = 63)))]
    pub session: String,
    /// Id or label of one of its checkpoints; its last commit when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "kubernetes", schemars(length(max = 63)))]
    pub checkpoint: Option<String>,
}

/// A tool that clients of a session make: its calls wait for one that is connected.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "kubernetes", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClientTool {
    /// Name: `callTool("NAME", …)`. It goes before a ToolBroker's tool of the same name.
    #[cfg_attr(feature = "kubernetes", schemars(length(min = 1, max = 64)))]
    pub name: String,
    /// What it does, for people and models.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[cfg_attr(feature = "kubernetes", schemars(length(max = 4096)))]
    pub description: String,
    /// JSON Schema of the arguments, for people and models; the client checks them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "kubernetes", schemars(schema_with = "crate::schema::json_schema"))]
    pub input: Option<serde_json::Value>,
}

/// The most automatic checkpoints that a session may keep.
pub const CHECKPOINTS_KEEP_MAX: u32 = 100;

/// Earlier states that are kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "kubernetes", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "kubernetes", schemars(extend("x-kubernetes-validations" = rules::checkpoints())))]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Checkpoints {
    /// Automatic checkpoints to keep; the oldest go first. 0 for none. Those with a label are not counted.
    pub keep: u32,
}

impl Default for Checkpoints {
    fn default() -> Self {
        Self { keep: 20 }
    }
}
