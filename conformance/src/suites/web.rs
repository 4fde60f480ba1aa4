//! web-platform-tests as programs: what stands in a page around a test's script, for a shell.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use super::{FOLDER, Program, files};
use crate::node;

/// Folders that are about what a session has.
const AREAS: &[&str] = &[
    "FileAPI",
    "WebCryptoAPI",
    "compression",
    "console",
    "dom/abort",
    "dom/events",
    "encoding",
    "fetch/api",
    "hr-time",
    "html/webappapis/atob",
    "html/webappapis/microtask-queuing",
    "html/webappapis/structured-clone",
    "html/webappapis/timers",
    "performance-timeline",
    "streams",
    "url",
    "user-timing",
    "webidl",
];
/// Kinds of tests that need no page: the first runs anywhere, the second asks for a window and may do without.
const KINDS: &[&str] = &[".any.js", ".window.js"];
/// What the suite's server gives under another name.
const ALIASES: &[(&str, &str)] = &[("/resources/WebIDLParser.js", "/resources/webidl2/lib/webidl2.js")];

/// A test's own lines about itself.
#[derive(Debug, Default, PartialEq, Eq)]
struct Meta {
    scripts: Vec<String>,
    /// What stands behind the address, a run each; one empty text when the test names none.
    variants: Vec<String>,
}

impl Meta {
    fn of(text: &str) -> Self {
        let values = |key: &'static str| {
            let told = text.lines().filter_map(|line| line.strip_prefix("// META:")).filter_map(move |line| line.trim().strip_prefix(key));
            told.map(|value| value.trim().to_owned()).collect::<Vec<_>>()
        };
        let mut variants = values("variant=");
        if variants.is_empty() {
            variants.push(String::new());
        }
        Self { scripts: values("script="), variants }
    }
}

/// The tests below the root of the suite, by area and name.
pub(super) fn programs(copy: &Path) -> anyhow::Result<Vec<Program>> {
    let read = |name: &str| fs::read_to_string(Path::new(FOLDER).join(name));
    let (begin, end) = (read("wpt.js")?, read("wpt-end.js")?);
    let harness = fs::read_to_string(copy.join("resources/testharness.js"))?;
    let mut found = Vec::new();
    for area in AREAS {
        for path in files(&copy.join(area)).unwrap_or_default() {
            if !KINDS.iter().any(|kind| path.to_string_lossy().ends_with(kind)) {
                continue;
            }
            let text = fs::read_to_string(&path)?;
            let meta = Meta::of(&text);
            let scripts: Vec<String> =
                meta.scripts.iter().map(|script| fs::read_to_string(at(copy, &path, script)).unwrap_or_default()).collect();
            let served = serde_json::to_string(&served(copy, &path, scripts.iter().chain([&text])))?;
            let name = node::name_of(copy, &path);
            for variant in &meta.variants {
                let page = serde_json::to_string(&format!("/{name}.html{variant}"))?;
                let mut source = format!("globalThis.__page = {page};\nglobalThis.__served = {served};\n");
                // One script after the other, in the global scope.
                for part in [&begin, &harness, &end].into_iter().chain(&scripts).chain([&text]) {
                    source += &format!("(0, eval)({});\n", serde_json::to_string(part)?);
                }
                found.push(Program { name: format!("{name}{variant}"), area: (*area).to_owned(), source });
            }
        }
    }
    Ok(found)
}

/// Where the suite keeps what a test at `path` calls `address`.
fn at(copy: &Path, path: &Path, address: &str) -> PathBuf {
    let address = ALIASES.iter().find(|(alias, _)| *alias == address).map_or(address, |(_, kept)| kept);
    address.strip_prefix('/').map_or_else(|| path.with_file_name(address), |rooted| copy.join(rooted))
}

/// The files that the texts name and may ask for, by the names that they have on the suite's server.
fn served<'a>(copy: &Path, path: &Path, texts: impl Iterator<Item = &'a String>) -> BTreeMap<String, String> {
    let mut served = BTreeMap::new();
    for word in texts.flat_map(|text| text.split(['"', '\'', '`'])).filter(|word| word.len() < 200 && !word.contains('\n')) {
        for address in [word.to_owned(), format!("/interfaces/{word}.idl")] {
            let file = at(copy, path, &address);
            let Ok(file) = file.canonicalize() else { continue };
            let Some(name) = copy.canonicalize().ok().and_then(|copy| file.strip_prefix(copy).ok().map(Path::to_owned)) else { continue };
            if let Ok(text) = fs::read_to_string(&file) {
                served.insert(format!("/{}", name.display()), text);
            }
        }
    }
    served
}

#[cfg(test)]
mod tests {
    use super::{Meta, programs};

    #[test]
    fn a_test_says_what_it_needs_and_how_often_it_runs() {
        let meta = Meta::of("// META: script=/common/a.js\n// META: variant=?1-10\n//META: no\n// META: variant=?11-last\nx");
        assert_eq!(meta.scripts, ["/common/a.js"]);
        assert_eq!(meta.variants, ["?1-10", "?11-last"]);
        assert_eq!(Meta::of("").variants, [""]);
    }

    #[test]
    fn a_variant_is_a_program_and_what_it_names_is_served() {
        let folder = std::env::temp_dir().join(format!("dormouse-web-sample-{}", std::process::id()));
        for (name, text) in [
            ("resources/testharness.js", "HARNESS"),
            ("url/resources/data.json", "{\"DATA\":1}"),
            ("interfaces/url.idl", "IDL"),
            ("url/a.any.js", "// META: variant=?1\n// META: variant=?2\nfetch('resources/data.json'); idl_test(['url'])"),
            ("url/b.window.js", "fetch('../../outside')"),
            ("url/c.html", ""),
        ] {
            let path = folder.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let found = programs(&folder).unwrap();
        let names: Vec<&str> = found.iter().map(|program| program.name.as_str()).collect();
        assert_eq!(names, ["url/a.any?1", "url/a.any?2", "url/b.window"]);
        assert!(found[1].source.contains(r#"globalThis.__page = "/url/a.any.html?2""#), "{}", found[1].source);
        assert!(
            found[1].source.contains(r#""/interfaces/url.idl":"IDL","/url/resources/data.json":"{\"DATA\":1}""#),
            "{}",
            found[1].source
        );
        assert!(found[2].source.contains("globalThis.__served = {};"), "{}", found[2].source);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
