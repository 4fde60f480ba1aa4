//! Links to calls that wait, and the page behind one.

use axum::{
    Json,
    extract::{Query, State},
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, header},
    response::{Html, IntoResponse as _, Response},
};
use dormouse_protocol::{
    ApiError, ErrorCode,
    approval::{Approval, ApprovalLink, Decide, MakeLink, Verdict},
};
use serde::Deserialize;

use crate::{
    app::App,
    audit::Act,
    auth::{Part, Verb},
    body::{Body, ItemPath},
    doors::desk::Desk,
    links,
    problem::{Problem, RequestId},
};

/// What the page may do: show itself, and send its form.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

/// Bytes of arguments that the page lets somebody change: a form comes as one URI, which has less than 64 KiB, and may be three times as long.
const EDITED_BYTES_MAX: usize = 16 << 10;

/// Makes a link with which its holder decides about this call, whoever that is. Whoever may decide may make one.
#[utoipa::path(post, path = "/v1/namespaces/{namespace}/sessions/{name}/approvals/{id}/link", tag = "approvals", params(("namespace" = String, Path,), ("name" = String, Path,), ("id" = String, Path,)), request_body = MakeLink,
    responses((status = 200, body = ApprovalLink)))]
pub(crate) async fn make(desk: Desk, ItemPath(key, id): ItemPath, Body(body): Body<MakeLink>) -> Result<Json<ApprovalLink>, Problem> {
    let made = desk.audited(Act::Link, &key, &id, async {
        desk.may(Verb::Update, &key, Part::Approvals).await?;
        links::make(desk.app.links.as_ref(), &desk.app.router, &key, &id, body.expires_seconds, &desk.caller.user).await
    });
    Ok(Json(made.await?))
}

/// Query of the page.
#[derive(Debug, Deserialize)]
pub(crate) struct Token {
    token: String,
}

/// What the page's form sends.
#[derive(Debug, Deserialize)]
pub(crate) struct Answer {
    token: String,
    decision: Verdict,
    #[serde(default)]
    reason: String,
    /// JSON, as somebody may have changed it.
    #[serde(default)]
    arguments: String,
}

/// The page: what waits, and two buttons. To look decides nothing.
pub(crate) async fn show(State(app): State<App>, RequestId(request_id): RequestId, Query(query): Query<Token>) -> Response {
    let shown = match &app.links {
        Some(links) => links::show(links, &app.router, &query.token, &request_id).await,
        None => Err(none()),
    };
    match shown {
        Ok(approval) => page(StatusCode::OK, &question(&approval, &query.token)),
        Err(error) => refused(&error),
    }
}

/// Takes what the page's form sends.
pub(crate) async fn decide(State(app): State<App>, RequestId(request_id): RequestId, form: String) -> Response {
    // A form is written as a query is.
    let query = format!("/?{form}").parse::<Uri>().ok();
    let Some(Query(answer)) = query.and_then(|uri| Query::<Answer>::try_from_uri(&uri).ok()) else {
        return refused(&ApiError::new(ErrorCode::InvalidRequest, "this is not what the page of a link sends"));
    };
    let reason = Some(answer.reason).filter(|reason| !reason.trim().is_empty() && answer.decision == Verdict::Deny);
    let edited = Some(answer.arguments).filter(|text| !text.trim().is_empty() && answer.decision == Verdict::Approve);
    let arguments = match edited.as_deref().map(serde_json::from_str).transpose() {
        Ok(arguments) => arguments,
        Err(error) => return refused(&ApiError::new(ErrorCode::InvalidRequest, format!("the arguments are not JSON any more: {error}"))),
    };
    let body = Decide { decision: answer.decision, reason, epoch: None, arguments, idempotency_key: None };
    let decided = match &app.links {
        Some(links) => links::decide(links, &app.router, &answer.token, body, &request_id).await,
        None => Err(none()),
    };
    match decided {
        Ok(decided) => {
            let said = if decided.decision == Verdict::Approve { "You have agreed: the call is made." } else { "You have denied it." };
            page(StatusCode::OK, &format!("<h1>{said}</h1><p>You can close this page.</p>"))
        }
        Err(error) => refused(&error),
    }
}

