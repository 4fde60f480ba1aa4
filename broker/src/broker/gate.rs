//! Calls that wait for a person: whether one may be made, and what somebody decided.
//!
//! A broker keeps nothing of a call that waits. It says so, the session keeps the call in its record, and asks again when somebody has decided. The
//! decision comes from a gateway and goes into the session's page of calls; it binds session, epoch, call, tool and arguments, and the first one stands.

use dormouse_lifecycle::calls::{Decision, Verdict};
use dormouse_protocol::{
    ApiError, ErrorCode,
    broker::{DecideCall, FETCH, Parked, ToolAnswer, ToolCall, Waits, digest},
};

use super::Broker;
use crate::{
    approval::{Approval, LEFT},
    audit::Line,
    callee::Callee,
    ledger::Standing,
};

/// Bytes of a reason that code is told.
const REASON_BYTES_MAX: usize = 1 << 10;

/// What a call goes on with.
pub(crate) enum Gate {
    /// It needs nobody.
    Open,
    /// Somebody has agreed: it is made with these arguments, and is journaled whatever its method.
    Approved(serde_json::Value),
    /// It is answered so.
    Answer(ToolAnswer),
}

impl Broker {
    /// Whether a call may be made now. `args` have what references stand for; somebody decides about what the code wrote.
    ///
    /// # Errors
    /// There is no store for decisions, or it cannot be read.
    pub(crate) async fn gate(&self, callee: Option<&Callee>, call: &ToolCall, args: Option<&serde_json::Value>) -> Result<Gate, ApiError> {
        // Arguments that do not fit are refused before anybody is asked.
        let fits = callee.filter(|callee| callee.approval().is_some()).zip(args).filter(|(callee, args)| callee.prepare(args).is_ok());
        let wanted = fits.and_then(|(callee, args)| callee.approval().filter(|approval| approval.wants(args)));
        self.gate_of(wanted, call).await
    }

    /// The same of a call that waits as `wanted` has it, or needs nobody.
    ///
    /// # Errors
    /// There is no store for decisions, or it cannot be read.
    pub(crate) async fn gate_of(&self, wanted: Option<&Approval>, call: &ToolCall) -> Result<Gate, ApiError> {
        if wanted.is_none() && call.waits == Waits::No {
            // Its answer that it waits may have been lost, and the rule be gone since.
            let waits = match self.ledger().filter(|_| call.repeated) {
                Some(ledger) => ledger.is_parked(call).await?,
                None => false,
            };
            if !waits {
                return Ok(Gate::Open);
            }
        }
        let Some(ledger) = self.ledger() else {
            let message = "calls that wait for a person need a journal that is stored: give the ToolBroker a pool in spec.journal";
            return Ok(Gate::Answer(ToolAnswer::Err { error: ApiError::new(ErrorCode::NotSupported, message) }));
        };
        let standing = match call.waits {
            Waits::Over => {
                let known = ledger.standing(&call.session_uid, call.call).await?;
                let epoch = known.made_in.or(call.made_in).unwrap_or(call.epoch);
                let expired = Decision { id: format!("over-{}", call.call), epoch, verdict: Verdict::Expired, by: String::new() };
                match ledger.decide(&call.session_uid, call.call, expired).await {
                    // It was made before.
                    Err(error) if error.code == ErrorCode::ApprovalUsed => ledger.standing(&call.session_uid, call.call).await?,
                    stands => Standing { decision: Some(stands?), ..known },
                }
            }
            // From now on it waits, whatever becomes of the rule and of this answer.
            Waits::No => ledger.park(call).await?,
            Waits::Decision | Waits::Job | Waits::JobOver => ledger.standing(&call.session_uid, call.call).await?,
        };
        let made_in = call.made_in.or(standing.made_in);
        let Some(Decision { epoch, verdict, .. }) = standing.decision else {
            // The rule may be gone by now: what waits does so until somebody decides.
            let parked = wanted.map_or(LEFT, Approval::parked);
            return Ok(Gate::Answer(ToolAnswer::Parked { parked: Parked { made_in, ..parked } }));
        };
        Ok(match verdict {
            Verdict::Approved { digest: seen, arguments } => {
                if seen != digest(&call.tool, &call.args) || made_in.is_some_and(|made_in| made_in != epoch) {
                    let message = "somebody agreed to another call of this number: it is not made";
                    return Ok(Gate::Answer(ToolAnswer::Err { error: ApiError::new(ErrorCode::ApprovalDenied, message) }));
                }
                Gate::Approved(arguments.unwrap_or_else(|| call.args.clone()))
            }
            Verdict::Denied { reason } => {
                let reason = reason.map(|reason| format!(": {reason}")).unwrap_or_default();
                let message = format!("the call of {} was denied{reason}", call.tool);
                Gate::Answer(ToolAnswer::Err { error: ApiError::new(ErrorCode::ApprovalDenied, message) })
            }
            Verdict::Expired => {
                let message = format!("nobody decided about the call of {} in time; make it again if it is still wanted", call.tool);
                Gate::Answer(ToolAnswer::Err { error: ApiError::new(ErrorCode::ApprovalExpired, message) })
            }
        })
    }

