//! What a call names: a tool of whatever kind, a model, a service itself, or the list of tools.

use std::{borrow::Cow, sync::Arc, time::Duration};

use dormouse_protocol::{
    ApiError,
    broker::{CALL_SERVICE, ToolCall},
};
use dormouse_service::wire::Http;
use prometheus::IntCounter;
use serde_json::{Map, Value};

use crate::{
    Secrets,
    approval::Approval,
    exchange::{self, Above, Answer, Exchange, Form, Request},
    jobs::RunnerTool,
    knowledge::{Bases, Scope, Verb},
    limits::Permit,
    models::{Asking, Model, SUB_LM, Spending},
    service::Service,
    sources::McpTool,
    tool::Tool,
    uploads::Uploads,
};

/// The call that lists the tools.
pub(crate) const LIST: &str = "tools.list";
/// The call that declares them in TypeScript.
pub(crate) const DECLARATIONS: &str = "tools.declarations";
/// The call of a service itself.
pub(crate) const SERVICE: &str = CALL_SERVICE;

/// How long a call of what the broker answers by itself waits for its turn.
const TURN_MAX: Duration = Duration::from_secs(10);

/// Whom a call is for.
#[derive(Debug, Clone)]
pub(crate) enum Callee {
    Tool(Arc<Tool>),
    /// One that may be called so.
    Service(Arc<Service>),
    Mcp(Arc<McpTool>),
    Model(Arc<Model>),
    Runner(Arc<RunnerTool>),
    Knowledge(Arc<Bases>, Verb),
    List,
    Declarations,
}

impl Callee {
    /// The service behind it.
    pub(crate) fn service(&self) -> Option<&Arc<Service>> {
        match self {
            Self::Tool(tool) => Some(&tool.service),
            Self::Service(service) => Some(service),
            Self::Mcp(tool) => Some(&tool.server.service),
            Self::Model(model) => Some(&model.service),
            Self::Runner(_) | Self::Knowledge(..) | Self::List | Self::Declarations => None,
        }
    }

    /// When its calls wait for a person.
    pub(crate) fn approval(&self) -> Option<&Approval> {
        match self {
            Self::Tool(tool) => tool.approval.as_ref(),
            Self::Service(service) => service.direct.as_ref()?.approval.as_ref(),
            Self::Mcp(tool) => tool.server.approval.as_ref(),
            Self::Runner(tool) => tool.approval.as_ref(),
            Self::Model(_) | Self::Knowledge(..) | Self::List | Self::Declarations => None,
        }
    }

