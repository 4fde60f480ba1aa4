//! Calls that wait for a person: which do, and what was decided.
//!
//! A broker keeps nothing of a call that waits. It says so, the session keeps the call in its record, and asks again when somebody has decided. The
//! decision comes from a gateway and goes into the session's page of calls; it binds session, epoch, call, tool and arguments, and the first one stands.

use cel::{Context, Program, Value as CelValue};
use dormouse_crds::broker::{
    APPROVAL_SECONDS_DEFAULT, APPROVAL_SECONDS_MAX, APPROVAL_WHEN_BYTES_MAX, Approval as ApprovalSpec, ApprovalRules, ApprovalWord,
};
use dormouse_lifecycle::calls::{Decision, Verdict};
use dormouse_protocol::{
    ApiError, ErrorCode,
    broker::{DecideCall, FETCH, Parked, ToolAnswer, ToolCall, Waits, WaitsFor, digest},
};

use crate::{Broker, Problem, ProblemKind, audit::Line, callee::Callee, ledger::Standing};

/// Bytes of a reason that code is told.
const REASON_BYTES_MAX: usize = 1 << 10;

/// When calls of a tool wait.
#[derive(Debug)]
pub(crate) struct Approval {
    /// Absent: always.
    when: Option<Program>,
    editable: bool,
    expires_seconds: u64,
}

impl Approval {
    /// `None` where no call waits.
    pub(crate) fn compile(spec: &ApprovalSpec, path: &str, problems: &mut Vec<Problem>) -> Option<Self> {
        let rules = match spec {
            ApprovalSpec::Word(ApprovalWord::Never) => return None,
            ApprovalSpec::Word(ApprovalWord::Always) => ApprovalRules::default(),
            ApprovalSpec::Rules(rules) => rules.clone(),
        };
        let expires_seconds = rules.expires_seconds.unwrap_or(APPROVAL_SECONDS_DEFAULT);
        if expires_seconds == 0 || expires_seconds > APPROVAL_SECONDS_MAX {
            problems.push(Problem { path: format!("{path}.approval.expiresSeconds"), kind: ProblemKind::Limit(APPROVAL_SECONDS_MAX) });
        }
        let when = rules.when.as_deref().map(compile);
        let when = match when.transpose() {
            Ok(when) => when,
            Err(message) => {
                problems.push(Problem { path: format!("{path}.approval.when"), kind: ProblemKind::Expression(message) });
                None
            }
        };
        Some(Self { when, editable: rules.editable, expires_seconds })
    }

    /// Whether a call with these arguments waits. What cannot be evaluated does.
    pub(crate) fn wants(&self, args: &serde_json::Value) -> bool {
        let Some(when) = &self.when else { return true };
        let mut context = Context::default();
        if context.add_variable("args", args.clone()).is_err() {
            return true;
        }
        !matches!(when.execute(&context), Ok(CelValue::Bool(false)))
    }

    /// Whether whoever agrees may change the arguments.
    pub(crate) fn is_editable(&self) -> bool {
        self.editable
    }

    fn parked(&self) -> Parked {
        Parked { expires_seconds: self.expires_seconds, editable: self.editable, ..LEFT }
    }
}

fn compile(text: &str) -> Result<Program, String> {
    if text.len() > APPROVAL_WHEN_BYTES_MAX {
        return Err(format!("it has more than {APPROVAL_WHEN_BYTES_MAX} bytes"));
    }
    Program::compile(text).map_err(|error| error.to_string())
}

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

/// How a call goes on waiting whose rule is gone.
const LEFT: Parked = Parked { expires_seconds: APPROVAL_SECONDS_DEFAULT, editable: false, waits_for: WaitsFor::Person, made_in: None };

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rules(when: &str) -> (Option<Approval>, Vec<Problem>) {
        let mut problems = Vec::new();
        let spec = ApprovalSpec::Rules(ApprovalRules { when: Some(when.to_owned()), ..ApprovalRules::default() });
        (Approval::compile(&spec, "tools[0]", &mut problems), problems)
    }

    #[test]
    fn a_call_waits_where_the_rule_says_so_or_cannot_be_evaluated() {
        let (approval, problems) = rules("args.amount > 100");
        assert!(problems.is_empty(), "{problems:?}");
        let approval = approval.unwrap();
        assert!(approval.wants(&json!({ "amount": 101 })) && !approval.wants(&json!({ "amount": 100 })));
        assert!(approval.wants(&json!({ "sum": 1 })), "there is no amount");
        assert!(approval.wants(&json!({ "amount": "much" })));
        let (text, _) = rules("args.to.endsWith('@acme.example') == false");
        let text = text.unwrap();
        assert!(!text.wants(&json!({ "to": "a@acme.example" })) && text.wants(&json!({ "to": "a@else.example" })));
    }

    #[test]
    fn a_rule_that_is_none_is_a_problem_of_its_field() {
        for wrong in ["args.amount >", "", &"x".repeat(APPROVAL_WHEN_BYTES_MAX + 1)] {
            let (_, problems) = rules(wrong);
            assert_eq!(problems.iter().map(|problem| problem.path.as_str()).collect::<Vec<_>>(), ["tools[0].approval.when"], "{wrong:.20}");
        }
    }

    #[test]
    fn the_digest_binds_tool_and_arguments_whatever_the_order_of_fields() {
        let one = digest("pay", &json!({ "to": "a", "n": { "x": 1, "y": [1, 2] } }));
        assert_eq!(one, digest("pay", &serde_json::from_str(r#"{"n": {"y": [1, 2], "x": 1}, "to": "a"}"#).unwrap()));
        for other in [json!({ "to": "a", "n": { "x": 1, "y": [2, 1] } }), json!({ "to": "b", "n": { "x": 1, "y": [1, 2] } })] {
            assert_ne!(one, digest("pay", &other));
        }
        assert_ne!(one, digest("pay2", &json!({ "to": "a", "n": { "x": 1, "y": [1, 2] } })));
    }
}
