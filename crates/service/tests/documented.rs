//! Every metric that a process registers is explained in `docs/`, and no other is.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use regex::Regex;

/// The repository.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
/// Where processes register metrics.
const SOURCES: [&str; 5] = ["gateway/src", "kernel-pod/src", "broker/src", "operator/src", "crates"];
/// Fewer than are there: where none are found, the sources have moved.
const METRICS_MIN: usize = 40;

/// The text of all files below a folder whose names end so.
fn text(folder: &Path, ending: &str) -> String {
    let mut folders: Vec<PathBuf> = vec![folder.to_owned()];
    let mut text = String::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.to_str().unwrap().ends_with(ending) {
                text += &std::fs::read_to_string(path).unwrap();
            }
        }
    }
    text
}

fn names(pattern: &str, text: &str) -> BTreeSet<String> {
    Regex::new(pattern).unwrap().captures_iter(text).map(|found| found[1].to_owned()).collect()
}

#[test]
fn every_metric_is_explained_and_every_explained_one_is_there() {
    let sources: String = SOURCES.iter().map(|folder| text(&Path::new(ROOT).join(folder), ".rs")).collect();
    let of = "(?:gateway|kernel|broker|operator)_[a-z_]+";
    let made = r#"(?:counter|counters|gauge|gauges|latency|latencies|opts)\(\s*""#;
    let registered = names(&format!(r#"{made}({of})""#), &sources);
    assert!(registered.len() >= METRICS_MIN, "{registered:?}");
    let explained = names(&format!(r"`(?:dormouse_)?({of})(?:\{{[a-z, ]*\}})?`"), &text(&Path::new(ROOT).join("docs"), ".md"));
    let missing: Vec<_> = registered.difference(&explained).collect();
    assert!(missing.is_empty(), "say in docs/operating.md what these tell: {missing:?}");
    let gone: Vec<_> = explained.difference(&registered).collect();
    assert!(gone.is_empty(), "no process has these: {gone:?}");
}
