//! Manifests as people write them: several YAML documents in one file.

use std::collections::BTreeMap;

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use serde::Deserialize;

use crate::{broker::ToolBrokerSpec, quota::KernelQuotaSpec, session::KernelSessionSpec};

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
    /// A quota.
    Quota(Metadata, KernelQuotaSpec),
    /// A Secret, decoded.
    Secret(Metadata, BTreeMap<String, Vec<u8>>),
    /// A ConfigMap.
    ConfigMap(Metadata, BTreeMap<String, String>),
}

/// Why a manifest cannot be used. `document` counts from 1.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// A document is not YAML.
    #[error("document {document}: {source}")]
    Yaml {
        /// Which document.
        document: usize,
        /// What is wrong.
        source: yaml_serde::Error,
    },
    /// A field is not what it should be.
    #[error("document {document}: {path}: {source}")]
    Field {
        /// Which document.
        document: usize,
        /// The field, as in `spec.limits.heapBytes`.
        path: String,
        /// What is wrong.
        source: yaml_serde::Error,
    },
    /// A document's `metadata.name` is missing.
    #[error("document {document}: metadata.name is missing")]
    NameMissing {
        /// Which document.
        document: usize,
    },
    /// A kind that Dormouse has no use for.
    #[error(
        "document {document}: {api_version} {kind} is not known here: use KernelSession, ToolBroker or KernelQuota of dormouse.dev/v1alpha1, Secret or ConfigMap of v1"
    )]
    UnknownKind {
        /// Which document.
        document: usize,
        /// Its `apiVersion`.
        api_version: String,
        /// Its `kind`.
        kind: String,
    },
    /// A value below `data` of a Secret is not base64.
    #[error("document {document}: data.{key} is not base64 (plain text goes below stringData)")]
    NotBase64 {
        /// Which document.
        document: usize,
        /// The key.
        key: String,
    },
}

/// Just enough of a document to know what it is. Fields of one kind are absent in the others.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Envelope {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    metadata: Metadata,
    #[serde(default)]
    spec: Option<yaml_serde::Value>,
    #[serde(default)]
    data: BTreeMap<String, String>,
    #[serde(default)]
    string_data: BTreeMap<String, String>,
}

/// The documents of a manifest, in order. Empty ones are left out.
///
/// # Errors
/// The first document that cannot be used.
pub fn parse(text: &str) -> Result<Vec<Document>, ManifestError> {
    let mut documents = Vec::new();
    for (index, deserializer) in yaml_serde::Deserializer::from_str(text).enumerate() {
        let document = index + 1;
        let yaml = |source| ManifestError::Yaml { document, source };
        let value = yaml_serde::Value::deserialize(deserializer).map_err(yaml)?;
        if !value.is_null() {
            documents.push(one(document, typed(document, "", value)?)?);
        }
    }
    Ok(documents)
}

fn one(document: usize, envelope: Envelope) -> Result<Document, ManifestError> {
    let Envelope { api_version, kind, metadata, spec, data, string_data } = envelope;
    let known = match (api_version.as_str(), kind.as_str()) {
        (crate::API_VERSION | crate::NEXT_API_VERSION, "KernelSession" | "ToolBroker" | "KernelQuota") | ("v1", "Secret" | "ConfigMap") => {
            kind.as_str()
        }
        _ => return Err(ManifestError::UnknownKind { document, api_version, kind }),
    };
    if metadata.name.is_empty() {
        return Err(ManifestError::NameMissing { document });
    }
    let spec = spec.unwrap_or_else(|| yaml_serde::Value::Mapping(yaml_serde::Mapping::new()));
    Ok(match known {
        "KernelSession" => Document::Session(metadata, typed(document, "spec", spec)?),
        "KernelQuota" => Document::Quota(metadata, typed(document, "spec", spec)?),
        "ToolBroker" => Document::Broker(metadata, typed(document, "spec", spec)?),
        "ConfigMap" => Document::ConfigMap(metadata, data),
        _ => {
            let mut values = BTreeMap::new();
            for (key, value) in data {
                // Tools that wrap long values put line feeds into them.
                let packed: String = value.split_ascii_whitespace().collect();
                let decoded = BASE64.decode(packed).map_err(|_| ManifestError::NotBase64 { document, key: key.clone() })?;
                values.insert(key, decoded);
            }
            values.extend(string_data.into_iter().map(|(key, value)| (key, value.into_bytes())));
            Document::Secret(metadata, values)
        }
    })
}

