//! The committed CRDs are those of the types. `UPDATE=1` writes them.
#![cfg(feature = "kubernetes")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::path::Path;

use dormouse_testkit::{generated::is_current, reference};

const FOLDERS: [&str; 2] = ["yaml", "../charts/dormouse/files/crds"];

#[test]
fn the_committed_crds_are_those_of_the_types() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for (name, content) in dormouse_crds::yaml().unwrap() {
        for folder in FOLDERS {
            is_current(&root.join(folder).join(&name), &content);
        }
    }
}

#[test]
fn the_reference_of_objects_is_current() {
    let all = dormouse_crds::yaml().unwrap();
    let definitions: Vec<serde_json::Value> = all.iter().map(|(_, content)| yaml_serde::from_str(content).unwrap()).collect();
    reference::objects_are_current(&definitions);
}

/// What an API server would refuse to take as a structural schema, or would warn of.
#[test]
fn the_schemas_are_structural_and_show_their_defaults() {
    let all = dormouse_crds::yaml().unwrap();
    assert_eq!(all.len(), 5);
    for (name, content) in &all {
        assert!(!content.contains("$ref"), "{name} has references");
        assert!(!content.contains("format: uint"), "{name} has formats that Kubernetes does not know");
        assert!(!content.contains("additionalProperties: false"), "{name} closes objects, which a structural schema may not");
        assert!(content.contains("x-kubernetes-validations"), "{name} has no rules");
    }
    for (name, content) in &all {
        let lines = |line: &str| content.lines().filter(|it| it.trim() == line).count();
        let versions =
            [lines("name: v1alpha1"), lines("name: v1beta1"), lines("served: true"), lines("storage: true"), lines("storage: false")];
        assert_eq!(versions, [1, 1, 2, 1, 1], "{name}: the chart exchanges the two lines to store the other version");
        assert!(content.contains("strategy: None"), "{name}");
    }
    let sessions = &all.iter().find(|(name, _)| name == "kernelsessions.yaml").unwrap().1;
    for default in ["default: PerEval", "default: Auto", "default: 300", "heapBytes: 67108864"] {
        assert!(sessions.contains(default), "no `{default}`");
    }
}
