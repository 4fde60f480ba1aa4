//! Messages about events, and how their delivery goes.

use std::collections::BTreeSet;

use axum::{
    Json,
    extract::{Path, State},
    http::StatusCode,
};
use dormouse_protocol::{
    ApiError, ErrorCode,
    webhook::{Delivery, DeliveryList},
};
use serde::Deserialize;

use crate::{
    app::App,
    auth::{Caller, Part, Verb},
    body::{Namespace, Params},
    directory::{Key, selects},
    names::check_name,
    problem::Problem,
    webhooks,
};

/// Deliveries on a list, unless the client says otherwise, and at most.
const LIST_DEFAULT: usize = 100;
const LIST_MAX: usize = 500;

/// Query of a list.
#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListParams {
    /// Only those of this session.
    session: Option<String>,
    /// Only those of this ToolBroker; else of all that sessions of the namespace name.
    broker: Option<String>,
    /// 1 to 500.
    limit: Option<usize>,
}

/// Query of a redelivery.
#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub(crate) struct RedeliverParams {
    /// The ToolBroker; else whichever has it of those that sessions of the namespace name.
    broker: Option<String>,
}

/// Lists messages that were or are being delivered, newest first.
#[utoipa::path(get, path = "/v1/namespaces/{namespace}/webhooks/deliveries", tag = "webhooks", params(("namespace" = String, Path,), ListParams),
    responses((status = 200, body = DeliveryList)))]
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    Namespace(namespace): Namespace,
    Params(params): Params<ListParams>,
) -> Result<Json<DeliveryList>, Problem> {
    app.allow(&caller, Verb::List, &namespace, None, Part::Session).await?;
    let brokers = allowed(&app, &caller, &namespace, params.broker).await?;
    let limit = params.limit.unwrap_or(LIST_DEFAULT).clamp(1, LIST_MAX);
    let visible = |key: &Key| {
        let selected = |record: &crate::directory::Record, selector: &str| selects(selector, &record.labels);
        caller.grant.as_ref().is_none_or(|grant| app.router.directory().get(key).is_some_and(|record| selected(&record, &grant.selector)))
    };
    Ok(Json(webhooks::list(&app.router, &namespace, &brokers, params.session.as_deref(), limit, visible).await?))
}

/// Has a message delivered again, from now on, under its id.
#[utoipa::path(post, path = "/v1/namespaces/{namespace}/webhooks/deliveries/{id}/redeliver", tag = "webhooks", params(("namespace" = String, Path,), ("id" = String, Path,), RedeliverParams),
    responses((status = 202, body = Delivery)))]
pub(crate) async fn redeliver(
    State(app): State<App>,
    caller: Caller,
    Path((namespace, id)): Path<(String, String)>,
    Params(params): Params<RedeliverParams>,
) -> Result<(StatusCode, Json<Delivery>), Problem> {
    check_name(&namespace, "namespace")?;
    app.allow(&caller, Verb::Update, &namespace, None, Part::Session).await?;
    let brokers = allowed(&app, &caller, &namespace, params.broker).await?;
    Ok((StatusCode::ACCEPTED, Json(webhooks::redeliver(&app.router, &namespace, &brokers, &id).await?)))
}

/// The brokers that are asked: those that the caller may have sessions call.
async fn allowed(app: &App, caller: &Caller, namespace: &str, named: Option<String>) -> Result<BTreeSet<String>, Problem> {
    let Some(named) = named else {
        let mut allowed = BTreeSet::new();
        for broker in webhooks::brokers(&app.router, namespace) {
            match app.allow_broker(caller, namespace, Some(&broker)).await {
                Ok(()) => drop(allowed.insert(broker)),
                Err(Problem(ApiError { code: ErrorCode::Forbidden, .. })) => {}
                Err(error) => return Err(error),
            }
        }
        return Ok(allowed);
    };
    check_name(&named, "broker")?;
    app.allow_broker(caller, namespace, Some(&named)).await?;
    Ok([named].into())
}
