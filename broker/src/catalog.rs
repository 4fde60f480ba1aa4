//! A ToolBroker's spec, checked and compiled.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use dormouse_crds::{
    broker::{Offload, PREVIEW_CHARS_MAX, ToolBrokerSpec},
    service::{BODY_BYTES_MAX, Limits as LimitsSpec},
    sources::OpenApi,
    tools::{TOOL_TIMEOUT_MS_MAX, Tool as ToolSpec},
};
use dormouse_protocol::broker::{FETCH, ToolDescription};
use serde_json::{Value, json};

use crate::{
    ConfigError, Problem, ProblemKind, Secrets,
    approval::Approval,
    callee::{Callee, DECLARATIONS, LIST, SERVICE},
    egress::BrokerRules,
    jobs::RunnerTool,
    knowledge::{Bases, Verb},
    limits::Limiter,
    models::{self, Model, SUB_LM},
    modules::Source,
    net::Names,
    path::{Pattern, Template},
    schema,
    service::{self, Service, limit, method},
    sources::{
        Found, McpAsk, McpTool, compile_server, mcp,
        openapi::{self, Operation},
    },
    tool::Tool,
    webhooks::Hook,
};

/// What may be called.
#[derive(Debug)]
pub(crate) struct Catalog {
    tools: BTreeMap<String, Arc<Tool>>,
    services: BTreeMap<String, Arc<Service>>,
    mcp: BTreeMap<String, Arc<McpTool>>,
    models: BTreeMap<String, Arc<Model>>,
    runners: BTreeMap<String, Arc<RunnerTool>>,
    knowledge: Option<Arc<Bases>>,
    descriptions: Vec<ToolDescription>,
    pub(crate) hooks: Arc<Vec<Hook>>,
    pub(crate) offload: Offload,
    pub(crate) egress: Arc<BrokerRules>,
    pub(crate) modules: Option<Arc<Source>>,
}

