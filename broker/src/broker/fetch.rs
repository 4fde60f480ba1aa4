//! `fetch`, from the rules to the answer; and the bodies that it leaves open.

use std::{sync::Arc, time::Duration};

use dormouse_crds::egress::EgressRule;
use dormouse_protocol::{
    ApiError, ErrorCode,
    broker::{BodyAnswer, BodyCall, CloseCall, FetchCall, FetchRequest, ToolAnswer, ToolCall},
};
use tokio::time::Instant;

use super::{Broker, OUTCOME_SLACK, gate::Gate, models};
use crate::{
    approval::Approval,
    audit::{Line, is_idle_look},
    egress::{self, HEAD_WAIT_MAX, Judge, Parsed},
    ledger::NonIdempotent,
    net::Fault,
};

impl Broker {
    /// Makes a request, or joins one that is being made, or answers from the journal: as [`Broker::call`] does.
    ///
    /// # Errors
    /// As those of a call. That the rules refuse it, and that nobody answers, are answers.
    pub async fn fetch(&self, call: FetchCall) -> Result<Arc<ToolAnswer>, ApiError> {
        let FetchCall { call, allow } = call;
        let written = Arc::new(call);
        let answered = self.answer_fetch(Arc::clone(&written), allow).await;
        self.note_refusal("fetch", &written, &answered);
        answered
    }

    async fn answer_fetch(&self, written: Arc<ToolCall>, allow: Vec<EgressRule>) -> Result<Arc<ToolAnswer>, ApiError> {
        let request = request_in(&written.args)?;
        if models::is_question(&request) {
            // To ask a model twice does no harm but to what may be spent on it.
            return self.once(written, None, |broker, call| async move { broker.stream_model(&call, &request).await }).await;
        }
        let mut parsed = egress::parse(request);
        // What is refused is so before anybody is asked.
        let rules = self.broker_rules();
        let allowed = match &parsed {
            Ok(parsed) => Judge::new(&allow, Arc::clone(&rules)).and_then(|judge| judge.judge(parsed.url(), &parsed.method)).is_ok(),
            Err(_) => false,
        };
        let asked = parsed.as_ref().ok().filter(|_| allowed).map(|parsed| (parsed, parsed.described()));
        let wanted = asked.and_then(|(parsed, described)| {
            rules.approvals(parsed.url(), &parsed.method).into_iter().find(|approval| approval.wants(&described))
        });
        let (call, agreed) = match self.gate_of(wanted, &written).await? {
            Gate::Open => (written, false),
            Gate::Approved(args) => {
                // Whoever agreed may have changed it.
                parsed = egress::parse(request_in(&args)?);
                (Arc::new(ToolCall { args, ..(*written).clone() }), true)
            }
            Gate::Answer(answer) => {
                if !is_idle_look(&written, &answer) {
                    self.note(&Line::call("fetch", &written, &answer, Duration::ZERO));
                }
                return Ok(Arc::new(answer));
            }
        };
        // What cannot be sent has no effect either. What somebody agreed to is made once, whatever its method.
        let safe = !agreed && parsed.as_ref().map_or(true, |parsed| parsed.method.is_safe());
        let non_idempotent = (!safe).then_some(NonIdempotent { wait: HEAD_WAIT_MAX + OUTCOME_SLACK, honours_key: false });
        self.once(call, non_idempotent, |broker, call| async move { broker.make_fetch(&call, &allow, parsed).await }).await
    }

    /// Whether a request may be changed to this one by whoever agrees, and whether it is one.
    pub(crate) fn change_of_fetch(&self, args: &serde_json::Value) -> (bool, Result<(), ApiError>) {
        let parsed = match request_in(args).map(egress::parse) {
            Ok(Ok(parsed)) => parsed,
            Err(error) | Ok(Err(Fault::Refused(error))) => return (true, Err(error)),
            Ok(Err(Fault::Network(_))) => return (true, Err(ApiError::new(ErrorCode::InvalidRequest, "not a request"))),
        };
        let rules = self.broker_rules();
        (rules.approvals(parsed.url(), &parsed.method).into_iter().any(Approval::is_editable), Ok(()))
    }

    async fn make_fetch(&self, call: &ToolCall, allow: &[EgressRule], request: Result<Parsed, Fault>) -> ToolAnswer {
        let started = Instant::now();
        let rules = self.broker_rules();
        let (outcome, said) = self.egress().fetch(call, request, || Judge::new(allow, rules)).await;
        // The address is the cell's own matter, and may hold what is secret to it.
        tracing::info!(
            session = call.session,
            session_uid = call.session_uid,
            epoch = call.epoch,
            call = call.call,
            outcome = said,
            milliseconds = started.elapsed().as_millis(),
            "fetch",
        );
        let value = outcome.and_then(|outcome| {
            serde_json::to_value(outcome)
                .map_err(|error| ApiError::new(ErrorCode::Internal, format!("the answer cannot be written: {error}")))
        });
        let answer = match value {
            Ok(value) => ToolAnswer::Ok { value },
            Err(error) => ToolAnswer::Err { error },
        };
        self.note(&Line::call("fetch", call, &answer, started.elapsed()));
        answer
    }

    /// The next part of an open body.
    ///
    /// # Errors
    /// `SessionGone` for an epoch that is over.
    pub async fn body(&self, call: BodyCall) -> Result<BodyAnswer, ApiError> {
        self.egress().body(&call).await
    }

    /// Gives a fetch up, or closes its body. There may be neither any more.
    pub fn close(&self, call: &CloseCall) {
        self.egress().close(call);
    }
}

fn request_in(args: &serde_json::Value) -> Result<FetchRequest, ApiError> {
    serde_json::from_value(args.clone()).map_err(|error| ApiError::new(ErrorCode::InvalidRequest, format!("not a request: {error}")))
}
