//! A tool whose calls runners make, as its spec has it.

use dormouse_crds::{
    approval::APPROVAL_SECONDS_MAX,
    tools::{Runner, Tool},
};
use dormouse_protocol::broker::ToolDescription;
use jsonschema::Validator;
use serde_json::json;

use super::is_plain;
use crate::{Problem, ProblemKind, approval::Approval, schema};

/// A tool whose calls runners make.
#[derive(Debug)]
pub(crate) struct RunnerTool {
    pub(crate) name: String,
    pub(crate) capability: String,
    pub(crate) expires_seconds: u64,
    pub(crate) input: Validator,
    pub(crate) output: Validator,
    pub(crate) approval: Option<Approval>,
    pub(crate) description: ToolDescription,
}

impl RunnerTool {
    /// The checked form; what is wrong with it goes to `problems`.
    pub(crate) fn compile(spec: &Tool, runner: &Runner, path: &str, problems: &mut Vec<Problem>) -> Option<Self> {
        let mut problem = |field: &str, kind| problems.push(Problem { path: format!("{path}.{field}"), kind });
        if !is_plain(&runner.capability) {
            problem("runner.capability", ProblemKind::Path("must be letters, digits and '-', 63 at most"));
        }
        if runner.expires_seconds == 0 || runner.expires_seconds > APPROVAL_SECONDS_MAX {
            problem("runner.expiresSeconds", ProblemKind::Limit(APPROVAL_SECONDS_MAX));
        }
        let input = schema::compile(spec.input.as_ref()).map_err(|kind| problem("input", kind)).ok();
        let output = schema::compile(spec.output.as_ref()).map_err(|kind| problem("output", kind)).ok();
        let approval = Approval::compile(&spec.approval, path, problems);
        let description = ToolDescription {
            name: spec.name.clone(),
            description: spec.description.clone(),
            input: spec.input.clone().unwrap_or_else(|| json!({"type": "object"})),
            output: spec.output.clone().unwrap_or_else(|| json!({})),
            approval: approval.is_some(),
        };
        let (capability, expires_seconds) = (runner.capability.clone(), runner.expires_seconds);
        Some(Self { name: spec.name.clone(), capability, expires_seconds, input: input?, output: output?, approval, description })
    }
}
