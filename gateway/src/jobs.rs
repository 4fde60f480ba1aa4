//! Calls that runners make: each function is one verb of the API, free of HTTP.

use std::{collections::BTreeSet, time::Duration};

use dormouse_protocol::{
    ApiError, ErrorCode,
    broker::{AnswerJobCall, AnsweredJob, ClaimJobCall, ClaimedJob, HeartbeatJobCall, JobEnded, ToolAnswer},
    job::{AnswerJob, CLAIM_WAIT_SECONDS_MAX, ClaimJob, Job, JobAnswered, JobLease},
};
use tokio::time::Instant;

use crate::{
    approvals::{tell, unheard},
    directory::Key,
    router::Router,
};

/// How often brokers are asked while a claim waits.
const CLAIM_POLL: Duration = Duration::from_millis(500);

/// Which call a job is of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobId {
    /// The ToolBroker.
    pub broker: String,
    uid: String,
    call: u64,
}

impl JobId {
    /// What an id says.
    ///
    /// # Errors
    /// It is none.
    pub fn read(text: &str) -> Result<Self, ApiError> {
        let mut parts = text.split('.');
        let read = (|| {
            let (broker, uid, call) = (parts.next()?.to_owned(), parts.next()?.to_owned(), parts.next()?.parse().ok()?);
            parts.next().is_none().then_some(Self { broker, uid, call })
        })();
        read.ok_or_else(|| ApiError::new(ErrorCode::InvalidRequest, "this is no job's id: send the one that the claim answered"))
    }
}

/// The oldest job that one of these brokers has for the runner, or none within its time.
pub async fn claim(router: &Router, namespace: &str, brokers: &BTreeSet<String>, body: &ClaimJob) -> Result<Option<Job>, ApiError> {
    let until = Instant::now() + Duration::from_secs(body.wait_seconds.min(CLAIM_WAIT_SECONDS_MAX));
    let call = ClaimJobCall { namespace: namespace.to_owned(), capabilities: body.capabilities.clone(), runner: body.runner.clone() };
    loop {
        for broker in brokers {
            let asked = router.kernels().ask_broker::<ClaimedJob>(namespace, broker, "/v1/jobs/claim", &call);
            let claimed = asked.await.map_err(|error| unheard(broker, error))?;
            for JobEnded { session, call } in claimed.ended {
                tell(router, &Key::new(namespace, session), call).await;
            }
            if claimed.job.is_some() {
                return Ok(claimed.job);
            }
        }
        if Instant::now() + CLAIM_POLL > until {
            return Ok(None);
        }
        tokio::time::sleep(CLAIM_POLL).await;
    }
}

/// The runner of a job lives.
pub async fn heartbeat(router: &Router, namespace: &str, id: &JobId, lease: String) -> Result<JobLease, ApiError> {
    let call = HeartbeatJobCall { namespace: namespace.to_owned(), session_uid: id.uid.clone(), call: id.call, lease };
    let asked = router.kernels().ask_broker(namespace, &id.broker, "/v1/jobs/heartbeat", &call);
    asked.await.map_err(|error| unheard(&id.broker, error))
}

/// The runner of a job answers; this returns when the answer is stored.
pub async fn answer(router: &Router, namespace: &str, id: &JobId, body: AnswerJob, by: &str) -> Result<JobAnswered, ApiError> {
    let answer = match body.ok {
        true => ToolAnswer::Ok { value: body.value },
        false => {
            let message = body.error.unwrap_or_else(|| "the runner says that it failed, and nothing else".to_owned());
            ToolAnswer::Err { error: ApiError::new(ErrorCode::ToolResultInvalid, message) }
        }
    };
    let call = AnswerJobCall {
        namespace: namespace.to_owned(),
        session_uid: id.uid.clone(),
        call: id.call,
        lease: body.lease,
        answer,
        by: by.to_owned(),
    };
    let asked = router.kernels().ask_broker::<AnsweredJob>(namespace, &id.broker, "/v1/jobs/answer", &call);
    let answered = asked.await.map_err(|error| unheard(&id.broker, error))?;
    Ok(JobAnswered { told: tell(router, &Key::new(namespace, answered.session), id.call).await })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_names_broker_session_and_call_and_nothing_else_does() {
        let id = JobId::read("tools.6f1c-2.12").unwrap();
        assert_eq!((id.broker.as_str(), id.uid.as_str(), id.call), ("tools", "6f1c-2", 12));
        for wrong in ["", "tools", "tools.u", "tools.u.x", "tools.u.1.2"] {
            assert!(JobId::read(wrong).is_err(), "{wrong}");
        }
    }
}
