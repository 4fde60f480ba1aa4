//! The chart, rendered by the real helm, is taken by a real API server that warns of nothing, in a namespace for restricted pods.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod chart {
    pub mod alerts;
    pub mod firing;
    pub mod pages;
}

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use dormouse_e2e::steps::say;
use dormouse_testkit::{apiserver::ApiServer, tools, wait::eventually};

const SYSTEM: &str = "dormouse-system";

/// Everything that is off by default.
const ALL: &str = "
commonLabels: {team: platform}
commonAnnotations: {owner: platform}
image: {digests: {gateway: 'sha256:0000000000000000000000000000000000000000000000000000000000000001'}}
gateway:
  tls: {names: [dormouse.example]}
  podAnnotations: {scrape: 'no'}
  ingress: {enabled: true, className: nginx, hosts: [dormouse.example], tlsSecret: ingress-tls}
  httpRoute: {enabled: true, parentRefs: [{name: gateway}], hostnames: [dormouse.example]}
  autoscaling: {enabled: true}
  publicUrl: https://dormouse.example
  oidc: {issuer: 'https://id.example', audiences: [one, two], caConfigMap: id-ca}
storage: {roleArn: 'arn:aws:iam::1:role/d', webIdentity: {audience: sts.amazonaws.com}, stsEndpoint: 'https://sts.example'}
tracing: {endpoint: 'http://collector.observed.svc:4318', ratio: 0.5}
monitoring:
  from: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: monitoring}}}]
  labels: {release: prometheus}
  podMonitors: {enabled: true}
  alerts: {enabled: true}
  dashboard: {enabled: true}
kernel: {resources: {requests: {cpu: 1, memory: 1Gi}}}
";

/// Kinds of others' CRDs, which a bare API server does not have.
const FOREIGN: [&str; 3] = ["HTTPRoute", "PodMonitor", "PrometheusRule"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn helm(args: &[&str]) -> String {
    let output = Command::new(tools::path("helm").unwrap()).current_dir(root()).args(args).output().unwrap();
    assert!(
        output.status.success(),
        "helm {args:?}: {}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

/// The documents that the chart renders to with these values.
fn rendered(values: &str) -> Vec<String> {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), values).unwrap();
    let text = helm(&["template", "dormouse", "charts/dormouse", "--namespace", SYSTEM, "--values", file.path().to_str().unwrap()]);
    text.split("\n---\n").map(str::to_owned).filter(|document| document.lines().any(|line| line.starts_with("kind: "))).collect()
}

fn kind(document: &str) -> &str {
    document.lines().find_map(|line| line.strip_prefix("kind: ")).unwrap()
}

/// The documents of this kind and name.
fn one<'a>(documents: &'a [String], wanted: &str, name: &str) -> &'a str {
    let named = |document: &&String| kind(document) == wanted && document.contains(&format!("\n  name: {name}\n"));
    documents.iter().find(named).unwrap_or_else(|| panic!("no {wanted} {name}"))
}

