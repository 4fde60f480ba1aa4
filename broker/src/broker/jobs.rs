//! Calls that become jobs, and what runners ask of them.

use std::time::Duration;

use dormouse_lifecycle::calls::fingerprint;
use dormouse_protocol::{
    ApiError, ErrorCode,
    broker::{
        AnswerJobCall, AnsweredJob, ClaimJobCall, ClaimedJob, HeartbeatJobCall, JobEnded, Parked, ToolAnswer, ToolCall, Waits, WaitsFor,
    },
    job::{Job, JobLease},
};
use dormouse_store::Condition;
use serde_json::Value;

use super::Broker;
use crate::{
    audit::Line,
    documents::DocumentError,
    jobs::{ANSWER_BYTES_MAX, Document, JobName, Jobs, LOOKED_MAX, RunnerTool, State, is_plain},
};

/// How long a runner may say nothing.
const LEASE: Duration = Duration::from_secs(60);
/// How often a job is claimed before it fails: who has it may be lost by it.
const ATTEMPTS_MAX: u32 = 5;
/// Capabilities of one claim.
const CAPABILITIES_MAX: usize = 16;
/// How often it is looked for open jobs that nobody claims and whose sessions are gone.
const CLEAN_EVERY: Duration = Duration::from_secs(60 * 60);
/// Digits of a lease.
const LEASE_DIGITS: usize = 32;

impl Broker {
    /// Makes a job of a call, or says how far it is. `args` have what references stand for.
    pub(crate) async fn offer_job(&self, tool: &RunnerTool, call: &ToolCall, args: Value) -> Result<ToolAnswer, ApiError> {
        let Some(jobs) = self.jobs() else { return Err(no_store()) };
        if call.settled_below > 0 {
            jobs.forget_below(&call.session_uid, call.settled_below).await?;
        }
        let now_ms = self.clock().now_ms();
        let fresh = Document {
            fingerprint: fingerprint(&call.tool, &call.args.to_string()),
            tool: tool.name.clone(),
            capability: tool.capability.clone(),
            args,
            session: call.session.clone(),
            epoch: call.epoch,
            created_ms: now_ms,
            expires_ms: now_ms.saturating_add(i64::try_from(tool.expires_seconds.saturating_mul(1_000)).unwrap_or(i64::MAX)),
            attempts: 0,
            state: State::Waiting,
        };
        match jobs.store.write(&jobs.key(&call.session_uid, call.call), &fresh, Condition::Absent).await {
            Ok(_) | Err(DocumentError::Changed) => {}
            Err(error) => return Err(error.into()),
        }
        self.job_of(jobs, call).await
    }

    /// What came of a call that became a job.
    pub(crate) async fn look_at_job(&self, call: &ToolCall) -> Result<ToolAnswer, ApiError> {
        let Some(jobs) = self.jobs() else { return Err(no_store()) };
        if call.waits == Waits::JobOver {
            let message = "no runner answered in time; make the call again if it is still wanted";
            let over = ToolAnswer::Err { error: ApiError::new(ErrorCode::TimeoutError, message) };
            jobs.change(&call.session_uid, call.call, |document| document.end(over.clone())).await?;
        }
        self.job_of(jobs, call).await
    }

    async fn job_of(&self, jobs: &Jobs, call: &ToolCall) -> Result<ToolAnswer, ApiError> {
        let Some((document, _)) = jobs.read(&call.session_uid, call.call).await? else {
            let message = "the job of this call is not there any more: nobody knows whether a runner has made it";
            return Ok(ToolAnswer::Err { error: ApiError::new(ErrorCode::OutcomeUnknown, message) });
        };
        if call.epoch < document.epoch {
            return Err(ApiError::new(ErrorCode::SessionGone, format!("the session is at epoch {}", document.epoch)));
        }
        if document.fingerprint != fingerprint(&call.tool, &call.args.to_string()) {
            return Err(ApiError::new(ErrorCode::Conflict, format!("call {} was another one", call.call)));
        }
        let job_name = document.job_name(&call.session_uid, call.call);
        match document.state {
            State::Done { answer, .. } => {
                jobs.store.remove(&jobs.open_key(&job_name)).await?;
                Ok(*answer)
            }
            State::Waiting | State::Claimed { .. } => {
                jobs.offer(&job_name).await?;
                let left_ms = document.expires_ms.saturating_sub(self.clock().now_ms());
                let expires_seconds = u64::try_from(left_ms).unwrap_or(0).div_ceil(1_000);
                Ok(ToolAnswer::Parked { parked: Parked { expires_seconds, editable: false, waits_for: WaitsFor::Runner, made_in: None } })
            }
        }
    }

    /// Removes the names of jobs that are not there any more, for ever.
    pub async fn keep_jobs_clean(self) {
        let Some(jobs) = self.jobs() else { return };
        loop {
            if let Err(error) = jobs.clean().await {
                tracing::warn!(%error, "names of jobs that are over stay for now");
            }
            tokio::time::sleep(CLEAN_EVERY).await;
        }
    }

