//! Files of sessions as resources.

use base64::Engine as _;
use dormouse_protocol::file::{FileEntry, FileKind};
use serde_json::{Value, json};

use super::{Failure, SCHEME, Scope, code, of_api};
use crate::{directory::Key, doors::desk::Desk};

/// Files of a page.
const PAGE_MAX: usize = 500;

/// The files of a session, a page of them: the cursor is the last one's path.
pub(super) async fn list(desk: &Desk, key: &Key, params: &Value) -> Result<Value, Failure> {
    let after = params.get("cursor").and_then(Value::as_str).unwrap_or_default();
    let all = desk.files(key, "/", true).await.map_err(|error| of_api(&error))?;
    let mut files: Vec<_> = all.items.into_iter().filter(|file| file.kind == FileKind::File && file.path.as_str() > after).collect();
    files.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    let more = files.len() > PAGE_MAX;
    files.truncate(PAGE_MAX);
    let next = files.last().filter(|_| more).map(|file| file.path.clone());
    let shown = |file: FileEntry| {
        let name = file.path.trim_start_matches('/');
        json!({ "uri": format!("{SCHEME}{}/{}/{name}", key.namespace, key.name), "name": name, "size": file.size })
    };
    let mut page = json!({ "resources": files.into_iter().map(shown).collect::<Vec<_>>() });
    if let Some(next) = next {
        page["nextCursor"] = json!(next);
    }
    Ok(page)
}

/// A file.
pub(super) async fn read(desk: &Desk, scope: &Scope, params: &Value) -> Result<Value, Failure> {
    let uri = params.get("uri").and_then(Value::as_str).unwrap_or_default();
    let mut parts = uri.strip_prefix(SCHEME).unwrap_or_default().splitn(3, '/');
    let (Some(namespace), Some(session), Some(path)) = (parts.next(), parts.next(), parts.next()) else {
        let message = format!("`{uri}` is no file: write {SCHEME}NAMESPACE/SESSION/PATH");
        return Err(Failure { data: Some(json!({ "uri": uri })), ..Failure::new(code::INVALID_PARAMS, message) });
    };
    if let Scope::Session(key) = scope
        && (namespace, session) != (key.namespace.as_str(), key.name.as_str())
    {
        return Err(Failure::new(code::RESOURCE_NOT_FOUND, format!("`{uri}` is of another session: this server has the files of {key}")));
    }
    let desk = Desk { namespace: namespace.to_owned(), ..desk.clone() };
    let read = async { desk.read_file(&desk.key(session)?, &format!("/{path}")).await };
    let content = read.await.map_err(|error| of_api(&error))?;
    let content = match String::from_utf8(content.to_vec()) {
        Ok(text) => json!({ "uri": uri, "mimeType": "text/plain", "text": text }),
        Err(binary) => json!({
            "uri": uri, "mimeType": "application/octet-stream",
            "blob": base64::engine::general_purpose::STANDARD.encode(binary.as_bytes()),
        }),
    };
    Ok(json!({ "contents": [content] }))
}