    /// Whether whoever agrees may change a call's arguments to these.
    fn admit_change(&self, tool: &str, arguments: &serde_json::Value) -> Result<(), ApiError> {
        let (editable, fits) = match tool {
            FETCH => self.change_of_fetch(arguments),
            _ => {
                let callee = self.callee(tool, arguments);
                let editable = callee.as_ref().and_then(Callee::approval).is_some_and(Approval::is_editable);
                (editable, callee.map_or(Ok(()), |callee| callee.prepare(arguments).map(drop)))
            }
        };
        if !editable {
            return Err(ApiError::new(ErrorCode::Forbidden, "the arguments of this tool may not be changed: it is not `editable`"));
        }
        fits.map_err(|error| ApiError::new(ErrorCode::ToolArgsInvalid, format!("the changed arguments do not fit the tool: {error}")))
    }

    /// Takes somebody's decision about a call that waits. The same one may come twice.
    ///
    /// # Errors
    /// `ApprovalUsed` when another one stands, `ApprovalExpired` when the time was over, `ApprovalMismatch` when the call that waits was made in another
    /// epoch, `Forbidden` for arguments that may not be changed, `ToolArgsInvalid` for those that do not fit the tool.
    pub async fn decide(&self, call: DecideCall) -> Result<(), ApiError> {
        let line = Line::decision(&call);
        let decided = self.take_decision(call).await;
        // One that is refused is told of, too.
        self.note(&match &decided {
            Ok(()) => line,
            Err(error) => line.with_error(error),
        });
        decided
    }

    async fn take_decision(&self, call: DecideCall) -> Result<(), ApiError> {
        let Some(ledger) = self.ledger() else {
            return Err(ApiError::new(ErrorCode::NotSupported, "this broker has no store for decisions"));
        };
        if call.reason.as_ref().is_some_and(|reason| reason.len() > REASON_BYTES_MAX) {
            return Err(ApiError::new(ErrorCode::InvalidRequest, format!("a reason has {REASON_BYTES_MAX} bytes at most")));
        }
        let arguments = call.arguments.filter(|_| call.approve);
        if let Some(arguments) = &arguments {
            self.admit_change(&call.tool, arguments)?;
        }
        let verdict = match call.approve {
            true => Verdict::Approved { digest: call.digest, arguments },
            false => Verdict::Denied { reason: call.reason },
        };
        let decision = Decision { id: call.id.clone(), epoch: call.epoch, verdict, by: call.by.clone() };
        let standing = ledger.decide(&call.session_uid, call.call, decision).await?;
        match standing {
            standing if standing.id == call.id => Ok(()),
            Decision { verdict: Verdict::Expired, .. } => {
                Err(ApiError::new(ErrorCode::ApprovalExpired, "the time of this approval was over before the decision came"))
            }
            _ => Err(ApiError::new(ErrorCode::ApprovalUsed, "it was decided about this call before; the first decision stands")),
        }
    }
}
