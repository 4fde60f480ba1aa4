//! When calls wait for a person.

use cel::{Context, Program, Value as CelValue};
use dormouse_crds::approval::{
    APPROVAL_SECONDS_DEFAULT, APPROVAL_SECONDS_MAX, APPROVAL_WHEN_BYTES_MAX, Approval as ApprovalSpec, ApprovalRules, ApprovalWord,
};
use dormouse_protocol::broker::{Parked, WaitsFor};

use crate::{Problem, ProblemKind};

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

    /// How a call waits by it.
    pub(crate) fn parked(&self) -> Parked {
        Parked { expires_seconds: self.expires_seconds, editable: self.editable, ..LEFT }
    }
}

fn compile(text: &str) -> Result<Program, String> {
    if text.len() > APPROVAL_WHEN_BYTES_MAX {
        return Err(format!("it has more than {APPROVAL_WHEN_BYTES_MAX} bytes"));
    }
    Program::compile(text).map_err(|error| error.to_string())
}

/// How a call goes on waiting whose rule is gone.
pub(crate) const LEFT: Parked =
    Parked { expires_seconds: APPROVAL_SECONDS_DEFAULT, editable: false, waits_for: WaitsFor::Person, made_in: None };

#[cfg(test)]
mod tests {
    use dormouse_protocol::broker::digest;
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
