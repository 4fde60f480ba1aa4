//! Node's own tests as programs: the text of one, with the helpers and fixtures of the copy that it names.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::Serialize;

use super::{FOLDER, Program, files};
use crate::node;

/// Areas of Node's own tests that are about what a session has.
const AREAS: &[&str] = &[
    "abortcontroller",
    "assert",
    "async-local-storage",
    "blob",
    "btoa",
    "buffer",
    "console",
    "crypto",
    "diagnostics-channel",
    "domexception",
    "event",
    "eventtarget",
    "events",
    "file",
    "filehandle",
    "fs",
    "global",
    "mime",
    "next-tick",
    "os",
    "path",
    "perf",
    "performance",
    "performanceobserver",
    "process",
    "querystring",
    "readline",
    "stream",
    "stream2",
    "stream3",
    "string-decoder",
    "structuredClone",
    "timers",
    "url",
    "util",
    "webcrypto",
    "webstreams",
    "whatwg",
    "zlib",
];
/// Of files of the copy that a test may name: what is larger than this is not given to it.
const FIXTURE_BYTES_MAX: u64 = 300_000;
/// Of a folder that a test names: how many files it gets at most.
const FIXTURES_MAX: usize = 64;

/// What the shim is told of a test.
#[derive(Debug, Serialize)]
struct Test<'a> {
    /// The folder that is the test's own, with `test/parallel`, `test/fixtures` and `test/.tmp.0` in it.
    root: PathBuf,
    name: &'a str,
    text: &'a str,
    /// Contents as base64, by their paths below `test/fixtures`.
    fixtures: BTreeMap<String, String>,
    /// Files of `test/common`, by their names.
    helpers: BTreeMap<String, String>,
}

/// The tests of `copy`, a `test/parallel`, each of which finds its files below `roots`.
pub(super) fn programs(copy: &Path, roots: &Path) -> anyhow::Result<Vec<Program>> {
    let shim = fs::read_to_string(Path::new(FOLDER).join("node.js"))?;
    let around = copy.parent().context("the copy has no folder around it")?;
    let mut found = Vec::new();
    for path in files(copy)? {
        let name = node::name_of(copy, &path);
        let Some(area) = AREAS.iter().filter(|area| is_of(&name, area)).max_by_key(|area| area.len()) else { continue };
        let text = fs::read_to_string(&path)?;
        // What asks for flags of Node's or for its insides is about Node.
        if path.extension().is_none_or(|extension| extension != "js") || text.contains("// Flags:") || text.contains("internal/") {
            continue;
        }
        let helpers = helpers(&around.join("common"), &text);
        let naming = Some(text.as_str()).filter(|text| text.contains("fixtures") || !helpers.is_empty());
        let fixtures = fixtures(&around.join("fixtures"), naming.into_iter())?;
        let root = roots.join(&name);
        let places = serde_json::to_string(&[root.join(format!("test/parallel/{name}.js")), root.join("test/parallel")])?;
        let test = serde_json::to_string(&Test { root, name: &name, text: &text, fixtures, helpers })?;
        let source = format!(
            "globalThis.__test = {test};\n{shim}\n(0, eval)('(function (exports, module, __filename, __dirname) {{' + globalThis.__test.text + '\\n}})').call({{}}, {{}}, {{ exports: {{}} }}, ...{places});\n"
        );
        found.push(Program { name, area: (*area).to_owned(), source });
    }
    Ok(found)
}

