//! Models that cells ask: which there are, what a question costs, and what may still be spent.
//!
//! A question is a call of [`SUB_LM`] whose service adds the key, so a session reaches a model without one in sight. It is told to the far side
//! again where the service allows repetitions: what it costs twice is counted twice.

mod spend;
pub(crate) mod spoken;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use dormouse_crds::models::{Amount, MODEL_TOKENS_MAX, Model as ModelSpec, ModelApi};
use dormouse_crds::tools::TOOL_TIMEOUT_MS_MAX;
use dormouse_protocol::{ApiError, ErrorCode, broker::ToolCall};
use dormouse_service::wire::Http;
use serde_json::{Value, json};

pub(crate) use self::spend::{Reserved, Spending};
use self::{
    spend::Spent,
    spoken::{Answered, Question},
};
use crate::{
    Secrets,
    config::{Problem, ProblemKind},
    exchange::{self, Exchange, Form, Request},
    service::Service,
};

/// The call that asks a model.
pub(crate) const SUB_LM: &str = "host.subLM";

/// A model.
#[derive(Debug)]
pub(crate) struct Model {
    pub(crate) service: Arc<Service>,
    pub(crate) name: String,
    pub(crate) api: ModelApi,
    /// Its name at the service.
    model: String,
    max_tokens: u64,
    pub(crate) timeout: Duration,
    /// Millionths of millionths of what money there is, for a token that is sent and one that comes.
    price: (u64, u64),
    pub(crate) budgets: Budgets,
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
    fn compile(spec: &ModelSpec, path: &str, problems: &mut Vec<Problem>) -> Self {
        let Some(spec) = &spec.budget else { return Self::default() };
        let mut budget = |tokens: Option<u64>, cost: Option<&Amount>, field: &str| {
            if tokens.is_none() && cost.is_none() {
                return None;
            }
            let cost = cost.map_or(Some(u64::MAX), |cost| Some(cost.millionths()?.saturating_mul(1_000_000)));
            if cost.is_none() {
                problems.push(Problem { path: format!("{path}.budget.{field}"), kind: ProblemKind::Amount });
            }
            Some(Budget { tokens: tokens.unwrap_or(u64::MAX), cost: cost.unwrap_or(0) })
        };
        let session = budget(spec.tokens_per_session, spec.cost_per_session.as_ref(), "costPerSession");
        let namespace = budget(spec.tokens_per_namespace, spec.cost_per_namespace.as_ref(), "costPerNamespace");
        Self { session, namespace }
    }

    fn is_none(&self) -> bool {
        self.session.is_none() && self.namespace.is_none()
    }
}

/// A model, which is a service of its own.
pub(crate) fn compile(spec: &ModelSpec, service: Service, path: &str, problems: &mut Vec<Problem>) -> Model {
    let mut problem = |field: &str, kind| problems.push(Problem { path: format!("{path}.{field}"), kind });
    if spec.max_tokens == 0 || spec.max_tokens > MODEL_TOKENS_MAX {
        problem("maxTokens", ProblemKind::Limit(MODEL_TOKENS_MAX));
    }
    if spec.timeout_ms == 0 || spec.timeout_ms > TOOL_TIMEOUT_MS_MAX {
        problem("timeoutMs", ProblemKind::Limit(TOOL_TIMEOUT_MS_MAX));
    }
    let price = spec.price.as_ref().map_or(Some((0, 0)), |price| Some((price.input.millionths()?, price.output.millionths()?)));
    if price.is_none() {
        problem("price", ProblemKind::Amount);
    }
    Model {
        service: Arc::new(service),
        name: spec.name.clone(),
        api: spec.api,
        model: spec.model.clone(),
        max_tokens: spec.max_tokens,
        timeout: Duration::from_millis(spec.timeout_ms),
        // A millionth for a million tokens is a millionth of a millionth for one.
        price: price.unwrap_or_default(),
        budgets: Budgets::compile(spec, path, problems),
    }
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
    /// Whether its answer is read as it comes.
    streams: bool,
    /// What it may cost at most, but for what the service counts of the question in another way.
    pub(crate) reserve: Spent,
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
        let come = if self.api == ModelApi::OpenaiEmbeddings { 0 } else { question.max_tokens };
        Ok(Asking { request, streams: question.streams(), reserve: self.spent(sent, come) })
    }

    pub(crate) fn spent(&self, sent: u64, come: u64) -> Spent {
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
        if asking.streams {
            let message = "a stream is read by `for await` over host.subLM({…, stream: true}), not by a call of its own";
            return Err(ApiError::new(ErrorCode::NotSupported, message));
        }
        let reserved = spending.reserve(&self.name, &call.session_uid, &self.budgets, asking.reserve).await?;
        let (service, timeout, caller, key) = (&self.service, self.timeout, call.into(), exchange::idempotency_key(call));
        let exchange =
            Exchange { service, request: asking.request, timeout, output: None, caller, key, form: Form::Body, open: None, sent: None };
        let answer = exchange.run(http, secrets).await.and_then(|answer| spoken::read(self.api, answer.value()));
        let (used, result) = match answer {
            Ok(Answered { output, sent, come }) => {
                spending.count(&self.name, sent, come);
                let usage = json!({ "inputTokens": sent, "outputTokens": come });
                (self.spent(sent, come), Ok(json!({ "output": output, "usage": usage })))
            }
            Err(error) => (used_by(&error, asking.reserve), Err(error)),
        };
        spending.settle(reserved, used).await;
        result
    }
}

/// What a question has used that failed so: nothing if an answer refused it. Otherwise nobody knows.
pub(crate) fn used_by(error: &ApiError, reserve: Spent) -> Spent {
    let answered = error.details.as_ref().is_some_and(|details| details.get("status").is_some());
    if answered || matches!(error.code, ErrorCode::ToolDenied | ErrorCode::RateLimited) { Spent::default() } else { reserve }
}
