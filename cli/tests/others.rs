//! Clients and suites that others wrote. Each installs what it runs, pinned, and is skipped by name where that cannot be had.

use std::{collections::BTreeSet, path::Path, process::Command};

use crate::support::{Dev, packages};

/// What clients start that speak to a process, in the environment of the scripts.
const COMMAND: (&str, &str) = ("DORMOUSE_COMMAND", env!("CARGO_BIN_EXE_dormouse"));
const CLIENTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clients.py");

/// A server with a session `s`, of which there is something to see.
fn dev(data: &tempfile::TempDir) -> Dev {
    let dev = Dev::start(data.path(), &[]);
    assert_eq!(dev.eval("console.log('here'); 6 * 7"), "here\n42");
    dev
}

/// Runs a command to its end, which must be a good one. Answers what it said.
fn passes(command: &mut Command) -> String {
    let said = command.output().unwrap();
    let text = format!("{}{}", String::from_utf8_lossy(&said.stdout), String::from_utf8_lossy(&said.stderr));
    assert!(said.status.success(), "{command:?}\n{text}");
    text
}

/// Runs a client of `clients.py`.
fn client(name: &str, wanted: &[&str]) {
    let Some(bin) = packages::python(name, wanted) else { return };
    let data = tempfile::tempdir().unwrap();
    let dev = dev(&data);
    let said = passes(Command::new(bin.join("python")).args([CLIENTS, &dev.server, name]).env(COMMAND.0, COMMAND.1));
    assert!(said.trim().ends_with("ok"), "{said}");
}

/// Runs a script with a package of npm.
fn script(file: &str, package: &str) {
    let Some(folder) = packages::npm(file, &[package]) else { return };
    let data = tempfile::tempdir().unwrap();
    let dev = dev(&data);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(file);
    let mut node = Command::new("node");
    node.arg(script).arg(&dev.server).env("NODE_PATH", folder.join("node_modules")).env(COMMAND.0, COMMAND.1);
    let said = passes(&mut node);
    assert!(said.trim().ends_with("ok"), "{said}");
}

#[test]
fn the_python_sdks_of_both_eras_of_mcp_use_a_session() {
    client("mcp", &["mcp==1.25.0"]);
    client("mcp", &["mcp==2.3.0"]);
}

#[test]
fn the_python_sdks_of_both_eras_of_mcp_use_a_session_through_a_process() {
    client("stdio", &["mcp==1.25.0"]);
    client("stdio", &["mcp==2.3.0"]);
}

#[test]
fn the_typescript_sdks_of_both_eras_of_mcp_use_a_session() {
    script("mcp_client.cjs", "@modelcontextprotocol/sdk@1.32.2");
    script("mcp_client.cjs", "@modelcontextprotocol/client@2.4.0");
}

#[test]
fn the_websockets_of_python_and_of_node_use_a_session() {
    client("socket", &["websockets==17.4"]);
    script("ws_client.cjs", "ws@8.23.0");
}

/// The description of the API.
const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/openapi.json");

#[test]
fn a_linter_of_openapi_finds_no_fault_in_the_description() {
    let Some(folder) = packages::npm("redocly", &["@redocly/cli@2.77.0", "node@22.23.3"]) else { return };
    let modules = folder.join("node_modules");
    let lints = |document: &Path| {
        let mut node = Command::new(modules.join("node/bin/node"));
        node.arg(modules.join("@redocly/cli/bin/cli.js")).args(["lint", "--extends=recommended"]).arg(document).current_dir(&folder);
        node.env("REDOCLY_TELEMETRY", "off").env("REDOCLY_SUPPRESS_UPDATE_NOTICE", "true");
        node
    };
    passes(&mut lints(Path::new(DOCUMENT)));
    // It finds what is one: no server.
    let broken = std::fs::read_to_string(DOCUMENT).unwrap().replacen("\"servers\"", "\"x-servers\"", 1);
    let data = tempfile::tempdir().unwrap();
    let path = data.path().join("broken.json");
    std::fs::write(&path, broken).unwrap();
    assert!(!lints(&path).output().unwrap().status.success());
}

#[test]
fn a_validator_of_openapi_finds_no_fault_in_the_description() {
    let name = "openapi-spec-validator";
    let Some(bin) = packages::python(name, &["openapi-spec-validator==0.9.0"]) else { return };
    let document = Path::new(DOCUMENT);
    let said = passes(Command::new(bin.join(name)).arg(document));
    assert!(said.contains("OK"), "{said}");
    // It finds what is one: an answer that says nothing of itself.
    let broken = std::fs::read_to_string(document).unwrap().replacen("\"description\": \"the answer\"", "\"x-nothing\": 1", 1);
    let data = tempfile::tempdir().unwrap();
    let path = data.path().join("broken.json");
    std::fs::write(&path, broken).unwrap();
    assert!(!Command::new(bin.join(name)).arg(&path).output().unwrap().status.success());
}

