//! MCP servers of a ToolBroker, and their tools.

use std::{sync::Arc, time::Duration};

use dormouse_crds::sources::McpServer as McpServerSpec;
use dormouse_crds::tools::TOOL_TIMEOUT_MS_MAX;
use dormouse_protocol::{ApiError, broker::ToolCall};
use dormouse_service::wire::Http;
use jsonschema::Validator;
use reqwest::header::HeaderValue;
use serde_json::{Map, Value, json};

use super::mcp;
use crate::{
    Problem, Secrets,
    approval::Approval,
    credential::Caller,
    exchange::{self, Exchange, Form, Request},
    net::Names,
    service::{self, Service, limit},
};

/// A server of the Model Context Protocol, as its spec has it.
#[derive(Debug)]
pub(crate) struct McpServer {
    /// Its endpoint is the whole `base_url`.
    pub(crate) service: Arc<Service>,
    pub(crate) server: mcp::Server,
    pub(crate) approval: Option<Approval>,
    pub(crate) timeout: Duration,
}

/// One of its tools.
#[derive(Debug)]
pub(crate) struct McpTool {
    pub(crate) server: Arc<McpServer>,
    pub(crate) asks: McpAsk,
    pub(crate) input: Validator,
    pub(crate) read_only: bool,
}

/// What a call asks of an MCP server.
#[derive(Debug)]
pub(crate) enum McpAsk {
    /// A tool, by its name there.
    Tool(String),
    /// The list of its resources.
    Resources,
    /// One of them.
    Read,
}

impl McpTool {
    pub(crate) async fn make(
        &self,
        arguments: Map<String, Value>,
        http: &Http,
        secrets: &Secrets,
        call: &ToolCall,
    ) -> Result<Value, ApiError> {
        let (caller, key) = (call.into(), exchange::idempotency_key(call));
        let line = Line { server: &self.server, http, secrets, caller, key, safe: self.read_only, timeout: self.server.timeout };
        let server = &self.server.server;
        match &self.asks {
            McpAsk::Tool(name) => {
                let params = json!({ "name": name, "arguments": arguments });
                mcp::outcome(server.call(&line, call.call, "tools/call", &params).await?)
            }
            McpAsk::Resources => server.resources(&line).await,
            McpAsk::Read => Ok(server.call(&line, call.call, "resources/read", &Value::Object(arguments)).await?["contents"].take()),
        }
    }
}

impl McpServer {
    /// What tools it has.
    ///
    /// # Errors
    /// It cannot be asked.
    pub(crate) async fn list(&self, http: &Http, secrets: &Secrets) -> Result<Vec<mcp::Described>, ApiError> {
        let line = Line {
            server: self,
            http,
            secrets,
            caller: Caller::BROKER,
            key: "\"list\"".to_owned(),
            safe: true,
            timeout: mcp::LIST_TIMEOUT,
        };
        self.server.list(&line).await
    }
}

/// The way of messages to a server.
struct Line<'a> {
    server: &'a McpServer,
    http: &'a Http,
    secrets: &'a Secrets,
    caller: Caller<'a>,
    key: String,
    safe: bool,
    timeout: Duration,
}

impl mcp::Post for Line<'_> {
    async fn post(&self, message: mcp::Posted) -> Result<mcp::Reply, ApiError> {
        let service = &self.server.service;
        let request = Request::of_message(service, message, self.safe)?;
        let (timeout, caller, key) = (self.timeout, self.caller, self.key.clone());
        let exchange = Exchange { service, request, timeout, output: None, caller, key, form: Form::Rpc, open: None, sent: None };
        let mut reply = exchange.run(self.http, self.secrets).await?.value();
        let status = reply["status"].as_u64().and_then(|status| u16::try_from(status).ok()).unwrap_or(0);
        let session = reply["session"].as_str().and_then(|text| HeaderValue::from_str(text).ok());
        Ok(mcp::Reply { status, session, message: reply["message"].take() })
    }
}

/// A server of MCP, whose tools are another matter.
pub(crate) fn compile(spec: &McpServerSpec, path: &str, from: (&Secrets, &Names), problems: &mut Vec<Problem>) -> McpServer {
    let mut wrong = Vec::new();
    let service = service::compile(&spec.service(), path, from, &mut wrong);
    // What a service has as its base is the server's URL.
    problems.extend(wrong.into_iter().map(|problem| Problem { path: problem.path.replace(".baseUrl", ".url"), ..problem }));
    let timeout = limit(spec.timeout_ms, TOOL_TIMEOUT_MS_MAX, format!("{path}.timeoutMs"), problems);
    McpServer {
        service: Arc::new(service),
        server: mcp::Server::default(),
        approval: Approval::compile(&spec.approval, path, problems),
        timeout: Duration::from_millis(timeout),
    }
}
