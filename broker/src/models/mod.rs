//! Models that cells ask: which there are, what a question costs, and what may still be spent.
//!
//! A question is a call of [`SUB_LM`] whose service adds the key, so a session reaches a model without one in sight. It is told to the far side
//! again where the service allows repetitions: what it costs twice is counted twice.

mod spend;
mod spoken;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use dormouse_crds::broker::TOOL_TIMEOUT_MS_MAX;
use dormouse_crds::models::{Budget as BudgetSpec, MODEL_TOKENS_MAX, Model as ModelSpec, ModelApi, ModelBudgets};
use dormouse_protocol::{ApiError, ErrorCode, broker::ToolCall};
use dormouse_service::wire::Http;
use serde_json::{Value, json};

pub(crate) use self::spend::Spending;
use self::{
    spend::Spent,
    spoken::{Answered, Question},
};
use crate::{
    Secrets,
    catalog::Service,
    config::{Problem, ProblemKind},
    exchange::{self, Exchange, Form, Request},
};

/// The call that asks a model.
pub(crate) const SUB_LM: &str = "host.subLM";

/// A model.
#[derive(Debug)]
pub(crate) struct Model {
    pub(crate) service: Arc<Service>,
    name: String,
    api: ModelApi,
    /// Its name at the service.
    model: String,
    max_tokens: u64,
    pub(crate) timeout: Duration,
    /// Millionths of millionths of what money there is, for a token that is sent and one that comes.
    price: (u64, u64),
    budgets: Budgets,
}

/// What may be spent.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Budgets {
    session: Option<Budget>,
    namespace: Option<Budget>,
}

/// What may be spent by whom it is for.
#[derive(Debug, Clone, Copy)]
struct Budget {
    tokens: u64,
    /// As [`Model::price`].
    cost: u64,
}

impl Budgets {
    fn compile(spec: Option<&ModelBudgets>, problems: &mut Vec<Problem>) -> Self {
        let mut budget = |spec: Option<&BudgetSpec>, field: &str| {
            let spec = spec?;
            let cost = match spec.cost.as_ref().map(|amount| amount.millionths()) {
                None => u64::MAX,
                Some(Some(cost)) => cost.saturating_mul(1_000_000),
                Some(None) => {
                    let path = format!("modelBudgets.{field}.cost");
                    problems.push(Problem { path, kind: ProblemKind::Amount });
                    0
                }
            };
            Some(Budget { tokens: spec.tokens.unwrap_or(u64::MAX), cost })
        };
        let session = budget(spec.and_then(|spec| spec.session.as_ref()), "session");
        let namespace = budget(spec.and_then(|spec| spec.namespace.as_ref()), "namespace");
        Self { session, namespace }
    }

    fn is_none(&self) -> bool {
        self.session.is_none() && self.namespace.is_none()
    }
}

/// The models of a spec.
pub(crate) fn compile(
    specs: &[ModelSpec],
    budgets: Option<&ModelBudgets>,
    services: &BTreeMap<String, Arc<Service>>,
    problems: &mut Vec<Problem>,
) -> BTreeMap<String, Arc<Model>> {
    let budgets = Budgets::compile(budgets, problems);
    let mut models = BTreeMap::new();
    for (index, spec) in specs.iter().enumerate() {
        let path = format!("models[{index}]");
        if models.contains_key(&spec.name) || spec.name.is_empty() {
            problems.push(Problem { path: format!("{path}.name"), kind: ProblemKind::Duplicate(spec.name.clone()) });
        }
        let mut problem = |field: &str, kind| problems.push(Problem { path: format!("{path}.{field}"), kind });
        if spec.max_tokens == 0 || spec.max_tokens > MODEL_TOKENS_MAX {
            problem("maxTokens", ProblemKind::Limit(MODEL_TOKENS_MAX));
        }
        if spec.timeout_ms == 0 || spec.timeout_ms > TOOL_TIMEOUT_MS_MAX {
            problem("timeoutMs", ProblemKind::Limit(TOOL_TIMEOUT_MS_MAX));
        }
        let price = spec.price.as_ref().map(|price| (price.input.millionths(), price.output.millionths()));
        let (Some(input), Some(output)) = price.unwrap_or((Some(0), Some(0))) else {
            problem("price", ProblemKind::Amount);
            continue;
        };
        let Some(service) = services.get(&spec.service) else {
            problem("service", ProblemKind::UnknownService(spec.service.clone()));
            continue;
        };
        if service.allowed_method("POST").is_none() {
            problem("service", ProblemKind::MethodNotAllowed { service: spec.service.clone(), method: "POST".to_owned() });
        }
        if !service.allows_path(spoken::path(spec.api)) {
            problem("service", ProblemKind::PathNotAllowed(spec.service.clone()));
        }
        let model = Model {
            service: Arc::clone(service),
            name: spec.name.clone(),
            api: spec.api,
            model: spec.model.clone(),
            max_tokens: spec.max_tokens,
            timeout: Duration::from_millis(spec.timeout_ms),
            // A millionth for a million tokens is a millionth of a millionth for one.
            price: (input, output),
            budgets,
        };
        models.insert(spec.name.clone(), Arc::new(model));
    }
    models
}

