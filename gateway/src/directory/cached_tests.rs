//! The cache, without an API server.

use super::*;

fn object(name: &str, uid: &str, version: &str) -> Record {
    Record {
        key: Key::new("a", name),
        object_uid: uid.to_owned(),
        uid: uid.to_owned(),
        resource_version: version.to_owned(),
        generation: 1,
        labels: BTreeMap::new(),
        created_at: String::new(),
        spec: Default::default(),
        status: Default::default(),
        finalizer: true,
        deleting: false,
        left_out: false,
    }
}

#[test]
fn the_watch_does_not_undo_what_a_write_answered() {
    let shared = SessionCache::default();
    shared.note(object("x", "u", "10"));
    let have = shared.note(object("x", "u", "9"));
    assert_eq!(have.resource_version, "10");
    let remade = shared.note(object("x", "v", "5"));
    assert_eq!(remade.uid, "v", "another object of the same name is not older");
    shared.forget(&Key::new("a", "x"), Some("u"));
    assert!(shared.read().records.contains_key(&Key::new("a", "x")), "the end of an object is not the end of its successor");
}

#[test]
fn a_full_list_removes_what_is_not_in_it_and_keeps_what_came_since() {
    let shared = SessionCache::default();
    shared.note(object("old", "1", "1"));
    let unlisted = shared.known();
    assert!(unlisted.contains_key(&Key::new("a", "old")));
    shared.note(object("new", "2", "2"));
    shared.listed(unlisted);
    assert_eq!(shared.read().records.keys().map(|key| key.name.as_str()).collect::<Vec<_>>(), ["new"]);
}

fn version_of(shared: &SessionCache, name: &str) -> String {
    shared.read().records[&Key::new("a", name)].resource_version.clone()
}

#[test]
fn an_answer_older_than_what_was_known_when_it_was_asked_for_tells_that_the_api_server_went_back() {
    let shared = SessionCache::default();
    let mut rollbacks = shared.rollbacks.subscribe();
    shared.note(object("x", "u", "10"));
    let key = Key::new("a", "x");
    let sent = shared.sending(&key);
    shared.note(object("x", "u", "12"));
    shared.answered(object("x", "u", "11"), &sent);
    assert_eq!(version_of(&shared, "x"), "12", "it was merely overtaken");
    assert!(!rollbacks.has_changed().unwrap());
    let sent = shared.sending(&key);
    assert_eq!(shared.answered(object("x", "u", "8"), &sent).resource_version, "8");
    assert_eq!(version_of(&shared, "x"), "8");
    assert!(rollbacks.has_changed().unwrap(), "the watches begin anew");
    rollbacks.mark_unchanged();
    let sent = shared.sending(&key);
    shared.answered(object("x", "v", "3"), &sent);
    assert!(!rollbacks.has_changed().unwrap(), "another object of the name has a life of its own");
}

#[test]
fn a_full_list_is_believed_about_what_has_not_changed_since_it_began() {
    let shared = SessionCache::default();
    for name in ["back", "written"] {
        shared.note(object(name, "u", "10"));
    }
    let mut known = shared.known();
    shared.note(object("written", "u", "11"));
    for name in ["back", "written"] {
        shared.list(object(name, "u", "7"), &mut known);
    }
    shared.listed(known);
    assert_eq!((version_of(&shared, "back"), version_of(&shared, "written")), ("7".to_owned(), "11".to_owned()));
}

#[test]
fn a_revision_below_the_one_that_was_seen_begins_the_watches_anew_once() {
    let shared = SessionCache::default();
    let mut rollbacks = shared.rollbacks.subscribe();
    shared.note(object("x", "u", "10"));
    let seen = shared.read().revision;
    shared.compare_revision(seen, 25);
    let seen = shared.read().revision;
    assert_eq!((seen, rollbacks.has_changed().unwrap()), (25, false));
    shared.compare_revision(seen, 24);
    assert!(rollbacks.has_changed().unwrap());
    rollbacks.mark_unchanged();
    let seen = shared.read().revision;
    shared.compare_revision(seen, 24);
    assert!(!rollbacks.has_changed().unwrap());
}

#[test]
fn what_a_watch_of_pods_has_shown_tells_that_the_api_server_went_back() {
    let shared = SessionCache::default();
    let mut rollbacks = shared.rollbacks();
    shared.note(object("x", "u", "10"));
    shared.saw(90);
    shared.compare_revision(shared.revision(), 90);
    assert!(!rollbacks.has_changed().unwrap());
    shared.compare_revision(shared.revision(), 20);
    assert!(rollbacks.has_changed().unwrap());
    rollbacks.mark_unchanged();
    shared.compare_revision(shared.revision(), 21);
    assert!(!rollbacks.has_changed().unwrap(), "once");
}
