//! The CustomResourceDefinitions as files.

use kube::CustomResourceExt as _;
use serde_json::Value;

use crate::{approval::ToolApproval, broker::ToolBroker, pool::KernelPool, quota::KernelQuota, session::KernelSession};

/// First line of every generated file.
const HEADER: &str =
    "# Generated from the types in crds/src: `UPDATE=1 cargo test -p dormouse-crds` or `cargo xtask generate`. Do not edit.\n";

/// Every CustomResourceDefinition: file name and content. The same files lie in `crds/yaml` and in `charts/dormouse/files/crds`.
///
/// # Errors
/// If a definition cannot be written as YAML, which the drift test would have shown.
pub fn yaml() -> Result<Vec<(String, String)>, yaml_serde::Error> {
    [KernelSession::crd(), KernelPool::crd(), ToolBroker::crd(), ToolApproval::crd(), KernelQuota::crd()]
        .into_iter()
        .map(|crd| {
            let mut value = yaml_serde::to_value(&crd).and_then(yaml_serde::from_value::<Value>)?;
            plain_formats(&mut value);
            let name = crd.spec.names.plural;
            Ok((format!("{name}.yaml"), format!("{HEADER}{}", yaml_serde::to_string(&value)?)))
        })
        .collect()
}

/// Kubernetes knows no unsigned formats and warns of each one that it meets; `minimum: 0` says the same.
fn plain_formats(value: &mut Value) {
    match value {
        Value::Object(map) => {
            for (key, inner) in map.iter_mut() {
                match inner {
                    Value::String(format) if key == "format" && format.starts_with("uint") => *format = "int64".to_owned(),
                    _ => plain_formats(inner),
                }
            }
        }
        Value::Array(list) => list.iter_mut().for_each(plain_formats),
        _ => {}
    }
}
