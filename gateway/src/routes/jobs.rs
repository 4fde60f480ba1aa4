//! Calls that runners make.

use std::collections::BTreeSet;

use axum::{
    Json,
    extract::{Path, State},
    http::StatusCode,
    response::{IntoResponse as _, Response},
};
use dormouse_protocol::{
    ApiError, ErrorCode,
    job::{AnswerJob, ClaimJob, HeartbeatJob, Job, JobAnswered, JobLease},
};

use crate::{
    app::App,
    auth::{Caller, Part, Verb},
    body::{Body, Namespace},
    jobs::{self, JobId},
    names::check_name,
    problem::Problem,
    webhooks,
};

/// Capabilities of one claim.
const CAPABILITIES_MAX: usize = 16;
/// Characters of a runner's name.
const RUNNER_CHARS_MAX: usize = 128;

/// Gives a runner the oldest job that it can do and nobody has; 204 when there is none within `waitSeconds`.
#[utoipa::path(post, path = "/v1/namespaces/{namespace}/jobs/claim", tag = "jobs", params(("namespace" = String, Path,)), request_body = ClaimJob,
    responses((status = 200, body = Job), (status = 204, description = "there is none")))]
pub(crate) async fn claim(
    State(app): State<App>,
    caller: Caller,
    Namespace(namespace): Namespace,
    Body(body): Body<ClaimJob>,
) -> Result<Response, Problem> {
    if body.capabilities.is_empty() || body.capabilities.len() > CAPABILITIES_MAX || body.runner.chars().count() > RUNNER_CHARS_MAX {
        let message = format!("capabilities: write 1 to {CAPABILITIES_MAX}; runner: a name of at most {RUNNER_CHARS_MAX} characters");
        return Err(ApiError::new(ErrorCode::InvalidRequest, message).into());
    }
    let brokers = match &body.broker {
        Some(broker) => {
            check_name(broker, "broker")?;
            may_run(&app, &caller, &namespace, broker).await?;
            [broker.clone()].into()
        }
        None => {
            let mut allowed = BTreeSet::new();
            let mut refused = None;
            for broker in webhooks::brokers(&app.router, &namespace) {
                match may_run(&app, &caller, &namespace, &broker).await {
                    Ok(()) => drop(allowed.insert(broker)),
                    Err(error) => refused = Some(error),
                }
            }
            match refused {
                Some(error) if allowed.is_empty() => return Err(error),
                _ => allowed,
            }
        }
    };
    Ok(match jobs::claim(&app.router, &namespace, &brokers, &body).await? {
        Some(job) => Json(job).into_response(),
        None => StatusCode::NO_CONTENT.into_response(),
    })
}

/// Says that a job's runner lives. 409: the job is not its any more.
#[utoipa::path(post, path = "/v1/namespaces/{namespace}/jobs/{id}/heartbeat", tag = "jobs", params(("namespace" = String, Path,), ("id" = String, Path,)), request_body = HeartbeatJob,
    responses((status = 200, body = JobLease)))]
pub(crate) async fn heartbeat(
    State(app): State<App>,
    caller: Caller,
    Path((namespace, id)): Path<(String, String)>,
    Body(body): Body<HeartbeatJob>,
) -> Result<Json<JobLease>, Problem> {
    let id = admitted(&app, &caller, &namespace, &id).await?;
    Ok(Json(jobs::heartbeat(&app.router, &namespace, &id, body.lease).await?))
}

/// Answers a job. The same answer may be sent again. 409: the job is not this runner's any more.
#[utoipa::path(post, path = "/v1/namespaces/{namespace}/jobs/{id}/answer", tag = "jobs", params(("namespace" = String, Path,), ("id" = String, Path,)), request_body = AnswerJob,
    responses((status = 200, body = JobAnswered)))]
pub(crate) async fn answer(
    State(app): State<App>,
    caller: Caller,
    Path((namespace, id)): Path<(String, String)>,
    Body(body): Body<AnswerJob>,
) -> Result<Json<JobAnswered>, Problem> {
    let id = admitted(&app, &caller, &namespace, &id).await?;
    Ok(Json(jobs::answer(&app.router, &namespace, &id, body, &caller.user).await?))
}

async fn admitted(app: &App, caller: &Caller, namespace: &str, id: &str) -> Result<JobId, Problem> {
    check_name(namespace, "namespace")?;
    let id = JobId::read(id)?;
    check_name(&id.broker, "id")?;
    may_run(app, caller, namespace, &id.broker).await?;
    Ok(id)
}

/// Whoever answers jobs says what sessions are told: that is a right of its own.
async fn may_run(app: &App, caller: &Caller, namespace: &str, broker: &str) -> Result<(), Problem> {
    app.allow(caller, Verb::Update, namespace, Some(broker), Part::Jobs).await
}
