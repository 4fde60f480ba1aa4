//! What a call names: a tool, a service itself, or the list of tools.

use std::{sync::Arc, time::Duration};

use dormouse_protocol::{ApiError, broker::ToolCall};
use dormouse_service::wire::Http;
use serde_json::Value;

use crate::{
    Secrets,
    approval::Approval,
    catalog::{Service, Tool},
    exchange::{Exchange, Request},
    limits::Permit,
};

/// The call that lists the tools.
pub(crate) const LIST: &str = "tools.list";
/// The call of a service itself.
pub(crate) const SERVICE: &str = "callService";

/// How cells may call a service without a tool.
#[derive(Debug)]
pub(crate) struct Direct {
    pub(crate) approval: Option<Approval>,
    pub(crate) timeout: Duration,
}

/// Whom a call is for.
#[derive(Debug, Clone)]
pub(crate) enum Callee {
    Tool(Arc<Tool>),
    /// One that may be called so.
    Service(Arc<Service>),
    List,
}

impl Callee {
    /// The service behind it.
    pub(crate) fn service(&self) -> Option<&Arc<Service>> {
        match self {
            Self::Tool(tool) => Some(&tool.service),
            Self::Service(service) => Some(service),
            Self::List => None,
        }
    }

    /// When its calls wait for a person.
    pub(crate) fn approval(&self) -> Option<&Approval> {
        match self {
            Self::Tool(tool) => tool.approval.as_ref(),
            Self::Service(service) => service.direct.as_ref()?.approval.as_ref(),
            Self::List => None,
        }
    }

    /// How long a call may take.
    pub(crate) fn timeout(&self) -> Duration {
        match self {
            Self::Tool(tool) => tool.timeout,
            Self::Service(service) => service.direct.as_ref().map_or(Duration::ZERO, |direct| direct.timeout),
            Self::List => Duration::ZERO,
        }
    }

    /// The request that it makes of its arguments; `None` where it needs none.
    ///
    /// # Errors
    /// They do not fit.
    pub(crate) fn request(&self, args: &Value) -> Result<Option<Request>, ApiError> {
        match self {
            Self::Tool(tool) => Request::of_tool(tool, args).map(Some),
            Self::Service(service) => Request::of_service(service, args).map(Some),
            Self::List => Ok(None),
        }
    }

    /// Whether making a call twice does no harm. What cannot be made does none.
    pub(crate) fn is_safe(&self, args: &Value) -> bool {
        self.request(args).map_or(true, |request| request.is_none_or(|request| request.method.is_safe()))
    }

    /// Waits until the limits let the call go.
    pub(crate) async fn enter(&self, session_uid: &str) -> [Option<Permit>; 2] {
        let tool = match self {
            Self::Tool(tool) => Some(tool.limits.enter(session_uid).await),
            Self::Service(_) | Self::List => None,
        };
        let service = match self.service() {
            Some(service) => Some(service.limits.enter(session_uid).await),
            None => None,
        };
        [tool, service]
    }

    /// Makes the call of a service, within `timeout`.
    ///
    /// # Errors
    /// Those of [`Self::request`] and of the exchange.
    pub(crate) async fn make(&self, http: &Http, secrets: &Secrets, call: &ToolCall, timeout: Duration) -> Result<Value, ApiError> {
        let (Some(request), Some(service)) = (self.request(&call.args)?, self.service()) else { return Ok(Value::Null) };
        let output = if let Self::Tool(tool) = self { Some(&tool.output) } else { None };
        Exchange { service, request, timeout, output }.run(http, secrets, call).await
    }
}
