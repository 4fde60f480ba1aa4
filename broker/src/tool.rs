//! A tool that is one request to a service, checked and compiled.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use dormouse_protocol::broker::ToolDescription;
use jsonschema::Validator;
use reqwest::{Method, header::HeaderName};

use crate::{approval::Approval, limits::Limiter, path::Template, service::Service};

/// The argument that is the request's body.
pub(crate) const BODY: &str = "body";

/// A tool.
#[derive(Debug)]
pub(crate) struct Tool {
    pub(crate) name: String,
    pub(crate) method: Method,
    pub(crate) path: Template,
    pub(crate) timeout: Duration,
    pub(crate) input: Validator,
    /// What its answers must fit, where its spec says something.
    pub(crate) output: Option<Validator>,
    pub(crate) service: Arc<Service>,
    pub(crate) approval: Option<Approval>,
    pub(crate) limits: Limiter,
    /// Where its arguments go, if it is an operation of OpenAPI.
    pub(crate) shape: Option<Shape>,
    /// The name of the document that it is of, if it is one.
    pub(crate) source: Option<String>,
    pub(crate) description: ToolDescription,
}

/// Where an operation's arguments go, beside those in its path.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Shape {
    pub(crate) query: BTreeSet<String>,
    pub(crate) headers: BTreeMap<String, HeaderName>,
    pub(crate) body: bool,
}
