//! How a request is answered: by one message, or by a stream of them that ends with the answer.

use axum::{
    Json,
    http::{HeaderMap, HeaderValue, StatusCode},
    response::{IntoResponse as _, Response},
};
use dormouse_protocol::ApiError;
use serde_json::Value;
use tracing::{Instrument as _, Span};

use super::{
    Failure,
    asked::Asked,
    calls::{self, Becomes, Call},
    cells::Outcome,
    clients::{self, Client},
    code, failed, listening, logged, message_of, of_api, offered, registered, runs,
    told::{self, Told},
};
use crate::{audit, directory::Key, doors::desk::Desk};

/// Answers a request.
pub(super) async fn answer(asked: Asked, method: String, params: Value, headers: &HeaderMap, span: Span) -> Response {
    let id = asked.id.clone();
    if method == "subscriptions/listen" && asked.is_stateless() {
        return match asked.session() {
            Ok(key) => {
                let wanted = listening::Wanted::named(&id, &params);
                if wanted.has_tasks() && !runs::are_known(&params) {
                    return failed(&id, runs::unknown());
                }
                let listening = listen(asked.desk.clone(), key.clone(), wanted).await;
                listening.unwrap_or_else(|error| failed(&id, of_api(&error)))
            }
            Err(failure) => failed(&id, failure),
        };
    }
    let wanted = match asked.wanted(&method, &params).await {
        Ok(wanted) => wanted,
        Err(failure) => return failed(&id, failure),
    };
    if wanted.is_any() && told::takes_stream(headers) {
        let (review, answers) = (asked.desk.review.clone(), id.clone());
        let work = move |told| {
            let asked = asked.telling(told);
            async move {
                let answered = logged::answer(&asked, &method, params).await;
                Some(answered.map_or_else(|failure| failure.message(&id), |result| message_of(&id, result)))
            }
            .instrument(span)
        };
        return told::stream(review, Some(answers), wanted, work);
    }
    let begins = (method == "initialize").then(|| clients::id_of(&params, &asked.desk.app.router.ids().next().simple().to_string()));
    match logged::answer(&asked, &method, params).instrument(span).await {
        Ok(result) => {
            let mut response = Json(message_of(&id, result)).into_response();
            if let Some(client) = begins.and_then(|client| HeaderValue::from_str(&client).ok()) {
                response.headers_mut().insert(clients::SESSION, client);
            }
            response
        }
        Err(failure) => failed(&id, failure),
    }
}

/// A stream of what changes in a session's own server.
///
/// # Errors
/// The session cannot be read.
pub(super) async fn listen(desk: Desk, key: Key, wanted: listening::Wanted) -> Result<Response, ApiError> {
    let id = match &wanted {
        listening::Wanted::Named { id, .. } => Some(id.clone()),
        listening::Wanted::OfClient(_) => None,
    };
    let review = desk.review.clone();
    let listener = listening::Listener::begin(desk, key, wanted).await?;
    Ok(told::stream(review, id.clone(), told::Wanted::default(), move |told: Told| async move {
        let ended = listener.follow(&told).await;
        if let Err(error) = &ended {
            tracing::debug!(%error, "a client that listens is told nothing more");
        }
        let id = id?;
        Some(match ended {
            Ok(()) => message_of(&id, listening::over(&id)),
            Err(error) => of_api(&error).message(&id),
        })
    }))
}

/// The rest of a stream that broke, if a request asks for one. `None`: it does not.
pub(super) fn resumed(desk: &Desk, headers: &HeaderMap) -> Option<Response> {
    let last = headers.get("last-event-id")?.to_str().ok()?;
    let mark = calls::Mark::read(last)?;
    if !told::takes_stream(headers) {
        return Some(StatusCode::METHOD_NOT_ALLOWED.into_response());
    }
    let Ok(key) = desk.key(&mark.session) else { return Some(StatusCode::NOT_FOUND.into_response()) };
    let (desk, can) = (desk.clone(), Client::known(headers).can);
    let wanted = told::Wanted { returns: true, ..told::Wanted::default() };
    Some(told::stream(desk.review.clone(), Some(mark.id.clone()), wanted, move |told: Told| async move {
        let call = Call {
            desk: &desk,
            key: &key,
            of: mark.of,
            id: &mark.id,
            can: &can,
            told: Some(&told),
            stateless: false,
            becomes: Becomes::Answer,
        };
        let outcome = desk.logged(("resume", &key, mark.of), call.resume(&mark), |outcome| Some(audit::done(outcome))).await;
        let result = match (mark.of, outcome) {
            ("tool", Err(error)) => Ok(super::tools::failed(&error)),
            (_, Err(error)) => Err(of_api(&error)),
            (_, Ok(Outcome::Refused(message))) => Err(Failure::new(code::INVALID_PARAMS, message)),
            ("tool", Ok(outcome)) => registered::result(outcome, false),
            ("prompt", Ok(outcome)) => offered::result(outcome, "messages", false),
            (_, Ok(outcome)) => offered::result(outcome, "contents", false),
        };
        Some(result.map_or_else(|failure| failure.message(&mark.id), |result| message_of(&mark.id, result)))
    }))
}
