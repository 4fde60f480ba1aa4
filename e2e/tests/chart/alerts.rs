//! What the chart's alerts and its dashboard ask, Prometheus can read, and our processes count.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    process::Command,
};

use serde::Deserialize;
use serde_json::{Value, json};

use crate::{ALL, SYSTEM, fed, one, rendered, root, tool};

/// Where processes say what they count.
const SOURCES: [&str; 4] = ["operator/src/context.rs", "gateway/src/metrics.rs", "kernel-pod/src/metrics.rs", "broker/src/meters.rs"];
/// How a metric is made there, and the names that it has then.
const MADE: [(&str, &[&str]); 6] = [
    ("counter", &[""]),
    ("counters", &[""]),
    ("gauge", &[""]),
    ("gauges", &[""]),
    ("latency", &["_bucket", "_sum", "_count"]),
    ("latencies", &["_bucket", "_sum", "_count"]),
];
/// Metrics that there are at least.
const METRICS_MIN: usize = 40;
/// Labels that the chart's PodMonitors add.
const ADDED: [&str; 2] = ["namespace", "pod"];
const SEVERITIES: [&str; 3] = ["critical", "warning", "info"];
/// What stands for Grafana's variables.
const VARIABLES: [(&str, &str); 1] = [("$namespace", "team")];

/// An expression as Prometheus reads it; see `e2e/cluster/tools/promql`.
#[derive(Debug, Deserialize)]
struct Node {
    metric: String,
    matchers: Vec<Matcher>,
    function: String,
    labels: Vec<String>,
    by: bool,
    parts: Vec<Node>,
}

#[derive(Debug, Deserialize)]
struct Matcher {
    label: String,
    r#type: String,
    value: String,
}

#[derive(Debug, Deserialize)]
struct Reading {
    tree: Option<Node>,
    fault: String,
}

#[derive(Debug, Deserialize)]
struct Read {
    faults: Vec<String>,
    readings: Vec<Reading>,
}

/// A metric of one of our processes.
struct Metric {
    is_gauge: bool,
    labels: BTreeSet<String>,
    /// What counts it.
    source: String,
}

impl Metric {
    fn has(&self, label: &str) -> bool {
        self.labels.contains(label) || ADDED.contains(&label)
    }
}

impl Node {
    /// It, and all that it is made of.
    fn all(&self) -> Vec<&Node> {
        let parts = self.parts.iter().flat_map(Node::all);
        std::iter::once(self).chain(parts).collect()
    }

    fn selectors(&self) -> Vec<&Node> {
        self.all().into_iter().filter(|node| !node.metric.is_empty()).collect()
    }

    /// Whether what comes of it has this label.
    fn gives(&self, label: &str, exported: &BTreeMap<String, Metric>) -> bool {
        if self.by {
            return self.labels.iter().any(|given| given == label);
        }
        match exported.get(&self.metric) {
            Some(metric) => metric.has(label),
            // Of two sides the left one says.
            None => self.parts.iter().find(|part| !part.selectors().is_empty()).is_some_and(|part| part.gives(label, exported)),
        }
    }
}

/// What processes count, by the names that Prometheus has for it.
fn exported() -> BTreeMap<String, Metric> {
    let mut exported = BTreeMap::new();
    for source in SOURCES.map(|file| fs::read_to_string(root().join(file)).unwrap()) {
        for (made, endings) in MADE {
            for call in source.split(&format!(".{made}(")).skip(1) {
                let call = call.split_once(")?").unwrap().0;
                let texts: Vec<&str> = call.split('"').skip(1).step_by(2).collect();
                // Its name, a sentence about it, and its labels.
                let [name, _, labels @ ..] = &texts[..] else { panic!("{call}") };
                for ending in endings {
                    let bucket = (*ending == "_bucket").then_some("le");
                    let labels = labels.iter().copied().chain(bucket).map(str::to_owned).collect();
                    let metric = Metric { is_gauge: made.starts_with("gauge"), labels, source: source.clone() };
                    assert!(exported.insert(format!("dormouse_{name}{ending}"), metric).is_none(), "{name} is counted twice");
                }
            }
        }
    }
    assert!(exported.len() >= METRICS_MIN, "the sources have moved: {:?}", exported.keys());
    exported
}