/// Reads a value, and names the field that cannot be read. `below` is where the value stands in the document.
fn typed<T: serde::de::DeserializeOwned>(document: usize, below: &str, value: yaml_serde::Value) -> Result<T, ManifestError> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let path = error.path().to_string();
        let path = match (below, path.as_str()) {
            ("", _) => path,
            (_, ".") => below.to_owned(),
            _ => format!("{below}.{path}"),
        };
        ManifestError::Field { document, path, source: error.into_inner() }
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

    use super::*;

    const SESSION: &str =
        "apiVersion: dormouse.dev/v1alpha1\nkind: KernelSession\nmetadata: {name: a, namespace: team, labels: {app: x}}\n";

    #[test]
    fn documents_come_in_order_and_empty_ones_are_left_out() {
        let text = format!(
            "---\n# nothing\n---\n{SESSION}spec: {{idleSeconds: 5, toolBrokerRef: {{name: tools}}}}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: c}}\ndata: {{k: v}}\n---\n\
             apiVersion: dormouse.dev/v1alpha1\nkind: ToolBroker\nmetadata: {{name: tools}}\nspec: {{services: [{{name: s, baseUrl: 'http://x'}}]}}\n"
        );
        let documents = parse(&text).unwrap();
        let [Document::Session(session, spec), Document::ConfigMap(_, data), Document::Broker(broker, tools)] = documents.as_slice() else {
            panic!("{documents:?}");
        };
        assert_eq!((session.name.as_str(), session.namespace.as_deref(), spec.idle_seconds), ("a", Some("team"), 5));
        assert_eq!((session.labels["app"].as_str(), data["k"].as_str()), ("x", "v"));
        assert_eq!((broker.name.as_str(), broker.namespace.as_deref(), tools.services.len()), ("tools", None, 1));
    }

    #[test]
    fn a_session_without_a_spec_has_the_defaults() {
        assert_eq!(parse(SESSION).unwrap(), parse(&format!("{SESSION}spec: {{}}\n")).unwrap());
    }

    #[test]
    fn a_secret_is_decoded_and_string_data_wins() {
        let text =
            "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\ntype: Opaque\ndata: {a: aGVs\n bG8=, b: AP8=}\nstringData: {a: plain}\n";
        let [Document::Secret(metadata, values)] = &parse(text).unwrap()[..] else { panic!("{text}") };
        assert_eq!(metadata.name, "s");
        assert_eq!(values, &BTreeMap::from([("a".to_owned(), b"plain".to_vec()), ("b".to_owned(), vec![0, 255])]));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_document() {
        let good = format!("{SESSION}---\n");
        let table = [
            (format!("{good}kind: Pod\napiVersion: v1\nmetadata: {{name: p}}\n"), "document 2: v1 Pod is not known here"),
            (
                format!("{good}kind: KernelSession\napiVersion: dormouse.dev/v1\nmetadata: {{name: p}}\n"),
                "dormouse.dev/v1 KernelSession is not known",
            ),
            ("apiVersion: v1\nkind: Secret\nmetadata: {}\n".to_owned(), "document 1: metadata.name is missing"),
            (format!("{SESSION}spec: {{idleSecond: 5}}\n"), "spec.idleSecond: unknown field"),
            (format!("{SESSION}spec: {{limits: {{heapBytes: much}}}}\n"), "spec.limits.heapBytes: invalid type"),
            ("a: [\n".to_owned(), "document 1: "),
            ("apiVersion: v1\nkind: Secret\nmetadata: {name: s}\ndata: {k: '%%'}\n".to_owned(), "data.k is not base64"),
        ];
        for (text, message) in table {
            let error = parse(&text).unwrap_err().to_string();
            assert!(error.contains(message), "{text}: {error}");
        }
    }
}
