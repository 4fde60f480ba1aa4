//! The failures, and what is kept of an object, without an API server.

use super::*;

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

/// Bytes that nobody here reads are most of an object that somebody made as large as may be.
#[test]
fn what_is_read_only_when_a_session_is_placed_is_not_kept() {
    let large = "x".repeat(200_000);
    let object = serde_json::json!({
        "metadata": { "name": "a", "namespace": "n", "uid": "u", "annotations": { "note": large }, "managedFields": [{ "manager": large }],
            "finalizers": [STORAGE_FINALIZER], "generation": 3, "resourceVersion": "7" },
        "spec": { "pool": "p", "bootstrap": { "code": large }, "modules": { "allow": [large] }, "toolBrokerRef": { "name": "b", "namedBy": { "user": "u", "groups": [large] } },
            "egress": { "allow": [{ "host": "h", "paths": [large] }] }, "serviceSecrets": { "s": large },
            "clientTools": [{ "name": "t", "input": { "description": large } }] },
    });
    let kept = Specs::cut(record(serde_json::from_value(object).unwrap()).unwrap());
    assert!(serde_json::to_string(&kept).unwrap().len() < 2_000);
    assert!(kept.left_out && kept.finalizer && kept.generation == 3);
    assert_eq!((kept.spec.pool.as_str(), kept.spec.tool_broker_ref.as_ref().map(|broker| broker.name.as_str())), ("p", Some("b")));
}
