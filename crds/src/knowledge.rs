//! Documents that sessions may search and read.

use serde::{Deserialize, Serialize};

use crate::{
    KeyRef,
    service::{SecretHeader, Service},
};

/// Documents of a base at most; further ones are left out.
pub const DOCUMENTS_MAX: usize = 2_000;
/// Largest document, in bytes.
pub const KNOWLEDGE_DOCUMENT_BYTES_MAX: usize = 4 << 20;
/// Bytes of all documents of a ToolBroker.
pub const KNOWLEDGE_BYTES_MAX: usize = 64 << 20;

/// A base of documents: text, Markdown, HTML, CSV, Word (`.docx`) or PDF, by how their names end. It is in one of three places.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "kubernetes", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "kubernetes", schemars(extend("x-kubernetes-validations" = rules::knowledge())))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Knowledge {
    /// Name, as cells write it.
    #[cfg_attr(feature = "kubernetes", schemars(length(min = 1, max = 63)))]
    pub name: String,
    /// What it is about, for people and models.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[cfg_attr(feature = "kubernetes", schemars(length(max = 4096)))]
    pub description: String,
    /// A ConfigMap of the namespace: each of its keys is a document, or the one that is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_map_ref: Option<KeyRef>,
    /// In the bucket of the journal: what is below `t/NAMESPACE/knowledge/PREFIX/`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "kubernetes", schemars(length(min = 1, max = 256)))]
    pub prefix: Option<String>,
    /// At these `http` or `https` URLs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "kubernetes", schemars(length(max = 64), inner(length(max = 2048))))]
    pub urls: Vec<String>,
    /// Headers with which each of `urls` is asked for, whose values are secret.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(
        feature = "kubernetes",
        schemars(length(max = 8), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))
    )]
    pub secret_headers: Vec<SecretHeader>,
}

impl Knowledge {
    /// What its URLs are asked for with, as a service; `None` where they need no secret.
    #[must_use]
    pub fn service(&self) -> Option<Service> {
        let url = self.urls.first().filter(|_| !self.secret_headers.is_empty())?;
        Some(Service { secret_headers: self.secret_headers.clone(), ..Service::at(&format!("knowledge:{}", self.name), url) })
    }

    /// Whether the prefix is names with `/` between them, none of which begins with a dot.
    #[must_use]
    pub fn has_plain_prefix(&self) -> bool {
        let plain = |part: &str| {
            let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
            !part.is_empty() && !part.starts_with('.') && part.bytes().all(fits)
        };
        self.prefix.as_ref().is_none_or(|prefix| prefix.split('/').all(plain))
    }
}

/// What an API server refuses.
#[cfg(feature = "kubernetes")]
mod rules {
    use serde_json::Value;

    use crate::rules::{rule, rules};

    pub(super) fn knowledge() -> Value {
        rules([
            rule(
                "[has(self.configMapRef), has(self.prefix), has(self.urls) && self.urls.size() > 0].filter(it, it).size() == 1",
                "a base of documents is in one place: write configMapRef, prefix or urls",
            ),
            rule(
                "!has(self.prefix) || self.prefix.matches('^[A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*$')",
                "prefix: write names of letters, digits, '-', '_' and '.' that begin with no '.', with '/' between them",
            ),
            rule("!has(self.urls) || self.urls.all(u, u.matches('^https?://'))", "urls: write http:// or https:// URLs"),
            rule("!has(self.secretHeaders) || has(self.urls)", "secretHeaders: only urls are asked for with headers"),
        ])
    }
}
