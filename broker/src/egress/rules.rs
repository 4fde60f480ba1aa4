//! Whether a request may be made: a rule of the session and a rule of the broker must allow it.

use dormouse_crds::egress::{BrokerEgress, EgressRule};
use dormouse_protocol::ApiError;
use reqwest::{Method, Url};

use crate::{
    Problem, ProblemKind,
    approval::Approval,
    net::{Host, Names, Reach, denied, literal, unreachable_address},
    path::{self, Pattern},
};

/// Methods that rules may name.
const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
/// Rules that a session may bring.
const SESSION_RULES_MAX: usize = 64;

const BAD_HOST: &str = "must be a host name, an address, *.SUFFIX or *, with :PORT or :* behind it if need be";

/// One rule, compiled.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Rule {
    host: Host,
    port: Port,
    methods: Vec<String>,
    paths: Vec<Pattern>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Port {
    /// The scheme's own.
    Usual,
    Any,
    Exactly(u16),
}

/// What is wrong with a rule, and in which of its fields.
struct Fault {
    field: String,
    kind: ProblemKind,
}

impl Rule {
    fn compile(rule: &EgressRule) -> Result<Self, Fault> {
        let fault = |field: String, kind| Fault { field, kind };
        let (host, port) = parse_host(&rule.host).ok_or_else(|| fault("host".to_owned(), ProblemKind::Path(BAD_HOST)))?;
        for (index, method) in rule.methods.iter().enumerate() {
            if !METHODS.contains(&method.as_str()) {
                return Err(fault(format!("methods[{index}]"), ProblemKind::Method(method.clone())));
            }
        }
        let mut paths = Vec::new();
        for (index, path) in rule.paths.iter().enumerate() {
            paths.push(Pattern::parse(path).map_err(|message| fault(format!("paths[{index}]"), ProblemKind::Path(message)))?);
        }
        Ok(Self { host, port, methods: rule.methods.clone(), paths })
    }

    fn allows(&self, target: &Target<'_>) -> bool {
        let host = self.host.holds(target.host);
        let port = match self.port {
            Port::Usual => target.usual_port,
            Port::Any => true,
            Port::Exactly(port) => port == target.port,
        };
        host && port
            && self.methods.iter().any(|method| method == target.method.as_str())
            && self.paths.iter().any(|pattern| pattern.allows(&target.path))
    }
}

/// A host as a URL shows it, and which ports.
fn parse_host(text: &str) -> Option<(Host, Port)> {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => {
            let port = if port == "*" { Port::Any } else { Port::Exactly(port.parse().ok().filter(|port| *port > 0)?) };
            (host, port)
        }
        _ => (text, Port::Usual),
    };
    if host == "*" {
        return Some((Host::Any, port));
    }
    let (suffix, name) = host.strip_prefix("*.").map_or((false, host), |name| (true, name));
    if name.is_empty() || name.contains(['/', '?', '#', '@', '*', '\\', '%']) || name.starts_with('.') {
        return None;
    }
    let url = Url::parse(&format!("http://{name}/")).ok()?;
    let name = plain_host(url.host_str()?);
    match suffix {
        false => Some((Host::Exactly(name.to_owned()), port)),
        true if literal(name).is_none() => Some((Host::Below(format!(".{name}")), port)),
        true => None,
    }
}

/// Without the dot that a full name may end in.
fn plain_host(host: &str) -> &str {
    host.strip_suffix('.').unwrap_or(host)
}

/// What of a request rules look at.
struct Target<'a> {
    host: &'a str,
    port: u16,
    usual_port: bool,
    method: &'a Method,
    path: path::Spelled<'a>,
}

impl<'a> Target<'a> {
    fn of(url: &'a Url, method: &'a Method) -> Result<Self, &'static str> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err("only http and https URLs can be fetched");
        }
        let (Some(host), Some(port)) = (url.host_str(), url.port_or_known_default()) else { return Err("the URL has no host") };
        if !url.username().is_empty() || url.password().is_some() {
            return Err("a URL that is fetched must not hold a user or a password");
        }
        let path = path::Spelled::of(url.path());
        if !path.is_plain() {
            return Err("a path must not hold encoded dot segments or control characters");
        }
        Ok(Self { host: plain_host(host), port, usual_port: url.port().is_none(), method, path })
    }
}

/// What a broker lets through, compiled.
#[derive(Debug, Default)]
pub(crate) struct BrokerRules {
    rules: Vec<BrokerRule>,
}

#[derive(Debug)]
struct BrokerRule {
    rule: Rule,
    reach: Reach,
    /// When a request waits for a person.
    approval: Option<Approval>,
}

