//! Manifests as people write them: several YAML documents in one file.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::{broker::ToolBrokerSpec, session::KernelSessionSpec};

/// What of `metadata` Dormouse reads.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Metadata {
    /// Object name.
    pub name: String,
    /// Namespace, when given.
    pub namespace: Option<String>,
    /// Labels.
    pub labels: BTreeMap<String, String>,
}

/// One document of a manifest.
#[derive(Debug, Clone, PartialEq)]
pub enum Document {
    /// A session.
    Session(Metadata, Box<KernelSessionSpec>),
    /// A broker.
    Broker(Metadata, Box<ToolBrokerSpec>),
    /// A Secret, decoded.
    Secret(Metadata, BTreeMap<String, Vec<u8>>),
    /// A ConfigMap.
    ConfigMap(Metadata, BTreeMap<String, String>),
}
