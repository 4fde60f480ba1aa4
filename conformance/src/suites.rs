//! Suites that others wrote (Node's `test/parallel`, web-platform-tests), scored against what the machine's Node passes by the same shim.
//!
//! Nothing of theirs is in this repository: a copy is named by a path.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context as _;
use dormouse_service::wildcard::covers;
use serde::Deserialize;
use tokio::task::JoinSet;

use crate::{node, session};

mod nodes;
mod web;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/suites");
const EXPECTED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/expected.toml");
/// How a program tells of one subtest.
const RESULT: &str = "RESULT ";
/// Cells that run beside each other.
const AT_ONCE: usize = 2;
/// How long a program's cell may run; its like in Node has as much.
const PROGRAM_TIME_MAX: Duration = Duration::from_secs(60);
/// One of the suites.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Suite {
    /// `test/parallel` of Node's repository.
    Node,
    /// The root of web-platform-tests.
    Wpt,
}

/// Subtests that Node passes, and those of them that a cell passes.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Score {
    /// What Node passes.
    pub node: usize,
    /// What both pass.
    pub both: usize,
}

/// What a run came to.
#[derive(Debug, Default)]
pub struct Scored {
    /// By area.
    pub areas: BTreeMap<String, Score>,
    /// What is wrong, a text for each.
    pub failures: Vec<String>,
    /// Files of which Node passes nothing, so that they say nothing.
    pub silent: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Expected {
    #[serde(default)]
    expected: Vec<Entry>,
}

/// Failures that share a reason.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    #[serde(default)]
    names: Vec<String>,
    /// Patterns, `*` in which stands for any text, and of how many names that fail each is the first to say so.
    #[serde(default)]
    counted: BTreeMap<String, usize>,
    reason: String,
}

#[derive(Debug, Deserialize)]
struct Told {
    name: String,
    ok: bool,
    why: String,
}

/// A test of a suite as a program.
struct Program {
    name: String,
    area: String,
    source: String,
}

/// Runs the suite in `copy` on both sides; `only` is a part of a name.
///
/// # Errors
/// When the copy, Node or the engine cannot be used at all.
pub async fn score(suite: Suite, copy: &Path, only: &str) -> anyhow::Result<Scored> {
    let list: Expected = toml::from_str(&fs::read_to_string(EXPECTED)?).context(EXPECTED)?;
    score_against(suite, copy, only, &list).await
}

async fn score_against(suite: Suite, copy: &Path, only: &str, list: &Expected) -> anyhow::Result<Scored> {
    let folder = std::env::temp_dir().join(format!("dormouse-suite-{}-{suite:?}", std::process::id()));
    let mut programs = match suite {
        Suite::Node => nodes::programs(copy, &folder.join("files"))?,
        Suite::Wpt => web::programs(copy)?,
    };
    programs.retain(|program| program.name.contains(only));
    fs::create_dir_all(&folder)?;
    let theirs = in_node(&folder, &programs);
    fs::remove_dir_all(&folder)?;
    let theirs = theirs?;
    let mut scored = Scored::default();
    let mut met = BTreeMap::<&str, usize>::new();
    let named: BTreeSet<&str> = list.expected.iter().flat_map(|entry| &entry.names).map(String::as_str).collect();
    let counted: Vec<(&str, usize)> =
        list.expected.iter().flat_map(|entry| &entry.counted).map(|(pattern, count)| (pattern.as_str(), *count)).collect();
    let speaks = |theirs: &Results| theirs.values().any(|(ok, _)| *ok);
    let asked = programs.iter().zip(&theirs).filter(|(_, theirs)| speaks(theirs)).map(|(program, _)| program);
    let mut cells = in_cells(asked.map(|program| (program.name.clone(), program.source.clone()))).await?;
    for (program, theirs) in programs.iter().zip(theirs) {
        let Some(ours) = cells.remove(&program.name) else {
            scored.silent.push(program.name.clone());
            continue;
        };
        for name in theirs.iter().filter(|(_, (ok, _))| *ok).map(|(name, _)| name) {
            let whole = if name.is_empty() { program.name.clone() } else { format!("{}#{name}", program.name) };
            let (ok, why) = ours.get(name).or_else(|| ours.get("")).cloned().unwrap_or((false, "it was never told".to_owned()));
            let ok = ok && ours.contains_key(name);
            let area = scored.areas.entry(program.area.clone()).or_default();
            area.node += 1;
            area.both += usize::from(ok);
            let pattern = counted.iter().find(|(pattern, _)| covers(pattern, &whole)).map(|(pattern, _)| *pattern);
            match (ok, named.contains(whole.as_str()), pattern) {
                (true, true, _) => scored.failures.push(format!("{whole} passes now: take it out of expected.toml")),
                (false, false, Some(pattern)) => *met.entry(pattern).or_default() += 1,
                (false, false, None) => scored.failures.push(format!("{whole}: {why}")),
                _ => {}
            }
        }
    }
    if only.is_empty() {
        let ours = |name: &str| {
            let begin = name.split('*').next().unwrap_or_default();
            programs.iter().any(|program| begin.starts_with(&program.name) || program.name.starts_with(begin))
        };
        for (pattern, count) in counted.iter().filter(|(pattern, _)| ours(pattern)) {
            let fail = met.get(pattern).copied().unwrap_or_default();
            if fail != *count {
                scored.failures.push(format!("{pattern}: {fail} fail, and expected.toml says {count}"));
            }
        }
    }
    scored
        .failures
        .extend(list.expected.iter().filter(|entry| entry.reason.len() < 20).map(|entry| format!("{:?} is no reason", entry.reason)));
    Ok(scored)
}

