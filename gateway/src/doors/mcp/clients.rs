//! Who a request comes from: what it can be asked, and what it has said for all its requests.
//!
//! In the stateless revision each request says what its client can. Before it, a client says so once, when it begins, and is given a session id: that
//! id says it again with each request, so that nothing has to be kept. What a client of a session's own server says later is kept in the session.

use axum::http::HeaderMap;
use dormouse_protocol::{ApiError, ErrorCode, kernel::McpClient};
use serde_json::{Value, json};

use super::{Failure, INITIALIZED, VERSION_META, agreed, cells::serving, code, told::Level};
use crate::{directory::Key, doors::desk::Desk};

/// The header with a client's id.
pub(super) const SESSION: &str = "mcp-session-id";
/// Where a request of the stateless revision says what its client can.
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
/// The same for the messages that it wants.
const LEVEL: &str = "io.modelcontextprotocol/logLevel";
/// Longest id of a client, in bytes.
const ID_BYTES_MAX: usize = 64;

/// The letter of a client that comes back to a stream which broke, as those of one revision do.
const RETURNS: char = 'p';
/// What a client can be asked, each with a letter in its id.
const ASKED: [(char, &str, &str); 5] =
    [('e', "elicitation", "form"), ('u', "elicitation", "url"), ('s', "sampling", ""), ('t', "sampling", "tools"), ('r', "roots", "")];

/// A client.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Client {
    /// Its id, where it was given one.
    pub(super) id: Option<String>,
    /// Its capabilities, of those that a server asks for.
    pub(super) can: Value,
    /// Whether it comes back to a stream that broke.
    pub(super) returns: bool,
}

impl Client {
    /// The client of a request of the stateless revision.
    pub(super) fn stateless(params: &Value) -> Self {
        let can = meta(params, CAPABILITIES).filter(|can| can.is_object()).cloned();
        Self { can: can.unwrap_or_else(|| json!({})), ..Self::default() }
    }

    /// The client of any other request.
    pub(super) fn known(headers: &HeaderMap) -> Self {
        let id = headers.get(SESSION).and_then(|id| id.to_str().ok()).filter(|id| id.len() <= ID_BYTES_MAX);
        let Some((letters, _)) = id.and_then(|id| id.split_once('-')) else {
            return Self { can: json!({}), ..Self::default() };
        };
        let mut can = json!({});
        for (_, of, part) in ASKED.iter().filter(|(letter, ..)| letters.contains(*letter)) {
            can[*of] = match can.get(*of) {
                Some(known) => known.clone(),
                None => json!({}),
            };
            if !part.is_empty() {
                can[*of][*part] = json!({});
            }
        }
        Self { id: id.map(str::to_owned), can, returns: letters.contains(RETURNS) }
    }

    /// Whether it can be asked anything.
    pub(super) fn can_be_asked(&self) -> bool {
        self.can.as_object().is_some_and(|can| !can.is_empty())
    }
}

/// The id of a client that begins with these parameters.
pub(super) fn id_of(params: &Value, unique: &str) -> String {
    let can = |of: &str, part: &str| {
        let said = params.get("capabilities").and_then(|can| can.get(of)).filter(|said| said.is_object());
        // Whoever says no more of elicitation knows forms.
        said.is_some_and(|said| part.is_empty() || said.get(part).is_some() || (part == "form" && said.get("url").is_none()))
    };
    let mut letters: String = ASKED.iter().filter(|(_, of, part)| can(of, part)).map(|(letter, ..)| *letter).collect();
    if agreed(params) == INITIALIZED {
        letters.push(RETURNS);
    }
    format!("{letters}-{unique}")
}

/// Whether a request of the stateless revision says its version and what its client can, as each must.
pub(super) fn says_what_it_must(params: &Value) -> Result<(), Failure> {
    let missing = |name: &str| Failure { is_bad: true, ..Failure::new(code::INVALID_PARAMS, format!("_meta: `{name}` is missing")) };
    if meta(params, VERSION_META).is_none() {
        return Err(missing(VERSION_META));
    }
    meta(params, CAPABILITIES).filter(|can| can.is_object()).map(drop).ok_or_else(|| missing(CAPABILITIES))
}

/// The least level of the messages that a request of the stateless revision wants.
///
/// # Errors
/// There is no such level.
pub(super) fn level(params: &Value) -> Result<Option<Level>, ApiError> {
    meta(params, LEVEL).map(named).transpose()
}

