//! What Prometheus makes of the chart's alerts when what they are about happens: each fires then, alone, no sooner and not much later.

use std::{collections::BTreeMap, path::Path, process::Command};

use serde::Deserialize;
use serde_json::{Value, json};

use crate::{ALL, fed, one, rendered, tool};

/// The minute in which something goes wrong.
const BEGIN: usize = 40;
const HOUR: usize = 60;

/// What is scraped of a metric: a value a minute.
struct Series {
    labels: BTreeMap<&'static str, String>,
    values: Vec<f64>,
}

#[derive(Debug, Deserialize)]
struct Fired {
    alert: String,
    minute: usize,
    labels: BTreeMap<String, String>,
}

/// What goes wrong for an alert.
struct Trouble {
    alert: &'static str,
    /// Minutes that are looked at.
    minutes: usize,
    /// What of it is scraped where it is too little for anybody to be called, and where it is enough.
    scraped: [Vec<Series>; 2],
    /// The minute in which it fires, after it began: what it waits for, and what of it has to be in what it looks back over.
    fires: usize,
    /// A label that says where.
    place: Option<(&'static str, &'static str)>,
}

fn series(metric: &str, labels: &[(&'static str, &str)], values: impl Iterator<Item = f64>) -> Series {
    let named = [("__name__", metric)].into_iter().chain(labels.iter().copied());
    Series { labels: named.map(|(label, value)| (label, value.to_owned())).collect(), values: values.collect() }
}

/// A counter that grows by this much a minute once it has begun to go wrong.
fn grows(metric: &str, labels: &[(&'static str, &str)], a_minute: f64, minutes: usize) -> Series {
    let grown = |minute: usize| a_minute * f64::from(u32::try_from(minute.saturating_sub(BEGIN)).unwrap());
    series(metric, labels, (0..minutes).map(grown))
}

/// A value that is another once it has gone wrong.
fn turns(metric: &str, labels: &[(&'static str, &str)], before: f64, after: f64, minutes: usize) -> Series {
    series(metric, labels, (0..minutes).map(|minute| if minute < BEGIN { before } else { after }))
}

/// Commits of which so many of a hundred a minute take less than a second, and the others less than five.
fn commits(quick: f64, minutes: usize) -> Vec<Series> {
    let bucket = |le: &str, before: f64, after: f64| {
        let counted = |minute: usize| {
            let of = |minutes: usize| f64::from(u32::try_from(minutes).unwrap());
            before * of(minute.min(BEGIN)) + after * of(minute.saturating_sub(BEGIN))
        };
        series("dormouse_kernel_commit_seconds_bucket", &[("namespace", "team"), ("le", le)], (0..minutes).map(counted))
    };
    vec![bucket("1", 100.0, quick), bucket("5", 100.0, 100.0), bucket("+Inf", 100.0, 100.0)]
}

fn troubles() -> Vec<Trouble> {
    let team = ("namespace", "team");
    let counted = |alert, metric: &str, labels: &[(&'static str, &str)], [little, enough]: [f64; 2], fires, place| {
        let minutes = 2 * HOUR;
        let scraped = [little, enough].map(|a_minute| vec![grows(metric, labels, a_minute, minutes)]);
        Trouble { alert, minutes, scraped, fires, place: Some(place) }
    };
    let once = |alert, metric: &str, [little, enough]: [f64; 2], place| {
        let minutes = 2 * HOUR;
        let scraped = [little, enough].map(|after| vec![turns(metric, &[team, ("pod", "p")], 0.0, after, minutes)]);
        Trouble { alert, minutes, scraped, fires: 0, place }
    };
    let leads = |pods: [f64; 2]| {
        let pods = ["a", "b"].into_iter().zip(pods);
        pods.map(|(pod, leads)| turns("dormouse_operator_leader", &[("pod", pod)], 1.0, leads, HOUR + BEGIN)).collect()
    };
    let left = |minutes| {
        let values = (0..30 * HOUR).map(move |minute| if (BEGIN..BEGIN + minutes).contains(&minute) { 3.0 } else { 0.0 });
        vec![series("dormouse_operator_orphans_left", &[("pod", "a")], values)]
    };
    vec![
        Trouble {
            alert: "DormouseNoLeader",
            minutes: HOUR + BEGIN,
            scraped: [leads([1.0, 1.0]), leads([1.0, 0.0])],
            fires: 5,
            place: None,
        },
        counted(
            "DormouseReconcileErrors",
            "dormouse_operator_reconcile_errors_total",
            &[("kind", "KernelPool"), ("pod", "a")],
            [5.0, 12.0],
            21,
            ("kind", "KernelPool"),
        ),
        Trouble {
            place: None,
            ..counted(
                "DormouseGatewayErrors",
                "dormouse_gateway_requests_total",
                &[("class", "5xx"), ("route", "eval")],
                [1.0, 5.0],
                13,
                team,
            )
        },
        counted(
            "DormouseStorageUnavailable",
            "dormouse_kernel_commits_total",
            &[team, ("outcome", "unavailable"), ("pod", "p")],
            [0.0, 1.0],
            6,
            team,
        ),
        Trouble {
            alert: "DormouseCommitsSlow",
            minutes: 2 * HOUR,
            scraped: [100.0, 95.0].map(|quick| commits(quick, 2 * HOUR)),
            fires: 18,
            place: Some(team),
        },
        once("DormouseKernelPodsLost", "dormouse_operator_placements_cleared_total", [40.0, 100.0], None),
        once("DormouseOutcomesUnstored", "dormouse_broker_unstored_outcomes_total", [0.0, 1.0], Some(team)),
        once("DormouseAuditLost", "dormouse_broker_unaudited_total", [0.0, 1.0], Some(team)),
        Trouble {
            alert: "DormouseOrphansLeft",
            minutes: 30 * HOUR,
            scraped: [left(23 * HOUR), left(25 * HOUR)],
            fires: 24 * HOUR,
            place: None,
        },
        counted(
            "DormouseQuotaRefusals",
            "dormouse_gateway_quota_refusals_total",
            &[("limit", "evalsPerSecond"), ("pod", "g")],
            [5.0, 12.0],
            38,
            ("limit", "evalsPerSecond"),
        ),
    ]
}

/// What is scraped of an installation where all is well, but for the metrics of `trouble`.
fn scraped(trouble: &[Series], minutes: usize) -> Value {
    let goes = |metric: &str, labels: &[(&'static str, &str)], a_minute: u32| {
        series(metric, labels, (0..minutes).map(|minute| f64::from(a_minute * u32::try_from(minute).unwrap())))
    };
    let mut all = vec![
        turns("dormouse_operator_leader", &[("pod", "a")], 1.0, 1.0, minutes),
        turns("dormouse_operator_leader", &[("pod", "b")], 1.0, 1.0, minutes),
        goes("dormouse_gateway_requests_total", &[("class", "2xx"), ("route", "eval")], 100),
        goes("dormouse_kernel_commits_total", &[("namespace", "team"), ("outcome", "stored"), ("pod", "p")], 100),
    ];
    all.retain(|well| trouble.iter().all(|ill| ill.labels != well.labels));
    let written = |series: &Series| json!({ "labels": series.labels, "values": series.values });
    all.iter().chain(trouble).map(written).collect()
}

fn fired(program: &Path, rules: &str, trouble: &[Series], minutes: usize) -> Vec<Fired> {
    let asked = json!({ "rules": rules, "scraped": scraped(trouble, minutes), "minutes": minutes });
    let output = fed(&mut Command::new(program), &asked.to_string());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["faults"], json!([]));
    serde_json::from_value(answer["fired"].clone()).unwrap()
}

#[test]
fn every_alert_fires_for_what_it_is_about_and_for_nothing_else() {
    let Some(program) = tool("promql", "every_alert_fires_for_what_it_is_about_and_for_nothing_else") else { return };
    let all = rendered(&format!("{ALL}\noperator: {{shards: 2, replicas: 2}}"));
    let rule: Value = yaml_serde::from_str(one(&all, "PrometheusRule", "dormouse")).unwrap();
    let rules = yaml_serde::to_string(&rule["spec"]).unwrap();
    let mut alerts: Vec<&str> = rule["spec"]["groups"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|group| group["rules"].as_array().unwrap())
        .map(|alert| alert["alert"].as_str().unwrap())
        .collect();
    for Trouble { alert, minutes, scraped: [little, enough], fires, place } in &troubles() {
        let calm = fired(&program, &rules, little, *minutes);
        assert!(calm.is_empty(), "{alert}: too little for {calm:?}");
        let called = fired(&program, &rules, enough, *minutes);
        let [one] = &called[..] else { panic!("{alert}: {called:?}") };
        assert_eq!((one.alert.as_str(), one.minute), (*alert, BEGIN + fires));
        assert!(one.labels.contains_key("severity"), "{one:?}");
        if let Some((label, value)) = place {
            assert_eq!(one.labels.get(*label).map(String::as_str), Some(*value), "{one:?}");
        }
        alerts.retain(|left| left != alert);
    }
    assert_eq!(alerts, [""; 0], "nobody has seen these fire");
}
