//! The rooms of a crate, which are the modules that its `lib.rs` declares, stand above one another: none imports one that imports it, by whatever way.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

/// The crates of which that is so.
const CRATES: [&str; 8] = ["kernel-pod", "operator", "gateway", "broker", "cli", "crates/control", "crates/service", "crates/store"];

type Imports = BTreeMap<String, BTreeSet<String>>;

/// Every source file of a folder, and below it.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] }).collect()
}

/// The first word of a path.
fn first(path: &str) -> &str {
    let path = path.trim_start();
    path.split(|it: char| !it.is_alphanumeric() && it != '_').next().unwrap_or_default()
}

/// The first words of the paths in `{…}`, without those in the braces within.
fn firsts(group: &str) -> Vec<&str> {
    let (mut depth, mut begin, mut found) = (0, 0, Vec::new());
    for (at, it) in group.char_indices() {
        match it {
            '{' => depth += 1,
            '}' if depth == 0 => {
                found.push(first(&group[begin..at]));
                break;
            }
            '}' => depth -= 1,
            ',' if depth == 0 => {
                found.push(first(&group[begin..at]));
                begin = at + 1;
            }
            _ => {}
        }
    }
    found
}

/// The rooms that a source names by `crate::`, outside of comments.
fn named(source: &str, rooms: &BTreeSet<String>) -> BTreeSet<String> {
    let code: Vec<&str> = source.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let code = code.join("\n");
    let names = code.split("crate::").skip(1).flat_map(|rest| match rest.strip_prefix('{') {
        Some(group) => firsts(group),
        None => vec![first(rest)],
    });
    names.filter(|name| rooms.contains(*name)).map(str::to_owned).collect()
}

/// A way from `from` back to it.
fn circle(imports: &Imports, from: &str) -> Option<Vec<String>> {
    let mut ways = vec![vec![from.to_owned()]];
    let mut seen = BTreeSet::new();
    while let Some(way) = ways.pop() {
        for next in imports.get(way.last().unwrap()).into_iter().flatten() {
            let further = [way.as_slice(), std::slice::from_ref(next)].concat();
            if next == from {
                return Some(further);
            }
            if seen.insert(next.clone()) {
                ways.push(further);
            }
        }
    }
    None
}

/// What each room of a crate imports.
fn imports(folder: &Path) -> Imports {
    let root = std::fs::read_to_string(folder.join("lib.rs")).unwrap();
    let declared = root.lines().filter_map(|line| line.trim_start_matches("pub ").strip_prefix("mod ")?.strip_suffix(';'));
    let rooms: BTreeSet<String> = declared.map(str::to_owned).collect();
    let mut imports = Imports::new();
    for path in sources(folder) {
        let inside = path.strip_prefix(folder).unwrap().iter().next().unwrap().to_str().unwrap().trim_end_matches(".rs").to_owned();
        if rooms.contains(&inside) {
            let mut names = named(&std::fs::read_to_string(&path).unwrap(), &rooms);
            names.remove(&inside);
            imports.entry(inside).or_default().extend(names);
        }
    }
    imports
}

#[test]
fn no_room_imports_one_that_imports_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for name in CRATES {
        let imports = imports(&root.join(name).join("src"));
        assert!(imports.values().any(|names| !names.is_empty()), "nothing of {name} was read");
        let circles: Vec<_> = imports.keys().filter_map(|room| circle(&imports, room)).collect();
        assert!(circles.is_empty(), "{name}: {circles:?}");
    }
}

#[test]
fn a_circle_is_found_whatever_form_its_imports_have() {
    let rooms: BTreeSet<String> = ["a", "b", "c"].map(str::to_owned).into();
    let source = "use crate::{\n    b::{self, d::{E, c}},\n    x,\n};\n// crate::c\nfn f() { crate::c::g() }";
    let names = named(source, &rooms);
    assert_eq!(names, ["b", "c"].map(str::to_owned).into());
    assert_eq!(named("use crate::{b::{a, c}};", &rooms), ["b".to_owned()].into());
    let imports = [("a".to_owned(), names), ("b".to_owned(), BTreeSet::new()), ("c".to_owned(), ["a".to_owned()].into())].into();
    assert_eq!(circle(&imports, "a").unwrap(), ["a", "c", "a"]);
    assert_eq!(circle(&imports, "b"), None);
}