/// What is wrong with what an expression asks.
fn faults(expression: &Node, exported: &BTreeMap<String, Metric>) -> Vec<String> {
    let mut faults = Vec::new();
    for node in expression.selectors() {
        let name = &node.metric;
        let Some(metric) = exported.get(name) else {
            faults.push(format!("nobody counts {name}"));
            continue;
        };
        for Matcher { label, r#type, value } in &node.matchers {
            if !metric.has(label) {
                faults.push(format!("{name} has no label {label}"));
            } else if r#type == "=" && !ADDED.contains(&label.as_str()) && !metric.source.contains(&format!("\"{value}\"")) {
                faults.push(format!("{label} of {name} is never {value}"));
            }
        }
    }
    for node in expression.all() {
        let of = node.selectors().into_iter().filter_map(|selector| Some((&selector.metric, exported.get(&selector.metric)?)));
        for (name, metric) in of {
            faults.extend(node.labels.iter().filter(|label| !metric.has(label)).map(|label| format!("{name} has no label {label}")));
            if metric.is_gauge && ["rate", "irate", "increase"].contains(&node.function.as_str()) {
                faults.push(format!("{name} is no counter, of which there is a {}", node.function));
            }
        }
    }
    faults
}

/// The labels that stand in braces in a text, as `{{ $labels.kind }}` or `{{kind}}`.
fn named(text: &str) -> Vec<&str> {
    let braced = text.split("{{").skip(1).map(|rest| rest.split_once("}}").unwrap().0.trim());
    braced.map(|name| name.strip_prefix("$labels.").unwrap_or(name)).collect()
}

