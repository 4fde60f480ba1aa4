//! What can be wrong with a ToolBroker, each problem with the path of the field.

use crate::SecretError;

/// A ToolBroker that cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// Everything that is wrong with the spec and its Secrets.
    #[error("{}", join(.0))]
    Problems(Vec<Problem>),
    /// The file is not a ToolBroker's spec.
    #[error("the configuration is not a ToolBroker's spec: {0}")]
    Yaml(#[from] yaml_serde::Error),
    /// The file cannot be read.
    #[error("the configuration cannot be read: {0}")]
    Read(#[from] std::io::Error),
    /// The HTTP client cannot be made.
    #[error("HTTP client: {0}")]
    Http(#[from] reqwest::Error),
    /// The metrics cannot be registered.
    #[error("metrics: {0}")]
    Metrics(#[from] prometheus::Error),
}

fn join(problems: &[Problem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// One thing that is wrong.
#[derive(Debug, thiserror::Error)]
#[error("spec.{path}: {kind}")]
pub struct Problem {
    /// The field, as in `tools[0].path`.
    pub path: String,
    /// What is wrong with it.
    pub kind: ProblemKind,
}

/// What is wrong with a field.
#[derive(Debug, thiserror::Error)]
pub enum ProblemKind {
    /// A name is empty.
    #[error("a name is needed")]
    NameMissing,
    /// A name occurs twice.
    #[error("`{0}` is defined twice")]
    Duplicate(String),
    /// A name means something else.
    #[error("`{0}` has a meaning of its own: write another name")]
    Reserved(String),
    /// A tool refers to a service that is not there.
    #[error("there is no service `{0}`")]
    UnknownService(String),
    /// A base URL is not one.
    #[error("must be an http or https URL without query, fragment or credentials")]
    BaseUrl,
    /// A method is not one of ours.
    #[error("`{0}` is not one of GET, HEAD, POST, PUT, PATCH, DELETE (and OPTIONS, of fetches)")]
    Method(String),
    /// A tool's method is not allowed by its service.
    #[error("the service `{service}` does not allow {method}: add it to its allowedMethods")]
    MethodNotAllowed {
        /// The service.
        service: String,
        /// The method.
        method: String,
    },
    /// A path or a pattern is not one.
    #[error("{0}")]
    Path(&'static str),
    /// A tool's path can never be reached.
    #[error("the service `{0}` does not allow this path: add a pattern to its allowedPaths")]
    PathNotAllowed(String),
    /// A JSON Schema is not one.
    #[error("not a JSON Schema that can be used: {0}")]
    Schema(String),
    /// An expression is none.
    #[error("not a CEL expression that can be used: {0}")]
    Expression(String),
    /// A document that tools cannot be made of.
    #[error("{0}")]
    Document(String),
    /// An amount of money is none.
    #[error("must be an amount: digits, and up to six behind a point")]
    Amount,
    /// A limit is zero or too large.
    #[error("must be between 1 and {0}")]
    Limit(u64),
    /// An auth scheme needs a field that is not there.
    #[error("is needed for `{0}`")]
    AuthFieldMissing(&'static str),
    /// Certificates that are none.
    #[error("{0}")]
    Certificates(String),
    /// A header cannot carry a credential.
    #[error("`{0}` is not a header that may carry a credential")]
    Header(String),
    /// A credential cannot be used.
    #[error(transparent)]
    Secret(SecretError),
}