impl Catalog {
    /// Checks everything and tells every problem at once.
    pub(crate) fn compile(spec: &ToolBrokerSpec, (secrets, names): (&Secrets, &Names), found: &Found) -> Result<Self, ConfigError> {
        let mut problems = Vec::new();
        let mut services = BTreeMap::new();
        for (index, service) in spec.services.iter().enumerate() {
            let path = format!("services[{index}]");
            name(&service.name, &path, services.contains_key(&service.name), &mut problems);
            let compiled = service::compile(service, &path, (secrets, names), &mut problems);
            services.insert(service.name.clone(), Arc::new(compiled));
        }
        let mut tools = BTreeMap::new();
        let mut runners = BTreeMap::new();
        let mut descriptions = Vec::new();
        for (index, tool) in spec.tools.iter().enumerate() {
            let path = format!("tools[{index}]");
            name(&tool.name, &path, tools.contains_key(&tool.name) || runners.contains_key(&tool.name), &mut problems);
            if let Some(runner) = &tool.runner {
                if let Some(compiled) = RunnerTool::compile(tool, runner, &path, &mut problems) {
                    descriptions.push(compiled.description.clone());
                    runners.insert(tool.name.clone(), Arc::new(compiled));
                }
                continue;
            }
            let tool = match tool.of_webhook() {
                Some((service, tool)) => {
                    let compiled = service::compile(&service, &format!("{path}.webhook"), (secrets, names), &mut problems);
                    services.insert(service.name, Arc::new(compiled));
                    tool
                }
                None => tool.clone(),
            };
            if let Some(compiled) = compile_tool(&tool, &path, &services, &mut problems) {
                tools.insert(tool.name.clone(), Arc::new(compiled));
            }
        }
        for (index, source) in spec.openapi.iter().enumerate() {
            let Some(document) = found.document(source) else { continue };
            for tool in compile_document(source, document, &format!("openapi[{index}]"), &services, &mut problems) {
                let path = format!("openapi[{index}].{}", tool.name);
                name(&tool.name, &path, tools.contains_key(&tool.name), &mut problems);
                tools.insert(tool.name.clone(), Arc::new(tool));
            }
        }
        descriptions.extend(tools.values().map(|tool: &Arc<Tool>| tool.description.clone()));
        let mut mcp = BTreeMap::new();
        for (index, spec) in spec.mcp_servers.iter().enumerate() {
            let path = format!("mcpServers[{index}]");
            let server = Arc::new(compile_server(spec, &path, (secrets, names), &mut problems));
            let include: Vec<Pattern> = spec.tools.iter().map(|text| Pattern::of_names(text)).collect();
            for described in found.tools(&spec.name).iter().filter(|tool| include.iter().any(|pattern| pattern.names(&tool.name))) {
                let path = format!("{path}.{}", described.name);
                let taken = [&described.name]
                    .into_iter()
                    .any(|name| tools.contains_key(name) || runners.contains_key(name) || mcp.contains_key(name));
                name(&described.name, &path, taken, &mut problems);
                let input = match schema::compile(Some(&described.input_schema)) {
                    Ok(input) => input,
                    Err(kind) => {
                        // What is wrong with one tool does not stop the others.
                        tracing::warn!(tool = path, %kind, "a tool that cannot be called");
                        continue;
                    }
                };
                descriptions.push(ToolDescription {
                    name: described.name.clone(),
                    description: described.description.clone().unwrap_or_default(),
                    input: described.input_schema.clone(),
                    output: described.output_schema.clone().unwrap_or_else(|| json!({})),
                    approval: server.approval.is_some(),
                });
                let (server, read_only) = (Arc::clone(&server), described.annotations.read_only_hint);
                let asks = McpAsk::Tool(described.name.clone());
                mcp.insert(described.name.clone(), Arc::new(McpTool { server, asks, input, read_only }));
            }
            if spec.resources {
                for (ask, asks, description, input) in mcp::resource_tools() {
                    let tool = format!("{}.{ask}", spec.name);
                    let taken = tools.contains_key(&tool) || runners.contains_key(&tool) || mcp.contains_key(&tool);
                    name(&tool, &path, taken, &mut problems);
                    let Ok(validator) = schema::compile(Some(&input)) else { continue };
                    let (approval, server) = (server.approval.is_some(), Arc::clone(&server));
                    let (description, output) = (format!("{description} `{}`", spec.name), json!({}));
                    descriptions.push(ToolDescription { name: tool.clone(), description, input, output, approval });
                    mcp.insert(tool, Arc::new(McpTool { server, asks, input: validator, read_only: true }));
                }
            }
        }
        let knowledge = Bases::compile(&spec.knowledge, |name| found.base(name), secrets, &mut descriptions, &mut problems).map(Arc::new);
        let mut models = BTreeMap::new();
        for (index, model) in spec.models.iter().enumerate() {
            let path = format!("models[{index}]");
            name(&model.name, &path, models.contains_key(&model.name), &mut problems);
            let service = service::compile(&model.service(), &path, (secrets, names), &mut problems);
            models.insert(model.name.clone(), Arc::new(models::compile(model, service, &path, &mut problems)));
        }
        let hooks = spec.webhooks.iter().enumerate();
        let hooks =
            hooks.filter_map(|(index, hook)| Hook::compile(hook, &format!("webhooks[{index}]"), (secrets, names), &mut problems)).collect();
        let offload = spec.offload;
        limit(offload.threshold_bytes, BODY_BYTES_MAX, "offload.thresholdBytes".to_owned(), &mut problems);
        if offload.preview_chars > PREVIEW_CHARS_MAX {
            problems.push(Problem { path: "offload.previewChars".to_owned(), kind: ProblemKind::Limit(u64::from(PREVIEW_CHARS_MAX)) });
        }
        let egress = Arc::new(BrokerRules::compile(spec.egress.as_ref(), &mut problems));
        let modules = spec.modules.as_ref().and_then(|modules| Source::compile(modules, secrets, &mut problems)).map(Arc::new);
        if problems.is_empty() {
            Ok(Self { tools, services, mcp, models, runners, knowledge, descriptions, hooks: Arc::new(hooks), offload, egress, modules })
        } else {
            Err(ConfigError::Problems(problems))
        }
    }

    /// What a call names.
    pub(crate) fn callee(&self, tool: &str, args: &Value) -> Option<Callee> {
        match tool {
            LIST => Some(Callee::List),
            DECLARATIONS => Some(Callee::Declarations),
            SUB_LM => self.model(args).map(Callee::Model),
            SERVICE => {
                self.services.get(args.get("service")?.as_str()?).filter(|service| service.direct.is_some()).cloned().map(Callee::Service)
            }
            name if Verb::named(name).is_some() => {
                Verb::named(name).zip(self.knowledge.clone()).map(|(verb, bases)| Callee::Knowledge(bases, verb))
            }
            name => {
                let tool = self.tools.get(name).cloned().map(Callee::Tool);
                let tool = tool.or_else(|| self.mcp.get(name).cloned().map(Callee::Mcp));
                tool.or_else(|| self.runner(name).map(Callee::Runner))
            }
        }
    }

    /// The model that a question names.
    pub(crate) fn model(&self, args: &Value) -> Option<Arc<Model>> {
        models::named(&self.models, args)
    }

    pub(crate) fn runner(&self, name: &str) -> Option<Arc<RunnerTool>> {
        self.runners.get(name).cloned()
    }

    pub(crate) fn descriptions(&self) -> Vec<ToolDescription> {
        self.descriptions.clone()
    }
}

