//! The cache and the failures, without an API server.

use super::*;

fn shared() -> Shared {
    Shared::new()
}

fn object(name: &str, uid: &str, version: &str) -> Record {
    let object = serde_json::json!({
        "apiVersion": "dormouse.dev/v1alpha1",
        "kind": "KernelSession",
        "metadata": {"name": name, "namespace": "a", "uid": uid, "resourceVersion": version, "finalizers": [STORAGE_FINALIZER]},
        "spec": {},
    });
    record(serde_json::from_value(object).unwrap()).unwrap()
}

#[test]
fn the_watch_does_not_undo_what_a_write_answered() {
    let shared = shared();
    shared.note(object("x", "u", "10"));
    let have = shared.note(object("x", "u", "9"));
    assert_eq!(have.resource_version, "10");
    let remade = shared.note(object("x", "v", "5"));
    assert_eq!(remade.uid, "v", "another object of the same name is not older");
    shared.forget(&Key::new("a", "x"), Some("u"));
    assert!(shared.read().sessions.contains_key(&Key::new("a", "x")), "the end of an object is not the end of its successor");
}

#[test]
fn a_full_list_removes_what_is_not_in_it_and_keeps_what_came_since() {
    let shared = shared();
    shared.note(object("old", "1", "1"));
    let unlisted = shared.known();
    assert!(unlisted.contains_key(&Key::new("a", "old")));
    shared.note(object("new", "2", "2"));
    shared.listed(unlisted);
    assert_eq!(shared.read().sessions.keys().map(|key| key.name.as_str()).collect::<Vec<_>>(), ["new"]);
}

#[test]
fn the_api_servers_failures_are_told_apart() {
    let status = |code: u16, reason: &str, kind: &str| {
        let status = serde_json::json!({"status": "Failure", "code": code, "reason": reason, "message": "m", "details": {"kind": kind}});
        failure(kube::Error::Api(Box::new(serde_json::from_value(status).unwrap())))
    };
    assert!(matches!(status(404, "NotFound", "namespaces"), DirectoryError::NamespaceNotFound));
    assert!(matches!(status(404, "NotFound", "kernelsessions"), DirectoryError::NotFound));
    assert!(matches!(status(409, "AlreadyExists", ""), DirectoryError::AlreadyExists));
    assert!(matches!(status(409, "Conflict", ""), DirectoryError::Conflict));
    assert!(matches!(status(422, "Invalid", ""), DirectoryError::Invalid(message) if message == "m"));
    assert!(matches!(status(500, "", ""), DirectoryError::Unavailable(_)));
}

#[test]
fn who_refuses_is_told_apart() {
    let forbidden = |message: &str| {
        let status = serde_json::json!({"status": "Failure", "code": 403, "reason": "Forbidden", "message": message});
        failure(kube::Error::Api(Box::new(serde_json::from_value(status).unwrap())))
    };
    let own = "kernelsessions.dormouse.dev is forbidden: User \"system:serviceaccount:dormouse-system:dormouse-gateway\" cannot create resource \"kernelsessions\" in API group \"dormouse.dev\" in the namespace \"team\"";
    assert!(matches!(forbidden(own), DirectoryError::Unprivileged(_)));
    let quota = "kernelsessions.dormouse.dev \"a\" is forbidden: exceeded quota: sessions, requested: count/kernelsessions.dormouse.dev=1, used: 3, limited: 3";
    assert!(matches!(forbidden(quota), DirectoryError::Quota(_)));
    for policy in [
        "kernelsessions.dormouse.dev \"a\" is forbidden: unable to create new content in namespace team because it is being terminated",
        "admission webhook \"policy.example\" denied the request: no sessions here",
    ] {
        assert!(matches!(forbidden(policy), DirectoryError::Denied(message) if message == policy));
    }
}

fn version_of(shared: &Shared, name: &str) -> String {
    shared.read().sessions[&Key::new("a", name)].resource_version.clone()
}

#[test]
fn an_answer_older_than_what_was_known_when_it_was_asked_for_tells_that_the_api_server_went_back() {
    let shared = shared();
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
    let shared = shared();
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
    let shared = shared();
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
