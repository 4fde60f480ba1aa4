//! Two served versions of one schema: clients of either work on the same objects, and what is stored can be moved to the newer version, and back.

use std::{path::Path, process::Command};

use crate::support::{Cluster, apply, pool};
use serde_json::{Value, json};

const OLD: &str = "v1alpha1";
const NEW: &str = "v1beta1";
const KINDS: [&str; 5] = ["kernelsessions", "kernelpools", "toolbrokers", "toolapprovals", "kernelquotas"];

fn root() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The CRDs as the chart makes them for objects that are stored as `version`.
fn crds(version: &str) -> String {
    let mut helm = Command::new(dormouse_testkit::tools::path("helm").unwrap());
    helm.args(["template", "dormouse", "charts/dormouse", "--show-only", "templates/crds.yaml"]);
    helm.args(["--set", &format!("crds.storedVersion={version}")]);
    let output = helm.current_dir(root()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The CRDs of a release from before there was the newer version.
fn crds_of_before() -> String {
    let documents = crds(OLD);
    let one = |document: &str| {
        let mut crd: Value = yaml_serde::from_str(document).unwrap();
        crd["spec"]["versions"].as_array_mut().unwrap().retain(|version| version["name"] == OLD);
        crd.to_string()
    };
    documents
        .split("\n---\n")
        .filter(|document| document.contains("kind: CustomResourceDefinition"))
        .map(one)
        .collect::<Vec<_>>()
        .join("\n---\n")
}

/// The commands of the documentation that write every object once more.
fn rewrite(cluster: &Cluster, version: &str) {
    let page = std::fs::read_to_string(root().join("docs/installing.md")).unwrap();
    let (_, section) = page.split_once("## Read and write objects as either version").unwrap();
    let (_, script) = section.split_once("```sh\n").unwrap();
    let (script, _) = script.split_once("```").unwrap();
    let tools = dormouse_testkit::tools::path("kubectl").unwrap();
    let path = format!("{}:{}", tools.parent().unwrap().display(), std::env::var("PATH").unwrap());
    let mut shell = Command::new("bash");
    shell.args(["-euc", script]).env("PATH", path).env("VERSION", version).env("KUBECONFIG", cluster.server.kubeconfig());
    let output = shell.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The versions of all that etcd has of our kinds.
fn stored(cluster: &Cluster) -> Vec<String> {
    let objects = cluster.server.stored("/registry/dormouse.dev/").unwrap();
    objects.iter().map(|object| object["apiVersion"].as_str().unwrap().to_owned()).collect()
}

fn all_are(stored: &[String], version: &str) -> bool {
    stored.len() >= 3 && stored.iter().all(|of| *of == format!("dormouse.dev/{version}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_of_both_versions_work_on_the_same_objects_which_are_stored_as_either_and_back_again() {
    let cluster = Cluster::start(&["--orphan-sweep-interval-seconds=0"]).await;
    let kubectl = |args: &[&str]| cluster.server.kubectl(args).unwrap();
    // The operator, a client of the older version, takes up what a client of the newer one makes.
    apply(&cluster.server, &pool("warmPods: 1").replace(OLD, NEW));
    apply(
        &cluster.server,
        &format!("apiVersion: dormouse.dev/{NEW}\nkind: KernelQuota\nmetadata: {{name: q, namespace: team}}\nspec: {{sessions: 7}}\n"),
    );
    let uid = cluster.session("a", "");
    let deployment = || cluster.get(&["deployment", "dormouse-kernel-default"], "{.metadata.uid}");
    cluster.until("the pool has its pods", async || !deployment().is_empty()).await;

    // Either sees what the other writes.
    let one = |version: &str| format!("kernelsessions.{version}.dormouse.dev");
    for (writer, reader, idle) in [(OLD, NEW, 111), (NEW, OLD, 222)] {
        let patch = json!({ "spec": { "idleSeconds": idle } }).to_string();
        kubectl(&["patch", &one(writer), "a", "-n", "team", "--type=merge", "-p", &patch]);
        let read = kubectl(&["get", &one(reader), "a", "-n", "team", "-o", "jsonpath={.apiVersion} {.metadata.uid} {.spec.idleSeconds}"]);
        assert_eq!(read, format!("dormouse.dev/{reader} {uid} {idle}"));
    }
    // What the schema refuses, it refuses in both.
    for version in [OLD, NEW] {
        let moved = json!({ "spec": { "pool": "another" } }).to_string();
        let refused = cluster.server.kubectl(&["patch", &one(version), "a", "-n", "team", "--type=merge", "-p", &moved]);
        assert!(refused.is_err(), "{version}");
    }
    assert!(all_are(&stored(&cluster), OLD), "{:?}", stored(&cluster));

    apply(&cluster.server, &crds(NEW));
    rewrite(&cluster, NEW);
    assert!(all_are(&stored(&cluster), NEW), "{:?}", stored(&cluster));
    for kind in KINDS {
        assert_eq!(
            kubectl(&["get", "crd", &format!("{kind}.dormouse.dev"), "-o", "jsonpath={.status.storedVersions}"]),
            format!("[\"{NEW}\"]")
        );
    }
    // The operator goes on: a session that is made now has its finalizer.
    cluster.session("b", "");
    let finalizers = || cluster.get(&["kernelsession", "b"], "{.metadata.finalizers}");
    cluster.until("the operator sees it", async || finalizers().contains("dormouse.dev/storage")).await;

    // A release from before is refused while objects are stored as what it does not know, and taken once they are not.
    let refused = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(refused.path(), crds_of_before()).unwrap();
    let older = ["apply", "-f", refused.path().to_str().unwrap()];
    let why = cluster.server.kubectl(&older).unwrap_err().to_string();
    assert!(why.contains("storedVersions"), "{why}");
    apply(&cluster.server, &crds(OLD));
    rewrite(&cluster, OLD);
    assert!(all_are(&stored(&cluster), OLD), "{:?}", stored(&cluster));
    cluster.server.kubectl(&older).unwrap();
    let back = kubectl(&["get", &one(OLD), "a", "-n", "team", "-o", "jsonpath={.metadata.uid} {.spec.idleSeconds}"]);
    assert_eq!(back, format!("{uid} 222"));
    let pool = cluster.get(&[&format!("kernelpools.{OLD}.dormouse.dev"), "default"], "{.spec.warmPods}");
    assert_eq!(pool, "1");
}
