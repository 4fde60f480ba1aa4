//! The rooms of a crate, which are the modules that its `lib.rs` declares, stand above one another: none imports one that imports it, by whatever way,
//! names that `lib.rs` has from a room among them.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

/// The crates of which that is so.
const CRATES: [&str; 17] = [
    "kernel-pod",
    "operator",
    "gateway",
    "broker",
    "cli",
    "crds",
    "crates/control",
    "crates/service",
    "crates/durable",
    "crates/store",
    "crates/cells",
    "crates/seal",
    "crates/protocol",
    "crates/kms",
    "crates/testkit",
    "crates/engine",
    "crates/lifecycle",
];

/// The room of each name behind `crate::`.
type Rooms = BTreeMap<String, String>;

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

/// The rooms that a root declares, and what it has from them, by name.
fn declared(root: &str) -> Rooms {
    let declared = root.lines().filter_map(|line| line.trim_start_matches("pub ").strip_prefix("mod ")?.strip_suffix(';'));
    let mut rooms: Rooms = declared.map(|room| (room.to_owned(), room.to_owned())).collect();
    for again in root.split("\npub use ").skip(1) {
        let Some((room, names)) = again.split_once(';').and_then(|(path, _)| path.split_once("::")) else { continue };
        if rooms.contains_key(room) {
            let words = names.split(|it: char| !it.is_alphanumeric() && it != '_').filter(|word| !word.is_empty());
            for word in words {
                rooms.entry(word.to_owned()).or_insert_with(|| room.to_owned());
            }
        }
    }
    rooms
}

/// The rooms that a source names by `crate::`, outside of comments.
fn named(source: &str, rooms: &Rooms) -> BTreeSet<String> {
    let code: Vec<&str> = source.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let code = code.join("\n");
    let names = code.split("crate::").skip(1).flat_map(|rest| match rest.strip_prefix('{') {
        Some(group) => firsts(group),
        None => vec![first(rest)],
    });
    names.filter_map(|name| rooms.get(name).cloned()).collect()
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
    let rooms = declared(&std::fs::read_to_string(folder.join("lib.rs")).unwrap());
    let mut imports = Imports::new();
    for path in sources(folder) {
        let inside = path.strip_prefix(folder).unwrap().iter().next().unwrap().to_str().unwrap().trim_end_matches(".rs").to_owned();
        if rooms.contains_key(&inside) {
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
    let rooms = declared("mod a;\npub mod b;\nmod c;\n\npub use c::{Word, d::Other};\npub use elsewhere::Word2;\n");
    let source = "use crate::{\n    b::{self, d::{E, c}},\n    x,\n};\n// crate::c\nfn f() { crate::c::g() }";
    let names = named(source, &rooms);
    assert_eq!(names, ["b", "c"].map(str::to_owned).into());
    assert_eq!(named("use crate::{b::{a, c}};", &rooms), ["b".to_owned()].into());
    assert_eq!(named("use crate::Other;", &rooms), ["c".to_owned()].into(), "whatever name the root has for it");
    let imports = [("a".to_owned(), names), ("b".to_owned(), BTreeSet::new()), ("c".to_owned(), ["a".to_owned()].into())].into();
    assert_eq!(circle(&imports, "a").unwrap(), ["a", "c", "a"]);
    assert_eq!(circle(&imports, "b"), None);
}
