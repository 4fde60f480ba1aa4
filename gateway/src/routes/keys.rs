//! API keys.

use axum::{
    Json,
    extract::{FromRequestParts, Path, State},
    http::{StatusCode, request::Parts},
};
use dormouse_protocol::{
    ApiError, ErrorBody, ErrorCode,
    key::{CreateKey, KeyList, NewKey},
};

use crate::{
    app::App,
    audit::{Act, audited},
    auth::{
        Access, Caller, Part, Verb,
        keys::{self, KeyStore, access_of},
    },
    body::{Body, Namespace},
    directory::Key,
    names::check_name,
    problem::{Problem, RequestId},
};

/// Namespace and name of the key in the path.
pub(crate) struct KeyPath(String, String);

impl<S: Send + Sync> FromRequestParts<S> for KeyPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let found = Path::<(String, String)>::from_request_parts(parts, state).await;
        let Path((namespace, name)) = found.map_err(|_| ApiError::new(ErrorCode::InvalidRequest, "the path is not UTF-8 when decoded"))?;
        check_name(&namespace, "namespace")?;
        check_name(&name, "name")?;
        Ok(Self(namespace, name))
    }
}

async fn allowed<'a>(app: &'a App, caller: &Caller, verb: Verb, namespace: &str) -> Result<&'a dyn KeyStore, Problem> {
    let access = Access { namespace: namespace.to_owned(), name: None, verb, part: Part::Keys };
    app.authenticator.authorize(caller, &access).await.map_err(|error| Problem(error.into()))?;
    app.keys.as_deref().ok_or_else(|| Problem(ApiError::new(ErrorCode::NotSupported, "this gateway keeps no API keys")))
}

/// Makes a key. Nobody can give what they may not do themselves. The answer is the only place where the key is ever shown.
#[utoipa::path(post, path = "/v1/namespaces/{namespace}/keys", tag = "keys", params(("namespace" = String, Path,)), request_body = CreateKey,
    responses((status = 201, body = NewKey), (status = 409, description = "the name is taken", body = ErrorBody)))]
pub(crate) async fn create(
    State(app): State<App>,
    caller: Caller,
    RequestId(request_id): RequestId,
    Namespace(namespace): Namespace,
    Body(body): Body<CreateKey>,
) -> Result<(StatusCode, Json<NewKey>), Problem> {
    let key = Key::new(&namespace, "");
    let part = format!("keys/{}", body.name);
    let made = audited(&caller.user, &request_id, (Act::CreateKey, &key, &part), async {
        let store = allowed(&app, &caller, Verb::Create, &namespace).await.map_err(|problem| problem.0)?;
        for verb in &body.verbs {
            app.authenticator.authorize(&caller, &access_of(*verb, &namespace)).await.map_err(ApiError::from)?;
        }
        keys::create(store, &namespace, body, (&caller, app.authenticator.subject(&caller)), app.router.clock()).await
    });
    Ok((StatusCode::CREATED, Json(made.await?)))
}

/// Lists the keys of a namespace, without their secrets.
#[utoipa::path(get, path = "/v1/namespaces/{namespace}/keys", tag = "keys", params(("namespace" = String, Path,)),
    responses((status = 200, body = KeyList)))]
pub(crate) async fn list(State(app): State<App>, caller: Caller, Namespace(namespace): Namespace) -> Result<Json<KeyList>, Problem> {
    let store = allowed(&app, &caller, Verb::List, &namespace).await?;
    Ok(Json(keys::list(store, &namespace).await?))
}

/// Revokes a key. Within 30 seconds no gateway takes it any more.
#[utoipa::path(delete, path = "/v1/namespaces/{namespace}/keys/{name}", tag = "keys", params(("namespace" = String, Path,), ("name" = String, Path,)),
    responses((status = 204, description = "it is revoked")))]
pub(crate) async fn revoke(
    State(app): State<App>,
    caller: Caller,
    RequestId(request_id): RequestId,
    KeyPath(namespace, name): KeyPath,
) -> Result<StatusCode, Problem> {
    let (key, part) = (Key::new(&namespace, ""), format!("keys/{name}"));
    let revoked = audited(&caller.user, &request_id, (Act::RevokeKey, &key, &part), async {
        let store = allowed(&app, &caller, Verb::Delete, &namespace).await.map_err(|problem| problem.0)?;
        keys::revoke(store, &namespace, &name).await
    });
    revoked.await?;
    Ok(StatusCode::NO_CONTENT)
}
