//! Packages as they are: each program under `npm/` prints in a session what it prints in the machine's Node, which has the same versions from the
//! same registry by npm; and again on another pod, without a registry.
//!
//! The versions are those of `npm/package.json`. The registry is the one that `npm config get registry` names, as for the engine's own build.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use dormouse_broker::Broker;
use dormouse_conformance::node;
use dormouse_kernel::{Pod, Tools};
use dormouse_protocol::broker::{ModulesAnswer, ModulesCall, ToolAnswer, ToolCall};
use dormouse_protocol::kernel::Assignment;
use dormouse_protocol::{ApiError, ErrorCode};
use futures::{StreamExt as _, stream};

use crate::common::{World, eval};
use super::place::{ENGINE, assign, broker, pod};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/modules/npm");
/// Programs that run in sessions at once.
const AT_ONCE: usize = 2;
/// What this machine must have.
const NEEDED: &str = "node and npm on PATH, and a registry that serves `npm config get registry` without credentials: \
    write its URL with `npm config set registry URL`";

/// The way to a broker that notes what it has sent, if there is one.
#[derive(Default)]
struct Noted {
    broker: Option<Broker>,
    /// `NAME@VERSION`
    sent: Mutex<BTreeSet<String>>,
}

#[async_trait]
impl Tools for Noted {
    async fn call(&self, _: &str, _: ToolCall) -> Result<ToolAnswer, ApiError> {
        Err(ApiError::new(ErrorCode::ToolNotFound, "there are no tools"))
    }

    async fn modules(&self, _: &str, call: ModulesCall) -> Result<ModulesAnswer, ApiError> {
        let broker =
            self.broker.as_ref().ok_or_else(|| ApiError::new(ErrorCode::ModuleUnavailable, "nothing is asked for a second time"))?;
        let answer = broker.modules(call).await?;
        self.sent.lock().unwrap().extend(answer.packages.iter().map(|package| package.id.clone()));
        Ok(answer)
    }
}

/// Runs npm in `folder` and returns what it prints.
fn npm(folder: &Path, args: &[&str]) -> String {
    let output = Command::new("npm").args(args).current_dir(folder).output();
    let output = output.unwrap_or_else(|error| panic!("npm does not start ({error}); this test needs {NEEDED}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "npm {} failed; this test needs {NEEDED}\n{said}", args.join(" "));
    String::from_utf8(output.stdout).unwrap()
}

/// A copy of the programs with their packages beside them, as Node looks for them.
fn installed() -> (tempfile::TempDir, Vec<PathBuf>) {
    let folder = tempfile::tempdir().unwrap();
    let mut programs = Vec::new();
    for file in fs::read_dir(FOLDER).unwrap() {
        let (from, to) = file.map(|file| (file.path(), folder.path().join(file.file_name()))).unwrap();
        fs::copy(from, &to).unwrap();
        programs.extend(Some(to).filter(|to| to.extension().is_some_and(|extension| extension == "js")));
    }
    programs.sort();
    npm(
        folder.path(),
        &["install", "--ignore-scripts", "--omit=optional", "--no-package-lock", "--no-audit", "--no-fund", "--loglevel=error"],
    );
    (folder, programs)
}

/// `npm:NAME@VERSION` of every package of `package.json`.
fn pinned() -> Vec<String> {
    let manifest: serde_json::Value = serde_json::from_str(&fs::read_to_string(format!("{FOLDER}/package.json")).unwrap()).unwrap();
    let versions: BTreeMap<String, String> = serde_json::from_value(manifest["dependencies"].clone()).unwrap();
    versions.iter().map(|(name, version)| format!("npm:{name}@{version}")).collect()
}

/// What a cell writes to Node's standard output, and how it fails if it does.
async fn printed(pod: &Pod, session: &Assignment, source: &str) -> String {
    let result = eval(pod, session, source).await;
    let lines = result.console.iter().filter(|line| matches!(line.level.as_str(), "log" | "info" | "debug"));
    let mut text: String = lines.map(|line| format!("{}\n", line.text)).collect();
    if let Some(error) = result.error {
        text.push_str(&format!("{}: {}\n{}\n", error.name, error.message, error.stack));
    }
    text
}

#[tokio::test(flavor = "multi_thread")]
async fn packages_of_the_registry_do_in_a_session_what_they_do_in_node() {
    let (folder, programs) = tokio::task::spawn_blocking(installed).await.unwrap();
    let listed = programs.clone();
    let theirs = tokio::task::spawn_blocking(move || node::run(&listed).unwrap());
    let url = npm(folder.path(), &["config", "get", "registry"]);
    let registry = Arc::new(Noted { broker: Some(broker(url.trim())), ..Noted::default() });
    let world = World::default();
    let a = pod("a", ENGINE.clone(), &world, Arc::<Noted>::clone(&registry));
    let b = pod("b", ENGINE.clone(), &world, Arc::new(Noted::default()));
    let pinned = pinned();
    let allow: Vec<&str> = pinned.iter().map(String::as_str).collect();
    let ours: Vec<(&PathBuf, String, String)> = stream::iter(&programs)
        .map(|program| {
            let (a, b, allow) = (&a, &b, &allow);
            async move {
                let (uid, source) = (program.file_stem().unwrap().to_str().unwrap(), fs::read_to_string(program).unwrap());
                let on_a = assign(a, uid, 1, allow);
                let first = printed(a, &on_a, &source).await;
                a.forget(on_a).await.unwrap();
                let again = printed(b, &assign(b, uid, 2, allow), &source).await;
                (program, first, again)
            }
        })
        .buffered(AT_ONCE)
        .collect()
        .await;
    let theirs = theirs.await.unwrap();
    let mut different = Vec::new();
    for (program, first, again) in ours {
        let node = &theirs[program];
        assert_eq!(node.error, None, "{}", program.display());
        for (which, ours) in [("first", first), ("on another pod", again)] {
            if ours != node.stdout {
                let name = node::name_of(folder.path(), program);
                different.push(format!("== {name}, {which}\n-- node\n{}-- session\n{ours}", node.stdout));
            }
        }
    }
    assert!(different.is_empty(), "{} outputs differ:\n{}", different.len(), different.join("\n"));
    let tree = npm(folder.path(), &["ls", "--all", "--parseable", "--long"]);
    let installed: BTreeSet<&str> = tree.lines().filter_map(|line| line.split(':').nth(1)).collect();
    let sent = registry.sent.lock().unwrap();
    assert!(sent.len() >= pinned.len(), "{sent:?}");
    let strange: Vec<&String> = sent.iter().filter(|id| !installed.contains(id.as_str())).collect();
    assert!(strange.is_empty(), "npm installs no {strange:?}");
}
