//! A service of a ToolBroker, checked and compiled.

use std::{collections::BTreeSet, time::Duration};

use backon::{BackoffBuilder as _, ExponentialBuilder};
use dormouse_crds::{
    service::{BODY_BYTES_MAX, REQUEST_BYTES_MAX, Service as ServiceSpec},
    tools::{TOOL_TIMEOUT_MS_DEFAULT, TOOL_TIMEOUT_MS_MAX},
};
use dormouse_service::{url, wire::Http};
use reqwest::Method;

use crate::{
    Problem, ProblemKind, SecretError, Secrets,
    approval::Approval,
    breaker::Breaker,
    credential::Authentication,
    limits::Limiter,
    net::Names,
    path::{Pattern, Spelled},
    tls_client::TlsClient,
};

/// How cells may call a service without a tool.
#[derive(Debug)]
pub(crate) struct Direct {
    pub(crate) approval: Option<Approval>,
    pub(crate) timeout: Duration,
}

/// Methods that tools may use.
const METHODS: [Method; 6] = [Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::PATCH, Method::DELETE];

/// A service.
#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) name: String,
    /// Without a slash at the end.
    pub(crate) base_url: String,
    pub(crate) authentication: Authentication,
    /// Its own client, where its TLS has certificates of its own.
    tls: Option<TlsClient>,
    methods: BTreeSet<String>,
    paths: Vec<Pattern>,
    pub(crate) request_bytes_max: usize,
    pub(crate) response_bytes_max: usize,
    /// Whether it makes two requests of one idempotency key once.
    pub(crate) honours_idempotency_key: bool,
    pub(crate) direct: Option<Direct>,
    pub(crate) limits: Limiter,
    pub(crate) breaker: Breaker,
    retries: usize,
}

/// The first wait before a call is repeated; each further one is twice as long.
const RETRY_FIRST: Duration = Duration::from_millis(100);
/// The longest.
const RETRY_WAIT_MAX: Duration = Duration::from_secs(10);

impl Service {
    /// What reaches it.
    pub(crate) fn http(&self, shared: &Http, secrets: &Secrets) -> Result<Http, SecretError> {
        self.tls.as_ref().map_or_else(|| Ok(shared.clone()), |tls| tls.http(secrets))
    }

    /// The method of this name, if cells may use it.
    pub(crate) fn allowed_method(&self, name: &str) -> Option<Method> {
        METHODS.iter().find(|method| method.as_str() == name && self.methods.contains(name)).cloned()
    }

    /// The waits between the attempts of one call, each up to twice as long as its turn, so that callers do not come together.
    pub(crate) fn waits(&self) -> impl Iterator<Item = Duration> + use<> {
        ExponentialBuilder::default()
            .with_min_delay(RETRY_FIRST)
            .with_max_delay(RETRY_WAIT_MAX)
            .with_max_times(self.retries)
            .with_jitter()
            .build()
    }

    pub(crate) fn allows_method(&self, name: &str) -> bool {
        self.methods.contains(name)
    }

    pub(crate) fn allows_path(&self, path: &str) -> bool {
        let path = Spelled::of(path);
        self.paths.iter().any(|pattern| pattern.matches(&path))
    }
}

/// A number from 1 to `max`.
pub(crate) fn limit(value: u64, max: u64, path: String, problems: &mut Vec<Problem>) -> u64 {
    if value == 0 || value > max {
        problems.push(Problem { path, kind: ProblemKind::Limit(max) });
    }
    value.min(max)
}

/// One of [`METHODS`].
pub(crate) fn method(text: &str, path: String, problems: &mut Vec<Problem>) -> Option<Method> {
    let found = METHODS.iter().find(|method| method.as_str() == text).cloned();
    if found.is_none() {
        problems.push(Problem { path, kind: ProblemKind::Method(text.to_owned()) });
    }
    found
}

/// A service as its spec has it; what is wrong with it goes to `problems`. Metadata of clouds are no base URL ([`url::plain`]).
pub(crate) fn compile(spec: &ServiceSpec, path: &str, (secrets, names): (&Secrets, &Names), problems: &mut Vec<Problem>) -> Service {
    if url::plain(&spec.base_url).is_none() {
        problems.push(Problem { path: format!("{path}.baseUrl"), kind: ProblemKind::BaseUrl });
    }
    let authentication = Authentication::check(&spec.name, &spec.auth, &spec.secret_headers, path, secrets, problems);
    // Nothing is served with a problem; one that is wrong stays known, so that its tools are not wrong for it.
    let authentication = authentication.unwrap_or_default().for_sessions(&spec.session_secrets, path, problems);
    let tls = spec.tls.as_ref().and_then(|tls| TlsClient::check(tls, &format!("{path}.tls"), (secrets, names), problems));
    let direct = spec.direct.as_ref().map(|direct| {
        let path = format!("{path}.direct");
        let timeout =
            limit(direct.timeout_ms.unwrap_or(TOOL_TIMEOUT_MS_DEFAULT), TOOL_TIMEOUT_MS_MAX, format!("{path}.timeoutMs"), problems);
        Direct { approval: Approval::compile(&direct.approval, &path, problems), timeout: Duration::from_millis(timeout) }
    });
    let mut methods = BTreeSet::new();
    for (index, text) in spec.allowed_methods.iter().enumerate() {
        methods.extend(method(text, format!("{path}.allowedMethods[{index}]"), problems).map(|method| method.to_string()));
    }
    let mut paths = Vec::new();
    for (index, text) in spec.allowed_paths.iter().enumerate() {
        match Pattern::parse(text) {
            Ok(pattern) => paths.push(pattern),
            Err(message) => {
                problems.push(Problem { path: format!("{path}.allowedPaths[{index}]"), kind: ProblemKind::Path(message) });
            }
        }
    }
    let request = limit(spec.request_bytes_max, REQUEST_BYTES_MAX, format!("{path}.requestBytesMax"), problems);
    let response = limit(spec.response_bytes_max, BODY_BYTES_MAX, format!("{path}.responseBytesMax"), problems);
    Service {
        name: spec.name.clone(),
        base_url: spec.base_url.trim_end_matches('/').to_owned(),
        authentication,
        tls,
        methods,
        paths,
        request_bytes_max: usize::try_from(request).unwrap_or(usize::MAX),
        response_bytes_max: usize::try_from(response).unwrap_or(usize::MAX),
        honours_idempotency_key: spec.honours_idempotency_key,
        direct,
        limits: Limiter::new(&spec.limits),
        breaker: Breaker::new(spec.breaker),
        retries: usize::try_from(spec.retries).unwrap_or(usize::MAX),
    }
}