fn is_of(name: &str, area: &str) -> bool {
    let rest = name.strip_prefix("test-").and_then(|rest| rest.strip_prefix(area));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

/// The files of `common` that the text asks for, and those that they ask for. The shim stands for `index` and `tmpdir`.
fn helpers(common: &Path, text: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![text.to_owned()];
    while let Some(text) = waiting.pop() {
        for literal in literals(&text).into_iter().flatten() {
            let Some((_, name)) = literal.strip_prefix('.').and_then(|rest| rest.rsplit_once('/')) else { continue };
            let name = name.trim_end_matches(".js");
            if matches!(name, "" | "index" | "common" | "tmpdir") || found.contains_key(name) {
                continue;
            }
            let Ok(text) = fs::read_to_string(common.join(format!("{name}.js"))) else { continue };
            waiting.push(text.clone());
            found.insert(name.to_owned(), text);
        }
    }
    found
}

/// The files below `folder` that the texts name.
fn fixtures<'a>(folder: &Path, texts: impl Iterator<Item = &'a str>) -> anyhow::Result<BTreeMap<String, String>> {
    let mut found = BTreeMap::new();
    for row in texts.flat_map(literals) {
        let joined = row.join("/");
        for name in row.iter().chain([&joined]).flat_map(|name| [name.clone(), format!("keys/{name}")]) {
            let name = name.trim_matches('/');
            if matches!(name, "" | "." | "keys") || name.contains("..") {
                continue;
            }
            let path = folder.join(name);
            let below = if path.is_dir() { beside(&path)? } else { vec![path] };
            for file in below.into_iter().take(FIXTURES_MAX) {
                if fs::metadata(&file).is_ok_and(|stat| stat.is_file() && stat.len() <= FIXTURE_BYTES_MAX) {
                    let name = file.strip_prefix(folder)?.to_string_lossy().into_owned();
                    found.insert(name, STANDARD.encode(fs::read(&file)?));
                }
            }
        }
    }
    Ok(found)
}

/// The files of a folder, not of those in it.
fn beside(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<anyhow::Result<Vec<_>>>()?;
    found.sort();
    Ok(found)
}

/// The texts in quotes, those in a row together that only a comma is between.
fn literals(text: &str) -> Vec<Vec<String>> {
    let mut rows: Vec<Vec<String>> = Vec::new();
    for line in text.lines() {
        let mut row: Vec<String> = Vec::new();
        let mut rest = line;
        while let Some(start) = rest.find(['\'', '"']) {
            let (before, quoted) = rest.split_at(start);
            if before.trim() != "," {
                rows.extend((!row.is_empty()).then(|| std::mem::take(&mut row)));
            }
            let quote = if quoted.starts_with('"') { '"' } else { '\'' };
            let Some((literal, after)) = quoted[1..].split_once(quote) else { break };
            row.push(literal.to_owned());
            rest = after;
        }
        rows.extend((!row.is_empty()).then_some(row));
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::{fixtures, helpers, literals};

    #[test]
    fn texts_in_quotes_are_found_in_rows() {
        let rows = literals("const a = fixtures.path('keys', \"b.pem\") + 'c';\nrequire('../common/tmpdir')");
        assert_eq!(rows, [vec!["keys", "b.pem"], vec!["c"], vec!["../common/tmpdir"]]);
    }

    #[test]
    fn a_test_gets_the_helpers_and_fixtures_that_it_names() {
        let folder = std::env::temp_dir().join(format!("dormouse-suite-copy-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("common")).unwrap();
        std::fs::create_dir_all(folder.join("fixtures/keys")).unwrap();
        std::fs::write(folder.join("common/countdown.js"), "require('./other')").unwrap();
        std::fs::write(folder.join("common/other.js"), "").unwrap();
        std::fs::write(folder.join("common/unasked.js"), "").unwrap();
        std::fs::write(folder.join("fixtures/keys/a.pem"), "hi").unwrap();
        let asked = helpers(&folder.join("common"), "require('../common'); require('../common/countdown'); require('../common/tmpdir')");
        assert_eq!(asked.keys().collect::<Vec<_>>(), ["countdown", "other"]);
        let named =
            fixtures(&folder.join("fixtures"), ["fixtures.readKey('a.pem'); '/etc/passwd'; '../common/other.js'"].into_iter()).unwrap();
        assert_eq!(named.into_iter().collect::<Vec<_>>(), [("keys/a.pem".to_owned(), "aGk=".to_owned())]);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
