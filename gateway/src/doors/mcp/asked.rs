//! A request, at its caller's desk, and what it is answered.

use std::collections::BTreeMap;

use axum::http::HeaderMap;
use dormouse_protocol::{
    ApiError, ErrorCode,
    kernel::{McpCatalog, McpTask, McpTool},
};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use super::{
    Failure, INSTRUCTIONS, REVISIONS, SCHEME, SESSION_INSTRUCTIONS, Scope, agreed, arguments,
    calls::{Becomes, Brought, Call},
    capabilities,
    cells::Outcome,
    clients::{self, Client},
    code, completed, files, fresh, implementation, of_api, offered, registered, runs, tasks,
    told::{self, Told},
    tools,
};
use crate::{
    auth::{Part, Verb},
    directory::Key,
    doors::desk::Desk,
};

/// It.
pub(super) struct Asked {
    pub(super) desk: Desk,
    pub(super) scope: Scope,
    pub(super) revision: &'static str,
    /// Its id, as its client gave it.
    pub(super) id: Value,
    pub(super) client: Client,
    /// Its headers that repeat arguments.
    repeated: BTreeMap<String, String>,
    pub(super) told: Option<Told>,
    /// What the session of the scope has, once it was read.
    catalog: OnceCell<McpCatalog>,
}

impl Asked {
    pub(super) fn new(desk: Desk, scope: Scope, revision: &'static str, id: Value, client: Client, headers: &HeaderMap) -> Self {
        let repeated = arguments::repeated(headers);
        Self { desk, scope, revision, id, client, repeated, told: None, catalog: OnceCell::new() }
    }

    pub(super) fn telling(self, told: Told) -> Self {
        Self { told: Some(told), ..self }
    }

    pub(super) fn is_stateless(&self) -> bool {
        self.revision == REVISIONS[0]
    }

    /// What its client wants to hear while it is worked on.
    pub(super) async fn wanted(&self, method: &str, params: &Value) -> Result<told::Wanted, Failure> {
        if !matches!(method, "tools/call" | "prompts/get" | "resources/read") {
            return Ok(told::Wanted::default());
        }
        let text = |name: &str| params.get(name).and_then(Value::as_str).unwrap_or_default();
        let of_function = match &self.scope {
            Scope::Server => method == "tools/call" && text("name").contains('.'),
            Scope::Session(_) => method != "resources/read" || !text("uri").starts_with(SCHEME),
        };
        let level = match (&self.scope, &self.client.id) {
            _ if self.is_stateless() => clients::level(params).map_err(|error| of_api(&error))?,
            (Scope::Session(_), Some(id)) if of_function => self.catalog().await?.clients.get(id).and_then(clients::level_of),
            _ => None,
        };
        let asked = !self.is_stateless() && of_function && self.client.can_be_asked();
        Ok(told::Wanted { token: told::token(params), level, asked, returns: of_function && self.client.returns })
    }

    pub(super) async fn answer(&self, method: &str, params: Value) -> Result<Value, Failure> {
        let (desk, stateless) = (&self.desk, self.is_stateless());
        let result = match method {
            "initialize" if !stateless => {
                json!({
                    "protocolVersion": agreed(&params), "capabilities": capabilities(self.session().is_ok(), false),
                    "serverInfo": implementation(), "instructions": self.instructions(),
                })
            }
            "server/discover" => fresh(json!({
                "supportedVersions": REVISIONS, "capabilities": capabilities(self.session().is_ok(), true),
                "instructions": self.instructions(), "_meta": { "io.modelcontextprotocol/serverInfo": implementation() },
            })),
            "ping" if !stateless => json!({}),
            "tools/list" => fresh(json!({ "tools": self.tools().await? })),
            "tools/call" => self.call(params).await?,
            "resources/list" => fresh(match &self.scope {
                Scope::Server => json!({ "resources": [] }),
                Scope::Session(key) => self.resources(key, &params).await?,
            }),
            "resources/templates/list" => fresh(self.templates().await?),
            "resources/read" => fresh_unless_asked(self.read(&params).await.map_err(|failure| self.not_found(failure, &params))?),
            "prompts/list" => {
                self.session()?;
                fresh(offered::prompts(self.catalog().await?.clone()))
            }
            "prompts/get" => self.prompt(&params).await?,
            "completion/complete" => offered::complete(desk, self.session()?, self.catalog().await?, &params).await?,
            "logging/setLevel" | "resources/subscribe" | "resources/unsubscribe" if !stateless => {
                let kept = clients::keep(desk, self.session()?, &self.client, method, &params).await;
                kept.map(|()| json!({})).map_err(|error| of_api(&error))?
            }
            "tasks/get" | "tasks/update" | "tasks/cancel" if stateless => {
                if !runs::are_known(&params) {
                    return Err(runs::unknown());
                }
                tasks::answer(desk, method, params).await?
            }
            other => return Err(none(other)),
        };
        Ok(completed(result, self.revision))
    }