/// All files below `folder`, in order.
fn files(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.is_dir() { found.extend(files(&path)?) } else { found.push(path) }
    }
    found.sort();
    Ok(found)
}

/// Whether each subtest passed, and why not; the name of the whole is empty.
type Results = BTreeMap<String, (bool, String)>;

fn results(stdout: &str, error: Option<String>) -> Results {
    let told = stdout.lines().filter_map(|line| line.strip_prefix(RESULT)).filter_map(|line| serde_json::from_str::<Told>(line).ok());
    let mut results = Results::new();
    for Told { name, ok, why } in told {
        // Of two with one name both must pass.
        results.entry(name).and_modify(|known| *known = if known.0 { (ok, why.clone()) } else { known.clone() }).or_insert((ok, why));
    }
    if let Some(error) = error {
        results.insert(String::new(), (false, error));
    }
    results
}

fn in_node(folder: &Path, programs: &[Program]) -> anyhow::Result<Vec<Results>> {
    let mut paths = Vec::new();
    for (number, program) in programs.iter().enumerate() {
        let path = folder.join(format!("{number}.mjs"));
        fs::write(&path, format!("{}\nprocess.on('exit', () => globalThis.__report());\n", program.source))?;
        paths.push(path);
    }
    let mut ran = node::run(&paths)?;
    paths.iter().map(|path| ran.remove(path).map(|ran| results(&ran.stdout, ran.error)).context("a program was lost")).collect()
}

/// What cells say of the sources, by their names; some at once.
async fn in_cells(sources: impl Iterator<Item = (String, String)>) -> anyhow::Result<BTreeMap<String, Results>> {
    session::engine()?;
    let mut waiting = sources;
    let (mut results, mut running) = (BTreeMap::new(), JoinSet::new());
    loop {
        while running.len() < AT_ONCE
            && let Some((name, source)) = waiting.next()
        {
            running.spawn(async move { (name, in_cell(&source).await) });
        }
        let Some(done) = running.join_next().await else { return Ok(results) };
        let (name, told) = done?;
        results.insert(name, told);
    }
}

async fn in_cell(source: &str) -> Results {
    match both_cells(source).await {
        Ok((stdout, error)) => results(&stdout, error),
        Err(error) => results("", Some(format!("{error:#}"))),
    }
}

async fn both_cells(source: &str) -> anyhow::Result<(String, Option<String>)> {
    let mut session = session::Session::new(session::settings())?;
    session.budget.wall = PROGRAM_TIME_MAX;
    let ran = session.run(source).await?;
    let error = ran.end.and_then(|end| end.error).map(|error| format!("{}: {}", error.name, error.message));
    let late = ran.stderr.lines().find(|line| line.starts_with("Uncaught")).map(str::to_owned);
    let report = session.run("globalThis.__report()").await?;
    Ok((ran.stdout + &report.stdout, error.or(late)))
}

#[cfg(test)]
mod tests {
    use super::{Entry, Expected, Score, Suite, results, score_against};

    /// A suite of three tests in a folder of its own.
    fn suite() -> std::path::PathBuf {
        let folder = std::env::temp_dir().join(format!("dormouse-suite-sample-{}-{:?}", std::process::id(), std::thread::current().id()));
        std::fs::create_dir_all(&folder).unwrap();
        let good = "const common = require('../common'); setTimeout(common.mustCall(() => {}), 1);";
        std::fs::write(folder.join("test-timers-good.js"), good).unwrap();
        std::fs::write(folder.join("test-process-differs.js"), "require('../common'); if (process.pid === 1) throw new Error('here');")
            .unwrap();
        std::fs::write(folder.join("test-util-fails-in-both.js"), "const common = require('../common'); common.mustCall();").unwrap();
        folder
    }

    #[test]
    fn of_two_subtests_with_one_name_both_must_pass() {
        let line = |ok: bool| format!("RESULT {{\"name\":\"a\",\"ok\":{ok},\"why\":\"{ok}\"}}\n");
        for (first, second) in [(true, false), (false, true)] {
            assert_eq!(results(&(line(first) + &line(second)), None)["a"], (false, "false".to_owned()));
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn what_node_passes_and_a_cell_does_not_must_be_listed() {
        let folder = suite();
        let scored = score_against(Suite::Node, &folder, "", &Expected::default()).await.unwrap();
        assert_eq!(scored.areas["timers"], Score { node: 1, both: 1 });
        assert_eq!(scored.areas["process"], Score { node: 1, both: 0 });
        assert!(!scored.areas.contains_key("util"), "what Node fails does not count");
        assert_eq!(scored.failures, ["test-process-differs: Error: here"]);
        let listed = |names: &[&str], counted: &[(&str, usize)]| Expected {
            expected: vec![Entry {
                names: names.iter().map(|name| (*name).to_owned()).collect(),
                counted: counted.iter().map(|(pattern, count)| ((*pattern).to_owned(), *count)).collect(),
                reason: "a session's process is another".to_owned(),
            }],
        };
        let scored = score_against(Suite::Node, &folder, "", &listed(&["test-process-differs"], &[])).await.unwrap();
        assert!(scored.failures.is_empty(), "{:?}", scored.failures);
        let scored = score_against(Suite::Node, &folder, "", &listed(&["test-timers-good"], &[("test-process-*", 1)])).await.unwrap();
        assert_eq!(scored.failures, ["test-timers-good passes now: take it out of expected.toml"]);
        let scored = score_against(Suite::Node, &folder, "", &listed(&[], &[("test-process-*", 2)])).await.unwrap();
        assert_eq!(scored.failures, ["test-process-*: 1 fail, and expected.toml says 2"]);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