fn named(level: &Value) -> Result<Level, ApiError> {
    let found = level.as_str().and_then(Level::named);
    found.ok_or_else(|| ApiError::new(ErrorCode::InvalidRequest, format!("{level} is no level: write debug, info, warning, error, …")))
}

fn meta<'a>(params: &'a Value, name: &str) -> Option<&'a Value> {
    params.get("_meta")?.get(name)
}

/// The same of a client that has said it before.
pub(super) fn level_of(client: &McpClient) -> Option<Level> {
    client.level.as_deref().and_then(Level::named)
}

/// `logging/setLevel`, `resources/subscribe` and `resources/unsubscribe`: keeps in the session what its client wants.
///
/// # Errors
/// It does not say what, or has no id; the cell that keeps it fails.
pub(super) async fn keep(desk: &Desk, key: &Key, client: &Client, method: &str, params: &Value) -> Result<(), ApiError> {
    let Some(id) = &client.id else {
        return Err(ApiError::new(ErrorCode::InvalidRequest, "begin with `initialize`, and send the Mcp-Session-Id that it gives you"));
    };
    let uri =
        || params.get("uri").and_then(Value::as_str).ok_or_else(|| ApiError::new(ErrorCode::InvalidRequest, "uri: say which resource"));
    let mut said = json!({ "id": id });
    match method {
        "logging/setLevel" => {
            let level = params.get("level").cloned().unwrap_or_default();
            named(&level)?;
            said["level"] = level;
        }
        "resources/subscribe" => said["subscribe"] = json!(uri()?),
        _ => said["unsubscribe"] = json!(uri()?),
    }
    let result = desk.eval(key, serving(&json!({ "client": said }), None)).await?;
    result.error.map_or(Ok(()), |error| {
        let code = if error.name == "RangeError" { ErrorCode::QuotaExceeded } else { error.code };
        Err(ApiError::new(code, error.message))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_says_what_its_client_can_be_asked() {
        for (said, can) in [
            (json!({}), json!({})),
            (json!({ "elicitation": {} }), json!({ "elicitation": { "form": {} } })),
            (json!({ "elicitation": { "url": {} } }), json!({ "elicitation": { "url": {} } })),
            (
                json!({ "elicitation": { "form": {}, "url": {} }, "sampling": { "tools": {} }, "roots": { "listChanged": true }, "tasks": {} }),
                json!({ "elicitation": { "form": {}, "url": {} }, "sampling": { "tools": {} }, "roots": {} }),
            ),
            (json!({ "sampling": null, "roots": 7 }), json!({})),
        ] {
            let id = id_of(&json!({ "capabilities": said }), "0123");
            let headers = [(SESSION.parse().unwrap(), id.parse().unwrap())].into_iter().collect();
            let client = Client::known(&headers);
            assert_eq!((client.id.as_deref(), &client.can), (Some(id.as_str()), &can), "{said}");
            assert_eq!(client.can_be_asked(), can != json!({}));
        }
        for (revision, returns) in [("2025-11-25", true), ("1999-01-01", true), ("2025-06-18", false)] {
            let id = id_of(&json!({ "protocolVersion": revision }), "0123");
            let headers = [(SESSION.parse().unwrap(), id.parse().unwrap())].into_iter().collect();
            assert_eq!(Client::known(&headers).returns, returns, "{revision}");
        }
        assert_eq!(Client::known(&HeaderMap::new()).id, None);
        let long: HeaderMap =
            [(SESSION.parse().unwrap(), format!("e-{}", "0".repeat(ID_BYTES_MAX)).parse().unwrap())].into_iter().collect();
        assert_eq!(Client::known(&long).id, None);
    }

    #[test]
    fn a_level_that_is_none_is_refused() {
        let of = |level: Value| level_of_meta(&level);
        assert!(of(json!("debug")).unwrap().is_some());
        assert_eq!(level(&json!({})).unwrap(), None);
        for wrong in [json!("loud"), json!(3), json!(null)] {
            assert_eq!(of(wrong).unwrap_err().code, ErrorCode::InvalidRequest);
        }
    }

    fn level_of_meta(said: &Value) -> Result<Option<Level>, ApiError> {
        level(&json!({ "_meta": { LEVEL: said } }))
    }
}
