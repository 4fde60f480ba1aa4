//! The lines of messages in the access log: who named which session in what. The request's own line has no more than `POST /mcp`.

use dormouse_protocol::ErrorCode;
use serde_json::Value;

use super::{Failure, SCHEME, Scope, asked::Asked, registered};
use crate::{audit::Done, directory::Key, doors::desk::key_in};

/// Messages that do something to a session. The others list what there is, or say what a client is.
const METHODS: [&str; 10] = [
    "tools/call",
    "prompts/get",
    "resources/read",
    "completion/complete",
    "tasks/get",
    "tasks/update",
    "tasks/cancel",
    "logging/setLevel",
    "resources/subscribe",
    "resources/unsubscribe",
];

/// Answers a request, with its line.
pub(super) async fn answer(asked: &Asked, method: &str, params: Value) -> Result<Value, Failure> {
    if !METHODS.contains(&method) {
        return asked.answer(method, params).await;
    }
    let (key, part) = about(&asked.scope, &asked.desk.namespace, method, &params);
    asked.desk.logged((method, &key, &part), asked.answer(method, params), |answered| Some(done(answered))).await
}

/// The session that a message names, and what of it. Of arguments only the session is told, and of a URI nothing behind its path.
fn about(scope: &Scope, namespace: &str, method: &str, params: &Value) -> (Key, String) {
    let text = |pointer: &str| params.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let (name, uri) = (text("/name"), text("/uri"));
    let path = uri.split(['?', '#']).next().unwrap_or_default();
    let (found, part) = match method {
        "tasks/get" | "tasks/update" | "tasks/cancel" => parts(text("/taskId")),
        "resources/read" if uri.starts_with(SCHEME) => parts(path.trim_start_matches(SCHEME)),
        "tools/call" => {
            let session = match registered::named(name) {
                Some((session, _)) => session,
                None if name == "session_create" => text("/arguments/name"),
                None => text("/arguments/session"),
            };
            (key_in(namespace, session).ok(), name)
        }
        _ => (None, if name.is_empty() { path } else { name }),
    };
    let key = match scope {
        Scope::Session(key) => key.clone(),
        // What names no session is its namespace's.
        Scope::Server => found.unwrap_or_else(|| Key::new(namespace, "")),
    };
    (key, part.to_owned())
}

/// The session and the rest of `NAMESPACE/SESSION/REST`.
fn parts(text: &str) -> (Option<Key>, &str) {
    let mut parts = text.splitn(3, '/');
    let (Some(namespace), Some(session), Some(rest)) = (parts.next(), parts.next(), parts.next()) else { return (None, "") };
    (key_in(namespace, session).ok(), rest)
}

/// What came of a message: a tool that fails is an answer.
fn done(answered: &Result<Value, Failure>) -> Done {
    match answered {
        Err(failure) => Err(failure.error.unwrap_or(ErrorCode::InvalidRequest)),
        Ok(result) if result.get("isError").and_then(Value::as_bool) == Some(true) => {
            let code = result.pointer("/structuredContent/error/code").cloned().unwrap_or_default();
            // What a function has made itself has no code, or one of its own.
            let ours = serde_json::from_value(code).ok().filter(|code| *code != ErrorCode::Unknown);
            Err(ours.unwrap_or(ErrorCode::UncaughtException))
        }
        Ok(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_message_names_its_session_and_no_arguments() {
        for (method, params, object, part) in [
            ("tools/call", json!({ "name": "eval", "arguments": { "session": "a", "code": "x" } }), "team/a", "eval"),
            ("tools/call", json!({ "name": "session_create", "arguments": { "name": "b" } }), "team/b", "session_create"),
            ("tools/call", json!({ "name": "session_list" }), "team/", "session_list"),
            ("tools/call", json!({ "name": "file_read", "arguments": { "session": "../b" } }), "team/", "file_read"),
            ("tools/call", json!({ "name": "a.add", "arguments": { "session": "b" } }), "team/a", "a.add"),
            ("resources/read", json!({ "uri": "dormouse://other/a/x/y.txt" }), "other/a", "x/y.txt"),
            ("tasks/cancel", json!({ "taskId": "other/a/r_1" }), "other/a", "r_1"),
            ("tasks/get", json!({ "taskId": 7 }), "team/", ""),
        ] {
            let (key, said) = about(&Scope::Server, "team", method, &params);
            assert_eq!((key.to_string().as_str(), said.as_str()), (object, part), "{method} {params}");
        }
        let own = Scope::Session(Key::new("team", "a"));
        let (key, part) = about(&own, "team", "resources/read", &json!({ "uri": "totals://now?secret=1" }));
        assert_eq!((key, part.as_str()), (Key::new("team", "a"), "totals://now"));
    }

    #[test]
    fn a_failure_is_told_by_its_code() {
        let failed = |code: &str| Ok(json!({ "isError": true, "structuredContent": { "error": { "code": code } } }));
        assert_eq!(done(&failed("SessionNotFound")), Err(ErrorCode::SessionNotFound));
        assert_eq!(done(&failed("what a cell says")), Err(ErrorCode::UncaughtException));
        assert_eq!(done(&Ok(json!({ "structuredContent": { "error": { "code": "Internal" } } }))), Ok(()));
        assert_eq!(done(&Err(Failure::new(-32601, "none"))), Err(ErrorCode::InvalidRequest));
    }
}
