//! The rooms of this crate stand above one another: none imports one that imports it, by whatever way.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Every source file of a folder, and below it.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] }).collect()
}

/// The rooms that a source names by `crate::`, outside of comments.
fn named(source: &str, rooms: &BTreeSet<String>) -> BTreeSet<String> {
    let code = source.lines().filter(|line| !line.trim_start().starts_with("//"));
    let names =
        code.flat_map(|line| line.split("crate::").skip(1).map(|rest| rest.split(|it: char| !it.is_alphanumeric() && it != '_').next()));
    names.flatten().map(str::to_owned).filter(|name| rooms.contains(name)).collect()
}

/// A way from `from` back to it.
fn circle(imports: &BTreeMap<String, BTreeSet<String>>, from: &str) -> Option<Vec<String>> {
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

fn imports(folder: &Path) -> BTreeMap<String, BTreeSet<String>> {
    let root = std::fs::read_to_string(folder.join("lib.rs")).unwrap();
    let declared = root.lines().filter_map(|line| line.trim_start_matches("pub ").strip_prefix("mod ")?.strip_suffix(';'));
    let rooms: BTreeSet<String> = declared.map(str::to_owned).collect();
    let mut imports: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
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
    let imports = imports(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
    assert!(imports["pod"].contains("session"), "nothing was read: {imports:?}");
    let circles: Vec<_> = imports.keys().filter_map(|room| circle(&imports, room)).collect();
    assert!(circles.is_empty(), "{circles:?}");
}

#[test]
fn a_circle_over_three_rooms_is_found() {
    let imports: BTreeMap<String, BTreeSet<String>> =
        [("a", ["b"]), ("b", ["c"]), ("c", ["a"])].map(|(room, names)| (room.to_owned(), names.map(str::to_owned).into())).into();
    assert_eq!(circle(&imports, "a").unwrap(), ["a", "b", "c", "a"]);
}