/// The model that the arguments of [`SUB_LM`] name, or the only one.
pub(crate) fn named(models: &BTreeMap<String, Arc<Model>>, args: &Value) -> Option<Arc<Model>> {
    match args.get("model") {
        Some(name) => models.get(name.as_str()?).cloned(),
        None if models.len() == 1 => models.values().next().cloned(),
        None => None,
    }
}

/// A question before it is asked.
pub(crate) struct Asking {
    pub(crate) request: Request,
    /// What it may cost at most, but for what the service counts of the question in another way.
    reserve: Spent,
}

impl Model {
    /// What the model is asked.
    ///
    /// # Errors
    /// The arguments do not fit.
    pub(crate) fn prepare(&self, args: &Value) -> Result<Asking, ApiError> {
        let question = Question::read(args, self.max_tokens)?;
        let body = spoken::body(self.api, &self.model, &question)?;
        let headers = spoken::headers(self.api);
        let request = Request::of_question(&self.service, spoken::path(self.api), headers, &body)?;
        let sent = spoken::tokens_about(&body);
        let come = if self.api == ModelApi::OpenAIEmbeddings { 0 } else { question.max_tokens };
        Ok(Asking { request, reserve: self.spent(sent, come) })
    }

    fn spent(&self, sent: u64, come: u64) -> Spent {
        let cost = sent.saturating_mul(self.price.0).saturating_add(come.saturating_mul(self.price.1));
        Spent { tokens: sent.saturating_add(come), cost }
    }

    /// Asks, within the budgets.
    ///
    /// # Errors
    /// `ModelBudgetExceeded`, and those of the exchange.
    pub(crate) async fn ask(
        &self,
        asking: Asking,
        http: &Http,
        secrets: &Secrets,
        call: &ToolCall,
        spending: &Spending,
    ) -> Result<Value, ApiError> {
        let reserved = spending.reserve(&call.session_uid, &self.budgets, asking.reserve).await?;
        let (service, timeout, caller, key) = (&self.service, self.timeout, call.into(), exchange::idempotency_key(call));
        let exchange = Exchange { service, request: asking.request, timeout, output: None, caller, key, form: Form::Body };
        let answer = exchange.run(http, secrets).await.and_then(|answer| spoken::read(self.api, answer));
        let (used, result) = match answer {
            Ok(Answered { output, sent, come }) => {
                spending.count(&self.name, sent, come);
                let usage = json!({ "inputTokens": sent, "outputTokens": come });
                (self.spent(sent, come), Ok(json!({ "output": output, "usage": usage })))
            }
            // Refused by an answer: nothing was used. Otherwise nobody knows.
            Err(error) if error.details.as_ref().is_some_and(|details| details.get("status").is_some()) => (Spent::default(), Err(error)),
            Err(error) if matches!(error.code, ErrorCode::ToolDenied | ErrorCode::RateLimited) => (Spent::default(), Err(error)),
            Err(error) => (asking.reserve, Err(error)),
        };
        reserved.settle(used).await;
        result
    }
}