    /// The session whose own server this is. What only such a one has, another does not know.
    pub(super) fn session(&self) -> Result<&Key, Failure> {
        match &self.scope {
            Scope::Session(key) => Ok(key),
            Scope::Server => Err(Failure::new(code::METHOD_NOT_FOUND, "only a session's own server has this: see its URL")),
        }
    }

    async fn catalog(&self) -> Result<&McpCatalog, Failure> {
        let key = self.session()?;
        self.catalog.get_or_try_init(|| registered::catalog(&self.desk, key)).await.map_err(|error| of_api(&error))
    }

    fn instructions(&self) -> &'static str {
        if matches!(self.scope, Scope::Server) { INSTRUCTIONS } else { SESSION_INSTRUCTIONS }
    }

    async fn tools(&self) -> Result<Vec<Value>, Failure> {
        match &self.scope {
            Scope::Server => {
                let mut all = tools::all().clone();
                all.extend(registered::list(&self.desk).await);
                Ok(all)
            }
            Scope::Session(_) => Ok(registered::shown(self.catalog().await?.clone(), "")),
        }
    }

    /// A failure of a tool is for the model to read and to act on.
    async fn call(&self, params: Value) -> Result<Value, Failure> {
        let name = params.get("name").and_then(Value::as_str).ok_or_else(|| Failure::new(code::INVALID_PARAMS, "name: say which tool"))?;
        let arguments = params.get("arguments").cloned().unwrap_or_else(|| json!({}));
        let none = || Failure::new(code::INVALID_PARAMS, format!("there is no tool `{name}`: list the tools"));
        let named = match &self.scope {
            Scope::Server => registered::named(name).and_then(|(session, tool)| Some((self.desk.key(session).ok()?, tool))),
            Scope::Session(key) => Some((key.clone(), name)),
        };
        let tasks = self.is_stateless() && runs::are_known(&params);
        if let Some((key, tool)) = named {
            let brought = self.brought(&params)?;
            return match self.function(&key, tool, &arguments, brought, tasks).await? {
                Ok(Some(outcome)) => registered::result(outcome, self.is_stateless()),
                Ok(None) => Err(none()),
                Err(error) => Ok(tools::failed(&error)),
            };
        }
        if !tools::all().iter().any(|tool| tool["name"] == name) {
            return Err(none());
        }
        let called = tools::call(&self.desk, name, arguments, tasks, self.told.as_ref()).await;
        Ok(called.unwrap_or_else(|error| tools::failed(&error)))
    }

    /// Calls a tool of a session, for a client that knows `tasks` or not. `None`: there is no such tool. A failure of the protocol is outside of what
    /// comes of the call.
    async fn function(
        &self,
        key: &Key,
        tool: &str,
        arguments: &Value,
        brought: Brought,
        tasks: bool,
    ) -> Result<Result<Option<Outcome>, ApiError>, Failure> {
        let known = match self.tool(key, tool).await {
            Ok(Some(known)) => known,
            Ok(None) => return Ok(Ok(None)),
            Err(error) => return Ok(Err(error)),
        };
        let becomes = match known.task {
            McpTask::Required if !tasks => {
                let message = format!("every call of `{tool}` is a task: say among your capabilities that you know tasks");
                return Ok(Ok(Some(Outcome::Missing { capabilities: runs::wanted(), message })));
            }
            McpTask::Optional | McpTask::Required if tasks => Becomes::of_task(known.before),
            _ => Becomes::Answer,
        };
        if self.is_stateless() {
            arguments::agree(&known.input, arguments, &self.repeated)?;
        }
        if let Err(error) = arguments::check(&known.input, arguments).await {
            return Ok(Err(error));
        }
        Ok(self.run(key, ("tool", becomes), tool, arguments, brought).await.map(Some))
    }

    async fn tool(&self, key: &Key, tool: &str) -> Result<Option<McpTool>, ApiError> {
        self.desk.may(Verb::Create, key, Part::Eval).await?;
        if let Some(catalog) = self.catalog.get() {
            return Ok(catalog.tools.get(tool).cloned());
        }
        match registered::catalog(&self.desk, key).await {
            Err(error) if error.code == ErrorCode::SessionNotFound => Ok(None),
            found => Ok(found?.tools.remove(tool)),
        }
    }

    async fn run(
        &self,
        key: &Key,
        (of, becomes): (&'static str, Becomes),
        name: &str,
        arguments: &Value,
        brought: Brought,
    ) -> Result<Outcome, ApiError> {
        let (told, stateless) = (self.told.as_ref(), self.is_stateless());
        let call = Call { desk: &self.desk, key, of, id: &self.id, can: &self.client.can, told, stateless, becomes };
        call.run(name, arguments, brought).await
    }

    /// What a request of the stateless revision brings for a call that has asked.
    fn brought(&self, params: &Value) -> Result<Brought, Failure> {
        if self.is_stateless() { Brought::of(params) } else { Ok(Brought::default()) }
    }

    async fn prompt(&self, params: &Value) -> Result<Value, Failure> {
        let key = self.session()?;
        let (name, arguments) = offered::prompt(self.catalog().await?, params)?;
        let outcome = self.run(key, ("prompt", Becomes::Answer), name, &arguments, self.brought(params)?).await;
        offered::result(outcome.map_err(|error| of_api(&error))?, "messages", self.is_stateless())
    }

    /// Those that are registered, and then the files.
    async fn resources(&self, key: &Key, params: &Value) -> Result<Value, Failure> {
        let mut page = files::list(&self.desk, key, params).await?;
        if params.get("cursor").is_none()
            && let Some(listed) = page.get_mut("resources").and_then(Value::as_array_mut)
        {
            listed.splice(0..0, offered::resources(self.catalog().await?, false));
        }
        Ok(page)
    }

    async fn templates(&self) -> Result<Value, Failure> {
        let (session, mut templates) = match &self.scope {
            Scope::Server => (format!("{SCHEME}{{namespace}}/{{session}}"), Vec::new()),
            Scope::Session(key) => (format!("{SCHEME}{}/{}", key.namespace, key.name), offered::resources(self.catalog().await?, true)),
        };
        templates.push(json!({ "uriTemplate": format!("{session}/{{+path}}"), "name": "file", "title": "A file of a session" }));
        Ok(json!({ "resourceTemplates": templates }))
    }

    async fn read(&self, params: &Value) -> Result<Value, Failure> {
        let uri = params.get("uri").and_then(Value::as_str).unwrap_or_default();
        let Scope::Session(key) = &self.scope else { return files::read(&self.desk, &self.scope, params).await };
        if uri.starts_with(SCHEME) {
            return files::read(&self.desk, &self.scope, params).await;
        }
        if !offered::may_have(self.catalog().await?, uri) {
            return Err(Failure::new(code::RESOURCE_NOT_FOUND, format!("there is no resource `{uri}`: list the resources")));
        }
        let outcome = self.run(key, ("resource", Becomes::Answer), uri, &Value::Null, self.brought(params)?).await;
        offered::result(outcome.map_err(|error| of_api(&error))?, "contents", self.is_stateless())
    }

    /// That there is no such resource, in the words of the revision.
    fn not_found(&self, failure: Failure, params: &Value) -> Failure {
        if failure.code != code::RESOURCE_NOT_FOUND {
            return failure;
        }
        let code = if self.is_stateless() { code::INVALID_PARAMS } else { failure.code };
        Failure { code, data: Some(json!({ "uri": params.get("uri") })), ..failure }
    }
}

fn none(method: &str) -> Failure {
    Failure::new(code::METHOD_NOT_FOUND, format!("there is no method `{method}`"))
}

/// A result that nobody is told of when it changes; a question is no result.
fn fresh_unless_asked(result: Value) -> Value {
    if result.get("resultType").is_some() { result } else { fresh(result) }
}