fn name(name: &str, path: &str, taken: bool, problems: &mut Vec<Problem>) {
    let kind = match (name.is_empty(), taken) {
        (true, _) => ProblemKind::NameMissing,
        (_, true) => ProblemKind::Duplicate(name.to_owned()),
        _ if [LIST, DECLARATIONS, SERVICE, SUB_LM, FETCH].contains(&name) || Verb::named(name).is_some() => {
            ProblemKind::Reserved(name.to_owned())
        }
        _ => return,
    };
    problems.push(Problem { path: format!("{path}.name"), kind });
}

fn compile_tool(spec: &ToolSpec, path: &str, services: &BTreeMap<String, Arc<Service>>, problems: &mut Vec<Problem>) -> Option<Tool> {
    let before = problems.len();
    let mut problem = |field: &str, kind| problems.push(Problem { path: format!("{path}.{field}"), kind });
    let service = services.get(&spec.service);
    if service.is_none() {
        problem("service", ProblemKind::UnknownService(spec.service.clone()));
    }
    let template = match Template::parse(&spec.path) {
        Ok(template) => Some(template),
        Err(message) => {
            problem("path", ProblemKind::Path(message));
            None
        }
    };
    if let (Some(service), Some(template)) = (service, &template) {
        // A path with arguments may be allowed for some of their values only, so it is judged call by call.
        if template.arguments().is_empty() && !service.allows_path(&spec.path) {
            problem("path", ProblemKind::PathNotAllowed(service.name.clone()));
        }
    }
    let input = schema::compile(spec.input.as_ref()).map_err(|kind| problem("input", kind)).ok();
    let output = schema::compile(spec.output.as_ref()).map_err(|kind| problem("output", kind)).ok().map(Some);
    let method = method(&spec.method, format!("{path}.method"), problems);
    if let (Some(service), Some(method)) = (service, &method)
        && !service.allows_method(method.as_str())
    {
        let kind = ProblemKind::MethodNotAllowed { service: service.name.clone(), method: method.to_string() };
        problems.push(Problem { path: format!("{path}.method"), kind });
    }
    let timeout = limit(spec.timeout_ms, TOOL_TIMEOUT_MS_MAX, format!("{path}.timeoutMs"), problems);
    let approval = Approval::compile(&spec.approval, path, problems);
    if problems.len() > before {
        return None;
    }
    Some(Tool {
        name: spec.name.clone(),
        method: method?,
        path: template?,
        timeout: Duration::from_millis(timeout),
        input: input?,
        output: output?.filter(|_| spec.output.is_some()),
        service: service?.clone(),
        limits: Limiter::new(&spec.limits),
        shape: None,
        source: None,
        description: ToolDescription {
            name: spec.name.clone(),
            description: spec.description.clone(),
            input: spec.input.clone().unwrap_or_else(|| json!({"type": "object"})),
            output: spec.output.clone().unwrap_or_else(|| json!({})),
            approval: approval.is_some(),
        },
        approval,
    })
}

/// The tools of a document: its operations that the service allows.
fn compile_document(
    source: &OpenApi,
    document: &Value,
    path: &str,
    services: &BTreeMap<String, Arc<Service>>,
    problems: &mut Vec<Problem>,
) -> Vec<Tool> {
    let Some(service) = services.get(&source.service) else {
        problems.push(Problem { path: format!("{path}.service"), kind: ProblemKind::UnknownService(source.service.clone()) });
        return Vec::new();
    };
    let include: Vec<Pattern> = source.include.iter().map(|text| Pattern::of_names(text)).collect();
    let (operations, mut left_out) = match openapi::operations(document, &include) {
        Ok(read) => read,
        Err(error) => {
            problems.push(Problem { path: format!("{path}.document"), kind: ProblemKind::Document(error.to_string()) });
            return Vec::new();
        }
    };
    let mut tools = Vec::new();
    for operation in operations {
        let Operation { name, description, method, path: template, input, output, shape } = operation;
        let fixed = !template.contains('{');
        if !service.allows_method(&method) || (fixed && !service.allows_path(&template)) {
            continue;
        }
        let (service, approval) = (source.service.clone(), source.approval.clone());
        let spec = ToolSpec {
            name,
            description,
            service,
            webhook: None,
            runner: None,
            method,
            path: template,
            input: Some(input),
            output: None,
            timeout_ms: source.timeout_ms,
            approval,
            limits: LimitsSpec::default(),
        };
        // What is wrong with one operation does not stop the others.
        let mut wrong = Vec::new();
        let compiled = compile_tool(&spec, &spec.name, services, &mut wrong);
        left_out.extend(wrong.iter().map(ToString::to_string));
        tools.extend(compiled.map(|tool| Tool {
            shape: Some(shape),
            source: Some(source.name.clone()),
            description: ToolDescription { output, ..tool.description.clone() },
            ..tool
        }));
    }
    if !left_out.is_empty() {
        tracing::warn!(openapi = source.name, ?left_out, "operations that cannot be tools");
    }
    tools
}
