//! Two inventories beside each other. Pure.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use dormouse_protocol::history::{ChangeKind, FileChange, GlobalChange};

use super::inventory::{File, Global, Inventory};

/// Names that are in only one of two maps, or not the same in both.
pub(super) fn changed<'a, T: PartialEq>(before: &'a BTreeMap<String, T>, after: &'a BTreeMap<String, T>) -> Vec<(&'a String, ChangeKind)> {
    let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let kind = |name: &&'a String| match (before.get(*name), after.get(*name)) {
        (None, _) => Some(ChangeKind::Added),
        (_, None) => Some(ChangeKind::Removed),
        (Some(before), Some(after)) => (before != after).then_some(ChangeKind::Changed),
    };
    names.iter().filter_map(|name| Some((*name, kind(name)?))).collect()
}

/// The globals that differ. What every new session has is missing nowhere: the two states may be of two engines.
pub(super) fn changed_globals<'a>(before: &'a Inventory, after: &'a Inventory) -> Vec<(&'a String, ChangeKind)> {
    let own = |side: &Inventory, name: &String| side.globals.get(name).is_some_and(|global| *global != Global::of_new_session());
    let mut changes = changed(&before.globals, &after.globals);
    changes.retain(|(name, _)| own(before, name) || own(after, name));
    changes
}

/// The changed globals with how they read in both states.
pub(super) fn globals(
    changed: &[(&String, ChangeKind)],
    mut before: HashMap<String, String>,
    mut after: HashMap<String, String>,
) -> Vec<GlobalChange> {
    let change = |(name, change): &(&String, ChangeKind)| GlobalChange {
        name: (*name).clone(),
        change: *change,
        before: before.remove(*name),
        after: after.remove(*name),
    };
    changed.iter().map(change).collect()
}

/// The changed files with their sizes in both states.
pub(super) fn files(before: &BTreeMap<String, File>, after: &BTreeMap<String, File>) -> Vec<FileChange> {
    let change = |(path, change): (&String, ChangeKind)| FileChange {
        path: path.clone(),
        change,
        bytes_before: before.get(path).map(|file| file.bytes),
        bytes_after: after.get(path).map(|file| file.bytes),
    };
    changed(before, after).into_iter().map(change).collect()
}

/// Globals that are the same as far as they were looked at, which was not to the end.
pub(super) fn unsure(before: &Inventory, after: &Inventory) -> Vec<String> {
    let unsure = |(name, global): (&String, _)| (after.globals.get(name) == Some(global) && !global.complete).then(|| name.clone());
    before.globals.iter().filter_map(unsure).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inventory(globals: &[(&str, &str, bool)]) -> Inventory {
        let global = |(name, sha256, complete): &(&str, &str, bool)| {
            ((*name).to_owned(), Global { sha256: (*sha256).to_owned(), complete: *complete })
        };
        Inventory { globals: globals.iter().map(global).collect(), ..Inventory::default() }
    }

    #[test]
    fn every_name_of_either_side_is_judged_once() {
        let before = inventory(&[
            ("gone", "1", true),
            ("built in", "", true),
            ("replaced", "", true),
            ("same", "2", true),
            ("other", "3", true),
            ("deep", "4", false),
        ]);
        let after = inventory(&[
            ("same", "2", true),
            ("other", "5", true),
            ("new", "6", true),
            ("replaced", "7", true),
            ("added by an engine", "", true),
            ("deep", "4", false),
        ]);
        let changes = changed_globals(&before, &after);
        let names: Vec<_> = changes.iter().map(|(name, kind)| (name.as_str(), *kind)).collect();
        assert_eq!(
            names,
            [("gone", ChangeKind::Removed), ("new", ChangeKind::Added), ("other", ChangeKind::Changed), ("replaced", ChangeKind::Changed)]
        );
        assert_eq!(unsure(&before, &after), ["deep"]);
        let text = |value: &str| HashMap::from([("other".to_owned(), value.to_owned())]);
        let shown = globals(&changes, text("1"), text("2"));
        assert_eq!((shown[2].before.as_deref(), shown[2].after.as_deref()), (Some("1"), Some("2")));
    }
}
