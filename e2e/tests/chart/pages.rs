//! Every manifest of the pages is one that an API server takes, field by field; a part of one is taken as a part; and values are values of the chart.

use std::{fs, process::Command};

use dormouse_testkit::{apiserver::ApiServer, tools};

use crate::{fed, rendered, root};

/// Kinds whose spec a page may show alone.
const KINDS: [&str; 4] = ["KernelSession", "ToolBroker", "KernelPool", "KernelQuota"];
/// Namespaces of the pages.
const NAMESPACES: [&str; 1] = ["team-a"];
/// Manifests, parts and values that there are at least.
const BLOCKS_MIN: usize = 35;

/// A block of a page.
struct Block {
    place: String,
    text: String,
}

fn blocks() -> Vec<Block> {
    let mut pages: Vec<_> = fs::read_dir(root().join("docs")).unwrap().map(|entry| entry.unwrap().path()).collect();
    pages.push(root().join("README.md"));
    pages.retain(|page| page.extension().is_some_and(|kind| kind == "md"));
    pages.sort();
    let mut blocks = Vec::new();
    for page in pages {
        let (text, mut open) = (fs::read_to_string(&page).unwrap(), None);
        for (number, line) in text.lines().enumerate() {
            match (&mut open, line.trim()) {
                (None, "```yaml") => open = Some(Block { place: format!("{}:{}", page.display(), number + 2), text: String::new() }),
                (Some(_), "```") => blocks.extend(open.take()),
                (Some(block), _) => block.text += &format!("{line}\n"),
                (None, _) => {}
            }
        }
    }
    blocks
}

/// The text so far from the margin.
fn indented(text: &str, by: usize) -> String {
    let filled = || text.lines().filter(|line| !line.trim().is_empty());
    let margin = filled().map(|line| line.len() - line.trim_start().len()).min().unwrap_or(0);
    filled().map(|line| format!("{}{}\n", " ".repeat(by), &line[margin..])).collect()
}

/// The manifests that a block may be or be a part of. None: it is values.
fn manifests(block: &str, values: &[String]) -> Option<Vec<String>> {
    let flat = indented(block, 0);
    let first = flat.lines().find(|line| !line.starts_with('#')).unwrap();
    let key = first.split([':', ' ']).next().unwrap();
    let of = |kinds: &[&str], spec: &str| {
        let whole = |kind| format!("apiVersion: dormouse.dev/v1alpha1\nkind: {kind}\nmetadata: {{name: page}}\n{spec}");
        kinds.iter().map(whole).collect::<Vec<_>>()
    };
    let broker = |above: &str, by| of(&["ToolBroker"], &format!("spec:\n{above}{}", indented(block, by)));
    Some(match key {
        "apiVersion" => vec![flat],
        "kind" => vec![format!("apiVersion: dormouse.dev/v1alpha1\nmetadata: {{name: page}}\n{flat}")],
        "spec" => of(&KINDS, &flat),
        "allow" => broker("  egress:\n", 4),
        "-" => broker("  services:\n", 4),
        _ if values.iter().any(|value| value == key) => return None,
        _ => broker("", 2),
    })
}

#[tokio::test]
async fn an_api_server_takes_every_manifest_of_the_pages_and_the_chart_all_values() {
    let server = ApiServer::start().await.unwrap();
    server.kubectl(&["apply", "-f", root().join("crds/yaml").to_str().unwrap()]).unwrap();
    server.kubectl(&["wait", "--for=condition=Established", "crd", "--all"]).unwrap();
    for namespace in NAMESPACES {
        server.kubectl(&["create", "namespace", namespace]).unwrap();
    }
    let chart = fs::read_to_string(root().join("charts/dormouse/values.yaml")).unwrap();
    let of_chart = |line: &str| line.split_once(':').map(|(key, _)| key.to_owned()).filter(|key| key.chars().all(char::is_alphanumeric));
    let values: Vec<String> = chart.lines().filter_map(of_chart).collect();
    let takes = |manifest: &String| {
        let mut kubectl = Command::new(tools::path("kubectl").unwrap());
        kubectl.arg("--kubeconfig").arg(server.kubeconfig());
        let said = fed(kubectl.args(["apply", "--dry-run=server", "--validate=strict", "-f", "-"]), manifest);
        if said.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&said.stderr).into_owned()) }
    };
    let blocks = blocks();
    assert!(blocks.len() >= BLOCKS_MIN, "{} blocks", blocks.len());
    let mut refused = Vec::new();
    for Block { place, text } in &blocks {
        let Some(manifests) = manifests(text, &values) else {
            assert!(!rendered(text).is_empty(), "{place}");
            continue;
        };
        let taken: Vec<Result<(), String>> = manifests.iter().map(takes).collect();
        if taken.iter().all(Result::is_err) {
            let why: Vec<String> = taken.into_iter().filter_map(Result::err).collect();
            refused.push(format!("{place}\n{}", why.join("\n")));
        }
    }
    assert!(refused.is_empty(), "{}", refused.join("\n"));
}