#[test]
fn nbclient_runs_a_notebook_through_the_gateway() {
    client("jupyter", &["jupyter_server==2.21.1", "nbclient==0.11.0"]);
}

#[test]
fn jupyter_tests_the_gateways_kernel_as_any_other() {
    client("kernel", &["jupyter_server==2.21.1", "jupyter_kernel_test==0.7.0"]);
}

/// The suite of MCP, and the newer one that is not yet released, each with the scenarios in which a session's server has no fault, and those of
/// extensions, which are of no revision. Which of these are left out, `docs/clients.md` says.
const SUITES: [(&str, &str, &[&str], &[&str]); 2] = [
    (
        "@modelcontextprotocol/conformance@0.1.16",
        "2025-11-25",
        &[
            "server-initialize",
            "logging-set-level",
            "ping",
            "completion-complete",
            "tools-list",
            "tools-call-simple-text",
            "tools-call-image",
            "tools-call-audio",
            "tools-call-embedded-resource",
            "tools-call-mixed-content",
            "tools-call-with-logging",
            "tools-call-error",
            "tools-call-with-progress",
            "tools-call-sampling",
            "tools-call-elicitation",
            "json-schema-2020-12",
            "elicitation-sep1034-defaults",
            "server-sse-polling",
            "server-sse-multiple-streams",
            "elicitation-sep1330-enums",
            "resources-list",
            "resources-read-text",
            "resources-read-binary",
            "resources-templates-read",
            "resources-subscribe",
            "resources-unsubscribe",
            "prompts-list",
            "prompts-get-simple",
            "prompts-get-with-args",
            "prompts-get-embedded-resource",
            "prompts-get-with-image",
            "dns-rebinding-protection",
        ],
        &[],
    ),
    (
        "@modelcontextprotocol/conformance@0.2.0-alpha.12",
        "2026-07-28",
        &[
            "server-stateless",
            "completion-complete",
            "tools-list",
            "tools-call-simple-text",
            "tools-call-image",
            "tools-call-audio",
            "tools-call-embedded-resource",
            "tools-call-mixed-content",
            "tools-call-error",
            "tools-call-with-progress",
            "json-schema-2020-12",
            "server-sse-multiple-streams",
            "resources-list",
            "resources-read-text",
            "resources-read-binary",
            "resources-templates-read",
            "sep-2164-resource-not-found",
            "prompts-list",
            "prompts-get-simple",
            "prompts-get-with-args",
            "prompts-get-embedded-resource",
            "prompts-get-with-image",
            "dns-rebinding-protection",
            "caching",
            "http-header-validation",
            "http-custom-header-server-validation",
            "input-required-result-basic-elicitation",
            "input-required-result-basic-sampling",
            "input-required-result-basic-list-roots",
            "input-required-result-request-state",
            "input-required-result-multiple-input-requests",
            "input-required-result-multi-round",
            "input-required-result-missing-input-response",
            "input-required-result-non-tool-request",
            "input-required-result-result-type",
            "input-required-result-unsupported-methods",
            "input-required-result-tampered-state",
            "input-required-result-capability-check",
            "input-required-result-ignore-extra-params",
            "input-required-result-validate-input",
        ],
        &[
            "tasks-lifecycle",
            "tasks-capability-negotiation",
            "tasks-wire-fields",
            "tasks-request-state-removal",
            "tasks-mrtr-input",
            "tasks-request-headers",
            "tasks-dispatch-and-envelope",
            "tasks-required-task-error",
            "tasks-mrtr-composition",
        ],
    ),
];

/// The same scenarios of the server of all sessions, each with those of its checks that ask for prompts, or for a tool by the suite's own name: only a
/// session's own server has these.
const SCENARIOS_OF_ALL: [&[(&str, &[&str])]; 2] = [
    &[
        ("server-initialize", &[]),
        ("ping", &[]),
        ("tools-list", &[]),
        ("server-sse-multiple-streams", &[]),
        ("resources-list", &[]),
        ("dns-rebinding-protection", &[]),
    ],
    &[
        (
            "server-stateless",
            &[
                "sep-2575-server-rejects-undeclared-capability",
                "sep-2575-missing-capability-http-400",
                "sep-2575-http-server-no-independent-requests-on-stream",
                "sep-2575-server-no-log-without-loglevel",
            ],
        ),
        ("http-header-validation", &[]),
        ("caching", &["sep-2549-prompts-list-caching-hints"]),
        ("dns-rebinding-protection", &[]),
        ("tools-list", &[]),
        ("resources-list", &[]),
        ("sep-2164-resource-not-found", &[]),
        ("server-sse-multiple-streams", &[]),
    ],
];

/// Checks of a suite's run that failed, or of which it warns.
fn faults(said: &str) -> BTreeSet<&str> {
    let faults = said.lines().filter(|line| line.contains("FAILURE") || line.contains("WARNING"));
    faults.filter_map(|line| line.split(" [").nth(1)?.split([' ', ']']).next()).collect()
}