fn read(program: &Path, rules: &str, expressions: &[&str]) -> Read {
    let output = fed(&mut Command::new(program), &json!({ "rules": rules, "expressions": expressions }).to_string());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Asserts that each expression is read and asks what is there, and that what comes of it has the labels that its text names.
fn right(program: &Path, asked: &[(String, String)], exported: &BTreeMap<String, Metric>) {
    let expressions: Vec<&str> = asked.iter().map(|(expression, _)| expression.as_str()).collect();
    let read = read(program, "", &expressions);
    assert_eq!(read.readings.len(), asked.len());
    for (Reading { tree, fault }, (expression, text)) in read.readings.into_iter().zip(asked) {
        let tree = tree.unwrap_or_else(|| panic!("{expression}: {fault}"));
        assert_eq!(faults(&tree, exported), Vec::<String>::new(), "{expression}");
        for label in named(text) {
            assert!(tree.gives(label, exported), "{expression} has no {label} for {text:?}");
        }
    }
}

#[test]
fn every_alert_asks_what_is_counted_and_has_a_runbook() {
    let Some(program) = tool("promql", "every_alert_asks_what_is_counted_and_has_a_runbook") else { return };
    let rule: Value = yaml_serde::from_str(one(&rendered(ALL), "PrometheusRule", "dormouse")).unwrap();
    let rules = yaml_serde::to_string(&rule["spec"]).unwrap();
    assert_eq!(read(&program, &rules, &[]).faults, Vec::<String>::new());
    let pages = fs::read_to_string(root().join("docs/runbooks.md")).unwrap();
    let values: Value = yaml_serde::from_str(&fs::read_to_string(root().join("charts/dormouse/values.yaml")).unwrap()).unwrap();
    let runbooks = values["monitoring"]["alerts"]["runbooks"].as_str().unwrap();
    assert!(runbooks.ends_with("/docs/runbooks.md"), "{runbooks}");
    let mut asked = Vec::new();
    for alert in rule["spec"]["groups"].as_array().unwrap().iter().flat_map(|group| group["rules"].as_array().unwrap()) {
        let text = |value: &Value| value.as_str().unwrap_or_else(|| panic!("{alert}")).to_owned();
        let [name, expression, severity] = [&alert["alert"], &alert["expr"], &alert["labels"]["severity"]].map(text);
        let [summary, runbook] = [&alert["annotations"]["summary"], &alert["annotations"]["runbook_url"]].map(text);
        assert!(SEVERITIES.contains(&severity.as_str()), "{name} is {severity}");
        assert!(alert["for"].is_string() || expression.contains("increase("), "{name} calls at once for what is over at once");
        assert!(pages.contains(&format!("\n## {name}\n")), "no runbook for {name}");
        assert_eq!(runbook, format!("{runbooks}#{}", name.to_lowercase()));
        asked.push((expression, summary));
    }
    assert!(asked.len() >= 8, "{asked:?}");
    right(&program, &asked, &exported());
}

#[test]
fn every_panel_of_the_dashboard_asks_what_is_counted() {
    let Some(program) = tool("promql", "every_panel_of_the_dashboard_asks_what_is_counted") else { return };
    let all = rendered(ALL);
    let map: Value = yaml_serde::from_str(one(&all, "ConfigMap", "dormouse-dashboard")).unwrap();
    assert_eq!(map["metadata"]["namespace"], SYSTEM);
    let dashboard: Value = serde_json::from_str(map["data"]["dormouse.json"].as_str().unwrap()).unwrap();
    let exported = exported();
    let known: Vec<&str> = dashboard["templating"]["list"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    for variable in dashboard["templating"]["list"].as_array().unwrap().iter().filter(|one| one["type"] == "query") {
        let query = variable["query"].as_str().unwrap();
        let of = query.strip_prefix("label_values(").and_then(|of| of.strip_suffix(')')).and_then(|of| of.split_once(", "));
        let (metric, label) = of.unwrap_or_else(|| panic!("{query}"));
        assert!(exported.get(metric).is_some_and(|metric| metric.has(label)), "{query}");
    }
    let mut asked = Vec::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        let targets = panel["targets"].as_array().unwrap();
        assert!(!targets.is_empty(), "{panel}");
        for target in targets {
            let mut expression = target["expr"].as_str().unwrap_or_else(|| panic!("{panel}")).to_owned();
            for (variable, value) in VARIABLES {
                assert!(known.contains(&variable.trim_start_matches('$')), "{variable}");
                expression = expression.replace(variable, value);
            }
            assert!(!expression.contains('$'), "{expression}");
            asked.push((expression, target["legendFormat"].as_str().unwrap_or_default().to_owned()));
        }
    }
    assert!(asked.len() >= 10, "{asked:?}");
    right(&program, &asked, &exported);
}

#[test]
fn what_nobody_can_read_or_counts_is_found() {
    let Some(program) = tool("promql", "what_nobody_can_read_or_counts_is_found") else { return };
    let exported = exported();
    let requests = "dormouse_gateway_requests_total";
    let wrong = [
        (format!("rate({requests}[5m]"), "unclosed left parenthesis"),
        (format!("rate({requests})"), "expected type range vector"),
        (format!("rates({requests}[5m])"), "unknown function"),
        ("rate(dormouse_gateway_wishes_total[5m])".to_owned(), "nobody counts dormouse_gateway_wishes_total"),
        ("dormouse_kernel_cell_seconds > 1".to_owned(), "nobody counts dormouse_kernel_cell_seconds"),
        (format!("{requests}{{color=\"red\"}}"), "has no label color"),
        (format!("{requests}{{class=\"7xx\"}}"), "class of dormouse_gateway_requests_total is never 7xx"),
        (format!("sum by (color) (rate({requests}[5m]))"), "has no label color"),
        (format!("{requests} / on (color) {requests}"), "has no label color"),
        ("rate(dormouse_kernel_live_sessions[5m])".to_owned(), "dormouse_kernel_live_sessions is no counter"),
    ];
    let expressions: Vec<&str> = wrong.iter().map(|(expression, _)| expression.as_str()).collect();
    for (Reading { tree, fault }, (expression, expected)) in read(&program, "", &expressions).readings.into_iter().zip(&wrong) {
        let found = tree.map_or(vec![fault], |tree| faults(&tree, &exported));
        assert!(found.iter().any(|fault| fault.contains(expected)), "{expression}: {found:?}");
    }
    let by = [format!("sum by (class) (rate({requests}[5m])) / 2"), requests.to_owned(), format!("sum(rate({requests}[5m]))")];
    let given = read(&program, "", &by.each_ref().map(String::as_str)).readings.into_iter().map(|reading| {
        let tree = reading.tree.unwrap();
        ["class", "route", "namespace", "color"].map(|label| tree.gives(label, &exported))
    });
    let expected = [[true, false, false, false], [true, true, true, false], [false; 4]];
    assert_eq!(given.collect::<Vec<_>>(), expected);
    let group = |rule: &str| format!("groups: [{{name: a, rules: [{{alert: A, expr: up, {rule}}}]}}]");
    assert_eq!(read(&program, &group("for: 5m"), &[]).faults, Vec::<String>::new());
    for rule in ["for: soon", "labels: {'': d}", "annotations: {summary: '{{ $labels.kind | wrong }}'}", "fore: 5m"] {
        assert_ne!(read(&program, &group(rule), &[]).faults, Vec::<String>::new(), "{rule}");
    }
}