fn none() -> ApiError {
    ApiError::new(ErrorCode::NotSupported, "this gateway makes no links")
}

fn refused(error: &ApiError) -> Response {
    let status = StatusCode::from_u16(error.code.http_status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    page(status, &format!("<h1>Nothing was decided</h1><p>{}</p>", escaped(&error.message)))
}

fn question(approval: &Approval, token: &str) -> String {
    let args = escaped(&serde_json::to_string_pretty(&approval.args).unwrap_or_default());
    let (shown, edited) = match approval.editable && args.len() <= EDITED_BYTES_MAX {
        true => (String::new(), format!("<textarea name=\"arguments\" rows=\"12\" cols=\"80\">\n{args}</textarea><br>")),
        false => (format!("<pre>{args}</pre>"), String::new()),
    };
    let button = |decision: &str, text: &str, more: &str| {
        format!(
            "<form method=\"post\" action=\"approve\"><input type=\"hidden\" name=\"token\" value=\"{}\"><input type=\"hidden\" name=\"decision\" \
             value=\"{decision}\">{more}<button>{text}</button></form>",
            escaped(token)
        )
    };
    format!(
        "<h1>May this call be made?</h1><p>Session <b>{}</b> wants to call <b>{}</b> with</p>{shown}<p>It was made in epoch {}, and waits until {}.</p>{}{}",
        escaped(&approval.session),
        escaped(&approval.tool_name),
        approval.epoch,
        escaped(&approval.expires_at),
        button("approve", "Agree", &edited),
        button("deny", "Deny", "<label>Why <input name=\"reason\" maxlength=\"1000\"></label> ")
    )
}

/// Nobody keeps the page, frames it, or hears from where somebody came.
fn page(status: StatusCode, body: &str) -> Response {
    let style = "body{font:16px system-ui;max-width:44rem;margin:3rem auto;padding:0 1rem}pre{background:#f4f4f4;padding:1rem;overflow:auto}form{margin:1rem 0}";
    let text = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Approval</title><style>{style}</style><body>{body}</body></html>"
    );
    let kept = |name: HeaderName, value: &'static str| (name, HeaderValue::from_static(value));
    let headers: HeaderMap = [
        kept(header::CONTENT_SECURITY_POLICY, POLICY),
        kept(header::REFERRER_POLICY, "no-referrer"),
        kept(header::CACHE_CONTROL, "no-store"),
        kept(header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ]
    .into_iter()
    .collect();
    (status, headers, Html(text)).into_response()
}

fn escaped(text: &str) -> String {
    let mut all = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => all.push_str("&amp;"),
            '<' => all.push_str("&lt;"),
            '>' => all.push_str("&gt;"),
            '"' => all.push_str("&quot;"),
            '\'' => all.push_str("&#39;"),
            c => all.push(c),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn page_of(editable: bool, text: &str) -> String {
        let approval: Approval = serde_json::from_value(json!({
            "id": "a_1", "session": "agent", "toolName": "pay", "args": { "to": text }, "callId": "1", "epoch": 3, "createdAt": "2030-01-01T00:00:00Z",
            "expiresAt": "2030-01-08T00:00:00Z", "editable": editable, "state": "Pending",
        }))
        .unwrap();
        question(&approval, "token")
    }

    #[test]
    fn arguments_are_shown_and_where_they_may_be_changed_are_in_the_form() {
        let hostile = "</textarea></pre><script>";
        for (page, editable) in [(page_of(true, hostile), true), (page_of(false, hostile), false)] {
            assert_eq!(page.contains("<textarea name=\"arguments\""), editable, "{page}");
            assert!(page.contains("made in epoch 3"), "{page}");
            assert!(page.contains("&lt;/textarea&gt;&lt;/pre&gt;&lt;script&gt;") && !page.contains("<script>"), "{page}");
        }
        let text = |bytes: usize| "x".repeat(bytes - "{\n  &quot;to&quot;: &quot;&quot;\n}".len());
        assert!(page_of(true, &text(EDITED_BYTES_MAX)).contains("<textarea"));
        assert!(!page_of(true, &text(EDITED_BYTES_MAX + 1)).contains("<textarea"), "too large to be changed here");
    }
}