/// What the API server says to a dry run; a warning is a failure.
fn accepts(server: &ApiServer, documents: &[String]) {
    let own: Vec<&str> = documents.iter().map(String::as_str).filter(|document| !FOREIGN.contains(&kind(document))).collect();
    let mut kubectl = Command::new(tools::path("kubectl").unwrap());
    kubectl.arg("--kubeconfig").arg(server.kubeconfig()).args(["apply", "--dry-run=server", "--warnings-as-errors", "-f", "-"]);
    let output = fed(&mut kubectl, &own.join("\n---\n"));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let taken = String::from_utf8_lossy(&output.stdout).lines().count();
    assert_eq!(taken, own.len(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[tokio::test]
async fn an_api_server_takes_all_of_it_without_a_warning() {
    let server = ApiServer::start().await.unwrap();
    server.kubectl(&["create", "namespace", SYSTEM]).unwrap();
    for mode in ["enforce", "warn"] {
        server.kubectl(&["label", "namespace", SYSTEM, &format!("pod-security.kubernetes.io/{mode}=restricted")]).unwrap();
    }
    let page = std::fs::read_to_string(root().join("docs/installing.md")).unwrap();
    let without_key = page.split_once("## Install without an access key").unwrap().1.split("```").nth(1).unwrap();
    let without_key = without_key.strip_prefix("yaml\n").unwrap();
    for values in ["{}", ALL, "gateway: {tls: {source: none}}", "gateway: {tls: {source: secret, secret: mine}}", without_key] {
        accepts(&server, &rendered(values));
    }
}

#[test]
fn the_values_do_what_they_say() {
    helm(&["lint", "--strict", "charts/dormouse", "--namespace", SYSTEM]);
    let plain = rendered("{}");
    let all = rendered(ALL);
    let kinds: BTreeSet<&str> = all.iter().map(|document| kind(document)).collect();
    for wanted in ["Ingress", "HTTPRoute", "HorizontalPodAutoscaler", "PodMonitor", "PrometheusRule", "PodDisruptionBudget"] {
        assert!(kinds.contains(wanted), "no {wanted}");
    }
    let gateway = one(&all, "Deployment", "dormouse-gateway");
    assert!(gateway.contains("dormouse-gateway@sha256:0000"), "a digest counts instead of a tag");
    assert!(!gateway.contains("\n  replicas:"), "whoever scales says how many");
    assert!(gateway.contains("scrape: \"no\"") && gateway.contains("owner: platform") && gateway.contains("team: platform"));
    for wanted in [
        "DORMOUSE_PUBLIC_URL, value: \"https://dormouse.example\"",
        "DORMOUSE_OIDC_ISSUER, value: \"https://id.example\"",
        "DORMOUSE_OIDC_AUDIENCES, value: \"one,two\"",
        "configMap: {name: id-ca}",
        "OTEL_EXPORTER_OTLP_ENDPOINT, value: \"http://collector.observed.svc:4318\"",
        "OTEL_TRACES_SAMPLER_ARG, value: \"0.5\"",
    ] {
        assert!(gateway.contains(wanted), "{wanted}");
    }
    let plainly = one(&plain, "Deployment", "dormouse-gateway");
    assert!(!plainly.contains("OIDC") && !plainly.contains("OTEL"), "neither is there unless somebody says so");
    let operator = one(&all, "Deployment", "dormouse-operator");
    for wanted in [
        "DORMOUSE_TRACES_ENDPOINT, value: \"http://collector.observed.svc:4318\"",
        "DORMOUSE_STS_ENDPOINT, value: \"https://sts.example\"",
        "DORMOUSE_S3_WEB_IDENTITY_TOKEN_FILE, value: /var/run/secrets/dormouse/storage/token",
        "serviceAccountToken: {path: token, audience: \"sts.amazonaws.com\"",
    ] {
        assert!(operator.contains(wanted), "{wanted}");
    }
    assert!(!one(&plain, "Deployment", "dormouse-operator").contains("web-identity"), "nor is a token, which not every store takes");
    assert!(operator.contains("dormouse-gateway.dormouse-system.svc") && operator.contains("dormouse.example"), "names of the certificate");
    let port = |documents: &[String]| one(documents, "Service", "dormouse-gateway").contains("port: 443");
    assert!(port(&plain) && !port(&rendered("gateway: {tls: {source: none}}")));
    for crd in plain.iter().filter(|document| kind(document) == "CustomResourceDefinition") {
        assert!(crd.contains("helm.sh/resource-policy: keep"), "every session would go with it");
    }
    assert_eq!(rendered("crds: {install: false}").iter().filter(|document| kind(document) == "CustomResourceDefinition").count(), 0);
}

/// What kube-score finds and we do not follow, each with its reason.
const NOT_FOLLOWED: [&str; 5] = [
    // A limit of CPU throttles a process that others leave room to; its requests are its share.
    "--ignore-container-cpu-limit",
    // Images are named by version or digest, which do not change.
    "--ignore-test",
    "container-image-pull-policy",
    // Topology spread constraints do that, over zones, too.
    "--ignore-test",
    "deployment-has-host-podantiaffinity",
];

/// The path of a tool that a machine may not have been able to build; then it is said which test is left out. Where CI runs none is.
fn tool(name: &str, test: &str) -> Option<PathBuf> {
    let path = tools::path(name).ok();
    if path.is_none() {
        let why = format!("{name} is not here; e2e/cluster/setup.sh builds it where its sources can be had");
        let is_ci = std::env::var_os("CI").is_some_and(|ci| !ci.is_empty());
        assert!(!is_ci, "{test}: {why}, and CI leaves out no test of the chart");
        say(&format!("SKIPPED {test}: {why}\n"));
    }
    path
}

/// What a command makes of its input.
fn fed(command: &mut Command, input: &str) -> Output {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

fn passes(mut command: Command, input: &str) {
    let output = fed(&mut command, input);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn the_charts_own_tests_pass() {
    let Some(unittest) = tool("helm-unittest", "the_charts_own_tests_pass") else { return };
    let mut command = Command::new(unittest);
    command.arg("charts/dormouse").current_dir(root());
    passes(command, "");
}

#[test]
fn kube_score_finds_nothing_critical() {
    let Some(score) = tool("kube-score", "kube_score_finds_nothing_critical") else { return };
    for values in ["{}", ALL, "{watchNamespaces: [a, b]}"] {
        let mut command = Command::new(&score);
        command.args(["score", "-", "--output-format", "ci"]).args(NOT_FOLLOWED);
        passes(command, &rendered(values).join("\n---\n"));
    }
}

/// The schemas of all kinds that an API server has, as kubeconform reads them: each a file that leads into one of all definitions.
fn schemas(server: &ApiServer, folder: &Path) {
    let mut document: serde_json::Value = serde_json::from_str(&server.kubectl(&["get", "--raw", "/openapi/v2"]).unwrap()).unwrap();
    let mut definitions = document["definitions"].take();
    let all = folder.join("all.json");
    for (name, definition) in definitions.as_object().unwrap() {
        for kind in definition["x-kubernetes-group-version-kind"].as_array().into_iter().flatten() {
            let [group, version, kind] = ["group", "version", "kind"].map(|field| kind[field].as_str().unwrap());
            let group = group.split('.').next().filter(|group| !group.is_empty()).map(|group| format!("-{group}")).unwrap_or_default();
            let leads = serde_json::json!({ "$ref": format!("file://{}#/definitions/{name}", all.display()) });
            std::fs::write(folder.join(format!("{}{group}-{version}.json", kind.to_lowercase())), leads.to_string()).unwrap();
        }
    }
    as_json_schema(&mut definitions);
    std::fs::write(all, serde_json::json!({ "definitions": definitions }).to_string()).unwrap();
}

/// What Kubernetes writes otherwise than JSON Schema: a number or a text; and that an object has no other fields than those that are named.
fn as_json_schema(schema: &mut serde_json::Value) {
    match schema {
        serde_json::Value::Object(fields) => {
            if fields.get("format").is_some_and(|format| format == "int-or-string") {
                fields.remove("type");
            }
            let is_open = fields.contains_key("additionalProperties") || fields.contains_key("x-kubernetes-preserve-unknown-fields");
            if fields.get("properties").is_some_and(serde_json::Value::is_object) && !is_open {
                fields.insert("additionalProperties".to_owned(), false.into());
            }
            fields.values_mut().for_each(as_json_schema);
        }
        serde_json::Value::Array(items) => items.iter_mut().for_each(as_json_schema),
        _ => {}
    }
}

#[tokio::test]
async fn kubeconform_knows_every_field() {
    let Some(program) = tool("kubeconform", "kubeconform_knows_every_field") else { return };
    let (server, folder) = (ApiServer::start().await.unwrap(), tempfile::tempdir().unwrap());
    server.kubectl(&["apply", "-f", root().join("crds/yaml").to_str().unwrap()]).unwrap();
    server.kubectl(&["wait", "--for=condition=Established", "crd", "--all"]).unwrap();
    let kind = folder.path().join("kernelsession-dormouse-v1alpha1.json");
    // The API server publishes what it knows some time after a definition is established.
    eventually("the definitions are published", async || {
        schemas(&server, folder.path());
        kind.is_file()
    })
    .await;
    let check = |documents: &str| {
        let mut command = Command::new(&program);
        command.args(["-strict", "-skip", &FOREIGN.join(","), "-schema-location"]);
        command.arg(folder.path().join("{{ .ResourceKind }}{{ .KindSuffix }}.json"));
        let output = fed(&mut command, documents);
        (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let examples = ["session", "toolbroker"].map(|name| std::fs::read_to_string(root().join(format!("examples/{name}.yaml"))).unwrap());
    for documents in [rendered("{}").join("\n---\n"), rendered(ALL).join("\n---\n"), examples.join("\n---\n")] {
        assert_eq!(check(&documents), (true, String::new()));
    }
    // Of a spec: what definitions say of fields is indented further.
    for (right, wrong) in [
        ("\n  replicas: ", "\n  replica: "),
        ("\n  toolBrokerRef:", "\n  toolBrokerRefs:"),
        ("\n  idleSeconds: 300", "\n  idleSeconds: soon"),
    ] {
        let all = [rendered("{}").join("\n---\n"), examples.join("\n---\n")].join("\n---\n");
        assert!(all.contains(right), "{right}");
        assert!(!check(&all.replacen(right, wrong, 1)).0, "{wrong} is found");
    }
}

#[tokio::test]
async fn kubectl_validate_says_what_an_api_server_would() {
    let Some(program) = tool("kubectl-validate", "kubectl_validate_says_what_an_api_server_would") else { return };
    let (server, folder) = (ApiServer::start().await.unwrap(), tempfile::tempdir().unwrap());
    let check = |documents: &str| {
        let file = folder.path().join("documents.yaml");
        std::fs::write(&file, documents).unwrap();
        let mut command = Command::new(&program);
        command.arg(&file).env("KUBECONFIG", server.kubeconfig()).arg("--local-crds").arg(root().join("crds/yaml"));
        let output = command.output().unwrap();
        (output.status.success(), format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr)))
    };
    let ours = |values: &str| {
        let documents = rendered(values).into_iter().filter(|document| !FOREIGN.contains(&kind(document)));
        documents.collect::<Vec<_>>().join("\n---\n")
    };
    let examples = ["session", "toolbroker"].map(|name| std::fs::read_to_string(root().join(format!("examples/{name}.yaml"))).unwrap());
    for documents in [ours("{}"), ours(ALL), examples.join("\n---\n")] {
        let (passes, said) = check(&documents);
        assert!(passes, "{said}");
    }
    // Of a name, what Kubernetes says and what a rule of ours does, which no schema has; and a field.
    for (right, wrong) in
        [("\n  name: ", "\n  name: UPPER"), ("\n  name: ", "\n  name: dotted."), ("\n  toolBrokerRef:", "\n  toolBrokerRefs:")]
    {
        let all = examples.join("\n---\n");
        assert!(all.contains(right), "{right}");
        assert!(!check(&all.replacen(right, wrong, 1)).0, "{wrong} is found");
    }
}