    /// What its calls are counted as. Tools from elsewhere count as their source, so that there are as many as the spec has names.
    pub(crate) fn label(&self) -> Cow<'_, str> {
        match self {
            Self::Tool(tool) => tool.source.as_ref().map_or(Cow::Borrowed(&*tool.name), |source| format!("openapi/{source}").into()),
            Self::Service(service) => format!("{SERVICE}/{}", service.name).into(),
            Self::Mcp(tool) => format!("mcp/{}", tool.server.service.name).into(),
            Self::Model(_) => SUB_LM.into(),
            Self::Runner(tool) => Cow::Borrowed(&tool.name),
            Self::Knowledge(_, verb) => verb.name().into(),
            Self::List => LIST.into(),
            Self::Declarations => DECLARATIONS.into(),
        }
    }

    /// How long a call may take.
    pub(crate) fn timeout(&self) -> Duration {
        match self {
            Self::Tool(tool) => tool.timeout,
            Self::Service(service) => service.direct.as_ref().map_or(Duration::ZERO, |direct| direct.timeout),
            Self::Mcp(tool) => tool.server.timeout,
            Self::Model(model) => model.timeout,
            Self::Knowledge(..) => TURN_MAX,
            Self::Runner(_) | Self::List | Self::Declarations => Duration::ZERO,
        }
    }

    /// What it makes of its arguments.
    ///
    /// # Errors
    /// They do not fit.
    pub(crate) fn prepare(&self, args: &Value) -> Result<Prepared, ApiError> {
        Ok(match self {
            Self::Tool(tool) => Prepared::Request(Box::new(Request::of_tool(tool, args)?)),
            Self::Service(service) => Prepared::Request(Box::new(Request::of_service(service, args)?)),
            Self::Mcp(tool) => Prepared::Message { arguments: exchange::arguments(&tool.input, args)?, safe: tool.read_only },
            Self::Model(model) => Prepared::Question(Box::new(model.prepare(args)?)),
            Self::Runner(tool) => Prepared::Message { arguments: exchange::arguments(&tool.input, args)?, safe: false },
            Self::Knowledge(bases, verb) => Prepared::Asked(bases.check(*verb, args)?),
            Self::List | Self::Declarations => Prepared::Nothing,
        })
    }

    /// Waits until the limits let the call go.
    pub(crate) async fn enter(&self, session_uid: &str) -> [Option<Permit>; 2] {
        let tool = match self {
            Self::Tool(tool) => Some(tool.limits.enter(session_uid).await),
            Self::Service(_) | Self::Mcp(_) | Self::Model(_) | Self::Runner(_) | Self::Knowledge(..) | Self::List | Self::Declarations => {
                None
            }
        };
        let service = match self.service() {
            Some(service) => Some(service.limits.enter(session_uid).await),
            None => None,
        };
        [tool, service]
    }

    /// Makes the call of a service.
    ///
    /// # Errors
    /// Those of the exchange.
    pub(crate) async fn make(
        &self,
        prepared: Prepared,
        Means { http, secrets, spending, received, uploads }: Means<'_>,
        call: &ToolCall,
    ) -> Result<Answer, ApiError> {
        let (timeout, caller, key, form) = (self.timeout(), call.into(), exchange::idempotency_key(call), Form::Body);
        let above = call.stream_above.map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
        let open = above.map(|bytes| Above { bytes, received: received.clone() });
        let sent = Some((uploads, call));
        match (self, prepared) {
            (Self::Tool(tool), Prepared::Request(request)) => {
                let (service, output) = (&tool.service, tool.output.as_ref());
                // What is checked is read whole.
                let open = open.filter(|_| output.is_none());
                Exchange { service, request: *request, timeout, output, caller, key, form, open, sent: None }.run(http, secrets).await
            }
            (Self::Service(service), Prepared::Request(request)) => {
                Exchange { service, request: *request, timeout, output: None, caller, key, form, open, sent }.run(http, secrets).await
            }
            (Self::Mcp(tool), Prepared::Message { arguments, .. }) => tool.make(arguments, http, secrets, call).await.map(Answer::from),
            (Self::Model(model), Prepared::Question(asking)) => model.ask(*asking, http, secrets, call, spending).await.map(Answer::from),
            (Self::Knowledge(bases, verb), Prepared::Asked(args)) => {
                bases.answer(*verb, args, Scope(call.knowledge.as_deref())).map(Answer::from)
            }
            _ => Ok(Value::Null.into()),
        }
    }
}

/// What a call is made with.
#[derive(Clone, Copy)]
pub(crate) struct Means<'a> {
    pub(crate) http: &'a Http,
    pub(crate) secrets: &'a Secrets,
    pub(crate) spending: &'a Spending,
    /// Counts the bytes of answers that are left open.
    pub(crate) received: &'a IntCounter,
    /// Where large bodies come from.
    pub(crate) uploads: &'a Uploads,
}

/// What a callee makes of arguments that fit.
pub(crate) enum Prepared {
    Request(Box<Request>),
    Message {
        arguments: Map<String, Value>,
        safe: bool,
    },
    Question(Box<Asking>),
    /// Arguments of what the broker answers by itself.
    Asked(Value),
    Nothing,
}

impl Prepared {
    /// Whether making the call twice does no harm.
    pub(crate) fn is_safe(&self) -> bool {
        match self {
            Self::Request(request) => request.safe,
            Self::Message { safe, .. } => *safe,
            Self::Question(asking) => asking.request.safe,
            Self::Asked(_) | Self::Nothing => true,
        }
    }
}
