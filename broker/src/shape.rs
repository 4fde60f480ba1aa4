//! Where the arguments of an operation go.

use std::collections::{BTreeMap, BTreeSet};

use reqwest::header::HeaderName;

/// The argument that is the request's body.
pub(crate) const BODY: &str = "body";

/// Where an operation's arguments go, beside those in its path.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Shape {
    pub(crate) query: BTreeSet<String>,
    pub(crate) headers: BTreeMap<String, HeaderName>,
    pub(crate) body: bool,
}
