//! Where `fetch` may go: what a session asks for, and what a broker lets through. A request needs a rule of both.

use serde::{Deserialize, Serialize};

use crate::approval::Approval;

/// What a session wants to reach.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "kubernetes", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Egress {
    /// A request needs one of these.
    #[cfg_attr(feature = "kubernetes", schemars(length(max = 64)))]
    pub allow: Vec<EgressRule>,
}

/// Requests that a session may make.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "kubernetes", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "kubernetes", schemars(extend("x-kubernetes-validations" = rules::egress())))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EgressRule {
    /// A host name or address, `*.SUFFIX` for every name below one, or `*`; with `:PORT` or `:*` for other ports than the scheme's own.
    #[cfg_attr(feature = "kubernetes", schemars(length(min = 1, max = 260)))]
    pub host: String,
    /// HTTP methods.
    #[serde(default = "default_methods")]
    #[cfg_attr(feature = "kubernetes", schemars(length(min = 1, max = 8), inner(length(max = 16)), extend("x-kubernetes-list-type" = "set")))]
    pub methods: Vec<String>,
    /// Paths; `*` matches any run of characters.
    #[serde(default = "default_paths")]
    #[cfg_attr(feature = "kubernetes", schemars(length(min = 1, max = 64), inner(length(max = 1024))))]
    pub paths: Vec<String>,
}

/// What a broker lets through.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "kubernetes", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct BrokerEgress {
    /// A request needs one of these, and one of its session's.
    #[cfg_attr(feature = "kubernetes", schemars(length(max = 64)))]
    pub allow: Vec<BrokerEgressRule>,
}

/// Requests that a broker makes for sessions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "kubernetes", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "kubernetes", schemars(extend("x-kubernetes-validations" = rules::broker_egress())))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BrokerEgressRule {
    /// A host name or address, `*.SUFFIX` for every name below one, or `*`; with `:PORT` or `:*` for other ports than the scheme's own.
    #[cfg_attr(feature = "kubernetes", schemars(length(min = 1, max = 260)))]
    pub host: String,
    /// HTTP methods.
    #[serde(default = "default_methods")]
    #[cfg_attr(feature = "kubernetes", schemars(length(min = 1, max = 8), inner(length(max = 16)), extend("x-kubernetes-list-type" = "set")))]
    pub methods: Vec<String>,
    /// Paths; `*` matches any run of characters.
    #[serde(default = "default_paths")]
    #[cfg_attr(feature = "kubernetes", schemars(length(min = 1, max = 64), inner(length(max = 1024))))]
    pub paths: Vec<String>,
    /// Whether the host may have an address of a private network or of this machine. Every other rule reaches public addresses only.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub private: bool,
    /// Whether a person has to agree to a request first: `Never`, `Always`, or `{when?, editable?, expiresSeconds?}`, whose `args` are the request.
    #[serde(default, skip_serializing_if = "Approval::is_never")]
    #[cfg_attr(feature = "kubernetes", schemars(schema_with = "crate::approval::schema"))]
    pub approval: Approval,
}

impl BrokerEgressRule {
    /// What it says about requests, without what it says about addresses.
    #[must_use]
    pub fn rule(&self) -> EgressRule {
        EgressRule { host: self.host.clone(), methods: self.methods.clone(), paths: self.paths.clone() }
    }
}

fn default_methods() -> Vec<String> {
    vec!["GET".to_owned(), "HEAD".to_owned()]
}

fn default_paths() -> Vec<String> {
    vec!["/*".to_owned()]
}

/// What an API server refuses.
#[cfg(feature = "kubernetes")]
mod rules {
    use serde_json::Value;

    use crate::rules::{rule, rules};

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

    pub(super) fn egress() -> Value {
        rules(egress_rules())
    }

    pub(super) fn broker_egress() -> Value {
        let [host, methods, paths] = egress_rules();
        let named = rule(
            "!has(self.private) || !self.private || !self.host.matches('^[*](:.*)?$')",
            "private: name the host; a rule for every host reaches public addresses only",
        );
        rules([host, methods, paths, named])
    }
}
