//! A call, from claim to answer.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use dormouse_protocol::{
    ApiError, ErrorCode,
    broker::{StreamedAnswer, ToolAnswer, ToolCall, Waits},
};
use dormouse_service::origin::Origin;
use serde_json::Value;

use super::{Broker, Inner, OUTCOME_SLACK, gate::Gate};
use crate::{
    audit::{Line, is_idle_look},
    callee::{Callee, Means, Prepared, SERVICE},
    declarations,
    exchange::Answer,
    ledger::{Admitted, NonIdempotent},
    models::SUB_LM,
    recent::{Claim, Ticket, ended},
    room,
};

impl Broker {
    /// Makes a call, or joins one that is being made, or answers what it was answered before. The call goes on when the caller goes away:
    /// the session's next process asks for the same one.
    ///
    /// # Errors
    /// `SessionGone` for an epoch that is over, `Conflict` for a number that was used otherwise, `OutcomeUnknown` for a call whose outcome nobody knows
    /// any more. A tool's failure is an answer.
    pub async fn call(&self, call: ToolCall) -> Result<Arc<ToolAnswer>, ApiError> {
        let written = Arc::new(call);
        let answered = self.answer(Arc::clone(&written)).await;
        self.note_refusal("call", &written, &answered);
        answered
    }

    async fn answer(&self, written: Arc<ToolCall>) -> Result<Arc<ToolAnswer>, ApiError> {
        if matches!(written.waits, Waits::Job | Waits::JobOver) {
            return self.look_at_job(&written).await.map(Arc::new);
        }
        let args = written.arguments();
        let asked = args.as_ref().ok().and_then(|args| self.callee(&written.tool, args));
        let (call, agreed) = match self.gate(asked.as_ref(), &written, args.as_deref().ok()).await? {
            Gate::Open => (Arc::clone(&written), false),
            Gate::Approved(args) => (Arc::new(ToolCall { args, ..(*written).clone() }), true),
            Gate::Answer(answer) => {
                if !is_idle_look(&written, &answer) {
                    self.inner.meters.outcome(asked.as_ref().map(Callee::label).as_deref(), &answer);
                    self.note(&Line::call("call", &written, &answer, Duration::ZERO));
                }
                return Ok(Arc::new(answer));
            }
        };
        // Whoever agreed may have changed the arguments.
        let args = if agreed { call.arguments() } else { args };
        let (callee, prepared) = match args {
            Ok(args) => {
                let callee = if agreed { self.callee(&call.tool, &args) } else { asked };
                let prepared = callee.as_ref().map_or_else(|| Err(unknown(&call.tool)), |callee| callee.prepare(&args));
                if let (Some(Callee::Runner(tool)), Ok(_)) = (&callee, &prepared) {
                    // A job is known by what the code wrote, whatever somebody made of it.
                    return self.offer_job(tool, &written, args.into_owned()).await.map(Arc::new);
                }
                (callee, prepared)
            }
            Err(error) => (None, Err(error)),
        };
        // What cannot be made has no effect. What somebody agreed to is made once, whatever its method.
        let harms = agreed || prepared.as_ref().is_ok_and(|prepared| !prepared.is_safe());
        let non_idempotent = callee.as_ref().filter(|_| harms).map(|callee| NonIdempotent {
            wait: callee.timeout() * 2 + OUTCOME_SLACK,
            honours_key: callee.service().is_some_and(|service| service.honours_idempotency_key),
        });
        self.once(call, non_idempotent, |broker, call| async move { broker.make(callee, prepared, &call).await }).await
    }

    /// Claims a call and has it made, unless it was made before; without `non_idempotent`, making it twice does no harm.
    pub(crate) async fn once<Made>(
        &self,
        call: Arc<ToolCall>,
        non_idempotent: Option<NonIdempotent>,
        make: impl FnOnce(Self, Arc<ToolCall>) -> Made,
    ) -> Result<Arc<ToolAnswer>, ApiError>
    where
        Made: Future<Output = ToolAnswer> + Send + 'static,
    {
        let may_be_new = non_idempotent.is_none_or(|non_idempotent| self.inner.ledger.is_some() || non_idempotent.honours_key);
        loop {
            let claim = self.inner.recent.claim(&call, may_be_new).inspect_err(|error| self.inner.meters.refused(error))?;
            match claim {
                Claim::Answered(answer) => {
                    self.inner.meters.repeats.inc();
                    return Ok(answer);
                }
                Claim::Wait(pending) => match ended(Some(pending)).await {
                    // Of the epoch that was first to ask; this one may be a later one.
                    Err(error) if error.code == ErrorCode::SessionGone => {}
                    outcome => {
                        self.inner.meters.repeats.inc();
                        return outcome;
                    }
                },
                Claim::Run(ticket) => {
                    let pending = ticket.pending();
                    let (broker, made) = (self.clone(), make(self.clone(), Arc::clone(&call)));
                    let (origin, room) = (Origin::current(), room::current());
                    let carried_out = async move { broker.carry_out(&call, ticket, non_idempotent, made).await };
                    tokio::spawn(origin.run(room.around(carried_out)));
                    return ended(pending).await;
                }
            }
        }
    }