impl BrokerRules {
    /// Compiles the rules; what is wrong with them goes to `problems`.
    pub(crate) fn compile(egress: Option<&BrokerEgress>, problems: &mut Vec<Problem>) -> Self {
        let mut rules = Vec::new();
        for (index, spec) in egress.iter().flat_map(|egress| &egress.allow).enumerate() {
            let approval = Approval::compile(&spec.approval, &format!("egress.allow[{index}]"), problems);
            match Rule::compile(&spec.rule()) {
                Ok(rule) if spec.private && rule.host == Host::Any => {
                    let kind = ProblemKind::Path("must be left out of a rule for every host: name the host that may be private");
                    problems.push(Problem { path: format!("egress.allow[{index}].private"), kind });
                }
                Ok(rule) => rules.push(BrokerRule { rule, reach: if spec.private { Reach::Private } else { Reach::Public }, approval }),
                Err(fault) => problems.push(Problem { path: format!("egress.allow[{index}].{}", fault.field), kind: fault.kind }),
            }
        }
        Self { rules }
    }

    /// Says which names may have private addresses in the ToolBroker's own URLs, too.
    pub(crate) fn tell(&self, names: &Names) {
        names.set(self.rules.iter().filter(|it| it.reach == Reach::Private).map(|it| it.rule.host.clone()).collect());
    }

    /// Which addresses a message may go to whose URL a tenant's cell names: public ones, and those of a rule that says `private: true`.
    ///
    /// # Errors
    /// `EgressDenied`: the URL spells another address, or cannot be fetched at all.
    pub(crate) fn reach_of(&self, url: &Url, method: &Method) -> Result<Reach, ApiError> {
        let target = Target::of(url, method).map_err(denied)?;
        let named = self.rules.iter().filter(|it| it.rule.allows(&target)).map(|it| it.reach).max();
        let reach = named.unwrap_or(Reach::Public);
        match literal(target.host) {
            Some(address) if !reach.holds(address) => Err(unreachable_address()),
            _ => Ok(reach),
        }
    }
}

/// Both lists.
#[derive(Debug)]
pub(crate) struct Judge {
    session: Vec<Rule>,
    broker: std::sync::Arc<BrokerRules>,
}

impl Judge {
    pub(crate) fn new(allow: &[EgressRule], broker: std::sync::Arc<BrokerRules>) -> Result<Self, ApiError> {
        if allow.len() > SESSION_RULES_MAX {
            return Err(denied(format!("spec.egress.allow of the session holds more than {SESSION_RULES_MAX} rules")));
        }
        let mut session = Vec::new();
        for (index, rule) in allow.iter().enumerate() {
            let compiled = Rule::compile(rule)
                .map_err(|fault| denied(format!("spec.egress.allow[{index}].{} of the session: {}", fault.field, fault.kind)))?;
            session.push(compiled);
        }
        Ok(Self { session, broker })
    }

    /// Which addresses the request may go to.
    ///
    /// # Errors
    /// `EgressDenied`, with the list that does not hold it.
    pub(crate) fn judge(&self, url: &Url, method: &Method) -> Result<Reach, ApiError> {
        let target = Target::of(url, method).map_err(denied)?;
        let what = || format!("{method} {}", url.origin().ascii_serialization());
        if !self.session.iter().any(|rule| rule.allows(&target)) {
            return Err(denied(format!("no rule of the session's spec.egress.allow holds this request ({})", what())));
        }
        let reach = self.broker.rules.iter().filter(|it| it.rule.allows(&target)).map(|it| it.reach).max();
        let reach =
            reach.ok_or_else(|| denied(format!("no rule of the ToolBroker's spec.egress.allow holds this request ({})", what())))?;
        match literal(target.host) {
            Some(address) if !reach.holds(address) => Err(unreachable_address()),
            _ => Ok(reach),
        }
    }
}

impl BrokerRules {
    /// When a request waits for a person, by all rules that hold it.
    pub(crate) fn approvals<'a>(&'a self, url: &Url, method: &Method) -> Vec<&'a Approval> {
        let Ok(target) = Target::of(url, method) else { return Vec::new() };
        self.rules.iter().filter(|it| it.rule.allows(&target)).filter_map(|it| it.approval.as_ref()).collect()
    }
}

impl Judge {
    /// Whether somebody would have to agree to a request that a redirect asks for: nobody has seen that one.
    pub(crate) fn wants_somebody(&self, url: &Url, method: &Method, described: &serde_json::Value) -> bool {
        self.broker.approvals(url, method).into_iter().any(|approval| approval.wants(described))
    }
}

#[cfg(test)]
#[path = "rules_tests.rs"]
mod tests;
