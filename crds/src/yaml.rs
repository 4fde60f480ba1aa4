//! The CustomResourceDefinitions as files.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceConversion, CustomResourceDefinition, CustomResourceDefinitionVersion,
};
use kube::CustomResourceExt as _;
use serde_json::Value;

use crate::{NEXT_VERSION, approval::ToolApproval, broker::ToolBroker, pool::KernelPool, quota::KernelQuota, session::KernelSession};

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
        .map(|mut crd| {
            serve_next(&mut crd);
            let mut value = yaml_serde::to_value(&crd).and_then(yaml_serde::from_value::<Value>)?;
            plain_formats(&mut value);
            let name = crd.spec.names.plural;
            Ok((format!("{name}.yaml"), format!("{HEADER}{}", yaml_serde::to_string(&value)?)))
        })
        .collect()
}

/// Serves the next version beside the one of the types. Both have one schema, so nothing is converted but the name of the version. Objects are stored as
/// the older one, until every release that a cluster may go back to serves the newer (the chart's `crds.storedVersion`).
fn serve_next(crd: &mut CustomResourceDefinition) {
    crd.spec.conversion = Some(CustomResourceConversion { strategy: "None".to_owned(), webhook: None });
    let next = crd.spec.versions.iter().map(|version| CustomResourceDefinitionVersion {
        name: NEXT_VERSION.to_owned(),
        storage: false,
        ..version.clone()
    });
    let next: Vec<_> = next.collect();
    crd.spec.versions.extend(next);
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