    /// Gives a runner the oldest job that it can do and nobody has.
    ///
    /// # Errors
    /// There is no store for jobs, or it does not answer.
    pub async fn claim_job(&self, call: &ClaimJobCall) -> Result<ClaimedJob, ApiError> {
        let Some(jobs) = self.jobs() else { return Err(no_store()) };
        let mut claimed = ClaimedJob::default();
        for capability in call.capabilities.iter().take(CAPABILITIES_MAX).filter(|name| is_plain(name)) {
            for name in jobs.store.names(&jobs.open_prefix(capability), LOOKED_MAX).await? {
                let Some(job_name) = JobName::read(&name, capability).filter(|_| !jobs.is_leased(&name, self.clock().now_ms())) else {
                    continue;
                };
                match self.try_claim(jobs, &job_name, &call.runner, &mut claimed.ended).await {
                    Ok(Some(job)) => return Ok(ClaimedJob { job: Some(job), ..claimed }),
                    // Another one has it.
                    Ok(None) | Err(DocumentError::Changed) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(claimed)
    }

    async fn try_claim(
        &self,
        jobs: &Jobs,
        job_name: &JobName,
        runner: &str,
        ended: &mut Vec<JobEnded>,
    ) -> Result<Option<Job>, DocumentError> {
        let now_ms = self.clock().now_ms();
        let open = jobs.open_key(job_name);
        let Some((mut document, etag)) = jobs.read(&job_name.uid, job_name.call).await? else {
            jobs.store.remove(&open).await?;
            return Ok(None);
        };
        match &document.state {
            State::Done { .. } => {
                jobs.store.remove(&open).await?;
                return Ok(None);
            }
            State::Claimed { until_ms, .. } if *until_ms > now_ms => {
                jobs.note_lease(job_name.name(), *until_ms);
                return Ok(None);
            }
            State::Claimed { .. } | State::Waiting => {}
        }
        let key = jobs.key(&job_name.uid, job_name.call);
        if document.attempts >= ATTEMPTS_MAX {
            let message = format!("{ATTEMPTS_MAX} runners took the job, and none answered; it is not offered again");
            document.end(ToolAnswer::Err { error: ApiError::new(ErrorCode::ToolResultInvalid, message) });
            jobs.store.write(&key, &document, Condition::Matches(etag)).await?;
            jobs.store.remove(&open).await?;
            ended.push(JobEnded { session: document.session, call: job_name.call });
            return Ok(None);
        }
        let lease = jobs.ids.digits(LEASE_DIGITS);
        let until_ms = now_ms.saturating_add(lease_ms());
        document.attempts += 1;
        document.state = State::Claimed { runner: runner.to_owned(), lease: lease.clone(), until_ms };
        jobs.store.write(&key, &document, Condition::Matches(etag)).await?;
        jobs.note_lease(job_name.name(), until_ms);
        Ok(Some(document.job(&jobs.store.broker, job_name, lease, LEASE.as_secs())))
    }

    /// A runner lives, and goes on with its job.
    ///
    /// # Errors
    /// `Conflict`: the job is not its any more.
    pub async fn keep_job(&self, call: &HeartbeatJobCall) -> Result<JobLease, ApiError> {
        let Some(jobs) = self.jobs() else { return Err(no_store()) };
        let until_ms = self.clock().now_ms().saturating_add(lease_ms());
        let kept = jobs.change(&call.session_uid, call.call, |document| document.keep(&call.lease, until_ms)).await?;
        kept.map(|_| JobLease { lease_seconds: LEASE.as_secs() }).ok_or_else(lost)
    }

    /// Takes a runner's answer. The same one may come twice.
    ///
    /// # Errors
    /// `Conflict`: the job is not its any more. `ToolResultInvalid`: it does not fit the tool, or is too large; the job stays the runner's.
    pub async fn answer_job(&self, call: &AnswerJobCall) -> Result<AnsweredJob, ApiError> {
        let Some(jobs) = self.jobs() else { return Err(no_store()) };
        let Some((document, _)) = jobs.read(&call.session_uid, call.call).await? else { return Err(lost()) };
        if let ToolAnswer::Ok { value } = &call.answer {
            let large = serde_json::to_vec(value).map_or(usize::MAX, |json| json.len()) > ANSWER_BYTES_MAX;
            if large {
                return Err(ApiError::new(
                    ErrorCode::ToolResultInvalid,
                    format!("an answer has {ANSWER_BYTES_MAX} bytes at most: put what is larger where the tool's arguments say"),
                ));
            }
            // Of a tool that is gone meanwhile nothing is known.
            let tool = self.runner_tool(&document.tool);
            if let Some(Err(error)) = tool.as_ref().map(|tool| tool.output.validate(value)) {
                let path = error.instance_path().to_string();
                let message = format!("the answer does not fit the tool's output schema at `{path}`");
                return Err(ApiError::new(ErrorCode::ToolResultInvalid, message).with_detail("path", path));
            }
        }
        let ended = AnsweredJob { session: document.session.clone() };
        if document.was_answered_under(&call.lease) {
            return Ok(ended);
        }
        let changed = jobs.change(&call.session_uid, call.call, |document| document.answer(&call.lease, &call.answer)).await?;
        let Some(document) = changed else { return Err(lost()) };
        jobs.store.remove(&jobs.open_key(&document.job_name(&call.session_uid, call.call))).await?;
        self.note(&Line::job(call, &document.session, &document.tool, &document.args, &call.by));
        Ok(ended)
    }
}

fn lease_ms() -> i64 {
    i64::try_from(LEASE.as_millis()).unwrap_or(i64::MAX)
}

fn no_store() -> ApiError {
    let message = "jobs need a journal that is stored: give the ToolBroker a pool in spec.journal";
    ApiError::new(ErrorCode::NotSupported, message)
}

fn lost() -> ApiError {
    let message = "the job is not this runner's any more: it was answered, is over, or was offered again for want of a heartbeat";
    ApiError::new(ErrorCode::Conflict, message)
}