    /// Has a call made that this process has not made. One that is not safe to repeat first gets the ledger's word, and then tells it what came.
    async fn carry_out(
        &self,
        call: &ToolCall,
        ticket: Ticket,
        non_idempotent: Option<NonIdempotent>,
        made: impl Future<Output = ToolAnswer>,
    ) {
        let (Some(ledger), Some(non_idempotent)) = (&self.inner.ledger, non_idempotent) else {
            return match made.await {
                // It can be read once, and the call made again.
                answer @ ToolAnswer::Stream { .. } if non_idempotent.is_none() => ticket.hand_over(answer),
                answer => ticket.finish(Arc::new(answer)),
            };
        };
        match ledger.admit(call, non_idempotent).await {
            Ok(Admitted::Make(attempt)) => {
                let answer = Arc::new(made.await);
                ledger.settle(call, attempt, &answer).await;
                ticket.finish(answer);
            }
            Ok(Admitted::Answered(answer)) => {
                self.inner.meters.repeats.inc();
                ticket.finish(Arc::new(answer));
            }
            Err(error) => {
                self.inner.meters.refused(&error);
                ticket.refuse(error);
            }
        }
    }

    async fn make(&self, callee: Option<Callee>, prepared: Result<Prepared, ApiError>, call: &ToolCall) -> ToolAnswer {
        let meters = &self.inner.meters;
        let started = Instant::now();
        meters.in_flight.inc();
        let repeatable = prepared.as_ref().is_ok_and(Prepared::is_safe);
        let result = match (&callee, prepared) {
            (_, Err(error)) => Err(error),
            (None, Ok(_)) => Err(unknown(&call.tool)),
            (Some(Callee::List), Ok(_)) => serde_json::to_value(self.tools())
                .map(Answer::from)
                .map_err(|error| ApiError::new(ErrorCode::Internal, format!("the list of tools cannot be written: {error}"))),
            (Some(Callee::Declarations), Ok(_)) => Ok(Value::from(declarations::of(&self.tools())).into()),
            (Some(callee), Ok(prepared)) => self.run(callee, prepared, call).await,
        };
        meters.in_flight.dec();
        if let Some(callee) = &callee {
            tracing::info!(
                tool = call.tool,
                service = callee.service().map(|service| service.name.as_str()),
                session = call.session,
                session_uid = call.session_uid,
                epoch = call.epoch,
                call = call.call,
                outcome = result.as_ref().map_or_else(|error| error.code.to_string(), |_| "ok".to_owned()),
                milliseconds = started.elapsed().as_millis(),
                "tool call",
            );
        }
        let answer = match result {
            Ok(Answer::Value(value)) => ToolAnswer::Ok { value },
            Ok(Answer::Open(reader, mime_type)) => match self.inner.egress.open(call, *reader) {
                Ok(()) => ToolAnswer::Stream { stream: StreamedAnswer { mime_type, repeatable } },
                Err(error) => ToolAnswer::Err { error },
            },
            Err(error) => ToolAnswer::Err { error },
        };
        self.made(callee.as_ref(), call, &answer, started.elapsed());
        answer
    }

    /// Counts a call that was made, and has it in the audit.
    pub(crate) fn made(&self, callee: Option<&Callee>, call: &ToolCall, answer: &ToolAnswer, took: Duration) {
        let label = callee.map(Callee::label);
        self.inner.meters.took(label.as_deref(), took);
        self.inner.meters.outcome(label.as_deref(), answer);
        let model = match callee {
            Some(Callee::Model(model)) => Some(model.name.as_str()),
            _ => None,
        };
        self.note(&Line::call("call", call, answer, took).about_model(model));
    }

    async fn run(&self, callee: &Callee, prepared: Prepared, call: &ToolCall) -> Result<Answer, ApiError> {
        let places = async {
            let permits = callee.enter(&call.session_uid).await;
            (permits, self.inner.slots.acquire().await)
        };
        let limited = |_| {
            let message = "there were more calls than the limits of the tool, its service or the broker allow: call again later";
            ApiError::new(ErrorCode::RateLimited, message)
        };
        let _places = tokio::time::timeout(callee.timeout(), places).await.map_err(limited)?;
        let Inner { http, secrets, spending, egress, uploads, .. } = &*self.inner;
        let received = &egress.received();
        callee.make(prepared, Means { http, secrets, spending, received, uploads }, call).await
    }
}

/// The name is the caller's, and may be long.
fn unknown(tool: &str) -> ApiError {
    let message = match tool {
        SERVICE => "the broker has no such service that cells may call: `direct` is what lets them",
        SUB_LM => "the broker has no model of this name: name one of spec.models in `model`",
        _ => "the broker has no tool of this name; GET /v1/tools lists them",
    };
    ApiError::new(ErrorCode::ToolNotFound, message)
}