/// What the suite asks for, as functions of a session.
const SUITES_TOOLS: &str = include_str!("mcp_suite.js");

#[test]
fn the_conformance_suite_of_mcp_finds_no_fault() {
    for ((package, revision, scenarios, of_extensions), of_all) in SUITES.into_iter().zip(SCENARIOS_OF_ALL) {
        // The suite needs a newer Node than a machine may have.
        let Some(folder) = packages::npm("conformance", &[package, "node@22.23.3"]) else { return };
        let data = tempfile::tempdir().unwrap();
        let dev = dev(&data);
        dev.eval(SUITES_TOOLS);
        let bin = folder.join("node_modules/.bin");
        let suite = |path: &str, scenario: &str| {
            let mut suite = Command::new(bin.join("node"));
            let url = format!("{}{path}", dev.server);
            suite.arg(bin.join("conformance")).args(["server", "--url", &url, "--scenario", scenario]);
            if !of_extensions.contains(&scenario) {
                suite.args(["--spec-version", revision]);
            }
            suite.current_dir(data.path());
            suite
        };
        for scenario in scenarios.iter().chain(of_extensions) {
            let said = passes(&mut suite("/v1/namespaces/default/sessions/s/mcp", scenario));
            assert!(said.contains("0 failed, 0 warnings") && !said.contains("Passed: 0/0"), "{scenario}: {said}");
        }
        for (scenario, absent) in of_all {
            let said = suite("/mcp", scenario).output().unwrap();
            let said = String::from_utf8_lossy(&said.stdout);
            let failed = format!("{} failed, 0 warnings", absent.len());
            assert!(said.contains(&failed) && !said.contains("Passed: 0/"), "{scenario}: {said}");
            assert_eq!(faults(&said), absent.iter().copied().collect::<BTreeSet<_>>(), "{scenario}: {said}");
        }
    }
}

#[test]
fn schemathesis_gets_no_answer_that_is_not_documented() {
    let Some(bin) = packages::python("schemathesis", &["schemathesis==4.32.5"]) else { return };
    let data = tempfile::tempdir().unwrap();
    let dev = dev(&data);
    let config = data.path().join("schemathesis.toml");
    // A claim of a job waits for up to a minute. In `dev` all sessions are in one namespace, and one session is there from the beginning.
    std::fs::write(
        &config,
        "[parameters]\n\"path.namespace\" = \"default\"\n\"path.name\" = \"s\"\n\"header.Dormouse-Namespace\" = \"default\"\n",
    )
    .unwrap();
    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/openapi.json");
    let checks =
        "not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,response_schema_conformance";
    let mut suite = Command::new(bin.join("schemathesis"));
    suite.arg("--config-file").arg(&config).arg("run").arg(document).args(["--url", &dev.server, "--checks", checks]);
    suite.args(["--phases", "coverage,fuzzing", "--max-examples", "10", "--max-time", "45", "--workers", "2", "--request-timeout", "65"]);
    suite.args(["--generation-deterministic", "--suppress-health-check", "all", "--no-color", "--warnings", "off"]);
    let said = passes(suite.current_dir(data.path()));
    assert!(said.contains(" passed"), "it has tested something: {said}");
}

/// What a server that speaks HTTP/1.1 on the same port answers in HTTP/1.1: a first line that is none of HTTP/2.
const H2_KNOWN: &str = "Sends invalid connection preface";
/// Some cases break a request behind its head. A server may have answered by then (RFC 9113, 8.1), which the suite takes for a fault: who is faster
/// differs from run to run, and a fault does not.
const H2_RUNS_MAX: usize = 20;

#[test]
fn h2spec_finds_no_fault_in_http_2() {
    let Some(h2spec) = packages::go("h2spec", "github.com/summerwind/h2spec/cmd/h2spec@v2.2.1+incompatible") else { return };
    let data = tempfile::tempdir().unwrap();
    let dev = dev(&data);
    let address: std::net::SocketAddr = dev.server.trim_start_matches("http://").parse().unwrap();
    let failures = || -> BTreeSet<String> {
        let mut suite = Command::new(&h2spec);
        suite.args(["--host", &address.ip().to_string(), "--port", &address.port().to_string(), "--path", "/openapi.json"]);
        let said = suite.output().unwrap();
        let said = String::from_utf8_lossy(&said.stdout);
        assert!(said.contains(" tests, "), "it has tested something: {said}");
        let lines = said.split("Failures:").nth(1).unwrap_or_default().lines();
        lines.filter(|line| line.contains('×') && !line.contains(H2_KNOWN)).map(|line| line.trim().to_owned()).collect()
    };
    let mut always = failures();
    for _ in 1..H2_RUNS_MAX {
        if always.is_empty() {
            return;
        }
        let again = failures();
        always.retain(|failure| again.contains(failure));
    }
    assert!(always.is_empty(), "{always:?}");
}
